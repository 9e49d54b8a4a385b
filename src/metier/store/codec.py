"""Records and rows: dataclasses as the columns of a table, and back."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from metier.errors import IntegrityFailed, InvalidArgument
from metier.hints import for_people
from metier.store.connection_pool import encode_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.store.connection_pool import Value

Record = TypeVar("Record")

_ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"
RESTORE = for_people("Bring back a backup with `metier store restore FILE --force`.")
"""The hint for damage beyond repair."""
MAX_KEY = 2_000
"""The longest text in bytes that may be a part of a key: a page of an index must hold a few of them."""


class Table(Generic[Record]):
    """A table whose rows are records of one kind."""

    def __init__(
        self,
        name: str,
        record: type[Record],
        *,
        order: tuple[str, ...],
        columns: tuple[str, ...] = (),
        json: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """`order` is the order of records, `columns` the fields that have one, by default all.

        `json` has the types of the fields that are lists and mappings.
        """
        self.name = name
        self.columns = columns or tuple(field.name for field in fields(record))  # type: ignore[arg-type]
        self.order = order
        self._record = record
        self._json = json or {}

    def to_row(self, record: Record) -> dict[str, Value]:
        """Return the columns of a record; a value that is no text and no number becomes JSON."""
        values = {name: getattr(record, name) for name in self.columns}
        return {name: value if isinstance(value, str | int) else to_json(value) for name, value in values.items()}

    def from_row(self, row: Sequence[Any]) -> Record:
        """Return a record from its columns."""
        values = dict(zip(self.columns, row, strict=True))
        try:
            for name, make in self._json.items():
                values[name] = make(json.loads(values[name] or "null") or ())
        except (ValueError, TypeError, RecursionError) as error:
            what = re.sub(r"(?<!^)(?=[A-Z])", " ", self._record.__name__).lower()
            raise IntegrityFailed(f"A stored {what} cannot be read: {error}.", hint=RESTORE) from None
        return self._record(**values)


def terms_of(*parts: object) -> str:
    """Return the digest of all values of a row, for the record that vouches for it.

    >>> terms_of("a-1", ["scripts"]) == terms_of("a-1", ["scripts", "hooks"])
    False
    """
    text = json.dumps(parts, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def now() -> str:
    """Return the current time as all records have it: UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new_id(letter: str) -> str:
    """Return an id that tells nothing but its kind: `a-7f3k2m9q`."""
    return f"{letter}-{''.join(_ID_CHARACTERS[byte & 31] for byte in token_bytes(8))}"


def require_key(what: str, text: object) -> str:
    """Return a text that may be a part of a key; raises `InvalidArgument` for one that is empty or too long."""
    if not isinstance(text, str) or not text or len(encode_text(text).encode()) > MAX_KEY:
        raise InvalidArgument(f"The {what} must be a text of 1 to {MAX_KEY} bytes.", hint=f"Name another {what}.")
    return text


def require_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `InvalidArgument` for a value that is none of the choices."""
    if value not in choices:
        raise InvalidArgument(f"{value!r:.100} is no {what}.", hint=f"Use one of: {', '.join(choices)}.")


def to_json(value: object) -> str:
    """Return a value as JSON in plain ASCII, the same for the same value."""
    try:
        return json.dumps(value, separators=(",", ":"), default=_to_json_type)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"A value cannot be kept as JSON: {error}.", hint="Use texts, numbers and lists."
        ) from None


def _to_json_type(value: object) -> object:
    if isinstance(value, frozenset | set):
        return sorted(value)
    if hasattr(value, "items"):
        return dict(value.items())
    raise TypeError(f"{type(value).__name__} is none of its types")
