"""Letters that cannot be seen, that run backwards, or that look like others."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from metier.scan.rule import Hit, ScanRule
from metier.scan.rules._hosts import addresses
from metier.scan.rules._looks import cleaned
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.view import SkillView

_FORMLESS = re.compile("[\U000e0001\U000e0020-\U000e007f\U000e0100-\U000e01ef]|[\ufe00-\ufe0f]{3}")
_TAGS = re.compile("[\U000e0001\U000e0020-\U000e007f]+")
_FLAG = "\U0001f3f4"
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_UNSEEN = re.compile("[\u200b\u2060-\u2064\ufeff\u00ad\u180e\u115f\u1160\u3164]+|[\u200c\u200d]{2,}")
_SPACELESS = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u00ad\u180e\u115f\u1160\u3164]")
_IN_WORD = re.compile("[A-Za-z][\u200b-\u200d\u2060-\u2064\ufeff\u00ad\u180e]+[A-Za-z]")
_SELECTORS = re.compile("[\U000e0100-\U000e01ef]{3,}|[\ufe00-\ufe0f]{3,}")
_COMMAND_WORD = re.compile(r"^\s*(?:sudo\s+|\$\s*)?([^\s\"'`=({\[;|&<>]{2,40})(?=\s)")
_LATIN = re.compile("[A-Za-z]")
_OTHER = re.compile("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\uff21-\uff5a]")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _tagged(view: SkillView) -> Iterator[Hit]:
    for file in view.files:
        if file.text.isascii() or not _FORMLESS.search(file.text):
            continue
        for found in _TAGS.finditer(file.text):
            if file.text[found.start() - 1 : found.start()] == _FLAG and len(found[0]) <= 8:
                continue
            said = "".join(chr(ord(letter) - 0xE0000) for letter in found[0] if 0xE0020 <= ord(letter) < 0xE007F)
            yield Hit(file.path, _line(file.text, found.start()), said or found[0])
        for found in _SELECTORS.finditer(file.text):
            yield Hit(
                file.path,
                _line(file.text, found.start()),
                found[0][:40],
                "Data is hidden in characters that have no form of their own.",
            )


def _turned(view: SkillView) -> Iterator[Hit]:
    for file in view.files:
        if file.text.isascii() or (found := _BIDI.search(file.text)) is None:
            continue
        severity: Severity = "low" if _RIGHT_TO_LEFT.search(file.text) else "high"
        line = _line(file.text, found.start())
        yield Hit(file.path, line, file.text[max(0, found.start() - 40) : found.end() + 60], "", severity)


def _unseen(view: SkillView) -> Iterator[Hit]:
    for file in view.files:
        text = file.text
        if text.isascii() or not _SPACELESS.search(text):
            continue
        inside = list(_IN_WORD.finditer(text))
        runs = [found for found in _UNSEEN.finditer(text) if len(found[0]) >= 4]
        if runs:
            first = runs[0]
            severity: Severity = "high" if sum(len(run[0]) for run in runs) >= 12 else "medium"
            yield Hit(
                file.path, _line(text, first.start()), text[max(0, first.start() - 40) : first.end() + 40], "", severity
            )
        elif len(inside) >= 2:
            first = inside[0]
            yield Hit(
                file.path,
                _line(text, first.start()),
                text[max(0, first.start() - 40) : first.end() + 40],
                "",
                "medium" if len(inside) < 4 else "high",
            )


def _lookalike(view: SkillView) -> Iterator[Hit]:
    if view.name and not view.name.isascii() and _deceives(view.name):
        yield Hit(
            view.instructions.path if view.instructions else "SKILL.md",
            1,
            view.name,
            "The skill's name has letters that look like others.",
        )
    read = reading(view)
    for file in view.files:
        if file.text.isascii():
            continue
        for number, line in enumerate(file.text.split("\n"), 1):
            if line.isascii():
                continue
            hosts = [address.host for address in addresses(line)]
            word = _COMMAND_WORD.match(line)
            # A word that still has other letters when the deceptive ones are read as they look is a formula.
            words = (word[1],) if word and not word[1].isascii() and cleaned(word[1]).isascii() else ()
            for name in (*hosts, *words):
                if _deceives(name):
                    yield Hit(
                        file.path, number, name, "", "low" if read.about_security and name not in hosts else "high"
                    )


def _deceives(name: str) -> bool:
    """Whether a name mixes scripts in a way that makes it look like another.

    >>> _deceives("p\\u0430ypal.com"), _deceives("paypal.com"), _deceives("\\u4f8b.com")
    (True, False, False)
    """
    if not (_LATIN.search(name) and _OTHER.search(name)):
        return False
    try:
        from confusable_homoglyphs import confusables
    except ImportError:
        return any(
            "CYRILLIC" in unicodedata.name(letter, "") or "GREEK" in unicodedata.name(letter, "") for letter in name
        )
    return any(
        confusables.is_dangerous(part)
        for part in re.split(r"[.\-_/]", name)
        if _LATIN.search(part) and _OTHER.search(part)
    )


RULES = (
    ScanRule(
        id="UNICODE_TAGS",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="A message is written in characters that people cannot see and models can read.",
        hint="Remove them. What they say is shown here.",
        check=_tagged,
    ),
    ScanRule(
        id="BIDI_OVERRIDE",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="Characters turn the direction of the text, so that it reads otherwise than it runs.",
        hint="Remove them and read the line again.",
        check=_turned,
    ),
    ScanRule(
        id="ZERO_WIDTH_RUN",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="Invisible characters stand in the text, as a message or to keep words from being found.",
        hint="Remove them and scan again.",
        check=_unseen,
    ),
    ScanRule(
        id="HOMOGLYPH",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="A name has letters of another script that look like the ones expected.",
        hint="Type the name yourself instead of copying it.",
        check=_lookalike,
    ),
)
