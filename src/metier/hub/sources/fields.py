"""Fields of JSON objects that strangers wrote: each is read as the kind that it should have, or passed over."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from metier._json_object import value_at
from metier.errors import SourceUnavailable
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MAX_WARNINGS = 20


def object_at(value: object, *keys: str) -> dict[str, Any]:
    """The object that lies at the end of some keys; an empty one where there is none.

    >>> object_at({"extensions": {"dev.metier": {"version": "1.0"}}}, "extensions", "dev.metier")
    {'version': '1.0'}
    """
    found = value_at(value, *keys)
    return found if isinstance(found, dict) else {}


def text_at(value: object, key: str, most: int = 200) -> str:
    """A text as it is printed, of at most so many characters; empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return shown(found, most) if isinstance(found, str) else ""


def required_text(value: object, key: str, is_valid: Callable[[str], object], problem: str) -> str:
    """A text that something can only be used with; raises `ValueError` with the problem where it has none."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, str) or not is_valid(found):
        raise ValueError(problem)
    return found


def bounded_list(value: object, key: str, most: int) -> list[Any]:
    """A list of at most so many; raises `ValueError` where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list) or len(found) > most:
        raise ValueError(f"it has no list of at most {most:,} {key}")
    return found


@contextlib.contextmanager
def refused(name: str) -> Iterator[None]:
    """A document is refused where something in it that all the rest depends on is wrong."""
    try:
        yield
    except ValueError as problem:
        raise SourceUnavailable(
            f"{name} cannot be used: {problem}.", hint="Ask the author of the source to correct it."
        ) from None


def few(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first of many warnings, and how many more there are."""
    more = len(warnings) - _MAX_WARNINGS
    return (*warnings[:_MAX_WARNINGS], *([f"There are {more:,} more warnings."] if more > 0 else ()))
