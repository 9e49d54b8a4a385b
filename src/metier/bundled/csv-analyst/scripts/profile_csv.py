#!/usr/bin/env python3
"""Profile a CSV file in one streaming pass: types, gaps, statistics and suspicious things.

Counts, missing values, minimum, maximum, mean and standard deviation are exact. Quantiles come
from a sample of 10,000 values a column and distinct counts stop at 10,000, so that memory does
not grow with the file; the output says where such a bound was reached.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.dont_write_bytecode = True  # a skill's folder may be read-only, and is compared by its files
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peek_csv import (
    LEADING_ZERO,
    Unusable,
    cut,
    delimiter_option,
    open_table,
    parse_dates,
    parse_number,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from peek_csv import (
        Table,
    )

SAMPLE = 10_000  # values kept a column for quantiles, and distinct values counted
ROW_HASHES = 500_000  # distinct rows remembered to find duplicates
TYPE_SHARE = 0.9  # a column has a type when this share of its values agree

MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?"}
BOOLEAN = {"true", "false", "yes", "no", "y", "n"}


@dataclass
class Span:
    """The earliest and latest of the dates seen, and how many could be read."""

    first: datetime | None = None
    last: datetime | None = None
    count: int = 0

    def add(self, moment: datetime | None) -> None:
        if moment is not None:
            self.count += 1
            self.first = min(self.first or moment, moment)
            self.last = max(self.last or moment, moment)


@dataclass
class Column:
    """What has been learned of one column so far, in bounded memory."""

    name: str
    decimal_comma: bool = False
    filled: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    values: Counter[str] = field(default_factory=Counter)
    overflow: bool = False
    sample: list[float] = field(default_factory=list)
    mean: float = 0.0
    squares: float = 0.0
    low: tuple[float, int] = (math.inf, 0)
    high: tuple[float, int] = (-math.inf, 0)
    day_first: Span = field(default_factory=Span)
    month_first: Span = field(default_factory=Span)
    padded: int = 0
    codes: int = 0
    chooser: random.Random = field(default_factory=lambda: random.Random(0))

    def add(self, raw: str, row: int) -> None:
        """Take in the cell of one row."""
        text = raw.strip()
        if text.lower() in MISSING:
            self.missing[text.lower()] += 1
            return
        self.filled += 1
        self.padded += text != raw
        if text in self.values or len(self.values) < SAMPLE:
            self.values[text] += 1
        else:
            self.overflow = True
        kind = self._kind(text, row)
        self.kinds[kind] += 1
        self.examples.setdefault(kind, (row, text))

    def _kind(self, text: str, row: int) -> str:
        number = parse_number(text, self.decimal_comma)
        if number is not None:
            self._add_number(number, row)
            return "number"
        if text.lower() in BOOLEAN:
            return "boolean"
        day_first, month_first = parse_dates(text)
        if day_first or month_first:
            self.day_first.add(day_first)
            self.month_first.add(month_first)
            return "date"
        self.codes += bool(LEADING_ZERO.match(text))
        return "text"

    def _add_number(self, value: float, row: int) -> None:
        seen = self.kinds["number"] + 1
        delta = value - self.mean
        self.mean += delta / seen
        self.squares += delta * (value - self.mean)
        if value < self.low[0]:
            self.low = (value, row)
        if value > self.high[0]:
            self.high = (value, row)
        if len(self.sample) < SAMPLE:
            self.sample.append(value)
        elif (slot := self.chooser.randrange(seen)) < SAMPLE:
            self.sample[slot] = value

    @property
    def type(self) -> str:
        if not self.filled:
            return "empty"
        kind, count = self.kinds.most_common(1)[0]
        return kind if count / self.filled >= TYPE_SHARE else "text"

    def report(self, top: int) -> dict[str, Any]:
        """Describe the column as plain data, with the warnings that it deserves."""
        out: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "filled": self.filled,
            "missing": self.missing.total(),
            "distinct": len(self.values),
            "distinct_is_minimum": self.overflow,
            "unique": len(self.values) == self.filled > 0,
        }
        warnings = list(self._warnings())
        if self.type == "number":
            out |= self._numbers(warnings)
        elif self.type == "date":
            out |= self._dates(warnings)
        elif self.filled:
            common = self.values.most_common(top)
            out["top"] = [{"value": cut(value), "count": count} for value, count in common]
        return out | {"warnings": warnings}

    def _warnings(self) -> Iterator[str]:
        if not self.filled:
            yield "every value is missing"
            return
        share = self.missing.total() / (self.filled + self.missing.total())
        if share > 0.2:
            yield f"{share:.0%} of the values are missing"
        if named := [marker for marker in self.missing if marker]:
            yield "missing values are also written as " + ", ".join(map(repr, named))
        if len(self.values) == 1 and self.filled > 1:
            yield "constant: every value is the same"
        (main_kind, _), *others = self.kinds.most_common()
        if main_kind in {"text", "boolean"}:  # "yes" or "12" among words is nothing odd
            others = [(k, n) for k, n in others if k in {"number", "date"} and n >= self.filled / 10]
        if others:
            odd = [(count, kind, *self.examples[kind]) for kind, count in others]
            shown = ", ".join(f"{n} {kind} (row {row}: {cut(t)!r})" for n, kind, row, t in odd)
            yield f"mixed types: mostly {main_kind}, also {shown}"
        if self.padded:
            yield f"{self.padded} values have spaces around them"
        if self.codes:
            yield f"{self.codes} values start with 0: keep the column as text, not numbers"
        if self.type == "text":
            folded = Counter(" ".join(value.lower().split()) for value in self.values)
            if same := [cut(value) for value, count in folded.most_common(3) if count > 1]:
                yield "spelled in several ways: " + ", ".join(map(repr, same))

    def _numbers(self, warnings: list[str]) -> dict[str, Any]:
        count, ordered = self.kinds["number"], sorted(self.sample)
        cuts = ordered * 19
        if len(ordered) > 1:
            cuts = statistics.quantiles(ordered, n=20, method="inclusive")
        q1, q3 = cuts[4], cuts[14]
        floor, ceiling = q1 - 3 * (q3 - q1), q3 + 3 * (q3 - q1)
        ends = [self.low, self.high]
        extremes = [f"row {row}: {v:g}" for v, row in ends if not floor <= v <= ceiling]
        if extremes and q3 > q1:
            far = sum(not floor <= value <= ceiling for value in ordered)
            sampled = "" if len(ordered) == count else f" of {SAMPLE} sampled values"
            warnings.append(f"outliers: {far}{sampled} beyond 3 IQR, such as {', '.join(extremes)}")
        return {
            "min": self.low[0],
            "max": self.high[0],
            "mean": float(f"{self.mean:.9g}"),
            "median": cuts[9],
            "stdev": float(f"{math.sqrt(self.squares / max(1, count - 1)):.9g}"),
            "quantiles": {"p5": cuts[0], "p25": q1, "p75": q3, "p95": cuts[18]},
            "quantiles_are_sampled": count > len(ordered),
        }

    def _dates(self, warnings: list[str]) -> dict[str, Any]:
        span, other, order = self.day_first, self.month_first, "day first"
        if other.count > span.count:
            span, order = other, "month first"
        elif other.count == span.count:
            order = "unambiguous"
            if (span.first, span.last) != (other.first, other.last):
                order = "unknown"
                warnings.append("day and month cannot be told apart: read as day first")
        first, last = (d.isoformat(" ") if d else None for d in (span.first, span.last))
        return {"first": first, "last": last, "date_order": order}


def profile(table: Table, wanted: list[str] | None, limit: int, top: int) -> dict[str, Any]:
    """Feed every row to its columns and add what concerns the table as a whole."""
    names = table.names
    if unknown := [name for name in wanted or [] if name not in names]:
        raise Unusable(f"no column {unknown[0]!r}; there are: {cut(', '.join(names))}")
    columns = [
        (index, Column(name, table.decimal_comma)) for index, name in enumerate(names) if not wanted or name in wanted
    ]
    seen: set[int] = set()
    count = duplicates = ragged = blank = 0
    stopped = False
    for row in table.rows:
        if not row:
            blank += 1
            continue
        if limit and count >= limit:
            stopped = True
            break
        count += 1
        ragged += len(row) != len(names)
        key = hash(tuple(row))
        if key in seen:
            duplicates += 1
        elif len(seen) < ROW_HASHES:
            seen.add(key)
        for index, column in columns:
            column.add(row[index] if index < len(row) else "", count)
    warnings = [f"{n} columns are named {name!r}" for name, n in Counter(names).items() if n > 1]
    if not table.header:
        warnings.append("no header was found: columns are named column_1, column_2, …")
    if not count:
        warnings.append("there is a header and no data")
    if ragged:
        warnings.append(f"{ragged} rows do not have {len(names)} fields: check quotes, delimiter")
    if duplicates:
        warnings.append(f"{duplicates} rows repeat an earlier row exactly")
    if blank:
        warnings.append(f"{blank} blank lines were skipped")
    return {
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "header": table.header,
        "rows": count,
        "stopped_at_limit": stopped,
        "duplicate_rows": duplicates,
        "ragged_rows": ragged,
        "warnings": warnings,
        "columns": [column.report(top) for _, column in columns],
    }


def describe(out: dict[str, Any]) -> Iterator[str]:
    """Lay the profile out as lines of text."""
    stopped = " (stopped at --limit)" if out["stopped_at_limit"] else ""
    yield f"{out['file']}: {out['rows']} rows{stopped}, {len(out['columns'])} columns profiled"
    yield f"encoding {out['encoding']}, delimiter {out['delimiter']!r}, header {out['header']}"
    yield from (f"! {warning}" for warning in out["warnings"])
    for column in out["columns"]:
        more = "+" if column["distinct_is_minimum"] else ""
        yield ""
        yield (
            f"{column['name']}  [{column['type']}]  filled {column['filled']}, "
            f"missing {column['missing']}, distinct {column['distinct']}{more}"
        )
        if "mean" in column:
            shown = {key: column[key] for key in ("min", "max", "mean", "median", "stdev")}
            yield "  " + "  ".join(f"{k} {v:g}" for k, v in (shown | column["quantiles"]).items())
        if "first" in column:
            yield f"  from {column['first']} to {column['last']} ({column['date_order']})"
        if "top" in column:
            yield "  top: " + ", ".join(f"{t['value']!r} {t['count']}" for t in column["top"])
        yield from (f"  ! {warning}" for warning in column["warnings"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/profile_csv.py sales.csv --column amount --json\n"
        "exit codes: 0 profiled; 1 empty, or --strict and a warning; 2 the file cannot be used",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, nargs="?", help="the CSV file")
    parser.add_argument("--sample", action="store_true", help="profile the sample that comes with this skill")
    parser.add_argument("--column", action="append", help="only this column (may be repeated)")
    parser.add_argument("--limit", type=int, default=0, help="read only the first N data rows")
    parser.add_argument("--top", type=int, default=5, help="most frequent values to show")
    parser.add_argument("--delimiter", type=delimiter_option, help="found by itself unless given")
    parser.add_argument("--header", choices=["auto", "yes", "no"], default="auto")
    parser.add_argument("--strict", action="store_true", help="exit 1 when there is a warning")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    if options.limit < 0 or options.top < 1:
        parser.error("--limit and --top take positive numbers")
    if (options.file is None) != options.sample:
        parser.error("name a file, or give --sample")
    options.file = options.file or Path(__file__).resolve().parents[1] / "assets/sample-sales.csv"
    with open_table(options.file, options.delimiter, options.header) as table:
        found = profile(table, options.column, options.limit, options.top)
    out = {"file": options.file.name} | found
    lines = [json.dumps(out, ensure_ascii=False, indent=1)] if options.json else describe(out)
    print("\n".join(lines))
    warned = out["warnings"] or any(column["warnings"] for column in out["columns"])
    return 1 if options.strict and warned else 0


if __name__ == "__main__":
    sys.exit(run(main))
