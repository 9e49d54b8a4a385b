"""What `metier scan --keep` puts into the store: the results of all scanners that policy names."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.scan.scanner import Report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from metier.cli.scan_places import Place
    from metier.guard.policy.effective import EffectivePolicy
    from metier.scan.finding import Finding
    from metier.store import Person, ScanRow, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Who keeps results, for which tenant, and the policy that says which scanners there are."""

    scope: Scope
    person: Person
    effective: EffectivePolicy

    def others(self, place: Place, own: Report) -> dict[str, Report]:
        """What the scanners of the policy say to the content that our own looked at."""
        from metier.run.external_scanner import reports_of

        return reports_of(self.effective.scan.commands, place.package, name=own.name, digest=own.digest)

    def keep(
        self, place: Place, own: Report, others: Mapping[str, Report], imported: Sequence[Finding]
    ) -> tuple[ScanRow, ...]:
        """Put it into the store, and what was imported with it."""
        from metier.guard.scan_records import record_scans

        reports = {"core": own, **others}
        more: dict[str, list[Finding]] = {}
        for found in imported:
            name = "core" if found.engine == "metier" else found.engine
            # Nobody knows which content it was found in: it adds to what is known, and is no look at this one.
            more.setdefault(name if name in reports else f"{name} (imported)", []).append(found)
        empty = Report(name=own.name, digest=own.digest)
        for name, findings in more.items():
            reports[name] = reports.get(name, empty).with_findings(findings)
        return record_scans(self.scope, self.person, reports, path=place.location, policy=self.effective.digest)


@contextlib.contextmanager
def keeper_of(options: argparse.Namespace) -> Iterator[Keeper | None]:
    """Whoever gives the command, if they want results to be kept; raises `NotPermitted` where they may not."""
    if not options.keep:
        yield None
        return
    from metier.cli.identity import acting
    from metier.guard.policy.files import Policies
    from metier.guard.scan_records import may_keep

    with acting(options) as (scope, person):
        may_keep(scope, person)
        yield Keeper(scope=scope, person=person, effective=Policies.discover().current())
