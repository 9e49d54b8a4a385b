"""What the readers of commands that start others share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from metier.guard.scanner import Word


class Unclear(Exception):
    """What a command starts cannot be read from its words; `index` is the word that is to blame, or one past them."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.index = index


class Inner(NamedTuple):
    """Something that a command starts: words, or the text of a command line."""

    at: int
    """Which of the outer words it begins with."""
    words: tuple[Word, ...] = ()
    script: str | None = None
    sets_variables: bool = False
    """Whether it is started with variables that the command chooses."""
