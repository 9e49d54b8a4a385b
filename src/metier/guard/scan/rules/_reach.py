"""Who gets what code sends: how little is known of them, or whose account it goes into."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.scan.rules._judging import farthest
from metier.guard.scan.rules._prizes import BOT_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.scan.rules._reading import Reading
    from metier.guard.scan.rules._statements import Statement

_HOST = re.compile(
    r"(?:\bhost(?:name)?[\"']?\s*[:=]\s*|https?connection\(\s*)[\"'](?!localhost|127\.|smtp\.|imap\.)"
    r"(?:[a-z0-9-]{1,60}\.){1,4}[a-z]{2,12}[\"']",
    re.IGNORECASE,
)
"""A host that is named apart from its scheme."""
_BOT_PART = re.compile(r"[\"'](?:bot)?\d{8,10}:[A-Za-z0-9_-]{6,40}[\"']")
"""The key to a bot, or the part of it with the number."""
_KEY = re.compile(
    r"(?:secret|token|api_?key|access_?key|auth_?key|password|passwd|\bpat)[\"']?\s*(?:[:=]|=>)\s*[\"'](?P<value>[\w.+/=-]{16,200})[\"']"
    r"|bearer\s+(?P<bearer>[\w.+/=-]{20,200})|[\"'](?P<shape>(?:xox[bpars]-|ghp_|github_pat_|glpat-|AKIA|pat\w{14}\.|secret_|ntn_|sk_live_|SG\.)"
    r"[\w.-]{12,200})[\"']",
    re.IGNORECASE,
)
"""A key that is written into code."""
_STANDS_FOR = re.compile(
    r"your|xxx|example|sample|placeholder|dummy|change|replace|insert|todo|test|demo|fake|mock|redact|abc|1234|\.\.\.|_here"
    r"|environ|getenv|process",
    re.IGNORECASE,
)
"""What stands where the reader's own key belongs."""


def reach(code: Sequence[Statement], around: Sequence[Statement], read: Reading) -> int:
    """How little is known of who gets what is sent in lines of code; -1 where no address is told.

    A bot whose key stands in the script belongs to whoever wrote the script, whatever service it runs on.
    """
    if any("api.telegram.org" in one.low for one in code) and any(
        BOT_TOKEN.search(one.text) or _BOT_PART.search(one.text) for one in around
    ):
        return 4
    far = farthest(code, read, none=-1)
    return 2 if far < 0 and any(_HOST.search(one.text) for one in code) else far


def into_account(code: Sequence[Statement], around: Sequence[Statement], read: Reading) -> bool:
    """Whether what is sent goes into the account of whoever wrote the script: with a key that stands in it."""
    return any(place.kind != "local" for one in code for place in one.places) and any(
        one.script and read.sees(one, _KEY_MARKS) and read.holds(_is_key, one) for one in around
    )


def _is_key(one: Statement) -> bool:
    """Whether a key that somebody has is written into a line, and not one that the reader is to replace."""
    if len(one.text) > 1_000:
        return False
    found = _KEY.search(one.text)
    if found is None:
        return False
    value = found["value"] or found["bearer"] or found["shape"]
    mixed = any(letter.isdigit() for letter in value) and any(letter.isalpha() for letter in value)
    return mixed and len(set(value)) >= 8 and _STANDS_FOR.search(value) is None


_KEY_MARKS = (
    "secret", "token", "key", "passw", "bearer", "pat", "xox", "ghp_", "glpat", "akia", "ntn_", "sk_live", "sg.",
)  # fmt: skip
