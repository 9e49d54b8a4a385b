"""Patterns over the words of a command, in which `*` stands for anything, and the result of matching rules.

Words are compared after their quotes are gone, joined by a character that no command may contain, so that no quoting
can fake the end of a word. All comparing takes time in proportion to the text.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import dataclass
from metier.guard.shell.lexer import UNKNOWN
from metier.skill import shown
from metier.skill.names import glob_matches, has_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.shell.lexer import ShellWord
    from metier.skill.tool_rules import ToolRule

_BETWEEN = "\0"
_SCRIPTS = frozenset({"bun", "npm", "pnpm", "yarn"})
"""Programs for which `test:unit` is a part of `test`; for others it is another task."""
_UP = re.compile(rf"\.[.{UNKNOWN}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The result of matching rules against a call."""

    allowed: bool
    reason: str
    """One sentence, for a model to read: which part of the call is the problem."""
    rule: ToolRule | None = None
    """The rule that decided, if one did."""


def list_rules(rules: Sequence[ToolRule]) -> str:
    """The rules as a list in a sentence."""
    texts = [shown(rule.text) for rule in rules if not rule.is_malformed]
    more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
    return ", ".join(texts[:10]) + more if texts else "nothing"


class WordPattern(NamedTuple):
    """A pattern for one simple command."""

    literal: tuple[str, ...]
    """The words before the first `*`."""
    forms: tuple[tuple[str, ...], ...]
    """Each the pieces between the stars of one way to be like it."""
    wild: tuple[tuple[int, int], ...] = ()
    """The indexes of the words with a `*` beside other characters (`scripts/*`), and the folders that each goes up."""
    words: tuple[str, ...] = ()
    """All its words, with those that have a `*`; what stands for more of them at the end is not among them."""
    is_open: bool = False
    """Whether more words may follow its own."""

    @property
    def is_whole_program(self) -> bool:
        """Whether it names a program and nothing that the program is to do."""
        return len(self.words) == 1

    def named(self, words: Sequence[ShellWord]) -> int:
        """The number of words, from the first on, that the pattern names one by one."""
        count = 0
        are_scripts = any(own.rpartition("/")[2] in _SCRIPTS for own in self.words[:-1])
        for own, word in zip(self.words, words, strict=False):
            is_last = are_scripts and count == len(self.words) - 1
            if own == "*" or not (glob_matches(own, word.text) or (is_last and word.text.startswith(f"{own}:"))):
                break
            count += 1
        return count

    def closing(self, words: Sequence[ShellWord]) -> int:
        """The position of the words that the pattern spells out behind its last `*`."""
        if self.is_open or len(self.literal) == len(self.words):
            return len(words)
        plain = next(i for i, own in enumerate(reversed(self.words)) if "*" in own)
        return len(words) - plain

    def matches(self, words: Sequence[ShellWord]) -> bool:
        """Whether the words are certainly like it."""
        return self._fits(words) and not self.climbs(words)

    def _fits(self, words: Sequence[ShellWord]) -> bool:
        text = _BETWEEN.join(word.text for word in words)
        return any(has_pieces(pieces, text) for pieces in self.forms)

    def climbs(self, words: Sequence[ShellWord]) -> bool:
        """Whether a word leaves the folder that the pattern says it is in, or may leave it."""
        if not self.wild:
            return False
        first, most = self.wild[0][0], max(steps for _, steps in self.wild)
        # Behind a second star nobody knows which word stands for which.
        after = words[first : first + 1] if len(self.wild) == 1 else words[first:]
        return any(word.free or word.braces or steps_up(word.text) > most for word in after)

    def may_match(self, words: Sequence[ShellWord]) -> bool:
        """Whether the words can be like it, whatever their unknown parts turn out to be."""
        if all(word.is_known for word in words):
            return self._fits(words)
        text = words[0].text
        for word in words[1:]:
            text += word.text if word.splits and word.text.startswith(UNKNOWN) else _BETWEEN + word.text
        return any(_may_have_pieces(pieces, text) for pieces in self.forms)

    def spells_out(self, words: Sequence[ShellWord], index: int) -> bool:
        """Whether it says literally what the words are, up to and with the one at an index."""
        own = self.literal
        return index < len(own) and all(
            i < len(own) and own[i] == word.text and word.is_known for i, word in enumerate(words[: index + 1])
        )

    def after(self, index: int) -> WordPattern:
        """The pattern for the words from an index on, as far as it spells them out."""
        return self._replace(literal=self.literal[index:], forms=(), wild=(), words=self.words[index:])


@lru_cache(maxsize=1024)
def word_patterns(pattern: str) -> tuple[WordPattern, ...]:
    """The patterns for the commands of a pipeline; for most there is one.

    >>> [part.literal for part in word_patterns("git log:*")], [part.literal for part in word_patterns("* | sh")]
    ([('git', 'log')], [(), ('sh',)])
    """
    return tuple(_word_pattern(part.strip()) for part in pattern.split(" | "))


def _word_pattern(pattern: str) -> WordPattern:
    base, tails = pattern, ""
    if pattern.endswith(":*"):
        base, tails = pattern[:-2], f"{_BETWEEN}:"
    elif pattern.endswith(" *"):
        base, tails = pattern[:-2], _BETWEEN
    words = _split_words(base)
    if not words:
        return WordPattern((), ())
    # `npm run test:*` is meant for `npm run test:unit` too; one word alone names a program, which ends where it ends.
    tails = tails if len(words) > 1 else tails[:1]
    joined = _BETWEEN.join(words)
    wild = next((i for i, word in enumerate(words) if "*" in word), len(words))
    forms = [joined, *(f"{joined}{tail}*" for tail in tails)]
    pieces = tuple(tuple(form.split("*")) for form in forms)
    starred = tuple((i, steps_up(word)) for i, word in enumerate(words) if "*" in word and word != "*")
    return WordPattern(tuple(words[:wild]), pieces, starred, tuple(words), bool(tails))


def steps_up(word: str) -> int:
    """The number of steps up in a path; a pattern that begins with a point may be one too."""
    return sum(_UP.fullmatch(part) is not None for part in re.split("[/=]", word))


def _split_words(text: str) -> list[str]:
    if any(character in text for character in "\"'\\"):
        try:
            return shlex.split(text)
        except ValueError:
            pass
    return text.split()


def _may_have_pieces(pieces: tuple[str, ...], text: str) -> bool:
    """Whether some text fits both the pieces and a text in which `UNKNOWN` stands for anything.

    The places in the pattern that can be reached are the bits of a number, and each character moves all at once.
    """
    middle = [piece for piece in pieces[1:-1] if piece]
    pattern = UNKNOWN.join([pieces[0], *middle, pieces[-1]]) if len(pieces) > 1 else pieces[0]
    masks: dict[str, int] = {}
    for at, character in enumerate(pattern):
        masks[character] = masks.get(character, 0) | 1 << at
    stars, everywhere = masks.get(UNKNOWN, 0), (1 << len(pattern) + 1) - 1
    reached = 1 | (1 & stars) << 1
    for character in text:
        if character == UNKNOWN:
            reached = everywhere & -(reached & -reached)
        else:
            reached = (reached & masks.get(character, 0)) << 1 | reached & stars
            reached |= (reached & stars) << 1
        if not reached:
            return False
    return bool(reached >> len(pattern))
