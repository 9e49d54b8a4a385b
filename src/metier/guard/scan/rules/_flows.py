"""Where a value goes in a piece of code: from the line that takes it, by the names that it is given, to others.

This follows names, not meanings: a name that is given something of a carried value carries it, too, unless what is
done on the way leaves nothing of it to steal (a signature, a digest, a public address, a length).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.guard.scan.rules._statements import Statement

_MAX_NAMES = 60
_MAX_SPAN = 14
"""Lines that a call may go on for."""
_NAMED = re.compile(
    r"^[\s{(]*(?:export\s+|local\s+|const\s+|let\s+|var\s+|set\s+|readonly\s+|my\s+)?"
    r"\$?(?P<names>[A-Za-z_]\w{0,60}|[\[{(][\w\s,:]{1,120}[\])}])(?:\s*:\s*[\w.\[\], |]{1,40})?"
    r"(?:\[[^\]\n]{1,60}\])?\s*(?:[+|]|\?\?)?=(?!=)\s*(?P<value>.*)$",
    re.DOTALL,
)
_KEPT = re.compile(
    r"\bfor\s*\(?\s*(?:const\s+|let\s+|var\s+)?[\[(]?(?P<each>\w{1,60})(?:\s*,\s*(?P<other>\w{1,60}))?[\])]?\s+(?:in"
    r"|of)\b"
    r"|\bwith\b[^\n]{0,200}\bas\s+(?P<opened>\w{1,60})"
    r"|\b(?P<list>\w{1,60})(?:\[[^\]\n]{1,60}\])?\.(?:append|extend|push|update|add|write|writestr|unshift|concat"
    r"|set)\("
    r"|urlretrieve\([^\n]{1,200},\s*(?P<saved>\w{1,60})\s*\)"
    r"|\b(?P<read>read)\s+(?:-\w+\s+(?:[\"'][^\"'\n]{0,100}[\"']\s+)?){0,4}(?P<var>\w{1,60})"
)
_FILE = re.compile(
    r"(?:/tmp|/var/tmp|\$TMPDIR|\$\{TMPDIR\}|\$env:TEMP|%TEMP%|~/\.cache|/dev/shm)[\\/][\w.$\-{}]{1,60}"
    r"|\b[\w-]{1,40}\.(?:zip|tgz|tar\.gz|tar|b64|enc|gpg|7z)\b"
)
_SIGNED = re.compile(
    r"\bsign\w{0,12}\(|from_?key\(|fromsecretkey|fromprivatekey|from_?mnemonic|from_?seed|keypair\.|\bwallet\("
    r"|account\("
    r"|privatekeytoaccount|mnemonictoaccount|hmac|sha(?:1|256|512)\b|md5|hashlib|\blen\(|\bbool\(|\.length\b",
    re.IGNORECASE,
)
"""What makes something of a secret that may be known."""
_SPENT = re.compile(
    r"digest|public_?key|to_?address|\.address\b|mask|redact|isinstance|typeof|\bnot\s|exists\(|is_file\(|basename"
    r"|\.name\b",
    re.IGNORECASE,
)
"""What only looks at it."""
_WORD = re.compile(r"[A-Za-z_]\w{0,60}")
_STRING = re.compile(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'")
_IN_STRING = re.compile(r"\$\{?\s*([A-Za-z_]\w{0,60})|\{\s*([A-Za-z_]\w{0,60})")
_OPENS = re.compile(r"[(\[{]")
_CLOSES = re.compile(r"[)\]}]")


def names_in(text: str) -> frozenset[str]:
    """The names that code uses, also those that are put into its texts; not the words of the texts.

    >>> sorted(names_in('post(url, f"k={key} text")'))
    ['f', 'key', 'post', 'url']
    """
    inside = {one for found in _IN_STRING.finditer(text) for one in found.groups() if one}
    return frozenset(_WORD.findall(_STRING.sub(" ", text))) | inside


def carried(
    code: Sequence[Statement], takes: Callable[[Statement], bool], ends: Callable[[Statement], bool]
) -> Iterator[tuple[Statement, list[Statement]]]:
    """Every call that something taken arrives at: the line that takes it, and the lines of the call."""
    names: dict[str, Statement] = {}
    files: dict[str, Statement] = {}
    for index, one in enumerate(code):
        taken = takes(one)
        if taken or names or files:
            source = one if taken else _source(one.text, names, files)
            if source is not None and not _SIGNED.search(one.text) and (taken or not _SPENT.search(one.text)):
                _name(one.text, source, names, files)
            elif names and (named := _NAMED.match(one.text)) is not None:
                # Given something else, a name carries nothing any more.
                for name in _WORD.findall(named["names"]) if "+=" not in one.text[: named.start("value")] else ():
                    names.pop(name, None)
        if ends(one):
            call = span(code, index)
            arrived = (other if takes(other) else _source(_used(other.text), names, files) for other in call)
            if (first := next((other for other in arrived if other is not None), None)) is not None:
                yield first, call


def _used(text: str) -> str:
    """What a line makes use of: not the name that it gives to what comes out."""
    named = _NAMED.match(text)
    return text if named is None or text[: named.start("value")].rstrip()[-2:-1] in "+|?" else named["value"]


def span(code: Sequence[Statement], index: int) -> list[Statement]:
    """The lines of a call, until its brackets and quotes are closed."""
    lines: list[Statement] = []
    open_ = quotes = 0
    for one in code[index : index + _MAX_SPAN]:
        lines.append(one)
        open_ += _balance(one.text)
        quotes += one.text.count("'")
        if open_ <= 0 and quotes % 2 == 0:
            break
    return lines


def _balance(text: str) -> int:
    return len(_OPENS.findall(text)) - len(_CLOSES.findall(text))


def _source(text: str, names: dict[str, Statement], files: dict[str, Statement]) -> Statement | None:
    if names:
        for name in names_in(text):
            if name in names:
                return names[name]
    return next((files[found[0]] for found in _FILE.finditer(text) if found[0] in files), None) if files else None


def _name(text: str, source: Statement, names: dict[str, Statement], files: dict[str, Statement]) -> None:
    """Let the names that a line gives something carry it."""
    if len(names) + len(files) > _MAX_NAMES:
        return
    for part in text.split(";") if len(text) < 1_000 else ():
        if (named := _NAMED.match(part)) is not None:
            for name in _WORD.findall(named["names"]):
                names[name] = source
    for found in _KEPT.finditer(text):
        for key in ("each", "other", "opened", "list", "var", "saved"):
            if found[key]:
                names[found[key]] = source
    for found in _FILE.finditer(text):
        files[found[0]] = source
