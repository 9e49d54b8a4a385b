"""JSON objects that others wrote: bounded, and with every problem in words."""

from __future__ import annotations

import json
from typing import Any

from metier._paths import open_plain

MOST_LEVELS = 500


def value_at(data: object, *keys: str) -> Any:
    """The value at the end of some keys; None where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def text_at(data: object, *keys: str) -> str:
    """The text at the end of some keys, as it is; empty where there is none."""
    found = value_at(data, *keys)
    return found if isinstance(found, str) else ""


def parse_object(data: bytes, *, most: int) -> dict[str, Any]:
    """The JSON object that bytes are; raises `ValueError`, whose text continues "it cannot be used: ".

    >>> parse_object(b'{"name": "pdf"}', most=100)
    {'name': 'pdf'}
    """
    if len(data) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    if data.count(b"{") + data.count(b"[") > MOST_LEVELS and is_deep(found):
        raise ValueError(f"it is no JSON of at most {MOST_LEVELS} levels")
    return found


def object_of(text: str) -> dict[str, Any] | None:
    """The JSON object that a text of ours is, such as the arguments in an audit record; None where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_deep(found: dict[str, Any]) -> bool:
    """Whether an object has more levels than anybody writes: since Python 3.14 the parser itself takes any number."""
    level: list[Any] = [found]
    for _ in range(MOST_LEVELS):
        members = (each for one in level for each in (one.values() if isinstance(one, dict) else one))
        level = [each for each in members if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def read_object(path: str, *, most: int) -> dict[str, Any] | None:
    """The JSON object in a plain file, no link; None where there is no file. Raises `ValueError` as above."""
    data = read_plain(path, most=most)
    return parse_object(data, most=most) if data is not None else None


def read_plain(path: str, *, most: int) -> bytes | None:
    """The content of a plain file, no link; None where there is no file. Raises `ValueError` as above."""
    try:
        with open_plain(path) as file:
            data = file.read(most + 1) or b""  # a pipe that somebody has open, and is silent, gives nothing
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(error.strerror or "it cannot be read") from None
    if len(data) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return data
