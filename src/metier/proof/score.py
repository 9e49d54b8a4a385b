"""The score of a skill: one number from 0 to 100, its parts, and advice that would raise it.

A point must be earned: a part of which nothing is known counts nothing, and its advice says how to find out. The same
content with the same results has the same score.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass, field, pattern
from metier._paths import is_inside
from metier.proof.suite_reader import read_suite
from metier.scan.finding import FAILURE, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier import Entry
    from metier.proof.report import SkillReport, Tier, TierResult
    from metier.proof.suite import Suite

ScorePart: TypeAlias = Literal["form", "found", "safe", "tested", "helps"]
_LONG_ENOUGH = 80
"""Characters of a description that says what a skill does and when."""
_PROMPTS = 3
"""Prompts that should bring the skill up, and as many that should not, with which its routing is known."""
_RULE_CASES = 2
_BEHAVIOUR_CASES = 3
_VOTES = 5
"""People and agents who say whether it helped, from whom on that counts in full."""
_WHEN = pattern(r"\b(?:when(?:ever)?|if|use (?:this|it|for)|for (?:tasks|questions|requests))\b", re.IGNORECASE)
_SAFETY = {"none": 1.0, "info": 1.0, "low": 0.8, "medium": 0.4}
"""The share that a skill keeps with its worst finding; nothing from `high` on."""
_LIFT = {"better": 1.0, "no effect": 0.2, "underpowered": 0.2}
"""The share by the verdict of the behaviour tests; nothing where the agent did worse with the skill."""
_SELF_MADE = ("scripted", "recorded")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenefit:
    """The facts about a content that no run of its offline tests tells: they come from the records."""

    lift: str = ""
    """The verdict of its latest behaviour tests: `better`, `worse`, `no effect` or `underpowered`."""
    helped: int = 0
    """People who say that it helped, by their last word."""
    not_helped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartScore:
    """The points of one part of the score."""

    part: ScorePart
    points: float
    out_of: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to do, and the points that it would bring."""

    points: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of one content of a skill."""

    name: str
    digest: str
    location: str
    score: int
    parts: tuple[PartScore, ...]
    advice: tuple[Advice, ...] = field(default=())
    """The most worthwhile first."""


class _Known(NamedTuple):
    """Everything that criteria look at."""

    entry: Entry
    report: SkillReport
    suite: Suite
    benefit: KnownBenefit

    @property
    def place(self) -> str:
        """The skill as commands find it from here: its folder, where it lies below this one, else its name."""
        folder, here = os.path.dirname(self.entry.location), os.getcwd()
        return f"./{os.path.relpath(folder, here)}" if is_inside(folder, here) and folder != here else self.entry.name


class _Mark(NamedTuple):
    """The share of its points that a skill earns by one criterion, from 0 to 1."""

    share: float
    reason: str
    advice: str = ""


def score_of(entry: Entry, report: SkillReport, benefit: KnownBenefit | None = None) -> Score:
    """The score of a skill by the results of its tests and what else is known of its content."""
    if not report.digest:
        return _unreadable(report)
    known = _Known(entry, report, read_suite(entry.package), benefit or KnownBenefit())
    parts, advice, total = [], [], 0.0
    for part, rows in itertools.groupby(_CRITERIA, key=lambda row: row[0]):
        marks = [(points, mark) for _, points, criterion in rows if (mark := criterion(known)) is not None]
        out_of = OUT_OF[part]
        # What does not apply to this skill leaves its points to the rest of the part.
        scale = out_of / sum(points for points, _ in marks)
        earned = sum(points * scale * mark.share for points, mark in marks)
        is_untested = part == "tested" and not _has_cases(known.suite)
        reason = "It has no suite of tests." if is_untested else " ".join(mark.reason for _, mark in marks)
        parts.append(PartScore(part=part, points=round(earned, 1), out_of=out_of, reason=reason))
        for points, mark in marks:
            gain = round(points * scale * (1 - mark.share), 1)
            if gain > 0:
                advice.append(Advice(points=gain, text=mark.advice))
        total += earned
    return Score(
        name=report.name,
        digest=report.digest,
        location=report.location,
        score=round(total),
        parts=tuple(parts),
        advice=tuple(sorted(advice, key=lambda one: (-one.points, one.text))),
    )


def _unreadable(report: SkillReport) -> Score:
    """The score of a skill of which nothing could be tested."""
    reason = next((case.reason for tier in report.tiers for case in tier.cases if case.reason), "It cannot be read.")
    parts = tuple(PartScore(part=part, points=0.0, out_of=most, reason=reason) for part, most in OUT_OF.items())
    advice = (Advice(points=100.0, text=f"Mend what keeps it from being tested: {reason}"),)
    return Score(name=report.name, digest="", location=report.location, score=0, parts=parts, advice=advice)


def _form(known: _Known) -> _Mark:
    cases = [case for case in _cases(known, "form") if case.id != "scan" and case.verdict != "skipped"]
    failed = [case for case in cases if case.verdict == "failed"]
    if not cases:
        return _Mark(0, "Its form was not tested.", f"Test its form: `metier test {known.place}`.")
    if not failed:
        return _Mark(1, f"All {len(cases)} checks of its form pass.")
    reason = f"{len(failed)} of {len(cases)} checks of its form fail."
    return _Mark(1 - len(failed) / len(cases), reason, f"Mend its form: {failed[0].reason}")


def _description(known: _Known) -> _Mark:
    text, skill = known.entry.description, known.entry.skill
    length = min(1, len(text) / _LONG_ENOUGH)
    says_when = bool(skill.when_to_use) or _WHEN.search(text) is not None
    wanted = [
        *([f"in at least {_LONG_ENOUGH} characters what it does"] if length < 1 else []),
        *(["when to use it"] if not says_when else []),
    ]
    if not wanted:
        return _Mark(1, "Its description says what it does and when to use it.")
    reason = f"Its description has {len(text)} characters{'' if says_when else ', and does not say when to use it'}."
    return _Mark(0.6 * length + 0.4 * says_when, reason, f"Say in the description {' and '.join(wanted)}.")


def _routing(known: _Known) -> _Mark:
    passed, counting = _passed(known, "routing")
    if not counting:
        advice = f"Write prompts that should bring it up, and near ones that should not ({_PROMPTS} of each)."
        return _Mark(0, "Whether prompts find it was not tested.", advice)
    share = passed / counting * min(1, counting / (2 * _PROMPTS))
    reason = f"{passed} of {counting} prompts are routed as they should."
    if passed < counting:
        return _Mark(share, reason, f"Reword its description until all prompts pass ({counting - passed} fail).")
    return _Mark(share, reason, f"Write more prompts: {2 * _PROMPTS} at least, half of them near misses.")


def _scan(known: _Known) -> _Mark:
    case = next((case for case in _cases(known, "form") if case.id == "scan"), None)
    if case is None:
        return _Mark(0, "It was not scanned.", f"Have it scanned: `metier scan {known.place}`.")
    findings = [one for one in case.data.get("findings", ()) if not one.get("suppressed_by")]
    worst = max((str(one.get("severity")) for one in findings), key=rank, default="none")
    if any(one.get("rule") == FAILURE for one in findings):
        return _Mark(0, "The scanner failed.", "Mend what the scanner cannot read.")
    share = _SAFETY.get(worst, 0.0)
    reason = f"The worst finding of the scanner is {worst}." if findings else "The scanner finds nothing."
    return _Mark(share, reason, f"Mend the findings of the scanner: `metier scan {known.place}` shows them.")


def _routing_cases(known: _Known) -> _Mark:
    cases = known.suite.routing
    positive = sum(case.should_trigger for case in cases)
    share = sum(min(1, count / _PROMPTS) for count in (positive, len(cases) - positive)) / 2
    reason = f"Of its prompts, {positive} should find it and {len(cases) - positive} should not."
    return _Mark(
        share, reason, f"Give the suite {_PROMPTS} prompts that should bring it up and {_PROMPTS} that do not."
    )


def _script_cases(known: _Known) -> _Mark | None:
    scripts = {file.path for file in known.entry.package.listing().scripts()}
    if not scripts:
        return None
    passing = {case.id for case in _cases(known, "scripts") if case.verdict == "passed"}
    covered = scripts & {case.script for case in known.suite.scripts if case.id in passing}
    left = sorted(scripts - covered)
    reason = f"Cases pass for {len(covered)} of {len(scripts)} scripts."
    advice = f"Write cases for scripts, first {left[0]}." if left else ""
    return _lowered_by_failures(known, "scripts", _Mark(len(covered) / len(scripts), reason, advice))


def _lowered_by_failures(known: _Known, tier: Tier, mark: _Mark) -> _Mark:
    """The mark of a tier, less the share of its cases that fail."""
    passed, run = _passed(known, tier)
    if passed == run:
        return mark
    advice = f"Mend the cases of {tier} that fail ({run - passed} of {run}): `metier test {known.place}` shows them."
    return _Mark(mark.share * passed / run, f"{mark.reason} {run - passed} of {run} cases of {tier} fail.", advice)


def _rule_cases(known: _Known) -> _Mark | None:
    skill = known.entry.skill
    if skill.allowed_tools is None and not skill.disallowed_tools:
        return None
    passed, _ = _passed(known, "rules")
    advice = "Write a tool call that its rules allow, and one that they refuse."
    mark = _Mark(min(1, passed / _RULE_CASES), f"Its tool rules hold in {passed} of its cases.", advice)
    return _lowered_by_failures(known, "rules", mark)


def _behaviour_cases(known: _Known) -> _Mark:
    count = sum(bool(case.assertions) for case in known.suite.behaviour)
    reason = f"{count} task{'' if count == 1 else 's'} with assertions about what came of them."
    advice = f"Write {_BEHAVIOUR_CASES} tasks for an agent, with assertions about what must come of them."
    return _Mark(min(1, count / _BEHAVIOUR_CASES), reason, advice)


def _lift(known: _Known) -> _Mark:
    tier, lift = known.report.tier("behaviour"), known.benefit.lift
    if tier is not None:
        lift = lift_of(tier.data) or lift
    if not lift:
        advice = f"Find out whether agents do better with it: `metier test {known.place} --with MODEL`."
        return _Mark(0, "Whether agents do better with it is not known.", advice)
    advice = "Improve it until agents do better with it than without it."
    return _Mark(_LIFT.get(lift, 0.0), f"Its behaviour tests say: {lift}.", advice)


def _feedback(known: _Known) -> _Mark:
    helped, total = known.benefit.helped, known.benefit.helped + known.benefit.not_helped
    if not total:
        return _Mark(0, "Nobody has said whether it helps.", "Have its users say whether it helped: `metier feedback`.")
    reason = f"{helped} of {total} people say that it helped."
    return _Mark(helped / total * min(1, total / _VOTES), reason, "Have more of its users say that it helped them.")


OUT_OF: Mapping[ScorePart, int] = {"form": 20, "found": 25, "safe": 20, "tested": 20, "helps": 15}
"""The points of each part.

Being found weighs most: a skill that is not brought up does nothing, whatever else is good about it. That it helps
weighs least, as it takes a model and money to know. A skill that only keeps the rules has about half of all points.
"""
_CRITERIA: tuple[tuple[ScorePart, int, Callable[[_Known], _Mark | None]], ...] = (
    ("form", 20, _form),  # each check counts the same
    ("found", 10, _description),  # all that most models see of it
    ("found", 15, _routing),  # measured, and so worth more than how the description looks
    ("safe", 20, _scan),
    ("tested", 5, _routing_cases),
    ("tested", 5, _script_cases),  # only for a skill with scripts
    ("tested", 5, _rule_cases),  # only for a skill that says which tools it may use
    ("tested", 5, _behaviour_cases),
    ("helps", 10, _lift),
    ("helps", 5, _feedback),  # what people say is worth less than what was measured
)
"""The criteria of each part with their points, and why they have them."""


def lift_of(data: Mapping[str, Any]) -> str:
    """The verdict on agents with a skill and without it, in the data of the tier of behaviour; empty where it has none.

    Of several models the worst counts. The files of a skill say what a scripted or a recorded model does: that is no
    evidence for it.
    """
    found = [
        lift["verdict"]
        for runner, summary in data.get("runners", {}).items()
        for lift in summary["lifts"]
        if runner.partition(":")[0] not in _SELF_MADE and lift["over"] == "without"
    ]
    return min(found, key=lambda verdict: _LIFT.get(verdict, 0.0), default="")


def _has_cases(suite: Suite) -> bool:
    return bool(suite.routing or suite.scripts or suite.rules or suite.behaviour)


def _cases(known: _Known, tier: Tier) -> Iterator[Any]:
    result = known.report.tier(tier)
    return iter(result.cases if result is not None else ())


def _passed(known: _Known, tier: Tier) -> tuple[int, int]:
    """The number of cases that pass, and of those that were run."""
    result: TierResult | None = known.report.tier(tier)
    if result is None:
        return 0, 0
    passed = result.count("passed")
    return passed, passed + result.count("failed")
