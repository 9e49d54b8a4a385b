"""Sentences that turn an agent against the one it works for."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

OVERRIDE = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass|discard|set aside|do not follow|stop following|supersede"
    r"|nullify)\b[^.,:\n]{0,30}"
    r"\b(?:(?:previous|prior|above|earlier|preceding|system|safety)\b[^.,\n]{0,24}\b(?:instructions?|prompts?|rules?"
    r"|guidelines?|directives?|messages?|constraints?|policies|guardrails?|restrictions?|safeguards?|filters?"
    r"|training)"
    r"|(?:existing|original|initial|former|default|user(?:'s)?|security|standing|built-in"
    r"|your)\b[^.,\n]{0,16}\b(?:instructions|prompts?|guidelines|directives|guardrails|safeguards|restrictions))\b"
    r"|\bignore (?:everything|anything) (?:above|before|the user|you were told)|\bforget (?:everything"
    r"|all)(?: that)? (?:you|above|before)"
    r"|\b(?:these|this|the following|skill(?:'s)?) (?:\w{1,12} ){0,2}(?:instructions?|rules?|directives?|skill"
    r"|polic(?:y|ies))\b[^\n]{0,50}\b(?:take (?:absolute |full )?(?:precedence|priority)|supersedes?|overrides?"
    r"|outranks?|have (?:higher|highest|absolute) (?:priority|precedence|authority))\b[^\n]{0,40}\b(?:users?(?:'s)?"
    r"|system|safety|previous|prior|developer|platform|human(?:'s)?|operator(?:'s)?)\b[^\n]{0,24}\b(?:instructions?"
    r"|prompts?|requests?|messages?|guidelines|rules|preferences|wishes|settings|polic(?:y|ies))\b"
    r"|\byou are (?:now |no longer )(?:in )?(?:\w{1,12} ){0,2}(?:developer mode|dan\b|unrestricted|jailbroken"
    r"|bound by|free from|god mode|admin(?:istrator)? mode|root mode|debug mode|maintenance mode|an? unrestricted"
    r"|restricted)"
    r"|\b(?:enter|enable|activate|switch (?:in)?to) (?:dan|god|jailbreak|unrestricted|privileged|unsafe) mode\b"
    r"|\byour (?:new|real|true|actual|hidden|secret) (?:task|goal|objective|instructions?|mission|role|purpose"
    r"|directive|priority) (?:is|are)\b"
    r"|(?:^|\s)(?:<\|?(?:im_start|system|endoftext)\|?>|\[/?inst\]|<<sys>>|\[system(?: (?:override|message|prompt"
    r"|note|update|directive))\]|###? ?system (?:override|prompt|message|note|directive))"
    r"|\b(?:previous|earlier|prior|former|user(?:'s)?|existing|old) (?:instructions?|orders?|rules?|requests?"
    r"|restrictions?|limits?|directives?)\b[^\n]{0,30}\b(?:no longer (?:hold|apply|valid|count|matter)|(?:are"
    r"|is) (?:void|cancelled|canceled|superseded|revoked|obsolete|null)|do(?:es)? not (?:apply|hold|count)|(?:has"
    r"|have) been (?:lifted|revoked|replaced|cancelled|superseded))"
    r"|\b(?:come|comes|take|takes|go|goes|rank|ranks|count|counts) (?:before|above|over|ahead of"
    r"|more than) (?:those of |what )?(?:the |your |my |any )?(?:users?|human|owner|operator)(?:'s)?\b|\b(?:message"
    r"|note|notice|update|instruction)s? from (?:the |your )?(?:developers?|anthropic|openai|platform|system"
    r"|administrators?|security team|vendor)\b[^\n]{0,10}[:—-]|^\s*(?:\[(?:developer|system"
    r"|admin(?:istrator)?)\]\s?:?|system:)\s"
    r"|\b(?:treat|consider|regard|take)\b[^\n]{0,40}\b(?:users?(?:'s)?|earlier|previous|prior|system)\b[^\n]{0,24}"
    r"\b(?:instructions?|requests?|orders?|rules?|prompts?|objections?|wishes)\b[^\n]{0,20}\bas (?:void|advisory"
    r"|optional|outdated|obsolete|superseded|cancell?ed|secondary|expired|not binding)\b"
    r"|\b(?:this|the following|these) (?:note|text|section|message|block|instructions?|paragraph)s? (?:is|are|was|were"
    r"|comes?|has been|have been) (?:written |issued |sent |provided |signed )?(?:directly )?(?:by|from) (?:the "
    r"|your )?(?:developers?|anthropic|openai|platform|system|administrators?|model provider)\b"
    r"|\b(?:handle|do|execute|serve|perform|carry out|work on|obey|follow|answer|complete)\b[^\n]{0,60}\b(?:before"
    r"|over|above|ahead of) (?:those|anything|whatever|what|everything|requests|tasks|orders) (?:(?:of|from|by"
    r"|that) )?(?:the |your )?(?:users?|human|owner|operator)\b"
    r"|\b(?:followed|obeyed|heeded|served|honou?red|trusted) (?:before|over|above|ahead of|more than) (?:that|those|the"
    r" (?:wishes|orders|words?)) of (?:the |your |my )?(?:users?|human|owner|operator)\b"
    r"|\bsystem override\b|\b(?:admin|developer|root) override(?:[:!]| (?:mode|code|active|enabled|accepted|granted))"
    r"|\bnew (?:system )?(?:instructions?"
    r"|directives?) from (?:the )?(?:admin|developer|system|operator|anthropic|openai|vendor)"
    r"|\b(?:safety|security|content|ethical|permission) (?:checks?|filters?|guidelines?|guardrails?|restrictions?"
    r"|polic(?:y|ies)|prompts?|confirmations?|rules?) (?:do not|don['’]?t|does not|no longer|are not"
    r"|is not) (?:apply|needed|required|necessary|relevant)"
    r"|\bignora(?:r)? (?:todas? )?(?:las? |los? )?(?:instrucciones|reglas|indicaciones|órdenes)\b"
    r"|\bignore (?:todas as|as) instruções|\bignorez (?:toutes )?les instructions"
    r"|\bignoriere (?:alle )?(?:vorherigen|bisherigen)"
    r"|(?:忽略|无视|忘记|不要理会|跳过)[^。\n]{0,12}(?:之前|以上|先前|所有|此前|原有|系统"
    r"|安全)[^。\n]{0,10}(?:指令|指示|规则|提示|限制|要求|策略)|(?:игнорир"
    r"|забуд|отмен|не учитыв)\w{0,4} [^\n]{0,30}(?:предыдущ|прежн|все|системн"
    r"|безопасн)\w{0,4} [^\n]{0,20}(?:инструкц|правил|указан|ограничен)"
    r"|以前の指示を無視|이전 (?:지시|명령)를? 무시"
)

_OVERRIDE_HINTS = (
    "ignor", "disregard", "forget", "overrid", "bypass", "discard", "set aside", "supersede", "precedence",
    "priority", "outrank",
    "you are now", "no longer", "mode", "your new", "your real", "your true", "your actual", "your primary",
    "your hidden", "your secret", "your main", "<|", "[inst", "<<sys", "[system", "system ",
    "override", "not apply", "not hold", "void", "cancel", "revoke", "lifted", "replaced", "obsolete", "before",
    "above", "ahead of", "over the", "from the dev", "from anthropic", "from openai", "from the", "from your",
    "developer", "admin", "do not follow", "stop following", "忽略", "无视", "忘记", "игнор", "забуд", "отмен",
    "以前の", "이전", "instructions from", "directive", "nullify", "drop",
    "advisory", "optional", "outdated", "secondary", "expired", "binding", "by anthropic", "by openai", "platform",
    "by the ", "provider",
)  # fmt: skip

_BIDS = re.compile(r"\W{0,3}(?:\w{1,14}\W{1,3}){0,4}(?:you|ignore|always|never|must|send|do not|new|obey|run)\b")
_SETTING = re.compile(r"override (?:the |its |a |this )?default\b")
"""A prompt of a program, which is a setting like others."""


def _override(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told():
        if not read.sees(one, _OVERRIDE_HINTS):
            continue
        found = OVERRIDE.search(one.low)
        if found is None or (one.script and not re.match(r"\s*(?:#|//|\*|\"\"\"|'''|print|echo)", one.text)):
            continue
        quoted = found.start() > 0 and one.low[found.start() - 1] in "\"'“‘「`"
        severity: Severity = "info" if one.warns_of(found) else "low" if quoted or one.kind == "row" else "high"
        tag = found[0].strip() == "<system>" and not _BIDS.match(one.low[found.end() : found.end() + 80])
        if severity == "high" and ((read.about_security and one.kind == "code") or tag or _SETTING.match(found[0])):
            severity = "low"
        yield one.hit(found[0], severity)


_FIRST = re.compile(
    r"\b(?:always|must|only) (?:be )?(?:use|used|load|loaded|call|called|invoke|invoked|activate"
    r"|run)\b[^\n]{0,40}\b(?:this skill|it|me)?\b[^\n]{0,60}\b(?:every|any|all)\b[^\n]{0,30}\b(?:requests?|tasks?"
    r"|messages?|topics?|conversations?|prompts?|questions?)\b"
)

_RIVALS = re.compile(
    r"\b(?:other|all other|competing|existing|alternative) (?:\w{1,12} )?(?:skills?|tools?"
    r"|agents?)\b[^\n]{0,30}\b(?:are|is|as) (?:\w{1,10} )?(?:deprecated|unsafe|insecure|disabled|obsolete|broken"
    r"|compromised|not (?:safe|allowed|trusted)|unreliable)|\b(?:never|do not|don['’]?t) (?:use|call|load"
    r"|trust) (?:any )?other (?:skills?|tools?)\b|\binstead of (?:any|all) other (?:skills?|tools?)\b"
)


def _first_in_line(view: SkillView) -> Iterator[Hit]:
    """A skill that wants all the work and speaks ill of the others."""
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        if "other" in one.low and (found := _RIVALS.search(one.low)) is not None and one.warns_of(None) is False:
            all_of_it = _FIRST.search(one.low) is not None or re.search(
                r"\bwhatever the (?:topic|task|request)|every request|any request", one.low
            )
            yield one.hit(found[0], "high" if all_of_it else "low")


RULES = (
    ScanRule(
        id="INSTRUCTION_OVERRIDE",
        ast="AST01",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It tells the agent to put aside the instructions it was given.",
        hint="Do not load it. A skill adds to what an agent can do; it has no say over its rules.",
        check=_override,
    ),
    ScanRule(
        id="PUSHES_IN_FRONT",
        ast="AST04",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It wants to be used for everything, and calls all other skills or tools unsafe.",
        hint="Use it only for what it is about, or not at all.",
        check=_first_in_line,
    ),
)
