"""The rules of policy files: which actions they match, and the index that finds them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from metier._cache import BoundedCache
from metier._lazy import dataclass
from metier.skill.names import ends_of, glob_matches, may_name, names_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier.guard.decision import Action, Actor, Origin, Outcome, Subject


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
"""The names in policy files of decision points that have another name in a program; files may use either."""
RULE_LAYERS = ("enterprise", "personal", "project", "plugin")
TRIGGERS = ("model", "user", "nested", "host")
CAPABILITY_NAMES = (
    *("scripts", "network-tools", "file-write", "shell-instructions", "external-downloads", "hooks", "inline-exec"),
    *("opaque-files", "packages"),
)
"""The capabilities of skills."""
EFFECTS: tuple[Outcome, ...] = ("allow", "ask", "deny")
GLOBS = ("source", "skill", "agent", "tenant", "environment")
"""The fields of a rule that are patterns, in which `*` stands for anything."""


class RuleContext(Protocol):
    """The context that rules look at, as `DecisionContext` has it. `capabilities` and `scanned` raise when unknown."""

    @property
    def action(self) -> Action: ...
    @property
    def actor(self) -> Actor: ...
    @property
    def subject(self) -> Subject | None: ...
    @property
    def point(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def capabilities(self) -> Any: ...
    @property
    def scanned(self) -> Any: ...
    @property
    def collides_with(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """One rule: the actions that it selects, its conditions, and its effect."""

    id: str
    effect: Outcome
    origin: Origin | None = None
    reason: str = ""
    """The reason, in the words of its author."""
    points: frozenset[str] = frozenset()
    """Empty: all of them."""
    layers: frozenset[str] = frozenset()
    source: str = ""
    skill: str = ""
    agent: str = ""
    tenant: str = ""
    environment: str = ""
    """Patterns, in which `*` stands for anything; empty: any."""
    scan: str = ""
    """The least severity that a scanner must have found."""
    engines: int = 1
    """The number of scanners that must have found it."""
    capabilities: frozenset[str] = frozenset()
    """One of them is enough."""
    collides_with: frozenset[str] = frozenset()
    trusted: bool | None = None
    triggers: frozenset[str] = frozenset()

    def is_about(self, context: RuleContext) -> bool:
        """Whether the rule selects an action; looks into no files."""
        if self.points and context.point not in self.points:
            return False
        subject, actor = context.subject, context.actor
        if self.layers and (subject is None or subject.layer not in self.layers):
            return False
        if self.trusted is not None and (subject is None or subject.trusted is not self.trusted):
            return False
        if self.triggers and context.trigger not in self.triggers:
            return False
        if self.skill and (subject is None or not self._names(subject)):
            return False
        if self.source and not self._is_from(context):
            return False
        for pattern, value in (
            (self.agent, actor.agent),
            (self.tenant, actor.tenant),
            (self.environment, context.environment),
        ):
            if pattern and not (value and glob_matches(pattern, value)):
                return False
        return True

    def _names(self, subject: Subject) -> bool:
        # A name that imitates another is asked about or denied like it, and never allowed like it.
        names = names_skill if self.effect == "allow" else may_name
        return names(self.skill, subject.name, subject.source)

    def _is_from(self, context: RuleContext) -> bool:
        sources = (context.action.source, context.subject.source if context.subject is not None else "")
        pattern = self.source.lower()
        return any(source and glob_matches(pattern, source.lower()) for source in sources)

    def holds(self, context: RuleContext) -> bool:
        """Whether its conditions hold for an action that it selects; raises where that is unknown."""
        if self.collides_with and not self.collides_with & context.collides_with:
            return False
        if self.capabilities and not self.capabilities.intersection(context.capabilities.names):
            return False
        return not self.scan or context.scanned.engines_at(self.scan) >= self.engines

    def because(self, context: RuleContext) -> str:
        """The conditions that hold, as the end of a sentence; empty where there is none."""
        found = sorted(self.capabilities.intersection(context.capabilities.names)) if self.capabilities else []
        parts = [f"it has {', '.join(found)}"] if found else []
        if self.scan:
            parts.append(context.scanned.because(self.scan))
        if self.collides_with:
            layers = ", ".join(sorted(self.collides_with))
            parts.append(f"its name is, or looks like, that of a skill in the layer {layers}")
        if self.reason:
            parts.append(self.reason.rstrip("."))
        return f": {'; '.join(parts)}" if parts else ""

    def as_dict(self) -> dict[str, Any]:
        """The rule as JSON has it."""
        when = {
            "scan": self.scan and f">={self.scan}",
            "engines": f">={self.engines}" if self.engines > 1 else "",
            "capability": sorted(self.capabilities),
            "name-collides-with": sorted(self.collides_with),
            "trusted": self.trusted,
            "trigger": sorted(self.triggers),
        }
        about = {
            "point": sorted(self.points),
            "layer": sorted(self.layers),
            **{name: getattr(self, name) for name in GLOBS},
            "when": {name: value for name, value in when.items() if value not in ("", [], None)},
            "reason": self.reason,
        }
        return {"id": self.id, **{name: value for name, value in about.items() if value}, "effect": self.effect}


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
"""The rules that hold until a policy file has a rule about scans."""


_Prepared: TypeAlias = "tuple[PolicyRule, bool, str, str]"
_MAX_CACHED = 8_192
"""The size at which the cache is cleared."""


class RuleIndex:
    """Rules, indexed by the actions that they select; the rules for one kind of action are found once.

    >>> from metier.guard.policy.rules import PolicyRule
    >>> len(RuleIndex([PolicyRule(id="R1", effect="deny", skill="crypto-*")]))
    1
    """

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._rules = tuple(rules)
        self._cache: BoundedCache[tuple[object, ...], tuple[PolicyRule, ...]] = BoundedCache(_MAX_CACHED)

    def __len__(self) -> int:
        return len(self._rules)

    def about(self, context: RuleContext) -> tuple[PolicyRule, ...]:
        """The rules that select an action, in their order; their conditions are not looked at."""
        if not self._rules:
            return ()
        key = self._key(context)
        found = self._cache.get(key)
        if found is None:
            found = tuple(rule for rule in self._likely(context) if rule.is_about(context))
            self._cache[key] = found
        return found

    def _key(self, context: RuleContext) -> tuple[object, ...]:
        """The cache key: all that `PolicyRule.is_about` looks at, without fields that no rule uses."""
        subject, actor = context.subject, context.actor
        about = None if subject is None else (subject.name, subject.source, subject.layer, subject.trusted)
        asks = self._asks
        return (
            context.point,
            about,
            context.trigger,
            context.action.source if asks["source"] else "",
            actor.agent if asks["agent"] else "",
            actor.tenant if asks["tenant"] else "",
            context.environment if asks["environment"] else "",
        )

    @cached_property
    def _asks(self) -> Mapping[str, bool]:
        names = ("source", "agent", "tenant", "environment")
        return {name: any(getattr(rule, name) for rule in self._rules) for name in names}

    def _likely(self, context: RuleContext) -> Iterator[PolicyRule]:
        """The rules for a point, without most of those that name other skills."""
        subject = context.subject
        name = "" if subject is None else subject.name.casefold()
        is_plain = name.isascii()  # another name may look like one in a rule
        whole = name if subject is None else f"{name}@{subject.source.casefold()}"
        # The rules for all points stand under "".
        for rule, takes_source, first, last in self._by_point.get(context.point) or self._by_point.get("", ()):
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
