"""One play for every adapter: what a scripted model answers, what it was asked, and what an agent must do."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from metier import Session
from metier.guard import MemoryLog


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a model was asked, the same for every framework."""

    system: str
    messages: tuple[tuple[str, str], ...]
    """Who said what: user, assistant, call or tool."""
    tools: Mapping[str, str]
    """Name -> description and schema as text."""
    model: str = "own"

    @property
    def text(self) -> str:
        """Everything that was said."""
        return "\n".join(f"{who}: {what}" for who, what in self.messages)

    @property
    def results(self) -> list[str]:
        """What tools gave."""
        return [what for who, what in self.messages if who == "tool"]


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    tool: str
    arguments: Any = field(default_factory=dict)

    @property
    def json(self) -> str:
        """The arguments as a provider sends them."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


Step: TypeAlias = Call | tuple[Call, ...] | str


class Script:
    """What the model does, step by step, or as a function of what it is asked; and all that it was asked."""

    def __init__(self, steps: Iterable[Step] | Callable[[Request], Step]) -> None:
        self._steps: deque[Step] | Callable[[Request], Step] = steps if callable(steps) else deque(steps)
        self.requests: list[Request] = []

    def take(self, request: Request) -> tuple[tuple[Call, ...], str]:
        """The next step: calls, or a text."""
        self.requests.append(request)
        if callable(self._steps):
            step = self._steps(request)
        else:
            assert self._steps, f"the play is over; the model was asked\n{request.text}"
            step = self._steps.popleft()
        if isinstance(step, str):
            return (), step
        return (step if isinstance(step, tuple) else (step,)), ""

    @property
    def is_over(self) -> bool:
        """Whether every step was taken."""
        return callable(self._steps) or not self._steps


def load(*names: str, **more: Any) -> Call:
    """The model loads skills."""
    return Call("skills_load", {"skills": list(names), **more})


@dataclass
class Outside:
    """Tools that the agent has from elsewhere, and what they were really called with."""

    calls: list[str] = field(default_factory=list)

    def web_fetch(self, url: str) -> str:
        """Fetch a page."""
        self.calls.append(url)
        return f"the page {url}"


class Performer:
    """An agent of one framework with skills, a scripted model and tools of its own; one for each adapter."""

    name = ""
    skills: Any
    spawning = "spawn"
    """The option that says how skills with `context: fork` run."""

    def __init__(
        self,
        folder: Path,
        script: Script,
        *,
        tools: Sequence[Callable[..., Any]] = (),
        tickets: Any = None,
        streamed: bool = False,
        **options: Any,
    ) -> None:
        raise NotImplementedError

    async def say(self, text: str, conversation: str = "one") -> str:
        """One turn of a conversation."""
        raise NotImplementedError

    def session(self, conversation: str = "one") -> Session:
        """What the conversation has loaded."""
        return self.skills.seam.kit(self.key(conversation)).session  # type: ignore[no-any-return]

    def key(self, conversation: str) -> str:
        """How the adapter names a conversation."""
        return conversation


def trail(log: MemoryLog) -> list[tuple[Any, ...]]:
    """What was recorded, as every adapter must leave it."""
    return [(one.event, one.tool, one.skill, one.decision, one.code, one.success) for one in log.records]
