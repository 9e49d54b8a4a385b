"""Options of programs: tables of them, and the options that a partly unknown word can become when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.shell.lexer import UNKNOWN
from metier.skill.names import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from metier.guard.shell.lexer import ShellWord


def read_table(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The rows of a table: names before a colon, tokens behind it; an indented line goes on with the row before.

    >>> list(read_table("apt apt-get: -c"))
    [(['apt', 'apt-get'], ['-c'])]
    """
    for line in text.replace("\n   ", "").strip().splitlines():
        names, _, tokens = line.partition(":")
        yield names.split(), tokens.split()


def read_options(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The options in a table by name: letters of short options, and long options.

    >>> read_options("apt apt-get: -co --option")
    {'apt': ('co', ('--option',)), 'apt-get': ('co', ('--option',))}
    """
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for names, tokens in read_table(text):
        options = tuple(token for token in tokens if token.startswith("--"))
        found |= dict.fromkeys(names, ("".join(token[1:] for token in tokens if token not in options), options))
    return found


def beginnings(word: ShellWord) -> list[str]:
    """The beginnings of the words that a word may become, with `UNKNOWN` for each part that is not known.

    Values from the environment are left out, as the command does not choose them. A variable may be unset, though, and
    may fall apart, and then the word begins with the text behind it.
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


def may_be(word: ShellWord, texts: Iterable[str]) -> bool:
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


def is_unsure(beginning: str, word: ShellWord) -> bool:
    """Whether a beginning is an option of which not even the name is known, or only a part of a word."""
    return beginning != word.text or UNKNOWN in beginning.partition("=")[0]


def is_option(beginning: str, word: ShellWord, letters: str, options: Iterable[str]) -> bool:
    """Whether a word that begins so may be one of these options, by a letter in a cluster or by a shortened name."""
    # Variables may be unset, and then another hyphen can follow the first.
    if beginning.startswith((UNKNOWN, f"-{UNKNOWN}")):
        return True
    if beginning.startswith("--"):
        name, unknown, _ = beginning.partition("=")[0].partition(UNKNOWN)
        return (len(name) > 2 or bool(unknown)) and any(option.startswith(name) for option in options)
    if not beginning.startswith("-"):
        return False
    return any(letter in beginning for letter in letters) or bool(letters and is_chosen(word) and UNKNOWN in beginning)


def is_chosen(word: ShellWord) -> bool:
    """Whether the command or the names of files choose an unknown part of a word."""
    return word.free or "" in word.variables
