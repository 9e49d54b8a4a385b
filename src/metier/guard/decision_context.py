"""One action with everything that may have to be known to decide about it, found out when somebody asks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier._once import once
from metier.errors import MetierError
from metier.guard.approvals.status import ApprovalStatus, current_status, timestamp
from metier.guard.inspection import ToolClasses
from metier.guard.policy.rules import ALIASES
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.guard.decision import Action, Actor
    from metier.guard.inspection import Inspector
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import Origin
    from metier.scan.capabilities import Capabilities
    from metier.scan.scanner import ScanReport
    from metier.scan.suppression import Suppression
    from metier.skill import Package
    from metier.store import Approval, GovernanceState, Install, ScanRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSummary:
    """What scanners said to one content."""

    severities: Mapping[str, str]
    """Engine to the highest severity that it found, `none` if nothing."""
    problem: str = ""
    """Why it is not known whether the content is clean; empty when it is."""

    @property
    def worst(self) -> str:
        """The highest severity of all."""
        return max(self.severities.values(), key=rank, default="none")

    def engines_at(self, severity: str) -> int:
        """How many engines found something at least as bad."""
        return sum(rank(found) >= rank(severity) for found in self.severities.values())


_NO_STANDING = ApprovalStatus()
_BUNDLED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bundled", "")


class NotExamined(MetierError):
    """What would have to be known about a skill cannot be found out."""

    code = "not-examined"


class DecisionContext:
    """One action to be decided about, under one state of policy and store."""

    def __init__(
        self,
        action: Action,
        actor: Actor,
        effective: EffectivePolicy,
        states: tuple[GovernanceState, ...],
        examiner: Inspector,
        scans: Callable[[str], Sequence[ScanRow]],
        suppressions: Callable[[], tuple[Suppression, ...]],
        decided: Callable[[str], Sequence[Approval]] = lambda _: (),
        replaces: Callable[[Install, str], bool] = lambda *_: False,
    ) -> None:
        """`states` are those of the whole installation and, behind it, of the actor's tenant.

        `scans` finds what other scanners said to a digest, `suppressions` the findings that somebody answers for,
        `decided` all that was decided about a digest, also what was taken back, `replaces` whether a digest was put in
        place of what is on record by somebody who was cut short.
        """
        self.action = action
        self.subject = action.skill
        """The skill that it is about."""
        self.actor = actor
        self.effective = effective
        self.states = states
        self._examiner = examiner
        self._scans = scans
        self._suppressions = suppressions
        self._decided = decided
        self._replaces = replaces

    @property
    def point(self) -> str:
        """What a policy file calls the point of decision."""
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

    @once
    def location(self) -> str:
        """The folder of the skill."""
        entry = self.subject.entry if self.subject is not None else None
        return os.path.dirname(entry.location) if entry is not None else ""

    @property
    def is_bundled(self) -> bool:
        """Whether the skill came with this very package, which vouches for it."""
        return self.location.startswith(_BUNDLED)

    @once
    def required(self) -> Mapping[str, Origin | None]:
        """What the skill needs an approval for, each with the line that says so."""
        layer = self.subject.layer if self.subject is not None else ""
        return self.effective.needs_approval("bundled" if self.is_bundled else layer)

    @property
    def install(self) -> Install | None:
        """What is on record of the skill in its place."""
        found = (state.installs.get(self.location) for state in reversed(self.states) if state.installs)
        return next((one for one in found if one is not None), None)

    @once
    def is_as_recorded(self) -> bool:
        """Whether the content is what is on record of its place, or what was just to take the place of that."""
        install, digest = self.install, self.subject.digest if self.subject is not None else ""
        return install is None or not digest or install.digest == digest or self._replaces(install, digest)

    @once
    def denied(self) -> Approval | None:
        """Whoever decided against exactly this content, here or for the whole installation."""
        if self.standing.denied is not None or self.subject is None:
            return self.standing.denied
        common = self.states[0].approvals.get(self.subject.digest, ()) if len(self.states) > 1 else ()
        return self._standing_of(common).denied if common else None

    @property
    def approvals(self) -> tuple[Approval, ...]:
        """What was decided about exactly this content."""
        return self.states[-1].approvals.get(self.subject.digest, ()) if self.subject is not None else ()

    @property
    def collides_with(self) -> frozenset[str]:
        """The layers that have another skill of this name."""
        return self.action.rivals

    @once
    def standing(self) -> ApprovalStatus:
        """What the approvals of this content come to, here and now."""
        approvals = self.approvals
        return self._standing_of(approvals) if approvals else _NO_STANDING

    def _standing_of(self, approvals: tuple[Approval, ...]) -> ApprovalStatus:
        layer = self.subject.layer if self.subject is not None else ""
        return current_status(approvals, self.effective.approval, layer=layer, environment=self.environment)

    @once
    def lacking(self) -> tuple[str, ...]:
        """What the skill can do that policy wants approved and nobody has; raises where it cannot be told."""
        subject = self.subject
        if subject is None:
            return ()
        wanted, grants = self.required, self.standing.grants
        names = self.capabilities.names
        ungranted = [name for name in names if name not in grants]
        found = [name for name in ungranted if name in wanted]
        if "new-capability" in wanted and len(found) < len(ungranted) and self.has_earlier:
            found += [name for name in self.new if name in ungranted and name not in found]
        return tuple(found)

    @once
    def _earlier(self) -> tuple[Approval, ...]:
        """What was approved last of other content of the same skill, in the same folder."""
        subject, state = self.subject, self.states[-1]
        if subject is None:
            return ()
        for digest in reversed(state.digests.get((subject.ref, self.location), ())):
            if digest == subject.digest:
                continue
            several = state.approvals[digest]
            stood = self._standing_of(several)
            # Whatever ran out was approved once; what too few agreed to, or somebody denied, was not.
            if stood.is_approved or (stood.expired and stood.denied is None):
                return tuple(one for one in several if one.decision == "approved")
        return ()

    @property
    def has_earlier(self) -> bool:
        """Whether other content of the skill was approved before."""
        return bool(self._earlier)

    @once
    def new(self) -> tuple[str, ...]:
        """What the skill can do that the last content which was approved could not."""
        names = self.capabilities.names
        if not self._earlier:
            return names
        last = max(self._earlier, key=lambda one: one.decided_at)
        return tuple(name for name in names if name not in last.grants)

    @once
    def automatic(self) -> str | None:
        """The rule of policy that approves of this content by itself, if one does."""
        if self.effective.approval.auto is None or self.subject is None:
            return None
        if any(one.revoked_at or one.decision == "denied" for one in self._decided(self.subject.digest)):
            return None  # what a person took back or said no to, policy does not give again
        from metier.guard.approvals.decisions import automatic_approval

        scanned = self.scanned
        return automatic_approval(
            self.effective,
            new=self.new if self.has_earlier else None,
            scan_max=scanned.worst,
            scan_status="error" if scanned.problem else "ok",
            signer="",
        )

    @once
    def capabilities(self) -> Capabilities:
        """What the skill can do; raises `NotExamined` where nobody can tell."""
        digest = self._examined()
        classes = ToolClasses(network=self.effective.network_tools, write=self.effective.write_tools)
        return self._examiner.capabilities(self._package, digest, classes)

    @once
    def report(self) -> ScanReport:
        """The report of our own scanner, without suppressed findings; raises `NotExamined` where it cannot look."""
        return self._examiner.report(self._package, self._examined(), self._suppressions())

    @once
    def scanned(self) -> ScanSummary:
        """What scanners say to it; raises `NotExamined` where none could look."""
        digest, suppressions, settings, report = (
            self._examined(),
            self._suppressions(),
            self.effective.scan,
            self.report,
        )
        severities = {"core": report.max_severity}
        problem = "" if report.status == "ok" else f"The scanner failed: {report.error}."
        if settings.commands:
            from metier.guard.scan_records import recorded_problem, recorded_severity

            # What scanners say that policy does not name can make it worse; only those that it names can be missing.
            rows = {row.engine: row for row in self._scans(digest) if row.engine != "core"}
            since = timestamp(max(0, time.time() - settings.rescan_after)) if settings.rescan_after is not None else ""
            severities |= {row.engine: recorded_severity(row, suppressions) for row in rows.values() if row.at >= since}
            for engine in settings.commands:
                problem = problem or recorded_problem(engine, rows.get(engine), since)
        return ScanSummary(severities=severities, problem=problem)

    def _package(self) -> Package:
        assert self.subject is not None and self.subject.entry is not None
        return self.subject.entry.package

    def _examined(self) -> str:
        """The digest of the skill, if it can be looked into."""
        subject = self.subject
        if subject is None or subject.entry is None or not subject.digest:
            raise NotExamined("The skill's files are not at hand.", hint="Decide about a skill of a library.")
        return subject.digest
