"""Sentences that have an agent give away what it was trusted with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.guard.scan.rule import Rule
from metier.guard.scan.rules import _senses as sense
from metier.guard.scan.rules._hosts import mailboxes
from metier.guard.scan.rules._judging import doubt, nearby, wording, words_among
from metier.guard.scan.rules._mercy import negated
from metier.guard.scan.rules._reading import reading
from metier.guard.scan.rules._secrecy import secrecy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.scan.finding import Severity
    from metier.guard.scan.rule import Hit
    from metier.guard.scan.rules._reading import Reading
    from metier.guard.scan.rules._statements import Statement
    from metier.guard.scan.view import View

_SIGNING_IN = re.compile(
    r"authorization|bearer|x-api-key|\bheaders?\b|authenticat|log ?in|sign ?in|oauth|\bexport \w|dashboard"
    r"|get (?:an?|your) (?:free )?(?:api )?(?:key|token)|create (?:an?|your) (?:api )?(?:key|token)"
    r"|your own (?:\w{1,12} ){0,3}(?:key|token)|set (?:the |your )?\w{0,30}(?:key|token)|securely|encrypted|configure"
)
_SENDING = re.compile(
    r"\b(?:send|post|upload|transmit|forward|submit|exfiltrat|relay|leak|report|sync|append|include|embed|attach"
    r"|encode|pass|envi[aeo]|sube|push|mirror|deliver|beacon|ping|call|make a|copy)\w{0,5}\b"
    r"|发送|上传|提交|传输|转发|上报|回传|推送|отправ|переда|пересл|выгруз|env[ií]"
)
_REMARK = re.compile(r"\s*(?:#|//|/?\*|<!--|\"\"\"|echo\b)")
_PUBLIC = re.compile(r"\bpublic (?:gist|repo\w{0,7}|paste|issue|channel|url|link|bucket)\b")
_PRIZE = re.compile(
    r"\bseed[ -]?(?:phrase|words)|recovery phrase|mnemonic|\b(?:12|24)(?: or 24)?[ -]words?\b|\bkeypair"
    r"|solana/id\.json|wallet(?:'s)? (?:private )?keys?\b|\bssh (?:private )?keys?\b|\.ssh\b|id_(?:rsa|ed25519)"
    r"|\.aws/credentials|login data|saved passwords?|password store|browser (?:cookies|passwords|profile)|keychain"
    r"|bitwarden|1password|lastpass|totp|authenticator"
    r"|master password|all (?:the )?(?:environment variables|env vars|api keys|secrets|credentials|tokens)"
    r"|each (?:variable|key|token|secret)|every (?:variable|api key|token|secret|credential)|(?:contents?"
    r"|content) of (?:the |any |all |each )?\.env|user(?:'s)? (?:\w{1,12} )?passwords?\b|助记词|私钥|сид[- ]фраз"
    r"|приватн\w{0,4} ключ|frase semilla|clave privada"
)


def _is_spoken(one: Statement) -> bool:
    """Whether it is language: prose, a remark in code, or a fence that holds no code."""
    if one.kind != "code" or _REMARK.match(one.text):
        return True
    return not one.script and one.language in ("", "text", "markdown")


def _frames(read: Reading) -> Iterator[tuple[Statement, list[Statement], str, frozenset[str]]]:
    """Every sentence that has something sent, with what stands next to it."""
    for statements in read.files.values():
        spoken = [one for one in statements if _is_spoken(one)]
        for index, one in enumerate(spoken):
            words = one.words
            if one.warned or not sense.SEND.within(one.low, words):
                continue
            sends = _SENDING.search(one.low)
            if sends is not None and negated(one.low[max(0, sends.start() - 140) : sends.start()]):
                continue
            near = [other for other in nearby(spoken, index, 3, 3, 8) if not other.warned]
            low = wording(near, one)
            yield one, near, low, words_among(near)


def _given_away(view: View) -> Iterator[Hit]:
    read = reading(view)
    for one, near, low, words in _frames(read):
        own = one.words
        secret_here = sense.SECRET.within(one.low, own)
        secret = secret_here or (sense.SECRET.within(low, words) and sense.TAKE.within(low, words))
        context_here = sense.CONTEXT.within(one.low, own)
        if not secret and not context_here:
            continue
        places = [place for other in near for place in (*other.places, *mailboxes(other.text))]
        value = max((doubt(address, read) for address in places), default=-1)
        severity = _severity(
            value=value,
            secret=secret,
            secret_here=secret_here,
            prize=_PRIZE.search(low) is not None,
            public=_PUBLIC.search(one.low) is not None and "private" in low,
            hides=sense.STEALTH.within(low, words) or secrecy(low) is not None,
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


def _severity(
    *,
    value: int,
    secret: bool,
    secret_here: bool,
    prize: bool,
    public: bool,
    hides: bool,
    always: bool,
    takes: bool,
    away: bool,
    signs_in: bool,
) -> Severity | None:
    """How bad it is, by what is sent, where to, and whether anybody is to know."""
    if prize and value >= 1:
        return "high" if value >= 2 or hides or always else "medium"
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
    if away and takes and secret_here and not signs_in:
        return "high"
    if away and takes and always:
        return "medium"
    return None


RULES = (
    Rule(
        id="SENDS_DATA_AWAY",
        ast="AST01",
        category="data_exfiltration_disclosure",
        severity="high",
        message="It has the agent send secrets, files or the conversation to somebody else.",
        hint="Do not use it with anything private. Ask what the receiver needs this for, and who that is.",
        check=_given_away,
    ),
)
