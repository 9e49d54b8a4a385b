"""The one decision point: blocks, trust, approval, and one record for everything."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Literal, get_type_hints

import anyio
import pytest

from metier import Decision, FunctionTool, Guard, Library, Place, Policy, ToolResult
from metier.errors import AuditUnavailable, InvalidArgument, Refused
from metier.guard import Action, Actor, AuditRecord, MemoryLog, Subject
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.source import MemorySource

TRUSTED = Subject(name="a", digest="sha256:1", layer="project")
UNTRUSTED = Subject(name="a", trusted=False)


def guard(policy: Policy | None = None, **options: Any) -> Guard:
    return Guard(policy, **({"audit": MemoryLog()} | options))


@pytest.mark.each("point", ["load", "read", "run", "hook", "inject", "call"])
@pytest.mark.parametrize("blocked", ["a", "sha256:1"])
def test_a_blocked_skill_may_do_nothing_but_end(point: Any, blocked: str) -> None:
    policy = Policy(blocked=[blocked], unsandboxed="allow", hooks="allow", injection="allow")
    decision = guard(policy).decide(Action(point=point, skill=TRUSTED))
    assert (decision.outcome, decision.code, decision.rule) == ("deny", "skill-blocked", "policy: blocked")
    assert guard(policy).decide(Action(point="unload", skill=TRUSTED)).is_allowed


def test_a_block_counts_from_the_next_decision_and_can_be_taken_back() -> None:
    one = guard()
    action = Action(point="load", skill=TRUSTED)
    assert one.decide(action).is_allowed
    before = one.version
    one.block("a", "b")
    assert one.version > before
    assert one.decide(action).code == "skill-blocked"
    assert one.blocked == {"a", "b"}
    one.unblock("a")
    assert one.decide(action).is_allowed
    assert one.blocked == {"b"}


def test_a_new_policy_does_not_lift_a_block_and_lifting_a_block_not_the_policys() -> None:
    one = guard(Policy(blocked=["p"]))
    one.block("b")
    one.policy = Policy(blocked=["q"])
    assert one.blocked == {"b", "q"}
    one.unblock("q", "b")
    assert one.blocked == {"q"}


def test_blocks_from_many_threads_are_all_kept_and_all_seen() -> None:
    one = guard()
    before = one.version
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for step in range(50):
            one.block(f"{number}-{step}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Policy files are looked at again from time to time, and may count as a change too.
    assert (len(one.blocked), one.version - before >= 400) == (400, True)


@pytest.mark.covers("O-106")
@pytest.mark.each(
    ("subject", "by", "outcome", "code"),
    [
        (Subject(name="a"), "model", "allow", ""),
        (Subject(name="a", for_models=False), "model", "deny", "not-for-models"),
        (Subject(name="a", for_models=False), "user", "allow", ""),
        (Subject(name="a", for_models=False), "host", "allow", ""),
        (Subject(name="a", for_people=False), "user", "deny", "not-for-people"),
        (Subject(name="a", for_people=False), "model", "allow", ""),
        (UNTRUSTED, "model", "ask", "approval-needed"),
        (UNTRUSTED, "user", "allow", ""),
        (UNTRUSTED, "host", "allow", ""),
    ],
)
def test_who_may_load_what(subject: Subject, by: Any, outcome: str, code: str) -> None:
    decision = guard().decide(Action(point="load", skill=subject, by=by))
    assert (decision.outcome, decision.code) == (outcome, code)


@pytest.mark.each(
    ("point", "subject", "policy", "isolated", "outcome", "code"),
    [
        ("run", TRUSTED, {}, True, "allow", ""),
        ("run", TRUSTED, {}, False, "deny", "isolation-missing"),
        ("run", TRUSTED, {"unsandboxed": "allow"}, False, "allow", ""),
        ("run", TRUSTED, {"unsandboxed": "ask"}, False, "ask", "approval-needed"),
        ("run", TRUSTED, {"scripts": "deny"}, True, "deny", "scripts-denied"),
        ("run", TRUSTED, {"scripts": "ask", "unsandboxed": "deny"}, False, "deny", "isolation-missing"),
        ("run", UNTRUSTED, {}, True, "ask", "approval-needed"),
        ("run", UNTRUSTED, {"untrusted": "deny"}, True, "deny", "skill-untrusted"),
        ("run", UNTRUSTED, {"untrusted": "allow"}, True, "allow", ""),
        ("hook", TRUSTED, {}, True, "deny", "hooks-denied"),
        ("hook", TRUSTED, {"hooks": "allow"}, True, "allow", ""),
        ("hook", TRUSTED, {"hooks": "allow"}, False, "deny", "isolation-missing"),
        ("hook", UNTRUSTED, {"hooks": "allow", "untrusted": "allow"}, True, "deny", "skill-untrusted"),
        ("inject", TRUSTED, {}, True, "deny", "injection-denied"),
        ("inject", UNTRUSTED, {"injection": "allow"}, True, "deny", "skill-untrusted"),
    ],
)
def test_what_may_run(
    point: Any, subject: Subject, policy: dict[str, Any], isolated: bool, outcome: str, code: str
) -> None:
    decision = guard(Policy(**policy)).decide(Action(point=point, skill=subject, isolated=isolated))
    assert (decision.outcome, decision.code) == (outcome, code)
    assert decision.is_allowed or decision.hint


def asked(answer: Any) -> tuple[Guard, list[Any]]:
    questions: list[Any] = []

    def approve(action: Action, decision: Any) -> Any:
        questions.append((action.tool, decision.outcome))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return guard(Policy(ask="Write", deny="Bash"), approve=approve), questions


@pytest.mark.each(
    ("answer", "outcome", "code"),
    [
        (True, "allow", ""),
        (False, "deny", "approval-denied"),
        (None, "deny", "approval-failed"),
        ("yes", "deny", "approval-failed"),
        (1, "deny", "approval-failed"),
        (RuntimeError("no"), "deny", "approval-failed"),
    ],
)
def test_only_a_clear_yes_is_agreement(answer: Any, outcome: str, code: str) -> None:
    one, questions = asked(answer)
    audited = one.enter(Action(point="call", tool="Write"))
    assert (audited.decision.outcome, audited.decision.code) == (outcome, code)
    assert audited.decision.rule == "policy: ask Write"
    assert questions == [("Write", "ask")]


def test_nobody_is_asked_about_what_is_allowed_or_denied_or_merely_decided() -> None:
    one, questions = asked(True)
    one.enter(Action(point="call", tool="Read"))
    one.enter(Action(point="call", tool="Bash"))
    one.decide(Action(point="call", tool="Write"))
    assert questions == []


def test_without_anybody_to_ask_it_is_refused_and_recorded_as_asked() -> None:
    log = MemoryLog()
    audited = guard(Policy(ask="Write"), audit=log).enter(Action(point="call", tool="Write"))
    with pytest.raises(Refused) as caught:
        audited.require()
    assert caught.value.code == "approval-needed"
    assert caught.value.context["decision"] is audited.decision
    audited.close(success=True)
    assert [(one.decision, one.success) for one in log.records] == [("ask", False)]


def test_approval_lets_a_model_load_what_nobody_vouches_for() -> None:
    source = MemorySource.of({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    library = Library([Place(layer="project", source=source, trusted=False)], cache=False)
    log = MemoryLog()
    session = library.session(guard=Guard(audit=log, approve=lambda action, decision: action.point == "load"))
    session.load("a", by="model")
    assert [(one.skill, one.decision, one.rule) for one in log.records] == [("a", "allow", "policy: untrusted ask")]


@pytest.mark.covers("O-105")
def test_a_passage_leaves_one_record_however_often_it_is_closed() -> None:
    log = MemoryLog()
    actor = Actor(agent="ag", task="t", tenant="te", user="u", session="s", correlation_id="c")
    action = Action(point="run", skill=TRUSTED, path="scripts/x.py", command="scripts/x.py --token=hunter2", by="user")
    with guard(audit=log).enter(action, actor) as audited:
        audited.close(success=False, exit_code=3)
    audited.close(success=True)
    (record,) = log.records
    assert (record.event, record.skill, record.digest, record.layer) == ("run", "a", "sha256:1", "project")
    assert (record.agent, record.task, record.tenant, record.user) == ("ag", "t", "te", "u")
    assert (record.session, record.correlation_id, record.by) == ("s", "c", "user")
    assert (record.exit_code, record.success, record.command) == (3, False, "scripts/x.py --token=[REDACTED]")


@pytest.mark.each(
    ("error", "code"),
    [
        (None, ""),
        (ValueError(), "failed"),
        (KeyboardInterrupt(), "cancelled"),
        (SystemExit(3), "cancelled"),
        (AuditUnavailable("x"), "audit-unavailable"),
    ],
)
def test_how_something_ended_is_in_its_record(error: BaseException | None, code: str) -> None:
    log = MemoryLog()
    try:
        with guard(audit=log).enter(Action(point="read", skill=TRUSTED)):
            if error is not None:
                raise error
    except BaseException as caught:
        assert caught is error
    assert [(one.success, one.code) for one in log.records] == [(error is None, code)]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.each(
    "arguments",
    [
        {"text": "x" * 1_000_000},
        {"deep": nested(100_000)},
        {("a", 1): 2},
        {"object": object()},
        {"bytes": b"\xff", "half": "\ud800"},
        {"password": "hunter2"},
    ],
)
def test_arguments_of_any_kind_make_a_short_record(arguments: Any) -> None:
    log = MemoryLog()
    guard(audit=log).enter(
        Action(point="call", tool="T" * 1_000_000, arguments=arguments, path="p" * 1_000_000)
    ).close()
    line = log.records[0].as_line()
    assert len(line) < 20_000
    assert line.count(b"\n") == 1
    assert b"hunter2" not in line


class Failing:
    """A log that cannot be written until somebody repairs it."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.records: list[AuditRecord] = []
        self.tries = 0

    def append(self, record: AuditRecord) -> None:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.records.append(record)


@pytest.mark.parametrize("error", [AuditUnavailable("full", hint="Free some space."), OSError("disk"), RuntimeError()])
def test_nothing_more_happens_while_a_log_that_was_asked_for_cannot_be_written(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    log = Failing(error)
    one = guard(audit=log)
    action = Action(point="load", skill=TRUSTED)
    one.enter(action).close(success=True)
    for _ in range(3):
        audited = one.enter(action)
        assert audited.decision.code == "audit-unavailable"
        audited.close()
    assert sum("could not be kept" in record.getMessage() for record in caplog.records) == 1
    log.error = None
    assert one.enter(action).decision.is_allowed
    assert [record.code for record in log.records] == ["", *["audit-unavailable"] * 3]


def test_refusals_without_end_cost_neither_memory_nor_time() -> None:
    log = Failing(OSError("disk"))
    one = guard(audit=log)
    for _ in range(1_500):
        one.enter(Action(point="load", skill=TRUSTED)).close()
    assert log.tries < 3 * 1_500
    log.error = None
    assert one.enter(Action(point="load", skill=TRUSTED)).decision.is_allowed
    assert len(log.records) <= 1_000


def test_actions_at_the_same_time_are_all_refused_without_a_log() -> None:
    one = guard(audit=Failing(OSError("disk")))
    one.enter(Action(point="load", skill=TRUSTED)).close()
    start = threading.Barrier(8)
    outcomes: list[bool] = []

    def work() -> None:
        start.wait()
        for _ in range(50):
            audited = one.enter(Action(point="load", skill=TRUSTED))
            outcomes.append(audited.decision.is_allowed)
            audited.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [False] * 400


def test_a_session_stops_where_its_log_ends(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    session = library.session(guard=Guard(audit=str(tmp_path / "file" / "audit.jsonl")))
    with pytest.raises(Refused) as caught:
        session.load("a")
    assert caught.value.code == "audit-unavailable"
    assert session.calls.admit("Bash", {}).decision.code == "audit-unavailable"
    (tmp_path / "file").unlink()
    assert session.load("a").changed == ("a",)
    (tmp_path / "file" / "audit.jsonl").unlink()
    (tmp_path / "file" / "audit.jsonl").mkdir()
    assert session.calls.admit("Bash", {}).decision.is_allowed, "that it cannot be recorded shows when it ends"
    session.calls.admit("Bash", {}).record(ToolResult(success=True))
    with pytest.raises(Refused):
        session.read("SKILL.md")
    # What is loaded can always be put down.
    assert session.unload(all=True).active == ()
    (tmp_path / "file" / "audit.jsonl").rmdir()
    session.load("a")
    assert (tmp_path / "file" / "audit.jsonl").read_text().count("\n") > 1


def test_an_async_callback_is_awaited_with_and_without_an_event_loop() -> None:
    async def approve(action: Action, decision: Decision) -> bool:
        await anyio.sleep(0)
        return action.tool == "Write"

    one = guard(Policy(ask="Write, Edit"), approve=approve)
    assert one.enter(Action(point="call", tool="Write")).decision.is_allowed

    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    executor = library.session(guard=one).executor([FunctionTool(str, name=name, parameters=ANY) for name in ASKED])

    async def main() -> list[str | None]:
        return [(await executor.execute(name, {})).code for name in ASKED]

    assert anyio.run(main) == [None, "approval-denied"]


ASKED = ("Write", "Edit")
ANY = {"type": "object"}


def test_asking_does_not_hold_up_other_conversations() -> None:
    answered = threading.Event()

    def approve(action: Action, decision: Decision) -> bool:
        return answered.wait(30)

    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    session = library.session(guard=guard(Policy(ask="Write"), approve=approve))
    executor = session.executor([FunctionTool(str, name="Write", parameters=ANY)])

    async def main() -> ToolResult:
        results = []

        async def ask() -> None:
            results.append(await executor.execute("Write", {}))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(0)
            answered.set()  # only an event loop that is not held up gets here
        return results[0]

    assert anyio.run(main).success


def test_what_is_loaded_while_somebody_is_asked_counts() -> None:
    library = Library.from_files(
        {"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."},
        {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nDo."},
    )

    def approve(action: Action, decision: Decision) -> bool:
        session.load("strict", "add")
        return True

    done: list[str] = []
    session = library.session(skills=["a"], guard=guard(Policy(ask="Write"), approve=approve))
    executor = session.executor([FunctionTool(lambda: done.append("w"), name="Write", parameters=ANY)])
    result = executor.execute_blocking("Write", {})
    assert (result.code, done) == ("tool-not-allowed", [])


@pytest.mark.each("wrong", [{"policy": "deny"}, {"approve": 5}, {"audit": 5}])
def test_what_is_no_policy_no_log_and_nobody_to_ask_is_said_at_once(wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(InvalidArgument, match=f"{name} is") as caught:
        Guard(**wrong)
    assert caught.value.hint


def test_what_was_seen_before_waiting_records_were_written_decides_nothing(own_home: Path) -> None:
    policy = own_home / ".metier" / "policy.yaml"

    class Slow(MemoryLog):
        """A log that cannot be written at first; by the time that it can, somebody has written a policy."""

        is_full = True

        def append(self, record: AuditRecord) -> None:
            if self.is_full:
                raise AuditUnavailable("It is full.", hint="")
            policy.parent.mkdir(exist_ok=True)
            policy.write_text("tools: {deny: [send]}")
            super().append(record)

    log = Slow()
    one, call = guard(audit=log), Action(point="call", tool="send")
    one.enter(call).close()
    log.is_full = False
    _, in_force = one.look(Actor())
    assert one.decide(call, Actor(), in_force).is_allowed
    assert one.enter(call, in_force=in_force).decision.code == "tool-not-allowed"


def test_what_is_in_force_for_one_tenant_decides_nothing_about_another(tmp_path: Path) -> None:
    one = Guard(audit=MemoryLog(), governance=Governance(Policies(), store=f"sqlite:///{tmp_path}/metier.db"))
    one.governance.scope(Actor(tenant="acme")).blocks.add("name", "miner", reason="It mines.", by="ada")
    acme, other = Actor(tenant="acme"), Actor(tenant="other")
    load = Action(point="load", skill=Subject(name="miner"))
    _, seen = one.look(other)
    assert one.decide(load, other, seen).is_allowed
    assert not one.decide(load, acme, seen).is_allowed
    assert not one.enter(load, acme, in_force=seen).decision.is_allowed


def test_the_annotations_of_a_decision_can_be_evaluated() -> None:
    assert get_type_hints(Decision)["outcome"] == Literal["allow", "ask", "deny"]
