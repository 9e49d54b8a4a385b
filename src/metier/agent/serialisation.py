"""A conversation as data: saved, and gone on with later or elsewhere.

What is saved may come back from anywhere, so only messages are taken that a conversation could have made: no system
prompts, and nothing that would be fetched from a network.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    RetryFeedbackPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from metier._lazy import asdict
from metier.agent.turn import complete_calls, open_calls
from metier.errors import InvalidArgument
from metier.guard import Question
from metier.session import MARKER
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from pydantic_ai.messages import ModelMessage

    from metier import Session

FORMAT = 1
MAX_BYTES = 64 * 1024 * 1024
MAX_MESSAGES = 100_000
MAX_WAITING = 1_000
_ASKED = (UserPromptPart, ToolReturnPart, RetryFeedbackPart)
_SAID = (TextPart, ThinkingPart, ToolCallPart)
_DELIVERED = re.compile(rf'{re.escape(MARKER)}[^>]{{0,1000}}?digest=\\?"(sha256:[0-9a-f]{{64}})')


def save_conversation(
    agent: str, session: Session, history: Sequence[ModelMessage], waiting: Sequence[Question] = ()
) -> dict[str, Any]:
    """The state of a conversation with an agent as JSON holds it; `waiting` is what it is suspended at."""
    state = {
        "format": FORMAT,
        "agent": agent,
        "session": session.save(),
        "history": ModelMessagesTypeAdapter.dump_python(list(history), mode="json"),
    }
    return {**state, "waiting": [asdict(question) for question in waiting]} if waiting else state


class SavedConversation:
    """The checked data of `save_conversation`."""

    def __init__(self, data: Mapping[str, Any] | str | bytes, agent: str) -> None:
        if isinstance(data, str | bytes):
            if len(data) > MAX_BYTES:
                raise _unusable(f"it has more than {MAX_BYTES:,} bytes")
            try:
                data = json.loads(data)
            except (ValueError, RecursionError):
                raise _unusable("it is no JSON") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise _unusable(f"its format is not {FORMAT}")
        if data.get("agent") != agent:
            whose = data.get("agent")
            raise _unusable(f"it is one with agent {shown(str(whose), 80)!r}, and this is {agent!r}")
        if not isinstance(data.get("session"), dict):
            raise _unusable("it has no session")
        self.session: dict[str, Any] = data["session"]
        history, waiting = _checked(data.get("history")), _questions(data.get("waiting", []))
        self.waiting = waiting if open_calls(history) else ()
        """The calls that it is suspended at."""
        self.history = tuple(complete_calls(history, leaves_last=bool(self.waiting)))

    def is_cut(self, elsewhere: Container[str]) -> bool:
        """Whether skills were delivered, as the session has it, whose text is not in the history.

        The text of those in `elsewhere` stands in the agent's instructions.
        """
        told = {digest for message in self.history for part in message.parts for digest in _digests(part)}
        delivered = self.session.get("delivered")
        return isinstance(delivered, list) and any(
            isinstance(key, list) and len(key) == 3 and key[1] not in told and key[0] not in elsewhere
            for key in delivered
        )


def _questions(data: object) -> tuple[Question, ...]:
    """The saved questions, to be shown again; an answer counts for the question of the repeated call."""
    if not isinstance(data, list) or len(data) > MAX_WAITING:
        raise _unusable("what it waits for is no list, or too long")
    found = []
    for one in data:
        kinds = {"id": str, "text": str, "request": str, "lasts": bool}
        if not isinstance(one, dict) or {key: type(value) for key, value in one.items()} != kinds:
            raise _unusable("what it waits for cannot be read")
        found.append(Question(**one))
    return tuple(found)


def _checked(data: object) -> list[ModelMessage]:
    if not isinstance(data, list) or len(data) > MAX_MESSAGES:
        raise _unusable("its history is no list, or too long")
    try:
        messages = ModelMessagesTypeAdapter.validate_python(data)
    except (ValidationError, ValueError, RecursionError):
        raise _unusable("its history cannot be read") from None
    for message in messages:
        expected: tuple[type, ...] = _ASKED if isinstance(message, ModelRequest) else _SAID
        for part in message.parts:
            is_text = isinstance(part.content, str) if isinstance(part, UserPromptPart | ToolReturnPart) else True
            if not isinstance(part, expected) or not is_text:
                raise _unusable(f"its history has a part of kind {part.part_kind!r} that it cannot have")
    return messages


def _digests(part: object) -> list[str]:
    """The digests of the skills whose content is in a part of a message."""
    content = getattr(part, "content", None)
    return _DELIVERED.findall(content) if isinstance(content, str) else []


def _unusable(why: str) -> InvalidArgument:
    return InvalidArgument(f"The saved conversation cannot be resumed: {why}.", hint="Begin a new one.")
