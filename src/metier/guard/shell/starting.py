"""What the readers of commands that start others share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from metier.guard.shell.scanner import UNKNOWN
from metier.skill.patterns import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.guard.shell.scanner import Word
    from metier.guard.shell.script import Redirection


class Unclear(Exception):
    """What a command starts cannot be read from its words; `index` is the word that is to blame, or one past them."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.index = index


class Problem(NamedTuple):
    """A word that may make a command do more than its program does; a pattern that spells the word out allows it."""

    reason: str
    at: int
    is_setting: bool = False
    """Whether it changes the shell or its variables, and starts nothing itself."""


class Inner(NamedTuple):
    """Something that a command starts: words, or the text of a command line."""

    at: int
    """Which of the outer words it begins with."""
    words: tuple[Word, ...] = ()
    script: str | None = None
    sets_variables: bool = False
    """Whether it is started with variables that the command chooses."""
    moves: bool = False
    """Whether it is started in another folder."""
    is_own_matter: bool = False
    """Whether starting things is what the program is for: whoever allows the program allows it."""
    is_guess: bool = False
    """Whether it may be the value of an option, and start nothing."""


class Used(NamedTuple):
    """A file that a command writes because an option says so."""

    at: int
    """The word that names it."""
    file: Redirection
    moves: bool = False
    """Whether its path may start from another folder."""


class Started(NamedTuple):
    """What a simple command does beside what its program does."""

    inner: tuple[Inner, ...] = ()
    problems: tuple[Problem, ...] = ()
    files: tuple[Used, ...] = ()
    places: tuple[int, ...] = ()
    """The words that name a folder to work in or to put files into."""


def beginnings(word: Word) -> list[str]:
    """How the words may begin that a word becomes: what is known from there on, `UNKNOWN` being what is not.

    What comes from the environment is left out; it is no choice of the command. A variable may be unset, though, and
    may fall apart, and then the word begins with what follows.
    """
    text = word.text
    if word.is_known:
        return [text]
    if word.free:
        return [UNKNOWN] if word.breaks else [] if word.firm else [text]
    found: list[str] = []
    is_open, at = True, 0
    for i, piece in enumerate(text.split(UNKNOWN)):
        if piece and is_open:
            found.append(text[at:])
            is_open = False
        at += len(piece)
        if at >= len(text):
            break
        if word.variables[i]:
            is_open |= word.breaks
        elif is_open and not (at == 0 and word.firm):
            # Files may have any name.
            found.append(text[at:])
            is_open = False
        else:
            is_open = False
        at += 1
    return found


def may_be(word: Word, texts: Iterable[str]) -> bool:
    """Whether a word, or one that it becomes, can be one of these."""
    for beginning in beginnings(word):
        known, unknown, _ = beginning.partition(UNKNOWN)
        for text in texts:
            if word.breaks and unknown:
                if text.startswith(known):
                    return True
            elif glob_matches(beginning.replace(UNKNOWN, "*"), text) if unknown else text == known:
                return True
    return False


def is_unsure(beginning: str, word: Word) -> bool:
    """Whether what begins so is an option of which not even the name is known, or only a part of a word."""
    return beginning != word.text or UNKNOWN in beginning.partition("=")[0]


def is_option(beginning: str, word: Word, letters: str, options: Iterable[str]) -> bool:
    """Whether a word that begins so may be one of these options, by a letter in a cluster or by a shortened name."""
    # Variables may be unset, and then what follows the hyphen can be another.
    if beginning.startswith((UNKNOWN, f"-{UNKNOWN}")):
        return True
    if beginning.startswith("--"):
        name, unknown, _ = beginning.partition("=")[0].partition(UNKNOWN)
        return (len(name) > 2 or bool(unknown)) and any(option.startswith(name) for option in options)
    if not beginning.startswith("-"):
        return False
    return any(letter in beginning for letter in letters) or bool(letters and is_chosen(word) and UNKNOWN in beginning)


def is_chosen(word: Word) -> bool:
    """Whether the command or the names of files choose an unknown part of a word."""
    return word.free or "" in word.variables
