"""The value types of policy keys: how a value is read, tightened by a weaker layer, and shown as JSON.

Reading never fails. A value that cannot be read is a problem with a line, and counts as strict as its type can be: an
unreadable allow list allows nothing, an unknown word is the strictest of the choices.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from metier.guard.policy.durations import as_duration, seconds_of
from metier.guard.policy.file import Located
from metier.skill import shown
from metier.skill.names import glob_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.guard.decision import Origin
    from metier.guard.policy.reader import KeyReader
    from metier.guard.policy.yaml_tree import Node

T = TypeVar("T")

MAX_TEXT = 1_024
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType(Generic[T]):
    """A type of value in policy files."""

    example: str
    """A value to write, for a hint."""
    read: Callable[[KeyReader, Node], T | None]
    """Reads the value of a key; None for no opinion."""
    tighten: Callable[[T, T], tuple[T, str]]
    """Combines the value of a stronger layer with that of a weaker one; the text names what is ignored as it would
    loosen."""
    shown: Callable[[T], object] = _same
    """The value as JSON has it."""
    setting: Callable[[T], Any] = _same
    """The value as `EffectivePolicy` has it."""
    adds_up: bool = False
    """Whether the values of several files hold together, and not the strictest of them alone."""
    takes_none: bool = False
    """Whether None is a value to be tightened, and not the lack of an opinion."""


def choice(*words: str) -> ValueType[str]:
    """One of a few words, from the loosest to the strictest."""

    def read(key: KeyReader, node: Node) -> str:
        if node.kind == "text" and node.text in words:
            return node.text
        key.wrong(node, f"Write one of {', '.join(words)}.")
        return words[-1]

    def tighten(base: str, value: str) -> tuple[str, str]:
        stricter = max(base, value, key=words.index)
        return stricter, "" if stricter == value else f"`{value}` is less strict than `{base}`"

    return ValueType(example=" | ".join(words), read=read, tighten=tighten)


def flag() -> ValueType[bool]:
    """Yes or no, of which yes is the stricter."""

    def read(key: KeyReader, node: Node) -> bool:
        word = node.text.lower() if node.kind == "text" else ""
        if word not in (*_YES, *_NO):
            key.wrong(node, "Write true or false.")
        return word not in _NO

    def tighten(base: bool, value: bool) -> tuple[bool, str]:
        return base or value, "`false` is less strict than `true`" if base and not value else ""

    return ValueType(example="true | false", read=read, tighten=tighten)


def number(least: int, most: int, *, strict: Callable[[int, int], int]) -> ValueType[int]:
    """A whole number, of which the lower or the higher is the stricter."""
    example = f"a whole number from {least:,} to {most:,}"

    def read(key: KeyReader, node: Node) -> int:
        if node.kind == "text" and node.text.isascii() and node.text.isdigit() and len(node.text) < 12:
            value = int(node.text)
            if least <= value <= most:
                return value
        key.wrong(node, f"Write {example}.")
        return strict(least, most)

    def tighten(base: int, value: int) -> tuple[int, str]:
        stricter = strict(base, value)
        return stricter, "" if stricter == value else f"{value:,} is less strict than {base:,}"

    return ValueType(example=example, read=read, tighten=tighten)


def duration() -> ValueType[int | None]:
    """A time in seconds, of which the shorter is the stricter; None for no end."""
    example = "12h, 7d or 180d"

    def read(key: KeyReader, node: Node) -> int:
        seconds = seconds_of(node.text) if node.kind == "text" else None
        if seconds is None:
            key.wrong(node, f"Write {example}.")
        return seconds or 1

    def tighten(base: int | None, value: int | None) -> tuple[int | None, str]:
        if base is None or value is None or value <= base:
            return value if value is not None else base, ""
        return base, f"{as_duration(value)} is longer than {as_duration(base)}"

    def show(value: int | None) -> object:
        return None if value is None else as_duration(value)

    return ValueType(example=example, read=read, tighten=tighten, shown=show, takes_none=True)


def text(example: str, *, is_path: bool = False) -> ValueType[Located | None]:
    """A text that only the strongest file sets; a path starts from the folder of that file."""

    def read(key: KeyReader, node: Node) -> Located | None:
        if node.kind == "text" and 0 < len(node.text) <= MAX_TEXT and node.text.isprintable():
            return Located(node.text, key.origin(node))
        key.wrong(node, f"Write {example}.")
        return None

    def tighten(base: Located | None, value: Located | None) -> tuple[Located | None, str]:
        return base, "" if value is None or base == value else "only the strongest policy file sets it"

    def show(value: Located | None) -> object:
        return None if value is None else value.text

    def resolve(value: Located | None) -> str | None:
        if value is None or not is_path:
            return None if value is None else value.text
        folder = os.path.dirname(value.origin.path) if value.origin is not None else ""
        return os.path.join(folder, os.path.expanduser(value.text))

    return ValueType(example=example, read=read, tighten=tighten, shown=show, setting=resolve, takes_none=True)


def _texts(value: tuple[Located, ...] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(one.text for one in value)


def deny_list(
    example: str, problem_of: Callable[[str], str] | None = None, *, setting: Callable[[Any], Any] = _same
) -> ValueType[tuple[Located, ...]]:
    """A list that layers add to; `problem_of` says what is wrong with an entry, or nothing."""

    def read(key: KeyReader, node: Node) -> tuple[Located, ...]:
        return tuple(read_texts(key, node, problem_of, example))

    def tighten(base: tuple[Located, ...], value: tuple[Located, ...]) -> tuple[tuple[Located, ...], str]:
        known = {one.text for one in base}
        lost = "an empty list takes nothing away" if base and not value else ""
        return (*base, *(one for one in value if one.text not in known)), lost

    def show(value: tuple[Located, ...]) -> object:
        return [one.text for one in value]

    return ValueType(example=example, read=read, tighten=tighten, shown=show, setting=setting, adds_up=True)


def text_list(example: str, problem_of: Callable[[str], str]) -> ValueType[tuple[Located, ...]]:
    """A list that layers add to, of which decisions need the texts alone."""
    return deny_list(example, problem_of, setting=_texts)


class Allowed(NamedTuple):
    """One allow list, and its line."""

    texts: tuple[str, ...]
    origin: Origin | None = None


def allow_lists(example: str, problem_of: Callable[[str], str] | None = None) -> ValueType[tuple[Allowed, ...]]:
    """Allow lists, one for each file that has one; an entry must be on all of them."""

    def read(key: KeyReader, node: Node) -> tuple[Allowed, ...]:
        entries = read_texts(key, node, problem_of, example)
        return (Allowed(tuple(one.text for one in entries), key.origin(node)),)

    def covers(allowed: Allowed, entry: str) -> bool:
        return any(glob_matches(pattern, entry) for pattern in allowed.texts)

    def tighten(base: tuple[Allowed, ...], value: tuple[Allowed, ...]) -> tuple[tuple[Allowed, ...], str]:
        added = [entry for one in value for entry in one.texts if not all(covers(lists, entry) for lists in base)]
        return (*base, *value), f"it cannot add {shown(added[0])!r}" if added else ""

    def show(value: tuple[Allowed, ...]) -> object:
        return [list(one.texts) for one in value] if value else None

    return ValueType(example=example, read=read, tighten=tighten, shown=show, adds_up=True)


def subset_list(
    example: str,
    problem_of: Callable[[str], str] | None = None,
    *,
    covers: Callable[[str, str], bool] = str.__eq__,
    normalise: Callable[[str], str] = str,
) -> ValueType[tuple[str, ...]]:
    """A list of which layers only take away; `covers` tells whether one entry includes another."""

    def read(key: KeyReader, node: Node) -> tuple[str, ...]:
        return tuple(dict.fromkeys(normalise(one.text) for one in read_texts(key, node, problem_of, example)))

    def tighten(base: Iterable[str], value: Iterable[str]) -> tuple[tuple[str, ...], str]:
        # Of two entries that overlap, the narrower is left.
        common: dict[str, None] = {}
        for own in value:
            for given in base:
                if covers(given, own):
                    common[own] = None
                elif covers(own, given):
                    common[given] = None
        lost = [own for own in value if not any(covers(given, own) for given in base)]
        return tuple(common), f"it cannot add {shown(lost[0])!r}" if lost else ""

    return ValueType(example=example, read=read, tighten=tighten, shown=list, adds_up=True)


def read_texts(
    key: KeyReader, node: Node, problem_of: Callable[[str], str] | None, example: str = "..."
) -> list[Located]:
    """The readable texts of a list; the others are reported."""
    if node.kind in ("map", "alias"):
        key.wrong(node, f"Write a list, such as {example}.")
        return []
    if node.kind == "text":
        key.wrong(node, f"Write a list: [{shown(node.text)}].")
    found: list[Located] = []
    for item in node.items if node.kind == "list" else [node]:
        what = "" if item.kind == "text" else f"{item.noun} where text is expected"
        if not what and not (item.text and len(item.text) <= MAX_TEXT and item.text.isprintable()):
            what = f"{shown(item.text)!r}, which is empty, too long, or has characters that cannot be seen"
        what = what or (problem_of(item.text) if problem_of is not None else "")
        if what:
            key.error(item.line, f"`{key.key}` has {what}", f"Write such as {example}.")
        else:
            found.append(Located(item.text, key.origin(item)))
    return found


def one_of(*words: str) -> Callable[[str], str]:
    """The check that an entry of a list is one of a few words."""
    return lambda entry: "" if entry in words else f"{shown(entry)!r}, which is none of {', '.join(words)}"
