"""Who gets what code sends: how little is known of them, or whose account it goes into."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules import _places
from metier.scan.rules._hosts import HostAddress
from metier.scan.rules._judging import doubt
from metier.scan.rules._kinds import kind_of
from metier.scan.rules._prizes import BOT_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement

_HOST = re.compile(
    r"(?:\bhost(?:name)?[\"']?\s*[:=]\s*|https?connection\(\s*)[\"'](?!localhost|127\.|smtp\.|imap\.)"
    r"(?P<host>(?:[a-z0-9-]{1,60}\.){1,4}[a-z]{2,12})[\"']",
    re.IGNORECASE,
)
"""A host that is named apart from its scheme."""
_ENDING = re.compile(
    r"[\"'`}]\.(?P<free>(?:[a-z0-9-]{2,30}\.){1,2}[a-z]{2,6})(?=[\"'`/:])|\.join\(\s*[\"'][-.]?[\"']\s*\)\s*\+\s*[\"']\.[a-z]{2,10}[\"'/]"
)
"""A host that is put together from parts, of which the last one tells where anybody has one."""
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


def reach(code: Sequence[Statement], around: Sequence[Statement], read: SkillStatements) -> int:
    """How little is known of who gets what is sent in lines of code; -1 where no address is told.

    A bot whose key stands in the script belongs to whoever wrote the script, whatever service it runs on.
    """
    if any("api.telegram.org" in one.low for one in code) and any(
        BOT_TOKEN.search(one.text) or _BOT_PART.search(one.text) for one in around
    ):
        return 4
    places = [place for one in code for place in one.places if not _is_hole(place)]
    far = max((doubt(place, read) for place in places), default=-1)
    # Where the address itself is put together, what it is made of stands somewhere around.
    whole = around if len(places) < sum(len(one.places) for one in code) else code
    return max(far, _named_apart(whole, read))


def _is_hole(place: HostAddress) -> bool:
    """Whether the host of an address is what a name holds."""
    return place.host[:1] in ("{", "$") or "${" in place.host or place.host.startswith("%s")


def _named_apart(code: Sequence[Statement], read: SkillStatements) -> int:
    """The doubt about hosts that are named without a scheme or put together from parts; -1 without one."""
    worst = -1
    for one in code:
        if not read.sees(one, _APART_MARKS) or len(one.text) > 1_000:
            continue
        for found in _HOST.finditer(one.text):
            host = found["host"].lower()
            worst = max(worst, doubt(HostAddress(host, host, kind_of(host), "", True, 0, 0), read))
        ending = _ENDING.search(one.text)
        if ending is not None and (ending["free"] is None or ending["free"].lower() in _places.FREE):
            worst = max(worst, 3)
    return worst


def into_account(code: Sequence[Statement], around: Sequence[Statement], read: SkillStatements) -> bool:
    """Whether what is sent goes into the account of whoever wrote the script: with a key that stands in it."""
    if not any(place.kind != "local" for one in code for place in one.places):
        return False
    kept = any(place.host.endswith(_KEEPERS) for one in code for place in one.places)
    return any(
        one.script
        and (
            (read.sees(one, _KEY_MARKS) and read.holds(_is_key, one))
            or (kept and read.sees(one, _ID_MARKS) and read.holds(_is_id, one))
        )
        for one in around
    )


_KEEPERS = (
    "feishu.cn", "larksuite.com", "notion.com", "docs.googleapis.com", "sheets.googleapis.com", "api.airtable.com",
    "coda.io", "slack.com", "api.telegram.org", "discord.com", "api.github.com", "gitlab.com", "api.trello.com",
    "graph.microsoft.com", "api.dropboxapi.com", "yuque.com", "dingtalk.com", "weixin.qq.com", "www.googleapis.com",
)  # fmt: skip
"""Services where each document, table, room or folder is somebody's, and has a number."""
_ID = re.compile(
    r"\b\w{0,20}(?:doc|document|page|database|db|sheet|table|base|folder|chat|channel|gist|room|space|file)(?:_?id|_?token|_?key)?"
    r"[\"']?\s*[:=]\s*[\"'](?P<value>[\w-]{9,80})[\"']",
    re.IGNORECASE,
)
_ID_MARKS = (
    "doc",
    "page",
    "database",
    "db",
    "sheet",
    "table",
    "base",
    "folder",
    "chat",
    "channel",
    "gist",
    "room",
    "space",
    "file",
)


def _is_id(one: Statement) -> bool:
    """Whether the number of a document, a room or the like is written into a line."""
    found = _ID.search(one.text) if len(one.text) < 1_000 else None
    return (
        found is not None
        and sum(letter.isdigit() for letter in found["value"]) >= 2
        and len(set(found["value"])) >= 7
        and _STANDS_FOR.search(found["value"]) is None
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


_APART_MARKS = ("host", "connection(", "join(", "'.", '".', "`.", "}.")
_KEY_MARKS = (
    "secret", "token", "key", "passw", "bearer", "pat", "xox", "ghp_", "glpat", "akia", "ntn_", "sk_live", "sg.",
)  # fmt: skip
