"""Roll-ups of usage: counters by day, skill, agent and model, added up from the audit log.

The counters and the number of the last record in them change in one transaction: no record is lost or counted twice,
wherever it was interrupted and however many do it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.store.rows import TenantRows

COUNTERS = (
    *("loads", "calls", "refusals", "failures", "runs", "searches", "empty_searches", "helped", "not_helped"),
    *("tokens_in", "tokens_out", "cost", "unpriced", "duration"),
)
"""The counters of a row: the cost in millionths of a dollar, the tokens without a price, microseconds."""
GROUPS = ("day", "skill", "agent", "model")
MAX_QUERIES = 1_000
"""The texts of searches that are kept of one day, where policy has them kept."""
_TABLES = {"usage_days": (GROUPS, COUNTERS), "usage_pairs": (("month", "skill", "other"), ("loads",))}
_TABLES["usage_searches"] = ("day", "query"), ("times",)
_RECORDS = "SELECT seq, ts, event_type, skill_ref, data_json FROM audit_log WHERE tenant = ? AND seq > ? ORDER BY seq"
_FIRST_DAY = "SELECT MIN(day) FROM usage_days WHERE tenant = ? AND LENGTH(day) = 10"


@dataclass(slots=True, kw_only=True)
class UsageCounts:
    """The counters of some records, by the key of their row."""

    days: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    """By day, skill, agent and model; the numbers in the order of `COUNTERS`."""
    pairs: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    """By month and two skills: how often one was loaded beside the other."""
    searches: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    """By day and text: how often a search found nothing."""


class UsageTable:
    """The usage of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def cursor(self) -> int:
        """Return the number of the last audit record that is counted."""
        found = self._rows.statement("SELECT seq FROM usage_cursor WHERE tenant = ?")
        return found[0][0] if found else 0

    def records(self, after: int, most: int) -> list[tuple[int, str, str, str, str]]:
        """Return the audit records after a number: number, time, type, skill and text of each."""
        return self._rows.statement(f"{_RECORDS} LIMIT ?", after, most)

    def add(self, counts: UsageCounts, *, after: int, until: int) -> bool:
        """Add the counters of the records behind `after` up to `until`; False where somebody has counted them."""
        with self._rows.transaction():
            if self.cursor() != after:
                return False
            self._add("usage_days", counts.days)
            self._add("usage_pairs", counts.pairs)
            self._add("usage_searches", self._within_bound(counts.searches))
            self._rows.change(
                "INSERT INTO usage_cursor (tenant, seq) VALUES (?, ?) "
                "ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq",
                until,
            )
        return True

    def _add(self, table: str, counted: Mapping[tuple[str, ...], Sequence[int]]) -> None:
        self._rows.change_all(_upsert(table), ((*key, *numbers) for key, numbers in counted.items()))

    def _within_bound(self, searches: Mapping[tuple[str, ...], list[int]]) -> dict[tuple[str, ...], list[int]]:
        """Return the searches without those texts that are too many of their day, the first of which are kept."""
        known: dict[str, set[str]] = {}
        for day in {key[0] for key in searches}:
            found = self._rows.statement("SELECT query FROM usage_searches WHERE tenant = ? AND day = ?", day)
            known[day] = {query for (query,) in found}
        kept: dict[tuple[str, ...], list[int]] = {}
        for (day, query), times in searches.items():
            if query in known[day] or len(known[day]) < MAX_QUERIES:
                known[day].add(query)
                kept[day, query] = times
        return kept

    def fold(self, before: str) -> bool:
        """Add up the days before one into rows of their months, and forget what was searched for on them."""
        first = self._rows.statement(_FIRST_DAY)[0][0]
        if first is None or first >= before:
            return False
        sums = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in COUNTERS)
        old = "WHERE tenant = ? AND LENGTH(day) = 10 AND day < ?"
        names = ", ".join(GROUPS[1:])
        with self._rows.transaction():
            # SQLite takes ON for a join unless there is a WHERE before.
            self._rows.change(
                f"INSERT INTO usage_days (tenant, day, {names}, {', '.join(COUNTERS)}) "
                f"SELECT tenant, SUBSTR(day, 1, 7), {names}, {sums} FROM usage_days {old} "
                f"GROUP BY tenant, SUBSTR(day, 1, 7), {names} {_on_conflict('usage_days')}",
                before,
            )
            self._rows.change(f"DELETE FROM usage_days {old}", before)
            self._rows.change("DELETE FROM usage_searches WHERE tenant = ? AND day < ?", before)
        return True

    def totals(self, by: Sequence[str], since: str, until: str) -> Iterator[tuple[tuple[str, ...], dict[str, int]]]:
        """Yield the counters from a day to a day (inclusive), one after the other for each value of some columns.

        A month that was folded counts where a day of it is among them.
        """
        columns = [name for name in GROUPS if name in by]
        sums = ", ".join(f"CAST(COALESCE(SUM({name}), 0) AS BIGINT)" for name in COUNTERS)
        order = f" GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
        sql = (
            f"SELECT {', '.join((*columns, sums))} FROM usage_days "
            f"WHERE tenant = ? AND day >= ? AND day <= ? AND (LENGTH(day) = 7 OR day >= ?){order}"
        )
        for row in self._rows.statement(sql, since[:7], until, since):
            yield row[: len(columns)], dict(zip(COUNTERS, row[len(columns) :], strict=True))

    def pairs(self, since: str, until: str) -> list[tuple[str, str, int]]:
        """Return the pairs of skills that were loaded beside each other in some months, and how often."""
        sql = (
            "SELECT skill, other, CAST(SUM(loads) AS BIGINT) FROM usage_pairs WHERE tenant = ? AND month >= ? "
            "AND month <= ? GROUP BY skill, other ORDER BY skill, other"
        )
        return self._rows.statement(sql, since[:7], until[:7])

    def searches(self, since: str, until: str, most: int) -> list[tuple[str, int]]:
        """Return the texts of searches that found nothing, the most frequent first, where policy has them kept."""
        sql = (
            "SELECT query, CAST(SUM(times) AS BIGINT) AS times FROM usage_searches WHERE tenant = ? AND day >= ? "
            "AND day <= ? GROUP BY query ORDER BY times DESC, query LIMIT ?"
        )
        return self._rows.statement(sql, since, until, most)


def _upsert(table: str) -> str:
    key, counters = _TABLES[table]
    columns = ("tenant", *key, *counters)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) {_on_conflict(table)}"


def _on_conflict(table: str) -> str:
    key, counters = _TABLES[table]
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in counters)
    return f"ON CONFLICT (tenant, {', '.join(key)}) DO UPDATE SET {added}"
