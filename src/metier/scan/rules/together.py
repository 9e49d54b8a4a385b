"""What several rules find a little suspicious, each for its own reason, is more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.scan.rule import Hit, ScanRule
from metier.scan.rules._reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.scan.view import SkillView


def with_sum(rules: tuple[ScanRule, ...]) -> tuple[ScanRule, ...]:
    """The rules and one more, which looks at what the others found; none of them looks twice."""
    kept = tuple(replace(rule, check=_once(rule)) for rule in rules)
    return (
        *kept,
        ScanRule(
            id="SEVERAL_SIGNS",
            ast="AST01",
            category="execution_code_delivery",
            severity="high",
            message="Several rules of different kinds find something suspicious in it.",
            hint="Look at each of the places. One may have a reason; several seldom do.",
            check=_sum_of(kept),
            sums_up="skill",
        ),
    )


def _once(rule: ScanRule) -> Callable[[SkillView], Iterable[Hit]]:
    def check(view: SkillView) -> Iterable[Hit]:
        hits = reading(view).hits
        if rule.id not in hits:
            hits[rule.id] = tuple(rule.check(view))
        return hits[rule.id]

    return check


def _sum_of(rules: tuple[ScanRule, ...]) -> Callable[[SkillView], Iterator[Hit]]:
    def check(view: SkillView) -> Iterator[Hit]:
        if reading(view).about_security:
            # What such a page shows as examples was weighed by each rule; together they prove no more.
            return
        places: dict[str, Hit] = {}
        for rule in rules:
            for hit in rule.check(view):
                severity = hit.severity or rule.severity
                if severity in ("high", "critical"):
                    return
                if severity == "medium" and not any(
                    (hit.path, hit.line) == (other.path, other.line) for other in places.values()
                ):
                    places.setdefault(rule.id, hit)
        main = {file.path for file in view.files if file.role in ("instructions", "script", "config")}
        paths = [hit.path for hit in places.values()]
        # A page of reference here and another there, each a little odd: that is what large documentation looks like.
        apart = main.isdisjoint(paths) and len(set(paths)) == len(paths)
        if len(places) >= 2 and not apart:
            first, *others = places.values()
            yield Hit(
                first.path,
                first.line,
                first.text,
                f"It does something suspicious here and in {len(others)} other place(s), each of another kind.",
            )

    return check
