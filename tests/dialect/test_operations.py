"""What every dialect asks of a session: content sent once, and skills run in agents of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Library, Place, Session
from metier.dialect import as_text
from metier.guard import Guard, MemoryLog, Policy
from metier.session import MARKER, ActiveSkill, Lineage
from metier.source import MemorySource
from metier.tools import Executor, ToolResult

Asking = Callable[..., tuple[str, dict[str, Any]]]
DIALECTS = ["registry", "tool", "runtime", "sandbox"]
FORK = "context: fork\n"


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Any:
    """Each of the dialects."""
    return request.param


@pytest.fixture
def load(asking: Asking, dialect: str) -> Callable[..., ToolResult]:
    """Loads a skill as a model does."""

    def load(executor: Executor, name: str, args: str = "") -> ToolResult:
        return executor.execute_blocking(*asking(dialect, name, args))

    return load


# --- content is sent once -------------------------------------------------------------------------------------------


def test_content_begins_with_its_marker_and_is_to_be_kept(
    session: Session, dialect: Any, load: Callable[..., ToolResult]
) -> None:
    result = load(session.executor(dialect=dialect), "forms")
    assert result.keep
    assert result.tokens_used > 0
    assert content(result).startswith(MARKER)


def test_the_same_content_is_not_sent_twice(session: Session, dialect: Any, load: Callable[..., ToolResult]) -> None:
    executor = session.executor(dialect=dialect)
    load(executor, "forms")
    again = load(executor, "forms")
    assert again.success
    assert not again.keep
    assert MARKER not in as_text(again)
    assert "earlier in this conversation" in as_text(again)


def test_other_arguments_make_other_content(session: Session, dialect: Any, load: Callable[..., ToolResult]) -> None:
    executor = session.executor(dialect=dialect)
    load(executor, "forms", "W-4")
    again = load(executor, "forms", "W-9")
    assert "Fill: W-9" in content(again)
    assert again.keep


def test_content_that_changed_is_sent_again(
    session: Session, skills: Path, dialect: Any, load: Callable[..., ToolResult]
) -> None:
    executor = session.executor(dialect=dialect)
    load(executor, "letters")
    file = skills / "letters" / "SKILL.md"
    file.write_text(file.read_text() + "Sign.\n")
    session.library.refresh()
    assert "Sign." in content(load(executor, "letters"))


def test_what_was_cut_from_the_history_is_sent_again(
    session: Session, dialect: Any, load: Callable[..., ToolResult]
) -> None:
    executor = session.executor(dialect=dialect)
    load(executor, "forms")
    session.prompt.forget_delivered()
    again = load(executor, "forms")
    assert again.keep
    assert content(again).startswith(MARKER)


def test_a_load_that_fails_sends_nothing_and_is_not_kept(
    session: Session, dialect: Any, load: Callable[..., ToolResult]
) -> None:
    result = load(session.executor(dialect=dialect), "none")
    assert (result.keep, result.result) == (False, None)


def content(result: ToolResult) -> str:
    """The text of a load, wherever its dialect puts it."""
    if isinstance(result.result, str):
        return result.result
    return str(next(result.result[key] for key in ("content", "instructions") if key in result.result))


# --- a skill that is run in an agent of its own ---------------------------------------------------------------------


class Agent:
    """An agent that notes what it was given."""

    def __init__(self, answer: str = "Done.", error: BaseException | None = None) -> None:
        self.answer = answer
        self.error = error
        self.skills: list[ActiveSkill] = []
        self.args: list[str] = []
        self.sessions: list[Session] = []

    async def __call__(self, skill: ActiveSkill, args: str, session: Any) -> str:
        assert [one.name for one in session.active] == [skill.name]
        self.skills.append(skill)
        self.args.append(args)
        self.sessions.append(session)
        if self.error is not None:
            raise self.error
        return self.answer


@pytest.fixture
def forking(skills: Path, write_skill: Callable[..., Path]) -> Path:
    """A skill that asks for an agent of its own, among the others."""
    write_skill(skills / "research", body="Research: $ARGUMENTS", more=FORK)
    return skills


def test_a_forked_skill_gives_the_parent_only_its_output(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    session, agent = begin(skills=["forms"]), Agent("Forty-two.")
    result = load(session.executor(dialect=dialect, spawn=agent), "research", "the question")
    assert result.success
    assert not result.keep
    assert "Forty-two." in as_text(result)
    assert "Research:" not in as_text(result)
    assert [one.name for one in session.active] == ["forms"]


def test_the_child_has_its_skill_and_its_arguments_and_nothing_else(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    session, agent = begin(skills=["forms"]), Agent()
    load(session.executor(dialect=dialect, spawn=agent), "research", "the question")
    (child,) = agent.sessions
    assert agent.args == ["the question"]
    assert agent.skills[0].body.strip() == "Research: the question"
    assert child is not session
    assert child.id != session.id
    assert (child.context.lineage.depth, child.context.lineage.chain) == (1, ("research",))
    assert child.context.is_closed


def test_the_child_is_closed_also_when_its_agent_fails(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult], log: MemoryLog
) -> None:
    session, agent = begin(), Agent(error=RuntimeError("no model"))
    result = load(session.executor(dialect=dialect, spawn=agent), "research")
    assert (result.success, result.code) == (False, "tool-failed")
    assert "no model" in (result.error or "")
    assert agent.sessions[0].context.is_closed
    assert session.active == ()
    events = [record.event for record in log.records if record.skill == "research"]
    assert events == ["load", "unload"]


@pytest.mark.parametrize("hooks", ["deny", "allow"])
def test_the_child_is_closed_also_when_the_call_is_cancelled(
    forking: Path, begin: Callable[..., Session], asking: Asking, dialect: Any, hooks: Any
) -> None:
    session = begin(Policy(hooks=hooks))
    children: list[Any] = []

    async def main() -> None:
        started = anyio.Event()

        async def forever(_skill: Any, _args: str, child: Any) -> str:
            children.append(child)
            started.set()
            await anyio.sleep_forever()
            raise AssertionError

        executor = session.executor(dialect=dialect, spawn=forever)
        async with anyio.create_task_group() as group:
            group.start_soon(executor.execute, *asking(dialect, "research"))
            await started.wait()
            group.cancel_scope.cancel()

    anyio.run(main)
    assert children[0].context.is_closed


def test_a_child_that_is_made_after_the_call_was_cancelled_is_closed(
    forking: Path, begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begin(Policy(hooks="allow"))
    fork, asked, go_on, closed = session.fork, threading.Event(), threading.Event(), threading.Event()

    def slow(*args: Any, **options: Any) -> Session:
        asked.set()
        assert go_on.wait(30)
        child = fork(*args, **options)
        close = child.close

        def told() -> None:
            close()
            closed.set()

        monkeypatch.setattr(child, "close", told)
        return child

    monkeypatch.setattr(session, "fork", slow)

    async def main() -> None:
        work = asyncio.ensure_future(session.executor(spawn=Agent()).execute("skills_load", {"skills": ["research"]}))
        await asyncio.to_thread(asked.wait, 30)
        work.cancel()
        await asyncio.wait([work])
        go_on.set()
        assert await asyncio.to_thread(closed.wait, 30)

    asyncio.run(main())


@pytest.mark.covers("O-80")
def test_at_the_greatest_depth_no_other_agent_is_started(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    session, agent = begin(lineage=Lineage(max_depth=0)), Agent()
    result = load(session.executor(dialect=dialect, spawn=agent), "research")
    assert (result.success, result.code) == (False, "activation-failed")
    assert "Maximum sub-agent depth" in (result.error or "")
    assert "maximum depth" in (result.hint or "")
    assert agent.sessions == []


@pytest.mark.covers("O-103")
@pytest.mark.parametrize(
    ("names", "said"), [(("a", "b", "c"), "research -> a -> b"), (("a", "research", "b"), "research -> a -> research")]
)
def test_agents_can_start_agents_until_it_is_too_deep_or_a_cycle(
    forking: Path, write_skill: Callable[..., Path], begin: Callable[..., Session], names: tuple[str, ...], said: str
) -> None:
    for name in "abc":
        write_skill(forking / name, more=FORK)
    results: list[ToolResult] = []
    todo = iter(names)

    async def deeper(_skill: Any, _args: str, child: Any) -> str:
        results.append(await child.executor(spawn=deeper).execute("skills_load", {"skills": [next(todo)]}))
        return "Done."

    assert begin().executor(spawn=deeper).execute_blocking("skills_load", {"skills": ["research"]}).success
    assert [result.code for result in results] == ["activation-failed", None]
    assert said in (results[0].error or "")


@pytest.mark.covers("O-106")
def test_a_model_cannot_fork_a_skill_that_is_for_people(
    forking: Path, write_skill: Callable[..., Path], begin: Callable[..., Session], dialect: Any,
    load: Callable[..., ToolResult],
) -> None:  # fmt: skip
    write_skill(forking / "secret-plan", more=f"{FORK}disable-model-invocation: true\n")
    agent = Agent()
    result = load(begin().executor(dialect=dialect, spawn=agent), "secret-plan")
    assert (result.success, result.code) == (False, "not-for-models")
    assert agent.sessions == []


def test_a_blocked_skill_is_not_forked(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    agent = Agent()
    result = load(begin(Policy(blocked=["research"])).executor(dialect=dialect, spawn=agent), "research")
    assert result.code == "skill-blocked"
    assert agent.sessions == []


def test_an_unknown_skill_leaves_the_same_record_with_and_without_agents(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult], log: MemoryLog
) -> None:
    load(begin().executor(dialect=dialect, spawn=Agent()), "none")
    with_agents, log.records = log.records, []
    load(begin().executor(dialect=dialect), "none")
    assert [(one.event, one.code) for one in with_agents] == [(one.event, one.code) for one in log.records]


def test_without_agents_a_skill_that_asks_for_one_is_loaded_here(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    session = begin()
    assert "Research: this" in content(load(session.executor(dialect=dialect), "research", "this"))
    assert [one.name for one in session.active] == ["research"]


def test_other_skills_are_loaded_here_also_where_there_are_agents(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult]
) -> None:
    session, agent = begin(), Agent()
    assert load(session.executor(dialect=dialect, spawn=agent), "forms").keep
    assert agent.sessions == []


def test_what_a_child_does_stands_in_the_same_trail(
    forking: Path, begin: Callable[..., Session], dialect: Any, load: Callable[..., ToolResult], log: MemoryLog
) -> None:
    session = begin()
    load(session.executor(dialect=dialect, spawn=Agent()), "research")
    records = [record for record in log.records if record.skill == "research"]
    assert [(record.event, record.by) for record in records] == [("load", "model"), ("unload", "host")]
    assert {record.correlation_id for record in records} == {session.id}


@pytest.mark.parametrize("agreed", [True, False])
def test_a_skill_that_nobody_vouches_for_is_not_forked_unasked(
    dialect: Any, load: Callable[..., ToolResult], agreed: bool
) -> None:
    source = MemorySource.of({"SKILL.md": f"---\nname: stranger\ndescription: Does it.\n{FORK}---\nDo.\n"})
    library = Library([Place(layer="project", source=source, name="here", trusted=False)], cache=False)
    guard, agent = Guard(Policy(untrusted="ask"), audit=MemoryLog(), approve=lambda *_: agreed), Agent()
    result = load(library.session(guard=guard).executor(dialect=dialect, spawn=agent), "stranger")
    assert result.success is agreed
    assert len(agent.sessions) == agreed
