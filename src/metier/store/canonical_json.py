"""Canonical JSON (RFC 8785) of any record, and strict parsing of JSON that somebody else wrote."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_EXACT = 2**53 - 1
"""The largest whole number that every reader of JSON reads exactly."""
_MAX_TEXT = 2_000
_MAX_DEPTH = 16
_MAX_PARTS = 200_000
_MANY_PARTS = 500
_MAX_FIELDS = 100
_MAX_ROOM = 8 * 1024
"""Characters that each field of a record may have, once it has too many altogether."""


def serialize(record: Mapping[str, Any]) -> str | None:
    """Return the canonical JSON of a record; None for one that has none, or that nobody could read."""
    try:
        return _dumps(dict(record)) if is_readable(record) else None
    except (ValueError, RecursionError):
        return None


def serialize_anything(record: Mapping[str, Any]) -> str:
    """Return canonical JSON as close to a record as JSON allows, shortened where it is too long."""
    return _dumps(_Sanitizer().value(dict(record), 0))


def _dumps(value: Any) -> str:
    from rfc8785 import dumps  # most records are written without it

    return dumps(value).decode()


def is_readable(value: Any) -> bool:
    """Return whether a value has no more levels and parts than any record that is kept."""
    left, level = _MAX_PARTS, [value]
    for _ in range(_MAX_DEPTH + 1):
        level = list(itertools.islice((inner for one in level for inner in _parts(one)), left + 1))
        left -= len(level)
        if left < 0 or not level:
            break
    return not level


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


def escape_surrogates(text: str) -> str:
    r"""Return a text as a record has it: lone surrogates are escaped.

    >>> escape_surrogates("a\ud800")
    'a\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def canonical_text(text: str) -> str:
    """Return a text as it stands in canonical JSON, with its quotes."""
    return _dumps(text)


def parse_strict(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None for anything else, or for a text with more than one reading."""
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, parse_int=_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    plain = str(text)  # a database that somebody changed may hold bytes
    if plain.count("{") + plain.count("[") > _MANY_PARTS:
        from metier._json_object import is_deep  # most texts are of few parts

        return None if is_deep(found) else found
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _number(digits: str) -> int | float:
    # A number over the exact whole numbers was written for a float that happens to be whole.
    number = float(digits)
    return number if abs(number) > MAX_EXACT else int(digits)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Sanitizer:
    """Makes values that JSON can hold, as long as there is room."""

    def __init__(self) -> None:
        self._room = _MAX_ROOM

    def value(self, value: Any, depth: int) -> Any:
        """Return the value, or the nearest to it that JSON can hold."""
        self._room -= 8
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if -MAX_EXACT <= value <= MAX_EXACT else self._text(_digits(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if depth >= _MAX_DEPTH or self._room <= 0:
            return "…"
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(value, depth)
        return f"({type(value).__name__})"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in value.items():
            if not depth:
                # However much one field has, the others are kept too.
                self._room = _MAX_ROOM
            if self._room <= 0 or (not depth and len(found) >= _MAX_FIELDS):
                found.setdefault("…", f"{len(value) - len(found):,} more")
                break
            name = self._text(str.__str__(key)) if isinstance(key, str) else f"({type(key).__name__})"
            while name in found:
                name += "'"
            found[name] = self.value(inner, depth + 1)
        return found

    def _items(self, value: Any, depth: int) -> list[Any]:
        found: list[Any] = []
        for inner in value:
            if self._room <= 0:
                found.append(f"… {len(value) - len(found):,} more")
                break
            found.append(self.value(inner, depth + 1))
        return found

    def _text(self, text: str) -> str:
        kept = text[: max(0, min(_MAX_TEXT, self._room))]
        self._room -= len(kept)
        found = escape_surrogates(kept)
        return found if len(kept) == len(text) else f"{found}… ({len(text):,} characters)"


def _digits(number: int) -> str:
    # Python refuses to write very long numbers as decimals, and hexadecimals are the quick way to tell one.
    return str(number) if number.bit_length() <= 256 else f"{number:#x}"
