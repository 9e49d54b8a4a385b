"""A deployment that is only rehearsed: what would be put where, what decides about it, and what it would approve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier.errors import NotPermitted
from metier.guard import Guard
from metier.guard.approvals.status import current_status
from metier.guard.audit.governance_events import actor_of
from metier.guard.decision import refuse
from metier.guard.explanation import explain
from metier.hub.apply import approve_content, require_own
from metier.hub.authorisation import demand_of_person
from metier.hub.deployment import ROLE, WHAT, candidate
from metier.hub.folder_replacement import digest_at
from metier.hub.scan_findings import against
from metier.hub.skill_files import capabilities_of, keep_files, package_of
from metier.scan import scan

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from metier.guard import Decision
    from metier.guard.approvals.status import ApprovalStatus
    from metier.guard.explanation import Explanation
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.deployment import DeployCandidate
    from metier.hub.skill_location import SkillLocation
    from metier.scan import ScanReport
    from metier.store import Person, TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPlan:
    """The approvals around a deployment, in the layer and the environment that it is for."""

    needed: tuple[str, ...] = ()
    """The capabilities that policy wants approved, and that are not."""
    given: tuple[str, ...] = ()
    """The capabilities that the deployment would approve."""
    lacking: tuple[str, ...] = ()
    """The capabilities that would need an approval even then."""
    why_not: str = ""
    """The reason why the deployment would not approve the content; empty where it would."""
    answers: tuple[str, ...] = ()
    """The requests that would have their answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployDryRun:
    """The expected result of a deployment."""

    home: SkillLocation
    digest: str
    over: str | None
    """The digest of what lies there now."""
    environment: str
    is_unchanged: bool
    """Whether it is deployed already, as it is."""
    report: ScanReport
    """The findings of the scanner."""
    explanation: Explanation
    """The decision about the deployment, with every check that has a say."""
    approvals: ApprovalPlan

    @property
    def is_allowed(self) -> bool:
        """Whether it would be deployed."""
        return self.explanation.outcome == "allow"

    @property
    def code(self) -> str:
        """The code of what is against it; empty where nothing is."""
        if self.is_allowed:
            return ""
        return next((one.code for one in self.explanation.considered if one.rule == self.explanation.rule), "")


def dry_run_deploy(
    scope: TenantScope,
    person: Person,
    path: str | os.PathLike[str],
    *,
    to: str | os.PathLike[str] | None = None,
    accept_findings: str = "",
    environment: str = "",
    guard: Guard | None = None,
) -> DeployDryRun:
    """Describe what `deploy` would do with the same arguments; change nothing, ask nobody, record nothing.

    A content that is no valid skill raises as it does there.
    """
    wanted = candidate(path, to)
    wanted.require_valid()
    guard = guard or Guard()
    report = scan(package_of(wanted.files), packs=guard.governance.effective.scan.packs)
    first = [
        *_refusals("who may deploy", lambda: demand_of_person(person, ROLE, WHAT)),
        *_refusals("whose folder it is", lambda: require_own(scope, wanted.home)),
    ]
    findings = against(report, accept_findings)
    if findings is not None:
        first.append(findings)
    explanation = _with(first, explain(guard, wanted.action(), actor_of(person, scope, environment)))
    over = digest_at(wanted.home.folder)
    is_unchanged = wanted.is_deployed(scope, over)
    why_not = "" if explanation.outcome == "allow" else explanation.reason
    if is_unchanged and not why_not:
        why_not = "It is deployed already."
    return DeployDryRun(
        home=wanted.home,
        digest=wanted.digest,
        over=over,
        environment=environment,
        is_unchanged=is_unchanged,
        report=report,
        explanation=explanation,
        approvals=_approving(scope, guard.governance.effective, person, wanted, environment, why_not),
    )


def _refusals(check: str, demand: Callable[[], None]) -> list[Decision]:
    try:
        demand()
    except NotPermitted as error:
        return [refuse(check, error.message, code=error.code, hint=error.hint)]
    return []


def _with(first: Sequence[Decision], later: Explanation) -> Explanation:
    """An objection that comes before policy decides, since policy is not asked then."""
    if not first:
        return later
    one = first[0]
    return replace(
        later,
        outcome=one.outcome,
        would=None,
        reason=one.reason,
        rule=one.rule,
        hint=one.hint,
        considered=(*first, *later.considered),
    )


class _Undone(Exception):
    """Takes back all that was tried."""


def _approving(
    scope: TenantScope,
    effective: EffectivePolicy,
    person: Person,
    wanted: DeployCandidate,
    environment: str,
    why_not: str,
) -> ApprovalPlan:
    """The approvals, tried in a transaction that is rolled back, so that they are exactly those of a deployment."""
    found = ApprovalPlan()
    home, digest = wanted.home, wanted.digest

    def stands() -> ApprovalStatus:
        every = tuple(scope.approvals.of(digest))
        return current_status(every, effective.approval, layer=home.layer, environment=environment)

    def waiting() -> set[str]:
        return {one.id for one in scope.approvals.requests("pending")}

    try:
        with scope.transaction():
            names = capabilities_of(keep_files(scope, effective, home.ref, wanted.files, is_whole=False))
            needed = _needed(scope, effective, wanted, names, stands())
            before, asked = {one.id for one in scope.approvals.of(digest)}, waiting()
            if not why_not:
                why_not = approve_content(scope, effective, person, home, digest, "", environment=environment)
            given = [one for one in scope.approvals.of(digest) if one.id not in before]
            grants = stands().grants
            found = ApprovalPlan(
                needed=needed,
                given=tuple(dict.fromkeys(name for one in given for name in one.grants)),
                lacking=tuple(name for name in needed if name not in grants),
                why_not=why_not,
                answers=tuple(sorted(asked - waiting())),
            )
            raise _Undone
    except _Undone:
        return found


def _needed(
    scope: TenantScope,
    effective: EffectivePolicy,
    wanted: DeployCandidate,
    names: Sequence[str],
    stands: ApprovalStatus,
) -> tuple[str, ...]:
    required, home = effective.needs_approval(wanted.home.layer), wanted.home
    wanting = {name for name in names if name in required}
    if "new-capability" in required:
        others = [one for one in scope.approvals.of_skill(home.ref, home.location) if one.digest != wanted.digest]
        approved = [one for one in others if one.decision == "approved"]
        if approved:
            wanting |= {name for name in names if name not in approved[-1].grants}
    return tuple(name for name in names if name in wanting and name not in stands.grants)
