"""`metier ask`."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

from metier.cli.agents import agent_of
from metier.cli.interrupt import ended_by_interrupt
from metier.cli.output import print_json
from metier.cli.person import Person
from metier.cli.shapes import error_shape, event_shape
from metier.cli.telling import Telling
from metier.errors import InvalidArgument, MetierError, ModelMissing, PartMissing, SourceUnavailable

if TYPE_CHECKING:
    import argparse
    from typing import TextIO

    from metier.agent import Agent
    from metier.session import Event

MAX_TASK = 1024 * 1024


def run(options: argparse.Namespace) -> int:
    try:
        task = _task(options.task)
        events = _asked(agent_of(options, Person()), task, Telling(is_silent=options.json))
    except MetierError as error:
        if not options.json:
            raise
        print_json(error_shape(error))
        return 2 if isinstance(error, InvalidArgument | SourceUnavailable | ModelMissing | PartMissing) else 1
    if options.json:
        last = events[-1]
        print_json(
            {
                "answer": last.message,
                **dict(last.data),
                "events": [event_shape(event) for event in events if event.kind not in ("text", "answer")],
            }
        )
    return 0


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
    """Read a stream also where it is no text, for `as_text` to say so."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")


def as_text(asked: str) -> str:
    """What was asked; raises `InvalidArgument` where it has bytes in it that are no text."""
    try:
        asked.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("What was asked is not UTF-8 text.", hint="Save or send it as UTF-8.") from None
    return asked


def _asked(agent: Agent, task: str, telling: Telling) -> list[Event]:
    import anyio

    async def main() -> list[Event]:
        found = []
        try:
            with ended_by_interrupt():
                async with contextlib.aclosing(agent.stream(task)) as events:
                    async for event in events:
                        telling.take(event)
                        found.append(event)
                return found
        finally:
            telling.end()
        raise KeyboardInterrupt

    return anyio.run(main)
