"""Words that come with the core pack: names of hosts, packages and files, and what senses are told by."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from metier._regex_cache import compiled
from metier.scan.alternation import factored
from metier.scan.pack_store import core_pack, core_signs
from metier.scan.words import WordIndex

if TYPE_CHECKING:
    import re


@cache
def names(name: str) -> frozenset[str]:
    """The names of a list of the core pack.

    >>> "pastebin.com" in names("paste-hosts")
    True
    """
    return frozenset(core_signs()["lists"][name].split())


@cache
def core_words() -> WordIndex:
    """The words of all expressions of the core pack."""
    index = WordIndex()
    index.add_pack(core_pack())
    return index


@cache
def entries(name: str) -> tuple[tuple[str, ...], ...]:
    """The lines of a list of the core pack, each with what stands between its commas.

    >>> entries("signs-of-attacks")[1]
    ('rm -rf',)
    """
    return tuple(tuple(line.split(", ")) for line in core_signs()["lists"][name].splitlines())


@cache
def sense(name: str) -> re.Pattern[str]:
    """All terms of a lexicon of the core pack as one expression, for text in lower case.

    >>> bool(sense("words-of-attacks").search("flag any of these"))
    True
    """
    if name in core_signs()["senses"]:
        phrases = [regex for regex, *_ in core_signs()["senses"][name]]
    else:
        phrases = core_words().phrases[slice(*core_pack()["senses"][name])]
    regex = "|".join(phrases)
    return compiled(regex, rewrite=factored if regex.count("|") >= _MANY else None)


_MANY = 8
"""Alternatives from which on it pays to look for all of them by their first letters."""
