#!/usr/bin/env python3
"""Print the lines of a log around a line number or a pattern; .gz files are read as they are.

The other script of this skill reads and understands its lines through this one.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import re
import sys
import zlib
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINE = 16_384  # bytes read of one line
SHOWN = 240  # longest text that is printed

RANK = {"debug": 0, "info": 1, "unknown": 1, "warning": 2, "error": 3, "fatal": 4}
LEVELS = {
    **dict.fromkeys(["trace", "debug", "finest", "finer", "fine", "verbose"], "debug"),
    **dict.fromkeys(["info", "information", "notice", "log"], "info"),
    **dict.fromkeys(["warn", "warning"], "warning"),
    **dict.fromkeys(["error", "err", "severe", "fail", "failed"], "error"),
    **dict.fromkeys(["fatal", "critical", "crit", "panic", "alert", "emerg"], "fatal"),
}
NAMES = "|".join(sorted(LEVELS, key=len, reverse=True))
LEVEL = re.compile(
    rf"\b(?:level|lvl|severity)\"?[=:]\s*\"?({NAMES})\b|[\[<|(]\s*({NAMES})\s*[\]>|)]|^({NAMES}):",
    re.IGNORECASE,
)
UPPER_LEVEL = re.compile(rf"\b({NAMES.upper()})\b")
LEADING_LEVEL = re.compile(rf"\A[\[<(|\s]*(?:{NAMES.upper()})\b[\]>)|:\s]*")
STATUS = re.compile(r'" ([1-5]\d\d) (?:\d+|-)')
STAMP = re.compile(
    r"(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)"
    r"|(?P<slash>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d)"
    r"|(?P<web>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})"
    r"|(?P<syslog>\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\b)"
    r"|(?P<epoch>\A\[?1\d{9}(?:\.\d+|\d{3})?\b)"
)
MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in [
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<uuid>"),
        (r"[\w.+-]{1,64}@[\w-]+\.[\w.-]+", "<email>"),
        (r"\bhttps?://[^\s\"'<>]+", "<url>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<ip>"),
        (r"\b(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b", "<ip>"),
        (r"\b0x[0-9a-fA-F]+\b", "<hex>"),
        (r"\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b", "<hex>"),
        (r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.@%+~-]+){2,}[\\/]?", "<path>"),
        (r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{16,}\b", "<id>"),
        (r"(?<![A-Za-z])[-+]?\d+(?:[.,]\d+)*", "<n>"),
        (r"(?<=[A-Za-z_-])\d+\b", "<n>"),
    ]
]
FRAME = re.compile(r"\s+at \S|\s*\.\.\. \d+ (?:more|common frames)|Caused by: |\s+Suppressed: ")
GO_START = re.compile(r"panic: |fatal error: |goroutine \d+ \[")
SUSPECT = re.compile(
    r"(?<!\b0 )(?<!\bno )(?:\bfail(?:ed|ure)?\b|\berrors?\b|\bexception\b|\bdenied\b|\brefused\b|"
    r"\btimed? ?out\b|\bunreachable\b|\bout of memory\b|\bkilled\b|\bsegfault|\bcorrupt)",
    re.IGNORECASE,
)
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*[.$])*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)\b")
FAILURE = re.compile(rf"\s*(?:Exception in thread|{EXCEPTION.pattern}|{GO_START.pattern})")


class Unusable(Exception):
    """The log cannot be read; the message says why."""


def mask(text: str) -> str:
    """Replace what differs from one occurrence to the next."""
    text = text[: 4 * SHOWN]
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return " ".join(text.split())[:SHOWN]


def parse_time(text: str) -> tuple[datetime | None, tuple[int, int]]:
    """Find a timestamp near the start of a line, as UTC, and where it stands."""
    found = STAMP.search(text[:120])
    if not found:
        return None, (0, 0)
    words = found[0].strip("[")
    try:
        if found["iso"]:
            moment = datetime.fromisoformat(words.replace(",", ".").replace(" +", "+"))
        elif found["slash"]:
            moment = datetime.strptime(words, "%Y/%m/%d %H:%M:%S")
        elif found["web"]:
            moment = datetime.strptime(words, "%d/%b/%Y:%H:%M:%S %z")
        elif found["syslog"]:  # syslog has no year; 2000 has a 29 February
            moment = datetime.strptime(f"2000 {words}", "%Y %b %d %H:%M:%S")
        else:
            seconds = float(words)
            moment = datetime.fromtimestamp(seconds / (1000 if seconds > 1e11 else 1), UTC)
        if moment.tzinfo:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None, (0, 0)
    return moment, found.span()


def parse_level(text: str) -> str:
    """Read the level of a line, or the class of its HTTP status."""
    head = text[:160]
    if found := LEVEL.search(head):
        return LEVELS[next(filter(None, found.groups())).lower()]
    if found := UPPER_LEVEL.search(head):
        return LEVELS[found[1].lower()]
    if found := STATUS.search(text):
        return {"5": "error", "4": "warning"}.get(found[1][0], "info")
    if FAILURE.match(text):
        return "error"
    return "warning" if SUSPECT.search(text) else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one line says."""

    moment: datetime | None
    level: str
    message: str
    rest: str  # the line behind its timestamp, still indented
    stack: str = ""


def parse_line(line: str) -> Record:
    """Read one line of plain text or of JSON."""
    if line.startswith("{") and (record := parse_json(line)):
        return record
    moment, (start, end) = parse_time(line)
    bare = line[:start] + line[end:]
    message = LEADING_LEVEL.sub("", bare.strip(" []\t:-|,")) or bare.strip()
    rest = line if start else line[end:].removeprefix(" ")
    return Record(moment=moment, level=parse_level(bare), message=message, rest=rest)


def parse_json(line: str) -> Record | None:
    """Read a structured line, or return None if it is not a JSON object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None

    def first(*keys: str) -> Any:
        return next((record[key] for key in keys if record.get(key) not in (None, "")), "")

    level = first("level", "severity", "levelname", "lvl", "log.level")
    if isinstance(level, int):  # pino and bunyan count by tens
        level = {3: "info", 4: "warning", 5: "error", 6: "fatal"}.get(level // 10, "debug")
    message = str(first("message", "msg", "event", "error", "err", "exception"))
    return Record(
        moment=parse_time(str(first("time", "timestamp", "ts", "@timestamp", "date")))[0],
        level=LEVELS.get(str(level).lower()) or parse_level(message),
        message=message,
        rest=message,
        stack=str(first("stack", "stack_trace", "stacktrace", "exc_info", "traceback")),
    )


def read_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file, a .gz file or, for "-", the standard input."""
    if name == "-":
        yield from decode_lines(sys.stdin.buffer, name)
        return
    with Path(name).open("rb") as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        if not zipped:
            yield from decode_lines(stream, name)
            return
        try:
            with gzip.open(stream) as inner:
                yield from decode_lines(cast("BinaryIO", inner), name)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            print(f"warning: {name}: the archive is damaged: {error}", file=sys.stderr)


def decode_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Decode line by line; what is beyond the first bytes of a very long line is dropped."""
    number = 0
    while chunk := stream.readline(LINE):
        if number == 0 and chunk.startswith((b"\xff\xfe", b"\xfe\xff")) and stream.seekable():
            stream.seek(0)
            wide = io.TextIOWrapper(stream, "utf-16", "replace")
            yield from ((n, line.rstrip("\r\n")[:LINE]) for n, line in enumerate(wide, 1))
            return
        if number < 50 and b"\0" in chunk:
            raise Unusable(f"{name}: this is a binary file, not a log")
        number += 1
        yield number, chunk.decode("utf-8", "replace").rstrip("\r\n").lstrip("\ufeff")
        while chunk and not chunk.endswith(b"\n"):
            chunk = stream.readline(LINE)


def run(main: Callable[[], int]) -> int:
    """Call main; a broken pipe, an unusable file and odd characters never end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return code


def select(lines: Iterator[tuple[int, str]], wanted: Callable[[int, str], bool], context: int) -> Iterator[str]:
    """Yield the wanted lines with their neighbours, the wanted ones marked."""
    before: deque[tuple[int, str]] = deque(maxlen=context)
    after = 0
    for number, line in lines:
        if wanted(number, line):
            yield from (f"  {n}: {text[:SHOWN]}" for n, text in before)
            before.clear()
            after = context
            yield f"> {number}: {line[:SHOWN]}"
        elif after:
            after -= 1
            yield f"  {number}: {line[:SHOWN]}"
        else:
            before.append((number, line))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/read_log.py app.log.gz --around 1234 --context 20\n"
        "exit codes: 0 lines shown; 1 nothing matched; 2 the file or the pattern cannot be used",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help="the log, also .gz, or - for the standard input")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--around", type=int, help="a line number")
    which.add_argument("--match", help="a regular expression, case-insensitive")
    parser.add_argument("--context", type=int, default=5, help="lines before and after, up to 100")
    parser.add_argument("--max", type=int, default=200, help="most lines to print, up to 1000")
    options = parser.parse_args()
    try:
        pattern = re.compile(options.match or "", re.IGNORECASE)
    except re.error as error:
        parser.error(f"--match is not a regular expression: {error}")
    most = max(1, min(options.max, 1000))
    shown = 0
    for text in select(
        read_lines(options.file),
        lambda n, line: n == options.around if options.around else bool(pattern.search(line)),
        max(0, min(options.context, 100)),
    ):
        if shown == most:
            print(f"stopped after {most} lines: raise --max or narrow the search", file=sys.stderr)
            break
        print(text)
        shown += 1
    if not shown:
        print("nothing matched", file=sys.stderr)
    return 0 if shown else 1


if __name__ == "__main__":
    sys.exit(run(main))
