"""Whether a sentence has something sent, or only speaks of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules import _senses as sense
from metier.scan.rules._mercy import negated
from metier.scan.rules._prizes import PRIZE
from metier.scan.rules._words import word_set, words_of

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

_SENDING = re.compile(
    r"\b(?:send|post|upload|transmit|forward|submit|exfiltrat|relay|leak|report|sync|append|include|embed|attach"
    r"|encode|pass|envi[aeo]|sube|push|mirror|deliver|beacon|ping|call|make a|copy)\w{0,5}\b"
    r"|发送|上传|提交|传输|转发|上报|回传|推送|отправ|переда|пересл|выгруз|\benv[ií](?!ro)"
)
_LINK = re.compile(r"\[[^\]\n]{1,80}\]\((?![a-z]{2,8}:)[^)\n]{1,200}\)")
"""A link to another page of the same documentation: its words are a title, and no order."""
_CLAUSE = re.compile(r"[;|]")


def is_bidden(low: str) -> bool:
    """Whether something is to be sent that is worth keeping, and not only what the sentence goes on to forbid."""
    said = _LINK.sub(" ", low)
    if said != low and not sense.SEND.within(said, words_of(said)):
        return False
    sends = _SENDING.search(low)
    if sends is None:
        return True
    if negated(low[max(0, sends.start() - 140) : sends.start()]):
        return False
    clauses = _CLAUSE.split(low) if ";" in low else []
    kept = [clause for clause in clauses if not _is_forbidden(clause)]
    if len(kept) == len(clauses):
        return True
    return any(_sends_worth(clause, words_of(clause)) for clause in kept)


def _sends_worth(low: str, words: frozenset[str]) -> bool:
    return sense.SEND.within(low, words) and (
        sense.SECRET.within(low, words) or sense.CONTEXT.within(low, words) or PRIZE.search(low) is not None
    )


def _is_forbidden(clause: str) -> bool:
    sends = _SENDING.search(clause)
    return sends is not None and negated(clause[: sends.start()])


_REPORTS = word_set("report reports reporting reported sync syncs synced post posts")
"""What sends in some sentences, and in others only says something or is the name of a thing."""
_TOWARDS = re.compile(
    r"\b(?:report|sync|post)\w{0,3}\b[^\n]{0,100}(?:\b(?:to|with|at|into|via|through) (?:the |our |an? |this |that "
    r"|their |its |us\b|me\b)|\b(?:to|at|via)\s?`?(?:https?:|\S{1,60}\.\S)|https?:)"
)


def only_speaks(one: Statement) -> bool:
    """Whether it has no word for sending but one that also means to say, and nobody is named whom it goes to."""
    sending = one.words & sense.SEND.words
    return bool(sending) and sending <= _REPORTS and _TOWARDS.search(one.low) is None
