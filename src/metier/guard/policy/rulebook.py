"""All rules of the policy files together: which of them are about an action is found out once for each kind of it."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from metier.skill.patterns import ends_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier.guard.policy.rules import Facts, PolicyRule

    _Prepared: TypeAlias = tuple[PolicyRule, bool, str, str]

_KEPT = 8_192
"""Kinds of actions whose rules are kept, before all of them are found out anew."""


class RuleBook:
    """Rules that never change, and those of them that are about one action.

    >>> from metier.guard.policy.rules import PolicyRule
    >>> len(RuleBook([PolicyRule(id="R1", effect="deny", skill="crypto-*")]))
    1
    """

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._rules = tuple(rules)
        self._kept: dict[tuple[object, ...], tuple[PolicyRule, ...]] = {}

    def __len__(self) -> int:
        return len(self._rules)

    def about(self, facts: Facts) -> tuple[PolicyRule, ...]:
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

    def _key(self, facts: Facts) -> tuple[object, ...]:
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

    def _likely(self, facts: Facts) -> Iterator[PolicyRule]:
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
