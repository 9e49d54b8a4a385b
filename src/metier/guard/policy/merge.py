"""Merges policy files into one effective policy, in which a weaker file only tightens.

The strongest file, of an administrator or else of the user, may loosen the defaults. Every other file, and every broken
one, can only tighten; a setting without effect is reported.
"""

from __future__ import annotations

from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.guard.policy.effective import DEFAULT, ToolLayer, default_tools
from metier.guard.policy.file import Located, PolicyProblem
from metier.guard.policy.rules import CAPABILITY_NAMES, DEFAULT_RULES
from metier.guard.policy.schema import KEYS, RUN_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metier.guard.decision import Origin
    from metier.guard.policy.compound_types import ToolRuleList
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import PolicyFile

_OWNERS = ("enterprise", "personal")
"""Layers that may loosen the defaults."""
_APPROVAL = "skill-policy.require-approval-for"


def merge(files: Sequence[PolicyFile]) -> EffectivePolicy:
    """Merge policy files; the strongest comes first.

    >>> from metier.guard.policy.reader import parse_policy
    >>> ours = parse_policy("sources: {allow: ['dir:*']}", "/etc/metier/policy.yaml", "enterprise")
    >>> theirs = parse_policy("sources: {allow: ['git+https://x.test/*']}", ".metier/policy.yaml", "project")
    >>> print(merge([ours, theirs]).ignored[0].message)
    `sources.allow` is ignored where it loosens: it cannot add 'git+https://x.test/*'; the layer enterprise wins.
    """
    return _Merge(files).effective()


class _Merge:
    """The values of all keys, merged from all files."""

    def __init__(self, files: Sequence[PolicyFile]) -> None:
        self._files = tuple(files)
        self._owner = self._files[0] if self._files and self._files[0].layer in _OWNERS else None
        self._sound_owner = self._owner if self._owner is not None and not self._owner.is_broken else None
        self._values: dict[str, Any] = {}
        self._origins: dict[str, tuple[Origin, ...]] = {}
        self._ignored: list[PolicyProblem] = []
        for name in KEYS:
            self._merge(name)

    def _merge(self, name: str) -> None:
        key = KEYS[name]
        value: Any = key.default
        for file in self._files:
            own = file.settings.get(name, key.if_unknown if file.is_torn else None)
            if own is None:
                continue
            is_first = self._sets(file, name, value)
            if is_first:
                is_partial = name == "rules" and not any(rule.scan for rule in own)
                merged, lost = (*DEFAULT_RULES, *own) if is_partial else own, ""
            elif value is None and not key.type.takes_none:
                if name in ("tools.network", "tools.write"):
                    value = tuple(map(Located, default_tools(name)))
                    merged, lost = key.type.tighten(value, own)
                else:
                    merged, lost = own, ""
            else:
                merged, lost = key.type.tighten(value, own)
            if lost:
                self._ignore(file, name, lost)
            elif key.is_grant and file is not self._owner and not self._owner_sets(name) and own != "none":
                self._ignore(file, name, "only the strongest file grants anything")
            if is_first or merged != value:
                before = self._origins.get(name, ()) if key.type.adds_up else ()
                self._origins[name] = (*before, file.origin(name))
            value = merged
        self._values[name] = value

    def _sets(self, file: PolicyFile, name: str, value: Any) -> bool:
        """Whether a file sets a value in place of the default, and does not only tighten it."""
        key = KEYS[name]
        if key.is_fact:
            # Also in a file that is broken, or beside a stronger one: it is a fact, and not a permission.
            return file.layer == "enterprise" and value is None
        if file is not (self._sound_owner if key.if_unknown is None else self._owner):
            return False
        return file.layer == "enterprise" or not key.is_for_administrators

    def _owner_sets(self, name: str) -> bool:
        return self._sound_owner is not None and name in self._sound_owner.settings

    def _ignore(self, file: PolicyFile, name: str, why: str) -> None:
        winner = next(iter(self._origins.get(name, ())), None)
        by = f"the layer {winner.layer} wins" if winner is not None else "the default wins"
        self._ignored.append(
            PolicyProblem(
                origin=file.origin(name),
                severity="warning",
                message=f"`{name}` is ignored where it loosens: {why}; {by}.",
                hint=f"See {winner}." if winner is not None else "A weaker layer can only tighten.",
            )
        )

    def effective(self) -> EffectivePolicy:
        problems = tuple(problem for file in self._files for problem in file.problems)
        settings = _settings(self._values.__getitem__)
        required = settings["required"]
        all_capabilities = dict.fromkeys(CAPABILITY_NAMES)
        return replace(
            DEFAULT,
            **settings,
            files=self._files,
            digest=_digest(self._files),
            problems=problems,
            errors=tuple(problem for problem in problems if problem.severity == "error"),
            ignored=tuple(self._ignored),
            required_of_plugins=required if self._owner_sets(_APPROVAL) else all_capabilities | required,
            tool_layers=tuple(layer for file in self._files if (layer := _tool_layer(file)) is not None),
            granted=_settings(self._grant, RUN_KEYS)["run"],
            values=MappingProxyType(self._values),
            origins=MappingProxyType(self._origins),
        )

    def _grant(self, name: str) -> Any:
        return self._sound_owner.settings.get(name) if self._sound_owner is not None else None


_FIELDS = {name: ("".join(key.path[:-1]), key.path[-1], key.type.setting) for name, key in KEYS.items() if key.path}
"""Keys to the section and name of their field, and to the conversion of their value."""


def _settings(value_of: Callable[[str], Any], names: Iterable[str] = _FIELDS) -> dict[str, Any]:
    """The fields of an `EffectivePolicy` for the values of keys."""
    sections: dict[str, dict[str, Any]] = {"": {}}
    for name in names:
        section, field, setting = _FIELDS[name]
        sections.setdefault(section, {})[field] = setting(value_of(name))
    top = sections.pop("")
    return top | {name: replace(getattr(DEFAULT, name), **fields) for name, fields in sections.items()}


def _tool_layer(file: PolicyFile) -> ToolLayer | None:
    lists: dict[str, tuple[ToolRuleList, ...]] = {
        name: file.settings[f"tools.{name}"] for name in ("allow", "ask", "deny") if f"tools.{name}" in file.settings
    }
    if not lists:
        return None
    lines = {
        (name, rule.text): line
        for name, several in lists.items()
        for one in several
        for rule, line in one.rules.items()
    }
    lines |= {(name, ""): several[0].line for name, several in lists.items()}
    rules = {name: tuple(rule for one in several for rule in one.rules) for name, several in lists.items()}
    return ToolLayer(origin=file.origin("tools"), **rules, lines=MappingProxyType(lines))


def _digest(files: tuple[PolicyFile, ...]) -> str:
    lines = "".join(f"{file.layer}\0{file.path}\0{file.digest}\n" for file in files)
    return f"sha256:{sha256(lines.encode('utf-8', 'surrogatepass')).hexdigest()}"
