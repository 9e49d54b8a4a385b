"""The view of an approval request for its approvers: capabilities, scripts, findings and changes of its content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.errors import RulesInvalid
from metier.hub.diff import difference
from metier.hub.skill_files import package_of
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.scan.pack_store import PackRef
    from metier.skill.package import Files
    from metier.store import Approval, ApprovalRequest, RevisionFile, TenantScope


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """A request with the capabilities, the findings and the changes of its content."""

    request: ApprovalRequest
    evidence: Mapping[str, Sequence[Mapping[str, Any]]]
    """For each capability the places that show it."""
    declared: Sequence[str]
    """The capabilities that the frontmatter declares."""
    undeclared: Sequence[str]
    """The capabilities that it could say, and does not."""
    findings: Sequence[Mapping[str, Any]]
    """The worst first, without those that somebody answers for."""
    scan_problem: str = ""
    """The reason for which findings may be missing; empty when none are."""
    files: Sequence[RevisionFile] = ()
    before: Approval | None = None
    """The last approval of other content of the skill."""
    base: str = ""
    """The digest of that content, where it was kept."""
    changed: Sequence[tuple[str, str]] = ()
    """`added`, `changed` or `removed`, and the path, for every file that is not as it was."""
    changes: str | None = None
    """The difference from that content, or from nothing; None where the content itself was not kept."""
    approvals: Sequence[Approval] = field(default=())
    """The decisions about exactly this content."""

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints, but for who may decide."""
        return {
            "request": self.request,
            "evidence": {name: [dict(place) for place in places] for name, places in self.evidence.items()},
            "declared": list(self.declared),
            "undeclared": list(self.undeclared),
            "findings": [dict(found) for found in self.findings],
            "scan_problem": self.scan_problem,
            "files": self.files,
            "before": self.before,
            "base": self.base or None,
            "changed": [{"how": how, "path": path} for how, path in self.changed],
            "diff": self.changes,
            "approvals": self.approvals,
        }


def _ruleset(packs: tuple[PackRef, ...]) -> str:
    """The digest of the rules that apply now; empty where a pack cannot be used."""
    from metier.scan.ruleset import all_rules, ruleset_of

    try:
        return ruleset_of(all_rules(packs))
    except RulesInvalid:
        return ""


def request_view_of(scope: TenantScope, request: ApprovalRequest, packs: tuple[PackRef, ...] = ()) -> RequestView:
    """Collect the view from the store; raises `IntegrityFailed` where the store is not as it was written.

    What our scanner said by other rules than those of now, with the packs of policy, is found out anew.
    """
    revision = scope.revisions.get(request.digest)
    content = scope.revisions.files(request.digest) if scope.revisions.has(request.digest) else None
    rows = scope.scans.latest(request.digest)
    if content is not None and rows:
        ruleset = _ruleset(packs)
        rows = [row for row in rows if row.engine != "core" or row.ruleset == ruleset]
    findings = [dict(found) for row in rows for found in row.findings]
    problem = next((f"The scanner {row.engine} failed." for row in rows if row.status != "ok"), "")
    if not any(row.engine == "core" for row in rows):
        if content is None:
            problem = problem or "No scanner has looked at it, and its content was not kept."
        else:
            from metier.scan import scan

            report = scan(package_of(content), packs=packs)
            findings += [found.as_dict() for found in report.findings]
            problem = problem or ("" if report.status == "ok" else f"The scanner failed: {report.error}")
    before = _before(scope, request)
    base = before.digest if before is not None and scope.revisions.has(before.digest) else ""
    old = scope.revisions.files(base) if base else {}
    capabilities = revision.capabilities if revision is not None else {}
    return RequestView(
        request=request,
        evidence=capabilities.get("evidence", {}),
        declared=capabilities.get("declared", ()),
        undeclared=capabilities.get("undeclared", ()),
        findings=sorted(
            (found for found in findings if not found.get("suppressed_by")),
            key=lambda found: -rank(str(found.get("severity", ""))),
        ),
        scan_problem=problem,
        files=revision.files if revision is not None else (),
        before=before,
        base=base,
        changed=_changed(old, content) if content is not None else (),
        changes=difference(old, content) if content is not None else None,
        approvals=scope.approvals.of(request.digest),
    )


def _before(scope: TenantScope, request: ApprovalRequest) -> Approval | None:
    """The last approval of other content of the same skill."""
    given = [one for one in scope.approvals.all() if one.skill == request.skill and one.decision == "approved"]
    return max((one for one in given if one.digest != request.digest), key=lambda one: one.decided_at, default=None)


def _changed(old: Files, new: Files) -> list[tuple[str, str]]:
    how = {path: "added" if path not in old else "removed" if path not in new else "changed" for path in {*old, *new}}
    return sorted((how[path], path) for path in how if old.get(path) != new.get(path))
