"""Reading the rules of a policy file.

A condition that cannot be read is left out of a rule that denies or asks, so that the rule is about more; a rule that
allows is dropped for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier.guard.policy.rules import (
    ALIASES,
    CAPABILITY_NAMES,
    EFFECTS,
    GLOBS,
    POINTS,
    RULE_LAYERS,
    TRIGGERS,
    PolicyRule,
)
from metier.guard.policy.value_types import Kind
from metier.scan.finding import SEVERITIES
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.decision import Outcome
    from metier.guard.policy.reader import At
    from metier.guard.policy.yaml_tree import Node

_ABOUT = {"point": "points", "layer": "layers", **{name: name for name in ("id", *GLOBS, "reason")}}
"""What a rule is about, and the part of a `PolicyRule` that has it."""
_WHEN = {
    "scan": "scan",
    "engines": "engines",
    "capability": "capabilities",
    "name-collides-with": "collides_with",
    "trusted": "trusted",
    "trigger": "triggers",
}
"""The conditions of a rule, and the parts of a `PolicyRule` that have them."""
_NAMES = {
    "point": (*POINTS, *ALIASES),
    "layer": RULE_LAYERS,
    "capability": CAPABILITY_NAMES,
    "name-collides-with": RULE_LAYERS,
    "trigger": TRIGGERS,
}
_ENGINES = tuple(str(number) for number in range(1, 17))


class Rules(Kind["tuple[PolicyRule, ...]"]):
    """The list of rules."""

    example = "- {id: R1, point: activate, layer: plugin, effect: ask}"

    def read(self, at: At, node: Node) -> tuple[PolicyRule, ...] | None:
        """All rules; what cannot be read of one makes it stricter."""
        if node.kind != "list":
            at.wrong(node, f"Write a list of rules, such as {self.example}.")
            return None
        found: list[PolicyRule] = []
        for number, item in enumerate(node.items, 1):
            if item.kind == "map":
                rule = _Rule(at, item, number).read()
                if rule is not None:
                    found.append(rule)
            else:
                at.error(item.line, f"Rule {number} is {item.noun}", f"Write {self.example[2:]}.")
        return tuple(found)

    def tighten(
        self, base: tuple[PolicyRule, ...], value: tuple[PolicyRule, ...]
    ) -> tuple[tuple[PolicyRule, ...], str]:
        """All rules of both, but none of the second that allow."""
        lost = next((f"rule {shown(rule.id)} would allow" for rule in value if rule.effect == "allow"), "")
        return (*base, *(rule for rule in value if rule.effect != "allow")), lost

    def shown(self, value: tuple[PolicyRule, ...]) -> object:
        """Each rule."""
        return [rule.as_dict() for rule in value]


class _Rule:
    """One rule while it is read."""

    def __init__(self, at: At, node: Node, number: int) -> None:
        self._at = at
        self._node = node
        self._called = f"Rule {number}"
        self._said: dict[str, Any] = {}
        self._effects: list[Outcome] = []
        self._is_whole = True

    def read(self) -> PolicyRule | None:
        seen: set[str] = set()
        for name, value in self._at.pairs(self._node, Rules.example[2:]):
            if name in seen and name != "effect":
                self._forget(name)
            else:
                self._part(name, value)
            seen.add(name)
        if len(seen) < len(self._node.pairs):
            self._is_whole = False  # something was given twice, or was no key at all
        if not self._effects:
            self._wrong(self._node, "has no `effect`", "Write `effect: deny`, `ask` or `allow`.")
        if "engines" in self._said and "scan" not in self._said:
            self._wrong(self._node, "counts engines without a `scan`", 'Add `scan: ">=high"` to its `when`.')
            del self._said["engines"]
        effect: Outcome = max(self._effects, key=EFFECTS.index, default="deny")
        if effect == "allow" and not self._is_whole:
            return None
        known_as = self._said.pop("id", f"line {self._node.line}")
        return PolicyRule(id=known_as, effect=effect, origin=self._at.origin(self._node), **self._said)

    def _part(self, name: str, node: Node) -> None:
        if name == "effect":
            if node.kind != "text" or node.text not in EFFECTS:
                told = shown(node.text) or node.noun
                self._wrong(node, f"cannot have this effect: {told}", "Write deny, ask or allow.")
            self._effects.append(node.text if node.text in EFFECTS else "deny")  # type: ignore[arg-type]
        elif name == "when":
            self._conditions(node)
        elif name in _NAMES and name in _ABOUT:
            self._names(name, node)
        elif name not in _ABOUT:
            self._wrong(node, f"has no `{shown(name)}`", f"A rule has {', '.join((*_ABOUT, 'when', 'effect'))}.")
        elif node.kind != "text" or not node.text or len(node.text) > 256 or not node.text.isprintable():
            self._wrong(node, f"has {node.noun} for `{name}`", f"Write `{name}: some-text`.")
        else:
            self._said[_ABOUT[name]] = node.text
            if name == "id":
                self._called = f"Rule {shown(node.text)}"

    def _conditions(self, node: Node) -> None:
        seen: set[str] = set()
        for name, value in self._at.below("when").pairs(node, '{scan: ">=high"}'):
            if name in seen:
                self._forget(name)
            elif name == "scan":
                self._least(name, value, SEVERITIES, '">=high"')
            elif name == "engines":
                self._least(name, value, _ENGINES, '">=2"')
            elif name in _NAMES and name in _WHEN:
                self._names(name, value)
            elif name != "trusted":
                self._wrong(value, f"has no condition `{shown(name)}`", f"Conditions are {', '.join(_WHEN)}.")
            elif value.kind == "text" and value.text.lower() in ("true", "false"):
                self._said["trusted"] = value.text.lower() == "true"
            else:
                self._wrong(value, "has no yes or no for `trusted`", "Write true or false.")
            seen.add(name)
        if node.kind != "map" or len(seen) < len(node.pairs):
            self._is_whole = False

    def _names(self, name: str, node: Node) -> None:
        """One name or a list of them; one that is unknown makes the rule be about all."""
        items = node.items if node.kind == "list" else [node]
        unknown = [item for item in items if item.kind != "text" or item.text not in _NAMES[name]]
        if unknown or not items:
            bad = unknown[0] if unknown else node
            self._wrong(bad, f"cannot name {shown(bad.text) or bad.noun}", f"Write one of {', '.join(_NAMES[name])}.")
            return
        self._said[(_ABOUT | _WHEN)[name]] = frozenset(ALIASES.get(item.text, item.text) for item in items)

    def _least(self, name: str, node: Node, known: tuple[str, ...], example: str) -> None:
        word = node.text.removeprefix(">=").strip() if node.kind == "text" and node.text.startswith(">=") else ""
        if word in known:
            self._said[name] = int(word) if known is _ENGINES else word
        else:
            written = shown(node.text) or node.noun
            self._wrong(node, f"cannot compare with {written}", f"Write {example}; {', '.join(known)} can be compared.")

    def _forget(self, name: str) -> None:
        """What was said twice is not said at all: nobody knows which was meant, so the rule is about both."""
        for part in (_ABOUT | _WHEN).get(name, ""), *(_WHEN.values() if name == "when" else ()):
            self._said.pop(part, None)

    def _wrong(self, node: Node, what: str, hint: str) -> None:
        self._is_whole = False
        self._at.error(node.line, f"{self._called} {what}", hint)
