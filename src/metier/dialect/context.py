"""Context for a turn: texts from several providers, put before what the user asks, by priority."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, Protocol

from metier._log import logger
from metier.dialect.registry import RegistryDialect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.dialect.dialects import Dialect
    from metier.session import Session

log = logger("metier.dialect")

PRIORITY = 60
SEPARATOR = "\n\n---\n\n"


class ContextProvider(Protocol):
    """Whatever has something to say before a turn."""

    @property
    def priority(self) -> int:
        """Where its text stands: the lower, the earlier."""
        ...

    def context(self, prompt: str) -> str | None:
        """What to say before this prompt; None for nothing."""
        ...


class SkillContext:
    """The catalog of a session as context.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> print(SkillContext(library.session()).context("Hello?"))
    [Available skills]
    - `greet`: Greets.
    <BLANKLINE>
    Read a skill with `read_skill` before you begin a task that it fits.
    """

    def __init__(self, session: Session, dialect: Dialect | None = None, *, priority: int = PRIORITY) -> None:
        self.priority = priority
        self._session = session
        self._dialect = dialect or RegistryDialect()

    def context(self, prompt: str) -> str | None:
        """The catalog, with what fits the prompt in it where not all fits; None when there are no skills."""
        return self._dialect.instructions(self._session, prompt) or None


def joined_context(providers: Iterable[ContextProvider], prompt: str) -> str | None:
    """What all providers say, the lowest priority first; None when none says anything.

    One that fails, says no text or has no priority is logged, and left out: it must not cost the turn.
    """
    said: list[tuple[float, str]] = []
    for provider in providers:
        try:
            said.append((_priority(provider), _text(provider, prompt)))
        except Exception:
            log.exception("a context provider failed")
    return SEPARATOR.join(text for _, text in sorted(said, key=lambda one: one[0]) if text) or None


def _priority(provider: ContextProvider) -> float:
    priority: Any = _awaited_by_nobody(provider).priority
    if not isinstance(priority, int | float) or math.isnan(priority):
        raise TypeError(f"{type(provider).__name__}.priority is {type(priority).__name__}, and no number")
    return priority


def _text(provider: ContextProvider, prompt: str) -> str:
    text: Any = _awaited_by_nobody(provider.context(prompt))
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{type(provider).__name__}.context gave {type(text).__name__}, and no text")
    return "" if text is None or text.isspace() else text


def _awaited_by_nobody(value: Any) -> Any:
    """What was given, or, where that would have to be awaited, an error."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"{value.__qualname__} is async; a provider says what it says at once")
    return value


def enriched_prompt(providers: Iterable[ContextProvider], prompt: str) -> str:
    """The prompt with the context before it; unchanged when there is none."""
    context = joined_context(providers, prompt)
    return prompt if context is None else f"{context}{SEPARATOR}{prompt}"
