"""`metier deploy --dry-run`."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from typing import TYPE_CHECKING

from metier.cli.deploy import folder_of, target_of
from metier.cli.exits import FINE, exit_code_for
from metier.cli.identity import acting, peek_store, who
from metier.cli.output import Style, plural, print_json
from metier.guard import Guard
from metier.hints import for_person
from metier.hub.rehearsing import rehearse
from metier.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from metier.hub.rehearsing import Rehearsal
    from metier.store import Person, Scope


def run(options: argparse.Namespace) -> int:
    with _looking(options) as (scope, person):
        found = rehearse(
            scope,
            person,
            folder_of(options),
            to=target_of(options),
            accept_findings=options.accept_findings,
            environment=options.environment or "",
            guard=Guard(),
        )
    if options.json:
        _print_json(found)
    else:
        _tell(found)
    return FINE if found.is_allowed else exit_code_for(found.code)


@contextlib.contextmanager
def _looking(options: argparse.Namespace) -> Iterator[tuple[Scope, Person]]:
    """What the store keeps, and who looks at it; where there is none yet, one that is gone afterwards stands for it."""
    store = peek_store()
    if store is not None:
        store.close()
        with acting(options, create=False) as found:
            yield found
        return
    with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/metier.db") as empty:
        scope = empty.of(options.tenant or "")
        yield scope, who(scope)


def _print_json(found: Rehearsal) -> None:
    approvals = found.approvals
    print_json(
        {
            "dry_run": True,
            "skill": found.home.ref,
            "location": found.home.location,
            "layer": found.home.layer,
            "environment": found.environment,
            "digest": found.digest,
            "over": found.over,
            "changed": found.is_allowed and not found.is_unchanged,
            "findings": [one.as_dict() for one in found.report.findings],
            "approvals": {
                "needed": list(approvals.needed),
                "given": list(approvals.given),
                "lacking": list(approvals.lacking),
                "why_not": approvals.why_not,
                "answers": list(approvals.answers),
            },
            **found.explanation.as_dict(),
        }
    )


def _tell(found: Rehearsal) -> None:
    style, home, told = Style(sys.stdout), found.home, found.explanation
    how = "is deployed already" if found.is_unchanged else "would be deployed"
    if not found.is_allowed:
        how = "would not be deployed"
    what = f"{style.strong(Style.text(home.ref))} {how}: {Style.text(home.location, 4_096)}"
    print(f"{style.outcome(told.outcome)}  {what}")
    over = "where nothing is yet" if found.over is None else f"in place of {found.over}"
    where = f"the environment {Style.text(found.environment)}" if found.environment else "all environments"
    print(style.dim(f"  {found.digest}, {over}; {home.layer} layer, {where}"))
    print(f"{style.dim('why')}: {Style.text(told.reason, 2_000)}")
    print(f"{style.dim('rule')}: {Style.text(told.rule, 1_000)}")
    if told.hint and not found.is_allowed:
        print(f"{style.dim('hint')}: {Style.text(for_person(told.hint), 1_000)}")
    for other in told.considered:
        if other.rule != told.rule:
            said = f"{other.outcome} by {Style.text(other.rule, 500)}: {Style.text(other.reason, 500)}"
            print(f"{style.dim('also')}: {said}")
    count = len(found.report.findings)
    worst = f", the worst {found.report.max_severity}" if count else ""
    print(f"{style.dim('scan')}: {plural(count, 'finding')}{worst}")
    _tell_approvals(found, style)
    print("Nothing was changed.")


def _tell_approvals(found: Rehearsal, style: Style) -> None:
    approvals = found.approvals
    print(f"{style.dim('needs approval')}: {_listed(approvals.needed) or 'nothing more'}")
    if approvals.why_not:
        print(f"{style.dim('gives approval')}: none. {Style.text(approvals.why_not, 1_000)}")
    else:
        print(f"{style.dim('gives approval')}: of this content{_for(approvals.given)}, in the {found.home.layer} layer")
    if approvals.answers:
        print(f"{style.dim('answers')}: {_listed(approvals.answers)}")
    if approvals.lacking:
        print(style.warn(f"Even then somebody has to approve: {_listed(approvals.lacking)}"))


def _for(names: tuple[str, ...]) -> str:
    return f" with {_listed(names)}" if names else ""


def _listed(names: tuple[str, ...]) -> str:
    return Style.text(", ".join(names), 1_000)
