"""Context for a turn: texts from several providers, put before what the user asks, by priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
    """What all providers say, the lowest priority first; None when none says anything."""
    texts = []
    for provider in sorted(providers, key=lambda one: one.priority):
        try:
            text = provider.context(prompt)
        except Exception:
            # One provider that fails must not cost the turn.
            log.exception("a context provider failed")
            continue
        if text and not text.isspace():
            texts.append(text)
    return SEPARATOR.join(texts) or None


def enriched_prompt(providers: Iterable[ContextProvider], prompt: str) -> str:
    """The prompt with the context before it; unchanged when there is none."""
    context = joined_context(providers, prompt)
    return prompt if context is None else f"{context}{SEPARATOR}{prompt}"
