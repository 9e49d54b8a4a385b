"""Tools, the registry that names them, and the results of their calls."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from metier._aliases import TOOLS
from metier._lazy import dataclass, field
from metier.errors import InvalidArgument, MetierError
from metier.hints import for_model
from metier.skill import shown
from metier.tools.arguments import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_NOTHING: Mapping[str, Any] = MappingProxyType({})
DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. A refusal or a failure is a result too, never an exception.

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
    """The next step, for the model."""
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
    """The interface of a tool that an agent can call. `FunctionTool` makes one of a Python function.

    `timeout` is in seconds. `call` gets arguments that fit the schema; it may return any value or a `ToolResult`, and
    what it raises becomes a failed result.
    """

    @property
    def name(self) -> str:
        """The name by which a model calls it: letters, digits, `_` and `-`, at most 64."""
        ...

    @property
    def description(self) -> str:
        """The description for a model."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments, an object."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take; None for no limit."""
        ...

    @property
    def is_control(self) -> bool:
        """Whether it controls skills themselves: such tools are never subject to `allowed-tools`."""
        ...

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Do it."""
        ...


_MEMBERS = ("name", "description", "parameters", "timeout", "is_control", "call")
MAX_RESULT_BYTES = 1024 * 1024
_MAX_ERROR = 4_096


def result_of(value: Any) -> ToolResult:
    """A value that a tool returned, as a result; a `ToolResult` stays what it is.

    >>> result_of({"when": {3}}).result
    {'when': [3]}
    >>> result_of("x" * 2_000_000).truncated
    True
    """
    if not isinstance(value, ToolResult):
        result, truncated = _bounded(value)
        return ToolResult(success=True, result=result, truncated=truncated, data={})
    result, truncated = _bounded(value.result)
    return dataclasses.replace(
        value,
        result=result,
        truncated=value.truncated or truncated,
        error=None if value.error is None else _cut(str(value.error), _MAX_ERROR)[0],
        data=json.loads(_as_json(dict(value.data)) or "{}"),
    )


def failure_of(tool: str, error: BaseException, words: Mapping[str, str] | None = None) -> ToolResult:
    """The error of a tool as a failed result: one of our own errors as it is, any other by its type and text.

    The hint is still to be worded, unless `words` are given: the tools by which the model uses skills.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, MetierError):
        hint = error.hint if words is None else for_model(error.hint, words)
        return ToolResult.failure(error.code, _cut(error.message, _MAX_ERROR)[0], hint=hint)
    try:
        text = str(error)
    except Exception:
        text = ""
    from metier.guard.audit.redaction import redact

    # The message of a program may quote its configuration.
    message = f": {shown(redact(text[:4_000]), 1_000)}" if text else ""
    return ToolResult.failure(
        "tool-failed",
        f"The tool '{tool}' failed: {type(error).__name__}{message}",
        hint="Check the arguments; the same call is likely to fail again.",
    )


def _bounded(value: Any) -> tuple[Any, bool]:
    if value is None or isinstance(value, bool):
        return value, False
    if isinstance(value, str):
        return _cut_result(value)
    text = _as_json(value)
    if text is None:
        return _cut_result(str(value))
    if len(text) > MAX_RESULT_BYTES:
        return _cut_result(text)
    return json.loads(text), False


def _as_json(value: Any) -> str | None:
    """The value as JSON text, or None when it cannot be written so."""
    try:
        text = json.dumps(value, default=_substitute, allow_nan=False, ensure_ascii=False)
        return text.encode(errors="replace").decode()
    except (TypeError, ValueError, RecursionError):
        return None


def _substitute(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Set) else str(value)


def _cut_result(text: str) -> tuple[str, bool]:
    cut, total = _cut(text, MAX_RESULT_BYTES)
    if total <= MAX_RESULT_BYTES:
        return cut, False
    return f"{cut}\n[Result truncated: the first {MAX_RESULT_BYTES:,} of {total:,} bytes]", True


def _cut(text: str, limit: int) -> tuple[str, int]:
    """As much of a text as fits in a number of bytes, without half characters, and how many bytes there were."""
    data = text.encode(errors="replace")
    return data[:limit].decode(errors="ignore"), len(data)


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked_name(name: str) -> str:
    """A name that every model takes for a tool; raises `InvalidArgument` for any other.

    >>> checked_name("read_file")
    'read_file'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{shown(str(name))!r} is no name for a tool.",
            hint="Name it with 1 to 64 letters, digits, underscores or hyphens: `name=`.",
        )
    return name


class ToolRegistry:
    """Tools by name, in the order they were added. Any thread may use it.

    >>> from metier.tools import FunctionTool
    >>> registry = ToolRegistry([FunctionTool(str.upper, name="shout", parameters={"type": "object"})])
    >>> "shout" in registry, len(registry), registry.version
    (True, 1, 1)
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        # Replaced and never changed, so that readers need no lock.
        self._tools: dict[str, Tool] = {}
        self._lock = threading.Lock()
        self._version = 0
        for tool in tools:
            self.add(tool)

    @property
    def version(self) -> int:
        """A number that changes whenever a tool comes or goes."""
        return self._version

    def add(self, tool: Tool) -> None:
        """Add a tool; raises `InvalidArgument` for a bad name or schema, and when the name is taken."""
        # Its class first: a tool that is asked for its description may have to work it out.
        if not all(hasattr(type(tool), member) or hasattr(tool, member) for member in _MEMBERS):
            raise InvalidArgument(
                f"{shown(repr(tool))} is no tool.", hint="Make one of a function with `FunctionTool(function)`."
            )
        name = checked_name(tool.name)
        schema_of(tool.parameters)
        with self._lock:
            if name in self._tools:
                raise InvalidArgument(
                    f"There is a tool named '{name}' already.", hint="Remove that one first, or choose another name."
                )
            self._tools = {**self._tools, name: tool}
            self._version += 1

    def remove(self, name: str) -> None:
        """Remove a tool; raises `InvalidArgument` when there is none of that name."""
        with self._lock:
            if name not in self._tools:
                raise InvalidArgument(f"There is no tool named {shown(str(name))!r}.", hint="`names()` lists them.")
            self._tools = {other: tool for other, tool in self._tools.items() if other != name}
            self._version += 1

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or else the one that the name is an alias of."""
        found = self._tools.get(name)
        return self._tools.get(TOOLS.get(name, "")) if found is None else found

    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return tuple(self._tools)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)
