"""What is rightly not said: a secret, what is not true, and what would only read badly."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules import _senses as sense
from metier.scan.rules._mercy import negated

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

_MATTER_OF_STYLE = re.compile(
    r"^\s?(?:the |a |an |any |its |your |our )?(?:\w{1,12} )?(?:names?|prompts?|versions?|wording|format(?:ting)?|tone"
    r"|length|headings?|scores?|emojis?|word counts?|templates?|style)\b"
)
"""What is left out of a text because of how it would read, when something is told not to be mentioned."""
_DONE = re.compile(
    r"\b(?:complet(?:e|ed|ion)|done|finished|fixed|works?|working|success\w{0,4}|passed|verified|tested|ready|resolved"
    r"|installed|deployed|published|failure|failed)\b[^\n]{0,120}"
    r"\b(?:until|unless|only (?:after|from|when|once|if)|before (?:it|all|every|the \w{1,12}) (?:is|are|was|has|have"
    r"|pass\w{0,2})|from [^\n]{0,60}\balone)\b|^\s?[^\n]{0,60} as [\"“]"
)
"""What is not to be claimed before it is true: somebody is to be told the truth, not kept from it."""

_IF_ASKED = re.compile(r"\bunless (?:they|the user|he|she|somebody|someone)?\s?(?:asks?|asked|wants?)\b")
"""What is told to whoever asks is not hidden."""


_SIGN_OF_LIFE = re.compile(
    r"\b(?:reply|answer|respond|return|output)\w{0,3} (?:with |only |just )?[\"'`]?(?:\w{2,20}_ok|no_reply|ok|noop"
    r"|pong)\b"
)
"""A word that only tells a program that all is well: it is the word that is not shown."""


def is_honest(one: Statement, found: re.Match[str], far: int) -> bool:
    """Whether nothing is kept from anybody: a secret stays one, a claim has to be true, a text is to read well."""
    if far < 1 and _SIGN_OF_LIFE.search(one.low[: found.start()]):
        return True
    rest = one.low[found.start() :]
    if found[0].startswith("keep"):
        return far < 2 and sense.SECRET.within(one.low, one.words) and not sense.SEND.within(one.low, one.words)
    if found[0].startswith("pretend"):
        return negated(one.low[max(0, found.start() - 140) : found.start()])
    what = found.groupdict().get("what")
    if what is None or far >= 2:
        return False
    return (
        _DONE.search(rest[:300]) is not None
        or _IF_ASKED.search(rest[:160]) is not None
        or _MATTER_OF_STYLE.search(what) is not None
        or _is_false_claim(one.low, what)
        or _is_not_done(one.low[: found.start()], what)
    )


_CLAIM = re.compile(
    r"^\s?(?:(?:the )?(?:users?|them|human|customer)\s)?(?:that )?(?:it|they|everything|an?|the|their|your|this)"
    r"(?:['’](?:s|re)\b|\b[^\n]{0,40}\b(?:is|are|was|were|has|have|had|selected|changed|matched|set|works?)\b"
    r"|\b \w{3,14} (?:anything|something)\b)"
)
_DEED = re.compile(
    r"\b(?:sent|send|upload|transmit|forward|copied|copy|copies|collect|read|shar|charg|paid|pay|bought|purchas|delet"
    r"|download|ran|run|running|execut|add|replac|remov|transfer|record|stor|sync|track|monitor|log|post|sign|approv"
    r"|inject|insert|encrypt|modif|edit|adjust)\w{0,5}\b|\b(?:was|were|been|being|got) (?:chang|set|swapp|switch)"
)
_STATE = re.compile(r"\b(?:installed|deployed|published|configured)\b")
_UNFINISHED = re.compile(
    r"\b(?:do not|don['’]?t|never) (?:proceed|continue|move on)\b|\bfail\w{0,4}\b|\bnot (?:yet )?(?:finished|complete"
    r"|ready|done)\b|\bmissing\b"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]{0,40}[^\n]{0,200}\botherwise,? $")
_SPARED = re.compile(r"\b(?:do not|don['’]?t|never) (?P<deed>\w{2,12})\b[^.;\n]{0,80}\b(?:and|or|nor) $")


def _is_false_claim(low: str, what: str) -> bool:
    """Whether what is not to be said is how something is, and not what is done: to say it would be wrong."""
    if not _CLAIM.search(what) or _DEED.search(what):
        return False
    return not _STATE.search(what) or _UNFINISHED.search(low) is not None


def _is_not_done(before: str, what: str) -> bool:
    """Whether what is not to be spoken of is not to be done either, or is an option that is left out."""
    if _OPTION.search(before):
        return True
    return _SPARED.search(before) is not None and re.search(r"\b(?:about|going) to\b", what) is not None
