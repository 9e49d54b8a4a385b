"""Arguments of a call: read into plain JSON values, and checked against the JSON schema of the tool.

Nothing is fetched for a schema, patterns are matched within bounds, and nothing is coerced: "3" is not 3.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any

from metier._aliases import ARGUMENTS, SHAPES, Contradiction, canonical_arguments
from metier._cache import BoundedCache
from metier._suggest import suggestions
from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jsonschema_rs import ValidationError, Validator

    from metier.tools.tool import Tool


MAX_ARGUMENT_BYTES = 1024 * 1024
MAX_ARGUMENT_DEPTH = 64
_MAX_NUMBER_BITS = 1_024

_KINDS: dict[type, str] = {
    NoneType: "null",
    str: "text",
    bool: "a boolean",  # before the numbers, as it is one
    int: "a whole number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    Mapping: "an object",
}
_AS_OBJECT = 'Give the arguments as a JSON object, such as {"name": "value"}.'


class Misfit(Exception):
    """The reason why arguments cannot be used, with a hint. It is raised inside this module and a value outside."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


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
            raise Misfit(f"The arguments are {kind_of(given)}, not an object.", _AS_OBJECT)
        copied = _Copy().value(given, 0)
        return copied if isinstance(copied, dict) else {}
    except Misfit as misfit:
        return misfit
    except Exception as error:
        # A mapping of somebody else's making may do anything when it is read.
        return Misfit(f"The arguments cannot be read ({type(error).__name__}).", _AS_OBJECT)


def arguments_for(tool: Tool, given: Any) -> dict[str, Any] | Misfit:
    """Arguments as `read_arguments` gives them, under the names that the tool has for them."""
    read = read_arguments(given)
    if isinstance(read, Misfit):
        return read
    aliases = ARGUMENTS.get(tool.name)
    if aliases is None or not any(name in aliases or (tool.name, name) in SHAPES for name in read):
        return read
    try:
        return canonical_arguments(tool.name, tool.parameters.get("properties", {}), read)
    except Contradiction as error:
        return Misfit(str(error), f"Give {error.name!r} alone.")


def kind_of(value: Any) -> str:
    """The kind of a value, in words that fit a sentence.

    >>> kind_of("3"), kind_of(True), kind_of([])
    ('text', 'a boolean', 'a list')
    """
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "something that JSON does not have")


def _too_large() -> Misfit:
    return Misfit(
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
        raise Misfit("The arguments are text that is not JSON.", _AS_OBJECT) from None


def _too_deep() -> Misfit:
    return Misfit(f"The arguments are nested more than {MAX_ARGUMENT_DEPTH} deep.", "Give them flat.")


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
                raise Misfit("The arguments have a number that is too large.", "Give it as text.")
            self._count(8)
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise Misfit(f"The arguments have {float(value)} for a number.", "JSON has finite numbers only.")
            self._count(8)
            return float(value)
        if isinstance(value, Mapping):
            copied: dict[str, Any] = {}
            for key, item in value.items():
                if not isinstance(key, str):
                    raise Misfit(f"The arguments have {kind_of(key)} for a name.", "Names are text.")
                copied[self._text(key)] = self.value(item, depth + 1)
            self._count(2)
            return copied
        if isinstance(value, list | tuple):
            self._count(2)
            return [self.value(item, depth + 1) for item in value]
        raise Misfit(f"The arguments have {kind_of(value)}: {type(value).__name__}.", _AS_OBJECT)

    def _text(self, text: str) -> str:
        self._count(len(text) + 2)
        try:
            self._count(len(text.encode()) - len(text))
        except UnicodeEncodeError:
            raise Misfit("The arguments have half a character (a lone surrogate).", "Send whole characters.") from None
        return str(text)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_ARGUMENT_BYTES:
            raise _too_large()


_MAX_CACHED = 1_024
_MAX_SHOWN = 3
_MAX_LISTED = 20
_BACKTRACK_LIMIT = 50_000
_REGEX_BYTES = 1024 * 1024

_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a dictionary",
    "null": "null",
}


class Schema:
    """The schema of a tool's arguments, ready to check them.

    >>> schema = Schema({"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]})
    >>> print(schema.misfit({"lines": "3"}).problem)
    'lines' must be a whole number, not text ("3").
    >>> schema.misfit({"lines": 3}) is None
    True
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """Raises `InvalidArgument` when it is no schema of an object."""
        if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
            raise InvalidArgument(
                "The parameters of a tool are the JSON schema of an object.",
                hint='Begin it with "type": "object" and list the arguments under "properties".',
            )
        properties = parameters.get("properties", {})
        self._names = tuple(properties) if isinstance(properties, Mapping) else ()
        self._validator = compiled(parameters)

    def misfit(self, arguments: Mapping[str, Any]) -> Misfit | None:
        """The reason why plain JSON arguments do not fit; None when they do."""
        try:
            errors = list(itertools.islice(self._validator.iter_errors(arguments), _MAX_SHOWN + 1))
        except Exception as error:
            return Misfit(f"The arguments cannot be checked ({type(error).__name__}).", "Make them simpler.")
        if not errors:
            return None
        explained = [_explained(error) for error in errors[:_MAX_SHOWN]]
        more = " There is more that does not fit." if len(errors) > _MAX_SHOWN else ""
        hints = dict.fromkeys(hint for error in errors[:_MAX_SHOWN] if (hint := self._hint(error)))
        return Misfit(" ".join(explained) + more, " ".join(hints) or self._usage())

    def _usage(self) -> str:
        return f"The arguments are {_listed(self._names)}." if self._names else "It takes no arguments."

    def _hint(self, error: ValidationError) -> str:
        kind: Any = error.kind
        if _kind(error) == "AdditionalProperties" and not error.instance_path:
            close = suggestions(str(kind.unexpected[0]), self._names, 1)
            return f"Did you mean {shown(close[0])!r}? {self._usage()}" if close else self._usage()
        if _kind(error) == "Type" and isinstance(error.instance, str):
            wanted = set(kind.types)
            if wanted & {"integer", "number", "boolean"} and _PLAIN.fullmatch(error.instance.strip()):
                return f"Give it without quotes: {shown(error.instance, 40)}."
            if wanted & {"array", "object"}:
                return "Give it as JSON itself, not as text that holds JSON."
        return ""


_PLAIN = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?|true|false", re.IGNORECASE)

_cache: BoundedCache[int, tuple[Mapping[str, Any], Schema]] = BoundedCache(_MAX_CACHED)


def schema_of(parameters: Mapping[str, Any]) -> Schema:
    """The checked schema for a tool's parameters; the same object is checked only once."""
    found = _cache.get(id(parameters))
    if found is not None:
        return found[1]
    schema = Schema(parameters)
    # The parameters are kept with it: as long as they are, nothing else has their id.
    _cache[id(parameters)] = (parameters, schema)
    return schema


def compiled(parameters: Mapping[str, Any]) -> Validator:
    """A validator for any schema; raises `InvalidArgument` when it is none."""
    import jsonschema_rs

    def refuse(uri: str) -> Any:
        raise ValueError(f"{uri} would have to be fetched")

    try:
        plain = json.loads(json.dumps(parameters, default=dict, allow_nan=False))
        return jsonschema_rs.validator_for(
            plain,
            retriever=refuse,
            pattern_options=jsonschema_rs.FancyRegexOptions(
                backtrack_limit=_BACKTRACK_LIMIT, size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES
            ),
        )
    except (ValueError, TypeError, RecursionError) as error:
        reason = shown(str(error).split("\n", 1)[0], 200)
        raise InvalidArgument(
            f"The parameters of the tool are no valid JSON schema: {reason}.",
            hint="Correct the schema; references must stay inside it.",
        ) from None


def _kind(error: ValidationError) -> str:
    return type(error.kind).__name__


def _explained(error: ValidationError) -> str:
    path = error.instance_path
    where = repr(shown(_joined(path))) if path else "The whole of the arguments"
    kind: Any = error.kind
    match _kind(error):
        case "Required":
            return f"The argument {shown(_joined([*path, kind.property]))!r} is missing."
        case "AdditionalProperties":
            names = [shown(_joined([*path, name])) for name in kind.unexpected[: _MAX_LISTED + 1]]
            return f"There is no argument {_listed(names)}."
        case "Type":
            wanted = " or ".join(_TYPES[name] for name in _TYPES if name in kind.types)
            return f"{where} must be {wanted}, not {kind_of(error.instance)}{_value(error.instance)}."
        case "Enum" if isinstance(kind.options, list):
            options = [shown(json.dumps(option, ensure_ascii=False), 60) for option in kind.options[:_MAX_LISTED]]
            more = ", …" if len(kind.options) > _MAX_LISTED else ""
            return f"{where} must be one of {', '.join(options)}{more}; it is {_json(error.instance)}."
        case _:
            return f"{where} does not fit: {shown(error.message, 200)}."


def _joined(path: Iterable[str | int]) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in itertools.islice(path, 10))
    return parts.removeprefix(".")


def _value(value: Any) -> str:
    return f" ({_json(value)})" if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _json(value: Any) -> str:
    cut = value[:100] if isinstance(value, str) else value
    return shown(json.dumps(cut, ensure_ascii=False) if isinstance(cut, str | int | float | None) else kind_of(cut), 80)


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(repr(shown(name, 80)) for name in names[:_MAX_LISTED])
    return f"{listed}, …" if len(names) > _MAX_LISTED else listed
