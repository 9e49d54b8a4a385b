"""Findings of the scanner in a skill that is about to be brought in, and the refusal that follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.guard.decision import refuse
from metier.guard.remedies import SCAN
from metier.hints import for_people
from metier.scan.finding import rank
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard import Decision
    from metier.scan import ScanReport

_MOST_NAMED = 6


def is_bad(report: ScanReport) -> bool:
    """Whether somebody has to look at it first: a finding of severity high or above, or a scanner that failed."""
    return report.status != "ok" or rank(report.max_severity) >= rank("high")


def against(report: ScanReport, accepted: str = "") -> Decision | None:
    """The decision against a skill that the scanner found something bad in, unless somebody `accepted` it for a reason.

    Findings that are suppressed, for which somebody answers already, do not count.
    """
    if not is_bad(report) or accepted.strip():
        return None
    return refuse(
        f"scan: {report.max_severity}",
        f"The scanner found what has to be looked at first. {named_findings(report)}",
        code="scan-findings",
        hint=_LOOK if report.status == "ok" else SCAN,
    )


_LOOK = for_people("Look at all of it with `metier scan`; `--accept-findings REASON` says why it does not matter.")


def named_findings(report: ScanReport) -> str:
    """The findings of severity high or above, in a line; why there are none where the scanner failed."""
    bad = [one for one in report.findings if not one.suppressed_by and rank(one.severity) >= rank("high")]
    if not bad:
        return report.error
    more = f" There are {len(bad) - _MOST_NAMED:,} more." if len(bad) > _MOST_NAMED else ""
    texts = (f"{one.rule} in {shown(one.path)}, line {one.line}: {one.message}" for one in bad[:_MOST_NAMED])
    return " ".join(texts) + more
