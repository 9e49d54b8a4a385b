"""Patterns in which `*` stands for anything, over texts, paths and the names of skills."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from metier.skill.lookalikes import is_plain, readings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a text is like a pattern.

    >>> glob_matches("https://x.org/*", "https://x.org/a/b"), glob_matches("a*c", "ab")
    (True, False)
    """
    return has_pieces(_pieces(pattern), text)


@lru_cache(maxsize=16_384)
def _pieces(pattern: str) -> tuple[str, ...]:
    """The texts between the stars of a pattern; found out once, as policies have the same ones for long."""
    return tuple(pattern.split("*"))


def has_pieces(pieces: tuple[str, ...], text: str) -> bool:
    """Whether a text is made of pieces, with anything between them; it takes time in proportion to the text."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if not text.startswith(first) or not text.endswith(last) or len(first) + len(last) > len(text):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def path_fits(pattern: Sequence[Callable[[str], object] | None], names: Sequence[str]) -> bool:
    """Whether the names of a path fit a pattern: a predicate for each name, and None for any number of folders.

    >>> path_fits([None, ".git".__eq__], ["a", "b", ".git"]), path_fits([".git".__eq__], ["a", ".git"])
    (True, False)
    """
    # All the positions in the pattern that the names so far can have led to, at once: nothing is ever tried again.
    positions = _positions(pattern, {0})
    for name in names:
        moved = {
            at if part is None else at + 1
            for at in positions
            if at < len(pattern) and ((part := pattern[at]) is None or part(name))
        }
        positions = _positions(pattern, moved)
        if not positions:
            return False
    return len(pattern) in positions


def _positions(pattern: Sequence[Callable[[str], object] | None], positions: set[int]) -> set[int]:
    """The positions, with those behind folders of any number."""
    reached = set(positions)
    for at in positions:
        while at < len(pattern) and pattern[at] is None:
            at += 1
            reached.add(at)
    return reached


@lru_cache(maxsize=8_192)  # every decision asks the same of the same skills
def names_skill(pattern: str, name: str, source: str) -> bool:
    """Whether a pattern names a skill: over its name, or over `name@source` where the pattern has an `@`.

    Letters are compared whatever their case, as a name that differs by that alone would be taken for the same.

    >>> names_skill("crypto-*@*", "crypto-miner", "acme"), names_skill("deploy", "Deploy", "acme")
    (True, True)
    """
    whole = f"{name}@{source}" if "@" in pattern else name
    return glob_matches(_folded(pattern), whole.casefold())


@lru_cache(maxsize=8_192)
def may_name(pattern: str, name: str, source: str) -> bool:
    """Whether a pattern names a skill, or one that somebody would take it for; for what is denied or reserved.

    The plain name is never taken for the one that imitates it: to deny the one leaves the other alone.

    >>> may_name("data-*", "d\\u0430ta-handling", "acme"), may_name("d\\u0430ta", "data", "acme")
    (True, False)
    """
    if is_plain(name):
        return names_skill(pattern, name, source)
    return any(names_skill(one, other, source) for one in readings(pattern) for other in readings(name))


def ends_of(pattern: str) -> tuple[str, str]:
    """The beginning and the end of each skill that a pattern names, in lower case.

    >>> ends_of("Crypto-*@acme"), ends_of("*")
    (('crypto-', '@acme'), ('', ''))
    """
    pieces = _folded(pattern).split("*")
    return pieces[0], pieces[-1]


@lru_cache(maxsize=16_384)
def _folded(pattern: str) -> str:
    return pattern.casefold()
