#!/usr/bin/env python3
"""Find what is wrong in a log: problems as templates, stack traces, bursts and silences.

Numbers, ids, addresses and paths are masked, so that lines which say the same are counted
together. Memory is bounded: the rarest templates are given up first, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.dont_write_bytecode = True  # a skill's folder may be read-only, and is compared by its files
sys.path.insert(0, str(Path(__file__).resolve().parent))

from read_log import (
    EXCEPTION,
    FRAME,
    GO_START,
    RANK,
    SHOWN,
    mask,
    parse_line,
    read_lines,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from read_log import (
        Record,
    )

TEMPLATES = 5_000
TRACES = 1_000
BUCKETS = 20_000
FRAMES = 60  # lines read of one stack trace
EPOCH = datetime(1970, 1, 1)
TRACEBACK = "Traceback (most recent call last)"


def show(moment: datetime | None) -> str | None:
    return moment.isoformat(" ", "seconds") if moment else None


@dataclass
class Group:
    """Lines, or stack traces, that say the same."""

    text: str
    level: str
    where: str
    example: str = ""
    frames: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    count: int = 0

    def add(self, moment: datetime | None) -> None:
        self.count += 1
        self.first = self.first or moment
        self.last = moment or self.last

    def report(self) -> dict[str, Any]:
        out: dict[str, Any] = {"count": self.count, "level": self.level, "text": self.text}
        out |= {"first": show(self.first), "last": show(self.last), "where": self.where}
        return out | ({"frames": self.frames} if self.frames else {"example": self.example})


@dataclass
class Trace:
    """A stack trace that is still being read."""

    kind: str
    title: str
    where: str
    moment: datetime | None
    announced: bool  # an error line stood right before it
    frames: list[str] = field(default_factory=list)

    def takes(self, record: Record) -> bool:
        """Tell whether the line belongs to this trace, and keep it if so."""
        line = record.rest
        if self.kind == "python":
            inside = line[:1] in {" ", "\t", ""}
        elif self.kind == "go":
            inside = record.moment is None and len(self.frames) < FRAMES
        else:
            inside = bool(FRAME.match(line))
        if inside and line.strip(" \t^~") and len(self.frames) < FRAMES:
            self.frames.append(line.strip()[:SHOWN])
        return inside


@dataclass
class Triage:
    """Everything learned from the lines so far."""

    since: datetime | None = None
    until: datetime | None = None
    lines: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Group] = field(default_factory=dict)
    traces: dict[str, Group] = field(default_factory=dict)
    forgotten: int = 0
    now: datetime | None = None
    first: datetime | None = None
    last: datetime | None = None
    silence: tuple[timedelta, datetime | None] = (timedelta(), None)
    width: int = 60  # seconds in a bucket
    buckets: Counter[int] = field(default_factory=Counter)
    starts: dict[int, str] = field(default_factory=dict)
    trace: Trace | None = None
    previous: tuple[str, str] = ("", "unknown")

    def add(self, line: str, where: str) -> None:
        """Take in one line."""
        record = parse_line(line)
        self.now = record.moment or self.now
        if (self.since or self.until) and not self._in_range():
            return
        self.lines += 1
        if record.moment:
            self._pass_time(record.moment)
        if self.trace:
            if self.trace.takes(record):
                return
            if self.finish(record):
                return
        self._start_trace(record, where)
        if record.stack:
            self._add_stack(record, where)
        if record.message and not (FRAME.match(record.rest) or record.message.startswith(TRACEBACK)):
            self._count(record.message, record.level, line, where)
            self.previous = (record.message, record.level)

    def _in_range(self) -> bool:
        if self.now is None:
            return False
        return (not self.since or self.now >= self.since) and (not self.until or self.now <= self.until)

    def _pass_time(self, moment: datetime) -> None:
        if self.last and moment - self.last > self.silence[0]:
            self.silence = (moment - self.last, self.last)
        self.first = min(self.first or moment, moment)
        self.last = max(self.last or moment, moment)

    def _start_trace(self, record: Record, where: str) -> None:
        announced = RANK[self.previous[1]] >= RANK["error"]
        if TRACEBACK in record.rest:
            announced = announced or not record.message.startswith(TRACEBACK)
            self.trace = Trace("python", "", where, self.now, announced)
        elif FRAME.match(record.rest):
            self.trace = Trace("java or javascript", self.previous[0], where, self.now, True)
            self.trace.takes(record)
        elif GO_START.match(record.rest):
            self.trace = Trace("go", record.message, where, self.now, True)

    def _add_stack(self, record: Record, where: str) -> None:
        lines = [line.strip() for line in record.stack.splitlines() if line.strip()]
        if lines and TRACEBACK in record.stack:
            self._count_trace(lines[-1], lines[1:-1][-4:], where, self.now)
        elif lines:
            self._count_trace(lines[0], lines[1:5], where, self.now)

    def _count(self, message: str, level: str, line: str, where: str) -> None:
        self.levels[level] += 1
        template = mask(message)
        key = f"{level} {template}"
        if key not in self.groups:
            if len(self.groups) >= TEMPLATES:
                self._forget()
            self.groups[key] = Group(template, level, where, line.strip()[:SHOWN])
        self.groups[key].add(self.now)
        if self.now and RANK[level] >= RANK["error"]:
            bucket = int((self.now - EPOCH).total_seconds()) // self.width
            self.buckets[bucket] += 1
            self.starts.setdefault(bucket, template)
            if len(self.buckets) > BUCKETS:
                self._widen()

    def _forget(self) -> None:
        ranked = sorted(self.groups.items(), key=lambda item: (RANK[item[1].level], item[1].count))
        for key, group in ranked[: TEMPLATES // 2]:
            self.forgotten += group.count
            del self.groups[key]

    def _widen(self) -> None:
        finer, starts = self.buckets, self.starts
        self.width, self.buckets, self.starts = self.width * 60, Counter(), {}
        for bucket in sorted(finer):
            self.buckets[bucket // 60] += finer[bucket]
            self.starts.setdefault(bucket // 60, starts[bucket])

    def finish(self, record: Record | None = None) -> bool:
        """Close the trace being read; say whether the line was its last, which names the error."""
        trace, self.trace = self.trace, None
        if trace is None:
            return False
        title, closing = trace.title, False
        if record and trace.kind == "python":
            closing = record.moment is None or bool(EXCEPTION.match(record.rest))
            title = record.rest if closing else title
        near = trace.frames[-4:] if trace.kind == "python" else trace.frames[:4]
        self._count_trace(title or "(cut off)", near, trace.where, trace.moment)
        if closing and not trace.announced:
            self._count(title, "error", title, trace.where)
        return closing

    def _count_trace(self, title: str, frames: list[str], where: str, moment: datetime | None) -> None:
        key = "|".join(map(mask, [title, *frames]))
        if key not in self.traces:
            if len(self.traces) >= TRACES:
                self.forgotten += 1
                return
            self.traces[key] = Group(mask(title), "error", where, frames=frames)
        self.traces[key].add(moment)

    def bursts(self) -> list[dict[str, Any]]:
        """Find the times with far more errors than is usual for this log."""
        if len(self.buckets) < 2:
            return []
        usual = self.buckets.total() / (max(self.buckets) - min(self.buckets) + 1)
        enough = max(5.0, 3 * usual, usual + statistics.pstdev(self.buckets.values()))
        found = [(count, bucket) for bucket, count in self.buckets.items() if count >= enough]
        return [
            {
                "at": show(EPOCH + timedelta(seconds=bucket * self.width)),
                "seconds": self.width,
                "errors": count,
                "began_with": self.starts[bucket],
            }
            for count, bucket in sorted(found, reverse=True)[:5]
        ]

    def report(self, top: int, minimum: str) -> dict[str, Any]:
        """Describe everything as plain data."""
        ranked = sorted(self.groups.values(), key=lambda g: (-RANK[g.level], -g.count))
        problems = [group for group in ranked if RANK[group.level] >= RANK[minimum]]
        others = [group for group in ranked if RANK[group.level] < RANK[minimum]]
        early = (group for group in self.groups.values() if RANK[group.level] >= RANK["error"])
        earliest = next(early, None)
        traces = sorted(self.traces.values(), key=lambda group: -group.count)
        others.sort(key=lambda group: -group.count)
        return {
            "lines": self.lines,
            "first": show(self.first),
            "last": show(self.last),
            "levels": dict(self.levels.most_common()),
            "first_error": earliest.report() if earliest else None,
            "problems": [group.report() for group in problems[:top]],
            "problems_not_shown": max(0, len(problems) - top),
            "stack_traces": [group.report() for group in traces[:top]],
            "stack_traces_not_shown": max(0, len(traces) - top),
            "bursts": self.bursts(),
            "longest_silence": {
                "seconds": int(self.silence[0].total_seconds()),
                "after": show(self.silence[1]),
            },
            "most_frequent_others": [group.report() for group in others[: max(3, top // 3)]],
            "lines_forgotten": self.forgotten,
        }


def describe(out: dict[str, Any]) -> Iterator[str]:
    """Lay the findings out as lines of text."""
    yield f"{out['lines']} lines from {out['first']} to {out['last']}"
    yield "levels: " + (", ".join(f"{k} {v}" for k, v in out["levels"].items()) or "none")
    if out["first_error"]:
        yield f"first error: {out['first_error']['where']}: {out['first_error']['example']}"
    quiet = out["longest_silence"]
    if quiet["seconds"]:
        yield f"longest silence: {quiet['seconds']} s after {quiet['after']}"
    for title, key in [("problems", "problems"), ("stack traces", "stack_traces")]:
        if out[key]:
            yield f"\n{title} ({out[f'{key}_not_shown']} more not shown):"
        for group in out[key]:
            yield f"{group['count']:>7}  {group['level']:<8}{group['text']}"
            yield f"         {group['where']}, {group['first']} to {group['last']}"
            yield from (f"           {frame}" for frame in group.get("frames", []))
    yield from ["\nbursts:"] if out["bursts"] else []
    for burst in out["bursts"]:
        yield f"  {burst['errors']} errors in {burst['seconds']} s at {burst['at']}"
        yield f"         began with: {burst['began_with']}"
    yield from ["\nmost frequent other lines:"] if out["most_frequent_others"] else []
    yield from (f"{group['count']:>7}  {group['text']}" for group in out["most_frequent_others"])
    if out["lines_forgotten"]:
        yield f"\n{out['lines_forgotten']} rare lines were not kept, to bound memory"


def moment_option(text: str) -> datetime:
    """Read a date or a time such as 2025-01-31T08:00, as UTC unless it has an offset."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 2025-01-31T08:00") from None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/triage_log.py app.log app.log.1.gz --top 10 --json\n"
        "exit codes: 0 no errors; 1 errors or stack traces found; 2 a file cannot be used",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", help="logs, oldest first; also .gz, or - for stdin")
    parser.add_argument("--top", type=int, default=15, help="groups to show, up to 200")
    levels = ["debug", "info", "warning", "error", "fatal"]
    parser.add_argument("--level", choices=levels, default="warning", help="what is a problem")
    parser.add_argument("--since", type=moment_option, help="only lines from this time on")
    parser.add_argument("--until", type=moment_option, help="only lines up to this time")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args()
    triage = Triage(since=options.since, until=options.until)
    for name in options.files:
        for number, line in read_lines(name):
            triage.add(line, f"{Path(name).name}:{number}")
        triage.finish()
    if not triage.lines:
        print("there are no lines to triage", file=sys.stderr)
    out = triage.report(max(1, min(options.top, 200)), options.level)
    print(json.dumps(out, ensure_ascii=False, indent=1) if options.json else "\n".join(describe(out)))
    return 1 if out["first_error"] or out["stack_traces"] else 0


if __name__ == "__main__":
    sys.exit(run(main))
