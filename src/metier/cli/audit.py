"""`metier audit`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import metier.store
from metier._lazy import replace
from metier._paths import replace_file
from metier.cli.exit_codes import FINE
from metier.cli.identity import TOKEN, acting, has_store, store_url
from metier.cli.output import Style, plural, print_done, print_json, table
from metier.cli.parser import Parser, positive
from metier.errors import InvalidArgument
from metier.guard.policy.durations import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from metier.guard.audit.verification import ChainVerification, VerificationReport
    from metier.store import TenantScope

_HEAD = ("SEQ", "TIME", "TYPE", "SKILL", "WHO", "WHAT")
_POLL_SECONDS = 0.5


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


def add(parser: Parser) -> None:
    parser.example("metier audit search --type tool.denied")
    tail = parser.verb("tail", "show the last records, the newest at the end", "metier audit tail -n 50", _tail)
    _add_count(tail, 20)
    tail.flag("--follow", "go on with those that come, until Ctrl-C", short="-f")

    search = parser.verb(
        "search",
        "find records that fit, the newest first",
        "metier audit search --type tool.denied --since 7d",
        _search,
    )
    for name, (metavar, text) in _FILTERS.items():
        # A word that no record can have would find nothing, which looks like an answer.
        choices = ("allow", "ask", "deny") if name == "outcome" else None
        search.option(f"--{name}", metavar, text, choices=choices)
    _add_count(search, 100)

    verify = parser.verb(
        "verify", "say whether all records are as they were written; exit 1 if not", "metier audit verify", _verify
    )
    verify.option("--file", "FILE", "verify an export as JSON lines instead of the store")
    verify.option("--key", "FILE", "the public half of a key that signed (repeatable)", action="append", default=[])

    export = parser.verb(
        "export",
        "write out all records, for other programs or for people",
        "metier audit export --format text -o audit.txt",
        _export,
        is_exact=True,
    )
    export.option(
        "--format",
        None,
        "jsonl: can be verified (default); cloudevents: CloudEvents 1.0; otlp: OpenTelemetry logs; ocsf: "
        "OCSF 1.3 events of API activity; csv: for a spreadsheet; text: to read",
        choices=("jsonl", "cloudevents", "otlp", "ocsf", "csv", "text"),
        default="jsonl",
    )
    target = export.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="FILE", help="write to a file")
    target.add_argument("--endpoint", metavar="URL", help="send OTLP to a collector, such as http://localhost:4318")
    checkpoint = parser.verb("checkpoint", "sign what the records are now", "metier audit checkpoint", _checkpoint)
    for verb in (tail, search, verify, checkpoint):
        verb.json()
    for verb in (tail, search, export, checkpoint):
        verb.tenant()


def _add_count(parser: Parser, default: int) -> None:
    parser.option("-n", "N", f"at most so many (default: {default})", type=positive, default=default)


def run(options: Namespace) -> int:
    _say_if_elsewhere(options)
    return options.do(options) or FINE


def _say_if_elsewhere(options: Namespace) -> None:
    chosen = os.environ.get("METIER_AUDIT")
    if chosen and not getattr(options, "file", None):
        where = "nowhere" if chosen.lower() == "off" else f"to {Style.text(chosen, 4_096)}"
        print(f"METIER_AUDIT sends records {where}, and not to the store that is read here.", file=sys.stderr)


@contextlib.contextmanager
def _open_scope(options: Namespace, *, create: bool = False) -> Iterator[TenantScope | None]:
    """Open the store for the tenant of the user, if it knows them; None where there is no store yet."""
    if create or has_store():
        with acting(options, create=create) as (scope, _):
            yield scope
    else:
        yield None


def _tail(options: Namespace) -> None:
    with _open_scope(options, create=options.follow) as scope:
        records = [] if scope is None else scope.audit.tail(options.n)
        if scope is None or not options.follow:
            _print_records(records, options)
            return
        style = Style(sys.stdout)
        place = 1
        while True:
            for record in records:
                # A program that reads along gets a line for each, as they come.
                print(json.dumps(record) if options.json else _line(style, record), flush=True)
                place = record["seq"] + 1
            time.sleep(_POLL_SECONDS)
            links = scope.audit.walk(start=place)
            records = [link.record for link in links if link.is_whole and link.record is not None]


def _search(options: Namespace) -> None:
    filters = {name: getattr(options, name) for name in _FILTERS}
    filters |= {"since": moment_of(options.since), "until": moment_of(options.until)}
    with _open_scope(options) as scope:
        found = scope.audit.search(**filters, limit=options.n) if scope is not None else []
    _print_records(found, options)


def _print_records(records: list[dict[str, Any]], options: Namespace) -> None:
    if options.json:
        print_json({"records": records})
    elif records:
        style = Style(sys.stdout)
        rows = [_row(record, style.when(str(record.get("timestamp", "")))) for record in records]
        print(table(style, _HEAD, rows, paint={0: style.dim, 1: style.dim, 2: style.outcome, 3: style.strong}))
    else:
        print("No record fits.", file=sys.stderr)


def _row(record: Mapping[str, Any], moment: str) -> list[str]:
    from metier.guard.audit.log import object_of
    from metier.store.audit_log import skill_ref

    who = record.get("user") or record.get("agent") or record.get("by") or ""
    what = ": ".join(part for part in object_of(record) if part)
    return [*map(str, (record.get("seq"), moment, record.get("type", ""), skill_ref(record), who)), what]


def _line(style: Style, record: Mapping[str, Any]) -> str:
    cells = _row(record, str(record.get("timestamp", "")))
    seq, moment, kind, *rest = (Style.text(cell, 4_096) for cell in cells)
    paint = style.warn if record.get("would") else style.outcome
    return "  ".join([seq, style.dim(moment), paint(kind), *(cell for cell in rest if cell)])


def _verify(options: Namespace) -> int:
    from pathlib import Path

    from metier.guard.audit.keys import known_keys
    from metier.guard.audit.verification import VerificationReport, verify_export, verify_store
    from metier.guard.open_stores import require_store

    signing = key_file()
    keys = known_keys(signing, *options.key)
    if options.file:
        report = VerificationReport(chains=(verify_export(Path(options.file), keys),))
    else:
        tenant = _tenant_of_token(options)
        report = verify_store(keys, store_url(), key_file=signing)
        if report.is_ok and not report.chains:
            require_store(store_url())  # no checkpoint was signed, and the store is gone all the same
        if tenant:
            report = replace(report, chains=tuple(chain for chain in report.chains if chain.tenant == tenant))
    if options.json:
        chains = [_verdict_shape(chain) for chain in report.chains]
        damaged = {"damaged_checkpoints": report.damaged, "damaged_marks": report.damaged_marks}
        print_json({"ok": report.is_ok, "chains": chains, **damaged, "unprotected": report.unprotected})
    else:
        style = Style(sys.stdout)
        for chain in report.chains:
            _print_verdict(style, chain)
        if options.file and report.is_ok and not report.chains[0].checkpoints:
            print(f"  {style.warn('!')} Nothing in it is signed: that its end is missing could not be told.")
        for line in report.damaged:
            print(f"{style.bad('✗')} Line {line:,} of audit/checkpoints.jsonl is not a checkpoint.")
        for path in report.damaged_marks:
            print(f"{style.bad('✗')} {Style.text(path, 4_096)} does not hold the last checkpoint.")
        for message in report.unprotected:
            print(f"{style.bad('✗')} {Style.text(message, 1_000)} It keeps records from being changed or removed.")
        if report.unprotected:
            print(f"  {style.dim('→ ' + _REPAIR)}")
        if not report.chains:
            print("Nothing was recorded here yet.")
    return 0 if report.is_ok else 1


def _tenant_of_token(options: Namespace) -> str:
    """Return the tenant whose log alone is verified; "" for all: a user without a token has the files themselves."""
    store = metier.store.Store.peek(store_url()) if os.environ.get(TOKEN) else None
    if store is None:
        return ""
    store.close()
    with acting(Namespace(**vars(options), tenant=None), create=False) as (scope, _):
        return scope.audit.tenant


def _verdict_shape(verdict: ChainVerification) -> dict[str, Any]:
    return {
        "tenant": verdict.tenant,
        "node": verdict.node,
        "ok": verdict.is_ok,
        "records": verdict.records,
        "checkpoints": verdict.checkpoints,
        "unsigned": verdict.unsigned,
        "unknown_keys": verdict.unknown_keys,
        "fault": verdict.fault,
    }


def _print_verdict(style: Style, verdict: ChainVerification) -> None:
    node = f"node {Style.text(verdict.node)}" if verdict.node else ""
    whose = "".join(f"{name}: " for name in (Style.text(verdict.tenant), node) if name)
    if verdict.fault is not None:
        said = Style.text(verdict.fault.message, 1_000)
        print(f"{style.bad('✗')} {whose}record {verdict.fault.seq:,} {style.bad(verdict.fault.kind)}. {said}")
        print(f"  {style.dim('→ ' + _ADVICE)}")
        return
    signed = f"{plural(verdict.checkpoints, 'checkpoint')} signed, {plural(verdict.unsigned, 'record')} since the last"
    print(f"{style.good('✓')} {whose}{plural(verdict.records, 'record')}, all as they were written; {signed}.")


_REPAIR = (
    "Nobody but Métier should change its tables: find out who could write there, and compare the store with a backup."
)
_ADVICE = (
    "Keep a copy of the store and of its folder as they are, and find out who could write there. To begin anew, move "
    "audit/checkpoints.jsonl and the mark beside the key (keys/*.last) to where you keep evidence."
)


def _export(options: Namespace) -> int:
    from metier.guard.audit.checkpoints import checkpoints_of
    from metier.guard.audit.collector import send_otlp
    from metier.guard.audit.export import export_lines

    if options.endpoint and options.format != "otlp":
        raise InvalidArgument("Only OTLP can be sent.", hint="Add --format otlp, or write to a file with -o.")
    with _open_scope(options) as scope:
        if scope is None:
            _write_lines([], options)
            return FINE
        lines = export_lines(scope.audit.walk(), checkpoints_of(scope), options.format)
        if options.endpoint:
            sent = send_otlp(lines, options.endpoint)
            print(f"{plural(sent, 'request')} sent.", file=sys.stderr)
        else:
            _write_lines(lines, options)
        return _print_faults(scope)


def _print_faults(scope: TenantScope) -> int:
    """Verify the records of an export, print their faults and return the exit code; they are exported all the same."""
    report = verified(scope.store.url)
    faults = [chain.fault for chain in report.chains if chain.fault is not None and chain.tenant == scope.audit.tenant]
    # Another machine has another key, and whoever has its public half verifies the file with it.
    faults = [fault for fault in faults if fault.kind != "unknown-key"]
    for message in (*(fault.message for fault in faults), *report.unprotected):
        print(f"{Style(sys.stderr).bad('✗')} {Style.text(message, 1_000)}", file=sys.stderr)
    return 1 if faults or report.unprotected else 0


def _write_lines(lines: Iterable[str], options: Namespace) -> None:
    if not options.output:
        for line in lines:
            print(line)
        return
    with replace_file(os.path.abspath(options.output)) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def _checkpoint(options: Namespace) -> None:
    from metier.guard.audit.checkpoints import make_checkpoint

    with _open_scope(options) as scope:
        made = make_checkpoint(scope.store, scope.tenant, key_file()) if scope is not None else None
    if options.json:
        print_json({"checkpoint": None if made is None else made.as_dict()})
    elif made is None:
        print("Nothing is new since the last checkpoint.")
    else:
        print_done(f"Record {made.seq:,} and all before it are signed by key {made.key_id}.")


def verified(url: str) -> VerificationReport:
    """Verify the audit log of a store with the keys that are known here."""
    from metier.guard.audit.keys import known_keys
    from metier.guard.audit.verification import verify_store

    signing = key_file()
    return verify_store(known_keys(signing), url, key_file=signing)


def key_file() -> Path:
    """Return the key file that policy names, else the user's own."""
    from metier.guard.audit.checkpoints import signing_key_file
    from metier.guard.policy.files import Policies

    return signing_key_file(Policies.discover().current())
