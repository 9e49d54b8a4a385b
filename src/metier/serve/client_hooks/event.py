"""Events of clients and the answers to them, in the same form for every client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal["start", "prompt", "call", "result", "end"]
"""A conversation begins, a person writes, a tool is about to be called, it was called, the conversation ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """One thing that a client tells its hooks of."""

    client: str
    kind: Kind
    conversation: str
    folder: str
    """The folder that relative paths in the arguments start from."""
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    """The client's id of the call; empty where it has none."""
    prompt: str = ""
    is_from_user: bool = True
    """Whether a person wrote the prompt: a client may tell of what its model tells a subagent in the same way."""
    succeeded: bool | None = None
    """The result of a call, where the client tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """The answer to an event."""

    permission: Literal["none", "ask", "deny"] = "none"
    """`none` is no objection: what the client itself asks or forbids stays as it is."""
    reason: str = ""
    """For the model, and for the person who is asked."""
    arguments: Mapping[str, Any] | None = None
    """Other arguments for the call, in place of the given ones."""


NO_OBJECTION = HookAnswer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An answer as the program that a client started gives it."""

    exit_code: int = 0
    stdout: str = "{}"
    stderr: str = ""
