"""The rules of policy files: what they are about, when they hold, and what is made of those that are broken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.guard.policy_probes import known

from metier.guard.decision import Actor, Subject
from metier.guard.policy.file import PolicyFile
from metier.guard.policy.reader import parse_policy
from metier.guard.policy.rules import PolicyRule
from metier.skill.names import names_skill

PDF = Subject(name="pdf", source="acme-tools", layer="plugin", trusted=True)


def parsed(*rules: str) -> PolicyFile:
    return parse_policy("rules:\n" + "".join(f"  - {rule}\n" for rule in rules), "policy.yaml", "enterprise")


def rule(text: str) -> PolicyRule:
    file = parsed(text)
    assert [str(problem) for problem in file.problems] == []
    [found] = file.settings["rules"]
    assert isinstance(found, PolicyRule)
    return found


def applies(text: str, point: str = "activate", subject: Subject | None = PDF, **more: Any) -> bool:
    found, facts = rule(text), known(point, subject, **more)
    return found.is_about(facts) and found.holds(facts)


ABOUT = [
    ("{effect: ask}", {}, True),
    ("{point: activate, effect: ask}", {}, True),
    ("{point: load, effect: ask}", {}, True),
    ("{point: [run, install], effect: ask}", {}, False),
    ("{point: [run, install], effect: ask}", {"point": "script-run"}, True),
    ("{layer: plugin, effect: ask}", {}, True),
    ("{layer: [project, personal], effect: ask}", {}, False),
    ("{layer: plugin, effect: ask}", {"subject": None}, False),
    ("{skill: pdf, effect: ask}", {}, True),
    ('{skill: "pd*", effect: ask}', {}, True),
    ('{skill: "*@acme-*", effect: ask}', {}, True),
    ('{skill: "*@other", effect: ask}', {}, False),
    ('{source: "acme-*", effect: ask}', {}, True),
    ('{source: "git+https://x.test/*", effect: ask}', {"point": "install", "source": "git+https://x.test/a"}, True),
    ('{source: "git+https://x.test/*", effect: ask}', {}, False),
    ("{agent: clerk, effect: ask}", {"actor": Actor(agent="clerk")}, True),
    ("{agent: clerk, effect: ask}", {}, False),
    ('{tenant: "north-*", effect: ask}', {"actor": Actor(tenant="north-1")}, True),
    ("{environment: production, effect: ask}", {"environment": "production"}, True),
    ("{environment: production, effect: ask}", {"environment": "test"}, False),
    ("{when: {trusted: false}, effect: ask}", {}, False),
    ("{when: {trusted: true}, effect: ask}", {}, True),
    ("{when: {trigger: user}, effect: ask}", {}, False),
    ("{when: {trigger: [user, model]}, effect: ask}", {}, True),
    ("{when: {capability: scripts}, effect: ask}", {}, True),
    ("{when: {capability: [file-write, hooks]}, effect: ask}", {}, True),
    ("{when: {capability: file-write}, effect: ask}", {}, False),
    ("{when: {name-collides-with: enterprise}, effect: ask}", {}, False),
    ("{when: {name-collides-with: enterprise}, effect: ask}", {"collides_with": frozenset({"enterprise"})}, True),
    ('{when: {scan: ">=high"}, effect: ask}', {"scans": ("medium",)}, False),
    ('{when: {scan: ">=high"}, effect: ask}', {"scans": ("critical",)}, True),
    ('{when: {scan: ">=high", engines: ">=2"}, effect: ask}', {"scans": ("critical", "low")}, False),
    ('{when: {scan: ">=high", engines: ">=2"}, effect: ask}', {"scans": ("critical", "high")}, True),
    ("{layer: plugin, when: {capability: scripts, trusted: false}, effect: ask}", {}, False),
]


@pytest.mark.each(("text", "facts", "expected"), ABOUT)
def test_a_rule_is_about_what_all_of_it_says(text: str, facts: dict[str, Any], expected: bool) -> None:
    assert applies(text, **facts) is expected


def test_a_rule_knows_its_name_and_line_and_says_what_made_it_hold() -> None:
    found = rule('{id: R1, when: {scan: ">=high", capability: [scripts, hooks]}, effect: deny, reason: Not here.}')
    assert (found.id, found.effect, str(found.origin)) == ("R1", "deny", "policy.yaml:2 (enterprise)")
    assert found.because(known(subject=PDF)) == ": it has hooks, scripts; a scan found high or worse; Not here"
    assert rule("{effect: ask}").because(known(subject=PDF)) == ""
    assert rule("{effect: ask}").id == "line 2"


def test_a_rule_as_json_is_what_was_written() -> None:
    text = '{id: R2, point: activate, skill: pdf, when: {scan: ">=high", engines: ">=2", trusted: true}, effect: deny}'
    assert rule(text).as_dict() == {
        "id": "R2",
        "point": ["activate"],
        "skill": "pdf",
        "when": {"scan": ">=high", "engines": ">=2", "trusted": True},
        "effect": "deny",
    }


BROKEN = [
    ("{id: R1}", "has no `effect`", {}),
    ("{id: R1, effect: block}", "cannot have this effect: block", {}),
    ("{effect: deny, efect: ask}", "has no `efect`", {}),
    ("{point: loading, effect: deny}", "cannot name loading", {"point": "install"}),
    ("{layer: [plugin, plugins], effect: deny}", "cannot name plugins", {"subject": None}),
    ("{layer: [], effect: deny}", "cannot name a list", {"subject": None}),
    ("{agent: [a], effect: deny}", "has a list for `agent`", {}),
    ('{when: {scan: ">=hgih"}, effect: deny}', "cannot compare with >=hgih", {}),
    ("{when: {scan: high}, effect: deny}", "cannot compare with high", {}),
    ('{when: {engines: ">=2"}, effect: deny}', "counts engines without", {}),
    ("{when: {colour: red}, effect: deny}", "no condition `colour`", {}),
    ("{when: {trusted: perhaps}, effect: deny}", "no yes or no", {}),
    ("{when: [scan], effect: deny}", "is a list", {}),
    ("{skill: pdf, skill: other, effect: deny}", "`skill` is given twice", {"subject": None}),
    ("{effect: allow, effect: deny}", "`effect` is given twice", {}),
    ("{when: {scan: '>=low', scan: '>=high'}, effect: deny}", "`scan` is given twice", {}),
]


@pytest.mark.each(("text", "message", "facts"), BROKEN)
def test_what_cannot_be_read_of_a_rule_makes_it_stricter(text: str, message: str, facts: dict[str, Any]) -> None:
    file = parsed(text)
    assert any(message in problem.message for problem in file.problems), [str(one) for one in file.problems]
    [found] = file.settings["rules"]
    about = known(**{"point": "activate", "subject": PDF, "can": (), **facts})
    assert found.effect == "deny"
    assert found.is_about(about) and found.holds(about)


@pytest.mark.each("text", [text.replace("deny", "allow") for text, _, _ in BROKEN if "effect: deny" in text])
def test_a_broken_rule_never_allows(text: str) -> None:
    assert [one for one in parsed(text).settings["rules"] if one.effect == "allow"] == []


def test_a_broken_rule_leaves_the_others_as_they_are() -> None:
    file = parsed("{id: R1, effect: ask}", "5", "{id: R3, effect: ask}")
    assert [one.id for one in file.settings["rules"]] == ["R1", "R3"]
    assert [problem.line for problem in file.problems] == [3]


def test_a_pattern_names_a_skill_whatever_the_case_of_its_letters() -> None:
    assert names_skill("Crypto-*", "crypto-miner", "")
    assert names_skill("crypto-*@ClawHub/*", "Crypto-Miner", "clawhub/evil")
    assert not names_skill("crypto-*@clawhub/*", "crypto-miner", "acme")
    assert not names_skill("pdf", "pdf-forms", "acme")
