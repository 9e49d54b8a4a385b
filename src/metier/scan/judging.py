"""What rules share when they weigh what they found: whose a host is, and how much its context takes away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.hosts import odd, stands_for_anybody
from metier.scan.name_lists import names
from metier.scan.stance import quotes

if TYPE_CHECKING:
    from metier.scan.finding import Severity
    from metier.scan.hosts import HostAddress
    from metier.scan.skill_statements import SkillStatements
    from metier.scan.stance import Stance
    from metier.scan.statement import Statement

_STEP_DOWN: dict[Severity, Severity] = {"critical": "high", "high": "medium", "medium": "low"}
_SERVES = kept_regex(r"^(?:get|try|use|join)(?=\w{4})|(?:apis?|static|cdn|(?<=\w{4})(?:host|hq|app|cli|labs?|hub))$")
"""What makers add to their own name in the names of their hosts."""
_DEFANGED = kept_regex(r"\[[.:]\]|\(\.\)|^hxxp", re.IGNORECASE)


def related(address: HostAddress, reading: SkillStatements) -> bool:
    """Whether a host, or on a forge its owner or project, is called like something that the skill says it is about."""
    squashed = reading.squashed
    for label in address.labels:
        plain = re.sub(r"[^a-z0-9]", "", label.lower())
        if len(plain) >= 4 and plain not in names("general-words") and plain in squashed:
            return True
        short = len(plain) == 3 and address.host.split(".")[-2:-1] == [plain]
        if short and plain in reading.view.name.lower().split("-"):
            return True
        if (name := _SERVES.sub("", plain)) != plain and name in reading.named:
            return True
        words = [word for word in re.split(r"[^a-z0-9]+", label.lower()) if word and word not in names("general-words")]
        if words and max(map(len, words)) >= 4 and all(word in reading.words for word in words):
            return True
    return any(
        len(name) >= 3 and f"{name}_api" in reading.apis
        for name in (re.sub(r"[^a-z0-9]", "", label) for label in address.labels)
    )


def doubt(address: HostAddress, reading: SkillStatements) -> int:
    """How little is known of who answers at an address: 0 nothing to fear, 1 its own, 2 a stranger, 3 odd, 4 nobody.

    The project's own host is one that is called like it; free hosting can be called like anything.
    """
    key = address.host, address.path[:200], address.secure
    if key not in reading.doubts:
        reading.doubts[key] = _doubt(address, reading)
    return reading.doubts[key]


def _doubt(address: HostAddress, reading: SkillStatements) -> int:
    match address.kind:
        case "local":
            return 0
        case "known":
            owner = address.path.lower().lstrip("/").partition("/")[0]
            is_forge = address.host in names("forges")
            return 1 if is_forge and not related(address, reading) and owner not in names("forge-accounts") else 0
        case "unknown":
            strange = odd(address.host) or not address.secure
            if related(address, reading):
                return 2 if strange else 1
            return 3 if strange else 2
        case "free":
            return 2 if related(address, reading) else 3
        case _:
            return 4


def is_vendors(address: HostAddress, reading: SkillStatements) -> bool:
    """Whether a host has the name of what the skill is about for its own, with nothing added to it."""
    *_, name, ending = ["", *address.host.replace(".co.", ".").replace(".com.", ".").split(".")]
    if address.kind != "unknown" or not address.secure or odd(address.host) or not name.isalnum():
        return False
    return (len(name) >= 4 and (name in reading.words or name in reading.squashed)) or name + ending in reading.named


def weighed(
    severity: Severity, statement: Statement, found: re.Match[str] | None, reading: SkillStatements
) -> Severity:
    """The severity in its context: what is only spoken of, by its stance, weighs less than what is to be done."""
    return judged(severity, statement, found, reading)[0]


def judged(
    severity: Severity, statement: Statement, found: re.Match[str] | None, reading: SkillStatements
) -> tuple[Severity, Stance]:
    """The severity in its context, and the stance that it was judged by.

    What is spoken against is worth knowing and no more. A word that calls something an attack costs nothing to write:
    examples that lead to a stranger's host, and what is plainly an attack, lose a step and no more.
    """
    if statement.warned:
        return "low" if severity == "critical" else "info", statement.stance
    if statement.warns_of(found):
        return "info", "warning"
    stance = statement.stance
    if found is None and stance == "description" and reading.about_security and statement.kind == "prose":
        stance = "teaching"
    elif found is not None and stance in ("order", "description") and quotes(statement, found[0].lower()):
        stance = "quotation"
    steps = _STEPS.get(stance, 0)
    if steps > 1 and stance not in ("fixture", "report") and is_real(statement, reading):
        steps = 1
    for _ in range(steps):
        severity = _STEP_DOWN.get(severity, severity)
    return severity, stance


_STEPS: dict[Stance, int] = {"fixture": 2, "counterexample": 2, "quotation": 2, "teaching": 2, "report": 2}
"""How many steps each stance takes from the severity of a rule."""


def is_real(statement: Statement, reading: SkillStatements) -> bool:
    """Whether a statement names an address where somebody could be, and not one that stands for an attacker's."""
    return any(
        doubt(place, reading) >= 2
        and not stands_for_anybody(place.host)
        and not (reading.about_security and is_out_of_reach(place))
        for place in statement.places
    )


def is_out_of_reach(address: HostAddress) -> bool:
    """Whether nobody gets to an address as it is written: its name is reserved for examples, or it is defanged."""
    return address.host.endswith((".example", ".test", ".invalid")) or _DEFANGED.search(address.url) is not None
