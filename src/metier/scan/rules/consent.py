"""Consent that nobody gave: what matters is done without a question, or as if it had been answered."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

UNASKED = re.compile(
    r"\b(?:do not|don['’]?t|never|without|no need to|skip|bypass|avoid) (?:\w{1,12} ){0,2}(?:ask(?:ing)?"
    r"|request(?:ing)?|prompt(?:ing)?|wait(?:ing)?|seek(?:ing)?|requir(?:e|ing)|confirm(?:ing|ation)?|approval"
    r"|permission|consent|verif\w{1,8})\b"
    r"|无需(?:确认|询问|用户同意)|不要(?:询问|确认)|без (?:подтвержден|запрос|согласи)|sin (?:pedir|preguntar"
    r"|confirmaci|solicitar)"
)

_ASKED = word_set(
    "ask asking request requesting prompt prompting wait waiting seek seeking require requiring "
    "confirm confirming confirmation approval permission consent verify verification verifying pedir preguntar "
    "solicitar"
)

_GRAVE = re.compile(
    r"\b(?:transfer|send (?:funds|tokens|money|payment|sol|eth|usdc|bitcoin|crypto)|withdraw|purchase|approve (?:the "
    r"|all |any )?(?:transaction|token|spend|unlimited|permission|tool)|sign (?:the |all |any )?transactions?|drain"
    r"|sudo|as root|rm -rf|delete all|wipe|grant|exfiltrat|upload|credentials?|private keys?|force[- ]push"
    r"|unlimited (?:approval|allowance|spend)|execute (?:any|arbitrary|all)|run any|every (?:shell )?command"
    r"|install(?:ing)? (?:any|additional|it|the))\b"
    r"|转账|提现|授权|перевод|перевед|transfier"
)

_ASKED_FOR = re.compile(
    r",|\s(?:(?:the |your |any )?(?:users?|human|owner|them|anyone) )?(?:to (?:paste|share|send|enter|provide|type|give"
    r"|upload|export|reveal"
    r"|hand)|for (?!(?:\w{1,12} ){0,2}(?:confirm|permission|approv|consent|agree)))"
    r"|\s(?:an?|the|their|any) (?:\w{1,12} ){0,2}(?:private|keys?|passwords?|seed|secrets?|tokens?|credentials?)\b"
)
"""What is not to be asked for is a thing, and no leave."""


def _unasked(view: SkillView) -> Iterator[Hit]:
    """What matters is done without a question."""
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        found = UNASKED.search(one.low) if not one.low.isascii() or not one.words.isdisjoint(_ASKED) else None
        if found is None or one.warned or not _GRAVE.search(one.low):
            continue
        if re.search(r"\b(?:never|do not|don['’]?t|must not|not) (?:\w{1,12} ){0,6}without\b", one.low):
            continue
        if _ASKED_FOR.match(one.low[found.end() : found.end() + 80]):
            continue
        yield one.hit(one.text, _weight(one))


_CONSENT = re.compile(
    r"\b(?:users?|owner|human|operator|customer) (?:has|have|had|hereby|already) (?:\w{1,12} ){0,2}(?:agreed|consented"
    r"|approved|authori[sz]ed|granted|waived|opted in|given (?:\w{1,12} ){0,2}(?:consent|permission|approval))\b"
    r"[^\n]{0,80}\b(?:all|any|every|everything|anything|whatever|future|in advance|permanently|standing|further)\b"
    r"|\b(?:record|write|note|store|save|remember|log|add|put)\w{0,3}\b[^\n]{0,50}\b(?:users?|owner|human|operator) "
    r"(?:has |have |had |already |always )?(?:agrees?|agreed|consents|consented|approves|approved|authori[sz]e[sd]"
    r"|granted|waived|allows?|allowed)\b"
)
_IF = re.compile(
    r"\b(?:once|after|until|if|when|unless|ensure|confirm|check|verify|whether|only|before|assume|not|never|where|each"
    r"|every time|what|which|that)\b[^.;\n]{0,40}$"
)
_ONCE = re.compile(
    r"\b(?:once|after|until|if|when|unless|whether|only)\b[^.;\n]{0,40}\b(?:users?|owner|human|operator|customer)\b"
)
_FAVOURITE = re.compile(
    r"\b(?:approve|merge|accept|trust|allow|whitelist|pay|sign off|let through|release|grant)\w{0,3}\b[^\n]{0,40}\b"
    r"(?:any|all|every|everything|anything|each|whatever)\b"
    r"[^\n]{0,60}(?:\b(?:from|by|of|to|for) (?:the )?(?:\w{1,12} ){0,2}"
    r"@?[\w.-]{2,40})[^\n]{0,60}\b(?:without (?:\w{1,12} ){0,2}(?:review|check|look|ask|question|comment|test|confirm)"
    r"\w{0,4}|regardless|unseen|no questions|no matter|immediately|whatever (?:it|they))"
)


def _assumed(view: SkillView) -> Iterator[Hit]:
    """A consent that nobody gave, or that is given to somebody once and for all."""
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        if one.warned or one.words.isdisjoint(_AGREES):
            continue
        found = _CONSENT.search(one.low) or _FAVOURITE.search(one.low)
        if found is None or _ONCE.search(found[0]):
            continue
        if not one.warns_of(found) and not _IF.search(one.low[: found.start()]):
            yield one.hit(one.text, "low" if one.hinted else "high", at=found.start())


_AGREES = word_set(
    "agreed agree agrees consented consents consent approved approves approve authorized authorised authorizes "
    "granted grant waived opted permission approval allows allowed allow merge accept trust whitelist pay release "
    "approving merging accepting"
)


def _weight(one: Statement) -> Severity:
    money = re.search(
        r"\b(?:transfer|withdraw|sign|drain|funds|wallet|transactions?|unlimited|private keys?)\b|转账|提现|授权",
        one.low,
    )
    return "high" if money else "low"


RULES = (
    ScanRule(
        id="ASSUMED_CONSENT",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="high",
        message="It takes for granted, or has the agent note down, a consent that the user did not give.",
        hint="Remove the sentence. Consent is given by the user, for one thing at a time.",
        check=_assumed,
    ),
    ScanRule(
        id="ACTS_WITHOUT_ASKING",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="medium",
        message="It has the agent do something that cannot be undone without asking first.",
        hint="Have the agent ask, or deny the tool by policy.",
        check=_unasked,
    ),
)
