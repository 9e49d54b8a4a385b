"""What policy says to each skill of a library: whether it is denied, only for people, or shown by its name alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from metier.cli.output import Style
from metier.errors import MetierError
from metier.guard import Actor, Subject
from metier.guard.governance import Governance
from metier.guard.policy.enforcement import enforcement_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier import Library
    from metier.guard.policy.enforcement import Enforcement
    from metier.library import Entry, Place

_MOST_SAID = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What policy says to a skill."""

    status: Literal["denied", "user-only", "name-only"]
    reason: str
    rule: str = ""
    """What decided, with the file, the line and the layer of a policy that says so."""
    code: str = ""

    @property
    def sentence(self) -> str:
        """All of it, for people."""
        return f"{self.reason} ({self.rule})" if self.rule else self.reason

    def as_json(self) -> dict[str, Any]:
        """It as `--json` prints it."""
        return {"status": self.status, "reason": self.reason, "rule": self.rule, "code": self.code}


class Barred:
    """What policy files and quarantines say to the skills of a library, for whoever it is seen by."""

    def __init__(self, library: Library) -> None:
        self._library = library
        caller = library.caller
        actor = Actor(agent=caller.agent, tenant=caller.tenant, environment=caller.environment)
        self.governance = Governance.default()
        has_reserved = library.snapshot.view(caller).has_reserved
        self._barring = self.governance.barring(actor, by="model", has_reserved=has_reserved)
        self._naming_only = self.governance.naming_only()

    def enforcement_of(self, place: Place, folder: str = "") -> Enforcement:
        """Whether the `allowed-tools` of the skills of a place, or of the one in a folder of it, restrict calls."""
        return enforcement_of(place, self.governance.effective, {}, folder)

    def of(self, entry: Entry) -> Word | None:
        """What policy says to a skill; None where it says nothing."""
        if self._barring is not None and not entry.is_broken:
            try:
                digest = self._library.digest(entry) if self._barring.looks_inside else ""
            except MetierError as error:
                # What cannot be read might be what is barred, so nobody is shown it.
                return Word(status="denied", reason=error.message, code=error.code)
            subject = Subject(
                name=entry.name,
                digest=digest,
                layer=entry.layer,
                source=entry.source,
                trusted=entry.trusted,
                entry=entry,
            )
            found = list(self._barring.against(subject))
            # What is denied to everybody counts before what is only kept from models.
            found.sort(key=lambda verdict: verdict.code == "not-for-models")
            for verdict in found[:1]:
                status: Literal["denied", "user-only"] = "user-only" if verdict.code == "not-for-models" else "denied"
                return Word(status=status, reason=verdict.reason, rule=verdict.rule, code=verdict.code)
        if self._naming_only is not None and self._naming_only(entry.name, entry.source):
            origin = self.governance.effective.visibility_of(entry.name, entry.source)[1]
            rule = "skills.visibility" if origin is None else f"skills.visibility ({origin})"
            return Word(status="name-only", reason="Policy shows models its name alone.", rule=rule)
        return None

    def among(self, entries: Iterable[Entry]) -> dict[Entry, Word]:
        """What policy says to each of some skills that it says something to."""
        if self._barring is None and self._naming_only is None:
            return {}
        words = ((entry, self.of(entry)) for entry in entries)
        return {entry: word for entry, word in words if word is not None}

    def names(self) -> frozenset[str] | None:
        """The only names that models may know of; None where policy says nothing against any."""
        if self._barring is None:
            return None
        kept = {entry.name for entry, word in self.among(self._library).items() if word.status != "name-only"}
        return frozenset(entry.name for entry in self._library if entry.name not in kept)


def warn(words: dict[Entry, Word]) -> None:
    """Say on standard error which skills are denied, and by whom."""
    style = Style(sys.stderr)
    denied = [(entry, word) for entry, word in words.items() if word.status == "denied"]
    for entry, word in denied[:_MOST_SAID]:
        said = Style.text(f"{entry.name} ({entry.layer}) is denied: {word.sentence}", 1_000)
        print(f"{style.warn('warning')}: {said}", file=sys.stderr)
    if len(denied) > _MOST_SAID:
        print(f"and {len(denied) - _MOST_SAID:,} more; `metier list --all` shows them", file=sys.stderr)
