"""Policy on each skill of a library: denied, off, left to people, shown by its name alone, or pinned."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from metier.cli.output import Style
from metier.errors import MetierError
from metier.find.visibility import listing_rule
from metier.guard import Actor, Guard, Subject
from metier.guard.governance import Governance
from metier.guard.policy.allowed_tools import enforcement_of
from metier.skill import Diagnostic
from metier.skill.tool_rules import unknown_tools

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier import Library
    from metier.guard.policy.allowed_tools import Enforcement
    from metier.guard.policy.file import PolicyProblem
    from metier.library import Entry, Place
    from metier.skill import Skill
    from metier.skill.listing import ListingRule


_MOST_SAID = 10
_REASONS = {"name-only": "Policy lists its name alone.", "pinned": "Policy keeps it in the catalog."}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """What policy says to a skill."""

    status: Literal["denied", "off", "manual", "name-only", "pinned"]
    reason: str
    rule: str = ""
    """What decided, with the file, the line and the layer of a policy that says so."""
    code: str = ""

    @property
    def is_kept_from_models(self) -> bool:
        """Whether models are not told of the skill."""
        return self.status in ("denied", "off", "manual")

    @property
    def sentence(self) -> str:
        """All of it, for people."""
        return f"{self.reason} ({self.rule})" if self.rule else self.reason

    def as_json(self) -> dict[str, Any]:
        """It as `--json` prints it."""
        return {"status": self.status, "reason": self.reason, "rule": self.rule, "code": self.code}


class PolicyView:
    """What policy files and quarantines say to the skills of a library, for whoever it is seen by."""

    def __init__(self, library: Library) -> None:
        self._library = library
        caller = library.caller
        actor = Actor(agent=caller.agent, tenant=caller.tenant, environment=caller.environment)
        self.governance = Governance.default()
        has_reserved = library.snapshot.view(caller).has_reserved
        guard = Guard(governance=self.governance)
        self._barred = guard.barred_skills(actor, by="model", has_reserved=has_reserved)
        self._listings = self.governance.listings

    def enforcement_of(self, place: Place, folder: str = "") -> Enforcement:
        """Whether the `allowed-tools` of the skills of a place, or of the one in a folder of it, restrict calls."""
        return enforcement_of(place, self.governance.effective, {}, folder)

    def of(self, entry: Entry) -> PolicyStatus | None:
        """What policy says to a skill; None where it says nothing."""
        if self._barred is not None and not entry.is_broken:
            try:
                digest = self._library.digest(entry) if self._barred.looks_inside else ""
            except MetierError as error:
                # What cannot be read might be what is barred, so nobody is shown it.
                return PolicyStatus(status="denied", reason=error.message, code=error.code)
            subject = Subject(
                name=entry.name,
                digest=digest,
                layer=entry.layer,
                source=entry.source,
                trusted=entry.trusted,
                entry=entry,
            )
            # What is denied to everybody counts before what a listing mode keeps from models.
            found = sorted(self._barred.against(subject), key=lambda decision: decision.check == "skills.listing")
            for verdict in found[:1]:
                is_off = verdict.check == "skills.listing" and verdict.code != "not-for-models"
                status: Literal["denied", "off", "manual"] = "off" if is_off else "denied"
                if verdict.code == "not-for-models":
                    status = "manual"
                return PolicyStatus(status=status, reason=verdict.reason, rule=verdict.rule, code=verdict.code)
        rule = self._listings.rule_for(entry.name, entry.source)
        if rule is not None and (rule.mode == "name-only" or rule.mode == "pinned"):
            return PolicyStatus(status=rule.mode, reason=_REASONS[rule.mode], rule=f"skills.listing ({rule.origin})")
        return None

    def listing(self, entry: Entry) -> ListingRule:
        """The listing mode of a skill, and what sets it."""
        return listing_rule(entry, self._listings)

    def among(self, entries: Iterable[Entry]) -> dict[Entry, PolicyStatus]:
        """What policy says to each of some skills that it says something to."""
        if self._barred is None and not self._listings:
            return {}
        words = ((entry, self.of(entry)) for entry in entries)
        return {entry: word for entry, word in words if word is not None}

    def names(self) -> frozenset[str] | None:
        """The only names that models may know of; None where policy says nothing against any."""
        if self._barred is None:
            return None
        kept = {entry.name for entry, word in self.among(self._library).items() if word.is_kept_from_models}
        return frozenset(entry.name for entry in self._library if entry.name not in kept)


def warn_of_denied(words: dict[Entry, PolicyStatus], errors: Iterable[PolicyProblem] = ()) -> None:
    """Say on standard error which skills are denied, and by whom, and which policy files cannot be used."""
    style = Style(sys.stderr)
    for problem in errors:
        said = Style.text(f"A policy file cannot be used. {problem}", 1_000)
        print(f"{style.warn('warning')}: {said}", file=sys.stderr)
    denied = [(entry, word) for entry, word in words.items() if word.status == "denied"]
    for entry, word in denied[:_MOST_SAID]:
        said = Style.text(f"{entry.name} ({entry.layer}) is denied: {word.sentence}", 1_000)
        print(f"{style.warn('warning')}: {said}", file=sys.stderr)
    if len(denied) > _MOST_SAID:
        print(f"and {len(denied) - _MOST_SAID:,} more; `metier list --all` shows them", file=sys.stderr)


def unknown_tool_warnings(skill: Skill) -> list[Diagnostic]:
    """A warning where `allowed-tools` names a tool that no agent is known to have."""
    unknown = unknown_tools(skill.allowed_tools)
    return [Diagnostic("tools-unknown", None, (", ".join(unknown),))] if unknown else []


def out_of_scope(library: Library) -> list[Entry]:
    """List the skills that are not there for the caller; the user of this command may know of them."""
    return [entry for entry in library.snapshot.entries if not entry.is_visible_to(library.caller)]
