"""Warnings about the skills of a library, written to the log as they are indexed, once for each content."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier.library.places import Caller
from metier.skill import Diagnostic, shown
from metier.source import SourceDiagnostic

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from metier.library.entry import Entry
    from metier.library.snapshot import Snapshot

log = logger("metier.library")

MANY_SKILLS = 50
"""Skills above which no model is shown all of them well: about so many shortened descriptions are in a catalog of the
default size, and in one hundredth of a window of 200,000 tokens."""
_MOST = 2_000
"""Skills whose files are interpreted for the log at once: a program must not wait for more at its start."""
_REMEMBERED = 20_000
_LEVELS = {"error": logging.WARNING, "warning": logging.WARNING, "info": logging.DEBUG}


def many_skills(entries: Iterable[Entry]) -> list[SourceDiagnostic]:
    """A warning for each place, or else for all together, that has more skills for models than they cope with."""
    counts = Counter(entry.place.source.location("") for entry in entries)
    large = {where: count for where, count in counts.items() if count > MANY_SKILLS}
    if not large and counts.total() > MANY_SKILLS:
        large = {"the library": counts.total()}
    return [
        SourceDiagnostic(where, Diagnostic("many-skills", None, (f"{count:,}", str(MANY_SKILLS))))
        for where, count in large.items()
    ]


class IndexLog:
    """The log of one library."""

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._written: set[Hashable] = set()

    def write(self, snapshot: Snapshot, findings: Iterable[SourceDiagnostic]) -> None:
        """Log the diagnostics of skills and places that were not logged as they are now."""
        view = snapshot.view(Caller())
        for finding in (*findings, *(one for rows in snapshot.rows for one in rows.findings)):
            self._once(finding.diagnostic, finding.where, finding.diagnostic)
        for finding in many_skills(view.active.values()):
            self._once(finding.diagnostic.code, finding.where, finding.diagnostic)
        entries = {_state(entry): entry for entry in view.all()}
        unseen = [entry for state, entry in entries.items() if state not in self._seen]
        self._seen = set(entries)
        for entry in unseen[:_MOST]:
            for diagnostic in entry.diagnostics:
                # A file that was only touched says nothing new.
                self._once(diagnostic, f"{entry.name} ({entry.location})", diagnostic)
        if len(unseen) > _MOST:
            log.warning("%d more skills were not looked at; `metier doctor` does", len(unseen) - _MOST)

    def _once(self, key: Hashable, where: str, diagnostic: Diagnostic) -> None:
        if (where, key) in self._written:
            return
        if len(self._written) >= _REMEMBERED:
            self._written.clear()
        self._written.add((where, key))
        _write(where, diagnostic)


def _state(entry: Entry) -> Hashable:
    winner = entry.shadowed_by
    return (id(entry.place), entry.key, tuple(entry.identity), None if winner is None else winner.location)


def _write(where: str, diagnostic: Diagnostic) -> None:
    # The words are those of strangers: nothing in them may begin a line of its own.
    log.log(
        _LEVELS[diagnostic.severity],
        "%s: %s [%s] %s",
        shown(where, 500),
        shown(diagnostic.message, 1_000),
        diagnostic.code,
        shown(diagnostic.hint, 500),
    )
