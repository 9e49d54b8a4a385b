"""`metier ask`."""

from __future__ import annotations

import contextlib
import io
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

import anyio

from metier.cli.agents import SavedChats, add_agent_options, agent_of
from metier.cli.exit_codes import APPROVAL
from metier.cli.json_shapes import event_shape
from metier.cli.output import print_json
from metier.cli.parser import Parser
from metier.cli.terminal import EventPrinter, at_terminal, ended_by_interrupt
from metier.errors import InvalidArgument
from metier.guard.remedies import tenant_option

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from typing import Any, TextIO

    from metier.agent import Agent, Answer, Conversation
    from metier.guard import Question
    from metier.session import Event

MAX_TASK = 1024 * 1024


def add(parser: Parser) -> None:
    parser.example('metier ask "Which columns does sales.csv have?" --model test')
    parser.option("task", "TASK", "what it is to do; `-` reads it from a pipe", nargs="*")
    add_agent_options(parser)
    parser.option("--resume", "ID", "go on with a task that waited for somebody to agree", nargs="?", const="last")
    parser.json()


def run(options: Namespace) -> int:
    telling = EventPrinter(is_silent=options.json)
    if options.resume is None:
        task = _task(options.task)
        events, waiting = _run_task(agent_of(options, at_terminal()), task, telling)
    else:
        events, waiting = _resume_task(options, telling)
    if options.json:
        last = events[-1]
        print_json(
            {
                "answer": None if waiting else last.message,
                **dict(last.data),
                **({"resume": waiting.id} if waiting else {}),
                "events": [event_shape(event) for event in events if event.kind not in ("text", "answer", "suspended")],
            }
        )
    elif waiting:
        tenant = tenant_option(options.tenant)
        telling.suspended(waiting.questions, f"metier ask --resume {waiting.id}{tenant}", tenant)
    return APPROVAL if waiting else 0


class _Waiting(NamedTuple):
    """The questions that a task waits for, and the id of its conversation."""

    id: str
    questions: tuple[Question, ...]


def _resume_task(options: Namespace, telling: EventPrinter) -> tuple[list[Event], _Waiting | None]:
    """Resume a task that waited; it is saved again, whether or not it still waits."""
    if options.task:
        raise InvalidArgument("A task that waited says already what to do.", hint="Leave TASK out with --resume.")
    chats = SavedChats()
    state = chats.read(options.resume)
    take_agent(options, state)
    with start_conversation(agent_of(options, at_terminal()), state) as conversation:
        events = print_events(conversation.resume(), telling)
        id_ = conversation.session.id
        chats.keep(id_, conversation.save())
        return events, _Waiting(id_, conversation.questions) if conversation.questions else None


def _task(words: list[str]) -> str:
    if words == ["-"]:
        take_any_bytes(sys.stdin)
    task = as_text(sys.stdin.read(MAX_TASK + 1) if words == ["-"] else " ".join(words))
    if not task.strip():
        raise InvalidArgument("Nothing was asked.", hint='Write metier ask "TASK", or `-` to read it from a pipe.')
    if len(task) > MAX_TASK:
        raise InvalidArgument(
            f"The task has more than {MAX_TASK:,} characters.", hint="Put what it is about into a file, and name that."
        )
    return task


def take_any_bytes(stream: TextIO) -> None:
    """Let a stream pass bytes that are no text, for `as_text` to refuse."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")


def as_text(asked: str) -> str:
    """Return the task; raises `InvalidArgument` where it has bytes in it that are no text."""
    try:
        asked.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("What was asked is not UTF-8 text.", hint="Save or send it as UTF-8.") from None
    return asked


def _run_task(agent: Agent, task: str, telling: EventPrinter) -> tuple[list[Event], _Waiting | None]:
    suspended: list[Answer] = []
    events = print_events(agent.stream(task, on_suspended=suspended.append), telling)
    for answer in suspended:
        SavedChats().keep(answer.session, dict(answer.state or {}))
        return events, _Waiting(answer.session, answer.questions)
    return events, None


def start_conversation(agent: Agent, state: Mapping[str, Any] | None) -> Conversation:
    """Start or resume a conversation; a person may be asked about the skills that it had loaded."""

    async def main() -> Conversation:
        with ended_by_interrupt():
            return await agent.guard.in_thread(agent.conversation, state)
        raise KeyboardInterrupt

    return anyio.run(main)


def take_agent(options: Namespace, state: Mapping[str, Any]) -> None:
    """Choose the agent of a saved conversation, unless the options name another."""
    if options.agent is None and isinstance(state.get("agent"), str):
        options.agent = state["agent"]


def print_events(stream: AsyncGenerator[Event], telling: EventPrinter) -> list[Event]:
    """Print the events of a run as they come, and return them; raises `KeyboardInterrupt` where Ctrl-C ended it."""

    async def main() -> list[Event]:
        found = []
        try:
            with ended_by_interrupt():
                async with contextlib.aclosing(stream) as events:
                    async for event in events:
                        telling.take(event)
                        found.append(event)
                return found
        finally:
            telling.end()
        raise KeyboardInterrupt

    return anyio.run(main)
