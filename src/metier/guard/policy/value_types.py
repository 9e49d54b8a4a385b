"""Kinds of values in a policy file: how each is read, and how a weaker layer tightens it.

Reading never fails. What cannot be read is a problem with a line, and counts as strict as its kind can be: an allow
list that is none allows nothing, a word that is none of the choices is the strictest of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from metier.guard.policy.durations import as_duration, seconds_of
from metier.skill import shown
from metier.skill.listing import MODES, ListingRule
from metier.skill.patterns import glob_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.guard.policy.file import Origin
    from metier.guard.policy.reader import At
    from metier.guard.policy.yaml_tree import Node

T = TypeVar("T")

MAX_TEXT = 1_024
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


class Kind(Generic[T]):
    """A kind of value."""

    example = "..."
    """What to write, in a hint."""
    adds_up = True
    """Whether what several files say holds together, and not the strictest of it alone."""
    takes_none = False
    """Whether None is a value to be tightened, and not the want of an opinion."""

    def read(self, at: At, node: Node) -> T | None:
        """The value that stands in a file; None for no opinion."""
        raise NotImplementedError

    def tighten(self, base: T, value: T) -> tuple[T, str]:
        """What holds when a weaker layer has another value, and what of that is ignored as it would loosen."""
        raise NotImplementedError

    def shown(self, value: T) -> object:
        """The value as JSON has it."""
        return value


class Choice(Kind[str]):
    """One of a few words, from the loosest to the strictest."""

    adds_up = False

    def __init__(self, *words: str) -> None:
        self.words = words
        self.example = " | ".join(words)

    def read(self, at: At, node: Node) -> str | None:
        """The word; the strictest where there is none of them."""
        if node.kind == "text" and node.text in self.words:
            return node.text
        at.wrong(node, f"Write one of {', '.join(self.words)}.")
        return self.words[-1]

    def tighten(self, base: str, value: str) -> tuple[str, str]:
        """The stricter of the two."""
        stricter = max(base, value, key=self.words.index)
        return stricter, "" if stricter == value else f"`{value}` is less strict than `{base}`"


class Flag(Kind[bool]):
    """Yes or no, of which yes is the stricter."""

    adds_up = False

    example = "true | false"

    def read(self, at: At, node: Node) -> bool | None:
        """Whether it is so; yes where it cannot be read."""
        word = node.text.lower() if node.kind == "text" else ""
        if word not in (*_YES, *_NO):
            at.wrong(node, "Write true or false.")
        return word not in _NO

    def tighten(self, base: bool, value: bool) -> tuple[bool, str]:
        """Yes if one of them is."""
        return base or value, "`false` is less strict than `true`" if base and not value else ""


class Number(Kind[int]):
    """A whole number, of which the lower or the higher is the stricter."""

    adds_up = False

    def __init__(self, least: int, most: int, *, strict: Callable[[int, int], int]) -> None:
        self.least, self.most, self._strict = least, most, strict
        self.example = f"a whole number from {least:,} to {most:,}"

    def read(self, at: At, node: Node) -> int | None:
        """The number; where there is none, as strict as it can be."""
        if node.kind == "text" and node.text.isascii() and node.text.isdigit() and len(node.text) < 12:
            number = int(node.text)
            if self.least <= number <= self.most:
                return number
        at.wrong(node, f"Write {self.example}.")
        return self._strict(self.least, self.most)

    def tighten(self, base: int, value: int) -> tuple[int, str]:
        """The stricter of the two."""
        stricter = self._strict(base, value)
        return stricter, "" if stricter == value else f"{value:,} is less strict than {base:,}"


class Duration(Kind["int | None"]):
    """A time, of which the shorter is the stricter; None for no end."""

    adds_up = False

    takes_none = True
    example = "12h, 7d or 180d"

    def read(self, at: At, node: Node) -> int | None:
        """Its seconds; one second where it cannot be read."""
        seconds = seconds_of(node.text) if node.kind == "text" else None
        if seconds is None:
            at.wrong(node, f"Write {self.example}.")
        return seconds or 1

    def tighten(self, base: int | None, value: int | None) -> tuple[int | None, str]:
        """The shorter of the two."""
        if base is None or value is None or value <= base:
            return value if value is not None else base, ""
        return base, f"{as_duration(value)} is longer than {as_duration(base)}"

    def shown(self, value: int | None) -> object:
        """As people write it."""
        return None if value is None else as_duration(value)


class Text(Kind["Located | None"]):
    """A text that only the first file decides about."""

    adds_up = False

    takes_none = True

    def __init__(self, example: str) -> None:
        self.example = example

    def read(self, at: At, node: Node) -> Located | None:
        """The text; no opinion where there is none."""
        if node.kind == "text" and 0 < len(node.text) <= MAX_TEXT and node.text.isprintable():
            return Located(node.text, at.origin(node))
        at.wrong(node, f"Write {self.example}.")
        return None

    def tighten(self, base: Located | None, value: Located | None) -> tuple[Located | None, str]:
        """The first."""
        return base, "" if value is None or base == value else "only the strongest policy file sets it"

    def shown(self, value: Located | None) -> object:
        """The text."""
        return None if value is None else value.text


@dataclass(frozen=True, slots=True)
class Located:
    """A text of a list, and where it stands."""

    text: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """One list of all that is allowed, and where it stands."""

    texts: tuple[str, ...]
    origin: Origin | None = None


class Denied(Kind["tuple[Located, ...]"]):
    """A list that layers add to: what any of them names is meant."""

    def __init__(self, example: str, wrong: Callable[[str], str] | None = None) -> None:
        """`wrong` says what is wrong with a text, or nothing."""
        self.example, self._wrong = example, wrong

    def read(self, at: At, node: Node) -> tuple[Located, ...] | None:
        """All of the list that can be read."""
        return tuple(texts_of(at, node, self._wrong, self.example))

    def tighten(self, base: tuple[Located, ...], value: tuple[Located, ...]) -> tuple[tuple[Located, ...], str]:
        """All that either has."""
        known = {one.text for one in base}
        lost = "an empty list takes nothing away" if base and not value else ""
        return (*base, *(one for one in value if one.text not in known)), lost

    def shown(self, value: tuple[Located, ...]) -> object:
        """The texts."""
        return [one.text for one in value]


class AllowLists(Kind["tuple[Allowed, ...]"]):
    """Lists of all that is allowed, one for each file that has one; something must be on all of them."""

    def __init__(self, example: str, wrong: Callable[[str], str] | None = None) -> None:
        self.example, self._wrong = example, wrong

    def read(self, at: At, node: Node) -> tuple[Allowed, ...] | None:
        """The list; one that cannot be read allows nothing."""
        return (Allowed(tuple(one.text for one in texts_of(at, node, self._wrong, self.example)), at.origin(node)),)

    def tighten(self, base: tuple[Allowed, ...], value: tuple[Allowed, ...]) -> tuple[tuple[Allowed, ...], str]:
        """Both."""
        added = [text for one in value for text in one.texts if not all(_covers(lists, text) for lists in base)]
        return (*base, *value), f"it cannot add {shown(added[0])!r}" if added else ""

    def shown(self, value: tuple[Allowed, ...]) -> object:
        """The lists."""
        return [list(one.texts) for one in value] if value else None


def _covers(allowed: Allowed, text: str) -> bool:
    return any(glob_matches(pattern, text) for pattern in allowed.texts)


class Within(Kind["tuple[str, ...]"]):
    """A list of which layers only take away."""

    def __init__(
        self,
        example: str,
        wrong: Callable[[str], str] | None = None,
        *,
        covers: Callable[[str, str], bool] = str.__eq__,
        plain: Callable[[str], str] = str,
    ) -> None:
        """`covers` says whether one text stands for all that another one does; `plain` gives a text its one form."""
        self.example, self._wrong, self._covers, self._plain = example, wrong, covers, plain

    def read(self, at: At, node: Node) -> tuple[str, ...] | None:
        """All of the list that can be read."""
        found = (self._plain(one.text) for one in texts_of(at, node, self._wrong, self.example))
        return tuple(dict.fromkeys(found))

    def tighten(self, base: tuple[str, ...], value: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
        """What both have: of two that overlap, the narrower."""
        kept, lost = self.common(base, value), [own for own in value if not any(self._covers(b, own) for b in base)]
        return kept, f"it cannot add {shown(lost[0])!r}" if lost else ""

    def common(self, base: Iterable[str], value: Iterable[str]) -> tuple[str, ...]:
        """What both lists have: of two entries that overlap, the narrower."""
        found: dict[str, None] = {}
        for own in value:
            for given in base:
                if self._covers(given, own):
                    found[own] = None
                elif self._covers(own, given):
                    found[given] = None
        return tuple(found)

    def shown(self, value: tuple[str, ...]) -> object:
        """The list."""
        return list(value)


class Modes(Kind["tuple[tuple[ListingRule, ...], ...]"]):
    """Maps from patterns of skills to listing modes, one for each file that has one."""

    example = "{my-skill: name-only}"

    def read(self, at: At, node: Node) -> tuple[tuple[ListingRule, ...], ...] | None:
        """All of the map that can be read; a mode that cannot be is the strictest."""
        found: list[ListingRule] = []
        for name, value in at.pairs(node, self.example):
            inner = at.below(name)
            word = value.text if value.kind == "text" else ""
            mode = next((one for one in MODES if one == word), None)
            if mode is None:
                inner.wrong(value, f"Write one of {', '.join(MODES)}.")
            found.append(ListingRule(pattern=name, mode=mode or MODES[-1], origin=inner.origin(value)))
        return (tuple(found),)

    def tighten(
        self, base: tuple[tuple[ListingRule, ...], ...], value: tuple[tuple[ListingRule, ...], ...]
    ) -> tuple[tuple[tuple[ListingRule, ...], ...], str]:
        """Both: between files the strictest mode counts, and of preferences the closest."""
        lost = ""
        stricter = {rule.pattern: rule for layer in base for rule in layer if rule.is_strict}
        for own in (rule for layer in value for rule in layer):
            given = stricter.get(own.pattern)
            if given is not None and MODES.index(own.mode) < MODES.index(given.mode):
                lost = f"`{own.mode}` for {shown(own.pattern)!r} is less strict than `{given.mode}`"
        return (*base, *value), lost

    def shown(self, value: tuple[tuple[ListingRule, ...], ...]) -> object:
        """Pattern to mode, for each file where there are several."""
        maps = [{rule.pattern: rule.mode for rule in layer} for layer in value]
        return maps[0] if len(maps) == 1 else maps


class Pins(Kind["dict[str, tuple[Located, ...]]"]):
    """A map from skills to the only content that they may have."""

    example = '{"pdf@acme": "sha256:..."}'

    def read(self, at: At, node: Node) -> dict[str, tuple[Located, ...]] | None:
        """All of the map; a pin that cannot be read fits no content."""
        found: dict[str, tuple[Located, ...]] = {}
        for name, value in at.pairs(node, self.example):
            inner = at.below(name)
            digest = value.text if value.kind == "text" else ""
            hexadecimal = digest.removeprefix("sha256:")
            if len(hexadecimal) != 64 or hexadecimal == digest or not set(hexadecimal) <= set("0123456789abcdef"):
                inner.wrong(value, "Write sha256: and 64 digits and letters a-f, as `metier show` has them.")
            found, _ = self.tighten(found, {name: (Located(digest, inner.origin(value)),)})
        return found

    def tighten(
        self, base: dict[str, tuple[Located, ...]], value: dict[str, tuple[Located, ...]]
    ) -> tuple[dict[str, tuple[Located, ...]], str]:
        """All pins hold; two that differ leave a skill nothing to be."""
        merged = dict(base)
        for name, pins in value.items():
            known = merged.get(name, ())
            merged[name] = (*known, *(pin for pin in pins if all(pin.text != one.text for one in known)))
        return merged, ""

    def shown(self, value: dict[str, tuple[Located, ...]]) -> object:
        """Skill to digest, or to several that cannot all be."""
        return {name: pins[0].text if len(pins) == 1 else [one.text for one in pins] for name, pins in value.items()}


def texts_of(at: At, node: Node, wrong: Callable[[str], str] | None, example: str = "...") -> list[Located]:
    """The texts of a list, as far as it is one."""
    if node.kind in ("map", "alias"):
        at.wrong(node, f"Write a list, such as {example}.")
        return []
    if node.kind == "text":
        at.wrong(node, f"Write a list: [{shown(node.text)}].")
    found: list[Located] = []
    for item in node.items if node.kind == "list" else [node]:
        what = "" if item.kind == "text" else f"{item.noun} where text is expected"
        if not what and not (item.text and len(item.text) <= MAX_TEXT and item.text.isprintable()):
            what = f"{shown(item.text)!r}, which is empty, too long, or has characters that cannot be seen"
        what = what or (wrong(item.text) if wrong is not None else "")
        if what:
            at.error(item.line, f"`{at.key}` has {what}", f"Write such as {example}.")
        if item.kind == "text" and item.text and not what:
            found.append(Located(item.text, at.origin(item)))
    return found
