"""How long a regular expression may take: what can explode on a text that somebody chose is refused.

A backtracking search is slow where the same letters can be shared out between parts of an expression in many ways. So
nothing that repeats itself may be repeated, and the ways of all parts, multiplied, are limited.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The tree of an expression, as `re` compiles it.
sre: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")

MOST_WAYS = 300_000
"""Ways to share out letters, over all parts of an expression."""
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
    """In how many ways a text can be shared out between the items of an expression."""
    ways = 1
    for kind, value in items:
        if kind in _REPEATS:
            ways *= _repeat_ways(int(value[0]), int(value[1]), value[2], in_loop)
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
    return ways


def _repeat_ways(least: int, most: int, body: Any, in_loop: bool) -> int:
    if most > MOST_REPEATS:
        raise _Explodes(f"repeats without an end: write {{{least},200}} in place of `{'+' if least else '*'}`")
    if in_loop and most > least:
        raise _Explodes("repeats something that repeats itself, which may take for ever")
    if most > 1 and body.getwidth()[0] == 0:
        raise _Explodes("repeats something that may be empty")
    return (most - least + 1) * _ways(body, in_loop=in_loop or most > 1)
