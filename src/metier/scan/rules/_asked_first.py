"""Whether a passage has the agent ask the user before it does something."""

# ruff: noqa: RUF001  (word processors write this apostrophe)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._mercy import negated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.scan.rules._statements import Statement

_ASKS = re.compile(
    r"\bask (?:first|before|them first|for (?:\w{1,12} )?(?:consent|permission|confirmation|approval)|(?:the user "
    r"|them )?(?:whether|if|before|which))\b"
    r"|\b(?:after|once|when|if|unless|until|only) (?:the user|they|he|she|users?)(?: has"
    r"| have)? (?:\w{1,12} )?(?:confirm"
    r"|agree|approv|consent|chose|chosen|pick|select|want|ask|request|name|said|say|opt)\w{0,3}\b"
    r"|\bwith (?:the user['’]s|their|explicit) (?:\w{1,10} )?(?:consent|permission|approval|ok)\b"
    r"|\bconfirm (?:it )?with (?:the user|them)\b|\b(?:that|which|whichever) (?:the user|they) (?:\w{1,8} )?(?:named?"
    r"|names|chose|chosen|picked?|gave|gives?|selects?|selected|uploads?|provides?|provided|wants?)\b"
    r"|\bnever (?:upload|send|share)\w{0,3} (?:\w{1,12} ){0,4}without\b"
)
_ASK_MARKS = ("ask ", "user", "they", "confirm", "consent", "permission", "approv", "without")


def asks_first(some: Iterable[Statement]) -> bool:
    """Whether some sentence has the user asked, or does what they asked for, and does not say that nobody need be."""
    for one in some:
        if one.kind == "code" or not any(mark in one.low for mark in _ASK_MARKS):
            continue
        found = _ASKS.search(one.low)
        if found is not None and not negated(one.low[max(0, found.start() - 140) : found.start()]):
            return True
    return False
