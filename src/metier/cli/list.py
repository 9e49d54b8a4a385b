"""`metier list`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
from metier.cli.json_shapes import entry_shape
from metier.cli.output import Progress, Style, plural, print_json, shortened, table
from metier.cli.parser import Parser, library_of
from metier.cli.policy_view import PolicyView, out_of_scope, warn_of_denied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier import Library
    from metier.cli.policy_view import PolicyStatus
    from metier.library import Entry

_DESCRIPTION_SHOWN = 160
"""Characters of a description that a person sees of each skill among all."""


def add(parser: Parser) -> None:
    parser.example("metier list --all --json")
    parser.library()
    parser.option("text", "TEXT", "only those whose name or a tag contains it", nargs="?")
    parser.flag("--all", "also shadowed, hidden and broken skills")
    parser.json()


def run(options: Namespace) -> None:
    from metier.library.readiness import readiness

    library = library_of(options)
    entries = library.entries(all=options.all)
    hidden = out_of_scope(library) if options.all else []
    if options.text:
        from metier.find.selection import Selection

        wanted = Selection(contains=options.text)
        entries, hidden = wanted.of(entries), list(wanted.of(hidden))
    policy = PolicyView(library)
    statuses = policy.among(entries)
    if options.json:
        _print_json(entries, hidden, statuses, policy)
        return
    effective = policy.governance.policies.found()
    warn_of_denied(statuses, () if effective is None else effective.errors)
    denied = {entry for entry, status in statuses.items() if status.status == "denied"}
    off = {entry for entry, status in statuses.items() if status.status == "off"}
    if not options.all:
        entries = tuple(entry for entry in entries if entry not in denied | off)
    style = Style(sys.stdout)
    if not entries and not hidden and not denied:
        if options.text:
            text = Style.text(options.text)
            print(f"No name or tag contains {text!r}. `metier search` looks at everything they say.")
        else:
            print("No skills here. `metier doctor` shows where they are looked for; `metier new NAME` writes one.")
        return
    paint = {0: style.strong, 1: style.dim}
    machine = metier.Machine()
    states = {
        id(entry): str(readiness(entry.declared_requirements, machine)) for entry in entries if not entry.is_broken
    }
    unready = {entry for entry, state in states.items() if state != "ready"}
    if options.all:
        most = _DESCRIPTION_SHOWN if style.is_terminal else sys.maxsize
        rows = []
        for entry in entries:
            why = _why_not(entry, statuses)
            rows.append((entry, entry.selector, _status(entry, states, statuses), f"[{why}] " if why else ""))
        rows += [(entry, entry.source, "hidden", f"[{_way_in(entry)}] ") for entry in hidden]
        cells = [
            (entry.name, _layer(entry), source, status, why + shortened(_one_line(entry), most))
            for entry, source, status, why in rows
        ]
        paint |= {3: style.outcome}
        print(table(style, ("NAME", "LAYER", "SOURCE", "STATUS", "DESCRIPTION"), sorted(cells), paint=paint))
    else:
        scores = policy.scores(entries)
        modes = {id(entry): policy.listing(entry).mode for entry in entries if not entry.is_broken}
        columns = [
            ("NAME", [entry.name for entry in entries]),
            ("LAYER", [_layer(entry) for entry in entries]),
            ("LISTING", [modes.get(id(entry), "") for entry in entries] if {*modes.values()} - {"listed"} else []),
            ("READY", [states.get(id(entry), "") for entry in entries] if unready else []),
            ("SCORE", [str(scores.get(entry, "")) for entry in entries] if scores else []),
            ("DESCRIPTION", [_one_line(entry) for entry in entries]),
        ]
        # A column for what is the same in every row would only take the room of the descriptions.
        told = [(head, cells) for head, cells in columns if cells]
        table_rows = list(zip(*(cells for _, cells in told), strict=True))
        print(table(style, [head for head, _ in told], table_rows, paint=paint, most_lines=3))
    shown = len(entries) + len(hidden)
    counts = (_count_denied([statuses[entry] for entry in denied]), f"{len(off):,} off" if off else "")
    kept = "" if options.all else ". ".join(filter(None, counts))
    parts = [plural(shown, "skill")]
    if not options.text:
        parts += _summary(library, entries, options, len(unready), kept)
    print(style.dim(". ".join(parts) + "."))


def _print_json(
    entries: tuple[Entry, ...], hidden: list[Entry], statuses: dict[Entry, PolicyStatus], policy: PolicyView
) -> None:
    progress = Progress("Reading", len(entries) + len(hidden))
    machine = metier.Machine()
    shapes, scores = [], policy.scores(entries)
    for number, entry in enumerate((*entries, *hidden)):
        is_hidden = number >= len(entries)
        listing, status = policy.listing(entry), statuses.get(entry)
        shapes.append(entry_shape(entry, machine, listing, is_hidden=is_hidden, status=status, score=scores.get(entry)))
        progress.step()
    progress.end()
    print_json(sorted(shapes, key=lambda shape: str(shape["name"])))


def _status(entry: Entry, states: dict[int, str], statuses: dict[Entry, PolicyStatus]) -> str:
    if entry in statuses and entry.status == "active":
        return statuses[entry].status
    if entry.is_stale and entry.status == "active":
        return "stale"
    state = states.get(id(entry), "ready")
    return entry.status if state == "ready" or entry.status != "active" else state


def _layer(entry: Entry) -> str:
    return entry.layer if entry.trusted else f"{entry.layer}, untrusted"


def _why_not(entry: Entry, statuses: dict[Entry, PolicyStatus]) -> str:
    """The reason for which a skill is not simply there; empty where it is."""
    if entry.shadowed_by is not None:
        winner = entry.shadowed_by
        return f"shadowed by {winner.reference} ({winner.layer}), {winner.location}"
    if entry in statuses:
        return statuses[entry].sentence
    return next((note.message for note in entry.diagnostics if entry.is_stale and note.code == "stale"), "")


def _way_in(entry: Entry) -> str:
    """The options with which a command sees a skill that its scope hides."""
    scope = entry.scope
    named = (
        (("--agent", scope.agents), ("--tenant", scope.tenants), ("--environment", scope.environments)) if scope else ()
    )
    if any(allowed is not None and not allowed for _, allowed in named):
        return "its scope admits nobody"
    return f"shown with {' '.join(f'{option} {min(allowed)}' for option, allowed in named if allowed is not None)}"


def _one_line(entry: Entry) -> str:
    if entry.is_broken:
        return next((found.message for found in entry.diagnostics if found.severity == "error"), "mended just now")
    return " ".join(entry.description.split())


def _count_denied(statuses: list[PolicyStatus]) -> str:
    """The numbers of skills that policy denies and that are in quarantine, which is no policy."""
    out_of_use = sum(status.code in ("skill-quarantined", "integrity-failed") for status in statuses)
    counts = ((len(statuses) - out_of_use, "denied by policy"), (out_of_use, "in quarantine"))
    return ", ".join(f"{count:,} {what}" for count, what in counts if count)


def _summary(
    library: Library, entries: tuple[Entry, ...], options: Namespace, unready: int, denied: str
) -> Iterator[str]:
    if unready:
        yield f"{unready:,} cannot work here; `metier show NAME` says what is missing"
    stale = [entry.reference for entry in entries if entry.is_stale]
    if stale:
        yield f"{len(stale):,} being edited, the last good version stays; `metier show {stale[0]}` says why"
    scoped = len(out_of_scope(library))
    if scoped:
        yield f"{scoped:,} hidden by scope; `--agent NAME` shows what an agent sees"
    if not options.all:
        others = library.entries(all=True)
        broken = sum(entry.is_broken for entry in others)
        shadowed = sum(entry.shadowed_by is not None for entry in others)
        if broken:
            yield f"{broken:,} cannot be loaded"
        if shadowed:
            yield f"{shadowed:,} hidden by another of the same name"
        if denied:
            yield denied
        if broken or shadowed or denied:
            yield "`metier list --all` shows them"
    if any(not entry.trusted for entry in entries):
        yield "`metier trust` trusts this project's"
