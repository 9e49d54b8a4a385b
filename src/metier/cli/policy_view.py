"""The policy status of each skill of a library: denied, off, left to people, listed by name alone, or pinned."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Literal

import metier
import metier.guard
from metier._lazy import dataclass
from metier.cli.output import Style
from metier.errors import MetierError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier import Library
    from metier.guard.decision import Enforcement
    from metier.guard.policy.file import PolicyProblem
    from metier.library import Entry, Place
    from metier.skill import Diagnostic, Skill
    from metier.skill.listing import ListingRule


_MOST_SAID = 10
_REASONS = {"name-only": "Policy lists its name alone.", "pinned": "Policy keeps it in the catalog."}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatus:
    """The status that policy gives a skill."""

    status: Literal["denied", "off", "manual", "name-only", "pinned"]
    reason: str
    rule: str = ""
    """The rule that decided, with the file, the line and the layer of its policy."""
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
    """Policy files and quarantines applied to the skills of a library, for its caller."""

    def __init__(self, library: Library) -> None:
        from metier.guard.governance import Governance

        self._library = library
        caller = library.caller
        actor = metier.guard.Actor(agent=caller.agent, tenant=caller.tenant, environment=caller.environment)
        self.governance = Governance.default()
        self._actor = actor
        has_reserved = library.snapshot.view(caller).has_reserved
        guard = metier.Guard(governance=self.governance)
        self._excluded_skills = guard.excluded_skills(actor, by="model", has_reserved=has_reserved)
        self._listings = self.governance.listings

    def enforcement_of(self, place: Place, folder: str = "") -> Enforcement:
        """Tell whether the `allowed-tools` of a place, or of the skill in a folder of it, restrict calls."""
        from metier.guard.policy.program import enforcement_of

        return enforcement_of(place, self.governance.effective, {}, folder)

    def of(self, entry: Entry) -> PolicyStatus | None:
        """Return the policy status of a skill; None where policy says nothing."""
        if self._excluded_skills is not None and not entry.is_broken:
            try:
                digest = self._library.digest(entry) if self._excluded_skills.looks_inside else ""
            except MetierError as error:
                # A skill that cannot be read might be barred, so nobody is shown it.
                return PolicyStatus(status="denied", reason=error.message, code=error.code)
            subject = metier.guard.Subject(
                name=entry.name,
                digest=digest,
                layer=entry.layer,
                source=entry.source,
                trusted=entry.trusted,
                entry=entry,
            )
            # A denial for everybody counts before a listing mode, which keeps a skill from models alone.
            found = sorted(self._excluded_skills.against(subject), key=lambda one: one.check == "skills.listing")
            if found:
                denial = found[0]
                is_listing = denial.check == "skills.listing"
                is_manual = denial.code == "not-for-models"
                status: Literal["denied", "off", "manual"] = (
                    "manual" if is_manual else "off" if is_listing else "denied"
                )
                return PolicyStatus(status=status, reason=denial.reason, rule=denial.rule, code=denial.code)
        rule = self._listings.rule_for(entry.name, entry.source)
        if rule is not None and (rule.mode == "name-only" or rule.mode == "pinned"):
            return PolicyStatus(status=rule.mode, reason=_REASONS[rule.mode], rule=f"skills.listing ({rule.origin})")
        return None

    def listing(self, entry: Entry) -> ListingRule:
        """Return the listing mode of a skill, with its origin."""
        from metier.find.visibility import listing_rule

        return listing_rule(entry, self._listings)

    def scores(self, entries: Iterable[Entry]) -> dict[Entry, int]:
        """Collect the recorded score of each skill that has one for exactly its content now; nothing is computed."""
        tested = self.governance.recorded_tests(self._actor)
        names = {facts["skill"] for facts in tested.values() if "score" in facts}
        found = {}
        for entry in entries:
            if entry.name not in names or entry.is_broken:
                continue
            with contextlib.suppress(MetierError):
                score = tested.get(self._library.digest(entry), {}).get("score", "")
                if score.isdecimal():
                    found[entry] = int(score)
        return found

    def among(self, entries: Iterable[Entry]) -> dict[Entry, PolicyStatus]:
        """Collect the policy status of each skill that has one."""
        if self._excluded_skills is None and not self._listings:
            return {}
        statuses = ((entry, self.of(entry)) for entry in entries)
        return {entry: status for entry, status in statuses if status is not None}

    def names(self) -> frozenset[str] | None:
        """Return the only names that models may know of; None where policy says nothing against any."""
        if self._excluded_skills is None:
            return None
        kept = {entry.name for entry, status in self.among(self._library).items() if status.is_kept_from_models}
        return frozenset(entry.name for entry in self._library if entry.name not in kept)


def warn_of_denied(statuses: dict[Entry, PolicyStatus], errors: Iterable[PolicyProblem] = ()) -> None:
    """Print on standard error which skills are denied by which rule, and which policy files cannot be used."""
    style = Style(sys.stderr)
    for problem in errors:
        said = Style.text(f"A policy file cannot be used. {problem}", 1_000)
        print(f"{style.warn('warning')}: {said}", file=sys.stderr)
    denied = [(entry, status) for entry, status in statuses.items() if status.status == "denied"]
    for entry, status in denied[:_MOST_SAID]:
        said = Style.text(f"{entry.name} ({entry.layer}) is denied: {status.sentence}", 1_000)
        print(f"{style.warn('warning')}: {said}", file=sys.stderr)
    if len(denied) > _MOST_SAID:
        print(f"and {len(denied) - _MOST_SAID:,} more; `metier list --all` shows them", file=sys.stderr)


def unknown_tool_warnings(skill: Skill) -> list[Diagnostic]:
    """Warn where `allowed-tools` names a tool that no agent is known to have."""
    from metier.skill.tool_rules import unknown_tools

    unknown = unknown_tools(skill.allowed_tools)
    return [metier.Diagnostic("tools-unknown", None, (", ".join(unknown),))] if unknown else []


def out_of_scope(library: Library) -> list[Entry]:
    """List the skills that are not there for the caller; the user of this command may know of them."""
    return [entry for entry in library.snapshot.entries if not entry.is_visible_to(library.caller)]
