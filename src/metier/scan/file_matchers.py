"""Matchers about files: what they are, what they are called, which characters are in them, and what runs them."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.scan.lookalikes import others_in
from metier.scan.rule import Hit
from metier.scan.view import once_a_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText
    from metier.scan.view import SkillView, ViewFile


class _Fact(NamedTuple):
    """What is known of a file: its kind, a line, what it is or says there, and its text."""

    kind: str
    path: str
    line: int = 1
    why: str = ""
    text: str = ""


def match_files(text: SkillText, rule: Rule) -> Iterable[Hit]:
    """Files by what they are, what they are called, and what they say.

    `files` lists what to look for; of each file, the first that fits counts. `kinds` are kinds of files that cannot
    be read (`program`, `archive`, `encrypted`, `document`, `media`, `stowaway` ...), or `text`, `script`, `config`,
    `left-out`, `control-characters`, `second-instructions`. `names` is an expression for the path, `why` one for what
    the file is, `says` the terms that its text must have, all of them. `severity` and `message` are this one's own.
    """
    entries = rule.options["files"]
    wanted = {kind for entry in entries for kind in entry.get("kinds", ("any",))}
    for fact in _facts(text.read.view):
        if fact.kind in wanted:
            hits = (_file_hit(fact, entry, rule) for entry in entries if fact.kind in entry.get("kinds", ("any",)))
            yield from islice(filter(None, hits), 1)


def _file_hit(fact: _Fact, entry: Mapping[str, Any], rule: Rule) -> Hit | None:
    for key, said in (("names", fact.path), ("why", fact.why)):
        if key in entry and _expression(entry[key]).search(said) is None:
            return None
    line, why = fact.line, fact.why
    if "says" in entry:
        first, *others = (rule.terms[name].search(fact.text) for name in entry["says"])
        if first is None or None in others:
            return None
        start = fact.text.rfind("\n", 0, first.start()) + 1
        line, why = fact.text.count("\n", 0, start) + 1, fact.text[start:].partition("\n")[0][:400].strip()
    message = entry.get("message", "").format(why=why, name=fact.path.rpartition("/")[2])
    return Hit(fact.path, line, why or fact.path, message, entry.get("severity"))


@once_a_skill
def _facts(view: SkillView) -> tuple[_Fact, ...]:
    """The facts of the files of a skill, in an order of their kinds."""
    texts = {file.path: file.text for file in view.files}
    own = view.instructions.path if view.instructions is not None else ""
    others = [path for path in view.paths if path.lower() == "skill.md" and path != own]
    opaque = {file.path for file in view.opaque}
    readable = [file for file in view.files if file.path not in opaque and file.text.strip()]
    return (
        *(_Fact("any", path, 1, _first_line(texts.get(path, "")), texts.get(path, "")) for path in view.paths),
        *(_Fact("second-instructions", path) for path in others),
        *(_Fact(file.kind, file.path, 1, file.why) for file in view.opaque),
        *(_Fact("left-out", file.path, 1, file.why) for file in view.left_out),
        *(_Fact(_TEXTS.get(one.role, "text"), one.path, 1, _first_line(one.text), one.text) for one in readable),
        *(
            _Fact("control-characters", path, at, _line_at(texts.get(path, ""), at))
            for path, at in view.control.items()
        ),
    )


_TEXTS = {"script": "script", "config": "config"}


def _line_at(text: str, number: int) -> str:
    return next(iter(text.split("\n", number)[number - 1 : number]), "")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:400]


def match_characters(text: SkillText, rule: Rule) -> Iterable[Hit]:
    """Characters that are not seen, or that hide others, in the text as it lies in the file.

    `characters` lists what to look for; of each file, the first that is found counts. `pattern` is an expression;
    `times` how often it is found at least, `letters` how many characters of it there are. `beside` must be found, too.
    `blank-lines` stands for that many empty lines with text behind them. `kinds` are the roles of files. Only a file
    with one of the characters `of` the rule, and with what the expression `least` of an entry says, is looked at
    closely.
    """
    seldom = rule.options.get("of")
    for file in text.read.view.files:
        plain = file.text.isascii()
        if seldom is not None and (plain or _characters_of(seldom).search(_alphabet(file.text)) is None):
            continue
        entries = (entry for entry in rule.options["characters"] if not plain or entry.get("ascii", False))
        entries = (entry for entry in entries if file.role in entry.get("kinds", (file.role,)))
        hits = (_blank_lines(file, one) if "blank-lines" in one else _characters(file, one) for one in entries)
        yield from islice(filter(None, hits), 1)


def _characters(file: ViewFile, entry: Mapping[str, Any]) -> Hit | None:
    needed = (entry[key] for key in ("least", "pattern", "beside") if key in entry)
    if any(_characters_of(one).search(file.text) is None for one in needed):
        return None
    found = [*_characters_of(entry["pattern"]).finditer(file.text)]
    if len(found) < entry.get("times", 1) or sum(len(one[0]) for one in found) < entry.get("letters", 1):
        return None
    start, end = found[0].span()
    said = "".join(chr(ord(letter) - 0xE0000) for letter in found[0][0] if 0xE0020 <= ord(letter) < 0xE007F)
    behind = file.text[end : end + 200].partition("\n")[0]
    shown = said or (behind if entry.get("ascii") else file.text[max(0, start - 40) : end + 60])
    line = file.text.count("\n", 0, end) + 1
    return Hit(file.path, line, shown, entry.get("message", ""), entry.get("severity"))


def _blank_lines(file: ViewFile, entry: Mapping[str, Any]) -> Hit | None:
    if file.text.count("\n") < entry["blank-lines"]:
        return None
    text = "\n" + file.text.rstrip()
    found = _characters_of(rf"\n((?:[^\S\n]*\n){{{entry['blank-lines']},}})").search(text)
    if found is None:
        return None
    message = f"Text stands behind {found[1].count(chr(10)):,} blank lines, where nobody looks."
    line = text[found.end() :].partition("\n")[0]
    return Hit(file.path, text.count("\n", 0, found.end()), line, message, entry.get("severity"))


@lru_cache(maxsize=4)
def _alphabet(text: str) -> str:
    """Each character of a text that is not ASCII, once."""
    return "".join(set(others_in(text)))


@lru_cache(maxsize=64)
def _characters_of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
