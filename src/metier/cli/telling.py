"""What an agent says and does, told to a person: its text on standard output, the rest beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.output import Style
from metier.cli.screen import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard import Question
    from metier.session import Event

_MARKS = {"loaded": "↳", "unloaded": "↰", "read": "·", "ran": "▸", "refused": "✗", "stale": "!", "noted": "!"}


class Telling:
    """The events of one run, shown as they come."""

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._out, self._beside = Style(sys.stdout), Style(sys.stderr)
        self._is_line_open = False
        self._turn: object = None

    def take(self, event: Event) -> None:
        """Show an event."""
        # What waits for an answer is told at the end, with how to go on.
        if self._is_silent or event.code == "approval-pending":
            return
        if event.kind == "text":
            self._text(event)
        elif event.kind in _MARKS:
            self._beside_it(f"{_MARKS[event.kind]} {event.message}", is_bad=event.kind == "refused")
        elif event.kind == "action" and not event.tool.startswith("skills_"):
            self._beside_it(f"→ {event.tool}")

    def end(self) -> None:
        """End the line that is open, whatever became of the run."""
        if self._is_line_open:
            print(flush=True)
            self._is_line_open = False

    def suspended(self, questions: Iterable[Question], way_on: str, tenant: str = "") -> None:
        """Say what has to be answered first, and how it goes on then."""
        style, requests = self._beside, []
        self.end()
        for question in questions:
            print(f"{style.warn('waits')}: {harmless(question.text)}", file=sys.stderr)
            requests += [question.request] if question.request else []
        for request in dict.fromkeys(requests):
            command = f"metier approve show {request}{tenant}"
            print(f"  Request {request}: `{command}` shows what it is about.", file=sys.stderr)
        after = "Once it is granted" if requests else "At a terminal, where you are asked"
        print(f"{style.dim('hint')}: {after}, `{way_on}` goes on.", file=sys.stderr, flush=True)

    def _text(self, event: Event) -> None:
        turn = event.data.get("turn")
        if turn != self._turn:
            # What was said before a tool was called and what is said after it are two things.
            self.end()
            self._turn = turn
        text = harmless(event.message) if self._out.is_terminal else event.message
        print(text, end="", flush=True)
        self._is_line_open = not event.message.endswith("\n")

    def _beside_it(self, text: str, *, is_bad: bool = False) -> None:
        if self._out.is_terminal:
            self.end()
        paint = self._beside.bad if is_bad else self._beside.dim
        print(paint(Style.text(text, 300)), file=sys.stderr, flush=True)
