"""What comes while somebody is being asked: a skill that forbids it, or the end of the run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from metier import FunctionTool, Library, Place, Policy, Session, ToolResult
from metier.guard import AuditRecord, Decision, Guard, MemoryLog
from metier.source import MemorySource

STRICT = {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nRead."}
FORKED = {"SKILL.md": "---\nname: forked\ndescription: F.\ncontext: fork\nallowed-tools: Read\n---\nRead."}


class Told(MemoryLog):
    """A log that says when something other than a load was recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.is_told = threading.Event()

    def append(self, record: AuditRecord) -> None:
        super().append(record)
        if record.event != "load":
            self.is_told.set()


def test_a_skill_that_is_loaded_while_somebody_is_asked_restricts_the_call() -> None:
    done: list[str] = []

    def send() -> str:
        done.append("sent")
        return "sent"

    def approve(action: object, decision: object) -> bool:
        session.load("strict")
        return True

    guard = Guard(Policy(ask="send"), audit=MemoryLog(), approve=approve)
    session = Library.from_files(STRICT).session(guard=guard)
    result = session.executor([FunctionTool(send)]).execute_blocking("send")
    assert (result.code, done) == ("tool-not-allowed", [])


FREE = {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."}


def sent_after(happens: Callable[[Session], object], **policy: Any) -> tuple[ToolResult, list[str], list[AuditRecord]]:
    """What becomes of a call that somebody agrees to, when something happens while they think about it."""
    done: list[str] = []

    def approve(action: object, decision: object) -> bool:
        happens(session)
        return True

    log = MemoryLog()
    session = Library.from_files(FREE, STRICT).session(guard=Guard(Policy(**policy), audit=log, approve=approve))
    tool = FunctionTool(lambda: done.append("sent"), name="send", parameters={"type": "object"})
    result = session.executor([tool]).execute_blocking("send")
    return result, done, [record for record in log.records if record.event == "call"]


def test_a_yes_counts_also_when_a_skill_was_loaded_that_has_nothing_against_it() -> None:
    result, done, records = sent_after(lambda session: session.load("free"), ask="send")
    assert (result.success, done) == (True, ["sent"])
    assert [(record.decision, record.success, record.code) for record in records] == [("allow", True, "")]


@pytest.mark.each(
    ("happens", "decision", "rule", "code"),
    [
        (lambda session: session.load("strict"), "deny", "strict: allowed-tools", "tool-not-allowed"),
        (lambda session: _change(session, deny="send"), "deny", "policy: deny send", "tool-not-allowed"),
        # Another question is not the one that was answered.
        (lambda session: _change(session, ask="*"), "ask", "policy: ask *", "approval-needed"),
    ],
)
def test_the_record_says_what_kept_a_call_from_being_made_that_somebody_had_agreed_to(
    happens: Callable[[Session], object], decision: str, rule: str, code: str
) -> None:
    result, done, records = sent_after(happens, ask="send")
    assert (result.code, done) == (code, [])
    (record,) = records
    assert (record.decision, record.rule, record.code, record.success) == (decision, rule, code, False)
    assert record.reason.startswith("Somebody was asked and agreed. ")


def test_what_was_allowed_unasked_is_not_made_when_it_must_be_asked_by_now() -> None:
    session = Library.from_files(FREE).session(guard=Guard(audit=MemoryLog()))

    async def main() -> Decision | None:
        admission = await session.calls.admit_async("other", {})
        _change(session, ask="other")
        return await admission.before()

    against = anyio.run(main)
    assert against is not None
    assert (against.outcome, against.code) == ("ask", "approval-needed")


def test_a_control_tool_that_is_forbidden_while_somebody_is_asked_is_not_called() -> None:
    def approve(action: object, decision: object) -> bool:
        _change(session, deny="skills_load")
        return True

    session = Library.from_files(FREE).session(
        guard=Guard(Policy(ask="skills_load"), audit=MemoryLog(), approve=approve)
    )
    result = session.executor().execute_blocking("skills_load", {"skills": ["free"]})
    assert (result.code, session.active) == ("tool-not-allowed", ())


def _change(session: Session, **policy: Any) -> None:
    session.guard.policy = Policy(**policy)


@pytest.mark.covers("O-102")
def test_a_forked_skill_cannot_be_unloaded_by_the_agent_that_runs_it() -> None:
    child = Library.from_files(FORKED, STRICT).session(guard=Guard(audit=MemoryLog())).fork("forked")
    child.unload(all=True, by="model")
    child.load("strict", by="model")
    assert [one.name for one in child.active] == ["forked", "strict"]
    assert not child.may_call("Write", {"file_path": "x"})


@pytest.mark.covers("O-105")
@pytest.mark.each("how", ["call", "run"])
def test_what_ends_while_somebody_is_asked_leaves_its_record(how: str) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def approve(action: object, decision: object) -> bool:
        asked.set()
        assert go_on.wait(30)
        return True

    log = Told()
    guard = Guard(Policy(ask="send", scripts="ask"), audit=log, approve=approve)
    files = {**STRICT, "scripts/go.py": "print(1)"}
    session = Library.from_files(files).session(guard=guard, skills=["strict"] if how == "run" else [])

    async def main() -> None:
        if how == "call":
            work = asyncio.ensure_future(session.executor([FunctionTool(lambda: "x", name="send")]).execute("send"))
        else:
            work = asyncio.ensure_future(session.run("scripts/go.py"))  # type: ignore[arg-type]
        await anyio.to_thread.run_sync(asked.wait)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(work), 30)
        go_on.set()

    asyncio.run(main())
    assert log.is_told.wait(30)
    ended = [(record.event, record.success, record.code) for record in log.records if record.event == how]
    assert ended == [(how, False, "cancelled")]


@pytest.mark.covers("O-105")
def test_a_load_that_ends_while_somebody_is_asked_leaves_one_record() -> None:
    class Gone(BaseException):
        pass

    def approve(action: object, decision: object) -> bool:
        raise Gone

    source = MemorySource({}, name="memory")
    source.add(STRICT)
    log = MemoryLog()
    library = Library([Place(layer="project", source=source, trusted=False)], cache=False)
    session = library.session(guard=Guard(Policy(untrusted="ask"), audit=log, approve=approve))
    with pytest.raises(Gone):
        session.load("strict", by="model")
    assert [(record.event, record.decision, record.code) for record in log.records] == [("load", "deny", "cancelled")]
