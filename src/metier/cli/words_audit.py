"""The words of `metier audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.cli.verbs import add_json, verbs

if TYPE_CHECKING:
    import argparse

    from metier.cli.parser import Command

_FILTERS = {
    "skill": ("NAME", "about this skill, or while it was loaded; NAME@SOURCE for one of several"),
    "type": ("TYPE", "of this type, such as tool.denied; or of all that begin so, such as approval"),
    "outcome": ("OUTCOME", "with this decision: allow, ask or deny"),
    "session": ("ID", "of this session"),
    "user": ("NAME", "of this user"),
    "agent": ("NAME", "of this agent"),
    "digest": ("DIGEST", "about this content"),
    "since": ("TIME", "from then on: 2026-01-31, 2026-01-31T12:00 (here, unless it says where), or 2h, 7d ago"),
    "until": ("TIME", "before then"),
    "text": ("TEXT", "with this text in any of their values"),
}


def add(command: Command) -> None:
    """Add them to the parser."""
    audit = command("audit", "read, verify and export what was recorded", "metier audit search --type tool.denied")
    verb = verbs(audit)

    tail = verb("tail", "show the last records, the newest at the end", "metier audit tail -n 50")
    _count(tail, 20)
    tail.add_argument("-f", "--follow", action="store_true", help="go on with those that come, until Ctrl-C")
    _shared(tail)

    search = verb(
        "search", "find records that fit, the newest first", "metier audit search --type tool.denied --since 7d"
    )
    for name, (metavar, text) in _FILTERS.items():
        # A word that no record can have would find nothing, which looks like an answer.
        choices = ("allow", "ask", "deny") if name == "outcome" else None
        search.add_argument(f"--{name}", metavar=metavar, choices=choices, help=text)
    _count(search, 100)
    _shared(search)

    verify = verb("verify", "say whether all records are as they were written; exit 1 if not", "metier audit verify")
    verify.add_argument("--file", metavar="FILE", help="verify an export as JSON lines instead of the store")
    verify.add_argument(
        "--key", metavar="FILE", action="append", default=[], help="the public half of a key that signed (repeatable)"
    )
    add_json(verify)

    export = verb(
        "export",
        "write out all records, for other programs or for people",
        "metier audit export --format text -o audit.txt",
    )
    export.add_argument(
        "--format",
        choices=("jsonl", "cloudevents", "otlp", "csv", "text"),
        default="jsonl",
        help="jsonl: can be verified (default); cloudevents: CloudEvents 1.0; otlp: OpenTelemetry logs; csv: for a "
        "spreadsheet; text: to read",
    )
    target = export.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="FILE", help="write to a file")
    target.add_argument("--endpoint", metavar="URL", help="send OTLP to a collector, such as http://localhost:4318")
    _tenant(export)

    checkpoint = verb("checkpoint", "sign what the records are now", "metier audit checkpoint")
    add_json(checkpoint)
    _tenant(checkpoint)


def _shared(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    _tenant(parser)


def _tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="NAME", help="of this tenant (default: yours)")


def _count(parser: argparse.ArgumentParser, default: int) -> None:
    from metier.cli.parser import _number

    parser.add_argument("-n", metavar="N", type=_number, default=default, help=f"at most so many (default: {default})")
