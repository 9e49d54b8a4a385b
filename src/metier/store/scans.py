"""What scanners found in a content."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from metier.store.codec import from_row, now, require_key, to_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.store.rows import TenantRows


_SEVERITIES = "SELECT engine, max_severity FROM scans WHERE tenant = ? AND digest = ? ORDER BY engine, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRow:
    """One run of a scanner over one content."""

    digest: str
    engine: str
    engine_version: str = ""
    ruleset: str = ""
    """The digest of its rules."""
    status: str = "ok"
    """`ok`, or `error` when it came to no end."""
    max_severity: str = ""
    ms: int = 0
    findings: Sequence[Mapping[str, Any]] = field(default_factory=list)
    at: str = ""


class Scans:
    """The scans of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, scan: ScanRow) -> ScanRow:
        """Keep what a scanner found; what it found earlier stays too."""
        require_key("digest", scan.digest)
        require_key("engine", scan.engine)
        scan = scan if scan.at else replace(scan, at=now())
        with self._rows.transaction():
            earlier = self._rows.select("scans", {"digest": scan.digest, "engine": scan.engine}, ("-number",))
            number = earlier[0]["number"] + 1 if earlier else 1
            self._rows.insert("scans", {**to_row(scan), "number": number})
        return scan

    def severities(self, digest: str) -> dict[str, str]:
        """The worst that each engine found in a content, by its last run: quick, as every load asks."""
        # One statement that is written out: to make one takes a library that takes a second to be there.
        return dict(self._rows.statement(_SEVERITIES, digest))

    def latest(self, digest: str) -> list[ScanRow]:
        """The last run of each engine over a content."""
        found = self._rows.select("scans", {"digest": digest}, ("engine", "number"))
        last = {row["engine"]: row for row in found}
        return [from_row(ScanRow, row, {"findings": list}) for row in last.values()]
