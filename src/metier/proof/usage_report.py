"""Reports of usage: who used which skills how much, and what stands out in that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass
from metier.store.usage import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier import Library
    from metier.store import TenantScope

UsageGroup: TypeAlias = Literal["skill", "agent", "model", "team", "day"]
USAGE_GROUPS: tuple[UsageGroup, ...] = ("skill", "agent", "model", "team", "day")
MILLION = 1_000_000
_LEAST_LOADS = 3
"""The loads of each of two skills before they are said to be always loaded together."""
_ALWAYS = 0.9
_LEAST_ATTEMPTS = 10
_MUCH_TROUBLE = 0.25
_LEAST_FEEDBACK = 2
_MOST_QUERIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """The usage of one skill, agent, model, team or day."""

    name: str
    """Empty for records that name none."""
    counts: Mapping[str, int]
    """By the names of `COUNTERS`."""

    @property
    def tokens(self) -> int:
        """The tokens in and out."""
        return self.counts["tokens_in"] + self.counts["tokens_out"]

    @property
    def dollars(self) -> float | None:
        """The cost in US dollars, of the tokens whose price is known; None where no price is."""
        is_unknown = self.tokens > 0 and self.counts["unpriced"] == self.tokens
        return None if is_unknown else self.counts["cost"] / MILLION

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values: the cost in dollars, the duration in seconds."""
        return {"name": self.name, **self.counts, "cost": self.dollars, "duration": self.counts["duration"] / MILLION}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPair:
    """Two skills that are nearly always loaded together."""

    skills: tuple[str, str]
    loads: int
    """The loads at which both were active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakSkill:
    """A skill that does not do well, and why."""

    skill: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowedSkill:
    """A skill that nobody gets, as another one answers to its name."""

    skill: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The usage from one day to another, inclusive."""

    since: str
    until: str
    by: UsageGroup
    rows: tuple[UsageRow, ...]
    """The most used first; days in their order."""
    total: UsageRow
    queries: tuple[tuple[str, int], ...] = ()
    """The texts of searches that found nothing and how often, where policy has them kept."""
    unused: tuple[str, ...] = ()
    """The skills of the library that nobody has loaded."""
    shadowed: tuple[ShadowedSkill, ...] = ()
    together: tuple[SkillPair, ...] = ()
    underperforming: tuple[WeakSkill, ...] = ()


def usage_report(
    scopes: Sequence[TenantScope],
    *,
    since: str,
    until: str,
    by: UsageGroup = "skill",
    skills: Sequence[str] = (),
    library: Library | None = None,
) -> UsageReport:
    """Return the usage of tenants between two days, of some skills (`name` or `name@source`) or of all.

    What nobody uses is told of a `library`. Call `roll_up` before: this reads counters alone.
    """
    is_wanted = _selection(skills)
    column = by if by != "team" else "skill"
    grouped: dict[str, list[int]] = {}
    by_skill: dict[str, list[int]] = {}
    for scope in scopes:
        for key, counts in scope.usage.totals(("skill", column), since, until):
            skill, value = key[-1] if column == "day" else key[0], key[0] if column == "day" else key[-1]
            if is_wanted(skill):
                _add(grouped, scope.tenant if by == "team" else value, counts)
                _add(by_skill, skill, counts)
    rows = [_row(name, numbers) for name, numbers in grouped.items()]
    rows.sort(key=lambda row: row.name if by == "day" else (-_weight(row.counts), row.name))
    skill_rows = {name: _row(name, numbers) for name, numbers in sorted(by_skill.items())}
    entries = library.entries(all=True) if library is not None else ()
    known = [entry for entry in entries if is_wanted(f"{entry.name}@{entry.source}")]
    used = {name for name, row in skill_rows.items() if row.counts["loads"]}
    return UsageReport(
        since=since,
        until=until,
        by=by,
        rows=tuple(rows),
        total=_row("", [sum(row.counts[name] for row in rows) for name in COUNTERS]),
        queries=tuple(one for scope in scopes for one in scope.usage.searches(since, until, _MOST_QUERIES)),
        unused=tuple(
            name for entry in known if entry.status == "active" and (name := f"{entry.name}@{entry.source}") not in used
        ),
        shadowed=tuple(
            ShadowedSkill(skill=entry.reference, by=entry.shadowed_by.reference)
            for entry in known
            if entry.shadowed_by is not None
        ),
        together=tuple(pair for scope in scopes for pair in _together(scope, skill_rows, since, until)),
        underperforming=tuple(
            WeakSkill(skill=row.name, reason=reason)
            for row in skill_rows.values()
            if row.name
            for reason in _troubles(row.counts)
        ),
    )


def _selection(skills: Sequence[str]) -> Callable[[str], bool]:
    wanted = frozenset(skills)
    return lambda name: not wanted or name in wanted or name.partition("@")[0] in wanted


def _add(grouped: dict[str, list[int]], key: str, counts: Mapping[str, int]) -> None:
    before = grouped.get(key)
    grouped[key] = (
        [*counts.values()] if before is None else [a + b for a, b in zip(before, counts.values(), strict=True)]
    )


def _row(name: str, numbers: Sequence[int]) -> UsageRow:
    return UsageRow(name=name, counts=dict(zip(COUNTERS, numbers, strict=True)))


def _weight(counts: Mapping[str, int]) -> int:
    return counts["loads"] + counts["calls"] + counts["runs"]


def _together(scope: TenantScope, rows: Mapping[str, UsageRow], since: str, until: str) -> Iterable[SkillPair]:
    for one, other, loads in scope.usage.pairs(since, until):
        most, least = sorted((rows[name].counts["loads"] if name in rows else 0 for name in (one, other)), reverse=True)
        if least >= _LEAST_LOADS and loads >= _ALWAYS * most:
            yield SkillPair(skills=(one, other), loads=loads)


def _troubles(counts: Mapping[str, int]) -> Iterable[str]:
    """Yield the reasons for which a skill does not do well."""
    attempts = _weight(counts) + counts["refusals"]
    trouble = counts["refusals"] + counts["failures"]
    if attempts >= _LEAST_ATTEMPTS and trouble >= _MUCH_TROUBLE * attempts:
        refused, failed = counts["refusals"], counts["failures"]
        yield f"Of {attempts:,} loads, calls and runs, {refused:,} were refused and {failed:,} failed."
    helped, not_helped = counts["helped"], counts["not_helped"]
    if not_helped >= _LEAST_FEEDBACK and not_helped > helped:
        yield f"It helped {helped:,} times and did not {not_helped:,} times."
