"""Watchdogs that are muzzled: scanners of skills removed, their findings kept back, some publishers never looked at."""

# ruff: noqa: RUF001  (letters and marks of other scripts are what is looked for)

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_DOG = (
    r"(?:(?:skill|mcp|security|malware|virus|prompt|agent|other|code)[- ]?(?:scan(?:ner)?s?|guards?|vett?ers?"
    r"|audit(?:or)?s?"
    r"|check(?:er)?s?|shields?|firewalls?|watchdogs?)|scanners?|guards|watchdogs?|security (?:skills?|tools?|plugins?"
    r"|hooks?))"
)
_REMOVED = re.compile(
    rf"\b(?:uninstall|remove|delete|deactivate|disable|unload|get rid of|turn off"
    rf"|switch off)\b[^.;\n]{{0,40}}\b{_DOG}\b"
    rf"|\b{_DOG}\b[^.;\n]{{0,60}}\b(?:uninstall|remove|delete|deactivate|disable|unload) (?:it|them|those|these)\b"
    r"|(?:卸载|删除|禁用|关闭)[^。\n]{0,12}(?:扫描器|安全(?:技能|插件|工具))|(?:удали"
    r"|отключи)\w{0,3} [^.\n]{0,30}(?:сканер"
    r"|провер)|(?:desinstala|elimina|desactiva)\w{0,2} [^.\n]{0,30}(?:esc[aá]ner|seguridad)"
)
_SPARED = re.compile(
    r"\b(?:do not|don['’]?t|never|no need to|skip) (?:scan|vet|audit|review|check|inspect|look into|scanning|vetting"
    r"|checking|reviewing)\b[^.;\n]{0,40}\b(?:them|these|those|their|from|of|by)\b[^\n]{0,120}\b(?:install|without"
    r" (?:confirm|asking)|trusted|verified|do not (?:report|show|mention)|don['’]?t (?:report|show|mention))"
    r"|\b(?:do not|don['’]?t|never|suppress|ignore|discard|drop) (?:report |show |mention |pass on |the |any |all )?"
    rf"(?:findings?|warnings?|alerts?|verdicts?|reports?|results?) (?:of|from|by) (?:the |any )?(?:other )?{_DOG}\b"
)
_OVERRULED = re.compile(
    r"\b(?:overrid|overrul|supersed|replac|outrank)\w{1,4}\b[^.;\n]{0,40}\b(?:security|safety|trust"
    r"|permission)s? (?:section"
    r"|rules?|polic(?:y|ies)|instructions?|notes?|guidelines?)\b[^.;\n]{0,30}\b(?:of|in|from) (?:the )?(?:agents\.md"
    r"|claude\.md|soul\.md|your|user|system|agent|gemini\.md|workspace)"
)
_MARKS = (
    "scan",
    "guard",
    "vet",
    "audit",
    "check",
    "watchdog",
    "security",
    "safety",
    "扫描",
    "安全",
    "скан",
    "esc",
    "segurid",
)
_DEEDS = word_set(
    "uninstall remove delete deactivate disable unload rid off scan vet audit review check inspect look scanning "
    "vetting checking reviewing suppress ignore discard drop findings finding overrides override overrule "
    "overrules supersedes supersede replaces replace outranks outrank overriding"
)
_CHOSEN = re.compile(
    r"\b(?:if (?:the user|you|they) (?:wants?|asks?|needs?|prefers?)|to uninstall|when uninstalling|how to"
    r"|optional(?:ly)?"
    r"|false positives? in|unused|deprecated|temporar)\b"
)


def _muzzled(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    if not read.has(*_MARKS):
        return
    for one in read.told("prose", "comment", "frontmatter"):
        if one.bad_company or one.warned or (one.low.isascii() and one.words.isdisjoint(_DEEDS)):
            continue
        if not read.sees(one, _MARKS):
            continue
        found = _REMOVED.search(one.low) or _SPARED.search(one.low) or _OVERRULED.search(one.low)
        if found is None or _CHOSEN.search(one.low):
            continue
        if _SPARED.match(found[0]) is None and one.warns_of(found):
            continue
        named = _REMOVED.match(found[0]) is None or _OF_AGENTS.search(one.low) is not None
        yield one.hit(one.text, "high" if named and not one.hinted else "low")


_OF_AGENTS = re.compile(r"\b(?:skills?|publishers?|agents?|mcp|agents\.md|claude\.md)\b|技能|скилл")
"""Many a program has guards and scanners; it is those of skills and agents that matter here."""


RULES = (
    ScanRule(
        id="WATCHDOG_MUZZLED",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="It has scanners of skills removed or overruled, or keeps back what they find.",
        hint="Do not use it. What is honest need not be kept from being looked at.",
        check=_muzzled,
    ),
)
