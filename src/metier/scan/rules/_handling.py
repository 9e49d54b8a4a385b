"""What a line of code does with a value: spends it, hides it, puts it into something else, or returns it.

Each question is asked again by every rule that follows values, so the answers are kept.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

_SIGNED = re.compile(
    r"\bsign\w{0,12}\(|from_?key\(|fromsecretkey|fromprivatekey|from_?mnemonic|from_?seed|keypair\.|\bwallet\("
    r"|account\("
    r"|privatekeytoaccount|mnemonictoaccount|hmac|sha(?:1|256|512)\b|md5|hashlib",
    re.IGNORECASE,
)
"""What makes something of a secret that may be known."""
_SPENT = re.compile(
    r"digest|public_?key|to_?address|\.address\b|mask|redact|isinstance|typeof|\bnot\s|exists(?:sync)?\(|is_file\(|basename"
    r"|^(?![^\n]{0,200}\bjoin\()[^\n]{0,400}\.name\b",
    re.IGNORECASE,
)
"""What only looks at it; a name that is put behind a folder is the file again."""
_INTO = re.compile(
    r"(?:zipfile|gzipfile|bz2file|lzmafile|tarfile\.open|tarfile|textiowrapper|csv\.writer|pickler)\(\s*(?:\w+=)?(?P<into>\w{1,60})\b"
    r"[^\n]{0,60}\)\s*as\s+(?P<by>\w{1,60})|(?P<by2>\w{1,60})\s*=\s*(?:\w{1,30}\.){0,2}(?:zipfile|gzipfile|tarfile\.open|csv\.writer)"
    r"\(\s*(?P<into2>\w{1,60})\b|(?P<by3>\w{1,60})\.pipe\(\s*(?P<into3>\w{1,60})\s*\)",
    re.IGNORECASE,
)
"""Something that writes into something else: what is given to the one is in the other."""
_INTO_MARKS = ("zipfile", "bz2file", "lzmafile", "tarfile", "textiowrapper", "csv.writer", "pickler", ".pipe(")
RETURNS = re.compile(r"\s*(?:(?:else\s+)?if\b[^\n]{0,200}?\)\s*|else\s+)?(?:return|yield)\b")
"""How a line begins that says what comes out of a function."""


@lru_cache(maxsize=8_192)
def written_into(text: str) -> re.Match[str] | None:
    """Something that writes into something else, by the names of both."""
    low = text.lower() if "(" in text else ""
    return _INTO.search(text) if any(mark in low for mark in _INTO_MARKS) else None


@lru_cache(maxsize=8_192)
def is_signed(text: str) -> bool:
    """Whether what comes out of a line may be known, whatever goes in.

    >>> is_signed("sig = hmac.new(key, body)"), is_signed("body = key + salt")
    (True, False)
    """
    return _SIGNED.search(text) is not None


@lru_cache(maxsize=8_192)
def is_spent(text: str) -> bool:
    """Whether a line only looks at what it is given.

    >>> is_spent("if not path.exists():"), is_spent("text = path.read_text()")
    (True, False)
    """
    return _SPENT.search(text) is not None


def comes_out(one: Statement, named: bool, lines: int) -> bool:
    """Whether a line of a function says what comes out of it; in a shell, what it writes does."""
    return RETURNS.match(one.text) is not None or lines == 1 or (one.language == "shell" and not named)
