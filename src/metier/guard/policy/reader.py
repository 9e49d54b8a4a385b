"""Reading a policy file key by key, and telling what is wrong with it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from metier.guard.policy.file import Origin, PolicyProblem
from metier.guard.policy.schema import KEYS, SECTIONS, names_below
from metier.guard.policy.yaml_tree import read_tree
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.guard.policy.yaml_tree import Node, YamlFlaw
    from metier.library import Layer

_MAX_PROBLEMS = 200


class Reading:
    """A policy file while it is read."""

    def __init__(self, path: str, layer: Layer) -> None:
        self.path = path
        self.layer = layer
        self.problems: list[PolicyProblem] = []
        self.settings: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.is_torn = False
        self._is_strict = False

    def error(self, line: int, key: str, message: str, hint: str) -> None:
        """Say that something cannot be used."""
        self._tell("error", line, key, message, hint)

    def warning(self, line: int, key: str, message: str, hint: str) -> None:
        """Say that something has no effect."""
        self._tell("warning", line, key, message, hint)

    def _tell(self, severity: Literal["error", "warning"], line: int, key: str, message: str, hint: str) -> None:
        # The first error is what makes a file broken; no number of warnings may keep it from being told.
        if len(self.problems) >= _MAX_PROBLEMS and severity == "warning":
            return
        if len(self.problems) < 2 * _MAX_PROBLEMS:
            self.problems.append(
                PolicyProblem(origin=self.origin(line, key), severity=severity, message=f"{message}.", hint=hint)
            )

    def origin(self, line: int, key: str) -> Origin:
        """A line of the file."""
        return Origin(layer=self.layer, path=self.path, line=line, key=key)

    def take(self, text: str) -> None:
        """Read all that a text says."""
        tree = read_tree(text)
        for flaw in tree.flaws:
            self.is_torn = True
            self._tell_flaw(flaw)
        maps = [root for root in tree.roots if root.kind == "map"]
        if not tree.flaws and (not maps or not any(root.pairs for root in maps)):
            # A file that is being written is empty for a moment, which must not pass for a policy without rules.
            self.error(1, "", "The file says nothing", "Begin with `version: 1`, or remove the file.")
            self.is_torn = True
        self._is_strict = any(
            key.text == "strict" and value.text.lower() in ("true", "yes", "on")
            for root in maps
            for key, value in root.pairs
        )
        for root in maps:
            self._section("", root)

    def _tell_flaw(self, flaw: YamlFlaw) -> None:
        what = f"The YAML cannot be read: {shown(flaw.message)}"
        self.error(flaw.line, "", what, "Write plain `key: value` lines, indent with spaces, and close every bracket.")

    def _section(self, above: str, node: Node) -> None:
        for name, value in At(self, above).pairs(node, "key: value"):
            key = f"{above}.{name}" if above else name
            known = KEYS.get(key)
            if known is not None:
                self._setting(key, value)
            elif key in SECTIONS:
                self.lines.setdefault(key, value.line)
                if value.kind == "map":
                    self._section(key, value)
                elif not value.is_null:
                    At(self, key).wrong(value, "Write its keys below it, indented.")
            else:
                self._unknown(value.line, above, name)

    def _setting(self, key: str, node: Node) -> None:
        if node.is_null:
            if node.text == "" and key.endswith(".allow"):
                what = f"`{key}` has no value and so no opinion"
                self.warning(node.line, key, what, "Write [] to allow nothing, or `null` to say that it is meant.")
            return
        kind = KEYS[key].kind
        value = kind.read(At(self, key), node)
        if value is None:
            return
        if key in self.settings:
            value, _ = kind.tighten(self.settings[key], value)
        else:
            self.lines[key] = node.line
        self.settings[key] = value

    def _unknown(self, line: int, above: str, name: str) -> None:
        known = names_below(above)
        key = f"{above}.{name}" if above else name
        meant = difflib.get_close_matches(name.lower().replace("_", "-")[:100], known, n=1, cutoff=0.75)
        meant += [other for other in (*KEYS, *SECTIONS) if other.rpartition(".")[2] == name]
        hint = f"Did you mean `{meant[0]}`?" if meant else f"Keys here are {', '.join(known)}."
        # A key that is nearly right, or in another place, was meant to say something, and now says nothing.
        tell = self.error if meant or self._is_strict else self.warning
        tell(line, key[:200], f"There is no key {shown(key)!r}", hint)


@dataclass(frozen=True, slots=True)
class At:
    """A key of a file that is read."""

    reading: Reading
    key: str

    def below(self, name: str) -> At:
        """A key inside of it."""
        return At(self.reading, f"{self.key}.{shown(name)}" if self.key else shown(name))

    def origin(self, node: Node) -> Origin:
        """Where a value of it stands."""
        return self.reading.origin(node.line, self.key)

    def error(self, line: int, message: str, hint: str) -> None:
        """Say what is wrong with it."""
        self.reading.error(line, self.key, message, hint)

    def warning(self, line: int, message: str, hint: str) -> None:
        """Say what of it has no effect."""
        self.reading.warning(line, self.key, message, hint)

    def wrong(self, node: Node, hint: str) -> None:
        """Say that the value is none that the key can have."""
        if node.kind == "alias":
            self.error(node.line, f"`{self.key}` is an alias", "Write the value out: policy files have no aliases.")
        elif node.kind == "text" and not hint.startswith("Write a list"):
            self.error(node.line, f"`{self.key}` cannot be {shown(node.text)!r}", hint)
        else:
            self.error(node.line, f"`{self.key}` is {node.noun}", hint)

    def pairs(self, node: Node, example: str) -> Iterator[tuple[str, Node]]:
        """The keys and values of a map, as far as it is one; a key that is given twice comes twice."""
        if node.kind != "map":
            self.wrong(node, f"Write a map, such as {example}.")
            return
        seen: set[str] = set()
        for key, value in node.pairs:
            if key.kind != "text" or not key.text or len(key.text) > 256 or not key.text.isprintable():
                self.error(key.line, "A key is no plain text", "Write `key: value`.")
                continue
            if key.text in seen:
                self.error(key.line, f"`{shown(key.text)}` is given twice", "Keep one.")
            seen.add(key.text)
            yield key.text, value
