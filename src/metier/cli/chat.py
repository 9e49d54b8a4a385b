"""`metier chat`."""

from __future__ import annotations

import contextlib
import itertools
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from metier.cli.agents import SavedChats, add_agent_options, agent_of
from metier.cli.ask import as_text, print_events, start_conversation, take_agent, take_any_bytes
from metier.cli.exit_codes import APPROVAL
from metier.cli.output import Style, print_error
from metier.cli.parser import Parser
from metier.cli.terminal import EventPrinter, at_terminal
from metier.errors import MetierError
from metier.guard.remedies import tenant_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.agent import Conversation

_HELP = """\
/SKILL ARGUMENTS  use a skill by its name
/skills           what is loaded
/resume           go on with what waited for somebody to agree
/exit             end; also Ctrl-D
Ctrl-C ends an answer that takes too long."""


def add(parser: Parser) -> None:
    parser.example("metier chat --agent skill-builder --model openai:gpt-5")
    add_agent_options(parser)
    parser.option("--resume", "ID", "go on with a conversation, by default with the last", nargs="?", const="last")


def run(options: Namespace) -> int:
    chats = SavedChats()
    state = None if options.resume is None else chats.read(options.resume)
    if state is not None:
        take_agent(options, state)
    agent = agent_of(options, at_terminal())
    style, tenant = Style(sys.stderr), tenant_option(options.tenant)
    with start_conversation(agent, state) as conversation:
        if sys.stdin.isatty():
            name = Style.text(agent.manifest.name or agent.manifest.id)
            print(style.dim(f"{name}, on {Style.text(agent.model.model_name)}. /help says what you can type."))
        if conversation.left_out:
            names = ", ".join(map(Style.text, conversation.left_out))
            print(f"{style.warn('not loaded again')}: {names}; gone or refused by now.", file=sys.stderr)
        was_asked = was_answered = False
        for text in itertools.chain(["/resume"] if conversation.questions else [], _lines()):
            if text in ("/exit", "/quit"):
                break
            if text in ("/help", "/skills"):
                print(_HELP if text == "/help" else _loaded(conversation), file=sys.stderr)
                continue
            was_asked = True
            was_answered = _answered(conversation, text, tenant) or was_answered
            _keep(chats, conversation)
            if conversation.questions and not sys.stdin.isatty():
                # What comes through the pipe next was written for an answer that is not there yet.
                return APPROVAL
        if was_answered:
            command = f"metier chat --resume {conversation.session.id}{tenant}"
            print(style.dim(f"`{command}` goes on with it."), file=sys.stderr)
    return 1 if was_asked and not was_answered and not sys.stdin.isatty() else 0


def _keep(chats: SavedChats, conversation: Conversation) -> None:
    """Save the conversation; a failure is printed, and the conversation goes on."""
    try:
        chats.keep(conversation.session.id, conversation.save())
    except (MetierError, OSError) as error:
        print(f"{Style(sys.stderr).warn('not kept')}: {Style.text(str(error), 500)}", file=sys.stderr)


def _lines() -> Iterator[str]:
    """Read lines that are typed or come through a pipe."""
    is_typed = sys.stdin.isatty()
    take_any_bytes(sys.stdin)
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


def _answered(conversation: Conversation, text: str, tenant: str) -> bool:
    """Send a message and print the events of the answer; an error is printed, and the conversation goes on."""
    telling = EventPrinter()
    try:
        print_events(conversation.resume() if text == "/resume" else conversation.send(as_text(text)), telling)
    except KeyboardInterrupt:
        print(Style(sys.stderr).warn("Stopped."), file=sys.stderr)
    except MetierError as error:
        print_error(error.code, str(error), error.hint)
        return False
    if conversation.questions:
        command = f"metier chat --resume {conversation.session.id}{tenant}"
        telling.suspended(conversation.questions, command, tenant)
    return not conversation.questions


def _loaded(conversation: Conversation) -> str:
    names = [Style.text(one.name) for one in conversation.session.active]
    return f"Loaded: {', '.join(names)}." if names else "Nothing is loaded."
