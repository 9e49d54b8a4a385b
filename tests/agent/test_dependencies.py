"""The order in which agents start, and what is said of those that cannot."""

from __future__ import annotations

import itertools

import pytest

from metier.agent import AgentFailure, Manifest, start_order


def agents(**depends_on: str) -> list[Manifest]:
    """Agents by id, each with the ids that it depends on."""
    return [Manifest(id=name, name=name, depends_on=tuple(others.split())) for name, others in depends_on.items()]


def ids(manifests: tuple[Manifest, ...]) -> str:
    return " ".join(manifest.id for manifest in manifests)


@pytest.mark.covers("Y-32")
def test_an_agent_starts_after_what_it_depends_on() -> None:
    order, failures = start_order(agents(a="c", b="", c="b", d="a b"))
    assert (ids(order), failures) == ("b c a d", {})


@pytest.mark.covers("Y-32")
def test_the_order_does_not_depend_on_the_order_of_declaration() -> None:
    declared = agents(a="c", b="", c="", d="", e="b")
    orders = {ids(start_order(shuffled)[0]) for shuffled in itertools.permutations(declared)}
    assert orders == {"b c a d e"}


@pytest.mark.covers("Y-32")
def test_a_missing_dependency_is_named_and_hides_nobody_else() -> None:
    order, failures = start_order(agents(clerk="archiv", archive="", other=""))
    assert ids(order) == "archive other"
    failure = failures["clerk"]
    assert (failure.reason, failure.chain) == ("missing-dependency", ("clerk", "archiv"))
    assert failure.message == "Agent 'clerk' depends on 'archiv', which is not here."
    assert "Did you mean 'archive'?" in failure.hint


@pytest.mark.covers("Y-32")
def test_those_who_depend_on_one_that_cannot_start_cannot_either() -> None:
    order, failures = start_order(agents(a="b", b="c", c="gone", d=""))
    assert ids(order) == "d"
    assert failures.keys() == {"a", "b", "c"}
    assert failures["a"].reason == "failed-dependency"
    assert failures["a"].message == "Agent 'a' depends on 'gone' (a -> b -> c -> gone), which is not here."


@pytest.mark.covers("Y-32")
def test_a_cycle_is_named_in_full() -> None:
    order, failures = start_order(agents(a="b", b="c", c="a", d="a", e=""))
    assert ids(order) == "e"
    assert failures["a"].reason == failures["b"].reason == failures["c"].reason == "cycle"
    assert failures["b"].message == "Agent 'b' depends on itself: b -> c -> a -> b."
    assert failures["d"].reason == "failed-dependency"
    assert "d -> a -> b -> c -> a" in failures["d"].message


@pytest.mark.covers("Y-32")
def test_an_agent_that_names_itself_is_a_cycle() -> None:
    assert start_order(agents(a="a"))[1]["a"].message == "Agent 'a' depends on itself: a -> a."


@pytest.mark.covers("Y-32")
def test_a_dependency_that_is_known_to_be_broken_says_why() -> None:
    broken = AgentFailure(id="b", reason="invalid", message="agents/b: it is empty.", hint="Fill it.")
    failure = start_order(agents(a="b"), {"b": broken})[1]["a"]
    assert failure.reason == "failed-dependency"
    assert failure.message == "Agent 'a' depends on 'b', which cannot be used: agents/b: it is empty."
    assert failure.hint == "Fill it."


def test_a_long_chain_takes_no_stack_and_is_not_drawn_in_full() -> None:
    names = [f"a{number:04}" for number in range(300)]
    chain = dict(itertools.pairwise(names))
    order, _ = start_order(agents(**chain, **{names[-1]: ""}))
    assert ids(order) == " ".join(reversed(names))
    _, failures = start_order(agents(**chain, **{names[-1]: names[0]}))
    assert len(failures) == len(names)
    assert len(failures[names[0]].message) < 300
