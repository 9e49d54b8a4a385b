"""Scanning one skill: every rule over one view of it, and a report that never says clean when a rule failed."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from metier._log import logger
from metier.errors import MetierError
from metier.guard.scan.finding import Finding, rank
from metier.guard.scan.reading import view_of
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metier.guard.scan.rule import Hit, Rule
    from metier.guard.scan.suppression import Suppression
    from metier.guard.scan.view import View
    from metier.skill import Package

SECONDS = 20.0
"""CPU time that one skill may take."""
MAX_HITS = 50
"""Findings that are kept of one rule and severity; the rest is counted."""
VERSION = "1"
"""Of the engine: together with the rules it says whether an earlier report still holds."""

log = logger("metier.guard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What scanning a skill said.

    >>> from metier.skill import MemoryPackage
    >>> report = scan(MemoryPackage({"SKILL.md": "---\\nname: a\\ndescription: Greets.\\n---\\nSay hello."}), rules=())
    >>> report.name, report.status, report.max_severity
    ('a', 'ok', 'none')
    """

    name: str
    digest: str
    """Of the content that was scanned; empty when it could not be read."""
    findings: tuple[Finding, ...] = ()
    """The worst first; those that are suppressed are among them, marked."""
    capabilities: tuple[str, ...] = ()
    status: Literal["ok", "error"] = "ok"
    error: str = ""
    """Why the status is `error`: then what the findings leave out was perhaps not looked at."""
    ms: float = 0.0
    ruleset: str = ""
    """Changes with the rules."""
    not_shown: int = 0
    """How many more findings there were of rules that found very many."""

    @property
    def max_severity(self) -> str:
        """The severity of the worst finding that counts; `none` when there is none."""
        counting = (found.severity for found in self.findings if not found.suppressed_by)
        return max(counting, key=rank, default="none")

    def with_findings(self, more: Iterable[Finding], suppressions: Sequence[Suppression] = ()) -> Report:
        """The same report with what another scanner found: it can only get worse."""
        added = tuple(_marked(found, suppressions, self.digest) for found in more)
        return replace(self, findings=_sorted((*self.findings, *added)))

    def failed(self, error: str) -> Report:
        """The same report, no longer to be taken for complete."""
        return replace(
            self,
            status="error",
            error=f"{self.error} {error}".strip(),
            findings=_sorted((*self.findings, _failure(error))),
        )

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints, but for the path."""
        return {
            "name": self.name,
            "digest": self.digest,
            "status": self.status,
            "error": self.error,
            "max_severity": self.max_severity,
            "capabilities": list(self.capabilities),
            "findings": [found.as_dict() for found in self.findings],
            "suppressed": sum(bool(found.suppressed_by) for found in self.findings),
            "not_shown": self.not_shown,
            "ruleset": self.ruleset,
            "ms": round(self.ms, 1),
        }


def scan(
    package: Package,
    *,
    rules: Sequence[Rule] | None = None,
    suppressions: Sequence[Suppression] = (),
    folder: str = "",
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.thread_time,
) -> Report:
    """Look at every file of a skill with every rule; all rules there are unless `rules` says which.

    A rule that fails, or a skill that takes longer than `seconds` of CPU time, makes a report with the status
    `error` and a finding of its own, so that nobody takes it for a clean one. Suppressions mark findings.
    """
    started = clock()
    chosen = all_rules() if rules is None else tuple(rules)
    report = Report(name=folder, digest="", ruleset=ruleset_of(chosen))
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
    for rule in chosen:
        run.apply(rule)
    report = replace(
        report,
        name=view.name,
        digest=view.digest,
        findings=_sorted(_resting(run.findings, chosen)),
        capabilities=_capabilities(view),
        not_shown=run.not_shown,
    )
    for problem in run.problems:
        report = report.failed(problem)
    return replace(report, ms=(clock() - started) * 1000)


def all_rules() -> tuple[Rule, ...]:
    """Every rule: those about text and those about the structure of a package."""
    from metier.guard.scan.rules import ALL_RULES
    from metier.guard.scan.structure import RULES

    return (*RULES, *ALL_RULES)


def ruleset_of(rules: Sequence[Rule]) -> str:
    """A digest of the rules and of the engine's version."""
    said = "\n".join((VERSION, *sorted(f"{rule.id} {rule.severity}" for rule in rules)))
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"


class _Run:
    """One view under all rules."""

    def __init__(
        self, view: View, suppressions: Sequence[Suppression], deadline: float, clock: Callable[[], float]
    ) -> None:
        self._view = view
        self._suppressions = suppressions
        self._deadline = deadline
        self._clock = clock
        self.findings: list[Finding] = []
        self.problems: list[str] = []
        self.not_shown = 0

    def apply(self, rule: Rule) -> None:
        if self._is_late():
            if not self.problems or not self.problems[-1].startswith(_LATE):
                self.problems.append(f"{_LATE} the rules from {rule.id} on were not applied.")
            return
        kept: dict[str, int] = {}
        seen: set[tuple[str, int, str]] = set()
        try:
            for hit in rule.check(self._view):
                key = (hit.path, hit.line, hit.text)
                if key in seen:
                    continue
                severity = hit.severity or rule.severity
                kept[severity] = kept.get(severity, 0) + 1
                if kept[severity] > MAX_HITS:
                    self.not_shown += 1
                else:
                    seen.add(key)
                    self.findings.append(_marked(_finding(rule, hit), self._suppressions, self._view.digest))
                if self._is_late():
                    self.problems.append(f"{_LATE} {rule.id} was not finished.")
                    return
        except Exception as error:  # a rule is given what strangers wrote: whatever it does must not look clean
            log.warning("Rule %s failed on %s", rule.id, shown(self._view.name), exc_info=True)
            self.problems.append(f"Rule {rule.id} failed ({type(error).__name__}).")

    def _is_late(self) -> bool:
        return self._clock() > self._deadline


_LATE = "Scanning took too long:"


def _finding(rule: Rule, hit: Hit) -> Finding:
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
    )


def _failure(error: str) -> Finding:
    return Finding(
        rule="SCAN_FAILED",
        ast="AST08",
        category="defense_evasion_obfuscation",
        severity="high",
        path="SKILL.md",
        line=1,
        message=shown(error, 500),
        hint="Look at the skill yourself before you use it, or scan it again.",
        text="",
    )


def _marked(found: Finding, suppressions: Sequence[Suppression], digest: str) -> Finding:
    for suppression in suppressions:
        if suppression.covers(found, digest):
            return replace(found, suppressed_by=suppression.said)
    return found


def _resting(findings: Sequence[Finding], rules: Sequence[Rule]) -> Iterator[Finding]:
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


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    def key(found: Finding) -> tuple[bool, int, str, int, str]:
        return bool(found.suppressed_by), -rank(found.severity), found.path, found.line, found.rule

    return tuple(sorted(findings, key=key))


def _capabilities(view: View) -> tuple[str, ...]:
    from metier.guard.capabilities import infer_from

    names = set(infer_from(view).names)
    if view.left_out:
        # No part of the content that is approved, but there for whoever opens the folder by other means.
        names.add("opaque-files")
    return tuple(sorted(names))
