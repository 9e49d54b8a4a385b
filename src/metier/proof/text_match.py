"""Conditions on a text that somebody else chose: compared in bounded time, with a reason that a person understands."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from metier._json_object import is_deep
from metier._lazy import pattern
from metier._suggest import suggestion
from metier.proof.linear_regex import regex_found, regex_problem
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.proof.suite import TextMatch

MAX_TEXT = 1_000_000
"""Characters of a text; a longer one meets no condition."""
MAX_WORK = 20_000_000
"""Steps of a search: the size of an expression, with all its repetitions, times the characters of the text."""
_MAX_LINES, _MAX_LINE = 200, 100
_TOKEN = pattern(r"\\.|\[(?:\\.|[^\]\\])*\]|\{(\d+),?(\d*)\}|.", re.DOTALL)


def mismatch(match: TextMatch | None, text: str) -> str:
    """Return the first condition that a text does not meet, in words; empty where it meets all.

    >>> from metier.proof.suite import TextMatch
    >>> mismatch(TextMatch(contains=("12 rows",)), "Read 11 rows.")
    "It does not contain '12 rows'; the nearest line is 'Read 11 rows.'."
    >>> mismatch(TextMatch(json={"rows.0.total": 12}), '{"rows": [{"total": 12}]}')
    ''
    """
    if match is None:
        return ""
    if len(text) > MAX_TEXT:
        return f"It has {len(text):,} characters, and at most {MAX_TEXT:,} are looked at."
    return next(_mismatches(match, text), "")


def _mismatches(match: TextMatch, text: str) -> Iterator[str]:
    if match.equals is not None and text.strip() != match.equals.strip():
        yield f"It is not {quoted(match.equals.strip())}; {_nearest(match.equals, text)}."
    for part in match.contains:
        if part not in text:
            yield f"It does not contain {quoted(part)}; {_nearest(part, text)}."
    plain = _as_read(text) if match.excludes and not text.isascii() else text
    for part in match.excludes:
        if part in text or part in plain:
            yield f"It contains {quoted(part)}."
    for regex in match.regex:
        if problem := regex_problem(regex) or _work_problem(regex, text):
            yield f"{quoted(regex)} {problem}."
        elif not regex_found(regex, text):
            yield f"Nothing in it is like {quoted(regex)}; {_nearest(regex, text)}."
    if match.json is not None:
        yield from _json_mismatches(match.json, text)


def quoted(text: str, limit: int = 120) -> str:
    """A text in quotes, safe to print."""
    return f"'{shown(text, limit)}'"


def _as_read(text: str) -> str:
    """The text as a person reads it: without hidden characters, in the plain forms of its letters."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")


def _nearest(part: str, text: str) -> str:
    """The line of a text that most resembles what was looked for."""
    lines = [line.strip()[:_MAX_LINE] for line in text[: _MAX_LINES * _MAX_LINE].split("\n")[:_MAX_LINES]]
    lines = [line for line in lines if line]
    if not lines:
        return "it is empty"
    close = suggestion(part, lines, cutoff=0.3)
    return f"the nearest line is {quoted(close)}" if close else f"it begins with {quoted(lines[0])}"


def _work_problem(regex: str, text: str) -> str:
    if regex_size(regex) * len(text) <= MAX_WORK:
        return ""
    return f"would take too long to look for in {len(text):,} characters: repeat less in it"


def regex_size(regex: str) -> int:
    """The number of letters of an expression, each as often as it is repeated.

    >>> regex_size("a{3}b"), regex_size("(a{3}b){10}c")
    (4, 41)
    """
    sizes, last = [0], 0
    for token in _TOKEN.finditer(regex):
        if token[1] is not None:
            times = max(1, int(token[2] or token[1]))
            sizes[-1] += last * (times - 1)
            last *= times
        elif token[0] == "(":
            sizes.append(0)
        else:
            last = sizes.pop() if token[0] == ")" and len(sizes) > 1 else 1
            sizes[-1] += last
    return sum(sizes)


def strict_json(text: str) -> Any:
    """The value of a JSON text, which has one reading only; raises `ValueError` for any other.

    >>> strict_json('{"ok": true, "ok": false}')
    Traceback (most recent call last):
    ValueError: it has the key 'ok' twice
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except RecursionError:
        raise ValueError("it has too many levels") from None
    if is_deep({"": value}):
        raise ValueError("it has too many levels")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"it has the key {quoted(twice)} twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("it has a number that is too large")
    return value


def _json_mismatches(wanted: Any, text: str) -> Iterator[str]:
    try:
        value = strict_json(text)
    except ValueError as error:
        yield f"It is no JSON that can be compared: {shown(str(error), 200)}."
        return
    for path, expected in wanted.items():
        try:
            found = _value_at(value, path)
        except LookupError:
            yield f"There is nothing at {quoted(path)}."
            continue
        if not _is_same(expected, found):
            yield f"At {quoted(path)} is {_as_json(found)} and not {_as_json(expected)}."


def _value_at(value: Any, path: str) -> Any:
    """The value at `rows.0.total`; an empty path is the whole."""
    for key in path.split(".") if path else ():
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and len(key) < 10:
            value = value[int(key)]
        else:
            raise LookupError(key)
    return value


def _is_same(expected: Any, found: Any) -> bool:
    """Whether two JSON values are equal: true is not 1, and 1 is 1.0."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_is_same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    return bool(expected == found)


def _as_json(value: Any) -> str:
    return shown(json.dumps(value, ensure_ascii=False, default=str), 120)
