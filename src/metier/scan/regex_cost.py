"""How long a regular expression may take: what can explode on a text that somebody chose is refused.

A backtracking search is slow where the same letters can be shared out between parts of an expression in many ways. So
nothing that repeats itself may be repeated, and the ways of all parts, multiplied, are limited. A gap before a word
counts for less, as a word of five letters begins at every fifth place at most.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The tree of an expression, as `re` compiles it.
sre: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")

MOST_WAYS = 30_000
"""Ways to share out letters from one place of a text, over all parts of an expression."""
MOST_REPEATS = 1_000
"""How often something may be repeated: without an end, each place of a long text would be looked at from each other."""
LEXICON = "\ue000"
"""Stands before a lexicon in an outline, which leaves out in how many ways its words may end."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def problem_of(regex: str) -> str:
    """Why an expression may take too long; empty if it may not.

    >>> problem_of("[a-z]{1,9} https?://"), problem_of("(a{1,9}){1,9}b")
    ('', 'repeats something that repeats itself, which may take for ever')
    """
    try:
        ways = _ways(_parser.parse(regex), in_loop=False)
    except _Explodes as error:
        return str(error)
    except RecursionError:
        return "has too many brackets inside brackets"
    return f"can match a text in {ways:,} ways: use fewer gaps, or shorter ones" if ways > MOST_WAYS else ""


class _Explodes(Exception):
    """What makes an expression slow; the message says what."""


def _ways(items: Any, *, in_loop: bool) -> int:
    """In how many ways a text can be shared out between the items of an expression, wherever that is the most."""
    ways = most = 1
    for at, (kind, value) in enumerate(items):
        if kind in _REPEATS:
            ways *= _repeat_ways(int(value[0]), int(value[1]), value[2], in_loop)
            most = max(most, ways)
            ways = -(-ways // min(_spacing(items[at + 1 :])[0], int(value[1]) - int(value[0]) + 1))
        elif kind is sre.LITERAL and in_loop and chr(value) == LEXICON:
            raise _Explodes("repeats a lexicon, which may take for ever")
        elif kind is sre.BRANCH:
            if in_loop:
                raise _Explodes("repeats a choice of things, which may take for ever")
            ways *= max(_ways(branch, in_loop=False) for branch in value[1])
        elif kind in (sre.SUBPATTERN, sre.ATOMIC_GROUP, sre.ASSERT, sre.ASSERT_NOT):
            ways *= _ways(value if kind is sre.ATOMIC_GROUP else value[-1], in_loop=in_loop)
        elif kind in (sre.GROUPREF, sre.GROUPREF_EXISTS, sre.GROUPREF_IGNORE):
            raise _Explodes("refers back to a group, which no rule needs")
    return max(most, ways)


def _spacing(items: Any) -> tuple[int, bool]:
    """How many letters apart, at least, items can begin in a text, and whether only where a word begins."""
    letters: list[int] = []
    is_word = False
    for kind, value in items:
        if kind is sre.LITERAL and (is_word or value not in letters[:1]):
            letters.append(value)
        elif kind in (sre.SUBPATTERN, sre.BRANCH) and not (is_word and letters):
            branches = value[1] if kind is sre.BRANCH else [value[-1]]
            found = [_spacing(branch) for branch in branches]
            apart = min(one for one, _ in found)
            if all(word for _, word in found):
                return max(apart, len(letters)), True
            return max(1, len(letters), apart // len(branches)), False
        elif kind in (sre.ASSERT_NOT, sre.AT):
            is_word = is_word or (kind is sre.ASSERT_NOT and value[0] < 0 and len(letters) == 1)
        else:
            break
    return max(1, len(letters)), is_word


def _repeat_ways(least: int, most: int, body: Any, in_loop: bool) -> int:
    if most > MOST_REPEATS:
        raise _Explodes(f"repeats without an end: write {{{least},200}} in place of `{'+' if least else '*'}`")
    if in_loop and most > least:
        raise _Explodes("repeats something that repeats itself, which may take for ever")
    if most > 1 and body.getwidth()[0] == 0:
        raise _Explodes("repeats something that may be empty")
    return (most - least + 1) * _ways(body, in_loop=in_loop or most > 1)
