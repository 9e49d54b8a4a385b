"""Letters of other scripts in names: what imitates a name is treated as the name."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.tables import crossed

from metier import Guard, Policy
from metier.guard import Action, MemoryLog, Subject
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.skill.names import is_taken_for, may_name, readings
from metier.store import Store

CYRILLIC = "d\u0430ta-handling"
GREEK = "dat\u03b1-handling"
FULLWIDTH = "\uff44ata-handling"
MARKED = "d\u1ea1ta-handling"
IMITATIONS = [CYRILLIC, GREEK, FULLWIDTH, MARKED, "d\u0430t\u0430-h\u0430ndl\u0456ng"]


def decide(policy: str, name: str, **more: str) -> tuple[str, str]:
    governance = Governance(Policies(texts=[("enterprise", policy)]), store=None)
    guard = Guard(audit=MemoryLog(), governance=governance)
    decision = guard.decide(Action(point="load", skill=Subject(name=name, **{"layer": "personal", **more})))  # type: ignore[arg-type]
    return decision.outcome, decision.code


@pytest.mark.covers("A-2")
@crossed(
    ("name", ["data-handling", *IMITATIONS]),
    (
        ("policy", "found"),
        [
            ("skills: {reserved: [data-handling]}", ("deny", "name-reserved")),
            ("skills: {deny: ['data-*']}", ("deny", "skill-denied")),
            ("skills: {listing: {data-handling: off}}", ("deny", "skill-denied")),
            ("rules: [{id: R, skill: 'data-*', effect: deny}]", ("deny", "rule-denied")),
            ("rules: [{id: R, skill: data-handling, effect: ask}]", ("ask", "approval-needed")),
        ],
    ),
    one_in=2,
)
def test_what_imitates_a_name_is_refused_or_asked_about_as_that_is(
    policy: str, found: tuple[str, str], name: str
) -> None:
    assert decide(policy, name) == found


@pytest.mark.each("name", IMITATIONS)
def test_what_imitates_a_name_is_not_allowed_as_that_is(name: str) -> None:
    assert decide("skills: {allow: [data-handling]}", "data-handling")[0] == "allow"
    assert decide("skills: {allow: [data-handling]}", name) == ("deny", "skill-denied")


@pytest.mark.parametrize("name", [CYRILLIC, MARKED])
def test_what_imitates_a_name_in_quarantine_is_in_quarantine(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/metier.db"
    with Store.open(url) as store:
        store.of().blocks.add("name", "data-handling", reason="It was bad.", by="ada")
    guard = Guard(audit=MemoryLog(), governance=Governance(Policies(texts=[]), store=url))
    subject = Subject(name=name, layer="personal")
    assert guard.decide(Action(point="load", skill=subject)).code == "skill-quarantined"
    assert guard.is_excluded(subject)
    ours = Guard(
        Policy(blocked=["data-handling"]), audit=MemoryLog(), governance=Governance(Policies(texts=[]), store=None)
    )
    assert ours.decide(Action(point="load", skill=subject)).code == "skill-blocked"


def test_the_plain_name_is_not_taken_for_what_imitates_it() -> None:
    assert decide(f"skills: {{deny: ['{CYRILLIC}']}}", "data-handling")[0] == "allow"
    assert decide(f"skills: {{deny: ['{CYRILLIC}']}}", CYRILLIC)[0] == "deny"


def test_names_in_other_scripts_are_names_like_any() -> None:
    policy = "skills: {reserved: [data-handling, pdf], deny: ['crypto-*']}"
    for name in ("\u6280\u80fd", "\u0434\u0430\u043d\u043d\u044b\u0435", "\u00fcbersetzen", "r\u00e9sum\u00e9"):
        assert decide(policy, name)[0] == "allow"


def test_a_reserved_name_says_what_is_imitated() -> None:
    governance = Governance(Policies(texts=[("enterprise", "skills: {reserved: [data-handling]}")]), store=None)
    guard = Guard(audit=MemoryLog(), governance=governance)
    decision = guard.decide(Action(point="load", skill=Subject(name=CYRILLIC, layer="project")))
    assert "looks like 'data-handling'" in decision.reason
    assert guard.decide(Action(point="load", skill=Subject(name=CYRILLIC, layer="enterprise"))).is_allowed


@pytest.mark.each("name", [*IMITATIONS, "Data-Handling", "D\u0430ta-handling"])
def test_an_imitation_is_taken_for_the_name_and_the_name_for_no_imitation(name: str) -> None:
    assert is_taken_for(name, "data-handling")
    assert is_taken_for(name, name)
    assert is_taken_for("data-handling", name) is name.isascii()
    assert not is_taken_for(name, "data-handler")


def test_two_imitations_of_one_name_are_taken_for_each_other() -> None:
    assert is_taken_for(CYRILLIC, GREEK)
    assert not is_taken_for(CYRILLIC, "\u0434\u0430\u043d\u043d\u044b\u0435")


def test_long_names_have_few_readings() -> None:
    assert len(readings("\u0456\u04cf\u0430\u0435" * 16)) <= 65
    assert may_name("*", "\u0456\u04cf\u0430\u0435" * 16, "")


def test_nothing_is_imported_for_plain_names() -> None:
    code = (
        "import sys; from metier.skill.names import may_name; may_name('a*', 'abc', '');"
        "sys.exit('confusable_homoglyphs' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
