"""Values as both databases keep them: any text comes back as it was, also one that neither could hold by itself."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, TypeVar

from metier.errors import IntegrityFailed, InvalidArgument
from metier.hints import for_people

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.store.connection_pool import Value

Record = TypeVar("Record")

_MARK = "\ufdd0"  # stands for no character, in any text
_ODD = re.compile(f"[\0\ud800-\udfff{_MARK}]")
# Nothing else is written so, or one text could be kept in two ways, of which a search finds but one.
_WRITTEN = re.compile(f"{_MARK}(0000|d[89a-f][0-9a-f]{{2}}|{ord(_MARK):04x})")
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
RESTORE = for_people("Bring back a backup with `metier store restore FILE --force`.")
"""The hint for what is damaged beyond repair."""
MAX_KEY = 2_000
"""The longest text that may be a part of a key, in bytes: a page of an index must hold a few of them."""


def encode_text(text: str) -> str:
    """A text that every database can hold: what is no character becomes a mark with its number.

    >>> decode_text(encode_text("a\\0b")) == "a\\0b"
    True
    """
    if text.isascii() and "\0" not in text:
        return text
    return _ODD.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def decode_text(text: str) -> str:
    """The text that was stored."""
    return _WRITTEN.sub(lambda found: chr(int(found[1], 16)), text) if _MARK in text else text


def decode_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with every text in them as it was stored."""
    for number, row in enumerate(rows):
        for value in row:
            if type(value) is str and not value.isascii() and _MARK in value:
                rows[number] = tuple(decode_text(value) if type(value) is str else value for value in row)
                break
    return rows


def now() -> str:
    """This moment, as every record has it: UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new_id(letter: str) -> str:
    """An id that tells nothing but its kind: `a-7f3k2m9q`."""
    return f"{letter}-{''.join(_LETTERS[byte & 31] for byte in token_bytes(8))}"


def require_key(what: str, text: object) -> str:
    """A text that may be a part of a key; raises `InvalidArgument` for one that is empty or too long."""
    if not isinstance(text, str) or not text or len(encode_text(text).encode()) > MAX_KEY:
        raise InvalidArgument(f"The {what} must be a text of 1 to {MAX_KEY} bytes.", hint=f"Name another {what}.")
    return text


def require_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises `InvalidArgument` for what is none of the choices."""
    if value not in choices:
        raise InvalidArgument(f"{value!r:.100} is no {what}.", hint=f"Use one of: {', '.join(choices)}.")


def to_row(record: Any) -> dict[str, Value]:
    """The columns of a record; what is more than a text or a number becomes JSON."""
    found: dict[str, Value] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        found[field.name] = value if isinstance(value, str | int) else to_json(value)
    return found


def to_json(value: object) -> str:
    """A value as JSON in plain ASCII, the same for the same value."""
    if isinstance(value, frozenset | set):
        value = sorted(value)
    try:
        return json.dumps(value, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"A value cannot be kept as JSON: {error}.", hint="Use texts, numbers and lists."
        ) from None


def _plain(value: object) -> object:
    if isinstance(value, frozenset | set):
        return sorted(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"{type(value).__name__} is none of its types")


def from_row(kind: type[Record], row: Mapping[str, Any], json_fields: Mapping[str, Callable[[Any], Any]]) -> Record:
    """A record from its columns; `json_fields` says what the lists and mappings in it are."""
    values = {field.name: row[field.name] for field in fields(kind)}  # type: ignore[arg-type]
    try:
        for name, make in json_fields.items():
            values[name] = make(json.loads(values[name] or "null") or ())
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityFailed(
            f"A stored {kind.__name__.lower()} cannot be read: {error}.",
            hint=RESTORE,
        ) from None
    return kind(**values)
