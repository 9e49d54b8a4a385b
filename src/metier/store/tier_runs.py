"""Results of the tests of a skill: one row for each run of a tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.errors import InvalidArgument
from metier.store.rows import Table, now, require_choice, require_key, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.rows import TenantRows

TierVerdict: TypeAlias = Literal["passed", "failed", "skipped"]
MAX_REPORT = 256 * 1024
"""The longest report that is kept with a run, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRun:
    """One run of one tier of tests over one content of a skill."""

    digest: str
    skill: str
    """`name@source`."""
    tier: str
    verdict: TierVerdict
    score: int = 0
    """From 0 to 100."""
    runner: str = ""
    """The model or the client that it was run with; empty for a tier that needs none."""
    suite: str = ""
    """The digest of the files of the suite."""
    cases: int = 0
    passed: int = 0
    failed: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)
    """The details as JSON values; left out where they are too long to keep."""
    by: str = ""
    at: str = ""
    """Set by the store, unless it is given."""


_RUNS = Table(name="test_results", record=TierRun, order=("tier", "number"), json={"report": dict})


class TierRuns:
    """The test results of a tenant.

    >>> import tempfile
    >>> from metier.store import Store, TierRun
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     results = store.of().test_results
    ...     for verdict in ("failed", "passed"):
    ...         run = results.add(TierRun(digest="sha256:1", skill="pdf@acme", tier="form", verdict=verdict))
    ...     [(run.tier, run.verdict) for run in results.latest("sha256:1")]
    [('form', 'passed')]
    """

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, run: TierRun) -> TierRun:
        """Add a run beside the earlier ones, which no longer count."""
        require_key("digest", run.digest)
        require_key("tier", run.tier)
        require_choice("verdict", run.verdict, get_args(TierVerdict))
        if not 0 <= run.score <= 100:
            raise InvalidArgument(f"{run.score!r:.20} is no score.", hint="A score is a number from 0 to 100.")
        report = run.report if len(to_json(run.report)) <= MAX_REPORT else {}
        added = replace(run, at=run.at or now(), report=report)
        with self._rows.transaction():
            number = self._rows.next_number(_RUNS, digest=run.digest, tier=run.tier)
            self._rows.insert(_RUNS, added, number=number)
        return added

    def latest(self, digest: str) -> list[TierRun]:
        """Return the last run of each tier over a content, by tier; of one with runners the last by each of them."""
        return list({(run.tier, run.runner): run for run in self.all(digest)}.values())

    def all(self, digest: str) -> list[TierRun]:
        """Return all runs over a content, by tier, the oldest first."""
        return self._rows.select(_RUNS, digest=digest)
