"""Putting policy files together, so that a weaker one only tightens.

The strongest file, of an administrator or else of the user, may loosen what holds without any file. Every other file,
and every file that is broken, can only tighten; what it says in vain is told.
"""

from __future__ import annotations

import os
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier.guard.policy.effective import (
    ApprovalTerms,
    AuditSettings,
    EffectivePolicy,
    RunSettings,
    ScanSettings,
    SourceTerms,
    ToolLayer,
    usual_tools,
)
from metier.guard.policy.file import PolicyProblem
from metier.guard.policy.rules import CAPABILITY_NAMES, DEFAULT_RULES, EFFECTS
from metier.guard.policy.schema import KEYS, RUN_KEYS
from metier.guard.policy.value_types import Located
from metier.skill.listing import Listings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.guard.policy.compound_types import ToolRules
    from metier.guard.policy.file import Origin, PolicyFile
    from metier.guard.policy.value_types import Allowed

_OWNERS = ("enterprise", "personal")
"""Layers that may loosen what holds without a file."""
_ADMINISTRATORS = ("skills.enterprise-names",)
"""What only administrators may loosen."""
_MACHINE = ("machine.environment",)
"""What administrators say of the machine, and nobody else."""
_ALWAYS = ("mode", "on-error")
"""What counts of a file that is broken as if it were not."""
_GRANTS = ("run.network", "run.hosts", "run.paths", "run.secrets")
_APPROVAL = "skill-policy.require-approval-for"


def merge(files: Sequence[PolicyFile]) -> EffectivePolicy:
    """What policy files say together; the strongest comes first.

    >>> from metier.guard.policy.file import parse_policy
    >>> ours = parse_policy("sources: {allow: ['dir:*']}", "/etc/metier/policy.yaml", "enterprise")
    >>> theirs = parse_policy("sources: {allow: ['git+https://x.test/*']}", ".metier/policy.yaml", "project")
    >>> print(merge([ours, theirs]).ignored[0].message)
    `sources.allow` is ignored where it loosens: it cannot add 'git+https://x.test/*'; the layer enterprise wins.
    """
    return _Merging(files).effective()


class _Merging:
    """All files, put together key by key."""

    def __init__(self, files: Sequence[PolicyFile]) -> None:
        self._files = tuple(files)
        self._owner = self._files[0] if self._files and self._files[0].layer in _OWNERS else None
        self._values: dict[str, Any] = {}
        self._origins: dict[str, tuple[Origin, ...]] = {}
        self._ignored: list[PolicyProblem] = []
        for key in KEYS:
            self._merge(key)

    def _merge(self, key: str) -> None:
        known = KEYS[key]
        is_limit = key in RUN_KEYS  # nothing holds without a file: files narrow what a program decides
        value: Any = None if is_limit else known.default
        for file in self._files:
            own = file.settings.get(key)
            if key in _ALWAYS:
                own = file.mode if key == "mode" else file.on_error
            if own is None:
                continue
            is_first = self._decides(file, key, value)
            if is_first:
                merged, lost = self._over_default(key, own), ""
            elif value is None and known.default is None and not known.kind.takes_none:
                if not is_limit and key.startswith("tools."):
                    value = tuple(Located(text) for text in usual_tools(key))
                    merged, lost = known.kind.tighten(value, own)
                else:
                    merged, lost = own, ""
            else:
                merged, lost = known.kind.tighten(value, own)
            if lost:
                self._ignore(file, key, lost)
            elif key in _GRANTS and file is not self._owner and not self._owner_says(key) and own != "none":
                self._ignore(file, key, "only the strongest file grants anything")
            if is_first or merged != value:
                before = self._origins.get(key, ()) if known.kind.adds_up else ()
                self._origins[key] = (*before, file.origin(key))
            value = merged
        self._values[key] = value

    def _decides(self, file: PolicyFile, key: str, value: Any) -> bool:
        """Whether a file says what holds in place of the default, and not only what is tighter."""
        if key in _MACHINE:
            # Also of a file that is broken, or beside a stronger one: it is a fact, and not a permission.
            return file.layer == "enterprise" and value is None
        if file is not self._owner or (file.is_broken and key not in _ALWAYS):
            return False
        return file.layer == "enterprise" or key not in _ADMINISTRATORS

    def _over_default(self, key: str, own: Any) -> Any:
        """What the strongest file says, in place of what holds without a file."""
        if key == "rules" and not any(rule.scan for rule in own):
            return (*DEFAULT_RULES, *own)
        return own

    def _owner_says(self, key: str) -> bool:
        owner = self._owner
        return owner is not None and not owner.is_broken and key in owner.settings

    def _ignore(self, file: PolicyFile, key: str, why: str) -> None:
        winner = next(iter(self._origins.get(key, ())), None)
        by = f"the layer {winner.layer} wins" if winner is not None else "the default wins"
        self._ignored.append(
            PolicyProblem(
                origin=file.origin(key),
                severity="warning",
                message=f"`{key}` is ignored where it loosens: {why}; {by}.",
                hint=f"See {winner}." if winner is not None else "A weaker layer can only tighten.",
            )
        )

    def effective(self) -> EffectivePolicy:
        values = self._values
        approvals: tuple[Located, ...] = values[_APPROVAL]
        required = {one.text: one.origin for one in approvals}
        plugins = required if self._owner_says(_APPROVAL) else dict.fromkeys(CAPABILITY_NAMES) | required
        return EffectivePolicy(
            mode=values["mode"],
            on_error=values["on-error"],
            digest=_digest(self._files),
            store=values["store"].text if values["store"] is not None else None,
            environment=values["machine.environment"].text if values["machine.environment"] is not None else None,
            files=self._files,
            problems=(problems := tuple(problem for file in self._files for problem in file.problems)),
            errors=tuple(problem for problem in problems if problem.severity == "error"),
            ignored=tuple(self._ignored),
            require_approval_for=frozenset(required),
            approval=self._approval(),
            sources_allow=_lists(values["sources.allow"]),
            sources_deny=_items(values["sources.deny"]),
            sources_require=SourceTerms(
                digest=values["sources.require.digest"],
                pinned=values["sources.require.pinned"],
                signature=values["sources.require.signature"],
            ),
            skills_allow=_lists(values["skills.allow"]),
            skills_deny=_items(values["skills.deny"]),
            listing=Listings(values["skills.listing"]),
            pins=MappingProxyType(values["skills.pins"]),
            reserved=MappingProxyType({text: origin for origin, text in _items(values["skills.reserved"])}),
            enterprise_names=values["skills.enterprise-names"],
            tool_layers=tuple(layer for file in self._files if (layer := _tool_layer(file)) is not None),
            allowed_tools=MappingProxyType(values["tools.allowed-tools"]),
            rules=tuple(sorted(values["rules"], key=lambda rule: -EFFECTS.index(rule.effect))),
            run=_run_settings({key: values[key] for key in RUN_KEYS}),
            granted=_run_settings({key: self._granted(key) for key in RUN_KEYS}),
            scan=self._scan(),
            audit=AuditSettings(
                max_output=values["audit.max-output"],
                checkpoint_every=values["audit.checkpoint-every"],
                key=_path(values["audit.key"]),
            ),
            notify=values["notify"],
            values=MappingProxyType(values),
            origins=MappingProxyType(self._origins),
            required=MappingProxyType(required),
            required_of_plugins=MappingProxyType(plugins),
        )

    def _granted(self, key: str) -> Any:
        return self._owner.settings[key] if self._owner is not None and self._owner_says(key) else None

    def _approval(self) -> ApprovalTerms:
        values = {key.rpartition(".")[2]: self._values[key] for key in KEYS if key.startswith("skill-policy.approval.")}
        return ApprovalTerms(
            approvers=values["approvers"],
            self_approval=values["self-approval"] == "allow",
            quorum=values["quorum"],
            expires=values["expires"],
            auto=values["auto-approve-when"],
        )

    def _scan(self) -> ScanSettings:
        engines = self._values["scan.engines"]
        return ScanSettings(
            engines=tuple(one.name for one in engines),
            commands=MappingProxyType({one.name: one.command for one in engines if one.command}),
            rescan_after=self._values["scan.rescan-after"],
            suppressions=_path(self._values["scan.suppressions"]),
        )


def _lists(allowed: tuple[Allowed, ...]) -> tuple[tuple[Any, tuple[str, ...]], ...]:
    return tuple((one.origin, one.texts) for one in allowed)


def _items(items: tuple[Located, ...]) -> tuple[tuple[Any, str], ...]:
    return tuple((one.origin, one.text) for one in items)


def _path(found: Located | None) -> str | None:
    """A path, which starts from the folder of the file that has it."""
    if found is None:
        return None
    folder = os.path.dirname(found.origin.path) if found.origin is not None else ""
    return os.path.join(folder, os.path.expanduser(found.text))


def _tool_layer(file: PolicyFile) -> ToolLayer | None:
    lists: dict[str, tuple[ToolRules, ...]] = {
        name: file.settings[f"tools.{name}"] for name in ("allow", "ask", "deny") if f"tools.{name}" in file.settings
    }
    if not lists:
        return None
    lines = {
        (name, text): line for name, several in lists.items() for one in several for text, line in one.lines.items()
    }
    lines |= {(name, ""): several[0].origin.line for name, several in lists.items()}
    rules = {name: tuple(rule for one in several for rule in one.rules) for name, several in lists.items()}
    return ToolLayer(
        origin=file.origin("tools"),
        allow=rules.get("allow"),
        ask=rules.get("ask", ()),
        deny=rules.get("deny", ()),
        lines=MappingProxyType(lines),
    )


def _run_settings(values: Mapping[str, Any]) -> RunSettings:
    said = {key.removeprefix("run.").replace("-", "_"): value for key, value in values.items()}
    require: tuple[Located, ...] | None = said["require"]
    said["require"] = None if require is None else tuple(one.text for one in require)
    return RunSettings(**said)


def _digest(files: tuple[PolicyFile, ...]) -> str:
    lines = "".join(f"{file.layer}\0{file.path}\0{file.digest}\n" for file in files)
    return f"sha256:{sha256(lines.encode('utf-8', 'surrogatepass')).hexdigest()}"
