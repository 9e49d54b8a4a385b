"""The context of a decision: one action with everything that checks may have to know about it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from metier._cache import cached_property
from metier._lazy import dataclass
from metier.errors import MetierError
from metier.guard.approvals.status import ApprovalStatus, current_status, timestamp
from metier.guard.inspection import (
    capabilities_of,
    current_suppressions,
    findings_together,
    scan_report_of,
    signer_of,
)
from metier.guard.policy.rules import ALIASES
from metier.guard.program_layer import NO_PROGRAM
from metier.guard.signers import trusted_signers
from metier.scan.finding import FAILURE, rank
from metier.skill import shown
from metier.skill.script_packages import declared_packages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Action, Actor, Origin, Subject
    from metier.guard.governance import Governance, InForce
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.program_layer import ProgramLayer
    from metier.library import Entry
    from metier.scan.capabilities import Capabilities
    from metier.scan.finding import Finding
    from metier.scan.scanner import ScanReport
    from metier.scan.suppression import Suppression
    from metier.store import Approval, GovernanceState, Install


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSummary:
    """The results of all scanners for one content."""

    severities: Mapping[str, str]
    """Engine to the highest severity that it found, `none` if nothing."""
    findings: tuple[Finding, ...] = ()
    """The findings of our own scanner; that it failed is none."""
    problem: str = ""
    """The reason why nobody can tell whether the content is clean; empty where somebody can."""

    @property
    def worst(self) -> str:
        """The highest severity of all."""
        return max(self.severities.values(), key=rank, default="none")

    def engines_at(self, severity: str) -> int:
        """The number of engines that found something at least as bad."""
        return sum(rank(found) >= rank(severity) for found in self.severities.values())

    def is_unknown(self, severity: str) -> bool:
        """Whether nothing so bad was found, and it counts as bad because a scanner failed."""
        others = (found for engine, found in self.severities.items() if engine != "core")
        found_by_us = (one.severity for one in self.findings)
        return bool(self.problem) and all(rank(found) < rank(severity) for found in (*found_by_us, *others))

    def because(self, severity: str) -> str:
        """The findings that are at least so bad, or why they are not known, as a part of a sentence."""
        if self.is_unknown(severity):
            return self.problem[:1].lower() + self.problem[1:].rstrip(".")
        bad = [one for one in self.findings if rank(one.severity) >= rank(severity)]
        named = ", ".join(dict.fromkeys(f"{one.rule} in {shown(one.path, 100)}:{one.line}" for one in bad[:_NAMED]))
        return f"a scan found {severity} or worse{f' ({named})' if named else ''}"


def _is_refused(state: GovernanceState, digest: str) -> bool:
    return digest in state.revoked or any(one.decision == "denied" for one in state.approvals.get(digest, ()))


_NAMED = 3
"""Findings that a refusal names."""
_NO_APPROVAL = ApprovalStatus()


class NotExamined(MetierError):
    """A skill cannot be inspected."""

    code = "not-examined"


@dataclass(eq=False, kw_only=True)
class DecisionContext:
    """One action with everything that checks may have to know about it, under one state of policy and store.

    Whatever takes time is found out when a check first asks for it.
    """

    action: Action
    actor: Actor
    governance: Governance
    program: ProgramLayer = NO_PROGRAM

    @cached_property
    def subject(self) -> Subject | None:
        """The skill that the action is about."""
        return self.action.skill

    def bind(self, in_force: InForce) -> None:
        """Decide under this state of policy and store."""
        self.__dict__["effective"], self.__dict__["states"], _ = in_force

    @cached_property
    def effective(self) -> EffectivePolicy:
        """The policy of all files together."""
        self.bind(self.governance.in_force(self.actor))
        found: EffectivePolicy = self.__dict__["effective"]
        return found

    @cached_property
    def states(self) -> tuple[GovernanceState, ...]:
        """The states of the store: for the whole installation and, behind it, for the actor's tenant."""
        self.bind(self.governance.in_force(self.actor))
        found: tuple[GovernanceState, ...] = self.__dict__["states"]
        return found

    @property
    def point(self) -> str:
        """The point of decision, as policy files call it."""
        return ALIASES.get(self.action.point, self.action.point)

    @property
    def environment(self) -> str:
        """The environment that it would happen in: where nobody says, the machine's."""
        return self.actor.environment or self.effective.environment or ""

    @property
    def trigger(self) -> str:
        """The cause of the action: `model`, `user`, `host`, or `nested` inside of another skill.

        What a client asks for in the name of a person is under the rules for people.
        """
        if self.action.nested:
            return "nested"
        return "user" if self.action.by == "client" else self.action.by

    @cached_property
    def location(self) -> str:
        """The folder of the skill."""
        return self.subject.location if self.subject is not None else ""

    @cached_property
    def required(self) -> Mapping[str, Origin | None]:
        """The capabilities that the skill needs an approval for, each with the line that says so."""
        subject = self.subject
        is_foreign = subject is not None and subject.layer == "plugin" and not subject.is_bundled
        return self.effective.required_of_plugins if is_foreign else self.effective.required

    @property
    def install(self) -> Install | None:
        """The record of the installation in the folder of the skill."""
        for state in reversed(self.states):
            if state.installs and self.location in state.installs:
                return state.installs[self.location]
        return None

    @cached_property
    def is_as_recorded(self) -> bool:
        """Whether the content is what is on record of its place, or what was just to take the place of that."""
        install, digest = self.install, self.subject.digest if self.subject is not None else ""
        if install is None or not digest or install.digest == digest:
            return True
        from metier.guard.content_records import announced

        if self.states[-1].managed and self._is_arriving(install, digest):
            return True
        # It may have been put there by a process that was killed before that was on record.
        store = self.governance.store()
        scopes = [] if store is None else [store.of(tenant) for tenant in {self.actor.tenant or "", ""}]
        return any(announced(scope, install, digest) for scope in scopes)

    def _is_arriving(self, install: Install, digest: str) -> bool:
        """Whether a content may be in a folder of a node until its server's is brought there."""
        from metier.guard.node.arriving import arriving

        return digest in arriving().get(install.location, ())

    @property
    def vouching_states(self) -> tuple[GovernanceState, ...]:
        """The states whose results of tests count: on a node, those of its server alone."""
        return tuple(state for state in self.states if state.managed) or self.states

    @cached_property
    def denied(self) -> Approval | None:
        """The decision of a person against exactly this content, here or for the whole installation."""
        if self.approval_status.denied is not None or self.subject is None:
            return self.approval_status.denied
        others = (state.approvals.get(self.subject.digest, ()) for state in self.states[:-1])
        return next(filter(None, (self._status_of(one).denied for one in others if one)), None)

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """The approvals and refusals of exactly this content."""
        return self.states[-1].approvals.get(self.subject.digest, ()) if self.subject is not None else ()

    @property
    def collides_with(self) -> frozenset[str]:
        """The layers that have another skill of this name."""
        return self.action.rivals

    @cached_property
    def approval_status(self) -> ApprovalStatus:
        """The effective approval of this content, here and now."""
        approvals = self.approvals
        return self._status_of(approvals) if approvals else _NO_APPROVAL

    def _status_of(self, approvals: tuple[Approval, ...]) -> ApprovalStatus:
        layer = self.subject.layer if self.subject is not None else ""
        at = self.states[-1].at  # one that is decided about again has the approvals of its time
        return current_status(approvals, self.effective.approval, layer=layer, environment=self.environment, at=at)

    @cached_property
    def lacking(self) -> tuple[str, ...]:
        """The capabilities that policy wants approved and nobody has; raises where they cannot be told."""
        subject = self.subject
        if subject is None:
            return ()
        wanted, grants = self.required, self.approval_status.grants
        names = self.capabilities.names
        ungranted = [name for name in names if name not in grants]
        found = [name for name in ungranted if name in wanted]
        if "new-capability" in wanted and len(found) < len(ungranted) and self.has_earlier:
            found += [name for name in self.new if name in ungranted and name not in found]
        return tuple(found)

    @cached_property
    def _earlier(self) -> tuple[Approval, ...]:
        """The last approvals of other content of the same skill, in the same folder."""
        subject, state = self.subject, self.states[-1]
        if subject is None:
            return ()
        for digest in reversed(state.digests.get((subject.ref, self.location), ())):
            if digest == subject.digest:
                continue
            several = state.approvals[digest]
            status = self._status_of(several)
            # Whatever ran out was approved once; what too few agreed to, or somebody denied, was not.
            if status.is_approved or (status.expired and status.denied is None):
                return tuple(one for one in several if one.decision == "approved")
        return ()

    @property
    def has_earlier(self) -> bool:
        """Whether other content of the skill was approved before."""
        return bool(self._earlier)

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The capabilities that the last approved content did not have."""
        names = self.capabilities.names
        if not self._earlier:
            return names
        last = max(self._earlier, key=lambda one: one.decided_at)
        return tuple(name for name in names if name not in last.grants)

    @cached_property
    def automatic(self) -> str | None:
        """The rule of policy that approves of this content by itself, if one does."""
        if self.effective.approval.auto is None or self.subject is None:
            return None
        if any(_is_refused(state, self.subject.digest) for state in self.states):
            return None  # what a person took back or said no to, policy does not give again
        from metier.guard.approvals.decisions import automatic_approval

        scanned = self.scanned
        return automatic_approval(
            self.effective,
            new=self.new if self.has_earlier else None,
            scan_max=scanned.worst,
            scan_status="error" if scanned.problem else "ok",
            signer=self.signer if self.effective.approval.auto.signer else "",
        )

    @cached_property
    def signer(self) -> str:
        """The signer of the content, of those whose signatures count; empty where there is none, or nobody can tell."""
        try:
            return signer_of(*self._content(), trusted_signers(self.effective))
        except MetierError:
            return ""

    @cached_property
    def capabilities(self) -> Capabilities:
        """The capabilities of the skill; raises `NotExamined` where nobody can tell."""
        effective = self.effective
        return capabilities_of(*self._content(), network=effective.network_tools, write=effective.write_tools)

    @cached_property
    def declares_packages(self) -> bool:
        """Whether the skill's scripts declare packages; raises `NotExamined` where nobody can tell."""
        entry, digest = self._content()
        return bool(declared_packages(entry.package, digest, self.subject.copy if self.subject is not None else ""))

    @cached_property
    def report(self) -> ScanReport:
        """The report of our own scanner, without suppressed findings; raises `NotExamined` where it cannot look."""
        return scan_report_of(*self._content(), self._suppressions, self.effective.scan.packs)

    @cached_property
    def scanned(self) -> ScanSummary:
        """The results of all scanners; raises `NotExamined` where none could look."""
        settings, report = self.effective.scan, self.report
        if self.action.beside:
            together = findings_together((*self.action.beside, *filter(None, [self.subject])), settings)
            report = report.with_findings(together, self._suppressions)
        severities = {"core": report.max_severity}
        problem = "" if report.status == "ok" else f"The scanner failed: {report.error.rstrip('.')}."
        findings = tuple(one for one in report.findings if one.rule != FAILURE and not one.suppressed_by)
        if settings.commands:
            from metier.guard.scan_records import recorded_problem, recorded_severity

            # What scanners say that policy does not name can make it worse; only those that it names can be missing.
            scope = self.governance.known_scope(self.actor)
            latest = scope.scans.latest(self._content()[1]) if scope is not None else ()
            rows = {row.engine: row for row in latest if row.engine != "core"}
            since = timestamp(max(0, time.time() - settings.rescan_after)) if settings.rescan_after is not None else ""
            recent = [row for row in rows.values() if row.at >= since]
            severities |= {row.engine: recorded_severity(row, self._suppressions) for row in recent}
            for engine in settings.commands:
                problem = problem or recorded_problem(engine, rows.get(engine), since)
        return ScanSummary(severities=severities, findings=findings, problem=problem)

    @property
    def _suppressions(self) -> tuple[Suppression, ...]:
        return current_suppressions(self.effective.scan.suppressions)

    def _content(self) -> tuple[Entry, str]:
        """The entry of the skill and its digest, if it can be looked into."""
        subject = self.subject
        if subject is None or subject.entry is None or not subject.digest:
            raise NotExamined("The skill's files are not at hand.", hint="Decide about a skill of a library.")
        return subject.entry, subject.digest
