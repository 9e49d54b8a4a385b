"""What keeps an agent in bounds, switched off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._agents import BYPASS, GUARD_OFF, WRITES
from metier.scan.rules._judging import weighed
from metier.scan.rules._reading import reading
from metier.scan.rules._words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity
    from metier.scan.rule import Hit
    from metier.scan.rules._statements import Statement
    from metier.scan.view import SkillView


_SETS = re.compile(
    r"\b(?:add|set|writ|wrote|put|updat|chang|edit|configur|modif|merg|enabl|us(?:e|ing)|switch|run|start|turn|need|requir"
    r"|becom|must|should|make|copy|paste|replac|ensur|appl|activat)\w{0,4}\b|[:=]\s*[`\"']?\w|→|->"
)


def _bypassed(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for statements in read.files.values():
        changes: bool | None = None
        for index, one in enumerate(statements):
            found = BYPASS.search(one.text) if read.sees(one, _MARKS) else None
            if found is not None:
                near = " ".join(
                    other.text
                    for other in statements[max(0, index - 6) : index + 7]
                    if abs(other.line - one.line) <= 12
                )
                if changes is None:
                    changes = one.script and _changes_settings(statements)
                written = changes or WRITES.search(near) is not None
                # A program names modes to deal with them; only a file of settings, or a command, sets one.
                program = one.language in _PROGRAMS
                said = re.search(
                    r"\b(?:add|set|write|put|update|change|edit|configure|modify|merge"
                    r"|enable)\w{0,3}\b[^\n]{0,80}(?:settings|config|\.json|\.toml|permission)",
                    near.lower(),
                )
                flag = found[0].startswith("--")
                bids = one.kind != "prose" or re.match(
                    r"\s*(?:[-*\d.]+\s+)?(?:then |now |first,? )?(?:add|set|write|put|update|change|edit|configure"
                    r"|modify|merge|enable|use|switch|run|start)\b",
                    one.low,
                )
                # Where a mode is only spoken of, what else the page has written says nothing about it.
                mentioned = one.kind == "prose" and not _SETS.search(one.low)
                severity: Severity = (
                    "high"
                    if (written and not flag and not mentioned)
                    or (
                        not flag
                        and bids
                        and ((said and one.kind != "row" and not program) or one.language in _SETTINGS)
                    )
                    else "low"
                )
                yield one.hit(found[0], weighed(severity, one, found, read))
            elif (
                one.kind in ("prose", "comment", "frontmatter")
                and not one.warned
                and ((read.sees(one, _HOLDS) and not one.words.isdisjoint(_LOOSENS)) or not one.low.isascii())
                and (said_off := GUARD_OFF.search(one.low)) is not None
            ):
                if (
                    one.warns_of(said_off)
                    or " without " in said_off[0]
                    or re.search(
                        r"\b(?:to (?:disable|turn off)|if you (?:\w{1,12},? ){0,6}(?:want|need|prefer)|can be disabled"
                        r"|user(?:s)? (?:can|may)|optional)\b",
                        one.low,
                    )
                ):
                    continue
                if said_off[0].startswith(("if ", "when", "should ")) and _EXPLAINED.search(one.low, said_off.start()):
                    continue
                words = one.words
                agent = re.search(
                    r"\b(?:agent|claude|openclaw|codex|cursor|skill|tool|exec|session|yourself|assistant|gateway)\b",
                    f"{one.low}",
                )
                held = re.search(
                    r"sandbox|hooks?\b|audit|approval|permission prompt|guardrail|tool restriction|refused|denied"
                    r"|blocked|allowed",
                    said_off[0],
                )
                grave = (
                    sense.ALWAYS.within(one.low, words) or sense.STEALTH.within(one.low, words) or "yourself" in one.low
                )
                severity = "high" if (agent and grave) or held else "medium" if agent else "low"
                if said_off[0].startswith("bypass") and _THIRD_PERSON.search(one.low[: said_off.start()]):
                    severity = "low"
                yield one.hit(one.text, severity if not one.hinted else "low")


_PROGRAMS = ("python", "javascript", "typescript", "go", "rust", "ruby", "php", "java", "kt", "swift", "cs")
_SETTINGS_FILE = re.compile(
    r"\.claude\b[^\n]{0,30}settings|settings(?:\.local)?\.json|\.claude\.json|openclaw\.json|\.codex\b[^\n]{0,20}config"
    r"|exec-approvals\.json|\.cursor\b[^\n]{0,20}(?:mcp|cli-config)|managed-settings",
    re.IGNORECASE,
)
_WRITTEN = re.compile(
    r"json\.dump\(|write_text\(|write_bytes\(|writefile(?:sync)?\(|appendfile(?:sync)?\(|\.write\(|fs\.write"
    r"|open\([^\n]{1,120},\s*[\"'][wa]",
    re.IGNORECASE,
)


def _changes_settings(statements: tuple[Statement, ...]) -> bool:
    """Whether a script names a file of an agent's settings, and writes."""
    return any(_SETTINGS_FILE.search(one.text) for one in statements) and any(
        _WRITTEN.search(one.text) for one in statements
    )


_EXPLAINED = re.compile(
    r"\b(?:explain|ask (?:the user|for)|(?:tell|inform|notify) the user|report (?:it|this|that|the))\b"
)
"""A way around what was refused that somebody gets to know of is none."""

_LOOSENS = word_set(
    "disable disables disabling turn switch deactivate remove bypass bypasses circumvent work evade "
    "get loosen relax grant give allow if when whenever should click press hit accept confirm approve answer select "
    "choose xdotool desactiva"
)

_HOLDS = (
    "sandbox", "approval", "permission", "guardrail", "safety", "security", "confirmation", "restriction", "polic",
    "allow", "audit", "hooks", "access", "privileg", "rights", "tool", "yourself", "automatically", "behalf",
    "for the user", "before the user", "as soon as", "xdotool", "refused", "denied", "blocked", "rejected", "forbidden",
    "seguridad", "permisos", "confirmaci",
)  # fmt: skip
"""What stands in every sentence about bounds that are loosened."""

_SETTINGS = ("json", "yaml", "toml")
"""Where the name of a mode is not only spoken of, or dealt with, but set."""

_THIRD_PERSON = re.compile(
    r"\b(?!(?:and|then|or|to|please|must|should|can|will|may|you|always|first|now|also|just|by|not)\b)[a-z]+s? $"
)
"""What stands before a verb that is told of somebody: "such calls bypass it"."""

_MARKS = (
    "--dangerously",
    "--yolo",
    "--allow-all",
    "--trust-all",
    "--approval",
    "--auto-approve",
    "bypass",
    "skipdangerous",
    "enableall",
    "disableall",
    '"allow"',
    "approval_policy",
    "danger-full",
    "sandbox",
    "autoapprove",
    "alwaysallow",
    "exec.",
    '"ask"',
    "yolo_mode",
    "claude_skip",
)


RULES = (
    ScanRule(
        id="AGENT_GUARD_BYPASS",
        ast="AST03",
        category="privilege_tool_authority_abuse",
        severity="high",
        message="It switches off what keeps an agent in bounds: its permissions, approvals or sandbox.",
        hint="Do not allow it. Grant the tools that are needed, one by one.",
        check=_bypassed,
    ),
)
