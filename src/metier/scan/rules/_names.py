"""Names in a line of code: which it uses, and which it gives something."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.rules._statements import Statement

MAX_SPAN = 14
"""Lines that a call may go on for."""
NAMED = re.compile(
    r"^[\s{(]*(?:export\s+|local\s+|const\s+|let\s+|var\s+|set\s+|readonly\s+|my\s+)?"
    r"\$?(?P<names>(?:(?:self|this)\.)?[A-Za-z_]\w{0,60}|[\[{(][\w\s,:]{1,120}[\])}]|\w{1,60}(?:\s*,\s*\w{1,60}){1,6})"
    r"(?:\s*:\s*[\w.\[\], |]{1,40})?"
    r"(?:\[[^\]\n]{1,60}\])?\s*(?:[+|]|\?\?)?=(?!=|>)\s*(?P<value>.*)$",
    re.DOTALL,
)
"""A line that gives a name something."""
_KEPT = re.compile(
    r"\bfor\s*\(?\s*(?:const\s+|let\s+|var\s+)?[\[(]?(?P<each>\w{1,60})(?:\s*,\s*(?P<other>\w{1,60}))?"
    r"(?:\s*,\s*(?P<third>\w{1,60}))?[\])]?\s+(?:in"
    r"|of)\b"
    r"|\bwith\b[^\n]{0,200}\bas\s+(?P<opened>\w{1,60})"
    r"|\b(?P<list>\w{1,60})(?:\[[^\]\n]{1,60}\])?\.(?:append|extend|push|update|add|write|writestr|unshift|concat"
    r"|set)\("
    r"|\b(?P<slot>\w{1,60})\[[^\]\n]{1,60}\]\s*=(?![=>])"
    r"|urlretrieve\([^\n]{1,200},\s*(?P<saved>\w{1,60})\s*\)"
    r"|(?P<back>\b\w{1,60})\)?\s*=>"
    r"|\bread\s+(?:-\w+\s+(?:[\"'][^\"'\n]{0,100}[\"']\s+)?){0,4}(?P<var>\w{1,60})"
)
"""What else a line puts a value into."""
_WORD = re.compile(r"[A-Za-z_]\w{0,60}")
_OWN = re.compile(r"\b(?:self|this)\.(\w{1,60})")
_STRING = re.compile(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'")
_IN_STRING = re.compile(r"\$\{?\s*([A-Za-z_]\w{0,60})|\{\s*([A-Za-z_]\w{0,60})")
_OPENS = re.compile(r"[(\[{]")
_CLOSES = re.compile(r"[)\]}]")


@lru_cache(maxsize=8_192)
def names_in(text: str) -> frozenset[str]:
    """The names that code uses, also those that are put into its texts; not the words of the texts.

    >>> sorted(names_in('post(url, f"k={key} text", self.seed)'))
    ['.seed', 'f', 'key', 'post', 'seed', 'self', 'url']
    """
    inside: list[str] = []
    if "{" in text or "$" in text:
        inside = [one for found in _IN_STRING.finditer(text) for one in found.groups() if one]
    own = [f".{name}" for name in _OWN.findall(text)] if "self." in text or "this." in text else ()
    return frozenset((*_WORD.findall(_STRING.sub(" ", text)), *inside, *own))


@lru_cache(maxsize=8_192)
def named_in(text: str) -> re.Match[str] | None:
    """A line as one that gives a name something; lines are asked for again by each rule that follows values."""
    return NAMED.match(text)


def given_by(named: re.Match[str]) -> list[str]:
    """The names that a line gives something; of a field, with the dot before it."""
    own = _OWN.match(named["names"])
    return [f".{own[1]}"] if own is not None else _WORD.findall(named["names"])


def kept_in(text: str) -> Iterator[str]:
    """The names that carry what a line takes."""
    for part in text.split(";") if len(text) < 1_000 else ():
        if (named := NAMED.match(part)) is not None:
            yield from given_by(named)
    for found in _KEPT.finditer(text):
        yield from (name for name in found.groups() if name)


_SETTING = re.compile(
    r"(?:[/\"'(]\^?|\b[rb]?[\"']\^?\(?(?:export\s)?)(?P<key>[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,5})\\?s?\*?\s?=(?=[\"'/(\[\\.])"
)


def setting_in(text: str) -> str:
    """The name of the setting that a line looks for in a file of settings; empty without one.

    >>> setting_in("m = /^WEATHER_API_KEY=(.+)$/m.exec(text)"), setting_in("key = WEATHER_API_KEY")
    ('WEATHER_API_KEY', '')
    """
    found = _SETTING.search(text) if "=" in text and len(text) < 1_000 else None
    return found["key"] if found is not None else ""


def used_in(text: str) -> str:
    """What a line makes use of: not the name that it gives to what comes out."""
    named = named_in(text)
    return text if named is None or text[: named.start("value")].rstrip()[-2:-1] in "+|?" else named["value"]


def balance(text: str) -> int:
    """How many brackets a line leaves open."""
    return len(_OPENS.findall(text)) - len(_CLOSES.findall(text))


def span(code: Sequence[Statement], index: int) -> list[Statement]:
    """The lines of a call, until its brackets and quotes are closed."""
    lines: list[Statement] = []
    open_ = quotes = 0
    for one in code[index : index + MAX_SPAN]:
        lines.append(one)
        open_ += balance(one.text)
        quotes += one.text.count("'")
        if open_ <= 0 and quotes % 2 == 0:
            break
    return lines
