"""Texts that are fetched and obeyed: what is done is decided elsewhere, and nobody asks the user.

Whose host it is does not matter here. To read a page and act on it is what agents do; to run whatever it says, above
all else and unasked, gives the machine to whoever writes the page.
"""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._judging import doubt, weighed
from metier.scan.rules._passages import passages
from metier.scan.rules._places import MAKERS
from metier.scan.rules._pretexts import AGREED
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._spoken import is_spoken
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rules._hosts import HostAddress
    from metier.scan.rules._passages import Passage
    from metier.scan.rules._reading import SkillStatements
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView

_FETCHES = re.compile(
    r"\b(?:web_?)?(?:fetch|read|load|retrieve|download|get|pull|open|curl|wget|request|check|query|sync|obtain"
    r"|consult|kept|lives"
    r"|published|poll)\w{0,4}\b"
    r"|获取|读取|下载|访问|加载|загруз|получ|скача|прочита|откро|descarg|obt[eé]n|consulta|lee |lade\b|lies\b|hole?\b"
    r"|récup|télécharg|lis\b|charge|baix|leia|scaric|leggi|取得|読|다운로드|읽"
)
_CALLS = re.compile(r"\s-x ?(?:post|put|patch|delete)\b|\s-(?:d|f|t)\s|--(?:data|form|json|upload)|\|\s*\w")
"""A command that hands something over, or works on what comes back itself."""

_WHAT = (
    r"(?:steps|commands|instructions|directives|items|tasks|orders|rules|actions|points|lines|entries|them"
    r"|(?:each|every|any) (?:\w{1,12} )?(?:step|command|instruction|directive|item|task|order|action|line|entry)"
    r"|all of (?:it|them)|everything|whatever|what(?:ever)? (?:it|they|the \w{1,14}) (?:says?|tells?|asks?|contains?)"
    r"|it says)"
)
_ACTED_ON = re.compile(
    r"\b(?:execute|perform|complete|carry out|carries out|run|follow|obey|do(?= what| all| each| every| as )|act on"
    r"|apply|work through"
    r"|implement)\w{0,2}\b"
    rf"[^.;\n]{{0,50}}\b{_WHAT}\b"
    rf"|\b{_WHAT}\b[^.;\n]{{0,40}}\b(?:are|is|be|must be|to be|get) (?:\w{{1,12}} )?(?:executed|performed|run|followed"
    r"|obeyed|carried out)\b"
    r"|执行|照做|遵[照循守]|выполн|исполн|следуй|ejecut|sigue|exécut|suis\b|suivez|führe?\b[^.\n]{0,60}\baus\b|befolge"
    r"|execute\b|siga\b|esegu|segui\b|実行|従|실행|따르"
)
"""What was fetched is done."""
_RUN_FROM_IT = re.compile(
    r"\b(?:if|when|whenever|wherever|where|should) (?:it|they|the \w{1,14}"
    r"|there)\b[^.;\n]{0,40}\bcommands?\b[^.;\n]{0,30}\b(?:run"
    r"|execute)\b"
    r"|\b(?:run|execute)s? (?:all |any |the |every |each )?(?:shell |bash |terminal )?commands? (?:that )?(?:it|they"
    r"|the (?:response|text|file|page|answer|plan|reply|ruleset|result|body|document)) (?:contains?|holds?|lists?|has"
    r"|gives?|returns?|names?)\b"
    r"|\bcommands? (?:in|from|inside|within|of) (?:it|them|there|the (?:response|text|file|page|answer|reply|body"
    r"|result))\b[^.;\n]{0,40}\b(?:run|execute)"
    r"|\b(?:response|answer|reply|result|body|output|field|text|it)\b[^;\n]{0,60}\bcommands?\b[^;\n]{0,30}"
    r"\b(?:run|execute)s? (?:it|them|that|each)\b[^.;\n]{0,20}\b(?:shell|terminal|bash)"
    r"|\b(?:paste|type|enter|copy)\w{0,3} (?:each|every|all|its|the|those) (?:\w{1,10} )?(?:lines?"
    r"|commands?)\b[^.;\n]{0,30}"
    r"\b(?:in|into|to) (?:a |the |your )?(?:terminal|shell|console)\b"
    r"|\b(?:run|execute)s? (?:it|them|the (?:response|reply|result|answer|body|output)) (?:in|as|with) (?:a |the |your "
    r")?(?:shell|terminal|bash|commands?)\b"
)
"""Commands come with it, and are run."""
_ABOVE = re.compile(
    r"\b(?:treat|regard|consider|take|see|handle|read)\w{0,3}\b[^.;\n]{0,50}\b(?:as|like) (?:though |if )?(?:it (?:were"
    r"|was|is) )?(?:an? |the |being )?(?:\w{1,12} )?(?:part|section|extension|chapter|continuation|written|instructions"
    r"|system prompt)\b[^.;\n]{0,30}\b(?:this|these|the) (?:skill|file|page|prompt|document|instructions)\b"
    r"|\bas (?:though|if) (?:the user|your (?:user|human|owner)|they|it) (?:had|has|were|was)? ?(?:\w{1,8} )?(?:typed"
    r"|said|asked"
    r"|written|wrote|given|told|from the user|by the user)\b"
    r"|\b(?:has|have|takes?|with|gets?|have the|having) (?:the )?(?:higher |highest |full |absolute )?(?:priority"
    r"|precedence) over\b[^.;\n]{0,80}\b(?:below|above|page|skill|file|user|instructions?|sections?|conversation"
    r"|prompts?|rules|everything)\b"
    r"|\b(?:ranks?|stands?|comes?|goes) (?:above|before|over)\b[^.;\n]{0,40}\b(?:page|skill|file|user|instructions?"
    r"|sections?|others?|rules|everything|below)\b"
    r"|\b(?:override|overrule|outrank|supersede|replace)s?\b[^.;\n]{0,40}\b(?:this (?:page|skill|file|document)"
    r"|the user"
    r"|user['’]s|earlier instructions|previous instructions|(?:rules|instructions|sections) (?:here|below|above"
    r"|in this)"
    r"|system prompt)\b"
    r"|\b(?:contradict|conflict|differ|disagree)s?\b[^.;\n]{0,50}\b(?:page|skill|file|user)\b[^.;\n]{0,30}\b(?:they|it"
    r"|those|that|the \w{1,12}) (?:wins?|counts?|prevails?|rules?|applies|apply)\b"
    r"|\b(?:manual|rules?|ruleset|page|text|file|document|playbook|they|it|plan|list|instructions?|polic(?:y|ies)"
    r"|response)"
    r" (?:is|are|has|have) (?:\w{1,12} )?(?:authoritative|binding|the (?:last|final) (?:word|say))\b"
    r"|(?:优先于|高于|覆盖)[^。\n]{0,12}(?:本|此|用户|上述|以下)|важнее|приоритет\w{0,3} над|prevalece|tiene prioridad"
    r"|hat vorrang|priorité sur"
)
"""It counts for more than the skill that people read, or than the user."""
_EXACTLY = re.compile(
    r"\b(?:exactly|verbatim|to the letter|word for word|blindly|unconditionally|without (?:question|change|review))\b"
    r"|严格|逐字|точно|беспрекословно|al pie de la letra|exactamente|genau|wörtlich|à la lettre|exactement"
)
_TOOLS = re.compile(
    r"\b(?:shell|terminal|commands?|wallet|exchange|tools? (?:that )?you have|all (?:your|available) tools)\b|命令"
    r"|команд"
    r"|comando|befehl|commande"
)
_UNASKED = re.compile(
    r"\bnever question\b|ohne (?:nachzufragen|zu fragen|rückfrage|bestätigung)|sans (?:demander|confirmation)"
    r"|no (?:further )?questions asked"
    r"|\bwithout (?:\w{1,12} )?(?:confirmation|approval|asking|prompting|consent)\b|\b(?:do|does)? ?(?:not"
    r"|n['’]t) (?:need|have) to (?:check|confirm|clear (?:it|this|them)|consult|ask)\b|\bno need to (?:check"
    r"|confirm|consult)\b|\b(?:opted in|agreed|consented|signed up) (?:to (?:it|this|them) )?(?:when|by|with"
    r"|through) (?:they |the )?"
    r"(?:add|install|enabl|activat)\w{0,6}\b|無断|確認せず|확인 없이"
)
_MARKS = (
    "fetch", "curl", "wget", "get", "load", "read", "pull", "retriev", "sync", "poll", "http",
)  # fmt: skip
_SILENTLY = word_set("silently quietly discreetly secretly covertly unobtrusively")
_REACH = 6
"""Sentences around an address that go on about what lies there."""


def _obeyed(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has("http") or not read.has(*_MARKS):
        return
    for passage in passages(read):
        for index, one in enumerate(passage):
            if one.places and not one.bad_company and _is_fetched(one, passage[max(0, index - 1) : index], read):
                told = _orders(passage, index)
                if told is not None:
                    yield told.hit(told.text, weighed("high", told, None, read))
                    break


def _is_fetched(one: Statement, before: Passage, read: SkillStatements) -> bool:
    """Whether a text is got from an address here that its author could change at any time."""
    if one.kind == "row" or not any(_is_anybodys(place, read) for place in one.places):
        return False
    if not is_spoken(one):
        return not one.script and _FETCHES.search(one.low) is not None and not _CALLS.search(one.low)
    return _FETCHES.search(one.low) is not None or any(_FETCHES.search(other.low) for other in before)


def _is_anybodys(place: HostAddress, read: SkillStatements) -> bool:
    if "githubusercontent" in place.host or "gist" in place.host:
        return place.path.lower().split("/")[1:2] != [] and place.path.lower().split("/")[1] not in MAKERS
    return doubt(place, read) >= 1 and place.kind != "known"


def _orders(passage: Passage, index: int) -> Statement | None:
    """The sentence that has an agent obey what lies at an address."""
    near = [
        one
        for one in passage[max(0, index - 2) : index + _REACH]
        if is_spoken(one) and not one.bad_company and one.kind != "row"
    ]
    here = passage[index]
    unasked = any(AGREED.bidden(one) or _UNASKED.search(one.low) or _is_silent(one) for one in near)
    before = ""
    for one in near:
        both, before = f"{before} {one.low}", one.low
        if _RETURNED.search(both) and not one.warns_of(_EXECUTES.search(one.low)):
            return one
        found = _said(_ABOVE, one) or _said(_RUN_FROM_IT, one)
        if found is not None:
            return one
        found = _said(_ACTED_ON, one)
        if found is None or (one is not here and not _GOES_ON.search(one.low)):
            continue
        if unasked or (_EXACTLY.search(one.low) and _TOOLS.search(one.low)):
            return one
    return None


_RETURNED = re.compile(
    r"\b(?:returns?|contains?|answers? with|responds? with|gives?|holds?|lists?|response|reply|result"
    r"|output)\b[^;\n]{0,60}"
    r"\b(?:shell|bash|terminal|system|cli) commands?\b[^;\n]{0,60}\b(?:execute|run) (?:it|them|each|every one|all)\b"
)
"""Commands come back, and the next sentence has them run."""
_EXECUTES = re.compile(r"\b(?:execute|run)\b")


def _is_silent(one: Statement) -> bool:
    return secrecy(one.low) is not None or not one.words.isdisjoint(_SILENTLY)


def _said(pattern: re.Pattern[str], one: Statement) -> re.Match[str] | None:
    found = pattern.search(one.low)
    return None if found is None or one.warns_of(found) else found


_GOES_ON = re.compile(
    r"\b(?:its?|them|they|these|those|that|there|each|every|all|whatever|the (?:\w{1,12} )?(?:steps?|commands?"
    r"|instructions?|plan|items?|tasks?|rules?|text|file|page|response|reply|answer|result|list|agenda|playbook))\b"
    r"|[^\x00-\x7f]"
)
"""How a sentence speaks of what the one with the address named."""


RULES = (
    ScanRule(
        id="OBEYS_A_PAGE",
        ast="AST07",
        category="instruction_goal_memory_manipulation",
        severity="high",
        message="It has the agent fetch a text and do what that says, above the skill or without a question.",
        hint="Do not use it. Whoever writes that text decides what is done; put the steps into the skill.",
        check=_obeyed,
    ),
)
