"""What tests of rules share: a skill made of a few texts, and what the rules say of it."""

from __future__ import annotations

from collections.abc import Mapping

from metier.scan import view_of
from metier.scan.finding import rank
from metier.scan.ruleset import all_rules
from metier.skill import MemoryPackage

FRONT = "---\nname: {name}\ndescription: {description}\n---\n"
RULES = {rule.id: rule for rule in all_rules()}


def skill(
    text: str, *, name: str = "city-weather", description: str = "Weather for a city.", **files: str | bytes
) -> Mapping[str, str | bytes]:
    """The files of a skill; `__` in a name of a file stands for a dot."""
    page = text if text.startswith("---") else FRONT.format(name=name, description=description) + text
    return {"SKILL.md": page, **{path.replace("__", "."): content for path, content in files.items()}}


def severities(files: Mapping[str, str | bytes]) -> dict[str, int]:
    """The rank of the worst that each rule says."""
    view = view_of(MemoryPackage(dict(files)))
    found: dict[str, int] = {}
    for rule in all_rules():
        for hit in rule.check(view):
            found[rule.id] = max(found.get(rule.id, -1), rank(hit.severity or rule.severity))
    return found


def worst(files: Mapping[str, str | bytes]) -> int:
    """The rank of the worst that any rule says; -1 for nothing."""
    return max(severities(files).values(), default=-1)
