"""Whether values from a worker are what they should be. Each raises `ValueError` if not."""

from __future__ import annotations

import math


def checked_text(value: object, most: int) -> str:
    """Text without NUL that can be written as UTF-8, of at most so many characters."""
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        raise ValueError("what should be text is not")
    value.encode()
    return value


def checked_number(value: object, least: int, most: int) -> int:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError("what should be a number is not")
    return value


def checked_mode(value: object) -> int:
    """The permissions of a file."""
    return checked_number(value, 0, 0o177777) & 0o777


def checked_milliseconds(value: object) -> float:
    """A span of time."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ValueError("what should be a time is not")
    return float(min(value, 1e9))
