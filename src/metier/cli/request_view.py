"""The view of an approval request for its approvers: capabilities, scripts, findings and changes of its content."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

import metier.hub
from metier._lazy import dataclass, field
from metier.cli.output import Style, plural, shortened
from metier.cli.terminal import harmless
from metier.errors import RulesInvalid
from metier.hub.skill_files import package_of
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metier.scan.pack_store import PackRef
    from metier.skill.package import Files
    from metier.store import Approval, ApprovalRequest, RevisionFile, TenantScope

_Item = TypeVar("_Item")
_FEW = 10
_FEW_PLACES = 3
_FEW_LINES = 40
_LONG = 400
"""Characters of a line that are shown of each, unless all is asked for."""


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
        changes=metier.hub.difference(old, content) if content is not None else None,
        approvals=scope.approvals.of(request.digest),
    )


def _before(scope: TenantScope, request: ApprovalRequest) -> Approval | None:
    """The last approval of other content of the same skill."""
    given = [one for one in scope.approvals.all() if one.skill == request.skill and one.decision == "approved"]
    return max((one for one in given if one.digest != request.digest), key=lambda one: one.decided_at, default=None)


def _changed(old: Files, new: Files) -> list[tuple[str, str]]:
    how = {path: "added" if path not in old else "removed" if path not in new else "changed" for path in {*old, *new}}
    return sorted((how[path], path) for path in how if old.get(path) != new.get(path))


def print_request_view(found: RequestView, *, full: bool) -> None:
    """Print the view, the most important first; without `full`, as much as fits on a screen."""
    _Page(found, full=full).show()


class _Page:
    def __init__(self, found: RequestView, *, full: bool) -> None:
        self._view = found
        self._full = full
        self._style = Style(sys.stdout)

    def show(self) -> None:
        style, asked = self._style, self._view.request
        where = ", ".join(part for part in (asked.layer, asked.environment or "any environment") if part)
        name = f"{style.strong(Style.text(asked.skill))}  {style.dim(Style.text(where))}  {asked.status}"
        print(f"{asked.id}  {name}" if asked.id else name)
        print(style.dim(asked.digest))
        if asked.requested_by or asked.reason:
            by = Style.text(asked.requested_by) or "nobody"
            print(f"Asked for by {by} {style.at(asked.created_at)}. {Style.text(asked.reason, 1_000)}".rstrip())
        self._capabilities()
        self._scripts()
        self._findings()
        self._changes()

    def _capabilities(self) -> None:
        asked = self._view.request
        new = asked.new if self._view.before is not None else ()
        if new:
            self._head("NEW CAPABILITIES", self._style.bad)
            for name in new:
                self._capability(name, self._style.bad)
        rest = [name for name in asked.capabilities if name not in new]
        if rest or not asked.capabilities:
            self._head("CAPABILITIES")
        for name in rest:
            self._capability(name, self._style.warn)
        if not asked.capabilities:
            print("  none")
        if self._view.declared:
            self._head("DECLARED")
            self._say(f"  {', '.join(self._view.declared)}")

    def _capability(self, name: str, paint: Callable[[str], str]) -> None:
        mark = self._style.dim("  not declared") if name in self._view.undeclared else ""
        print(f"  {paint(Style.text(name))}{mark}")
        for place in self._first(self._view.evidence.get(name, ()), _FEW_PLACES, "place", indent="    "):
            self._say(f"    {place.get('path')}:{place.get('line')}  {place.get('text')}", self._style.dim)

    def _scripts(self) -> None:
        scripts = list(self._view.request.scripts.items())
        if scripts:
            self._head("SCRIPTS")
        for path, digest in self._first(scripts, _FEW, "script"):
            self._say(f"  {digest}  {path}")

    def _findings(self) -> None:
        found = self._view
        self._head("FINDINGS")
        if found.scan_problem:
            self._say(f"  {found.scan_problem}", self._style.bad)
        elif not found.findings:
            print("  none")
        for one in self._first(found.findings, _FEW, "finding"):
            is_bad = rank(str(one.get("severity", ""))) >= rank("high")
            paint = self._style.bad if is_bad else self._style.warn
            place = f"{one.get('path')}:{one.get('line')}"
            self._say(f"  {one.get('severity')}  {one.get('rule')}  {place}  {one.get('message')}", paint)
            if one.get("text"):
                self._say(f"    │ {one['text']}", self._style.dim)

    def _changes(self) -> None:
        found = self._view
        if found.changes is None:
            self._head("CONTENT")
            self._say("  It was not kept: whoever decides has to look at it where it lies.", self._style.bad)
            return
        if not found.base and not self._full:
            self._head("FILES")
            for file in self._first(found.files, _FEW, "file"):
                self._say(f"  {file.path}  {file.size:,} bytes, {file.kind}")
            never = found.before is None
            why = "Nothing of this skill was approved before" if never else "What was approved before is gone"
            print(self._style.dim(f"  {why}; --full shows all of it."))
            return
        if found.before is None or not found.base:
            self._head("CONTENT")
        else:
            by, at = Style.text(found.before.decided_by), self._style.at(found.before.decided_at)
            self._head(f"CHANGES since {found.base}, approved by {by} {at}")
        for how, path in self._first(found.changed, _FEW, "file"):
            self._say(f"  {how}  {path}")
        paints = {"+": self._style.good, "-": self._style.bad, "@": self._style.dim}
        for line in self._first(found.changes.split("\n")[:-1], _FEW_LINES, "line"):
            self._say(f"  {line}", paints.get(line[:1], str))

    def _head(self, text: str, paint: Callable[[str], str] | None = None) -> None:
        print(f"\n{(paint or self._style.strong)(text)}")

    def _say(self, text: str, paint: Callable[[str], str] = str) -> None:
        """A line with words of strangers in it, which stays one line."""
        whole = harmless(text.replace("\n", "\\n"))
        print(paint(whole if self._full else shortened(whole, _LONG)))

    def _first(self, items: Sequence[_Item], few: int, noun: str, indent: str = "  ") -> Iterator[_Item]:
        """The first of some items, or all with `full`; behind them a line that counts the others."""
        shown = items if self._full else items[:few]
        yield from shown
        if more := len(items) - len(shown):
            print(self._style.dim(f"{indent}and {plural(more, noun)} more; --full shows all"))
