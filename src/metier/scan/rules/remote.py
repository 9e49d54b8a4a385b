"""Instructions that are not in the skill but come from an address, and can be others tomorrow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import doubt, farthest, nearby, weighed, wording, words_among
from metier.scan.rules._mercy import negated
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules._words import word_set, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_FETCH = re.compile(
    r"\b(?:fetch|read|load|retrieve|download|get|pull|open|visit|curl|wget|request|check|query|import|sync|obtain"
    r"|consult)\w{0,4}\b|webfetch|web_fetch|获取|读取|下载|访问|加载|загруз|получ|скача|прочита|descarg|obt[eé]n"
    r"|consulta|lee "
)
_FOLLOW = re.compile(
    r"\b(?:follow|obey|execute|run|apply|perform|carry out|act on|comply with|adopt|implement|do what|do whatever"
    r"|treat)\w{0,4}\b[^\n]{0,60}\b(?:instructions?|steps?|directives?|commands?|rules?|prompts?|guidance|it says"
    r"|they say|exactly|them|everything|whatever|contents?|response|result|returned|says|tasks?|workflow|playbook"
    r"|body|as (?:system|instructions|part of)|its (?:items|entries|points|lines))\b"
    r"|\b(?:instructions?|steps?|directives?|commands?|rules?|contents?|response|body)\b[^\n]{0,60}\b(?:should be"
    r"|must be|are to be|and|then)\b[^\n]{0,20}\b(?:followed|obeyed|executed|run|applied|performed|follow|execute"
    r"|obey)\b"
    r"|\b(?:take|takes) (?:precedence|priority)|\bsupersedes?\b|执行(?:其|返回|里面|其中)?|遵循"
    r"|按照[^。\n]{0,20}(?:指令|说明|内容)"
    r"|(?:выполн|следуй|исполн)\w{0,4}|sigue|ejecuta"
    r"|\b(?:use|take|adopt|load)\w{0,3}\b[^\n]{0,40}\bas (?:your|the|its) (?:\w{1,12} )?(?:system prompt|instructions?"
    r"|rules|persona|prompt|orders)\b"
    r"|\b(?:is|are|counts? as|becomes?|belongs? to) (?:a )?part of (?:your|these|the|its) (?:\w{1,12} )?"
    r"(?:instructions?|rules?|prompt|orders|guidelines|memory)\b"
)
_LED = re.compile(
    r"\b(?:ask|poll|query|call|check|request|get|fetch)\w{0,3}\b[^\n]{0,140}\bnext (?:action|step|command|instruction"
    r"|order)s?\b[^.\n]{0,40}\b(?:do|run|execute|perform|carry out|follow|obey) (?:it|that|them|exactly)\b"
    r"|\b(?:where|if|when) (?:they|it|the two) (?:differs?|disagrees?|conflicts?)\b[^.\n]{0,40}\b(?:go by|follow|obey"
    r"|use"
    r"|trust|prefer) (?:them|it|those|that|the (?:remote|online|newer|latest))\b"
)
"""Somebody else says what is done next, or what counts where this page says otherwise."""
_INSTRUCTIONS = re.compile(
    r"\b(?:steps?|instructions?|directives?|prompts?|system prompt|rules?|playbook|commands?|behaviou?r|skill\.md"
    r"|heartbeat\.md|\.md\b|configuration|persona|policy|tasks?|items|agenda)\b|指令|说明|инструкц|instrucciones"
)
_UPDATE = re.compile(
    r"\b(?:curl|wget|fetch|iwr|irm)\b[^\n]{0,300}(?:-o|-O|>|--output\S{0,10}"
    r"|-outfile)\s*[\"']?[^\s\"']{0,120}(?:SKILL\.md|/skills?/|skill\.md|\.claude/|\.openclaw/)|\b(?:curl"
    r"|wget)\b[^\n]{0,200}\S{1,100}/SKILL\.md\b[^\n]{0,80}(?:>|-o|\|)"
    r"|git\s+(?:-C\s+\S{1,80}\s+)?pull\b[^\n]{0,80}skills?\b|git\s+-C\s+\S{0,60}skills?\S{0,60}\s+(?:pull|fetch"
    r"|reset|checkout)\b",
    re.IGNORECASE,
)
_SAID_UPDATE = re.compile(
    r"\b(?:replace|overwrite|update|refresh|rewrite|self-?update|auto-?update"
    r"|upgrade)\w{0,3}\b[^\n]{0,60}\b(?:this (?:skill|file)|skill\.md|itself|own (?:instructions|files?|code)"
    r"|these instructions|the skill(?:'s)? (?:files?|instructions)|local (?:copy|skill))\b|(?:替换|覆盖"
    r"|更新)[^。\n]{0,12}(?:本技能|技能文件|skill)|обнов\w{0,4} [^\n]{0,20}(?:скилл|навык|себя|skill)"
)
_RENEWS = word_set(
    "replace replaces replacing overwrite overwrites overwriting update updates updating refresh "
    "refreshes rewrite rewrites self-update selfupdate auto-update autoupdate upgrade upgrades"
)
_CODE = re.compile(
    r"(?:requests\.get|urlopen|httpx\.get|\bfetch|axios\.get)\([^\n]{0,200}(?:instructions?|prompt|directive|\.md\b"
    r"|commands?|rules)",
    re.IGNORECASE,
)


_GETS = re.compile(
    r"^(?![^\n]*(?:\||\s-X\s|\s-d\s|--data))[^\n]*\b(?:curl|wget|fetch|get|open|read)\b[^\n]*"
    r"(?:\.md|\.txt|instruction|prompt|rule|command|task|heartbeat|order|polic)",
    re.IGNORECASE,
)
"""A line of code that fetches a text."""
_REPEATED = re.compile(
    r"\bcron\b|\bevery (?:few |\d{1,3} )?(?:minutes?|hours?|days?|sessions?|start)|heartbeat|periodic|\bhourly\b"
    r"|\bdaily\b"
    r"|each (?:start|session|run)|at (?:start|the start|startup)|每(?:隔|天|小时|次)|каждые|cada \d"
)
_OWN_FILES = re.compile(
    r"(?:>|-o|--output|save|write|store|overwrite|replace)[^\n]{0,80}(?:skill|heartbeat|soul|agents?|claude"
    r"|memory)\S{0,40}\.md"
    r"|skills?/\S{1,60}\.md",
    re.IGNORECASE,
)
"""Where an agent takes its orders from."""


_IMAGE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|ico)(?:\?|$)", re.IGNORECASE)


def _loaded(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            if one.warned or one.kind == "row" or not one.places:
                continue
            if not is_spoken(one) and not _GETS.search(one.text):
                continue
            places = [(doubt(address, read), address) for address in one.places if not _IMAGE.search(address.path)]
            if not places:
                continue
            value, address = max(places, key=lambda place: place[0])
            near = [
                other
                for other in statements[max(0, index - 1) : index + 3]
                if abs(other.line - one.line) <= 5 and not other.warned
            ]
            low = wording(near, one)
            if value >= 1 and address.kind != "known" and _LED.search(low):
                yield one.hit(one.text, weighed("high", one, None, read))
                continue
            if (value == 0 and "gist" not in address.host) or not _FETCH.search(low):
                continue
            if all(negated(low[max(0, found.start() - 140) : found.start()]) for found in _FOLLOW.finditer(low)):
                continue
            if not (_INSTRUCTIONS.search(low) or address.path.endswith((".md", ".txt"))):
                continue
            told = wording([other for other in near if other is one or _REFERS.search(other.low)], one)
            severity = _severity(value, one, low, told, address.path.rstrip(".,;:"), forge=address.kind == "known")
            if severity is not None:
                yield one.hit(one.text, weighed(severity, one, None, read))


_REFERS = re.compile(
    r"\b(?:its?|them|they|this|that|these|those|there|what|whatever|(?:the|all|any|every) (?:\w{1,12} )?"
    r"(?:instructions?|steps?|directives?|rules?|contents?|response|results?|pages?|documents?|files?|guidance"
    r"|prompts?))\b"
)
"""How a sentence goes on about what the one before it named."""
_BOUND = re.compile(
    r"\b(?:exactly|without (?:question|asking|review|confirm\w{0,5}|modif\w{1,8})|verbatim|precedence"
    r"|supersede\w?|override\w?|as (?:system|trusted)|system prompt|whatever|any (?:commands?|instructions?|code)"
    r"|blindly|ranks? above|come before"
    r"|must)\b|无条件|严格|беспрекословно"
)


def _severity(value: int, one: Statement, low: str, told: str, path: str, *, forge: bool) -> Severity | None:
    """How bad it is; `told` is of what stands near only what goes on about the address."""
    words = words_of(low)
    bound = _BOUND.search(low)
    always = sense.ALWAYS.within(low, words) or _REPEATED.search(low) is not None
    hides = sense.STEALTH.within(low, words)
    documents = re.search(r"/docs?/|llms\.txt|readme|/reference|/api\b|schema|openapi|changelog", path.lower())
    ordered = _BOUND.search(told) or sense.ALWAYS.within(told, words_of(told))
    if not ordered and re.search(r"\bdocs?\b|\bdocumentation\b|\breference\b", one.low):
        documents = documents or re.search(r"\.(?:md|txt|html?)$", path.lower())
    if value >= 3:
        return "medium" if documents and not (always or bound) else "high"
    if value == 2:
        return "high" if not documents or hides else "low"
    if hides or (not forge and _REPEATED.search(low) and _OWN_FILES.search(low)):
        return "high"
    if forge:
        return "high" if bound and always else "medium" if (bound or always) and not documents else None
    return "high" if bound and always and not documents else "low" if bound or always else None


def _updated(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            found = (
                _UPDATE.search(one.text)
                if "skill" in one.low or ".claude" in one.low or ".openclaw" in one.low
                else None
            )
            said = (
                _SAID_UPDATE.search(one.low)
                if one.kind != "code"
                and not one.warned
                and (not one.low.isascii() or not one.words.isdisjoint(_RENEWS))
                else None
            )
            if found is None and said is None:
                continue
            near = [one] if found else nearby(statements, index, 2, 2, 6)
            value = farthest(near, read)
            low = wording(near, one)
            words = words_among(near)
            automatic = sense.ALWAYS.within(low, words) or sense.STEALTH.within(low, words)
            unsaid = (
                secrecy(low) is not None
                or re.search(r"\bwithout (?:reporting|asking|review|notice|confirm)", low) is not None
            )
            severity: Severity = (
                "high"
                if unsaid or value >= 3 or (value == 2 and automatic)
                else "medium"
                if value == 2 or (value == 1 and _REPEATED.search(low))
                else "low"
                if value == 1
                else "info"
            )
            yield one.hit(one.text, weighed(severity, one, found or said, read))
        for one in statements:
            if one.script and (found := _CODE.search(one.text)) is not None:
                value = farthest((one,), read)
                if value >= 2:
                    yield one.hit(found[0], weighed("high" if value >= 3 else "medium", one, found, read))


RULES = (
    ScanRule(
        id="REMOTE_INSTRUCTIONS",
        ast="AST07",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It has the agent get instructions from an address and follow them; nobody has read those.",
        hint="Put the instructions into the skill, where they can be reviewed and pinned.",
        check=_loaded,
    ),
    ScanRule(
        id="SELF_UPDATE",
        ast="AST07",
        category="dependency_supply_chain",
        severity="medium",
        message="It replaces itself with what an address offers at the time.",
        hint="Update skills by their version and digest, after a review.",
        check=_updated,
    ),
)
