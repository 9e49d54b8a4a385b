"""Text as it looks to a reader, or a model: what cannot be seen is gone, and letters are what they look like.

Which letters look like others is data: `packs/core/letters.yaml`. The matcher `lookalikes` finds those that deceive.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from metier._regex_cache import kept_regex
from metier.scan.hosts import addresses
from metier.scan.name_lists import names, sense
from metier.scan.rule import Hit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText

_MIXED = kept_regex("[\u0370-\u058f\u13a0-\u13ff\u0251\u0261]")
_LATIN = kept_regex("[A-Za-z]")
_OTHER = kept_regex("[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\uff21-\uff5a]")
_OVER = kept_regex("[\u0300-\u036f]")
_MARK = kept_regex("[A-Za-z\u00c0-\u024f][\u0300-\u036f]")
_SPELT = kept_regex(r"\b[A-Za-z]([ .·*_-])(?:[A-Za-z]\1){3}")
_SHAPE = bytes(97 if chr(code).isalpha() else 32 for code in range(128)).ljust(256)
_SPELT_SHAPE = b"a a a a "
"""How spelt words look with an `a` for each letter and a blank for every other character."""
_COMMAND_WORD = kept_regex(r"^\s*(?:sudo\s+|\$\s*)?([^\s\"'`=({\[;|&<>]{2,40})(?=\s)")
_MIXED_LINE = 3
"""Words of a line with letters of two scripts that look alike: nobody types that many by accident."""


_ASCII = bytes(range(128))


@cache
def _letters(name: str) -> dict[int, str]:
    return {ord(pair[0]): pair[1] for pair in names(name)}


def others_in(text: str) -> str:
    """The characters of a text that are not ASCII."""
    return text.encode(errors="surrogatepass").translate(None, _ASCII).decode(errors="surrogatepass")


def cleaned(text: str) -> str:
    """A text as a reader, or a model, takes it: without what cannot be seen and with letters as they look."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        letters = "".join(set(others_in(text)))
        if sense("letters-not-seen").search(letters):
            text = sense("letters-not-seen").sub("", text)
        if not _letters("letters-of-other-forms").keys().isdisjoint(map(ord, letters)):
            text = text.translate(_letters("letters-of-other-forms"))
        if _MIXED.search(letters):
            as_latin = _letters("letters-that-look-latin")
            text = sense("words-of-mixed-letters").sub(lambda found: found[0].translate(as_latin), text)
        if _OVER.search(letters) and _MARK.search(text):
            text = re.sub(r"\S+", _without_marks, text)
    if "%" in text:
        text = sense("hosts-with-percent-signs").sub(lambda found: unquote(found[0]), text)
    if _SPELT_SHAPE in text.encode("ascii", "replace").translate(_SHAPE) and _SPELT.search(text) is not None:
        text = "\n".join(map(_closed_up, text.split("\n")))
    for _ in range(2):
        if "&" not in text or html.unescape(text) == text:
            break
        # Line by line, so that a line end that is written as a sign makes no other line numbers.
        lines = text.split("\n")
        text = "\n".join(" ".join(html.unescape(line).splitlines()) if "&" in line else line for line in lines)
    return text


def _without_marks(found: re.Match[str]) -> str:
    """A word without the marks over and through its letters, when some belong to no letter of any language."""
    has_marks = _MARK.search(found[0]) is not None
    return _OVER.sub("", unicodedata.normalize("NFKD", found[0])) if has_marks else found[0]


def _closed_up(line: str) -> str:
    """A line whose words are spelt, letter by letter, with the words in one piece.

    >>> _closed_up("s e n d   t h e   k e y s   n o w  h e r e")
    'send the keys now here'
    """
    if _SPELT.search(line) is None:
        return line
    return re.sub(r"[ \t]+", " ", sense("spelt-words").sub(lambda found: re.sub("[ .·*_-]", "", found[0]), line))


def match_lookalikes(text: SkillText, rule: Rule) -> Iterator[Hit]:
    """Hosts, commands, the skill's own name, and sentences with letters of another script that look like Latin ones."""
    view, security = text.read.view, text.read.about_security
    if deceives(view.name):
        path = view.instructions.path if view.instructions else "SKILL.md"
        yield Hit(path, 1, view.name, "The skill's name has letters that look like others.")
    for file in view.files:
        lines = file.text.split("\n") if not file.text.isascii() and _OTHER.search(file.text) else ()
        for number, line in enumerate(lines, 1):
            if not line.isascii() and _OTHER.search(line) and (found := _deceptive(line)):
                shown, is_host = found
                yield Hit(file.path, number, shown, "", "low" if security and not is_host else rule.severity)


@lru_cache(maxsize=1024)
def _deceptive(line: str) -> tuple[str, bool] | None:
    """What of a line deceives, and whether it is a host: a host, a command, or the line with its words."""
    for host in (address.host for address in addresses(line)):
        if deceives(host):
            return host, True
    word = _COMMAND_WORD.match(line)
    # A word that still has other letters when the deceptive ones are read as they look is a formula.
    if word is not None and cleaned(word[1]).isascii() and deceives(word[1]):
        return word[1], False
    mixed = sense("words-of-mixed-letters").findall(line)
    is_mixed = sum(len(found) >= 3 and cleaned(found).isascii() for found in mixed) >= _MIXED_LINE
    return (line[:400], False) if is_mixed else None


def deceives(name: str) -> bool:
    """Whether a name mixes scripts in a way that makes it look like another.

    >>> deceives("p\\u0430ypal.com"), deceives("paypal.com"), deceives("\\u4f8b.com")
    (True, False, False)
    """
    if name.isascii() or not (_LATIN.search(name) and _OTHER.search(name)):
        return False
    from confusable_homoglyphs import confusables

    parts = [part for part in re.split(r"[.\-_/]", name) if _LATIN.search(part) and _OTHER.search(part)]
    return any(map(confusables.is_dangerous, parts))
