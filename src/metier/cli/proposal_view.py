"""The view of a proposal for its reviewers: new capabilities first, then reasons, findings and the diff."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from metier.cli.output import Style, plural, print_json

if TYPE_CHECKING:
    from metier.hub.review_base import ReviewBase
    from metier.scan import ScanReport
    from metier.store import Person, Proposal, TenantScope

_FEW = 10
_FEW_LINES = 200
_LONG = 400


def proposal_shape(proposal: Proposal) -> dict[str, Any]:
    """A proposal as `--json` prints it."""
    found = asdict(proposal)
    return {**found, "capabilities_new": list(proposal.capabilities_new), "evidence": list(proposal.evidence)}


def print_proposal(
    scope: TenantScope, person: Person, proposal: Proposal, *, full: bool, json: bool, tenant: str
) -> None:
    """Print all of it; without `full`, so much of findings and diff as one reads."""
    from metier.guard import Guard
    from metier.hub.proposal_page import page_of
    from metier.hub.review import is_author, may_review
    from metier.hub.review_base import review_base_of
    from metier.hub.skill_files import package_of
    from metier.hub.skill_location import location_at, subject_in
    from metier.scan import scan

    files = scope.revisions.files(proposal.proposed_digest)
    report = scan(package_of(files))
    basis = review_base_of(scope, proposal.skill, proposal.location, proposal.base_digest, proposal.proposed_digest)
    subject = subject_in(location_at(proposal.location, proposal.skill), files, proposal.proposed_digest)
    why_not = may_review(scope, Guard().governance, person, proposal, subject)
    revision = scope.revisions.get(proposal.proposed_digest)
    capabilities = list(revision.capabilities.get("names", ())) if revision is not None else []
    if json:
        print_json(
            {
                "proposal": proposal_shape(proposal),
                "capabilities": capabilities,
                "compared_with": asdict(basis),
                "note": basis.note,
                "findings": [found.as_dict() for found in report.findings],
                "page": str(page_of(scope, proposal)),
                "why_not_you": why_not,
            }
        )
        return
    is_own = is_author(person, proposal)
    _Text(proposal, report, basis, capabilities, full=full, is_own=is_own).show(why_not, tenant)


class _Text:
    def __init__(
        self,
        proposal: Proposal,
        report: ScanReport,
        basis: ReviewBase,
        capabilities: list[str],
        *,
        full: bool,
        is_own: bool,
    ) -> None:
        self._proposal, self._report, self._basis, self._capabilities = proposal, report, basis, capabilities
        self._full = full
        self._is_own = is_own
        self._style = Style(sys.stdout)

    def show(self, why_not: str | None, tenant: str) -> None:
        style, proposal = self._style, self._proposal
        print(f"{proposal.id}  {style.strong(Style.text(proposal.skill))}  {proposal.kind}  {proposal.status}")
        if proposal.capabilities_new:
            print(style.bad(f"NEW CAPABILITIES: {', '.join(proposal.capabilities_new)}"))
        else:
            print("No new capabilities.")
        print(f"It can do: {', '.join(self._capabilities) or 'nothing that needs an approval'}")
        if self._basis.note and proposal.status == "open":
            print(style.warn(self._basis.note))
        on_behalf = f" for {Style.text(proposal.on_behalf_of)}" if proposal.on_behalf_of else ""
        print(f"By {proposal.author_kind} {Style.text(proposal.author)}{on_behalf} {style.at(proposal.created_at)}")
        print(style.dim(Style.text(proposal.location, 4_096)))
        self._head("WHY")
        self._say(proposal.justification)
        for number, text in enumerate(proposal.evidence, 1):
            self._head(f"EVIDENCE {number}")
            self._say(text)
        for told in proposal.recommendations:
            self._head(f"RECOMMENDED: {Style.text(str(told.get('verdict')))}")
            self._say(f"{told.get('kind')} {told.get('by')}: {told.get('reason')}")
        self._findings()
        self._diff()
        if proposal.reviewer:
            print(f"\nDecided by {Style.text(proposal.reviewer)} {style.at(proposal.decided_at)}.")
            self._say(proposal.comment)
        elif why_not is not None:
            print(style.dim(f"\n{Style.text(why_not, 1_000)}"))
            if self._is_own and proposal.status == "open":
                print(style.dim(f"`metier propose withdraw {proposal.id}{tenant}` takes it back."))
        else:
            reject = f"metier propose reject {proposal.id}{tenant} --reason TEXT"
            print(style.strong(f"\nDecide: `metier propose approve {proposal.id}{tenant}` or `{reject}`"))

    def _findings(self) -> None:
        from metier.scan.finding import rank

        self._head("FINDINGS IN WHAT IT WOULD BE")
        if self._report.status != "ok":
            print(self._style.bad(f"  The scanner failed: {Style.text(self._report.error)}"))
        counting = [one for one in self._report.findings if not one.suppressed_by and one.severity != "info"]
        for one in counting if self._full else counting[:_FEW]:
            paint = self._style.bad if rank(one.severity) >= rank("high") else self._style.warn
            place = Style.text(f"{one.path}:{one.line}", 300)
            print(paint(f"  {one.severity}  {Style.text(one.rule)}  {place}  {Style.text(one.message, 1_000)}"))
        if not counting and self._report.status == "ok":
            print("  none")
        elif not self._full and len(counting) > _FEW:
            print(self._style.dim(f"  and {plural(len(counting) - _FEW, 'finding')} more; --full shows them"))

    def _diff(self) -> None:
        from metier.hub.proposal_page import shown_lines

        style = self._style
        self._head("DIFF")
        lines = shown_lines(self._proposal.diff).splitlines()
        for line in lines if self._full else lines[:_FEW_LINES]:
            text = line if self._full or len(line) <= _LONG else f"{line[:_LONG]}…"
            paint = {"+": style.good, "-": style.bad, "@": style.dim}.get(line[:1], str)
            print(paint(text))
        if not self._full and len(lines) > _FEW_LINES:
            print(style.warn(f"and {plural(len(lines) - _FEW_LINES, 'line')} more; --full shows them"))

    def _head(self, text: str) -> None:
        print(f"\n{self._style.dim(text)}")

    def _say(self, text: str) -> None:
        from metier.hub.proposal_page import shown_lines

        for line in shown_lines(text).splitlines():
            print(f"  {line}")
