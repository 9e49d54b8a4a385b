"""What is loaded is what was decided about, and every way to load tells the guard the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.governance.conftest import Typed

from metier import Guard, Library, Session
from metier.errors import MetierError, Refused, SkillChanged
from metier.guard import MemoryLog
from metier.guard.approvals.decisions import grant
from metier.guard.governance import Governance
from metier.store import Person, ScanRow, TenantScope

Begin = Callable[..., Session]
Put = Callable[..., Path]
Write = Callable[[str], Path]

ADMIN = Person(name="grace", roles=frozenset({"admin"}))
SCRIPT = {"scripts/x.py": "print('hello')\n"}


def swap(folder: Path) -> None:
    file = folder / "SKILL.md"
    file.write_text(file.read_text().replace("Harmless.", "EVIL: never approved."))


@pytest.fixture
def swapped_once_decided(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Lets another content lie in a folder as soon as it was decided about the one before."""

    def prepare(folder: Path) -> None:
        enter = Guard.enter

        def entered(self: Guard, action: Any, *more: Any, **options: Any) -> Any:
            audited = enter(self, action, *more, **options)
            if action.point == "load":
                swap(folder)
            return audited

        monkeypatch.setattr(Guard, "enter", entered)

    return prepare


@pytest.mark.covers("A-11")
def test_content_that_was_swapped_while_somebody_was_asked_is_not_loaded(
    put: Put, begin: Begin, scope: TenantScope, log: MemoryLog
) -> None:
    folder = put("plugin", "peek", "Harmless.", **SCRIPT)
    with pytest.raises(Refused):
        begin().load("peek")  # which leaves a request, and keeps what it is about

    def agree(action: object, decision: object) -> bool:
        swap(folder)
        return True

    session = begin(approve=Typed(agree))
    with pytest.raises(SkillChanged):
        session.load("peek")
    assert session.active == ()
    assert (log.records[-1].success, log.records[-1].code) == (False, "skill-changed")
    # What was agreed to is the content that was shown.
    assert b"Harmless." in scope.revisions.files(next(iter(scope.state().approvals)))["SKILL.md"][1]


@pytest.mark.covers("A-11")
def test_content_that_was_swapped_after_the_decision_is_not_loaded(
    put: Put, begin: Begin, scope: TenantScope, swapped_once_decided: Callable[[Path], None]
) -> None:
    folder = put("plugin", "peek", "Harmless.", **SCRIPT)
    session = begin()
    with pytest.raises(Refused):
        session.load("peek")
    (request,) = scope.approvals.requests("pending")
    grant(scope, Governance.default().effective, ADMIN, request.id)
    swapped_once_decided(folder)
    with pytest.raises(SkillChanged):
        session.load("peek")
    assert session.active == ()


def test_nor_is_it_bound(put: Put, begin: Begin, swapped_once_decided: Callable[[Path], None]) -> None:
    swapped_once_decided(put("personal", "peek", "Harmless."))
    session = begin()
    with pytest.raises(SkillChanged):
        session.parts.loader.bind(["peek"])
    assert session.loaded.bound == frozenset()


def test_nor_is_it_the_message_of_a_user(
    put: Put, begin: Begin, swapped_once_decided: Callable[[Path], None], log: MemoryLog
) -> None:
    swapped_once_decided(put("personal", "peek", "Harmless.", "insert: user-message\n"))
    with pytest.raises(SkillChanged):
        begin().invoke("/peek")
    assert (log.records[-1].event, log.records[-1].success) == ("load", False)


def test_nor_is_it_resumed(
    put: Put, begin: Begin, library: Callable[..., Library], swapped_once_decided: Callable[[Path], None]
) -> None:
    folder = put("personal", "peek", "Harmless.")
    session = begin()
    session.load("peek")
    saved = session.save()
    swapped_once_decided(folder)
    assert Session.resume(library(), saved, guard=Guard(audit=MemoryLog())).active == ()


def test_what_is_bound_must_still_be_there_and_not_be_blocked(
    put: Put, begin: Begin, scope: TenantScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("personal", "peek")
    enter = Guard.enter

    def entered(self: Guard, *given: Any, **options: Any) -> Any:
        audited = enter(self, *given, **options)
        scope.blocks.add("name", "peek", reason="It phones home.", by="grace")
        return audited

    monkeypatch.setattr(Guard, "enter", entered)
    session = begin()
    with pytest.raises(Refused) as caught:
        session.parts.loader.bind(["peek"])
    assert "quarantine" in str(caught.value)
    assert session.loaded.bound == frozenset()


# --- every way to load ------------------------------------------------------------------------------------------------

COLLIDES = "version: 1\nrules:\n  - {id: C, point: activate, when: {name-collides-with: plugin}, effect: deny}\n"
NESTED = "version: 1\nrules:\n  - {id: N, point: activate, when: {trigger: nested}, effect: deny}\n"


def test_a_rule_about_rivals_counts_for_the_message_of_a_user(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise(COLLIDES)
    put("personal", "law", more="insert: user-message\n")
    assert begin().invoke("/law") is not None
    put("plugin", "law")
    with pytest.raises(Refused) as caught:
        begin().invoke("/law")
    assert caught.value.code == "rule-denied"


def test_a_rule_about_rivals_counts_for_a_session_that_is_resumed(
    put: Put, begin: Begin, enterprise: Write, library: Callable[..., Library]
) -> None:
    enterprise(COLLIDES)
    put("personal", "tax")
    session = begin()
    session.load("tax")
    saved = session.save()
    assert [one.name for one in Session.resume(library(), saved, guard=Guard(audit=MemoryLog())).active] == ["tax"]
    put("plugin", "tax")
    assert Session.resume(library(), saved, guard=Guard(audit=MemoryLog())).active == ()


def test_a_name_that_imitates_another_is_its_rival_and_the_plain_one_is_not(
    put: Put, begin: Begin, enterprise: Write
) -> None:
    enterprise(COLLIDES)
    put("personal", "l\u0430w")
    put("personal", "rules")
    put("plugin", "law")
    put("plugin", "r\u03c5les")
    session = begin()
    with pytest.raises(Refused) as caught:
        session.load("l\u0430w")
    assert caught.value.code == "rule-denied"
    session.load("rules")


def test_a_rule_about_nesting_counts_for_a_session_that_is_resumed(
    put: Put, begin: Begin, enterprise: Write, library: Callable[..., Library]
) -> None:
    for name in ("outer", "inner"):
        put("personal", name)
    session = begin()
    session.parts.loader.activate("outer")
    session.parts.loader.activate("inner")
    saved = session.save()
    enterprise(NESTED)
    resumed = Session.resume(library(), saved, guard=Guard(audit=MemoryLog()))
    assert [one.name for one in resumed.active] == ["outer"]


def test_no_skill_is_its_own_rival_after_it_changed(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise(COLLIDES)
    folder = put("plugin", "law", "Harmless.")
    session = begin()
    entry = session.parts.known.find("law")
    swap(folder)
    session.library.refresh()
    assert session.parts.known.load_action(entry, session.library.digest(entry), "model").rivals == frozenset()


# --- tenants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows_ada", [True, False])
def test_whoever_is_asked_agrees_for_a_tenant_without_people_only_as_one_of_the_installation(
    put: Put, library: Callable[..., Library], scope: TenantScope, knows_ada: bool
) -> None:
    scope.people.add(Person(name="ada" if knows_ada else "grace", roles=frozenset({"admin"})))
    put("plugin", "peek", **SCRIPT)
    guard = Guard(audit=MemoryLog(), approve=Typed())
    session = library().as_caller(tenant="acme").session(guard=guard, user="ada")
    with contextlib.suppress(MetierError):
        session.load("peek")
    assert ([one.name for one in session.active] == ["peek"]) is knows_ada
    assert bool(scope.store.of("acme").state().approvals) is knows_ada


def test_findings_that_are_kept_while_a_session_is_open_are_told_at_its_next_load(
    put: Put, begin: Begin, scope: TenantScope
) -> None:
    put("project", "peek", "Harmless.")
    session = begin()
    told: list[str] = []
    session.listen(lambda event: told.append(event.message or ""))
    session.load("peek")
    scope.scans.put(ScanRow(digest=session.active[0].digest, engine="other", max_severity="critical"))
    session.unload("peek")
    assert not any("severity" in message for message in told)
    session.load("peek")
    assert any("findings of severity critical" in message for message in told)
