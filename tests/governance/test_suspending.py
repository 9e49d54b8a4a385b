"""A run that meets a question nobody can answer now is suspended, and goes on when the answer is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Library, Policy
from metier.agent import Agent, Agents, Answer, Conversation, Manifest
from metier.errors import InvalidArgument
from metier.guard import MemoryLog
from metier.guard.approvals.decisions import deny, grant
from metier.guard.governance import Governance
from metier.store import Person, TenantScope
from metier.testing import ScriptedModel

Put = Callable[..., Path]
Write = Callable[[str], Path]
Made = Callable[..., Agent]

ADMIN = Person(name="grace", roles=frozenset({"admin"}))
LOAD = ("skills_load", {"skills": ["peek"]})
TWO_PEOPLE = "version: 1\nskill-policy:\n  approval:\n    self-approval: deny\n"


@pytest.fixture
def noted() -> list[str]:
    return []


@pytest.fixture
def agent(library: Callable[..., Library], noted: list[str], log: MemoryLog, tmp_path: Path) -> Made:
    """Makes an agent with a script for its model; each is a program of its own."""

    def note(text: str) -> str:
        """Notes something."""
        noted.append(text)
        return f"Noted {text}."

    def look(at: str) -> str:
        """Looks at something."""
        noted.append(f"look {at}")
        return f"Saw {at}."

    def made(*steps: Any, manifests: tuple[Manifest, ...] = (), **options: Any) -> Agent:
        clerk = Manifest(id="clerk", name="clerk", description="Does it.", uses_tools=("note", "look"), catalog="all")
        declared = manifests or (clerk,)
        agents = Agents(declared, library())
        given = {"user": "ada", "workspace": tmp_path / "workspace", "audit": log, "tools": [note, look], **options}
        return Agent(declared[0], agents, model=ScriptedModel(steps), **given)

    return made


def resumed(agent: Agent, answer: Answer, answers: dict[str, bool] | None = None) -> Answer:
    """Go on with what another program kept."""
    return anyio.run(agent.resume, json.dumps(answer.state), answers)


def grant_it(scope: TenantScope, request: str) -> None:
    grant(scope, Governance.default().effective, ADMIN, request)


@pytest.mark.parametrize("policy", ["", TWO_PEOPLE])
def test_a_run_goes_on_without_an_answer_once_an_approver_has_granted_the_request(
    put: Put, agent: Made, scope: TenantScope, enterprise: Write, policy: str
) -> None:
    if policy:
        enterprise(policy)
    put("plugin", "peek", "Look closely.", **{"scripts/x.py": "print('hello')\n"})
    first = agent(LOAD, "Never said.").run_blocking("Go.")
    (request,) = scope.approvals.requests("pending")
    (question,) = first.questions
    assert (first.is_suspended, first.text, question.request) == (True, "", request.id)
    assert request.digest in question.text
    still = resumed(agent("Never said."), first)
    assert [one.request for one in still.questions] == [request.id]
    grant_it(scope, request.id)
    last = resumed(agent("Looked."), still)
    assert (last.is_suspended, last.text, last.state) == (False, "Looked.", None)
    assert "Look closely." in str(last.history)
    assert last.session == first.session


def test_a_request_that_is_denied_is_told_to_the_model(put: Put, agent: Made, scope: TenantScope) -> None:
    put("plugin", "peek", **{"scripts/x.py": "print('hello')\n"})
    put("personal", "other")
    first = agent(LOAD).run_blocking("Go.")
    deny(scope, Governance.default().effective, ADMIN, first.questions[0].request, reason="It peeks.")
    last = resumed(agent("Then not."), first)
    assert last.text == "Then not."
    assert not last.is_suspended
    assert "outcome='failed'" in str(last.history)


def test_answers_do_not_stand_for_an_approver_that_policy_wants(
    put: Put, agent: Made, scope: TenantScope, enterprise: Write
) -> None:
    enterprise(TWO_PEOPLE)
    put("plugin", "peek", **{"scripts/x.py": "print('hello')\n"})
    first = agent(LOAD).run_blocking("Go.")
    again = resumed(agent("Never said."), first, {first.questions[0].id: True})
    assert again.is_suspended
    assert scope.approvals.all() == []


@pytest.mark.parametrize(("answer", "expected"), [(True, ["look a", "b", "c"]), (False, ["look a", "c"])])
def test_a_call_is_made_once_somebody_agreed_and_those_after_it_wait_for_it(
    agent: Made, noted: list[str], answer: bool, expected: list[str]
) -> None:
    policy = Policy(ask="note")
    calls = [("look", {"at": "a"}), ("note", {"text": "b"}), ("note", {"text": "c"})]
    first = agent(calls, policy=policy).run_blocking("Go.")
    assert (len(first.questions), noted) == (1, ["look a"])
    second = resumed(agent(policy=policy), first, {first.questions[0].id: answer})
    assert len(second.questions) == 1
    last = resumed(agent("Done.", policy=policy), second, {second.questions[0].id: True})
    assert (last.text, noted) == ("Done.", expected)
    assert "interrupted" not in str(last.history)
    goes_on = agent("And on.", policy=policy).run_blocking("More?", history=last.history)
    assert goes_on.text == "And on."
    assert "interrupted" not in str(goes_on.history)


def test_an_answer_counts_for_what_was_asked_and_for_nothing_that_was_put_in_its_place(
    agent: Made, noted: list[str]
) -> None:
    policy = Policy(ask="note")
    first = agent(("note", {"text": "harmless"}), policy=policy).run_blocking("Go.")
    forged = json.loads(json.dumps(first.state).replace("harmless", "harmful"))
    given = {first.questions[0].id: True}
    again = anyio.run(agent(policy=policy).resume, forged, given)
    assert (again.is_suspended, noted) == (True, [])


def test_an_answer_is_for_the_call_that_waited_and_not_for_the_next_one(agent: Made, noted: list[str]) -> None:
    policy, call = Policy(ask="note"), ("note", {"text": "a"})
    first = agent(call, policy=policy).run_blocking("Go.")
    again = resumed(agent(call, policy=policy), first, {first.questions[0].id: True})
    assert (again.is_suspended, noted) == (True, ["a"])


def test_where_a_program_can_be_asked_nothing_is_suspended(put: Put, agent: Made, enterprise: Write) -> None:
    enterprise(TWO_PEOPLE)
    put("plugin", "peek", **{"scripts/x.py": "print('hello')\n"})
    told = agent(LOAD, "Not then.", approve=lambda *_: True).run_blocking("Go.")
    assert (told.is_suspended, told.text) == (False, "Not then.")
    assert "approval-needed" in str(told.history)
    assert agent(LOAD, approve=lambda *_: True, suspend=True).run_blocking("Go.").is_suspended
    assert agent(LOAD, "Not then.", suspend=False).run_blocking("Go.").text == "Not then."


def test_an_agent_that_another_one_started_is_refused_and_not_run_twice(
    agent: Made, noted: list[str], log: MemoryLog
) -> None:
    boss = Manifest(id="boss", name="boss", description="Asks.", uses_tools=("helper",))
    helper = Manifest(
        id="helper", name="helper", description="Helps.", uses_tools=("note", "look"), integration_mode="tool"
    )
    steps = [("agent_helper", {"task": "Note."}), ("look", {"at": "a"}), ("note", {"text": "b"}), "No.", "Done."]
    answer = agent(*steps, manifests=(boss, helper), policy=Policy(ask="note")).run_blocking("Go.")
    assert (answer.text, noted) == ("Done.", ["look a"])
    assert [record.code for record in log.records if record.tool == "note"] == ["approval-needed"]


def said(events: Any) -> list[str]:
    async def main() -> list[str]:
        return [event.kind async for event in events]

    return anyio.run(main)


class TestConversations:
    """A conversation is suspended and goes on like a run, also when it was kept meanwhile."""

    @staticmethod
    def suspended(agent: Made) -> Conversation:
        conversation = agent(("note", {"text": "a"}), "Done.", policy=Policy(ask="note")).conversation()
        assert said(conversation.send("Go."))[-1] == "suspended"
        return conversation

    def test_it_goes_on_with_an_answer(self, agent: Made, noted: list[str]) -> None:
        with self.suspended(agent) as conversation:
            (question,) = conversation.questions
            assert said(conversation.resume({question.id: True}))[-1] == "answer"
            assert (noted, conversation.questions) == (["a"], ())
            with pytest.raises(InvalidArgument, match="Nothing waits"):
                said(conversation.resume())

    def test_it_goes_on_elsewhere(self, agent: Made, noted: list[str]) -> None:
        with self.suspended(agent) as conversation:
            state, questions = json.dumps(conversation.save()), conversation.questions
        with agent("Done.", policy=Policy(ask="note")).conversation(state) as later:
            assert later.questions == questions
            assert said(later.resume({questions[0].id: True}))[-1] == "answer"
        assert noted == ["a"]

    def test_whoever_says_something_else_gives_up_what_waits(self, agent: Made, noted: list[str]) -> None:
        with self.suspended(agent) as conversation:
            assert said(conversation.send("Never mind."))[-1] == "answer"
            assert (noted, conversation.questions) == ([], ())
            assert "was not made" in str(conversation.history)

    @pytest.mark.parametrize("waiting", ["x", [1], [{}], [{"id": 1, "text": "", "request": "", "lasts": True}]])
    def test_what_it_waits_for_is_not_believed(self, agent: Made, waiting: object) -> None:
        with self.suspended(agent) as conversation:
            state = conversation.save() | {"waiting": waiting}
        with pytest.raises(InvalidArgument, match="cannot be resumed"):
            agent().conversation(state)


def test_a_run_that_did_not_wait_cannot_be_resumed(agent: Made) -> None:
    with agent("Done.").conversation() as conversation:
        state = conversation.save()
    with pytest.raises(InvalidArgument, match="Nothing waits"):
        anyio.run(agent().resume, state)
