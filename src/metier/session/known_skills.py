"""The skills that a session and its model may know of: found by name, listed, hidden."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Literal

from metier._lazy import replace
from metier._suggest import suggestions
from metier.errors import MetierError, SkillNotFound
from metier.find.visibility import Visibility
from metier.guard import Action, Subject
from metier.hints import find_skill
from metier.library import Machine
from metier.session.active_skills import is_same, subject_of
from metier.skill import shown
from metier.skill.listing import Listings
from metier.skill.names import is_taken_for
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from metier.library import Entry
    from metier.session.context import By, SessionContext

_SUGGESTED_AMONG = 2_000


class KnownSkills:
    """The part of the library that one session may know of, and how each skill is listed for its model."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self.names = context.options.names
        """The only names that the session may know of; None is all."""
        self._own_listings = Listings.of(context.options.listing, "the session")
        self._tools: frozenset[str] | None = None
        self.tools_version = 0
        """A number that changes with the tools of the agent."""

    @property
    def listings(self) -> Listings:
        """The listing modes of policy files and of this session."""
        return self._context.guard.governance.listings + self._own_listings

    @property
    def machine(self) -> Machine:
        """The programs, variables and tools that its skills find here; no tool is missed before `set_tools`."""
        return Machine(tools=self._tools, tool_name=canonical_tool)

    def set_tools(self, names: Iterable[str] | None) -> None:
        """Name all tools of the agent: skills that require another one are not shown. None: they are unknown."""
        tools = None if names is None else frozenset(names)
        if tools != self._tools:
            self._tools = tools
            self.tools_version += 1

    def find(self, name: str, *, by: By = "host") -> Entry:
        """Return the skill of a name, if this session may know of it; raises `SkillNotFound`.

        For a model, a skill that is turned off does not exist.
        """
        index = self._context.index
        index.latest()
        try:
            entry = index.get(name)
        except SkillNotFound as error:
            # The library would name skills that this session must not know of.
            raise self._not_found(name) from error
        if self.names is not None and entry.name not in self.names:
            raise self._not_found(name)
        listings = self.listings if by == "model" else self._own_listings
        if listings and listings.mode(entry.name, entry.source) == "off":
            raise self._not_found(name)
        return entry

    def handle(self, entry: Entry) -> str:
        """Return the name by which the library finds exactly this skill: `name`, or `name@folder` where shadowed."""
        with contextlib.suppress(MetierError):
            if is_same(self._context.index.get(entry.name), entry):
                return entry.name
        return f"{entry.name}@{os.path.dirname(entry.location)}"

    def description(self, entry: Entry) -> str:
        """Return the description of a skill in a list for models; empty where only its name is listed."""
        listings = self.listings
        return "" if listings and listings.mode(entry.name, entry.source) == "name-only" else entry.description

    def is_hidden(self, entry: Entry) -> bool:
        """Whether models must not be told of a skill."""
        is_hidden = self.hidden_predicate()
        return is_hidden is not None and is_hidden(entry)

    def hidden_predicate(self, *, by: Literal["model", "host"] = "model") -> Callable[[Entry], bool] | None:
        """Return a predicate of the skills that models must not be told of; None where no skill is hidden.

        With `by="host"`, of those that people must not be told of either.
        """
        context, index = self._context, self._context.index
        has_reserved = index.snapshot.view(index.caller).has_reserved
        barred = context.guard.excluded_skills(context.actor, by=by, has_reserved=has_reserved)
        own, modes = self._own_listings, ("manual", "off") if by == "model" else ("off",)
        if barred is None and not own:
            return None

        def is_hidden(entry: Entry) -> bool:
            if own and own.mode(entry.name, entry.source) in modes:
                return True
            try:
                digest = index.digest(entry) if barred is not None and barred.looks_inside else ""
            except MetierError:
                return True  # what cannot be read might be what is barred
            # No more of the skill than that has to be read: there may be thousands.
            subject = Subject(name=entry.name, digest=digest, layer=entry.layer, source=entry.source, entry=entry)
            return barred is not None and barred(subject if entry.trusted else replace(subject, trusted=False))

        return is_hidden

    def listed(self) -> list[Entry]:
        """Return the skills that a model may be told of."""
        is_listed, is_hidden = Visibility(self.machine, self.names, self.listings), self.hidden_predicate()
        found = filter(is_listed, self._context.index.entries())
        return [entry for entry in found if is_hidden is None or not is_hidden(entry)]

    def load_action(self, entry: Entry, digest: str, by: By, *, nested: bool = False) -> Action:
        """Return a load as the guard decides about it: the content that is then read must have this digest."""
        subject = subject_of(entry, digest)
        if self._own_listings and self._own_listings.mode(entry.name, entry.source) == "manual":
            subject = replace(subject, for_models=False)
        return Action(point="load", skill=subject, by=by, nested=nested, rivals=self._rivals(entry))

    def _rivals(self, entry: Entry) -> frozenset[str]:
        """The layers with another skill of the same name, or one that looks like it, where policy asks for them."""
        if not self._context.guard.governance.looks_at_rivals:
            return frozenset()
        entries = self._context.index.snapshot.entries
        return frozenset(one.layer for one in entries if is_taken_for(entry.name, one.name) and not is_same(one, entry))

    def _not_found(self, name: object) -> SkillNotFound:
        index = self._context.index
        wanted = str(name).partition("@")[0].lower()[:80]
        known = [one for one in index.snapshot.view(index.caller).active if self._may_be_named(one)]
        if len(known) > _SUGGESTED_AMONG:
            known = [one for one in known if one[:2] == wanted[:2]][:_SUGGESTED_AMONG]
        close = suggestions(wanted, known, 3)
        meant = next((one for one in close if not index.get(one).is_hidden_from_models), None)
        hint = find_skill() if self.names is None else f"This agent has {', '.join(sorted(self.names)) or 'none'}."
        guess = f" Did you mean {meant!r}?" if meant else ""
        return SkillNotFound(
            f"Skill {shown(str(name))!r} was not found.{guess}", hint=hint, name=name, suggestion=meant
        )

    def _may_be_named(self, name: str) -> bool:
        return (self.names is None or name in self.names) and not self.is_hidden(self._context.index.get(name))
