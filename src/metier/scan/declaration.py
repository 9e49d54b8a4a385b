"""Declared beside inferred capabilities: the matcher for reviewers, and the diagnostics for authors."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier.scan.capabilities import NETWORK_TOOLS, WRITE_TOOLS, infer_from, line_of_field
from metier.scan.name_lists import sense
from metier.scan.rule import Hit
from metier.skill.diagnostic import Diagnostic
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.capabilities import Evidence
    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText
    from metier.scan.view import SkillView

_DOES = {
    "file-write": "changes files",
    "network-tools": "reaches the network",
    "scripts": "has scripts",
    "shell-instructions": "runs commands",
}
_NEEDS = "needs network access"
_OTHERWISE = {"file-write": "Write", "shell-instructions": "Bash"}
"""What declares a capability of which no place names a tool or a program."""
_SUITE = pattern(r"evals/[^/]+\.(?:ya?ml|json)")
_INTERPRETERS = {"python": "python3 ", "shell": "bash ", "javascript": "node "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A capability that no field of the frontmatter names."""

    name: str
    place: Evidence
    shown_in: str
    """`scripts` or `text`; scripts come first."""
    declares: str
    """`tools` where `allowed-tools` limits what it may use, else `other` for other fields, or `nothing`."""
    words: str
    """The field to write, with what is missing in it."""


def undeclared(view: SkillView) -> Iterator[Undeclared]:
    """What a skill can do beyond what it declares."""
    found, skill = infer_from(view), view.skill
    if skill is None:
        return
    rules = parse_rules(skill.allowed_tools)
    runs_all = any(rule.tool in ("bash", "*") and rule.pattern is None for rule in rules)
    declares = "tools" if skill.allowed_tools is not None else "other" if found.declared else "nothing"
    for name in found.undeclared:
        # A suite names what must be refused, too: the calls in it are nothing that the skill does.
        places = [one for one in found.evidence[name] if _SUITE.fullmatch(one.path) is None]
        if not places:
            continue
        places.sort(key=lambda one: one.path not in found.scripts)
        shown_in = "scripts" if places[0].path in found.scripts else "text"
        tool = next(filter(None, (_tool(name, place) for place in places)), "")
        if runs_all and (shown_in == "scripts" or tool.startswith("Bash")):
            continue  # who allows every command has said so
        words = " ".join(["allowed-tools:", *(rule.text for rule in rules), tool or _OTHERWISE.get(name, "")])
        if not tool and name == "network-tools":
            words = f"compatibility: {'; '.join(filter(None, ((skill.compatibility or '').rstrip('. '), _NEEDS)))}"
        yield Undeclared(name=name, place=places[0], shown_in=shown_in, declares=declares, words=words)


def _tool(name: str, place: Evidence) -> str:
    """The rule for `allowed-tools` that declares what a place shows; empty where it names none."""
    if name == "scripts":
        return f"Bash({_INTERPRETERS.get(place.text, '')}{place.path} *)"
    if name == "shell-instructions":
        program = _programs().search(place.text)
        return f"Bash({program[0]} *)" if program is not None else ""
    for rule in parse_rules(NETWORK_TOOLS if name == "network-tools" else WRITE_TOOLS):
        words = (rule.pattern or rule.text).removesuffix("*").split()
        if all(word in place.text for word in words):
            return rule.text
    return ""


@cache
def _programs() -> re.Pattern[str]:
    return re.compile(rf"(?<![\w./-])(?:{sense('shell-programs').pattern})(?![\w.-])")


def match_declared(text: SkillText, rule: Rule) -> Iterator[Hit]:
    """Capabilities of a skill that its frontmatter does not declare.

    `cases` are severities with what must hold, and the first that fits counts: `of` lists capabilities, `shown-in` is
    `scripts` or `text`, `declares` is `tools` (there is an `allowed-tools`), `other` (other fields say something) or
    `nothing`. `says` is the finding, with `{does}` and `{words}`, the field that would declare it.
    """
    for one in undeclared(text.read.view):
        facts = {"of": one.name, "shown-in": one.shown_in, "declares": one.declares}
        for case in rule.options["cases"]:
            if all(facts[key] in wanted for key, wanted in case.items() if key != "severity"):
                said = rule.options["says"].format(does=_DOES[one.name], words=one.words)
                yield Hit(one.place.path, one.place.line, one.place.text, said, case["severity"])
                break


def declaration_diagnostics(view: SkillView) -> list[Diagnostic]:
    """The diagnostics for authors who declare something: a warning where scripts do more than `allowed-tools` names."""
    found = []
    for one in undeclared(view):
        if one.declares == "nothing":
            continue
        code = "tools-exceeded" if (one.declares, one.shown_in) == ("tools", "scripts") else "capability-undeclared"
        field = one.words.partition(":")[0]
        values = (_DOES[one.name], f"{one.place.path}:{one.place.line}", one.words)
        line = line_of_field(field, view.instructions)[0] if view.instructions is not None else 1
        found.append(Diagnostic(code, line, values))
    return found
