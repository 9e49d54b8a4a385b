#!/usr/bin/env python3
"""Show how a CSV file is written (encoding, delimiter, header) and its first rows.

The other scripts of this skill read their files through this one.
"""

from __future__ import annotations

import argparse
import codecs
import csv
import io
import itertools
import json
import os
import re
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SNIFF_BYTES = 65_536
CELL = 60  # longest cell text that is printed
LARGEST = 1e150  # beyond this the square of a number is no longer finite

INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d*)\Z")
DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?\Z")
GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z")
COMMA_DECIMAL = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+,\d+)\Z")
LEADING_ZERO = re.compile(r"0\d+\Z")
UNIT = re.compile(r"([+-]?)\s*[$€£¥]?\s*(.*?)\s*[%€]?\Z", re.DOTALL)
ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?\Z")
PARTED_DATE = re.compile(r"(\d{1,4})[/.](\d{1,2})[/.](\d{2,4})\Z")


class Unusable(Exception):
    """The file cannot be read as a table; the message says why."""


class Empty(Unusable):
    """The file holds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """How the file is written, and its data rows, which can be read once."""

    encoding: str
    delimiter: str
    header: bool
    decimal_comma: bool
    names: list[str]
    rows: Iterator[list[str]]


@contextmanager
def open_table(path: Path, delimiter: str | None = None, header: str = "auto") -> Iterator[Table]:
    """Open a CSV file as a table; rows are read from the disk as they are asked for."""
    encoding = find_encoding(path)
    with path.open(encoding=encoding, errors="replace", newline="") as stream:
        head = stream.read(SNIFF_BYTES)
        stream.seek(0)
        delimiter = delimiter or find_delimiter(head)
        rows = csv.reader(stream, delimiter=delimiter)
        first = next((row for row in rows if any(cell.strip() for cell in row)), None)
        if first is None:
            raise Empty("the file is empty")
        has_header = header == "yes" or (header == "auto" and not any(map(is_value, first)))
        names = [cell.strip() for cell in first] if has_header else [""] * len(first)
        yield Table(
            encoding=encoding,
            delimiter=delimiter,
            header=has_header,
            decimal_comma=delimiter != "," and has_decimal_commas(head, delimiter),
            names=[name or f"column_{i}" for i, name in enumerate(names, 1)],
            rows=rows if has_header else itertools.chain([first], rows),
        )


def find_encoding(path: Path) -> str:
    """Find the encoding by its mark, or by whether every byte of the file is valid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as stream:
        chunk = stream.read(SNIFF_BYTES)
        if chunk.startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        if chunk.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in chunk:
            raise Unusable("this is a binary file, not CSV text")
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = stream.read(1 << 20)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def find_delimiter(head: str) -> str:
    """Choose the delimiter that cuts the most sample rows into the same number of fields."""
    best, best_score = ",", 0.0
    for delimiter in ",;\t|":
        try:
            rows = list(csv.reader(head.splitlines()[:200], delimiter=delimiter))
        except csv.Error:
            continue
        widths = Counter(len(row) for row in rows if row)
        if not widths:
            continue
        width, count = widths.most_common(1)[0]
        score = count / widths.total() + min(width, 20) / 100 if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best


def has_decimal_commas(head: str, delimiter: str) -> bool:
    """Tell whether 1,5 is how this file writes one and a half."""
    cells = [cell.strip() for line in head.splitlines()[:200] for cell in line.split(delimiter)]
    commas = sum("," in cell and bool(COMMA_DECIMAL.match(cell)) for cell in cells)
    dots = sum("." in cell and bool(DECIMAL.match(cell)) for cell in cells)
    return commas > dots


def is_value(cell: str) -> bool:
    """Tell whether a cell of the first row is data, so that the row cannot be a header."""
    cell = cell.strip()
    return bool(cell) and (parse_number(cell) is not None or any(parse_dates(cell)))


def parse_number(text: str, decimal_comma: bool = False) -> float | None:
    """Read a number, with grouping, a currency sign or a percent sign; None if it is not one."""
    if not text or LEADING_ZERO.match(text):
        return None  # 00123 is a code, and would lose its zeros as a number
    if not INTEGER.match(text):
        if not (text[0].isdigit() and text[-1].isdigit()) and (found := UNIT.match(text)):
            text = found[1] + found[2]
        if decimal_comma and COMMA_DECIMAL.match(text):
            text = text.replace(".", "").replace(",", ".")
        elif not decimal_comma and GROUPED.match(text):
            text = text.replace(",", "")
        if not DECIMAL.match(text):
            return None
    value = float(text)
    return value if abs(value) < LARGEST else None


def parse_dates(text: str) -> tuple[datetime | None, datetime | None]:
    """Read a date as (day first, month first); the two agree unless the order is ambiguous."""
    if ISO_DATE.match(text):
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            return None, None
        return moment, moment
    parts = PARTED_DATE.match(text)
    if not parts:
        return None, None
    a, b, c = (int(part) for part in parts.groups())
    if len(parts[1]) == 4:
        return _date(a, b, c), _date(a, b, c)
    year = c + (2000 if c < 70 else 1900) if c < 100 else c
    return _date(year, b, a), _date(year, a, b)


def _date(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day)
    except ValueError:
        return None


def cut(text: str) -> str:
    """Shorten a cell so that one long value cannot flood the output."""
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


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
        return 1 if isinstance(error, Empty) else 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except csv.Error as error:
        print(f"error: malformed CSV, perhaps a quote never closed: {error}", file=sys.stderr)
        return 2
    return code


def delimiter_option(text: str) -> str:
    """Accept one character, or the two characters \\t for a tab."""
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or text in '"\r\n':
        raise argparse.ArgumentTypeError("give one character, or \\t")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python3 scripts/peek_csv.py sales.csv --rows 5\n"
        "exit codes: 0 shown; 1 the file is empty; 2 the file cannot be used",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="the CSV file")
    parser.add_argument("--rows", type=int, default=5, help="rows to show, at most 100")
    parser.add_argument("--delimiter", type=delimiter_option, help="found by itself unless given")
    parser.add_argument("--header", choices=["auto", "yes", "no"], default="auto")
    options = parser.parse_args()
    with open_table(options.file, options.delimiter, options.header) as table:
        rows = itertools.islice(table.rows, max(0, min(options.rows, 100)))
        shown = {
            "file": options.file.name,
            "encoding": table.encoding,
            "delimiter": table.delimiter,
            "header": table.header,
            "decimal_comma": table.decimal_comma,
            "columns": [cut(name) for name in table.names],
            "rows": [[cut(cell) for cell in row] for row in rows],
        }
    print(json.dumps(shown, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
