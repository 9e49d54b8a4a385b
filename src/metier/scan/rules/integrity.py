"""Work that is done for somebody else: results that are bent, money that goes elsewhere."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._judging import farthest
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_ALWAYS_SAY = re.compile(
    r"\b(?:always|must|automatically|every (?:response|reply|answer|time|output|email|message|post|commit|file)"
    r"|in (?:all|every|each|any)|whenever|when(?:ever)? (?:the )?users? asks?)\b[^\n]{0,120}"
    r"\b(?:recommend|promote|suggest|mention|favou?r|prefer|insert|append|include|add|link|rank|present|steer"
    r"|advertise|plug|push|endorse)\w{0,4}\b[^\n]{0,120}\b(?:affiliate|referral|ref(?:erral)? code|promo(?:tional)?"
    r"|discount code|sponsor\w{0,3}|our (?:product|service|token|partner|platform|exchange|site)|partner|utm_"
    r"|invite (?:code|link)|coupon|token|coin|exchange)\b"
    r"|\b(?:insert|append|add|inject|include|embed)\w{0,3}\b[^\n]{0,60}\b(?:affiliate|referral|tracking"
    r"|promo)\w{0,4} (?:link|code|tag|id|parameter|pixel)s?\b"
)

_BENT = re.compile(
    r"\b(?:alter|falsify|fabricat\w{1,3}|manipulat\w{1,3}|tamper|skew|bias|inflate|downplay|misreport|misrepresent"
    r"|doctor|distort|fake|invent|omit|suppress|understate|overstate|sabotage|corrupt|degrade|weaken"
    r"|subtly (?:change|modify|alter|introduce|adjust|insert))\w{0,4}\b[^\n]{0,80}\b(?:results?|outputs?|reports?"
    r"|numbers?|findings?|figures?|reviews?|rankings?|scores?|tests?|data|code|answers?|summar(?:y|ies)|warnings?"
    r"|vulnerabilit(?:y|ies)|logs?|prices?|analysis|evidence|metrics|totals?|citations?)\b"
    r"|\b(?:report|say|claim|state|mark|treat|declare|respond|answer|tell)\w{0,3}\b[^\n]{0,60}\b(?:no (?:issues"
    r"|problems|vulnerabilities|errors|findings)|passed|success(?:ful)?|safe|secure|clean|approved"
    r"|complete)\b[^\n]{0,60}\b(?:regardless|even (?:if|when|though)|no matter|always|without (?:checking|running"
    r"|verifying)|whether or not)\b"
    r"|\b(?:regardless|even (?:if|when)|no matter)\b[^\n]{0,60}\b(?:report|say|claim|state"
    r"|mark)\b[^\n]{0,40}\b(?:no issues|passed|success|safe|secure|clean)\b"
)

_PLANTED = re.compile(
    r"\b(?:insert|add|inject|include|embed|append|place|put|plant|prepend"
    r"|introduce)\w{0,3}\b[^\n]{0,80}\b(?:snippet|code|script(?: tag)?|function|import|dependency|line|backdoor"
    r"|tracker|beacon|pixel|payload|endpoint|user|account|key)\b[^\n]{0,80}\b(?:every|all|any"
    r"|each)\b[^\n]{0,40}\b(?:project|file|page|code|component|app|application|html|build|repo\w{0,7}|function"
    r"|output|commit|generated|you (?:write|create|generate))"
    r"|\b(?:every|all|any|each)\b[^\n]{0,40}\b(?:project|file|page|component|app|application|html|build|repo\w{0,7}"
    r"|code|script)\b[^\n]{0,40}\b(?:you (?:write|create|generate)|generated)\b[^\n]{0,60}\b(?:must "
    r"|should )?(?:insert|add|inject|include|embed|append|contain|import|load)\w{0,3}\b"
    r"|\b(?:add|create|insert|include|keep|leave|register|seed)\w{0,3}\b[^\n]{0,30}\b(?:hidden|second|extra"
    r"|additional|default|maintenance|support|backup|service|undocumented|fallback)\b[^\n]{0,12}\b(?:admin\w{0,8}"
    r"|user|account|login|superuser|endpoint|route|key|password)\b"
    r"|\b(?:introduce|insert|add|leave|plant)\w{0,3}\b[^\n]{0,40}\b(?:backdoor|vulnerabilit(?:y|ies)|weakness"
    r"|hidden (?:user|account|endpoint|admin))\b"
)

_BENDS = word_set(
    "recommend promote suggest mention favor favour prefer insert append include add link rank present "
    "steer advertise plug push endorse inject embed alter falsify fabricate fabricated manipulate tamper skew bias "
    "inflate downplay "
    "misreport misrepresent doctor distort fake invent omit suppress understate overstate sabotage corrupt degrade "
    "weaken subtly report say claim state mark treat declare respond answer tell place put plant prepend introduce "
    "leave "
    "rewrite replace change convert wrap redirect route adjust raise lower round shift shave pad increase reduce "
    "bump move tilt soften tone send share give post use keep store copy forward upload invite credit pay register "
    "recommends adds inserts including adding inserting manipulating"
)

_RELINKED = re.compile(
    r"\b(?:rewrite|replace|change|convert|wrap|redirect|route)\w{0,3}\b[^\n]{0,60}\b(?:links?"
    r"|urls?)\b[^\n]{0,40}(?:\bto\b|\bwith\b|\bthrough\b|\bvia\b)"
)

_WHATEVER = re.compile(
    r"\b(?:whatever|regardless of|no matter what|irrespective of)\b[^\n]{0,30}\b(?:data|results?|facts?|numbers?"
    r"|evidence|user|they|sources?|says?|findings?|topic)\b"
)

_SHADED = re.compile(
    r"\b(?:adjust|raise|lower|round|shift|shave|pad|increase|reduce|bump|move|tilt|soften"
    r"|tone down)\w{0,3}\b[^\n]{0,50}\b(?:figures?|numbers?|prices?|results?|amounts?|totals?|scores?|rankings?"
    r"|values?|findings?|ratings?|estimates?|odds|reviews?|remainders?)\b[^\n]{0,60}\b(?:so that|look(?:s|ing)?"
    r"|natural|by up to|slightly|a little|a bit|in favou?r|to (?:make|favou?r)|line with|where needed)\b"
)

_OUR_GAIN = re.compile(
    r"\b(?:send|add|share|give|post|use|recommend|replace|route|include|keep|store|copy|forward|upload|invite|credit"
    r"|link|pay|register)\w{0,3}\b[^\n]{0,90}\b(?:our|us)\b(?:\s|[^\n]{0,30}\b)(?:partners?|escrow|maintainers"
    r"|team|server|service|wallet|account|index|archive|backend|cloud|analytics|address|relay|engine|research"
    r"|sponsors?|shop|model|training data|inbox|dataset)\b"
)

_FAVOURED = re.compile(
    r"\b(?:rank|list|place|put|recommend|prefer|name|pick|choose|favou?r|rate|score|suggest|present|mention|answer"
    r"|conclude)\w{0,3}\b[^\n]{0,80}\b(?:regardless|whatever|no matter|even (?:if|when|though)|irrespective"
    r"|whether or not)\b[^\n]{0,60}"
    r"\b(?:users?|they|data|results?|scores?|evidence|reviews?|cheaper|better|worse|prices?|ratings?"
    r"|facts?|numbers?|alternatives?|competitors?|asked|says?|merits?)\b"
)

_BACK_DOOR = re.compile(
    r"\b(?:hidden|second|undocumented|maintenance|support|secret|unlisted)\b[^\n]{0,16}\b(?:admin\w{0,8}|accounts?|login"
    r"|superuser|users?|endpoint|route)\b"
)

_EVASIVE = re.compile(
    r"\b(?:never|do not|don['’]?t|should not|must not|avoid|test|example|detect|prevent|ensure (?:no|that no))\b"
)


def _bent(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        if one.warned:
            continue
        words = one.words
        if words.isdisjoint(_BENDS):
            continue
        found = (
            _ALWAYS_SAY.search(one.low)
            or _PLANTED.search(one.low)
            or _BENT.search(one.low)
            or _RELINKED.search(one.low)
            or _SHADED.search(one.low)
            or _OUR_GAIN.search(one.low)
            or _FAVOURED.search(one.low)
        )
        if (
            found is None
            or one.warns_of(found)
            or _EVASIVE.search(one.low[: found.start()])
            or _EVASIVE.search(found[0])
            or (_OUR_GAIN.match(found[0]) and re.search(r"\bwe $", one.low[: found.start()]))
        ):
            continue
        far = farthest((one,), read)
        hides = (
            secrecy(one.low) is not None
            or re.search(
                r"\b(?:subtly|naturally|seamlessly|as if|so that (?:it|they|nobody)|organic\w{0,4})\b", one.low
            )
            is not None
        )
        sold = (
            re.search(r"affiliate|referral|ref=|utm_|promo|sponsor|invite code|backdoor|vulnerabilit", found[0])
            is not None
        )
        points = (
            2 * hides
            + (far >= 2)
            + (far >= 3)
            + sold
            + sense.ALWAYS.within(one.low, words)
            + (_WHATEVER.search(one.low) is not None)
        )
        if _RELINKED.match(found[0]) is not None:
            points = 3 if far >= 2 else 0
        if _FAVOURED.match(found[0]) is not None:
            points += 1
        if _PLANTED.match(found[0]) is not None and _BACK_DOOR.search(found[0]) is not None:
            points += 2
            hides = True
        if _SHADED.match(found[0]) is not None:
            points += 2
        if _OUR_GAIN.match(found[0]) is not None:
            points += 1 + (far >= 2 or sense.CONTEXT.within(one.low, words) or sense.SECRET.within(one.low, words))
        severity: Severity = (
            "high"
            if points >= 3
            or (points == 2 and (hides or (sold and far >= 2) or _SHADED.match(found[0]) or _OUR_GAIN.match(found[0])))
            else "medium"
            if points == 2
            else "low"
        )
        if points:
            yield one.hit(one.text, severity)


RULES = (
    ScanRule(
        id="OUTPUT_TAMPERING",
        ast="AST01",
        category="integrity_output_manipulation",
        severity="high",
        message="It bends what the agent says or writes in somebody's favour.",
        hint="Remove the sentence, or do not trust what the agent says with this skill.",
        check=_bent,
    ),
)
