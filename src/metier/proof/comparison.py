"""The difference between two reports, case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from metier._json_object import parse_object, value_at
from metier._lazy import dataclass
from metier.errors import InvalidArgument
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.proof.report import Report

_MAX_BYTES = 64 * 1024 * 1024
_VERDICTS = ("passed", "failed", "skipped")


class CaseKey(NamedTuple):
    """The identity of a case in all reports of its skill."""

    skill: str
    tier: str
    case: str

    def __str__(self) -> str:
        return f"{self.skill} {self.tier} {self.case}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The cases whose verdict differs from that of a base, and those that only one of both has."""

    worse: tuple[CaseKey, ...] = ()
    """They passed on the base, and fail or are gone now."""
    better: tuple[CaseKey, ...] = ()
    """They failed on the base, or were not there, and pass now."""
    new_failures: tuple[CaseKey, ...] = ()
    """They fail, and the base has no such case."""
    same: int = 0

    @property
    def changes(self) -> Mapping[str, tuple[CaseKey, ...]]:
        """The cases that differ, by what that is for them; the bad news first."""
        lists = {"worse": self.worse, "new failure": self.new_failures, "better": self.better}
        return {title: keys for title, keys in lists.items() if keys}

    @property
    def summary(self) -> str:
        """The numbers of all of them."""
        changed = (f"{len(keys)} {title}" for title, keys in self.changes.items())
        return f"Against the base: {', '.join([*changed, f'{self.same} the same'])}."


def compare_reports(base: Mapping[CaseKey, str], now: Mapping[CaseKey, str]) -> Comparison:
    """Compare the verdicts of two reports.

    >>> key = CaseKey("pdf", "rules", "1")
    >>> compare_reports({key: "passed"}, {key: "failed"}).worse
    (CaseKey(skill='pdf', tier='rules', case='1'),)
    """
    worse, better, fresh, same = [], [], [], 0
    for key in sorted({*base, *now}):
        before, after = base.get(key), now.get(key)
        if before == after:
            same += 1
        elif before == "passed":
            # A case that is gone, or skipped from now on, no longer shows that it holds.
            worse.append(key)
        elif after == "passed":
            better.append(key)
        elif after == "failed":
            fresh.append(key)
    return Comparison(worse=tuple(worse), better=tuple(better), new_failures=tuple(fresh), same=same)


def only_tested(base: Mapping[CaseKey, str], report: Report) -> dict[CaseKey, str]:
    """The verdicts of a base about the skills and tiers that a report is about."""
    tested = {(skill.name, tier.tier) for skill in report.skills for tier in skill.tiers}
    return {key: verdict for key, verdict in base.items() if (key.skill, key.tier) in tested}


def verdicts_of(report: Report) -> dict[CaseKey, str]:
    """The verdict of each case of a report."""
    return {
        CaseKey(skill.name, tier.tier, case.id): case.verdict
        for skill in report.skills
        for tier in skill.tiers
        for case in tier.cases
    }


def read_verdicts(data: bytes, path: str) -> dict[CaseKey, str]:
    """The verdicts in what `metier test --json` printed; raises `InvalidArgument` for anything else."""
    try:
        found = dict(_verdicts_in(parse_object(data, most=_MAX_BYTES)))
    except (ValueError, TypeError, KeyError) as error:
        reason = shown(str(error), 200) if type(error) is ValueError else "it is no report of `metier test --json`"
        raise InvalidArgument(
            f"{shown(path, 300)} cannot be compared with: {reason}.",
            hint=for_people("Write one with `metier test --json`."),
        ) from None
    return found


def _verdicts_in(report: dict[str, Any]) -> Iterator[tuple[CaseKey, str]]:
    for skill in report["skills"]:
        for tier in skill["tiers"]:
            for case in value_at(tier, "cases") or ():
                key = CaseKey(*map(str, (skill["name"], tier["tier"], case["id"])))
                if case["verdict"] not in _VERDICTS:
                    raise KeyError(case["verdict"])
                yield key, case["verdict"]
