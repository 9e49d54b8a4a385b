"""Context for a turn: texts from several providers, put before what the user asks, by priority.

A provider has a `priority` and a method `context` or, as in the systems that people come from, `context_priority` and
`get_context`. The method may be async, and may take the turn beside the prompt.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from metier._aliases import PROVIDER_MEMBERS
from metier._lazy import dataclass, logger
from metier.dialect.registry import RegistryDialect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from metier import Session
    from metier.dialect.dialects import Dialect

log = logger("metier.dialect")

PRIORITY = 60
SEPARATOR = "\n\n---\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """The turn that context is asked for."""

    agent_id: str | None = None
    session_id: str = ""
    user: str | None = None


class ContextProvider(Protocol):
    """Whatever has something to say before a turn."""

    @property
    def priority(self) -> int:
        """The position of its text: the lower, the earlier."""
        ...

    def context(self, prompt: str) -> str | Awaitable[str | None] | None:
        """The text before this prompt; None for nothing. It may take a `TurnContext` besides."""
        ...


class TurnContextProvider(Protocol):
    """The same under the names of other systems."""

    @property
    def context_priority(self) -> int:
        """The place of its text: the lower, the earlier."""
        ...

    def get_context(self, prompt: str, turn_context: Any) -> str | Awaitable[str | None] | None:
        """The text before this prompt in this turn; None for nothing."""
        ...


AnyProvider: TypeAlias = ContextProvider | TurnContextProvider


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

    def __init__(
        self,
        session: Session | Callable[[Any], Session],
        dialect: Dialect | None = None,
        *,
        priority: int = PRIORITY,
    ) -> None:
        """The catalog of a session, or of the one that a function gives for the turn: each agent has its own."""
        self.priority = priority
        self._session = session
        self._dialect = dialect or RegistryDialect()

    @property
    def context_priority(self) -> int:
        """`priority`, for hosts that call it so."""
        return self.priority

    def context(self, prompt: str, turn: Any = None) -> str | None:
        """The catalog, with what fits the prompt in it where not all fits; None when there are no skills."""
        session = self._session(turn) if callable(self._session) else self._session
        return self._dialect.instructions(session, prompt) or None

    async def get_context(self, prompt: str, turn_context: Any = None) -> str | None:
        """`context`, for hosts that await it by this name."""
        import anyio.to_thread

        return await anyio.to_thread.run_sync(self.context, prompt, turn_context)


def joined_context(providers: Iterable[AnyProvider], prompt: str, turn: TurnContext | None = None) -> str | None:
    """Return the texts of all providers, the lowest priority first; None when there is none.

    One that fails, says no text or has no priority is logged, and left out: it must not cost the turn. So is one that
    is async, for which there is `joined_context_async`.
    """
    said: list[tuple[float, str]] = []
    for provider in providers:
        try:
            said.append((_priority(provider), _text(provider, _require_sync(_bind_prompt(provider, prompt, turn)()))))
        except Exception:
            log.exception("a context provider failed")
    return _joined(said)


async def joined_context_async(
    providers: Iterable[AnyProvider], prompt: str, turn: TurnContext | None = None
) -> str | None:
    """The same with providers that are async; the others are asked in a thread, one after another."""
    import anyio.to_thread

    said: list[tuple[float, str]] = []
    for provider in providers:
        try:
            found = await anyio.to_thread.run_sync(_bind_prompt(provider, prompt, turn))
            said.append((_priority(provider), _text(provider, await found if inspect.isawaitable(found) else found)))
        except Exception:
            log.exception("a context provider failed")
    return _joined(said)


def _joined(said: list[tuple[float, str]]) -> str | None:
    return SEPARATOR.join(text for _, text in sorted(said, key=lambda one: one[0]) if text) or None


def _member(provider: AnyProvider, name: str) -> Any:
    """The member of a provider under a name, or under the one that other systems have for it."""
    names = (name, *(alias for alias, known in PROVIDER_MEMBERS.items() if known == name))
    found = next((one for one in names if hasattr(_require_sync(provider), one)), name)
    return getattr(provider, found)


def _priority(provider: AnyProvider) -> float:
    priority: Any = _member(provider, "priority")
    if not isinstance(priority, int | float) or math.isnan(priority):
        raise TypeError(f"{type(provider).__name__}.priority is {type(priority).__name__}, and no number")
    return priority


def _bind_prompt(provider: AnyProvider, prompt: str, turn: TurnContext | None) -> Callable[[], Any]:
    """A call that asks a provider, with the turn where it takes one."""
    ask = _member(provider, "context")
    try:
        inspect.signature(ask).bind(prompt, turn)
    except (TypeError, ValueError):
        return functools.partial(ask, prompt)
    return functools.partial(ask, prompt, turn)


def _text(provider: AnyProvider, text: Any) -> str:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"{type(provider).__name__}.context gave {type(text).__name__}, and no text")
    return "" if text is None or text.isspace() else text


def _require_sync(value: Any) -> Any:
    """The value; an error where it would have to be awaited."""
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError(f"{value.__qualname__} is async; await `joined_context_async`")
    return value


def enriched_prompt(providers: Iterable[AnyProvider], prompt: str, turn: TurnContext | None = None) -> str:
    """The prompt with the context before it; unchanged when there is none."""
    return _enriched(joined_context(providers, prompt, turn), prompt)


async def enriched_prompt_async(providers: Iterable[AnyProvider], prompt: str, turn: TurnContext | None = None) -> str:
    """The same with providers that are async."""
    return _enriched(await joined_context_async(providers, prompt, turn), prompt)


def _enriched(context: str | None, prompt: str) -> str:
    return prompt if context is None else f"{context}{SEPARATOR}{prompt}"
