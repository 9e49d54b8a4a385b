"""The rules of policy files: when something is true of an action, it is denied, asked about or allowed.

They are read by `metier.guard.policy.rule_parser`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from metier.skill.patterns import ends_of, glob_matches, may_name, names_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier.guard.decision import Action, Actor, Outcome, Subject
    from metier.guard.policy.file import Origin


POINTS = (
    *("discover", "activate", "read-resource", "tool-call", "script-run", "hook-run", "inject", "install", "update"),
    *("publish", "propose", "apply", "deploy"),
)
"""The points of decision, as policy files call them."""
ALIASES: Mapping[str, str] = {
    "load": "activate",
    "read": "read-resource",
    "call": "tool-call",
    "run": "script-run",
    "hook": "hook-run",
}
"""What policy files call the points of decision that have another name in a program; they may use either."""
RULE_LAYERS = ("enterprise", "personal", "project", "plugin")
TRIGGERS = ("model", "user", "nested", "host")
CAPABILITY_NAMES = (
    *("scripts", "network-tools", "file-write", "shell-instructions", "external-downloads", "hooks", "inline-exec"),
    *("opaque-files",),
)
"""What a skill may be found to do."""
EFFECTS = ("allow", "ask", "deny")
GLOBS = ("source", "skill", "agent", "tenant", "environment")
"""What a rule has patterns for, in which `*` stands for anything."""


class RuleContext(Protocol):
    """What rules look at: an action, who wants it, and what is known of the skill."""

    @property
    def action(self) -> Action:
        """What somebody wants to do."""

    @property
    def actor(self) -> Actor:
        """Who."""

    @property
    def subject(self) -> Subject | None:
        """The skill that it is about."""

    @property
    def point(self) -> str:
        """What policy files call the point of decision."""

    @property
    def environment(self) -> str:
        """Where it would happen."""

    @property
    def trigger(self) -> str:
        """Who made it happen."""

    @property
    def capabilities(self) -> Any:
        """What the skill can do: `names`. Raises where nobody can tell."""

    @property
    def scanned(self) -> Any:
        """What scanners said: `engines_at(severity)`. Raises where none could look."""

    @property
    def collides_with(self) -> frozenset[str]:
        """The layers that have another skill of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule: what it is about, under which conditions, and what happens then."""

    id: str
    effect: Outcome
    origin: Origin | None = None
    reason: str = ""
    """Why, in the words of whoever wrote it."""
    points: frozenset[str] = frozenset()
    """Empty: all of them."""
    layers: frozenset[str] = frozenset()
    source: str = ""
    skill: str = ""
    agent: str = ""
    tenant: str = ""
    environment: str = ""
    """Patterns, in which `*` stands for anything; empty: whatever it is."""
    scan: str = ""
    """The least severity that a scanner must have found."""
    engines: int = 1
    """How many scanners must have found it."""
    capabilities: frozenset[str] = frozenset()
    """One of them is enough."""
    collides_with: frozenset[str] = frozenset()
    trusted: bool | None = None
    triggers: frozenset[str] = frozenset()

    def is_about(self, facts: RuleContext) -> bool:
        """Whether an action is of the kind that it is about; looks into no files."""
        if self.points and facts.point not in self.points:
            return False
        subject, actor = facts.subject, facts.actor
        if self.layers and (subject is None or subject.layer not in self.layers):
            return False
        if self.trusted is not None and (subject is None or subject.trusted is not self.trusted):
            return False
        if self.triggers and facts.trigger not in self.triggers:
            return False
        if self.skill and (subject is None or not self._names(subject)):
            return False
        if self.source and not self._is_from(facts):
            return False
        for pattern, value in (
            (self.agent, actor.agent),
            (self.tenant, actor.tenant),
            (self.environment, facts.environment),
        ):
            if pattern and not (value and glob_matches(pattern, value)):
                return False
        return True

    def _names(self, subject: Subject) -> bool:
        # What imitates a name is asked about or denied as that is, and never allowed as that is.
        names = names_skill if self.effect == "allow" else may_name
        return names(self.skill, subject.name, subject.source)

    def _is_from(self, facts: RuleContext) -> bool:
        sources = (facts.action.source, facts.subject.source if facts.subject is not None else "")
        pattern = self.source.lower()
        return any(source and glob_matches(pattern, source.lower()) for source in sources)

    def holds(self, facts: RuleContext) -> bool:
        """Whether its conditions are true of an action that it is about; raises where that cannot be told."""
        if self.collides_with and not self.collides_with & facts.collides_with:
            return False
        if self.capabilities and not self.capabilities.intersection(facts.capabilities.names):
            return False
        return not self.scan or facts.scanned.engines_at(self.scan) >= self.engines

    def because(self, facts: RuleContext) -> str:
        """What made it hold, to go on with a sentence; empty when there is no more to say."""
        found = sorted(self.capabilities.intersection(facts.capabilities.names)) if self.capabilities else []
        parts = [f"it has {', '.join(found)}"] if found else []
        if self.scan:
            parts.append(f"a scan found {self.scan} or worse")
        if self.collides_with:
            layers = ", ".join(sorted(self.collides_with))
            parts.append(f"its name is, or looks like, that of a skill in the layer {layers}")
        if self.reason:
            parts.append(self.reason.rstrip("."))
        return f": {'; '.join(parts)}" if parts else ""

    def as_dict(self) -> dict[str, Any]:
        """The rule as JSON has it."""
        when: dict[str, Any] = {}
        if self.scan:
            when["scan"] = f">={self.scan}"
        if self.engines > 1:
            when["engines"] = f">={self.engines}"
        if self.capabilities:
            when["capability"] = sorted(self.capabilities)
        if self.collides_with:
            when["name-collides-with"] = sorted(self.collides_with)
        if self.trusted is not None:
            when["trusted"] = self.trusted
        if self.triggers:
            when["trigger"] = sorted(self.triggers)
        about = {"point": sorted(self.points), "layer": sorted(self.layers)}
        about |= {name: getattr(self, name) for name in GLOBS}
        said = {name: value for name, value in (*about.items(), ("when", when), ("reason", self.reason)) if value}
        return {"id": self.id, **said, "effect": self.effect}


DEFAULT_RULES = (
    PolicyRule(
        id="default: scan of plugins",
        effect="ask",
        points=frozenset({"activate"}),
        layers=frozenset({"plugin"}),
        scan="high",
    ),
    PolicyRule(
        id="default: scan of untrusted skills", effect="ask", points=frozenset({"activate"}), trusted=False, scan="high"
    ),
)
"""What holds until a policy file has a rule about scans."""


_Prepared: TypeAlias = "tuple[PolicyRule, bool, str, str]"
_KEPT = 8_192
"""Kinds of actions whose rules are kept, before all of them are found out anew."""


class RuleIndex:
    """Rules that never change, and those of them that are about one action.

    >>> from metier.guard.policy.rules import PolicyRule
    >>> len(RuleIndex([PolicyRule(id="R1", effect="deny", skill="crypto-*")]))
    1
    """

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._rules = tuple(rules)
        self._kept: dict[tuple[object, ...], tuple[PolicyRule, ...]] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def about(self, facts: RuleContext) -> tuple[PolicyRule, ...]:
        """The rules that are about an action, in their order; whether their conditions hold is not looked at."""
        if not self._rules:
            return ()
        key = self._key(facts)
        found = self._kept.get(key)
        if found is None:
            found = tuple(rule for rule in self._likely(facts) if rule.is_about(facts))
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = found
        return found

    def _key(self, facts: RuleContext) -> tuple[object, ...]:
        """All that `PolicyRule.is_about` looks at, without what no rule asks for: there may be any number of agents."""
        subject, actor = facts.subject, facts.actor
        about = None if subject is None else (subject.name, subject.source, subject.layer, subject.trusted)
        asks = self._asks
        return (
            facts.point,
            about,
            facts.trigger,
            facts.action.source if asks["source"] else "",
            actor.agent if asks["agent"] else "",
            actor.tenant if asks["tenant"] else "",
            facts.environment if asks["environment"] else "",
        )

    @cached_property
    def _asks(self) -> Mapping[str, bool]:
        names = ("source", "agent", "tenant", "environment")
        return {name: any(getattr(rule, name) for rule in self._rules) for name in names}

    def _likely(self, facts: RuleContext) -> Iterator[PolicyRule]:
        """The rules for a point, without most of those that are about other skills."""
        subject = facts.subject
        name = "" if subject is None else subject.name.casefold()
        is_plain = name.isascii()  # others may be taken for a name that looks like theirs
        whole = name if subject is None else f"{name}@{subject.source.casefold()}"
        # Under no name are those that are for all points.
        for rule, takes_source, first, last in self._by_point.get(facts.point) or self._by_point.get("", ()):
            text = whole if takes_source else name
            if not is_plain or (text.startswith(first) and text.endswith(last)):
                yield rule

    @cached_property
    def _by_point(self) -> Mapping[str, tuple[_Prepared, ...]]:
        named = {point for rule in self._rules for point in rule.points}
        found: dict[str, list[_Prepared]] = defaultdict(list)
        for rule in self._rules:
            first, last = ends_of(rule.skill)
            for point in rule.points or (*named, ""):
                found[point].append((rule, "@" in rule.skill, first, last))
        return {point: tuple(rules) for point, rules in found.items()}
