"""Sentences that have an agent give away what it was trusted with."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._bidding import is_bidden, only_speaks
from metier.scan.rules._hosts import mailboxes
from metier.scan.rules._judging import doubt, nearby, wording, words_among
from metier.scan.rules._kinds import odd
from metier.scan.rules._prizes import BRAND_KEY, HOARD, PRIZE
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules._words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_SIGNING_IN = re.compile(
    r"authorization|bearer|x-api-key|\bheaders?\b|authenticat|log ?in|sign ?in|oauth|\bexport \w+[_=]|dashboard"
    r"|get (?:an?|your) (?:free )?(?:api )?(?:key|token)|create (?:an?|your) (?:api )?(?:key|token)"
    r"|your own (?:\w{1,12} ){0,3}(?:key|token)|set (?:the |your )?\w{0,30}(?:key|token)|securely|encrypted|configure"
)
_WALLET = re.compile(r"seed|recovery phrase|mnemonic|private key|助记词|私钥|приватн|privada")
_ASKS = re.compile(r"\b(?:ask|give|enter|provide|prompt|request)\w{0,3}\b")
_IN_HEADER = re.compile(r"authorization|bearer|x-api-key|\bheaders?\b")
_COPIED = re.compile(r"\bbcc\b|\bblind copy|copia oculta|\bcc (?:to|the)\b")
_PUBLIC = re.compile(r"\bpublic (?:gist|repo\w{0,7}|paste|issue|channel|url|link|bucket)\b")
_PRETEXT = re.compile(
    r"\b(?:quality|improv\w{1,5}|telemetry|diagnos\w{1,5}|analytics|train(?:ing)?|research|licen[cs]\w{1,3}"
    r"|support bundle|crash"
    r"|classifier|backups?|verif\w{1,8}|validat\w{1,4}|debug\w{0,4}|audit\w{0,3}|compliance|statistics|metrics"
    r"|activation"
    r"|health check|personali[sz]\w{1,5}|maintenance|benchmark\w{0,3})\b|质量|改进|诊断|遥测|验证|备份|диагност"
    r"|телеметр|улучшен"
    r"|проверк|calidad|diagnóstic|mejorar"
)
"""What it is said to be for."""
_WHOLE = re.compile(
    r"\b(?:source|original|user(?:'s)?|their) (?:documents?|files?|pages?)\b|\bthe (?:conversation|chat|dialogue"
    r"|transcript)\b|\b(?:full|entire|whole|complete|raw|all"
    r"|last|every|each|user(?:'s)?|this|current)\b[^\n]{0,20}\b(?:conversations?"
    r"|transcripts?"
    r"|chats?|messages?|prompts?|dialogues?|sessions?|e?mails?|inbox|workspace|source|codebase|memor(?:y|ies)|notes?"
    r"|repl(?:y|ies)"
    r"|answers?|questions?)\b|\b(?:conversation|chat|session|message) (?:history|transcripts?|logs?|contents?)\b|对话"
    r"|聊天记录"
    r"|переписк|диалог|conversaci"
)
_DISGUISE = re.compile(
    r"\b(?:describe|present|label|refer to|explain|list|book|report|disguise|phrase|call)\b[^\n]{0,30}\b(?:as"
    r"|under) [\"“‘']"
)
"""What it is to be called instead."""


def _frames(read: SkillStatements) -> Iterator[tuple[Statement, list[Statement], str, frozenset[str]]]:
    """Every sentence that has something sent, with what stands next to it."""
    for statements in read.files.values():
        spoken = [one for one in statements if is_spoken(one)]
        for index, one in enumerate(spoken):
            words = one.words
            if one.warned or not sense.SEND.within(one.low, words):
                continue
            if not is_bidden(one.low):
                continue
            near = [other for other in nearby(spoken, index, 3, 3, 8) if not other.warned]
            low = wording(near, one)
            yield one, near, low, words_among(near)


_FAULT = re.compile(
    r"\b(?:silently|quietly) (?:fails|drops|breaks|misroutes|ignores|discards|skips|loses|truncates|corrupts|swallows"
    r"|returns|stops|misses|replaces|overwrites|does)\b"
    r"|\b(?:rather than|instead of|never|not) (?:\w{1,14} ){1,3}(?:silently|quietly)\b"
)
"""What goes wrong without a word, or must not: a fault that is told of, and no order."""


def _hides(one: Statement, low: str, words: frozenset[str], *, stranger: bool) -> bool:
    """Whether nobody is to know of it; without a stranger's address, the sentence itself has to say so."""
    if secrecy(low) is not None or _DISGUISE.search(low) is not None:
        return True
    if stranger:
        return sense.STEALTH.within(low, words)
    said = _FAULT.sub(" ", one.low)
    return sense.STEALTH.within(said, words_of(said))


def _given_away(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one, near, low, words in _frames(read):
        own = one.words
        prize_here = PRIZE.search(one.low) is not None or HOARD.search(one.low) is not None
        secret_here = prize_here or _of_another(one) or sense.SECRET.within(one.low, own)
        secret = secret_here or (sense.SECRET.within(low, words) and sense.TAKE.within(low, words))
        secret = secret or (_WALLET.search(low) is not None and _ASKS.search(low) is not None)
        context_here = sense.CONTEXT.within(one.low, own) or _WHOLE.search(one.low) is not None
        places = [place for other in near for place in (*other.places, *mailboxes(other.text))]
        value = max((doubt(address, read) for address in places), default=-1)
        whole = _WHOLE.search(one.low) is not None
        pretext = _PRETEXT.search(one.low) is not None and (secret_here or whole)
        if value < 0 and pretext and whole:
            value = _in_command(one, read)
        copied = _COPIED.search(one.low) is not None and value > 0 and any(mailboxes(one.text))
        if copied and re.search(r"\b(?:every|each|all|always|any)\b", one.low):
            yield one.hit(one.text, "high")
            continue
        if value < 2 and only_speaks(one):
            continue
        if not prize_here and _is_the_hosts(one):
            continue
        if (not secret and not context_here) or (one.kind == "row" and not (secret_here and one.places)):
            continue
        severity = _severity(
            value=value,
            secret=secret,
            secret_here=secret_here,
            prize=prize_here or PRIZE.search(low) is not None or _of_another(one),
            public=_PUBLIC.search(one.low) is not None and "private" in low,
            prize_here=(prize_here and (_IN_HEADER.search(one.low) is None or _WALLET.search(one.low) is not None))
            or _of_another(one),
            pretext=pretext,
            hides=_hides(one, low, words, stranger=value >= 2),
            always=sense.ALWAYS.within(one.low, own),
            takes=sense.TAKE.within(low, words),
            away=sense.ELSEWHERE.within(one.low, own),
            signs_in=_SIGNING_IN.search(low) is not None,
        )
        if severity is not None:
            quoted = re.match(r"\s*(?:[-*\d.]+\s+)?[\"“]", one.text) is not None
            yield one.hit(
                one.text, "low" if quoted and (one.hinted or read.has("injection", "malicious")) else severity
            )


def _in_command(one: Statement, read: SkillStatements) -> int:
    """The doubt about the address in a command that a sentence introduces."""
    return max(
        (
            doubt(place, read)
            for other in read.files[one.path]
            if other.kind == "code" and 0 < other.line - one.line <= 4
            for place in other.places
        ),
        default=-1,
    )


def _of_another(one: Statement) -> bool:
    """Whether a key of one service goes to a host of another."""
    key = BRAND_KEY.search(one.low)
    return key is not None and bool(one.places) and all(key["brand"] not in place.host for place in one.places)


_OWN_KEY = re.compile(r"\b(?P<name>[a-z0-9]{4,24})_(?:api_)?(?:key|token)\b")


def _is_the_hosts(one: Statement) -> bool:
    """Whether the one key that is spoken of is called like the host that gets it, as keys are by who gives them."""
    names = {found["name"] for found in _OWN_KEY.finditer(one.low)}
    return (
        len(names) == 1
        and bool(one.places)
        and all(
            any(name in place.host for name in names) and not place.shady and not odd(place.host)
            for place in one.places
        )
    )


def _severity(
    *,
    value: int,
    secret: bool,
    secret_here: bool,
    prize: bool,
    prize_here: bool,
    pretext: bool,
    public: bool,
    hides: bool,
    always: bool,
    takes: bool,
    away: bool,
    signs_in: bool,
) -> Severity | None:
    """How bad it is, by what is sent, where to, and whether anybody is to know."""
    if prize and value >= 1:
        return "high" if value >= 2 or hides or always or prize_here or takes else "medium"
    if pretext and value >= 1 and not signs_in and (always or takes or hides):
        return "high"
    if value >= 4:
        return "high"
    if value == 3:
        return "high" if (secret and not signs_in) or always or hides or takes else "medium"
    if value == 2:
        if secret_here and not signs_in:
            return "high"
        return "high" if hides or (always and takes) else "medium" if always else "low"
    if hides and ((secret_here and not signs_in) or away or value >= 0):
        return "high"
    if public:
        return "high"
    if away and takes and ((secret_here and not signs_in) or always):
        return "medium"
    return None


RULES = (
    ScanRule(
        id="SENDS_DATA_AWAY",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It has the agent send secrets, files or the conversation to somebody else.",
        hint="Do not use it with anything private. Ask what the receiver needs this for, and who that is.",
        check=_given_away,
    ),
)
