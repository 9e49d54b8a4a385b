#!/usr/bin/env python3
"""Draw a histogram, a bar chart or a line chart of a CSV file as an SVG image."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

sys.dont_write_bytecode = True  # a skill's folder may be read-only, and is compared by its files
sys.path.insert(0, str(Path(__file__).resolve().parent))

from typing import TYPE_CHECKING

from peek_csv import (
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

    from peek_csv import (
        Table,
    )

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 48, 96
GROUPS = 50_000  # distinct x values kept
VALUES = 200_000  # numbers kept for a histogram
POINTS = 2_000  # points drawn on a line
LABELS = 12  # labels written below the x axis
INK, FILL, GRID = "#222222", "#3b6ea5", "#dddddd"


@dataclass
class Group:
    """What is kept of the y values that share one x."""

    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    def value(self, how: str) -> float:
        return {
            "count": self.count,
            "sum": self.total,
            "mean": self.total / self.count,
            "min": self.low,
            "max": self.high,
        }[how]


@dataclass
class Series:
    """Labelled values ready to be drawn, and how many rows had nothing to draw."""

    points: list[tuple[str, float]]
    skipped: int
    left_out: int = 0


def column_index(table: Table, name: str) -> int:
    """Find a column by its name."""
    if name not in table.names:
        raise Unusable(f"no column {name!r}; there are: {cut(', '.join(table.names))}")
    return table.names.index(name)


def cell(row: list[str], index: int) -> str:
    return row[index].strip() if index < len(row) else ""


def histogram(table: Table, name: str, bins: int) -> Series:
    """Count the numbers of a column in bins of equal width."""
    index, kept, seen, skipped = column_index(table, name), list[float](), 0, 0
    chooser = random.Random(0)
    for row in filter(None, table.rows):
        value = parse_number(cell(row, index), table.decimal_comma)
        if value is None:
            skipped += 1
            continue
        seen += 1
        if len(kept) < VALUES:
            kept.append(value)
        elif (slot := chooser.randrange(seen)) < VALUES:
            kept[slot] = value
    if not kept:
        raise Unusable(f"column {name!r} holds no numbers: use --kind bar")
    low, high = min(kept), max(kept)
    bins = bins or max(1, min(40, math.ceil(math.log2(len(kept)) + 1)))
    bins = 1 if low == high else bins
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in kept:
        counts[min(bins - 1, int((value - low) / width))] += 1
    scale = seen / len(kept)
    points = [(f"{low + i * width:.4g}", count * scale) for i, count in enumerate(counts)]
    return Series(points, skipped)


def grouped(table: Table, x: str, y: str | None, how: str) -> Series:
    """Combine y for each x, in the order of the file; without y the rows are counted."""
    x_index, y_index = column_index(table, x), column_index(table, y) if y else None
    groups: dict[str, Group] = {}
    skipped = 0
    for row in filter(None, table.rows):
        key, value = cell(row, x_index), 1.0
        if y_index is not None:
            number = parse_number(cell(row, y_index), table.decimal_comma)
            value = math.nan if number is None else number
        if not key or math.isnan(value) or (key not in groups and len(groups) >= GROUPS):
            skipped += 1
            continue
        groups.setdefault(key, Group()).add(value)
    if not groups:
        raise Unusable(f"no row has both {x!r} and a number in {y!r}" if y else f"{x!r} is empty")
    return Series([(key, group.value(how)) for key, group in groups.items()], skipped)


def ordered(series: Series, decimal_comma: bool) -> Series:
    """Sort points along x, as numbers or dates where all of x are, and thin them to fit."""

    def position(point: tuple[str, float]) -> tuple[int, float, str]:
        number = parse_number(point[0], decimal_comma)
        if number is not None:
            return 0, number, ""
        moment = next(filter(None, parse_dates(point[0])), None)
        return (1, (moment - moment.min).total_seconds(), "") if moment else (2, 0.0, point[0])

    points = sorted(series.points, key=position)
    step = math.ceil(len(points) / POINTS)
    return Series(points[::step], series.skipped, len(points) - len(points[::step]))


def nice_ticks(low: float, high: float) -> list[float]:
    """Choose about five round numbers that span the values, zero among them if it is near."""
    low, high = min(low, 0.0) if low < high / 2 or low < 0 else low, max(high, 0.0)
    span = high - low or abs(high) or 1.0
    raw = span / 5
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * 0.999)
    start = math.floor(low / step)
    stop = max(start + 1, math.ceil(high / step))
    return [tick * step for tick in range(start, stop + 1)]


def draw(series: Series, kind: str, title: str, x_name: str, y_name: str) -> Iterator[str]:
    """Write the chart as the lines of an SVG document."""
    points = series.points
    values = [value for _, value in points]
    # Bars are read by their length, so their axis has to start at zero.
    ticks = nice_ticks(min(values) if kind == "line" else min(0.0, *values), max(values))
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def y_of(value: float) -> float:
        return TOP + inner_height * (1 - (value - ticks[0]) / (ticks[-1] - ticks[0]))

    def text(x: float, y: float, words: str, extra: str = "") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(cut(words))}</text>'

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    yield f' width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">'
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><g fill="{INK}">'
    yield text(LEFT, 26, title, 'font-size="16"')
    yield text(LEFT + inner_width / 2, HEIGHT - 10, x_name, 'text-anchor="middle"')
    yield text(18, TOP - 10, y_name)
    for tick in ticks:
        yield text(LEFT - 8, y_of(tick) + 4, f"{tick:,.10g}", 'text-anchor="end"')
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(tick):.1f}" '
        yield f'y2="{y_of(tick):.1f}" stroke="{GRID}"/>'
    step = inner_width / len(points)
    every = math.ceil(len(points) / LABELS)
    for i, (label, _) in enumerate(points):
        if i % every == 0:
            x, y = LEFT + step * (i + 0.5), HEIGHT - BOTTOM + 16
            short = label if len(label) <= 14 else label[:13] + "…"
            yield text(x, y, short, f'text-anchor="end" transform="rotate(-35 {x:.1f} {y:.1f})"')
    yield f'</g><g fill="{FILL}">'
    if kind == "line":
        path = " ".join(f"{LEFT + step * (i + 0.5):.1f},{y_of(v):.1f}" for i, v in enumerate(values))
        yield f'<polyline points="{path}" fill="none" stroke="{FILL}" stroke-width="2"/>'
        dots = enumerate(points) if len(points) <= 60 else ()
        for i, (label, value) in dots:
            yield f'<circle cx="{LEFT + step * (i + 0.5):.1f}" cy="{y_of(value):.1f}" r="3">'
            yield f"<title>{escape(label)}: {value:g}</title></circle>"
    else:
        gap = 0.5 if kind == "hist" else step * 0.15
        for i, (label, value) in enumerate(points):
            top, bottom = sorted((y_of(value), y_of(0.0)))
            yield f'<rect x="{LEFT + step * i + gap:.1f}" y="{top:.1f}" '
            yield f'width="{max(0.5, step - 2 * gap):.1f}" height="{bottom - top:.1f}">'
            yield f"<title>{escape(label)}: {value:g}</title></rect>"
    yield "</g></svg>"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/plot_csv.py sales.csv --kind bar --x region "
        "--y amount --agg sum --out chart.svg\n"
        "exit codes: 0 drawn; 1 the file is empty; 2 it cannot be drawn",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the CSV file")
    parser.add_argument("--kind", choices=["hist", "bar", "line"], required=True)
    parser.add_argument("--x", required=True, help="the column along the x axis")
    parser.add_argument("--y", help="the column of numbers to combine (bar and line)")
    parser.add_argument("--agg", choices=["sum", "mean", "min", "max", "count"], default="sum")
    parser.add_argument("--out", type=Path, required=True, help="the SVG file to write")
    parser.add_argument("--bins", type=int, default=0, help="bars of a histogram, at most 200")
    parser.add_argument("--top", type=int, default=20, help="bars of a bar chart")
    parser.add_argument("--title", help="made from the columns unless given")
    parser.add_argument("--delimiter", type=delimiter_option, help="found by itself unless given")
    options = parser.parse_args()
    if options.kind == "hist" and options.y:
        parser.error("a histogram takes --x only")
    if not 0 <= options.bins <= 200 or not 1 <= options.top <= 200:
        parser.error("--bins and --top go up to 200")
    how = options.agg if options.y else "count"
    with open_table(options.file, options.delimiter) as table:
        if options.kind == "hist":
            series = histogram(table, options.x, options.bins)
        else:
            series = grouped(table, options.x, options.y, how)
        if options.kind == "line":
            series = ordered(series, table.decimal_comma)
    if options.kind == "bar":
        ranked = sorted(series.points, key=lambda point: -point[1])
        kept = list(itertools.islice(ranked, options.top))
        series = Series(kept, series.skipped, len(ranked) - len(kept))
    y_name = f"{how} of {options.y}" if options.y else "rows"
    title = options.title or f"{y_name} by {options.x}"
    svg = "\n".join(draw(series, options.kind, title, options.x, y_name)) + "\n"
    options.out.write_text(svg, encoding="utf-8")
    done = {
        "written": str(options.out),
        "drawn": len(series.points),
        "left_out": series.left_out,
        "rows_skipped": series.skipped,
    }
    print(json.dumps(done, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
