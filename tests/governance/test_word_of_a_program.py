"""A yes from a program is never a person's approval: it counts once, or is at most a request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.governance.conftest import Begin, Put, Typed
from tests.tables import crossed

from metier import Library, Place, Policy, Session
from metier.agent import Agent, Agents, Manifest
from metier.errors import Refused
from metier.guard import Action, Actor, Answers, Guard, MemoryLog, consent_from
from metier.guard.question import TERMINAL
from metier.run import PlainRunner
from metier.source import FolderSource
from metier.store import Person, TenantScope
from metier.testing import ScriptedModel

Write = Callable[[str], Path]
Govern = Callable[..., None]

SCRIPT = {"scripts/x.py": "print('hello')\n"}
GOVERNED = ("people", "enterprise")
ADMIN = Person(name="ada", roles=frozenset({"admin"}))


def yes(*_: object) -> bool:
    return True


async def yes_later(*_: object) -> bool:
    return True


@pytest.fixture
def govern(scope: TenantScope, enterprise: Write) -> Govern:
    """Settles who decides: `ada`, whom everything is done for, is an admin, or there is an administrators' policy."""

    def settle(how: str, policy: str = "") -> None:
        if how == "people":
            scope.people.add(ADMIN)
        if how == "enterprise" or policy:
            enterprise(f"version: 1\n{policy}")

    return settle


def load(session: Session) -> None:
    session.load("peek", by="model")


def answered_later(session: Session) -> None:
    """Load it as adapters of frameworks do: the questions are kept, and the call is made again with a yes to each."""
    first = Answers()
    with consent_from(first), pytest.raises(Refused):
        load(session)
    with consent_from(Answers({question.id: True for question in (*first.open, *first.waiting)})):
        load(session)


WAYS: dict[str, tuple[Any, Callable[[Session], None]]] = {
    "callback": (yes, load),
    "async callback": (yes_later, load),
    "answers": (None, answered_later),
}


@pytest.mark.covers("SEC-17")
@crossed(("way", WAYS), ("how", GOVERNED), one_in=2)
def test_where_it_is_settled_who_decides_the_yes_of_a_program_is_at_most_a_request(
    put: Put, begin: Begin, scope: TenantScope, govern: Govern, how: str, way: str
) -> None:
    govern(how)
    put("plugin", "peek", **SCRIPT)
    approve, use = WAYS[way]
    session = begin(approve=approve)
    with pytest.raises(Refused, match="a person has to") as caught:
        use(session)
    assert caught.value.code == "approval-needed"
    assert scope.approvals.all() == []
    assert session.active == ()
    (request,) = scope.approvals.requests("pending")
    assert request.id in caught.value.hint


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("way", WAYS)
def test_elsewhere_the_yes_of_a_program_counts_once_is_recorded_as_its_word_and_is_not_kept(
    put: Put, begin: Begin, scope: TenantScope, log: MemoryLog, way: str
) -> None:
    put("plugin", "peek", **SCRIPT)
    approve, use = WAYS[way]
    session = begin(approve=approve)
    use(session)
    assert [one.name for one in session.active] == ["peek"]
    assert scope.approvals.all() == []
    (record,) = [one for one in log.records if one.type == "skill.activated"]
    assert record.answered_by == "program"
    assert "counts once" in record.reason
    assert not [one for one in scope.audit.tail(100) if one["type"] == "approval.granted"]
    with pytest.raises(Refused):
        load(begin())


@pytest.mark.covers("SEC-17")
def test_what_is_typed_at_a_terminal_is_a_persons_approval(
    put: Put, begin: Begin, scope: TenantScope, govern: Govern, log: MemoryLog
) -> None:
    govern("people")
    put("plugin", "peek", **SCRIPT)
    load(begin(approve=Typed()))
    (given,) = scope.approvals.all()
    assert given.decided_by == "ada"
    assert [one.answered_by for one in log.records if one.type == "skill.activated"] == [TERMINAL]
    load(begin())


@pytest.mark.covers("SEC-17")
def test_the_yes_of_a_program_is_no_voice_of_a_quorum(
    put: Put, begin: Begin, scope: TenantScope, own_home: Path
) -> None:
    file = own_home / ".metier" / "policy.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("version: 1\nskill-policy:\n  approval: {quorum: 2}\n")
    put("plugin", "peek", **SCRIPT)
    with pytest.raises(Refused):
        load(begin(approve=yes))
    assert scope.approvals.all() == []


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("how", GOVERNED)
def test_where_it_is_settled_who_decides_no_program_vouches_for_a_place(
    put: Put, own_home: Path, govern: Govern, log: MemoryLog, how: str
) -> None:
    govern(how)
    put("project", "peek")
    place = Place(layer="project", source=FolderSource(own_home / "skills" / "project"), trusted=False)
    session = Library([place], cache=False).session(guard=Guard(audit=log, approve=yes), user="ada")
    for by in ("model", "client"):
        with pytest.raises(Refused, match="nobody vouches for"):
            session.load("peek", by=by)


RULES = {
    "a rule": "rules:\n  - {id: R1, point: tool-call, effect: ask}\n",
    "a tool": "tools: {ask: [Bash]}\n",
}


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("rule", RULES)
def test_what_an_administrators_policy_asks_about_is_not_for_programs_to_answer(govern: Govern, rule: str) -> None:
    govern("enterprise", RULES[rule])
    call = Action(point="call", tool="Bash", arguments={"command": "make"})
    actor = Actor(user="ada")
    refused = Guard(audit=MemoryLog(), approve=yes).settle(call, actor)
    assert (refused.outcome, refused.code) == ("ask", "approval-needed")
    assert "a person has to, at a terminal" in refused.reason
    assert Guard(audit=MemoryLog(), approve=Typed()).settle(call, actor).is_allowed


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("how", ("nobody", *GOVERNED))
def test_what_a_program_asks_about_itself_it_may_answer_itself(govern: Govern, how: str) -> None:
    govern(how)
    guard = Guard(Policy(ask="Bash"), audit=MemoryLog(), approve=yes)
    found = guard.settle(Action(point="call", tool="Bash", arguments={"command": "make"}), Actor(user="ada"))
    assert (found.is_allowed, found.answered_by) == (True, "program")


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("how", GOVERNED)
def test_whoever_resumes_a_run_with_answers_stands_for_no_approver(
    put: Put,
    library: Callable[..., Library],
    scope: TenantScope,
    govern: Govern,
    log: MemoryLog,
    tmp_path: Path,
    how: str,
) -> None:
    govern(how)
    put("plugin", "peek", **SCRIPT)
    clerk = Manifest(id="clerk", name="clerk", description="Does it.", catalog="all")

    def agent(*steps: Any) -> Agent:
        options: dict[str, Any] = {"user": "ada", "workspace": tmp_path / "workspace", "audit": log}
        return Agent(clerk, Agents((clerk,), library()), model=ScriptedModel(steps), **options)

    first = agent(("skills_load", {"skills": ["peek"]})).run_blocking("Go.")
    (question,) = first.questions
    again = anyio.run(agent("Never said.").resume, first.state or {}, {question.id: True})
    assert again.is_suspended
    assert scope.approvals.all() == []


@pytest.mark.covers("SEC-17")
def test_a_yes_to_loading_a_skill_is_none_to_running_its_script(put: Put, begin: Begin, scope: TenantScope) -> None:
    put("plugin", "peek", **SCRIPT)
    asked: list[str] = []

    def first_only(action: Action, _: object) -> bool:
        asked.append(action.point)
        return len(asked) == 1

    session = begin(Policy(unsandboxed="allow"), runner=PlainRunner(), approve=first_only)
    load(session)
    with pytest.raises(Refused):
        anyio.run(session.run, "scripts/x.py")
    assert asked == ["load", "run"]
    assert scope.approvals.all() == []
