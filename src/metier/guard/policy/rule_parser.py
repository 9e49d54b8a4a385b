"""Reads the `rules` of a policy file.

A condition that cannot be read is left out of a rule that denies or asks, so that the rule applies to more; a rule that
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
from metier.guard.policy.value_types import ValueType
from metier.scan.finding import SEVERITIES
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.decision import Outcome
    from metier.guard.policy.reader import KeyReader
    from metier.guard.policy.yaml_tree import Node

_SUBJECT_FIELDS = {"point": "points", "layer": "layers", **{name: name for name in ("id", *GLOBS, "reason")}}
"""Keys of a rule that select actions, and their fields in `PolicyRule`."""
_CONDITION_FIELDS = {
    "scan": "scan",
    "engines": "engines",
    "capability": "capabilities",
    "name-collides-with": "collides_with",
    "trusted": "trusted",
    "trigger": "triggers",
}
"""Keys of `when`, and their fields in `PolicyRule`."""
_FIELDS = _SUBJECT_FIELDS | _CONDITION_FIELDS
_WORDS = {
    "point": (*POINTS, *ALIASES),
    "layer": RULE_LAYERS,
    "capability": CAPABILITY_NAMES,
    "name-collides-with": RULE_LAYERS,
    "trigger": TRIGGERS,
}
"""Keys whose values are sets of known words."""
_ENGINES = tuple(str(number) for number in range(1, 17))
_EXAMPLE = "{id: R1, point: activate, layer: plugin, effect: ask}"


def rule_list() -> ValueType[tuple[PolicyRule, ...]]:
    """The list of rules; a weaker layer adds rules, but none that allow."""

    def read(key: KeyReader, node: Node) -> tuple[PolicyRule, ...] | None:
        if node.kind != "list":
            key.wrong(node, f"Write a list of rules, such as - {_EXAMPLE}.")
            return None
        found: list[PolicyRule] = []
        for number, item in enumerate(node.items, 1):
            if item.kind == "map":
                rule = _RuleReader(key, item, number).read()
                if rule is not None:
                    found.append(rule)
            else:
                key.error(item.line, f"Rule {number} is {item.noun}", f"Write {_EXAMPLE}.")
        return tuple(found)

    def tighten(base: tuple[PolicyRule, ...], value: tuple[PolicyRule, ...]) -> tuple[tuple[PolicyRule, ...], str]:
        lost = next((f"rule {shown(rule.id)} would allow" for rule in value if rule.effect == "allow"), "")
        return (*base, *(rule for rule in value if rule.effect != "allow")), lost

    def show(value: tuple[PolicyRule, ...]) -> object:
        return [rule.as_dict() for rule in value]

    def setting(value: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        return tuple(sorted(value, key=lambda rule: -EFFECTS.index(rule.effect)))

    return ValueType(read=read, tighten=tighten, shown=show, setting=setting, adds_up=True)


class _RuleReader:
    """The fields of one rule while it is read."""

    def __init__(self, key: KeyReader, node: Node, number: int) -> None:
        self._key = key
        self._node = node
        self._title = f"Rule {number}"
        self._fields: dict[str, Any] = {}
        self._effects: list[Outcome] = []
        self._is_whole = True

    def read(self) -> PolicyRule | None:
        self._read_map(self._key, self._node, _EXAMPLE, self._read_field)
        if not self._effects:
            self._wrong(self._node, "has no `effect`", "Write `effect: deny`, `ask` or `allow`.")
        if "engines" in self._fields and "scan" not in self._fields:
            self._wrong(self._node, "counts engines without a `scan`", 'Add `scan: ">=high"` to its `when`.')
            del self._fields["engines"]
        effect: Outcome = max(self._effects, key=EFFECTS.index, default="deny")
        if effect == "allow" and not self._is_whole:
            return None
        rule_id = self._fields.pop("id", f"line {self._node.line}")
        return PolicyRule(id=rule_id, effect=effect, origin=self._key.origin(self._node), **self._fields)

    def _read_map(self, key: KeyReader, node: Node, example: str, read: Callable[[str, Node], None]) -> None:
        seen: set[str] = set()
        for name, value in key.pairs(node, example):
            if name in seen and name != "effect":
                self._drop(name)
            else:
                read(name, value)
            seen.add(name)
        if node.kind != "map" or len(seen) < len(node.pairs):
            self._is_whole = False  # a key was given twice, or was none at all

    def _read_field(self, name: str, node: Node) -> None:
        if name == "effect":
            effect = next((one for one in EFFECTS if one == node.text), None)
            if effect is None:
                written = shown(node.text) or node.noun
                self._wrong(node, f"cannot have this effect: {written}", "Write deny, ask or allow.")
            self._effects.append(effect or "deny")
        elif name == "when":
            self._read_map(self._key.below(name), node, '{scan: ">=high"}', self._read_condition)
        elif name in ("point", "layer"):
            self._read_words(name, node)
        elif name not in _SUBJECT_FIELDS:
            known = ", ".join((*_SUBJECT_FIELDS, "when", "effect"))
            self._wrong(node, f"has no `{shown(name)}`", f"A rule has {known}.")
        elif not 0 < len(node.text) <= 256 or not node.text.isprintable():
            self._wrong(node, f"has {node.noun} for `{name}`", f"Write `{name}: some-text`.")
        else:
            self._fields[_SUBJECT_FIELDS[name]] = node.text
            if name == "id":
                self._title = f"Rule {shown(node.text)}"

    def _read_condition(self, name: str, node: Node) -> None:
        if name == "scan":
            self._read_minimum(name, node, SEVERITIES, '">=high"')
        elif name == "engines":
            self._read_minimum(name, node, _ENGINES, '">=2"')
        elif name not in _CONDITION_FIELDS:
            known = ", ".join(_CONDITION_FIELDS)
            self._wrong(node, f"has no condition `{shown(name)}`", f"Conditions are {known}.")
        elif name != "trusted":
            self._read_words(name, node)
        elif node.text.lower() in ("true", "false"):
            self._fields[name] = node.text.lower() == "true"
        else:
            self._wrong(node, "has no yes or no for `trusted`", "Write true or false.")

    def _read_words(self, name: str, node: Node) -> None:
        """Read one word or a list of them; with an unknown one the rule applies to all."""
        items = node.items if node.kind == "list" else [node]
        unknown = [item for item in items if item.text not in _WORDS[name]]
        if unknown or not items:
            bad = unknown[0] if unknown else node
            self._wrong(bad, f"cannot name {shown(bad.text) or bad.noun}", f"Write one of {', '.join(_WORDS[name])}.")
            return
        self._fields[_FIELDS[name]] = frozenset(ALIASES.get(item.text, item.text) for item in items)

    def _read_minimum(self, name: str, node: Node, known: tuple[str, ...], example: str) -> None:
        word = node.text.removeprefix(">=").strip() if node.text.startswith(">=") else ""
        if word in known:
            self._fields[name] = int(word) if known is _ENGINES else word
        else:
            written = shown(node.text) or node.noun
            self._wrong(node, f"cannot compare with {written}", f"Write {example}; {', '.join(known)} can be compared.")

    def _drop(self, name: str) -> None:
        """Drop a field that is given twice: which one was meant is unknown, so the rule applies to both."""
        for field in _FIELDS.get(name, ""), *(_CONDITION_FIELDS.values() if name == "when" else ()):
            self._fields.pop(field, None)

    def _wrong(self, node: Node, what: str, hint: str) -> None:
        self._is_whole = False
        self._key.error(node.line, f"{self._title} {what}", hint)
