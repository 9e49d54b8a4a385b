"""Skills that make the agent serve others: it does what strangers write, or hands the skill on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules._reading import reading
from metier.scan.rules._spoken import spoken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.view import SkillView

_ORDERS = re.compile(
    r"\b(?:execute|run|obey|carry out|perform|follow)\b[^\n]{0,30}\b(?:it|them|any|every|each|all|whatever"
    r"|what)\b[^\n]{0,60}\b(?:in the shell|in a shell|as (?:a )?(?:shell )?commands?|in (?:the |a )?terminal)\b"
    r"|\b(?:messages?|comments?|repl(?:y|ies)|posts?|emails?|records?|issues?|channel"
    r"|chat)\b[^\n]{0,100}\b(?:orders?|commands?|instructions?) (?:from|by) (?:the )?(?:owner|author|developer"
    r"|operator|maintainer)s?\b"
    r"|\b(?:messages?|comments?|repl(?:y|ies)|posts?|emails?|txt records?|records?)\b[^\n]{0,80}\b(?:are|is"
    r"|as) (?:trusted|treated as (?:if|though) (?:from )?the (?:owner|user)|to be (?:executed|obeyed))"
    r"|\b(?:messages?|emails?|texts?|lines?|comments?|notes?|requests?) (?:that )?(?:start|begin|prefixed|marked|signed"
    r"|tagged|coming"
    r"|sent|come)\w{0,4} (?:with|by|from)\b[^\n]{0,60}\b(?:are|is|must|should|to be|as)\b[^\n]{0,20}\b(?:executed?"
    r"|obey(?:ed)?"
    r"|carried out|trusted|followed|run)\b"
    r"|\b(?:operator|author|maintainer|developer|creator|vendor|publisher)s? of (?:this|the"
    r"|[\w-]{3,40})\b[^\n]{0,30}\b(?:is|are|counts?"
    r" as|has|have)\b[^\n]{0,24}\b(?:owners?|admins?|administrators?|principals?|(?:same|full|owner) (?:rights"
    r"|authority|trust))\b"
    r"|\btxt record\b[^\n]{0,120}\b(?:instructions?|obey|follow|execute|run)\b|\b(?:decode"
    r"|join)\b[^\n]{0,20}, obey\b"
)
_SPREAD = re.compile(
    r"\b(?:copy|install|add|write|spread|propagate|replicate|distribute"
    r"|clone)\w{0,3}\b[^\n]{0,30}\b(?:this (?:skill|folder|file|directory)|itself"
    r"|skill folder)\b[^\n]{0,200}\b(?:each|every|all|any|other)\b[^\n]{0,40}\b(?:repositor(?:y|ies)|repos?"
    r"|projects?|agents?|machines?|hosts?|skills? (?:folders?|director(?:y|ies))|workspaces?)\b"
    r"|\b(?:pass|share|send|forward|recommend|give)\w{0,3}\b[^\n]{0,30}\b(?:this|the circle's"
    r"|our) skill\b[^\n]{0,40}\b(?:to|with) (?:each|every|all|other) (?:\w{1,10} )?agents?\b"
)
_ORDER_MARKS = (
    "order",
    "command",
    "instruction",
    "shell",
    "terminal",
    "obey",
    "trusted",
    "executed",
    "owner",
    "txt record",
    "rights",
    "admin",
    "principal",
)


def _ordered(view: SkillView) -> Iterator[Hit]:
    """Anybody who can write somewhere becomes the agent's master."""
    read = reading(view)
    before = ""
    for one in spoken(read):
        before, around = one.low, f"{before} {one.low}"
        if one.warned or not read.sees(one, _ORDER_MARKS):
            continue
        found = _ORDERS.search(one.low)
        if found is not None and not one.warns_of(found):
            outside = re.search(
                r"\b(?:channel|message|comment|record|email|issue|post|chat|webhook|feed|url|server|dns|telegram"
                r"|discord|slack)s?\b",
                around,
            )
            whole = re.search(
                r"\b(?:shell|terminal|obey|owner|author|unknown|anyone|without (?:confirm\w{0,6}|asking|question))\b",
                one.low,
            )
            named = re.match(r"operator|author|maintainer|developer|creator|vendor|publisher", found[0])
            yield one.hit(one.text, "high" if named or (outside and whole) else "low")


def _spreads(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("prose", "comment", "frontmatter"):
        found = (
            _SPREAD.search(one.low) if "skill" in one.low or "itself" in one.low or "this folder" in one.low else None
        )
        if found is not None and not one.warns_of(found):
            pushes = re.search(
                r"\b(?:push|commit|overwrite|automatically|without|silently|each agent|every agent|all agents"
                r"|other agents)\b",
                one.low,
            )
            yield one.hit(one.text, "high" if pushes else "low")


RULES = (
    ScanRule(
        id="TAKES_ORDERS",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It has the agent do what others write somewhere, as if the user had asked for it.",
        hint="Do not use it. What comes in from outside is something to read, never an order.",
        check=_ordered,
    ),
    ScanRule(
        id="SPREADS_ITSELF",
        ast="AST01",
        category="persistence_control",
        severity="high",
        message="It has the agent hand the skill on to other projects or agents.",
        hint="Do not use it. Remove the copies that it made.",
        check=_spreads,
    ),
)
