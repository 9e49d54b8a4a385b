"""`metier chat`."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING

from metier.cli.agents import agent_of
from metier.cli.chats import Chats
from metier.cli.output import Style
from metier.cli.person import Person
from metier.cli.telling import Telling
from metier.errors import MetierError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from metier.agent import Conversation

_HELP = """\
/SKILL ARGUMENTS  use a skill by its name
/skills           what is loaded
/exit             end; also Ctrl-D
Ctrl-C ends an answer that takes too long."""


def run(options: argparse.Namespace) -> int:
    chats = Chats()
    state = None if options.resume is None else chats.read(options.resume)
    if state is not None and options.agent is None and isinstance(state.get("agent"), str):
        options.agent = state["agent"]
    agent = agent_of(options, Person())
    style = Style(sys.stderr)
    with agent.conversation(state) as conversation:
        if sys.stdin.isatty():
            name = Style.text(agent.manifest.name or agent.manifest.id)
            print(style.dim(f"{name}, on {Style.text(agent.model.model_name)}. /help says what you can type."))
        was_answered = False
        for text in _lines():
            if text in ("/exit", "/quit"):
                break
            if text in ("/help", "/skills"):
                print(_HELP if text == "/help" else _loaded(conversation), file=sys.stderr)
                continue
            was_answered = _answered(conversation, text) or was_answered
            chats.keep(conversation.session.id, conversation.save())
        if was_answered:
            print(style.dim(f"`metier chat --resume {conversation.session.id}` goes on with it."), file=sys.stderr)
    return 0 if was_answered or sys.stdin.isatty() else 1


def _lines() -> Iterator[str]:
    """What is typed, or comes through a pipe, a line at a time."""
    is_typed = sys.stdin.isatty()
    if is_typed:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # gives `input` a memory and arrow keys
    while True:
        try:
            text = input("> ") if is_typed else sys.stdin.readline()
        except EOFError:
            print(file=sys.stderr)
            return
        if not text and not is_typed:
            return
        if text.strip():
            yield text.strip()


def _answered(conversation: Conversation, text: str) -> bool:
    """Say something and tell what comes of it; what goes wrong is said, and the conversation goes on."""
    import anyio

    telling, style = Telling(), Style(sys.stderr)

    async def main() -> None:
        with anyio.CancelScope() as scope, _ended_by_interrupt(scope):
            async with contextlib.aclosing(conversation.send(text)) as events:
                async for event in events:
                    telling.take(event)
        if scope.cancelled_caught:
            telling.end()
            print(style.warn("Stopped."), file=sys.stderr)

    try:
        anyio.run(main)
    except MetierError as error:
        telling.end()
        print(f"{style.bad('error')} [{error.code}]: {Style.text(str(error), 2_000)}", file=sys.stderr)
        if error.hint:
            print(f"{style.dim('hint')}: {Style.text(error.hint, 2_000)}", file=sys.stderr)
        return False
    finally:
        telling.end()
    return True


@contextlib.contextmanager
def _ended_by_interrupt(scope: object) -> Iterator[None]:
    """Ctrl-C ends the answer and not the conversation."""
    import asyncio

    import anyio

    assert isinstance(scope, anyio.CancelScope)
    loop = asyncio.get_running_loop()

    def stop(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(scope.cancel)

    try:
        before = signal.signal(signal.SIGINT, stop)
    except ValueError:  # which only the first thread can be told
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _loaded(conversation: Conversation) -> str:
    names = [Style.text(one.name) for one in conversation.session.active]
    return f"Loaded: {', '.join(names)}." if names else "Nothing is loaded."
