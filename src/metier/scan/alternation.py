"""Alternations as `re` searches them fast: each alternative begins with a letter, and those with the same are together.

`re` tries every alternative at every place of a text. One that begins with a letter is passed over at once where that
is another, and where all do, places are found by their letters. What is found stays the same, and in which order.
"""

from __future__ import annotations

import re

_GROUPS = re.compile(r"(?<!\\)\((?!\?[:=!<])")
"""A group that captures, whose number must not change, or that has flags."""
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)
_CLASS = re.compile(r"\[([^\\\]^-]{1,12})\](?![?*+{])")
_HEAD = re.compile(r"(\\b)?(\\[^\w\s]|[^\\.^$*+?{}\[\]|()])(?![?*+{])")
_MOST = 400


def factored(regex: str) -> str:
    """An expression that finds the same.

    >>> factored(r"attack|\\bapt\\b|bait"), factored("(a)|b")
    ('a(?:ttack|(?<=\\\\ba)pt\\\\b)|bait', '(a)|b')
    """
    if _GROUPS.search(regex) is not None:
        return regex
    alternatives = _opened(regex)
    if len(alternatives) > _MOST:
        return regex
    found: list[str] = []
    run: dict[str, list[str]] = {}
    for one in (*alternatives, None):
        head = _HEAD.match(one) if one is not None else None
        if one is not None and head is not None:
            run.setdefault(head[2], []).append((rf"(?<=\b{head[2]})" if head[1] else "") + one[head.end() :])
        else:
            # What begins otherwise may be found where these are, so that its place among them counts.
            found += [letter + (rest[0] if len(rest) == 1 else f"(?:{'|'.join(rest)})") for letter, rest in run.items()]
            run = {}
            found += [one] if one is not None else []
    return "|".join(found)


def _opened(regex: str, before: str = "") -> list[str]:
    """The alternatives of an expression, with those of a group or a set of letters at the beginning as their own."""
    found: list[str] = []
    for one in _split(regex):
        prefix = before or (r"\b" if one.startswith(r"\b") else "")
        rest = one if before else one.removeprefix(r"\b")
        letters = _CLASS.match(rest)
        end = _end_of_group(rest) if rest.startswith("(?:") else 0
        if letters is not None:
            found += [prefix + re.escape(letter) + rest[letters.end() :] for letter in letters[1]]
        elif end and rest[end : end + 1] not in (*"?*+{",):
            found += _opened("|".join(inner + rest[end:] for inner in _split(rest[3 : end - 1])), prefix)
        else:
            found.append(prefix + rest)
    return found


def _split(regex: str) -> list[str]:
    """The alternatives of an expression."""
    bars, depth = [-1], 0
    for found in _TOKEN.finditer(regex):
        depth += (found[0] == "(") - (found[0] == ")")
        if found[0] == "|" and not depth:
            bars.append(found.start())
    return [regex[start + 1 : end] for start, end in zip(bars, (*bars[1:], len(regex)), strict=True)]


def _end_of_group(regex: str) -> int:
    """Where the group ends that an expression begins with."""
    depth = 0
    for found in _TOKEN.finditer(regex):
        depth += (found[0] == "(") - (found[0] == ")")
        if found[0] == ")" and not depth:
            return found.end()
    return 0
