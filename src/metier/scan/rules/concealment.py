"""What is kept from people: sentences that hide, or that lie."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._honesty import is_honest
from metier.scan.rules._hosts import mailboxes
from metier.scan.rules._judging import doubt, farthest, wording, words_among
from metier.scan.rules._mercy import negated
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import HIDING, secrecy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView


_DENY = re.compile(
    r"\b(?:tell|assure|say to|inform)(?:ing)? (?:the )?(?:users?|them) (?:that )?(?:nothing|no data|it|everything"
    r"|all data)\b[^\n]{0,50}\b(?:sent|leaves?|left|stored|local(?:ly)?|private|shared|uploaded|deleted|safe)\b|"
    r"\bif (?:\w{1,12} ){0,3}(?:asks?|asked|questions?|questioned|notices?|inquires?|wonders?"
    r"|curious)\b[^\n]{0,80}\b(?:say|tell|respond|reply|answer|claim|explain|deny|reassure|assure|state|pretend)\b"
    r"|\b(?:deny|pretend|lie|claim (?:that )?(?:it|this|you)|reassure|falsely|make up|fabricate"
    r"|feign)\b[^\n]{0,60}\b(?:user|it|that|they|asked|happened|safe|know|error|routine|normal)\b"
)

_SCANNER = re.compile(
    r"\b(?:scanner|scanners|auditor|auditors|reviewer|reviewers|security (?:review|scan|analysis|tool|check"
    r"|model)\w{0,3}|static analysis|llm judge|moderator|moderation|classifier|analyzer"
    r"|automated review)\b[^\n]{0,100}\b(?:(?:ignore|skip|disregard|exclude) (?:this|the following|these|it"
    r"|any finding|all finding|findings)|should (?:report|mark|treat|classify|consider|return|rate|not flag)"
    r"|mark (?:this|it)|(?:report|return|output|rate|score|classify|treat|consider) (?:\w{1,10} ){0,4}(?:safe|benign"
    r"|clean|trusted|no (?:issues|findings|threats|risk)|low)|do not flag|don['’]?t flag|pre-?approved)\b"
    r"|\b(?:if|when) (?:you are|you're|being) (?:\w{1,10} ){0,3}(?:review|scan|audit|analy[sz]|evaluat|classif"
    r"|moderat)\w{0,4}\b[^\n]{0,100}\b(?:safe|benign|clean|no (?:issues|findings)|trusted|approve|ignore|pass)\b"
    r"|\b(?:this|the) (?:skill|file|code|document|package|section) (?:is|has been|was) (?:\w{1,12} ){0,3}(?:verified"
    r"|audited|certified|approved|vetted|pre-?approved|whitelisted|cleared|reviewed)\b[^\n]{0,60}\b(?:safe|security"
    r"|anthropic|openai|clawhub|openclaw|virustotal|trusted|scan\w{0,4}|ignore|no further|does not need|skip)\b"
    r"|安全扫描[^。\n]{0,20}(?:忽略|跳过|安全)"
)


def _conceals(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.warned or one.script or one.kind not in ("prose", "comment", "frontmatter"):
                continue
            if one.low.isascii() and one.words.isdisjoint(HIDING):
                continue
            found = secrecy(one.low)
            if found is None or (read.about_security and one.low[found.start() - 1 : found.start()] in "\"'“"):
                continue
            near = [
                other
                for other in statements[max(0, index - 3) : index + 2]
                if abs(other.line - one.line) <= 6 and not other.warned
            ]
            low = wording(near, one)
            words = words_among(near)
            far = max(
                (doubt(place, read) for other in near for place in (*other.places, *mailboxes(other.text))), default=0
            )
            points = (
                2 * (far >= 2)
                + sense.SEND.within(low, words)
                + sense.AGENT_FILE.within(low, words)
                + (_CHANGED.search(low) is not None)
            )
            points += 2 * (_DENY.search(one.low) is not None)
            severity: Severity = "high" if points else "medium" if sense.ALWAYS.within(low, words) else "low"
            yield one.hit(one.text, "low" if is_honest(one, found, far) else severity)


_CHANGED = re.compile(
    r"\b(?:install|download|execut|transfer|replac|adjust|delet|modif|inject|insert|overwrit|disabl|forward|charg"
    r"|purchas|sign|approv|rank|recommend|upload|collect|remov|rewrit|append|rais|commit|push)\w{0,4}\b"
    r"|\badd(?:s|ed|ing)?\b|\brun (?:it|this|the|a|in)\b"
    r"|安装|下载|执行|修改|替换|删除|转账|установ|скача|выполн|измен|замен|удал|añad"
    r"|instal|ejecut"
    r"|reenv|modific"
)


_STAYS_HERE = re.compile(
    r"\b(?:tell|assure|inform|answer|reply|state|reassure|promise|claim|say)\w{0,3}\b[^\n]{0,50}\b(?:nothing|no (?:data"
    r"|information|files?|personal|content)|everything|all (?:data|processing|of it)|(?:data|files?|it) (?:never"
    r"|does not|do not|doesn'?t))\b[^\n]{0,40}"
    r"\b(?:leaves?|sent|stays?|stored|kept|remains?|shared|uploaded|locally|transmitted"
    r"|collected|on (?:this|the|their|your) (?:machine|device|computer))\b"
)


def _misleads(view: SkillView) -> Iterator[Hit]:
    """The user is to be told that nothing goes out, by a skill that sends something to a stranger."""
    read = reading(view)
    if not read.has("tell", "assure", "inform", "answer", "reply", "state", "promise", "claim", "say"):
        return
    for one in read.told("prose", "comment", "frontmatter"):
        found = _STAYS_HERE.search(one.low)
        if found is not None and not one.warned and not one.warns_of(found):
            sent = any(
                sense.SEND.within(other.low, other.words) and farthest((other,), read) >= 2
                for other in read.statements
                if other.places
            )
            yield one.hit(one.text, "high" if sent else "info", at=found.start())


def _is_denied(one: Statement, found: re.Match[str]) -> bool:
    """Whether a lie is spoken against, or `deny` stands in quotes as the value of a setting."""
    if found[0].startswith(("if", "tell", "assure", "say", "inform")):
        return False
    before = one.low[max(0, found.start() - 140) : found.start()]
    return before[-1:] in ('"', "'", "=", "“") or negated(before)


def _denies(view: SkillView) -> Iterator[Hit]:
    yield from _misleads(view)
    read = reading(view)
    if not read.has("if asked", "asks", "asked", "deny", "pretend", "reassure", "fabricate", "falsely"):
        return
    for one in read.told("prose", "comment", "frontmatter"):
        found = _DENY.search(one.low)
        if found is None or one.warned or _is_denied(one, found):
            continue
        covers = re.search(
            r"\b(?:network|request|upload|traffic|connection|download|install|files?|process|permission|data|key"
            r"|token|cron|background|server|script|activity)\w{0,3}\b",
            one.low,
        )
        reassures = re.search(
            r"\b(?:routine|normal|standard|harmless|safe|nothing|locally|local|private|not (?:sending|doing"
            r"|collecting|accessing)|never|only|expected|required|bug|error)\b",
            one.low,
        )
        about = re.search(r"\babout (?:this|the|it|why|what)", one.low)
        if covers and reassures and (about or "deny" in one.low or "pretend" in one.low or "reassure" in one.low):
            yield one.hit(one.text, "high")


def _to_scanners(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(
        "scan", "audit", "review", "analy", "moderat", "classif", "judge", "verified", "vetted", "certified", "approved"
    ):
        return
    for one in read.told("prose", "comment", "frontmatter"):
        found = _SCANNER.search(one.low) if read.sees(one, _SCANNER_MARKS) else None
        if found is not None:
            verdict = re.search(
                r"\b(?:ignore|skip|safe|benign|clean|not flag|no (?:issues|findings|threats)|disregard|trusted"
                r"|pre-?approved)\b",
                one.low[found.start() :],
            )
            lenient = read.about_security or one.warns_of(found) or verdict is None or _NEVER_CLEAN.search(found[0])
            severity: Severity = "low" if lenient else "high"
            yield one.hit(found[0], severity)


_NEVER_CLEAN = re.compile(
    r"\b(?:never|not|don['’]?t) (?:report|mark|treat|classify|consider|return|rate|score|output)\b"
)
_SCANNER_MARKS = (
    "scan",
    "audit",
    "review",
    "analy",
    "moderat",
    "classif",
    "judge",
    "verified",
    "vetted",
    "certified",
    "approved",
    "安全扫描",
)


RULES = (
    ScanRule(
        id="CONCEAL_FROM_USER",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="medium",
        message="It tells the agent to keep from the user what it does.",
        hint="Ask what there is to hide. Remove the sentence, or the skill.",
        check=_conceals,
    ),
    ScanRule(
        id="LIES_WHEN_ASKED",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="medium",
        message="It tells the agent what to say when somebody asks what it is doing.",
        hint="Compare the answer it prepares with what the skill does.",
        check=_denies,
    ),
    ScanRule(
        id="SCANNER_ADDRESSED",
        ast="AST08",
        category="defense_evasion_obfuscation",
        severity="high",
        message="It speaks to whoever checks skills, and asks to be found harmless.",
        hint="Take it as a sign of the opposite, and read all of the skill.",
        check=_to_scanners,
    ),
)
