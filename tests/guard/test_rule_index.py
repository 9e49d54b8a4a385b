"""Finding the rules that are about an action: the same as asking each of them, and once for each kind of action."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest

from metier.guard import Action, Actor, Guard, MemoryLog, Subject
from metier.guard.decision import Outcome
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.guard.policy.rules import PolicyRule, RuleIndex


@dataclass
class Facts:
    action: Action
    actor: Actor
    point: str = "activate"
    trigger: str = "model"
    environment: str = ""
    capabilities: Any = None
    scanned: Any = None
    collides_with: frozenset[str] = frozenset()

    @property
    def subject(self) -> Subject | None:
        return self.action.skill


SKILLS = ("", "deploy", "Crypto-*", "*-lab", "*mid*", "a*b", "*@acme", "crypto-*@AC*", "crypto-x@acme")
KINDS: list[dict[str, Any]] = [
    {},
    {"points": frozenset({"activate"})},
    {"points": frozenset({"script-run", "install"}), "agent": "bot-*"},
    {"layers": frozenset({"plugin"}), "trusted": False},
    {"triggers": frozenset({"user"}), "environment": "prod*"},
    {"source": "git+*", "tenant": "acme"},
]
RULES = [
    PolicyRule(id=str(number), effect="deny", skill=skill, **more)
    for number, (skill, more) in enumerate(itertools.product(SKILLS, KINDS))
]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_rules_that_are_found_are_those_that_say_so_themselves(every: int) -> None:
    book = RuleIndex(RULES)
    subjects = [
        None,
        *(
            Subject(name=name, source=source, layer=layer, trusted=layer != "plugin")
            for name in ("deploy", "DEPLOY", "crypto-x", "x-lab", "amidb", "ab", "a")
            for source in ("", "acme", "git+https://x")
            for layer in ("plugin", "personal")
        ),
    ]
    actors = [Actor(), Actor(agent="bot-1", tenant="acme"), Actor(agent="other", tenant="else")]
    again: list[tuple[Facts, tuple[PolicyRule, ...]]] = []
    for subject, actor in list(itertools.product(subjects, actors))[::every]:
        for point, trigger, environment in itertools.product(
            ("activate", "install", "tool-call"), ("model", "user"), ("", "production")
        ):
            for source in ("", "git+https://y"):
                action = Action(point="load", skill=subject, source=source)
                facts = Facts(action, actor, point, trigger, environment)
                expected = tuple(rule for rule in RULES if rule.is_about(facts))
                assert book.about(facts) == expected, facts
                again.append((facts, expected))
    for facts, expected in again:
        assert book.about(facts) == expected, facts


def test_what_is_kept_has_an_end(monkeypatch: Any) -> None:
    monkeypatch.setattr("metier.guard.policy.rules._MAX_CACHED", 4)
    book = RuleIndex(RULES)
    for number in range(20):
        book.about(Facts(Action(point="load", skill=Subject(name=f"s{number}")), Actor()))
        assert len(book._cache) <= 4


def test_agents_that_no_rule_asks_for_are_not_told_apart() -> None:
    book = RuleIndex([PolicyRule(id="R1", effect="deny", skill="deploy")])
    for number in range(20):
        book.about(Facts(Action(point="load", skill=Subject(name="deploy")), Actor(agent=f"bot-{number}")))
    assert len(book._cache) == 1


def test_each_rule_of_a_thousand_is_asked_once_about_a_skill(monkeypatch: Any) -> None:
    text = "rules:\n" + "\n".join(f"  - {{id: R{i}, skill: 'team-*-{i}', effect: deny}}" for i in range(1_000))
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies(texts=[("enterprise", text)]), store=None))
    asked: list[str] = []
    is_about = PolicyRule.is_about

    def counted(self: PolicyRule, facts: Any) -> bool:
        asked.append(self.id)
        return is_about(self, facts)

    monkeypatch.setattr(PolicyRule, "is_about", counted)
    outcomes: list[Outcome] = [
        guard.decide(Action(point="load", skill=Subject(name="team-red-7", layer="personal"))).outcome
        for _ in range(10)
    ]
    assert set(outcomes) == {"deny"}
    assert [one for one in asked if one.startswith("R")] == ["R7"]
