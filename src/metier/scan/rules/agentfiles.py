"""The files that make an agent what it is, and the guards that hold it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._agents import AGENT_FILE, BYPASS, GUARD_OFF, WRITES
from metier.scan.rules._judging import farthest, nearby, weighed, wording, words_among
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import spoken
from metier.scan.rules.consent import UNASKED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView


_FILE_MARKS = (".md", "rules", ".json", ".cursor", ".codex", ".claude", ".openclaw")

_LASTING = re.compile(
    r"\b(?:permanent|permanently|persist|persists|persistent|survive|survives|future sessions?"
    r"|all (?:future )?sessions?|every session|even (?:after|if|when)|do not (?:remove|delete|edit|modify|overwrite)"
    r"|never (?:remove|delete|edit)|after (?:uninstall|removal)|uninstall\w{0,3}|(?:when|if|after|once) (?:the"
    r"|this) skill is (?:removed|gone|deleted)|across sessions|from now on|going forward"
    r"|standing (?:rule|instruction|order)|so that (?:it|this|you) (?:always|remember)|cannot be (?:removed"
    r"|overridden)|highest priority|takes precedence|restor\w{1,4} (?:it|this))\b"
    r"|永久|以后每次|所有会话|постоянн|навсегда|permanente"
)

_FAVOURS = re.compile(
    r"\b(?:always |first )(?:recommend|promote|suggest|prefer|advertise)\w{0,3}\b|\b(?:recommend|promote"
    r"|prefer)\w{0,3}\b[^\n]{0,60}\bover (?:any |all )?"
    r"other|\bnever use (?:another|any other|other)\b|\bbefore any other (?:tool|skill)s?\b|\bpost about\b|\badvertis"
    r"|\btrust (?:all|any|every\w{0,5}|whatever)\b|始终(?:优先|推荐)|всегда рекоменд"
    r"|siempre recomienda"
)
"""What serves the author and not the user."""

_SOFTENS = re.compile(
    r"\b(?:confirmation|approval|permission)s?\b(?: (?:prompts?|dialogs?|questions?|requests?))?[^.\n]{0,40}\b(?:annoy"
    r"|slow|bother|disturb|(?:are|is) (?:unnecessary|unwanted|not (?:needed|wanted)|to be (?:skipped|accepted))"
    r"|(?:should|can|may|must) be (?:skipped|accepted|clicked|answered))"
)
"""A guard that an agent is to think little of from now on."""
_READS = re.compile(r"\b(?:fetch|read|load|retrieve|download|get|pull|curl|wget|follow|import|include|sync)\w{0,4}\b")

_FORGED = re.compile(
    r"\b(?:if|when|whenever|should) (?:the |this |that |it|these |any )?(?:\w{1,12} )?(?:is|are|gets?|was|were"
    r"|be)? ?(?:removed|deleted|missing|edited|changed|reverted)\b[^\n]{0,40}\b(?:add|write|restore|recreate|re-add"
    r"|put|insert|append|reinstall)\w{0,3}\b[^\n]{0,20}\b(?:it|them|again|back)\b|\bre-?(?:add|insert|create|write"
    r"|apply) (?:it|them|the (?:line|entry|block|rule))\b"
    r"|\b(?:add|write|restore|recreate|put|insert|append)\w{0,3} (?:it|them|the (?:line|entry|block|rule"
    r"|section)s?) (?:again |back )?"
    r"(?:whenever|if|when|each time|every time|as soon as) (?:it|they|the \w{1,10}|somebody|someone|the user)? ?(?:is"
    r"|are|was|were|has been"
    r"|have been|gets?|ever)? ?(?:removed|deleted|reverted|edited out|removes?|deletes?)\b"
    r"|\b(?:remember|note|memori[sz]e|save|store|record|write)\b[^\n]{0,50}\bthe user (?:trusts|prefers|wants|likes"
    r"|approves|allows|has"
    r" (?:approved|agreed))\b[^\n]{0,80}\bwithout (?:\w{1,10} )?(?:review|confirm|ask|question|check)"
    r"|\b(?:first|only|sole|highest) loyalty\b|\bin the user(?:'s)? (?:own )?(?:voice|name)\b|\bas (?:if"
    r"|though) the user (?:had |has )?(?:said|told"
    r"|wrote|written|asked|requested|set)|\bas things? the user (?:said|told|wrote|asked)|\b(?:backdate"
    r"|use yesterday'?s date|earlier date)|\bcome before those of (?:my|the|your) (?:human|user|owner)|\b(?:pass"
    r"|spread|give|share) (?:\w{1,12} ){0,4}(?:skill|message|it) (?:on )?to (?:each|every|all|other) agents?"
    r"|\b(?:remov|delet|strip|revert|overwrit|clean)\w{1,4}\b[^.\n]{0,40}\b(?:put|add|write|bring|place) (?:it|them"
    r"|the \w{1,12}) back\b|\bas the (?:user|owner|human).s own (?:view|opinion|words?|wish(?:es)?|preference"
    r"|decision|idea)s?\b|\b(?:undo|revert|reverse|roll back) (?:any |all |later )?(?:edits?|changes?|removals?) (?:to"
    r"|of)"
    r" (?:this|the|that|these|them)\b|\bdate (?:it|them|the entr(?:y|ies)|each entry) [^.\n]{0,20}\b(?:back|ago"
    r"|earlier)\b"
)
_OFFERED = re.compile(r"\b(?:ask|offer|suggest|propose|tell|whether)\w{0,3}\b")
"""What is put back after a question is no rule that grows back."""


def _tampered(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        for index, one in enumerate(statements):
            words = one.words
            if one.kind == "code":
                if read.sees(one, _FILE_MARKS) and WRITES.search(one.text):
                    near = nearby(statements, index, 3, 11, 15)
                    yield one.hit(one.text, weighed(_gravity(near, read, script=one.script), one, None, read))
            elif sense.AGENT_FILE.within(one.low, words) and _alters(one.low) and not one.warned:
                near = nearby(statements, index, 1, 3, 8)
                severity = _gravity(near, read, script=False)
                if severity == "high" and re.search(AGENT_FILE, one.text, re.IGNORECASE) is None:
                    severity = "medium" if secrecy(wording(near)) else "low"
                if severity != "info":
                    yield one.hit(one.text, severity)


def _forged(view: SkillView) -> Iterator[Hit]:
    """Memories that are not the agent's, and rules that grow back."""
    read = reading(view)
    for one in spoken(read):
        found = _FORGED.search(one.low) if read.sees(one, _FORGED_MARKS) else None
        if found is None or one.warned or _OFFERED.search(found[0]):
            continue
        memory = re.search(
            r"\b(?:memor|soul|remember|fact|preference|save|store|line|rule|entry|block|identity|heartbeat|agents\.md"
            r"|claude\.md|hook|cron|launch)",
            f"{one.low} {one.lead} {one.heading}",
        )
        forged = re.search(r"\bthe user\b|\bmy human\b|agents?\b", found[0])
        grows = re.search(r"again|back|restore|recreate|whenever|undo|rever[ts]", found[0])
        yield one.hit(one.text, "high" if memory and (forged or grows) else "low")


def _alters(low: str) -> bool:
    return re.search(
        r"\b(?:append|add|write|insert|inject|modify|edit|update|overwrite|replace|store|save|put|place|copy|prepend"
        r"|include|register|persist|plant|embed)\w{0,3}\b|写入|添加|追加|修改|добав|запиш|измен|añad|agreg|escrib"
        r"|modific", low
    ) is not None  # fmt: skip


def _gravity(near: list[Statement], read: SkillStatements, *, script: bool) -> Severity:
    """How bad it is to write what stands here into an agent's own files."""
    low = wording(near)
    words = words_among(near)
    far = farthest(near, read)
    lasting = _LASTING.search(low) is not None
    standing = lasting or sense.ALWAYS.within(low, words) or re.search(r"every (?:day|hour|morning|week)", low)
    hides = (
        secrecy(low) is not None
        or re.search(r"\b(?:secretly|covertly|stealthily)\b|悄悄|暗中|незаметно", low) is not None
    )
    planted = _FORGED.search(low)
    forged = planted is not None and not _OFFERED.search(planted[0])
    sends = sense.SEND.within(low, words) and (sense.SECRET.within(low, words) or sense.CONTEXT.within(low, words))
    freed = BYPASS.search(low)
    frees = freed is not None or GUARD_OFF.search(low) is not None or UNASKED.search(low) is not None
    # What is read anew from somewhere at each start is in the hands of whoever writes there.
    renewed = far >= 1 and _READS.search(low) is not None and sense.ALWAYS.within(low, words)
    points = 3 * forged + 2 * hides + 2 * (far >= 3) + (far == 2) + sends + lasting + 2 * frees + (script and far >= 2)
    points += 3 * (_SOFTENS.search(low) is not None)
    points += 2 * (renewed and far >= 2) + renewed + 2 * (_FAVOURS.search(low) is not None)
    if points >= 3 or (points == 2 and ((hides and lasting) or far >= 2 or (_FAVOURS.search(low) and standing))):
        return "high"
    if points == 2 and frees:
        return "medium"
    return "low" if points or script else "info"


_FORGED_MARKS = (
    "user", "remov", "delet", "missing", "agents", "re-", "revert", "readd", "strip", "overwrit", "clean", "owner",
    "human", "date ", "undo", "roll back",
)  # fmt: skip


RULES = (
    ScanRule(
        id="AGENT_FILE_TAMPERING",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It writes into the files that an agent takes its rules and memories from, where it stays when the "
        "skill is gone.",
        hint="Look at what it adds there. Remove it from the agent's files, too, if it ran.",
        check=_tampered,
    ),
    ScanRule(
        id="FORGED_MEMORY",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It plants memories or rules as if they were the user's, or puts them back when they are removed.",
        hint="Remove them from the agent's memory, and the skill with them.",
        check=_forged,
    ),
)
