"""The value types of policy keys: how a value is read, tightened by a weaker layer, and shown as JSON.

Reading never fails. A value that cannot be read is a problem with a line, and counts as strict as its type can be: an
unreadable allow list allows nothing, an unknown word is the strictest of the choices.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from metier._lazy import dataclass
from metier.guard.policy.durations import as_duration, seconds_of
from metier.guard.policy.file import Located
from metier.skill import shown
from metier.skill.names import glob_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metier.guard.decision import Origin
    from metier.guard.policy.reader import KeyReader
    from metier.guard.policy.yaml_tree import Node

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

MAX_TEXT = 1_024
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType(Generic[T]):
    """A type of value in policy files."""

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


def _stricter(strict: Callable[[T, T], T], written: Callable[[T], str]) -> Callable[[T, T], tuple[T, str]]:
    """Tightens a value of which the stricter counts."""

    def tighten(base: T, value: T) -> tuple[T, str]:
        stricter = strict(base, value)
        return stricter, "" if stricter == value else f"{written(value)} is less strict than {written(base)}"

    return tighten


def choice(*words: str) -> ValueType[str]:
    """One of a few words, from the loosest to the strictest."""
    return ValueType(
        read=lambda key, node: read_word(key, node, words),
        tighten=_stricter(lambda base, value: max(base, value, key=words.index), "`{}`".format),
    )


def flag() -> ValueType[bool]:
    """Yes or no, of which yes is the stricter."""

    def read(key: KeyReader, node: Node) -> bool:
        word = node.text.lower()
        if word not in (*_YES, *_NO):
            key.wrong(node, "Write true or false.")
        return word not in _NO

    return ValueType(read=read, tighten=_stricter(max, lambda value: "`true`" if value else "`false`"))


def number(least: int, most: int, *, strict: Callable[[int, int], int]) -> ValueType[int]:
    """A whole number, of which the lower or the higher is the stricter."""

    def read(key: KeyReader, node: Node) -> int:
        is_number = node.text.isascii() and node.text.isdigit() and len(node.text) < 12
        if is_number and least <= int(node.text) <= most:
            return int(node.text)
        key.wrong(node, f"Write a whole number from {least:,} to {most:,}.")
        return strict(least, most)

    return ValueType(read=read, tighten=_stricter(strict, "{:,}".format))


def duration() -> ValueType[int | None]:
    """A time in seconds, of which the shorter is the stricter; None for no end."""

    def read(key: KeyReader, node: Node) -> int:
        seconds = seconds_of(node.text)
        if seconds is None:
            key.wrong(node, "Write 12h, 7d or 180d.")
        return seconds or 1

    def tighten(base: int | None, value: int | None) -> tuple[int | None, str]:
        if base is None or value is None or value <= base:
            return value if value is not None else base, ""
        return base, f"{as_duration(value)} is longer than {as_duration(base)}"

    def show(value: int | None) -> object:
        return None if value is None else as_duration(value)

    return ValueType(read=read, tighten=tighten, shown=show, takes_none=True)


def text(example: str, *, is_path: bool = False) -> ValueType[Located | None]:
    """A text that only the strongest file sets; a path starts from the folder of that file."""

    def read(key: KeyReader, node: Node) -> Located | None:
        if 0 < len(node.text) <= MAX_TEXT and node.text.isprintable():
            return Located(node.text, key.origin(node))
        key.wrong(node, f"Write {example}.")
        return None

    def tighten(base: Located | None, value: Located | None) -> tuple[Located | None, str]:
        return base, "" if value is None or base == value else "only the strongest policy file sets it"

    def show(value: Located | None) -> str | None:
        return None if value is None else value.text

    def resolve(value: Located | None) -> str | None:
        if value is None or value.origin is None:
            return show(value)
        return os.path.join(os.path.dirname(value.origin.path), os.path.expanduser(value.text))

    setting = resolve if is_path else show
    return ValueType(read=read, tighten=tighten, shown=show, setting=setting, takes_none=True)


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

    return ValueType(read=read, tighten=tighten, shown=show, setting=setting, adds_up=True)


def texts(value: tuple[Located, ...] | None) -> tuple[str, ...] | None:
    """The setting of a list of which decisions need the texts alone."""
    return None if value is None else tuple(one.text for one in value)


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

    return ValueType(read=read, tighten=tighten, shown=show, adds_up=True)


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

    return ValueType(read=read, tighten=tighten, shown=list, adds_up=True)


def read_word(key: KeyReader, node: Node, words: Sequence[Word]) -> Word:
    """One of a few words; the last one, which is the strictest, for anything else."""
    for word in words:
        if word == node.text:
            return word
    key.wrong(node, f"Write one of {', '.join(words)}.")
    return words[-1]


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
