"""Skills activated inside one another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Policy, Session
from metier.errors import ActivationFailed, MetierError, Refused, SkillNotFound
from metier.guard import MemoryLog

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


def active(session: Session) -> list[str]:
    return [one.name for one in session.active]


@pytest.fixture
def session(begin: Begin, skill: Files) -> Session:
    """Eight skills, none of them loaded."""
    return begin(*(skill(name) for name in "abcdefgh"))


@pytest.mark.covers("O-38")
def test_the_innermost_ends_first(session: Session) -> None:
    assert not session.parts.loader.activations
    assert session.parts.loader.activate("a").name == "a"
    session.parts.loader.activate("b")
    assert (session.parts.loader.activations, active(session), session.loaded.one().name) == (
        ("a", "b"),
        ["a", "b"],
        "b",
    )
    with pytest.raises(ActivationFailed, match="not at top of stack"):
        session.parts.loader.deactivate("a")
    session.parts.loader.deactivate("b")
    assert (session.parts.loader.activations, session.loaded.one().name) == (("a",), "a")
    session.parts.loader.deactivate("a")
    assert (session.parts.loader.activations, active(session)) == ((), [])


@pytest.mark.covers("O-38")
@pytest.mark.parametrize("name", ["a", "zz", "", "../x"])
def test_what_is_not_activated_cannot_be_deactivated(session: Session, name: str) -> None:
    with pytest.raises(ActivationFailed):
        session.parts.loader.deactivate(name)


@pytest.mark.covers("O-38", "O-103")
@pytest.mark.parametrize("again", ["a", "A", "a@memory"])
def test_a_cycle_is_refused_and_named(session: Session, again: str) -> None:
    session.parts.loader.activate("a")
    session.parts.loader.activate("b")
    with pytest.raises(ActivationFailed, match="a -> b -> a is a cycle"):
        session.parts.loader.activate(again)
    assert (session.parts.loader.activations, active(session)) == (("a", "b"), ["a", "b"])


@pytest.mark.covers("O-103")
def test_more_than_five_deep_is_refused(session: Session) -> None:
    for name in "abcde":
        session.parts.loader.activate(name)
    with pytest.raises(ActivationFailed, match="more than 5 deep: a -> b -> c -> d -> e -> f"):
        session.parts.loader.activate("f")
    assert session.parts.loader.activations == tuple("abcde")
    session.parts.loader.deactivate("e")
    session.parts.loader.activate("f")


def test_what_was_loaded_before_stays_loaded(session: Session) -> None:
    session.load("a")
    with session.parts.loader.activation("a"):
        assert active(session) == ["a"]
    assert active(session) == ["a"]


def test_an_activation_ends_whatever_happens_and_takes_the_inner_ones_along(session: Session, log: MemoryLog) -> None:
    with pytest.raises(RuntimeError), session.parts.loader.activation("a"):
        session.parts.loader.activate("b")
        session.parts.loader.activate("c")
        raise RuntimeError
    assert (session.parts.loader.activations, active(session)) == ((), [])
    assert [one.skill for one in log.records if one.event == "unload"] == ["c", "b", "a"]


def test_an_activation_whose_skill_was_unloaded_inside_ends_quietly(session: Session) -> None:
    with session.parts.loader.activation("a"), session.parts.loader.activation("b"):
        session.unload(all=True)
    assert (session.parts.loader.activations, active(session)) == ((), [])


def test_an_activation_in_a_session_that_was_closed_inside_ends_quietly(session: Session) -> None:
    with session.parts.loader.activation("a"):
        session.close()
    assert session.context.is_closed


@pytest.mark.covers("G-24")
def test_a_skill_that_was_removed_meanwhile_can_be_deactivated(
    begin_in: Begin, write_skill: Callable[..., Path], tmp_path: Path
) -> None:
    file = write_skill(tmp_path / "s" / "a")
    write_skill(tmp_path / "s" / "b")
    session = begin_in(tmp_path / "s")
    session.parts.loader.activate("a")
    file.unlink()
    session.library.refresh()
    session.parts.loader.deactivate("a")
    assert session.parts.loader.activations == ()


@pytest.mark.parametrize(("name", "error"), [("zz", SkillNotFound), ("b", Refused)])
def test_an_activation_that_fails_leaves_nothing_on_the_stack(
    begin: Begin, skill: Files, name: str, error: type[MetierError]
) -> None:
    session = begin(skill("a"), skill("b"), policy=Policy(blocked=["b"]))
    session.parts.loader.activate("a")
    with pytest.raises(error):
        session.parts.loader.activate(name)
    assert session.parts.loader.activations == ("a",)


@pytest.mark.covers("O-40")
def test_rules_of_all_on_the_stack_hold(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", more="allowed-tools: Read, Grep\n"), skill("b", more="allowed-tools: Read, Write\n"))
    with session.parts.loader.activation("a"):
        assert session.may_call("Grep", {})
        with session.parts.loader.activation("b"):
            assert [tool for tool in ("Read", "Grep", "Write") if session.may_call(tool, {})] == ["Read"]
        assert session.may_call("Grep", {})
    assert session.may_call("Write", {})


def test_of_many_threads_one_activates(session: Session) -> None:
    start = threading.Barrier(8)
    outcomes: list[str] = []

    def activate() -> None:
        start.wait()
        try:
            session.parts.loader.activate("a")
            outcomes.append("activated")
        except ActivationFailed:
            outcomes.append("refused")

    threads = [threading.Thread(target=activate) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["activated"] + ["refused"] * 7
    session.parts.loader.deactivate("a")
    assert active(session) == []
