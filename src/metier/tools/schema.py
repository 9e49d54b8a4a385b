"""JSON schemas of tools: checked once, and arguments checked against them.

Nothing is fetched for a schema, patterns are matched within bounds, and nothing is coerced: "3" is not 3.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument
from metier.skill import shown
from metier.tools.arguments import Misfit, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jsonschema_rs import ValidationError, Validator

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
        """Why plain JSON arguments do not fit; None when they do."""
        try:
            errors = list(itertools.islice(self._validator.iter_errors(arguments), _MAX_SHOWN + 1))
        except Exception as error:
            return Misfit(
                problem=f"The arguments cannot be checked ({type(error).__name__}).", hint="Make them simpler."
            )
        if not errors:
            return None
        explained = [_explained(error) for error in errors[:_MAX_SHOWN]]
        more = " There is more that does not fit." if len(errors) > _MAX_SHOWN else ""
        hints = dict.fromkeys(hint for error in errors[:_MAX_SHOWN] if (hint := self._hint(error)))
        return Misfit(problem=" ".join(explained) + more, hint=" ".join(hints) or self._usage())

    def _usage(self) -> str:
        return f"The arguments are {_listed(self._names)}." if self._names else "It takes no arguments."

    def _hint(self, error: ValidationError) -> str:
        kind: Any = error.kind
        if _kind(error) == "AdditionalProperties" and not error.instance_path:
            close = difflib.get_close_matches(str(kind.unexpected[0])[:80], self._names, 1)
            return f"Did you mean {shown(close[0])!r}? {self._usage()}" if close else self._usage()
        if _kind(error) == "Type" and isinstance(error.instance, str):
            wanted = set(kind.types)
            if wanted & {"integer", "number", "boolean"} and _PLAIN.fullmatch(error.instance.strip()):
                return f"Give it without quotes: {shown(error.instance, 40)}."
            if wanted & {"array", "object"}:
                return "Give it as JSON itself, not as text that holds JSON."
        return ""


_PLAIN = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?|true|false", re.IGNORECASE)

_cache: dict[int, tuple[Mapping[str, Any], Schema]] = {}
_lock = threading.Lock()


def schema_of(parameters: Mapping[str, Any]) -> Schema:
    """The checked schema for a tool's parameters; the same object is checked only once."""
    found = _cache.get(id(parameters))
    if found is not None:
        return found[1]
    schema = Schema(parameters)
    with _lock:
        while len(_cache) >= _MAX_CACHED:
            del _cache[next(iter(_cache))]
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
    where = _where(error.instance_path)
    kind: Any = error.kind
    match _kind(error):
        case "Required":
            return f"The argument {shown(_inner(error.instance_path, kind.property))!r} is missing."
        case "AdditionalProperties":
            names = [shown(_inner(error.instance_path, name)) for name in kind.unexpected[: _MAX_LISTED + 1]]
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


def _where(path: Sequence[str | int]) -> str:
    return repr(shown(_joined(path))) if path else "The whole of the arguments"


def _inner(path: Sequence[str | int], name: str) -> str:
    return _joined([*path, str(name)])


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
