"""How a deed is cloaked: left out of what the user reads, not spoken of, or told otherwise."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rules._honesty import is_honest
from metier.scan.rules._pretexts import AGREED, EXCUSED, OTHERWISE, PRESSED, TEXT, WHOM
from metier.scan.rules._secrecy import HIDING, secrecy
from metier.scan.rules._ways import Way
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from metier.scan.rules._statements import Statement

_NOT = (
    r"(?:do not|don['’]?t|never|no (?:need|reason|point) (?:to|in)|needn['’]?t|need not|not (?:necessary|needed"
    r"|useful) to"
    r"|unnecessary to|not worth|avoid|refrain from|better not(?: to)?)"
)
_LEFT_OUT = Way(
    re.compile(
        r"\b(?:leave|leaving|keep|omit|drop|strip|remove|exclude|skip|hide|filter|trim|cut|suppress)\b (?:it|this|them"
        r"|these|those|the|any)\b(?:(?!\band\b|\bif\b)[^.;:\n]){0,40}\b(?:out of|from|in|off) (?:the |your |any |its "
        rf"|all )?(?:\w{{1,14}} ){{0,2}}{TEXT}\b|\bleave (?:it|this|them|that) off\b"
        rf"|\b(?:is|are) (?:not|no) part of (?:the |your |any )?(?:\w{{1,14}} ){{0,2}}{TEXT}\b"
        rf"|\bdo(?:es)?(?: not|n['’]?t) belong (?:in|into|to) (?:the |your |any )?(?:\w{{1,14}} ){{0,2}}{TEXT}\b"
    ),
    word_set("leave leaving keep omit drop strip remove exclude skip hide filter trim cut suppress belong part"),
)
_UNSAID = Way(
    re.compile(
        rf"\b{_NOT} (?:show|print|display|list|explain|announc|report|mention|describ|narrat|detail|discuss|comment on"
        r"|draw attention to|spell out|bring up|point out|flag|go into|talk about|quot|cit|read out)(?:e|ing|t?ing)?\b"
        r" (?:it|this|these|them(?! \d| an?\b| all\b| more\b)|that(?! (?:they|it|the|you|this)\b)|costs?|how|why|where"
        r"|alternatives|competitors"
        r"|other (?:vendors|options|tools"
        r"|shops)|the \w)[^.;\n]{0,60}"
        r"|\b(?:needn['’]?t|need not|do(?:es)?(?: not|n['’]?t) (?:need|have) to|should not"
        r"|shouldn['’]?t) (?:be (?:announced"
        r"|mentioned|explained|reported|shown|listed|discussed|disclosed|approved|brought up|visible))\b"
        r"|\b(?:it|this|that|they|these|which|the \w{1,14}) (?:needn['’]?t|need not|do(?:es)?(?: not"
        r"|n['’]?t) (?:need|have) to)"
        r" (?:appear|show up)\b"
        rf"|\b{WHOM} (?:do(?:es)?(?: not|n['’]?t)|need not|needn['’]?t) (?:need|have|want|care)?\b ?(?:a report"
        rf"|reports|to"
        r" (?:see|know|hear|approve|be (?:told|asked|involved|bothered)))\b"
        r"|\bno (?:preview|report|mention|notice|announcement|explanation) (?:is |are )?(?:needed|necessary|required)\b"
        r"|\b(?:stays?|remains?|kept) (?:\w{1,10} )?(?:out of sight|between us)\b|\bwon['’]?t see (?:it|this|them)\b"
    ),
    word_set(
        "show showing print printing display displaying list listing explain explaining announce announcing report "
        "reporting mention mentioning describe describing narrate detail discuss discussing comment attention spell "
        "bring point flag talk go quote quoting cite read announced mentioned explained reported shown listed "
        "discussed disclosed approved brought visible appear preview notice announcement explanation sight us "
        "reports know see hear told asked"
    ),
)
_UNSAID_FOREIGN = Way(
    re.compile(
        r"\bno (?:hace falta|es necesario|hay que) (?:enseñar|mostrar|mencionar|explicar|avisar|decir)"
        r"|\bno tiene por qué"
        r" (?:saber|enterarse|ver)|\bsin que (?:se entere|lo sepa)|\bnão (?:é preciso|precisa|é necessário) (?:mostrar"
        r"|mencionar|avisar|dizer|saber)|\bnon (?:serve|occorre|è necessario) (?:mostrare|dirlo|menzionare|avvisare)"
        r"|\b(?:pas (?:besoin|nécessaire)|inutile) (?:de |d['’])(?:mentionner|montrer|signaler|avertir|expliquer)"
        r"|\b(?:nicht|kein\w{0,2}) (?:\w{1,12} )?(?:zu )?(?:erwähnen|anzeigen|nennen|zeigen|erwähnt|gezeigt|wissen)\b"
        r"|\b(?:nutzer|benutzer|anwender) (?:muss|soll|braucht|darf) [^.\n]{0,20}nichts? [^.\n]{0,12}(?:wissen|merken"
        r"|erfahren)"
        r"|\bsans (?:en parler|le dire|prévenir|avertir|informer)\b|\bunerwähnt"
        r"|(?:无需|无须|不需要|不必|不用|不要|别)(?:向用户|再"
        r"|去)?(?:展示|显示|说明|告知|提及|提到|提|解释|汇报)"
        r"|не (?:показыва|упомина|сообща|объясня)\w{0,4}|\bне (?:нужно|надо|стоит|следует) (?:говорить|сообщать"
        r"|упоминать"
        r"|показывать|знать)|(?:говорить|сообщать|упоминать|показывать|знать)(?: об этом)? не (?:нужно|надо|стоит"
        r"|обязательно)|表示(?:し|する)?(?:ない|必要はない)|言及しない|説明(?:し|する)?(?:ない|必要はない)"
        r"|(?:보여|알려|설명할|언급할) ?(?:줄 )?필요(?:가|는)? ?없"
    ),
    word_set(
        "falta necesario hay tiene sin preciso precisa serve occorre besoin inutile sans nutzer benutzer anwender "
        "nicht kein keine keinen keiner"
    ),
)
_RIGHTLY = re.compile(
    r"secret|credential|\bkeys?\b|token|password|sensitive|\braw\b|json|\bids?\b|personal|\bpii\b|\berrors?\b|unless"
    r"|_key\b|\bflags?\b|\bprogress\b|\bintermediate\b|\bdebug"
    r"|\b(?:report|describe|list|mention|flag)\w{0,3} (?:it|this|them|that) as\b|\b(?:readers|outsiders|third parties"
    r"|the public|visitors|confidential)\b|\bin (?:the |an? |any )?(?:alt[- ]texts?|captions?|titles?|file ?names?"
    r"|headings?"
    r"|commit messages?)\b"
)
"""What is rightly not shown, or not in a place where it would only read badly."""
_TRIFLE = re.compile(r"\b(?:flags?|syntax|internals|placeholders?) (?:exists?|works?|is|are)\b")
"""What a user may know but need not."""
_QUIETLY = Way(
    re.compile(
        r"\b(?:replace|swap|add|append|insert|send|upload|forward|run|install|rewrite|post|copy|store|write|apply|sign"
        r"|approve|update|set|open|follow|vote|star|do (?=it|this|that|so|them))\w{0,3} (?:it|this|them|these|that|so"
        r"|the \w{1,14})?[^.;\n]{0,12}\b(?:silently|quietly|discreetly|unobtrusively|inconspicuously)\b"
        r"(?! [\w-]+(?:s|ed)\b)"
        r"|\b(?:rules?|instructions?|notes?|lines?|entries|blocks?|sections?|steps?|settings?) (?:is"
        r"|are) (?:confidential"
        r"|secret)\b"
    ),
    word_set("silently quietly discreetly unobtrusively inconspicuously confidential secret"),
)


def cloaks(one: Statement) -> int:
    """How much a sentence keeps from the user what is done: 2 if it does, 1 if it only has nobody asked, 0 if not."""
    if one.kind not in ("prose", "comment", "frontmatter") or one.bad_company:
        return 0
    if (
        any(way.within(one) for way in (PRESSED, EXCUSED))
        or any(way.bidden(one) for way in (_LEFT_OUT, OTHERWISE, _QUIETLY))
        or (any(way.within(one) for way in (_UNSAID, _UNSAID_FOREIGN)) and not _RIGHTLY.search(one.low))
        or (_is_secretive(one) and not _TRIFLE.search(one.low))
    ):
        return 2
    return 1 if AGREED.bidden(one) else 0


def _is_secretive(one: Statement) -> bool:
    if one.low.isascii() and one.words.isdisjoint(HIDING):
        return False
    found = secrecy(one.low)
    return found is not None and not is_honest(one, found, 0)
