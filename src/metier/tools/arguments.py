"""The arguments of a call as a model gives them: anything at all, made into plain JSON values or refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metier._aliases import Contradiction, canonical_arguments

if TYPE_CHECKING:
    from metier.tools.tool import Tool

MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_ARGUMENT_DEPTH = 64
_MAX_NUMBER_BITS = 1_024

_AS_OBJECT = 'Give the arguments as a JSON object, such as {"name": "value"}.'


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why arguments cannot be used, and what to do about it."""

    problem: str
    hint: str


def read_arguments(given: Any) -> dict[str, Any] | Misfit:
    """Arguments as a dictionary of plain JSON values, copied; or what is wrong with them.

    None and blank text stand for no arguments; text must hold a JSON object.

    >>> read_arguments('{"path": "a.md"}')
    {'path': 'a.md'}
    >>> read_arguments([1]).problem
    'The arguments are a list, not an object.'
    """
    try:
        if isinstance(given, str | bytes | bytearray):
            given = _parsed(given)
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise _Refusal(f"The arguments are {kind_of(given)}, not an object.", _AS_OBJECT)
        copied = _Copy().value(given, 0)
        return copied if isinstance(copied, dict) else {}
    except _Refusal as refusal:
        return Misfit(problem=refusal.problem, hint=refusal.hint)
    except Exception as error:
        # A mapping of somebody else's making may do anything when it is read.
        return Misfit(problem=f"The arguments cannot be read ({type(error).__name__}).", hint=_AS_OBJECT)


def arguments_for(tool: Tool, given: Any) -> dict[str, Any] | Misfit:
    """Arguments as `read_arguments` gives them, under the names that the tool has for them."""
    read = read_arguments(given)
    if isinstance(read, Misfit):
        return read
    try:
        return canonical_arguments(tool.name, tool.parameters.get("properties", {}), read)
    except Contradiction as error:
        return Misfit(problem=str(error), hint=f"Give {error.name!r} alone.")


def kind_of(value: Any) -> str:
    """What a value is, in words that fit a sentence.

    >>> kind_of("3"), kind_of(True), kind_of([])
    ('text', 'a boolean', 'a list')
    """
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, float):
        return "a number"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Mapping):
        return "an object"
    return "something that JSON does not have"


class _Refusal(Exception):
    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def _too_large() -> _Refusal:
    return _Refusal(
        f"The arguments are larger than {MAX_ARGUMENT_BYTES:,} bytes.",
        "Send less in one call; large content can be written in several parts.",
    )


def _parsed(text: str | bytes | bytearray) -> Any:
    if len(text) > MAX_ARGUMENT_BYTES:
        raise _too_large()
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise _Refusal("The arguments are text that is not JSON.", _AS_OBJECT) from None


def _too_deep() -> _Refusal:
    return _Refusal(f"The arguments are nested more than {MAX_ARGUMENT_DEPTH} deep.", "Give them flat.")


class _Copy:
    """Copies plain values and counts what they would take as JSON."""

    def __init__(self) -> None:
        self._size = 0

    def value(self, value: Any, depth: int) -> Any:
        if depth > MAX_ARGUMENT_DEPTH:
            raise _too_deep()
        if value is None or isinstance(value, bool):
            self._count(4)
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            if value.bit_length() > _MAX_NUMBER_BITS:
                raise _Refusal("The arguments have a number that is too large.", "Give it as text.")
            self._count(8)
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise _Refusal(f"The arguments have {float(value)} for a number.", "JSON has finite numbers only.")
            self._count(8)
            return float(value)
        if isinstance(value, Mapping):
            copied: dict[str, Any] = {}
            for key, item in value.items():
                if not isinstance(key, str):
                    raise _Refusal(f"The arguments have {kind_of(key)} for a name.", "Names are text.")
                copied[self._text(key)] = self.value(item, depth + 1)
            self._count(2)
            return copied
        if isinstance(value, list | tuple):
            self._count(2)
            return [self.value(item, depth + 1) for item in value]
        raise _Refusal(f"The arguments have {kind_of(value)}: {type(value).__name__}.", _AS_OBJECT)

    def _text(self, text: str) -> str:
        self._count(len(text) + 2)
        try:
            self._count(len(text.encode()) - len(text))
        except UnicodeEncodeError:
            raise _Refusal(
                "The arguments have half a character (a lone surrogate).", "Send whole characters."
            ) from None
        return str(text)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_ARGUMENT_BYTES:
            raise _too_large()
