"""The decision about calls that write to protected places, or read what is hidden, whoever's tool makes them.

A path is judged as it is written and by where it leads, with `..` taken away before or after links are followed: to be
open all of these must be.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metier.guard.decision import Decision
from metier.guard.tool_rules.file_targets import file_targets
from metier.hints import list_files
from metier.skill import shown
from metier.skill.folder import real_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.guard.decision import Action
    from metier.guard.file_access import FileAccess
    from metier.guard.governance import Governance
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.program import Policy

_MOST_KEPT = 64
_LONGEST = 32_768
_FEW = 64
_TOO_MANY = Decision(
    outcome="deny",
    reason="The call has more texts that could be paths than are looked at.",
    rule="built in: protected places",
    code="protected-place",
    hint="Make several calls of less each.",
)


class ClosedFiles:
    """The files that are closed to tools under one guard."""

    def __init__(
        self, governance: Governance, policy: Callable[[], Policy | None], kept_paths: Callable[[], Iterable[str]]
    ) -> None:
        """`policy` gives the program's own, which policy files narrow."""
        self._governance, self._policy, self._kept_paths = governance, policy, kept_paths
        self._cached: dict[object, tuple[Policy | None, EffectivePolicy, FileAccess]] = {}

    def access(self, workspace: str, skill_folders: Iterable[str] = ()) -> FileAccess:
        """The files that are closed in a workspace; nothing of the folders that skills come from is written."""
        policy, effective = self._policy(), self._governance.effective
        folders = tuple(skill_folders)
        cached = self._cached.get((workspace, folders))
        if cached is not None and cached[0] is policy and cached[1] is effective:
            return cached[2]
        from metier.guard.file_access import FileAccess
        from metier.guard.policy.program import granted_names

        access = FileAccess.of(
            workspace or os.getcwd(),
            grants=granted_names(self._governance.narrowed(policy).paths or ()),
            kept=(*folders, *self._kept_paths()),
            hidden=self._governance.secret_paths(workspace or os.getcwd()),
        )
        if len(self._cached) >= _MOST_KEPT:
            self._cached = {}
        self._cached[workspace, folders] = (policy, effective, access)
        return access

    def against(self, action: Action) -> Decision | None:
        """The decision against a call, or None."""
        if action.is_control:
            return None
        targets = file_targets(action.tool, action.arguments)
        if targets.is_cut:
            return _TOO_MANY
        if not targets.written and not targets.read:
            return None
        access = self.access(action.workspace, action.skill_folders() if action.skill_folders is not None else ())
        base = action.workspace if os.path.isabs(action.workspace) else os.path.abspath(action.workspace)
        for path in targets.read:
            if any(map(access.hides, _real_paths(path, base))):
                return _hidden(path)
        for path in targets.written:
            place = _protecting_name(path, base, access)
            if place is not None:
                return _protected(path, place)
        real = {one: path for path in targets.written for one in _real_paths(path, base)}
        if not real:
            return None
        # One look at the workspace for all of them.
        places = access.protecting([(one, False) for one in real])
        return next((_protected(path, place) for path, place in zip(real.values(), places, strict=True) if place), None)


def has_many_texts(arguments: Mapping[str, Any]) -> bool:
    """Whether a call may have so many texts that a decision about it takes a while."""
    return len(arguments) > _FEW or any(
        isinstance(value, Mapping | list | tuple)
        or (isinstance(value, str) and (len(value) > _LONGEST or value.lstrip()[:1] in ("{", "[")))
        for value in arguments.values()
    )


def _protecting_name(path: str, base: str, access: FileAccess) -> str | None:
    if len(path) > _LONGEST:
        return "a path that long"
    if "\0" in path:
        return None  # which no system takes
    written = os.path.normpath(os.path.join(base, _expanded(path)))
    return access.protects_name(written, base) or access.protects_name(written, access.workspace)


def _real_paths(path: str, base: str) -> Iterator[str]:
    """The paths that a path leads to: some programs take `..` away before they follow links, and others after."""
    if len(path) > _LONGEST or "\0" in path:
        return
    full = os.path.join(base, _expanded(path))
    yield real_path(full)
    if ".." in path:
        yield real_path(os.path.normpath(full))


def _expanded(path: str) -> str:
    path = path.removeprefix("file://")
    return os.path.expanduser(path) if path.startswith("~") else path


def _protected(path: str, place: str) -> Decision:
    from metier.guard.file_access import protection_hint, protection_reason

    return Decision(
        outcome="deny",
        reason=protection_reason(path, place),
        rule=f"built in: protected place {shown(place, 200)}",
        code="protected-place",
        hint=protection_hint(place),
    )


def _hidden(path: str) -> Decision:
    """As if it were not there: only the record says why."""
    return Decision(
        outcome="deny",
        reason=f"File {shown(path, 200)!r} was not found.",
        rule="built in: hidden files",
        code="file-missing",
        hint=list_files(),
    )
