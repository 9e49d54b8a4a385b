"""Which words a text must have for a pattern to match, derived from the pattern itself.

A match of a pattern contains at least one word of each group of one of the ways to match it. The words of a skill are
looked up once for all patterns, and a pattern is tried only where there is a word of each group.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

# The tree of an expression, as `re` compiles it.
sre: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")

Ways: TypeAlias = tuple[tuple[frozenset[str], ...], ...]
"""A match contains at least one word of each group of one way, with marks where a word begins and ends if known."""

WORD = r"[a-z0-9_]+|[^\W\da-z_]+|[^\w\s\0]{2,}|[^\x00-\x7f]"
"""A word of a text in lower case, or a run of marks: other letters are words of their own, as expressions end words
before them."""
MAX_GROUPS = 4
_MAX_WAYS = 64
_MAX_WORDS = 400
BEGIN, END = "\x02", "\x03"
"""Where a word begins and ends: without them it may be a part of another."""
_EDGE = "\0"
_WORD = re.compile(WORD)
_COMMON = """
the to and for or with in use is md if user not from bash when name this api on skill json of it :// https no all data
file run you references only description that agent are as scripts what by check code output your content create step
com type before get list test do id files key new py text be read specific skills add search one project an python
path context each first at default review ai example reference after any status can full patterns cli model error set
url must app format task config state claude workflow true using post source time via browser mode design see tool
version tools build per session generate import verify prompt docs page start analysis sh agents without always curl
phase const every into required report update github token write never rules then command fix query git response image
should changes work current mcp install how up input js need system plan ask examples tests action auto research local
return structure based results existing high request issues have pr pattern find re don log email server but target
node they include value auth setup available commands title summary security metadata message has show best these
documentation single open memory complete tasks my template service script where quality await python3 does access
result dev multiple markdown same quick change usage directory main them style common document string validation next
needed product users client custom repo environment level call body env section core line pass load issue optional
missing requires process feature export ui like across application multi vs other scope keep language date web needs
about more notes which so configuration video critical limit implementation integration function instead flow options
base apply why will through requirements real size commit platform self domain errors html etc details out skip
performance field note authorization extract their requests types package schema non number guide returns than follow
already uses root may running testing false audit steps evidence table typescript management execution event models
rate tokens color rule index order operations just support values match team echo validate templates yes branch clear
view generation http make src over directly fields category count workflows architecture most found stop visual top
features yaml end both delete production present dependencies avoid used exists save its identify verification null
edit questions messages images writing actions send resources component structured strategy trigger filter google
fetch ci decision handling analyze deploy events pdf
""".split()  # noqa: SIM905
"""Words that stand in many skills, the most frequent first."""


def ways_of(regex: str, *, is_cased: bool = False) -> Ways:
    """The ways to match a regular expression, each by its groups of words, the most telling first.

    In one in which upper case counts, `(?![a-z])` says nothing of where a word ends, as a capital may stand there.

    Where one of them has none, nothing is known of a match: then there is one way, without groups.

    >>> [[sorted(group) for group in way] for way in ways_of(r"(?:send|post)[a-z]{0,8} .{0,60}\\bserver\\b|mailto:")]
    [[['\\x02server\\x03'], ['post', 'send']], [['mailto\\x03']]]
    >>> ways_of("send|[0-9]{16}")
    ((),)
    """
    ways = []
    for items in _choices(list(_parser.parse(regex))):
        found = {group for group in _sequence(items, is_cased) if _is_telling(group)}
        ways.append(tuple(sorted(found, key=_frequency)[:MAX_GROUPS]))
    return tuple(dict.fromkeys(ways)) if all(ways) else ((),)


def common(ways: Ways) -> tuple[frozenset[str], ...]:
    """Groups of which a match has a word, whichever of some ways it is matched in; none if that may be any."""
    return ways[0] if len(ways) == 1 else (frozenset().union(*(way[0] for way in ways)),) if all(ways) else ()


def _choices(items: list[Any]) -> list[list[Any]]:
    """Items with each choice between more than words made, unless those are too many."""
    found: list[list[Any]] = [[]]
    for item in items:
        kind, value = item
        inner = list(value[-1]) if kind is sre.SUBPATTERN else [item]
        is_choice = kind is sre.BRANCH or (kind is sre.SUBPATTERN and any(one[0] is sre.BRANCH for one in inner))
        branches = [inner]
        if is_choice and _plain(inner, False) is None:
            branches = [
                one for branch in (value[1] if kind is sre.BRANCH else [inner]) for one in _choices(list(branch))
            ]
        if len(found) * len(branches) > _MAX_WAYS and kind is sre.BRANCH:
            branches = [list(branch) for branch in value[1]]
        if len(found) * len(branches) > _MAX_WAYS:
            branches = [[item]]
        found = [[*before, *branch] for before in found for branch in branches]
    return found


def _is_telling(group: frozenset[str]) -> bool:
    return len(group) <= _MAX_WORDS and all(len(word) >= (2 if word.isascii() else 1) for word in group)


def _frequency(group: frozenset[str]) -> tuple[float, int, str]:
    """How often a text has a word of a group, as a guess: the more telling a group is, the less."""
    return sum(map(_frequency_of, group)), len(group), min(group)


@cache
def _frequency_of(word: str) -> float:
    # The hundredth word of a list by frequency is about a hundred times as rare as the first.
    common = sum(1_000 / rank for rank, one in enumerate(_COMMON, 1) if word in f"{BEGIN}{one}{END}")
    return common + (400 / 4 ** len(word) if word.isascii() else 0.01)


def _word_of(run: str) -> str:
    """The most telling word in a run of characters, with where it begins and ends; none where it has none."""
    words = []
    for found in _WORD.finditer(run):
        start, end = found.span()
        # Where no Latin letter stands, marks may still stand beside marks, and other letters beside each other.
        is_run = not found[0].isascii() or not _is_letter(found[0][0])
        begins = start and not (is_run and run[start - 1] == _EDGE)
        ends = end < len(run) and not (is_run and run[end] == _EDGE)
        words.append((BEGIN if begins else "") + found[0] + (END if ends else ""))
    # One letter tells something where it stands alone: the options of commands do.
    telling = [word for word in words if len(word.strip(BEGIN + END)) >= 2 or len(word) == 3 or not word.isascii()]
    return min(telling, key=_frequency_of, default="")


def _with_edge(runs: set[str], kind: Any, value: Any, is_cased: bool) -> set[str]:
    """Runs after something that takes no letters; it may say that a word begins or ends there."""
    if kind is sre.AT:
        return {run + _EDGE for run in runs} if value is sre.AT_BOUNDARY else runs
    if not is_cased and kind is sre.ASSERT_NOT and value[1] and _has_letters(value[1][0]):
        if len(value[1]) == 1:
            return {run + _EDGE for run in runs}
        # What must not stand before a letter is asked behind it, as a letter is found faster.
        is_behind = value[0] < 0 and len(value[1]) == 2 and value[1][1][0] is sre.LITERAL
        letter = chr(value[1][1][1]) if is_behind else ""
        if letter and all(run.endswith(letter) for run in runs):
            return {f"{run[:-1]}{_EDGE}{letter}" for run in runs}
    return runs


_LETTERS = tuple(_parser.parse("[a-z0-9_]")[0][1])
_ANY_LETTER = sre.CATEGORY, sre.CATEGORY_WORD


def _has_letters(item: Any) -> bool:
    """Whether an item of an expression is a choice of characters with all that words consist of."""
    if item[0] is not sre.IN or item[1][0][0] is sre.NEGATE:
        return False
    return bool(_ANY_LETTER in item[1] or all(some in item[1] for some in _LETTERS))


def _is_between_words(item: Any) -> bool:
    """Whether an item of an expression is characters of which none can be a part of a word."""
    kind, value = item
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return value[0] >= 1 and len(value[2]) == 1 and _is_between_words(value[2][0])
    if kind is not sre.IN:
        return False
    plain = (what is sre.LITERAL and not _is_letter(chr(some)) for what, some in value if what is not sre.CATEGORY)
    return all(plain) and all(some is sre.CATEGORY_SPACE for what, some in value if what is sre.CATEGORY)


def _is_letter(character: str) -> bool:
    return character == "_" or character.isalnum()


def _sequence(items: list[Any], is_cased: bool) -> list[frozenset[str]]:
    """The groups of items that follow each other: runs of letters are words, what may be missing breaks them."""
    groups: list[frozenset[str]] = []
    runs = {""}

    def end_run() -> None:
        nonlocal runs
        if "" not in runs:
            groups.append(frozenset(map(_word_of, runs)))
        runs = {""}

    for kind, value in items:
        if kind is sre.LITERAL:
            runs = {run + chr(value).lower() for run in runs}
        elif kind is sre.SUBPATTERN and (inner := _plain(list(value[-1]), is_cased)) is not None:
            runs = {run + more for run in runs for more in inner}
        elif kind is sre.SUBPATTERN:
            end_run()
            groups += _sequence(list(value[-1]), is_cased)
        elif kind is sre.BRANCH:
            choices = [_plain(list(branch), is_cased) for branch in value[1]]
            whole = [word for choice in choices if choice is not None for word in choice]
            if None not in choices and len(runs) * len(whole) <= _MAX_WORDS:
                runs = {run + word for run in runs for word in whole}
                continue
            end_run()
            groups += _branch([list(branch) for branch in value[1]], is_cased)
        elif _is_between_words((kind, value)):
            runs = {run + _EDGE for run in runs}
            end_run()
            runs = {_EDGE}
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            end_run()
            if value[0] >= 1:
                groups += _sequence(list(value[2]), is_cased)
        elif kind is sre.ATOMIC_GROUP:
            end_run()
            groups += _sequence(list(value), is_cased)
        elif kind in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            runs = _with_edge(runs, kind, value, is_cased)
        else:
            end_run()
    end_run()
    return groups


def _plain(items: list[Any], is_cased: bool) -> set[str] | None:
    """The words that items stand for, if they are letters and few choices of letters."""
    words = {""}
    for kind, value in items:
        if kind is sre.LITERAL:
            more = {chr(value).lower()}
        elif kind is sre.SUBPATTERN and (inner := _plain(list(value[-1]), is_cased)) is not None:
            more = inner
        elif kind is sre.BRANCH:
            choices = [_plain(list(branch), is_cased) for branch in value[1]]
            if None in choices:
                return None
            more = {word for choice in choices if choice is not None for word in choice}
        elif kind in (sre.AT, sre.ASSERT_NOT):
            words = _with_edge(words, kind, value, is_cased)
            continue
        else:
            return None
        words = {word + letter for word in words for letter in more}
        if len(words) > _MAX_WORDS:
            return None
    return words


def _branch(branches: list[list[Any]], is_cased: bool) -> list[frozenset[str]]:
    """One group for all branches: the most telling of each. None if a branch has none."""
    together: set[str] = set()
    for branch in branches:
        telling = [group for group in _sequence(branch, is_cased) if _is_telling(group)]
        if not telling:
            return []
        best: frozenset[str] = min(telling, key=_frequency)
        together |= best
    return [frozenset(together)]
