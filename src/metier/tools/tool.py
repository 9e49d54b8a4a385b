"""What an agent can do: a tool is a name, a description, a JSON schema and an async call."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTHING: Mapping[str, Any] = MappingProxyType({})
DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What became of a call. A refusal or a failure is a result too, never an exception.

    >>> ToolResult(success=True, result="4").result
    '4'
    >>> ToolResult.failure("file-missing", "There is no notes.md.", hint="List the files.").error
    'There is no notes.md.'
    """

    success: bool
    result: Any = None
    """Text, or a value that JSON can hold."""
    error: str | None = None
    code: str | None = None
    """A stable code for what went wrong."""
    hint: str | None = None
    """What to do next."""
    duration_ms: float = 0.0
    tokens_used: int = 0
    cost_usd: float = 0.0
    cached: bool = False
    retry_count: int = 0
    truncated: bool = False
    """Whether something was left out of the result; the result itself says so too."""
    keep: bool = False
    """Skill content: a host that compacts its history should leave this result whole."""
    data: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """More about it for programs: the exit code of a command, the size of a file."""

    @classmethod
    def failure(cls, code: str, error: str, *, hint: str = "", **more: Any) -> ToolResult:
        """A result that says what went wrong and what to do next."""
        return cls(success=False, error=error, code=code, hint=hint or None, **more)


@runtime_checkable
class Tool(Protocol):
    """Anything an agent can call. `FunctionTool` makes one of a Python function.

    `timeout` is in seconds. `call` gets arguments that fit the schema; it may return any value or a `ToolResult`, and
    what it raises becomes a failed result.
    """

    @property
    def name(self) -> str:
        """What a model calls it by: letters, digits, `_` and `-`, at most 64."""
        ...

    @property
    def description(self) -> str:
        """What it does, for a model."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments, an object."""
        ...

    @property
    def timeout(self) -> float | None:
        """How many seconds a call may take; None for no limit."""
        ...

    @property
    def is_control(self) -> bool:
        """Whether it controls skills themselves: such tools are never subject to `allowed-tools`."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Do it."""
        ...
