"""FunctionTool: a tool made of a Python function."""

from __future__ import annotations

import enum
import functools
import inspect
import json
import math
import typing
from typing import TYPE_CHECKING, Any, overload
from weakref import WeakKeyDictionary

from metier.errors import InvalidArgument
from metier.tools.arguments import schema_of
from metier.tools.function_schema import UnknownAnnotation, form_of, object_schema, parse_docstring, together
from metier.tools.tool import DEFAULT_TIMEOUT, ToolResult, checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio import CapacityLimiter
    from anyio.lowlevel import RunVar

    from metier.tools.function_schema import Form

_MAX_THREADS = 16
"""Calls of one function at a time, each in a thread; a function that hangs blocks no other tool."""


class FunctionTool:
    """A tool that calls a Python function, sync or async.

    Its schema comes from the annotations and its texts from the docstring, unless they are given. A sync function runs
    in a thread; one that takes too long is left behind, since a thread cannot be ended.

    >>> def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: The first.
    ...     '''
    ...     return a + b
    >>> tool = FunctionTool(add)
    >>> tool.name, tool.description, tool.parameters["required"]
    ('add', 'Add two numbers.', ['a'])
    >>> tool.parameters["properties"]["a"]
    {'type': 'integer', 'description': 'The first.'}
    >>> tool(2, b=3)
    5
    """

    is_control = False

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> None:
        """Raises `InvalidArgument` when a schema cannot be made of the function.

        With `parameters`, a JSON schema, the function gets the arguments by name and as they are.
        """
        if not callable(function):
            raise InvalidArgument(f"{function!r} cannot be called.", hint="A tool is made of a function.")
        self.name = checked_name(str(name or getattr(_unwrap_partial(function), "__name__", "")))
        if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
            raise InvalidArgument(f"{timeout!r} is no time limit.", hint="Give seconds, or None for no limit.")
        self.timeout = timeout
        said = parse_docstring(inspect.getdoc(_unwrap_partial(function)))
        self.description = said.summary if description is None else description
        self._function = function
        self._forms: dict[str, Form] = {}
        self._positional: dict[str, Any] = {}
        if parameters is None:
            parameters = self._derive_schema(said.parameters)
        schema_of(parameters)
        self.parameters = parameters

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function with arguments that fit the schema."""
        values = {name: self._convert(name, value) for name, value in arguments.items()}
        positional = [values.pop(name, default) for name, default in self._positional.items()]
        call = functools.partial(self._function, *positional, **values)
        if _is_async(self._function):
            return await call()
        result = await self._in_thread(call)
        return await result if inspect.isawaitable(result) else result

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        from anyio.to_thread import run_sync

        def guarded() -> Any:
            try:
                return call()
            except SystemExit as error:
                # A program in a function's clothes ends itself, not its host.
                return ToolResult.failure("tool-failed", f"The tool '{self.name}' ended itself with {error.code!r}.")

        return await run_sync(guarded, abandon_on_cancel=True, limiter=_limiter(self))

    def _convert(self, name: str, value: Any) -> Any:
        try:
            return self._forms[name].made(value) if name in self._forms else value
        except Exception as error:
            raise InvalidArgument(
                f"'{name}' does not fit: {type(error).__name__}: {str(error)[:500]}", hint="Correct the argument."
            ) from None

    def _derive_schema(self, said: Mapping[str, str]) -> dict[str, Any]:
        try:
            signature = inspect.signature(self._function)
            hints = typing.get_type_hints(_annotated(self._function), include_extras=True)
        except (ValueError, TypeError, NameError, AttributeError, SyntaxError) as error:
            raise InvalidArgument(
                f"The parameters of '{self.name}' cannot be read: {error}.",
                hint="Import what its annotations name where it is defined, or give the schema by `parameters=`.",
            ) from None
        properties: dict[str, Any] = {}
        optional: set[str] = set()
        for name, parameter in signature.parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise InvalidArgument(
                    f"'{self.name}' takes *{name}, which no schema can name.",
                    hint="Name every parameter, or give the schema by `parameters=`.",
                )
            if parameter.kind is parameter.POSITIONAL_ONLY:
                self._positional[name] = parameter.default
            try:
                form = form_of(hints.get(name, parameter.empty))
            except UnknownAnnotation as error:
                raise InvalidArgument(
                    f"The parameter '{name}' of '{self.name}' is annotated as {error}, which has no JSON schema.",
                    hint="Annotate it with a plain type, or give the schema by `parameters=`.",
                ) from None
            self._forms[name] = form
            schema = dict(form.schema)
            if name in said:
                schema.setdefault("description", said[name])
            if parameter.default is not parameter.empty:
                optional.add(name)
                schema |= _default(parameter.default)
            properties[name] = schema
        try:
            definitions = together(self._forms.values())
        except UnknownAnnotation as error:
            raise InvalidArgument(f"The parameters have {error}.", hint="Give the schema by `parameters=`.") from None
        whole = object_schema(properties, optional)
        return {**whole, "$defs": definitions} if definitions else whole


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of the function below; with or without the options of `FunctionTool`.

    >>> @tool(name="shout")
    ... def loud(text: str) -> str:
    ...     '''Say it louder.'''
    ...     return text.upper()
    >>> loud.name, loud("hi")
    ('shout', 'HI')
    """
    return FunctionTool(function, **options) if function is not None else lambda given: FunctionTool(given, **options)


def _unwrap_partial(function: Any) -> Any:
    """The function that has the name and the docstring."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _annotated(function: Any) -> Any:
    """The function with the annotations: itself, the constructor of a class, or the `__call__` of an object."""
    function = inspect.unwrap(_unwrap_partial(function))
    if inspect.isclass(function):
        return function.__init__
    return function if inspect.isroutine(function) else type(function).__call__


def _is_async(function: Any) -> bool:
    plain = _unwrap_partial(function)
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(type(plain).__call__)


def _default(value: Any) -> dict[str, Any]:
    """The default, as a part of a schema, if JSON can hold it."""
    plain = value.value if isinstance(value, enum.Enum) else value
    try:
        return {"default": json.loads(json.dumps(plain, allow_nan=False))}
    except (TypeError, ValueError, RecursionError):
        return {}


@functools.cache
def _limiters() -> RunVar[WeakKeyDictionary[FunctionTool, CapacityLimiter]]:
    from anyio.lowlevel import RunVar

    return RunVar("metier_tool_threads")


def _limiter(tool: FunctionTool) -> CapacityLimiter:
    """The limit on the threads of one tool, in this event loop."""
    from anyio import CapacityLimiter

    here = _limiters().get(None)
    if here is None:
        here = WeakKeyDictionary()
        _limiters().set(here)
    return here.setdefault(tool, CapacityLimiter(_MAX_THREADS))
