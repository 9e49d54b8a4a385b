"""Why something is allowed, asked about or denied."""

from __future__ import annotations

from typing import Any

import pytest

from metier.guard import Action, Actor, Guard, MemoryLog, Policy, Subject
from metier.guard.explanation import Explanation, explain
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies


def explained(action: Action, *texts: tuple[Any, str], policy: Policy | None = None) -> Explanation:
    governance = Governance(Policies(texts=texts), store=None)
    log = MemoryLog()
    found = explain(Guard(policy, governance=governance, audit=log), action, Actor())
    assert list(log.records) == []
    return found


MINER = Action(point="load", skill=Subject(name="miner", source="acme", layer="project"))
INSTALL = Action(point="install", skill=Subject(name="pdf"), source="git+https://github.com/acme/pdf")


def test_what_nothing_is_against_is_allowed() -> None:
    found = explained(MINER, ("enterprise", "version: 1"))
    assert (found.outcome, found.considered) == ("allow", ())


@pytest.mark.covers("A-3")
def test_the_line_of_the_administrator_is_named_whatever_a_project_adds() -> None:
    found = explained(
        INSTALL,
        ("enterprise", "version: 1\nsources:\n  allow: ['dir:*']"),
        ("project", "sources: {allow: ['git+https://github.com/acme/*']}"),
    )
    assert found.outcome == "deny"
    assert "<enterprise policy 1>:3 (enterprise)" in found.rule


@pytest.mark.covers("A-4")
def test_an_empty_list_of_sources_denies_every_installation() -> None:
    assert explained(INSTALL, ("enterprise", "version: 1")).outcome == "allow"
    assert explained(INSTALL, ("enterprise", "sources: {allow: []}")).outcome == "deny"


@pytest.mark.covers("A-6")
def test_a_broken_file_denies_with_the_place_of_its_error() -> None:
    found = explained(MINER, ("enterprise", "mode: enforce\non-error: deny\nskills: [\n"))
    assert found.outcome == "deny"
    assert "<enterprise policy 1>:3" in found.rule


@pytest.mark.covers("A-6")
def test_a_broken_file_that_only_watches_says_what_it_would_do() -> None:
    found = explained(MINER, ("enterprise", "mode: audit\nskills: [\n"))
    assert (found.outcome, found.would, found.mode) == ("allow", "deny", "audit")
    assert "<enterprise policy 1>:2" in found.rule


def test_what_is_only_watched_says_what_would_have_denied_it_and_what_to_do() -> None:
    found = explained(MINER, ("enterprise", "mode: audit\nskills:\n  deny: [miner]\n"))
    enforced = explained(MINER, ("enterprise", "mode: enforce\nskills:\n  deny: [miner]\n"))
    assert (found.outcome, found.would) == ("allow", "deny")
    assert (found.reason, found.rule, found.hint) == (enforced.reason, enforced.rule, enforced.hint)


@pytest.mark.each(
    ("own", "outcome", "begins"),
    [(Policy(), "allow", "Policy only watches"), (Policy(ask="WebFetch"), "ask", "Policy says to ask")],
)
def test_a_decision_that_is_only_watched_names_what_it_would_be_and_why(own: Policy, outcome: str, begins: str) -> None:
    files = Policies(texts=[("enterprise", "mode: audit\ntools:\n  deny: [WebFetch]\n")])
    guard = Guard(own, governance=Governance(files, store=None), audit=MemoryLog())
    found = guard.decide(Action(point="call", tool="WebFetch"), Actor())
    assert (found.outcome, found.would) == (outcome, "deny")
    assert found.reason.startswith(begins)
    assert "would be denied: Policy forbids this use of tool 'WebFetch'" in found.reason
    assert outcome == "ask" or found.rule == "tools: deny WebFetch (<enterprise policy 1>:3 (enterprise))"


def test_everything_that_has_a_say_is_told_in_order() -> None:
    found = explained(
        MINER,
        ("enterprise", "skills: {deny: ['mine*']}"),
        ("project", "rules: [{id: R1, point: activate, effect: ask}]"),
    )
    assert found.outcome == "deny"
    assert [(one.check.split()[0], one.outcome) for one in found.considered] == [
        ("skills.deny", "deny"),
        ("rule", "ask"),
    ]


def test_what_a_program_itself_is_against_is_told_first() -> None:
    call = Action(point="call", tool="WebFetch")
    found = explained(call, ("enterprise", "tools: {ask: [WebFetch]}"), policy=Policy(deny="WebFetch"))
    assert (found.outcome, found.rule) == ("deny", "policy: deny WebFetch")
    assert [one.outcome for one in found.considered] == ["deny", "ask"]


def test_an_explanation_as_json_names_file_and_line() -> None:
    found = explained(MINER, ("enterprise", "skills:\n  deny: [miner]")).as_dict()
    [considered] = found["considered"]
    assert considered["origin"] == {
        "layer": "enterprise",
        "path": "<enterprise policy 1>",
        "line": 2,
        "key": "skills.deny",
    }
    assert found["policy"].startswith("sha256:")
