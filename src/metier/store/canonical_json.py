"""A record in the one form that its hash is taken of (RFC 8785), whatever is in it."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rfc8785 import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN = frozenset({"seq", "tenant", "prev_hash", "hash", "checkpoint"})
"""What the trail itself says of a record; no record can say it instead."""

FIRST = "0" * 64
"""What the first record of a chain is tied to."""

_MAX_LENGTH = 256 * 1024
_MAX_TEXT = 2_000
_MAX_DEPTH = 16
_MAX_PARTS = 200_000
_MAX_FIELDS = 100
_MAX_ROOM = 8 * 1024
"""Characters that each field of a record may have, once it has too many altogether."""
_MAX_EXACT = 2**53 - 1
_LEAST_PLAIN, _MOST_PLAIN = 1e-4, 1e15
"""Between them, Python writes a float that is not whole as everybody does: without an exponent."""
_ENCODE = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def canonical(record: Mapping[str, Any]) -> str:
    r"""The canonical JSON of a record; what JSON cannot hold is written so that it can, and no content makes it fail.

    >>> canonical({"b": float("nan"), "a": "\ud800", "c": 1.0})
    '{"a":"\\\\ud800","b":"nan","c":1}'
    """
    return written(record)[0]


def written(record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The canonical JSON of a record, and what a reader of it gets; of a tuple that is a list."""
    try:
        text = _quickly(record)
    except (ValueError, RecursionError):
        text = None
    if text is not None and len(text) <= _MAX_LENGTH:
        return text, record
    text = canonical_or_none(record)
    if text is None or len(text) > _MAX_LENGTH:
        text = dumps(_Harmless().value(dict(record), 0)).decode()
    return text, json.loads(text)


def canonical_or_none(record: Mapping[str, Any]) -> str | None:
    """The canonical JSON of a record; None for one that has none, or that nobody could read."""
    try:
        found = _quickly(record)
        if found is None and is_readable(record):
            found = dumps(dict(record)).decode()
    except (ValueError, RecursionError):
        return None
    return found


def is_canonical(record: dict[str, Any], text: str) -> bool:
    """Whether Python's own JSON of a record is the text that it was read from, which then has no other reading."""
    try:
        return _ENCODE(record) == text
    except ValueError:
        return False


def is_readable(value: Any) -> bool:
    """Whether a value has no more levels and parts than anything that is kept."""
    left, level = _MAX_PARTS, [value]
    for _ in range(_MAX_DEPTH + 1):
        level = list(itertools.islice((inner for one in level for inner in _parts(one)), left + 1))
        left -= len(level)
        if left < 0 or not level:
            break
    return not level


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


def _quickly(record: Mapping[str, Any]) -> str | None:
    """The same for most records, at a fifth of the time: those for which Python's own JSON is canonical.

    It is but for names that are not ASCII, which it sorts otherwise, and for some numbers, which it writes otherwise.
    """
    simple = {}
    for name, value in record.items():
        kind = type(value)
        if kind is float:
            if value.is_integer() and -_MAX_EXACT <= value <= _MAX_EXACT:
                value = int(value)
            elif not _LEAST_PLAIN <= abs(value) <= _MOST_PLAIN:
                return None
        elif kind is int:
            if not -_MAX_EXACT <= value <= _MAX_EXACT:
                return None
        elif kind is tuple or kind is list:
            if any(type(item) is not str for item in value):
                return None
        elif kind is not str and kind is not bool and value is not None:
            return None
        simple[name] = value
    if not "".join(simple).isascii():
        return None
    text = _ENCODE(simple)
    if not text.isascii():
        text.encode()  # raises for what is no character
    return text


def escape_surrogates(text: str) -> str:
    r"""A text as a record has it: what is no character is written out.

    >>> escape_surrogates("a\ud800")
    'a\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def canonical_text(text: str) -> str:
    """A text as it stands in canonical JSON, with its quotes."""
    return dumps(text).decode()


def parse_strict(text: str) -> dict[str, Any] | None:
    """A JSON object that somebody else wrote; None for what is none, or could be read in more than one way."""
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_int=_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def chain_hash(previous: str, text: str) -> str:
    """The hash of a record that follows the one with the hash `previous`."""
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


def follows(seq: int, previous: str, row: tuple[Any, Any, Any, Any]) -> bool:
    """Whether a row (number, text, previous hash, hash) is the next one behind the record of a number and a hash."""
    number, text, tied_to, made = row
    is_next = type(number) is int and number == seq + 1 and tied_to == previous
    return is_next and type(text) is str and chain_hash(previous, text) == made


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _number(digits: str) -> int | float:
    # What is over the exact whole numbers was written for a float that happens to be whole.
    number = float(digits)
    return number if abs(number) > _MAX_EXACT else int(digits)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Harmless:
    """Makes records such that JSON can hold them, as long as there is room."""

    def __init__(self) -> None:
        self._room = _MAX_ROOM

    def value(self, value: Any, depth: int) -> Any:
        """The value, or the nearest to it that JSON can hold."""
        self._room -= 8
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value) if -_MAX_EXACT <= value <= _MAX_EXACT else self._text(_digits(value))
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
