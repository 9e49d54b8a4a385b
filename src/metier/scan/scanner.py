"""Scanning one skill: every rule over one view of it, and a report that never says clean when a rule failed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._lazy import logger, replace
from metier._regex_cache import keep
from metier.errors import MetierError
from metier.scan.capabilities import infer_from
from metier.scan.finding import MAX_HITS, Finding, rank
from metier.scan.reading import view_of
from metier.scan.report import ScanReport, marked, worst_first
from metier.scan.rule_book import core_book, time_is_up
from metier.scan.ruleset import all_rules, ruleset_of, usable
from metier.scan.together import sent, taken
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metier.scan.pack_store import PackRef
    from metier.scan.rule import Hit, ScanRule
    from metier.scan.suppression import Suppression
    from metier.scan.view import SkillView
    from metier.skill import Package

SECONDS = 20.0
"""CPU time that one skill may take."""

__all__ = ["MAX_HITS", "SECONDS", "ScanReport", "scan"]

log = logger("metier.scan")


def scan(
    package: Package,
    *,
    rules: Sequence[ScanRule] | None = None,
    packs: Sequence[PackRef] = (),
    suppressions: Sequence[Suppression] = (),
    folder: str = "",
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.thread_time,
) -> ScanReport:
    """Look at every file of a skill with every rule and those of `packs`; `rules` names others instead.

    A rule that fails, or a skill that takes longer than `seconds` of CPU time, makes a report with the status
    `error` and a finding of its own, so that nobody takes it for a clean one. Suppressions mark findings.
    """
    started = clock()
    good, problems = usable(packs)
    chosen = all_rules(good) if rules is None else tuple(rules)
    report = ScanReport(name=folder, digest="", ruleset=ruleset_of(chosen))
    try:
        view = view_of(package, folder=folder)
    except MetierError as error:
        return replace(report.failed(f"The skill cannot be read: {error.message}"), ms=(clock() - started) * 1000)
    except Exception as error:  # whatever strangers wrote made it fail: that must not look clean either
        log.warning("The skill %s cannot be taken apart", shown(folder), exc_info=True)
        return replace(
            report.failed(f"The skill cannot be read ({type(error).__name__})."), ms=(clock() - started) * 1000
        )
    now = datetime.now(UTC)
    run = _Run(view, [one for one in suppressions if not one.is_expired(now)], started + seconds, clock)
    token = time_is_up.set(run.is_late)
    try:
        for rule in chosen:
            run.apply(rule)
        run.note_late()
    finally:
        time_is_up.reset(token)
    keep()
    found = infer_from(view)
    is_whole = rules is None and not run.problems
    report = replace(
        report,
        name=view.name,
        digest=view.digest,
        findings=worst_first(_resting(run.findings, chosen)),
        # What is no part of the content that is approved is there for whoever opens the folder by other means.
        capabilities=tuple(sorted({*found.names, *(("opaque-files",) if view.left_out else ())})),
        declared=found.declared,
        undeclared=found.undeclared,
        takes=taken(run.facts("takes")) if is_whole else (),
        sends=sent(run.facts("sends")) if is_whole else (),
        not_shown=run.not_shown,
    )
    for problem in (*problems, *run.problems):
        report = report.failed(problem)
    return replace(report, ms=(clock() - started) * 1000)


class _Run:
    """One view under all rules."""

    def __init__(
        self, view: SkillView, suppressions: Sequence[Suppression], deadline: float, clock: Callable[[], float]
    ) -> None:
        self._view = view
        self._suppressions = suppressions
        self._deadline = deadline
        self._clock = clock
        self.findings: list[Finding] = []
        self.problems: list[str] = []
        self.not_shown = 0

    def apply(self, rule: ScanRule) -> None:
        if not rule.keeps_time and self.note_late(rule):
            return
        try:
            hits = rule.check(self._view)
            if rule.keeps_time and not hits:
                return
            kept: dict[str, int] = {}
            seen: set[tuple[str, int, str]] = set()
            for hit in hits:
                key = (hit.path, hit.line, hit.text)
                if key in seen:
                    continue
                severity = hit.severity or rule.severity
                kept[severity] = kept.get(severity, 0) + 1
                if kept[severity] > MAX_HITS:
                    self.not_shown += 1
                else:
                    seen.add(key)
                    self.findings.append(marked(_finding(rule, hit), self._suppressions, self._view.digest))
                if self.is_late() and not rule.keeps_time:
                    self.problems.append(f"{_LATE} {rule.id} was not finished.")
                    return
        except Exception as error:  # a rule is given what strangers wrote: whatever it does must not look clean
            log.warning("Rule %s failed on %s", rule.id, shown(self._view.name), exc_info=True)
            self.problems.append(f"Rule {rule.id} failed ({type(error).__name__}).")

    def facts(self, name: str) -> Iterable[Hit]:
        """The places that show something which is told of the skill beside its findings."""
        try:
            return core_book().hits_of(name, self._view)
        except Exception as error:
            log.warning("%s cannot be told of %s", name, shown(self._view.name), exc_info=True)
            self.problems.append(f"It cannot be told what it {name} ({type(error).__name__}).")
            return ()

    def note_late(self, rule: ScanRule | None = None) -> bool:
        """Whether the time is over, which is told once, with the rule that it was over at."""
        is_late = self.is_late()
        if is_late and not any(problem.startswith(_LATE) for problem in self.problems):
            those = f"the rules from {rule.id} on" if rule is not None else "some rules"
            self.problems.append(f"{_LATE} {those} were not applied, or not all.")
        return is_late

    def is_late(self) -> bool:
        """Whether the time that the skill may take is over."""
        return self._clock() > self._deadline


_LATE = "Scanning took too long:"


def _finding(rule: ScanRule, hit: Hit) -> Finding:
    return Finding(
        rule=rule.id,
        ast=rule.ast,
        category=rule.category,
        severity=hit.severity or rule.severity,
        path=hit.path,
        line=max(1, hit.line),
        message=shown(hit.message or rule.message, 500),
        hint=rule.hint,
        text=hit.text,
        stance=hit.stance,
        harmless=rule.harmless,
    )


def _resting(findings: Sequence[Finding], rules: Sequence[ScanRule]) -> Iterator[Finding]:
    """The findings; one that sums up others is suppressed with them when none of those is left to count."""
    sums = {rule.id: rule.sums_up for rule in rules if rule.sums_up}
    others = [found for found in findings if found.rule not in sums and rank(found.severity) >= rank("medium")]
    for found in findings:
        where = sums.get(found.rule, "")
        if where and not found.suppressed_by:
            below = [one for one in others if where == "skill" or (one.path, one.line) == (found.path, found.line)]
            kinds = {one.category for one in below if not one.suppressed_by}
            said = next((one.suppressed_by for one in below if one.suppressed_by), "")
            if said and len(kinds) < (2 if where == "skill" else 1):
                found = replace(found, suppressed_by=said)
        yield found
