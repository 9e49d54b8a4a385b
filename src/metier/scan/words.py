"""The words by which a text is known to be able to say something, looked up once for all phrases of all rules.

A phrase is tried only on a statement that has a word of each of its groups. What is looked for lies within a word of
the text, so each different word is looked into once, and a process remembers what it found in it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from metier._regex_cache import kept_regex
from metier.scan.masks import mask_of
from metier.scan.prefilter import BEGIN, END, WORD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.scan.term import Term

_WORD = kept_regex(WORD)
_MARKS = bytes(code for code in range(1, 128) if re.match(r"[^\w\s]", chr(code)))
_WITHOUT_MARKS = bytes.maketrans(_MARKS + b"\0", b" " * (len(_MARKS) + 1))
_OTHERS = bytes(code for code in range(256) if code not in _MARKS + b"\n")
_ONLY_MARKS = bytes.maketrans(_OTHERS, b" " * len(_OTHERS))
BETWEEN = "\0"
"""What stands between words and between phrases of a compiled pack, which are read much faster as one text."""
_MOST_KNOWN = 60_000
_LONGEST_KNOWN = 40
"""Words of texts that are remembered, and how long they may be."""
_MOST_LOOKED = 64


def words_of(low: str) -> list[str]:
    """The words of a text in lower case, and its runs of marks.

    >>> words_of("see https://a.b, now")
    ['see', 'https', 'a', 'b', 'now', '://']
    """
    if not low.isascii():
        return [word for words in words_of_lines(low.split("\n"), low) for word in words]
    # The same as the expression finds, in a tenth of its time.
    words, runs = _told_apart(low)
    return words.split() + [run for run in runs.split() if len(run) > 1]


def _told_apart(text: str) -> tuple[str, str]:
    """A text with blanks in place of its marks, and its marks with blanks in place of all else but line ends."""
    data = text.encode("ascii", "replace")
    return data.translate(_WITHOUT_MARKS).decode(), data.translate(_ONLY_MARKS).decode()


def words_of_lines(lines: Sequence[str], joined: str) -> list[list[str]]:
    """The words of lines of a text, which are `joined` by line ends."""
    plain, marks = (some.split("\n") for some in _told_apart(joined))
    if len(plain) != len(lines):
        return [_WORD.findall(line) for line in lines]
    return [
        words.split() + [run for run in runs.split() if len(run) > 1] if line.isascii() else _WORD.findall(line)
        for line, words, runs in zip(lines, plain, marks, strict=True)
    ]


class _Source(NamedTuple):
    """The words of one pack, whose ways and groups are read when they are first needed."""

    first_phrase: int
    first_group: int
    ways: Sequence[str]
    groups: Sequence[str]
    words: Sequence[int]
    """Its words by the numbers of the index."""
    places: Mapping[int, int]
    """And the other way round."""


class WordIndex:
    """The words of all phrases of some packs, and the phrases that each of them tells of.

    There may be several ways to say a phrase. Each needs a word of each of its groups, and is found by the words of the
    most telling one.
    """

    def __init__(self) -> None:
        self.phrases: list[str] = []
        """The expressions of the phrases."""
        self.cased: set[int] = set()
        """Phrases in which upper case counts."""
        self.without_words: set[int] = set()
        """Phrases that have no word to look for."""
        self._terms: list[Term | None] = []
        """Of each phrase the term, if a condition names it."""
        self._numbers: dict[str, int] = {}
        self._sources: list[_Source] = []
        self._groups: dict[int, Sequence[int]] = {}
        self._ways: dict[int, Sequence[_Way]] = {}
        self._known: dict[str, tuple[int, ...]] = {}
        self._looked: dict[str, PhrasesSaid] = {}

    def add_pack(self, pack: Mapping[str, Any]) -> int:
        """Add the phrases of a compiled pack; what is returned is added to their numbers."""
        first, numbers = len(self.phrases), self._numbers
        words = [numbers.setdefault(word, len(numbers)) for word in pack["words"].split(BETWEEN)]
        first_group = sum(len(source.groups) for source in self._sources)
        places = {word: place for place, word in enumerate(words)}
        self._sources.append(_Source(first, first_group, pack["ways"], pack["groups"], words, places))
        self.phrases += pack["phrases"].split(BETWEEN)
        self._terms += [None] * (len(self.phrases) - first)
        self.cased.update(first + phrase for phrase in pack["cased"])
        self.without_words.update(first + phrase for phrase in pack["without-words"])
        return first

    def claim(self, term: Term, numbers: range) -> None:
        """Look for some phrases, which are those of a term."""
        self._terms[numbers.start : numbers.stop] = [term] * len(numbers)
        self._ways.clear()
        self._looked.clear()

    def _ways_by(self, word: int) -> Sequence[_Way]:
        """The ways to say phrases that a word tells of."""
        ways = self._ways.get(word)
        if ways is None:
            ways = self._ways[word] = []
            for source in self._sources:
                for way in source.ways[source.places[word]].split() if word in source.places else ():
                    phrase, *groups = map(int, way.split(","))
                    if self._terms[source.first_phrase + phrase] is not None:
                        groups = [source.first_group + group for group in groups]
                        ways.append((source.first_phrase + phrase, groups))
        return ways

    def _lines_with(self, group: int, masks: Mapping[int, int]) -> int:
        """The lines that have a word of a group."""
        if group not in self._groups:
            source = next(one for one in reversed(self._sources) if one.first_group <= group)
            self._groups[group] = [source.words[int(one)] for one in source.groups[group - source.first_group].split()]
        mask = 0
        for word in self._groups[group]:
            if word in masks:
                mask |= masks[word]
        return mask

    @cached_property
    def _automaton(self) -> Any:
        import ahocorasick

        automaton = ahocorasick.Automaton()
        for word, number in self._numbers.items():
            automaton.add_word(word, number)
        automaton.make_automaton()
        return automaton

    def _inside(self, word: str) -> tuple[int, ...]:
        """The words that are looked for and lie within a word of a text."""
        found = self._known.get(word)
        if found is None:
            inside = self._automaton.iter(f"{BEGIN}{word}{END}") if self._numbers else ()
            found = tuple({number for _, number in inside})
            if len(word) <= _LONGEST_KNOWN and len(self._known) < _MOST_KNOWN:
                self._known[word] = found
        return found

    def look(self, text: str) -> PhrasesSaid:
        """What a text in lower case, read as one line, may say by its words; of the last few texts it is kept."""
        line = text.replace("\n", " ")
        found = self._looked.get(line)
        if found is None:
            if len(self._looked) >= _MOST_LOOKED:
                self._looked.clear()
            found = self._looked[line] = self.look_at([line], line)
        return found

    def look_at(self, lines: Sequence[str], joined: str) -> PhrasesSaid:
        """What lines of a text, which are `joined` by line ends, may say by their words."""
        masks = self._masks_of(lines, joined)
        groups: dict[int, int] = {}
        said = dict.fromkeys(self.without_words, (1 << len(lines)) - 1)
        known = self._ways
        for word, own in masks.items():
            for number, others in known[word] if word in known else self._ways_by(word):
                mask = own
                for group in others:
                    if group not in groups:
                        groups[group] = self._lines_with(group, masks)
                    mask &= groups[group]
                    if not mask:
                        break
                else:
                    said[number] = said[number] | mask if number in said else mask
        found: PhrasesSaid = {}
        for number, mask in said.items():
            if (term := self._terms[number]) is not None:
                if term in found:
                    found[term][number] = mask
                else:
                    found[term] = {number: mask}
        return found

    def _masks_of(self, lines: Sequence[str], joined: str) -> dict[int, int]:
        """Of each word that is looked for the lines that have it, as a mask."""
        words: dict[str, list[int]] = {}
        known = self._known
        for at, line in enumerate(words_of_lines(lines, joined)):
            for word in line:
                if word in words:
                    words[word].append(at)
                elif known.get(word, word):  # words that tell of nothing are many
                    words[word] = [at]
        found: dict[int, int] = {}
        for word, places in words.items():
            mask = mask_of(places, len(lines))
            for number in self._inside(word):
                found[number] = found[number] | mask if number in found else mask
        return found


_Way: TypeAlias = "tuple[int, Sequence[int]]"
"""A phrase, and the other groups that it needs."""
PhrasesSaid: TypeAlias = "dict[Term, dict[int, int]]"
"""Of each term that lines may say the phrases, by their numbers, each with the lines as a mask."""
