"""Finds the policy files of this machine, this user and this project, and reads them again when one changes."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from metier._lazy import dataclass, replace
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hints import Hint
from metier.library.places import folders_to_root, home_folder, node_folder
from metier.skill import shown
from metier.source.source import absolute

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from metier.guard.decision import Decision
    from metier.guard.node.bound_node import BoundNode
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import PolicyFile
    from metier.library import Layer

POLICY_FILE = "policy.yaml"
VARIABLE = "METIER_POLICY"
_LAYERS = ("enterprise", "personal", "project")
_SETTLES_AFTER = 100_000_000
"""Nanoseconds after which a change of a file has another time stamp for certain."""
_AHEAD = 2_000_000_000
"""Nanoseconds that the clock of a file system may be ahead; a time further in the future stays there."""

_LOOKS_EVERY = 1.0
"""Seconds after which a machine that became a node is one for programs that run already."""

_FileVersion: TypeAlias = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlace:
    """A place where a policy file may be."""

    layer: Layer
    path: str
    is_named: bool = False
    """Whether the file was named, so that it has to exist."""


def policy_places(start: Path | str | None = None) -> list[PolicyPlace]:
    """The places of policy files, the strongest first."""
    places = _administrators_places(system_policy(), os.environ.get(VARIABLE, ""))
    home = home_folder()
    if home is not None:
        places.append(PolicyPlace(layer="personal", path=os.path.join(home, ".metier", POLICY_FILE)))
    for folder in _project_folders(start):
        places.append(PolicyPlace(layer="project", path=os.path.join(folder, ".metier", POLICY_FILE)))
    # A file counts once, in the strongest layer it belongs to: the user's own is nobody's project.
    found: dict[str, PolicyPlace] = {}
    for place in places:
        same = found.setdefault(os.path.realpath(place.path), place)
        if place.is_named and not same.is_named:
            found[os.path.realpath(place.path)] = replace(same, is_named=True)
    return list(found.values())


def _administrators_places(system: str, named: str) -> list[PolicyPlace]:
    paths = filter(None, named.split(os.pathsep))
    return [
        PolicyPlace(layer="enterprise", path=system),
        *(PolicyPlace(layer="enterprise", path=path, is_named=True) for path in paths),
    ]


def _project_folders(start: Path | str | None) -> list[str]:
    """The folders of the project around `start`, up to its root; none where the working folder was removed."""
    try:
        return folders_to_root(os.path.realpath(absolute(start if start is not None else ".")))
    except SourceUnavailable:
        if start is not None:
            raise
        return []


def system_policy() -> str:
    """The path of the policy file for everybody on this machine."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("PROGRAMDATA", r"C:\ProgramData"), "metier", POLICY_FILE)
    return f"/etc/metier/{POLICY_FILE}"


class Policies:
    """The policy files that hold, merged into one effective policy.

    >>> policies = Policies(texts=[("enterprise", "version: 1\\nmode: audit")])
    >>> policies.current().mode
    'audit'
    """

    def __init__(
        self,
        files: Iterable[tuple[Layer, str | os.PathLike[str]]] = (),
        *,
        texts: Iterable[tuple[Layer, str]] = (),
    ) -> None:
        """Read files, each of which must exist, and texts without a file; the strongest layer counts first."""
        self.places = tuple(
            PolicyPlace(layer=layer, path=os.path.abspath(path), is_named=True) for layer, path in files
        )
        """The places of the files, the strongest first."""
        self._texts = _parsed(texts)
        self._binding: str | None = None
        """The path of the file that makes this machine a node, whose server's policies count too."""
        self._next_look = 0.0
        for layer in (*(place.layer for place in self.places), *(file.layer for file in self._texts)):
            if layer not in _LAYERS:
                hint = f"Layers are {', '.join(_LAYERS)}."
                raise InvalidArgument(f"{layer!r} is no layer that has a policy.", hint=hint)
        self._reading = threading.Lock()
        # The files and their effective policy are replaced at once: nobody gets the one without the other.
        self._state: _State | None = None

    @classmethod
    def discover(cls, *starts: Path | str | None) -> Policies:
        """The policy files of this machine, of the user, and of the projects around `starts`, or around here."""
        places = {place.path: place for start in starts or (None,) for place in policy_places(start)}
        found = sorted(places.values(), key=lambda place: _LAYERS.index(place.layer))
        return cls._at(found, os.path.join(node_folder(), "binding.json"))

    @classmethod
    def of_administrators(cls, system: str, named: str, binding: str | None = None) -> Policies:
        """The policy files of administrators alone: the one of the system, and the paths of the variable.

        With the path of a `binding`, also those of the server that this machine is a node of.
        """
        return cls._at(_administrators_places(system, named), binding)

    @classmethod
    def _at(cls, places: list[PolicyPlace], binding: str | None) -> Policies:
        found = cls()
        found.places, found._binding = tuple(places), binding
        return found

    @property
    def node(self) -> BoundNode | None:
        """The node that this machine is, as `current` or `found` saw it last; None where it is none."""
        state = self._state
        return None if state is None else state.node

    def replace_texts(self, texts: Iterable[PolicyFile]) -> None:
        """Let other texts without a file count from now on."""
        with self._reading:
            self._texts = list(texts)
            self._state = None

    def current(self) -> EffectivePolicy:
        """The effective policy now."""
        state = self._state
        if state is None:
            return self._read()
        # Every decision looks several times, and most places have no file.
        for path in state.missing:
            if path_exists(path):
                return self._read()
        for one in state.present:
            if one.is_changed():
                return self._read()
        if state.node is None and self._binding is not None and self._is_bound():
            return self._read()
        return state.effective

    def _is_bound(self) -> bool:
        """Whether this machine has become a node: a look at the disk, once a second at most."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOKS_EVERY
        return self._binding is not None and path_exists(self._binding)

    def found(self) -> EffectivePolicy | None:
        """The effective policy now; None where there is no file, as long as nobody has asked for `current`.

        To list skills takes far longer with all that is needed to decide about them.
        """
        if self._state is not None or self._texts:
            return self.current()
        is_there = any(place.is_named or path_exists(place.path) for place in self.places)
        is_there = is_there or (self._binding is not None and path_exists(self._binding))
        return self.current() if is_there else None

    def _read(self) -> EffectivePolicy:
        with self._reading:
            before = self._state
            earlier = before.seen if before is not None else (None,) * len(self.places)
            seen = tuple(map(_read, self.places, earlier))
            node = self._read_node(before.node if before is not None else None)
            # The server goes first: whatever a file of this machine says can only tighten it.
            files = [*(node.files if node is not None else ()), *(one.file for one in seen if one.file), *self._texts]
            files.sort(key=lambda file: _LAYERS.index(file.layer))
            if before is not None and before.effective.files == tuple(files):
                effective = before.effective
            else:
                effective = _merge(files)
            missing = tuple(one.path for one in seen if one.is_missing)
            present: list[_Seen | BoundNode] = [one for one in seen if not one.is_missing]
            if node is not None:
                present.append(node)
            self._state = _State(seen, effective, missing, tuple(present), node)
            return effective

    def _read_node(self, before: BoundNode | None) -> BoundNode | None:
        if self._binding is None or not path_exists(self._binding):
            return None
        if before is not None and not before.is_changed():
            return before
        from metier.guard.node.bound_node import find_node

        return find_node(before)


class _State(NamedTuple):
    """The files at all places, and their effective policy."""

    seen: tuple[_Seen, ...]
    effective: EffectivePolicy
    missing: tuple[str, ...]
    """The paths of those places that have no file."""
    present: tuple[_Seen | BoundNode, ...]
    """All others, and the node that this machine is."""
    node: BoundNode | None


class _Seen(NamedTuple):
    """The file that was read at a place, and its version."""

    path: str
    version: _FileVersion
    is_settled: bool
    """False: the file was written a moment ago, and may be written again without another version."""
    file: PolicyFile | None

    def is_changed(self) -> bool:
        """Whether the file may have changed since it was read; one look at the file system."""
        path, version, is_settled, _ = self
        if not is_settled:
            return True
        return path_exists(path) if version is None else _file_version(path) != version

    @property
    def is_missing(self) -> bool:
        """Whether there was no file, for certain."""
        return self.is_settled and self.version is None


def _read(place: PolicyPlace, before: _Seen | None) -> _Seen:
    """The file that is at a place now."""
    if before is not None and not before.is_changed():
        return before
    path, layer = place.path, place.layer
    version, now = _file_version(path), time.time_ns()
    if version is None and not place.is_named and not path_exists(path):
        return _Seen(path, None, True, None)
    from metier.guard.policy.reader import read_policy, unreadable

    if place.is_named and not os.path.isabs(path):
        why = "its path is relative, so it would mean another file wherever one stands"
        file: PolicyFile | None = unreadable(path, layer, why, f"Write an absolute path in ${VARIABLE}.")
    else:
        file = read_policy(path, layer)
        if file is None and place.is_named:
            file = unreadable(path, layer, "it is not there", "Write the file, or no longer name it.")
    if before is not None and before.file is not None and file is not None and file.digest == before.file.digest:
        file = before.file
    changed = max(version[3:5]) if version is not None else 0
    return _Seen(path, version, changed + _SETTLES_AFTER < now or changed > now + _AHEAD, file)


def _parsed(texts: Iterable[tuple[Layer, str]]) -> list[PolicyFile]:
    return [_parse(text, f"<{layer} policy {number}>", layer) for number, (layer, text) in enumerate(texts, 1)]


def _parse(text: str, path: str, layer: Layer) -> PolicyFile:
    from metier.guard.policy.reader import parse_policy

    return parse_policy(text, path, layer)


def _merge(files: list[PolicyFile]) -> EffectivePolicy:
    if not files:
        from metier.guard.policy.effective import DEFAULT

        return DEFAULT
    from metier.guard.policy.merge import merge

    return merge(files)


def _file_version(path: str) -> _FileVersion:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


_SEES_LINKS = os.access in os.supports_follow_symlinks


def path_exists(path: str) -> bool:
    """Whether there is a file, or a link to nothing; a miss raises no exception, which would take far longer."""
    try:
        return os.access(path, os.F_OK, follow_symlinks=False) if _SEES_LINKS else os.path.lexists(path)
    except ValueError:
        return False


def machine_environment(wanted: str | None) -> str | None:
    """The environment of a caller who claims `wanted`; raises `Refused` where the machine is in another.

    >>> machine_environment("staging")
    'staging'
    """
    binding = os.path.join(node_folder(), "binding.json")
    effective = _policies_of_administrators(system_policy(), os.environ.get(VARIABLE, ""), binding).found()
    if effective is None or effective.environment is None or wanted == effective.environment:
        return wanted
    if wanted is None:
        return effective.environment
    raise refuse_environment(wanted, effective).as_error()


_policies_of_administrators = functools.lru_cache(maxsize=16)(Policies.of_administrators)


def refuse_environment(wanted: str | None, effective: EffectivePolicy) -> Decision:
    """The refusal of a caller who is not in the environment that the machine is in."""
    from metier.guard.decision import refuse

    fixed = shown(effective.environment or "")
    said = f"another one was asked for, {shown(wanted)!r}" if wanted is not None else "it was begun in none"
    return refuse(
        "machine.environment",
        f"This machine is in the environment {fixed!r}, and {said}.",
        code="environment-denied",
        hint=Hint(
            "Leave the environment out, or say {fixed!r}." if wanted is not None else "Begin another session.",
            model="Tell the user.",
            fixed=fixed,
        ),
        origin=effective.origin("machine.environment"),
        holds_always=True,
    )
