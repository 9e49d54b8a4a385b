"""The matcher `findings`: what several rules find a little suspicious, each for its own reason, is more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.rule import Hit
    from metier.scan.rule_book import Rule
    from metier.scan.text import SkillText


def match_findings(text: SkillText, rule: Rule) -> Iterator[Hit]:
    """Findings of other rules of the pack that add up, unless one of them is worse than those that count.

    `severity` is what they have, and `stances` what they are said as: an order, a command. `weights` are those of
    categories, where each counts once and by its first finding; a category that is not named weighs 1. `least` is how
    much they weigh together. Pages of reference count where two findings are in one file, or another is elsewhere.
    """
    options = rule.options
    kinds = text.rules
    firsts: dict[str, Hit] = {}
    lines: set[tuple[str, int]] = set()
    for name, hits in text.found.items():
        category, severity = kinds[name]
        for hit in hits:
            found = hit.severity or severity
            if rank(found) > rank(options["severity"]):
                return
            counts = found == options["severity"] and hit.stance in options["stances"]
            if counts and category not in firsts and (hit.path, hit.line) not in lines:
                firsts[category] = hit
                lines.add((hit.path, hit.line))
    main = {file.path for file in text.read.view.files if file.role in ("instructions", "script", "config")}
    paths = [hit.path for hit in firsts.values()]
    # A page of reference here and another there, each a little odd: that is what large documentation looks like.
    apart = main.isdisjoint(paths) and len(set(paths)) == len(paths)
    weights = options.get("weights", {})
    if not apart and sum(int(weights.get(kind, 1)) for kind in firsts) >= int(options["least"]):
        first, *others = firsts.values()
        said = f"It does something suspicious here and in {len(others)} other place(s), each of another kind."
        yield replace(first, message=said, severity=rule.severity)
