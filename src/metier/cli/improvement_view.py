"""The view of the improvement that a proposal brings: tests before and after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import metier
from metier.cli.identity import may_decide
from metier.cli.output import Progress, Style, plural, print_warning
from metier.errors import MetierError

if TYPE_CHECKING:
    from metier.proof.improvement import Improvement
    from metier.store import Person, Proposal, TenantScope

_FEW = 10


def find_improvement(scope: TenantScope, person: Person, proposal: Proposal) -> Improvement | None:
    """Return the improvement of a proposal, found out now if it was not; None, with a warning, where that fails."""
    from metier.library import Place
    from metier.proof.improvement import improvement_of
    from metier.source import FolderSource

    beside = Place(layer="project", source=FolderSource(os.path.dirname(proposal.location)))
    library = metier.Library([beside, *metier.Library.discover().places], cache=False)
    try:
        with Progress() as progress:
            progress.say("Running its tests before and after the change")
            return improvement_of(scope, person, proposal, library, counts=may_decide(scope.store))
    except MetierError as error:
        print_warning(f"The tests were not compared. {error.message}")
        return None


def print_improvement(style: Style, found: Improvement | None) -> None:
    """Print the tests that differ, the worse ones first."""
    if found is None:
        return
    print(f"\n{style.dim('TESTS BEFORE AND AFTER IT')}")
    before = "" if found.score_before is None else f"{found.score_before} -> "
    print(f"  score {before}{found.score_after}, {plural(found.same, 'test')} with the same result")
    fails = [name for name, verdict in found.added.items() if verdict == "failed"]
    passes = [name for name, verdict in found.added.items() if verdict == "passed"]
    ranks = [f"{prompt}: rank {_rank(old)} -> {_rank(new)}" for prompt, (old, new) in found.ranks.items()]
    for what, paint, names in (
        ("worse", style.bad, found.worse),
        ("fails", style.bad, (*found.new_failures, *fails)),
        ("dropped or rewritten", style.warn, found.dropped),
        ("better", style.good, found.better),
        ("new, and passes", style.good, passes),
        ("routed otherwise", str, ranks),
    ):
        for name in names[:_FEW]:
            print(paint(f"  {what}  {Style.text(name, 300)}"))
        if len(names) > _FEW:
            print(style.dim(f"  and {len(names) - _FEW:,} more {what}"))


def _rank(rank: int | None) -> str:
    return "none" if rank is None else str(rank)
