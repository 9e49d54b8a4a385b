"""The view of a proposal on a terminal: new capabilities first, then reasons, findings and the diff."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.improvement_view import find_improvement, print_improvement
from metier.cli.output import Style, plural, print_json
from metier.guard.remedies import tenant_option
from metier.hub.proposal_page import page_of, shown_lines
from metier.hub.proposal_view import proposal_view_of
from metier.hub.review import is_author
from metier.scan.finding import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.review_base import ReviewBase
    from metier.scan import ScanReport
    from metier.store import Person, Proposal, TenantScope

_FEW = 10
_FEW_LINES = 200
_LONG = 400


def print_proposal(options: Namespace, scope: TenantScope, person: Person, proposal: Proposal) -> None:
    """Print all of it; without `--full`, so much of findings and diff as one reads."""
    view = proposal_view_of(scope, metier.Guard().governance, person, proposal)
    improvement = find_improvement(scope, person, proposal)
    if options.json:
        print_json({**view.as_dict(), "tests": improvement, "page": str(page_of(scope, proposal))})
        return
    style = Style(sys.stdout)
    _print_reasons(style, proposal, view.basis, view.capabilities)
    if view.feedback:
        print(f"\n{style.dim('FEEDBACK ABOUT IT SO FAR')}\n  {Style.text(view.feedback)}")
    _print_findings(style, view.report, full=options.full)
    print_improvement(style, improvement)
    _print_diff(style, proposal.diff, full=options.full)
    tenant = tenant_option(options.tenant)
    if proposal.reviewer:
        print(f"\nDecided by {Style.text(proposal.reviewer)} {style.at(proposal.decided_at)}.")
        _print_text(proposal.comment)
    elif view.why_not is not None:
        print(style.dim(f"\n{Style.text(view.why_not, 1_000)}"))
        if is_author(person, proposal) and proposal.status == "open":
            print(style.dim(f"`metier propose withdraw {proposal.id}{tenant}` takes it back."))
    else:
        reject = f"metier propose reject {proposal.id}{tenant} --reason TEXT"
        print(style.strong(f"\nDecide: `metier propose approve {proposal.id}{tenant}` or `{reject}`"))


def _print_reasons(style: Style, proposal: Proposal, basis: ReviewBase, capabilities: Sequence[str]) -> None:
    print(f"{proposal.id}  {style.strong(Style.text(proposal.skill))}  {proposal.kind}  {proposal.status}")
    if proposal.capabilities_new:
        print(style.bad(f"NEW CAPABILITIES: {', '.join(proposal.capabilities_new)}"))
    else:
        print("No new capabilities.")
    print(f"It can do: {', '.join(capabilities) or 'nothing that needs an approval'}")
    if basis.note and proposal.status == "open":
        print(style.warn(basis.note))
    on_behalf = f" for {Style.text(proposal.on_behalf_of)}" if proposal.on_behalf_of else ""
    print(f"By {proposal.author_kind} {Style.text(proposal.author)}{on_behalf} {style.at(proposal.created_at)}")
    print(style.dim(Style.text(proposal.location, 4_096)))
    evidence = {f"EVIDENCE {number}": text for number, text in enumerate(proposal.evidence, 1)}
    for head, text in {"WHY": proposal.justification, **evidence}.items():
        print(f"\n{style.dim(head)}")
        _print_text(text)
    for told in proposal.recommendations:
        verdict = Style.text(str(told.get("verdict")))
        print(f"\n{style.dim(f'RECOMMENDED: {verdict}')}")
        _print_text(f"{told.get('kind')} {told.get('by')}: {told.get('reason')}")


def _print_findings(style: Style, report: ScanReport, *, full: bool) -> None:
    print(f"\n{style.dim('FINDINGS IN WHAT IT WOULD BE')}")
    if report.status != "ok":
        print(style.bad(f"  The scanner failed: {Style.text(report.error)}"))
    counting = [one for one in report.findings if not one.suppressed_by and one.severity != "info"]
    for one in counting if full else counting[:_FEW]:
        paint = style.bad if rank(one.severity) >= rank("high") else style.warn
        place = Style.text(f"{one.path}:{one.line}", 300)
        print(paint(f"  {one.severity}  {Style.text(one.rule)}  {place}  {Style.text(one.message, 1_000)}"))
    if not counting and report.status == "ok":
        print("  none")
    elif not full and len(counting) > _FEW:
        print(style.dim(f"  and {plural(len(counting) - _FEW, 'finding')} more; --full shows them"))


def _print_diff(style: Style, diff: str, *, full: bool) -> None:
    print(f"\n{style.dim('DIFF')}")
    lines = shown_lines(diff).splitlines()
    for line in lines if full else lines[:_FEW_LINES]:
        text = line if full or len(line) <= _LONG else f"{line[:_LONG]}…"
        paint = {"+": style.good, "-": style.bad, "@": style.dim}.get(line[:1], str)
        print(paint(text))
    if not full and len(lines) > _FEW_LINES:
        print(style.warn(f"and {plural(len(lines) - _FEW_LINES, 'line')} more; --full shows them"))


def _print_text(text: str) -> None:
    for line in shown_lines(text).splitlines():
        print(f"  {line}")
