"""The resources of a job: files and folders, network and limits, as policy grants them and the skill asks for them.

Whatever decides about skills stays out of reach: the folders that they come from, what the user trusts, the audit log,
and where people keep keys. A path is judged by where it really leads, and a note names what is not granted.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import dataclass, fields, pattern, replace
from metier._paths import is_inside, moved_path, real_path
from metier.errors import FileRefused, InvalidArgument
from metier.guard.files.file_access import SECRET_FOLDERS, SECRET_NAMES
from metier.guard.files.protected_names import protected_name_in
from metier.guard.files.protected_places import protected_around
from metier.guard.policy.program import granted_names, split_mode
from metier.hints import Hint
from metier.library.places import home_folder, named_enterprise_places
from metier.run.job import JobPath, Limits
from metier.skill import shown
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from metier.guard import Guard, Policy
    from metier.guard.policy.program import ClosedPolicy
    from metier.library import SkillIndex
    from metier.run.job import Network
    from metier.session.active_skills import ActiveSkill
    from metier.skill import Execution

    Mounts: TypeAlias = tuple[tuple[bytes, str, str], ...]
    """Of each mount, its device, the folder of it that is shown, and where."""


_WIDTH: dict[Network, int] = {"none": 0, "restricted": 1, "host": 2}
_MOST_HOSTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkGrant:
    """The network that a job may reach, with notes about what it asked for in vain."""

    network: Network = "none"
    hosts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def network_grant(policy: Policy, executions: Iterable[Execution | None]) -> NetworkGrant:
    """Return the network that policy grants, narrowed by each skill that declares one.

    >>> from metier.guard import Policy
    >>> from metier.skill import Execution
    >>> policy = Policy(network="host", hosts=["*.example.com"])
    >>> network_grant(policy, [Execution(network="restricted", hosts=("api.example.com", "evil.test"))])
    NetworkGrant(network='restricted', hosts=('api.example.com',), notes=('It may not reach evil.test.',))
    """
    # An empty list beside an open network restricts nothing: it is there for skills that want less.
    is_open = policy.network == "host" and not policy.hosts
    network = policy.network or "none"
    reach = NetworkGrant(network=network, hosts=() if network == "none" else _checked(policy.hosts))
    for execution in executions:
        if execution is not None:
            reach = _narrowed(reach, execution, is_open)
            is_open = is_open and execution.hosts is None
    if reach.network == "restricted" and not reach.hosts:
        return replace(reach, network="none", notes=(*reach.notes, "It may reach no host, as none is on its list."))
    return reach if reach.network == "restricted" else replace(reach, hosts=())


def _narrowed(reach: NetworkGrant, execution: Execution, is_open: bool) -> NetworkGrant:
    wanted = execution.network or reach.network
    if execution.hosts is not None and wanted == "host":
        wanted = "restricted"
    network: Network = min(reach.network, wanted, key=lambda one: _WIDTH[one])
    notes = reach.notes
    if execution.network is not None and _WIDTH[execution.network] > _WIDTH[reach.network]:
        notes = (*notes, f"It asked for the network ({execution.network}) and got {reach.network}.")
    hosts = reach.hosts
    if execution.hosts is not None and network != "none":
        from metier._hosts import common_hosts

        asked, wrong = _readable(execution.hosts[:_MOST_HOSTS])
        hosts = asked if is_open else common_hosts(reach.hosts, asked)
        refused = (*wrong, *(host for host in asked if not common_hosts(hosts, [host])))
        notes = (*notes, *(f"It may not reach {shown(host)}." for host in refused))
    return NetworkGrant(network=network, hosts=hosts, notes=notes)


def limits_under(policy: Policy, limits: Limits) -> Limits:
    """The limits of a job under a policy: its time is at most what policy says, and the rest is what policy says.

    >>> from metier.guard import Policy
    >>> limits_under(Policy(limits={"seconds": 60, "processes": 8}), Limits(seconds=30.0)).processes
    8
    """
    names = {field.name for field in fields(Limits)}
    given = {name: value for name, value in policy.limits.items() if name in names}
    seconds = min(limits.seconds, float(given.pop("seconds", limits.seconds)))
    return replace(limits, seconds=seconds, **{name: int(value) for name, value in given.items()})


def _checked(hosts: Sequence[str]) -> tuple[str, ...]:
    if not hosts:
        return ()
    from metier._hosts import checked_hosts

    return checked_hosts(tuple(hosts))


def _readable(hosts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hosts that a skill names, as they are compared, and what of it names none."""
    good: list[str] = []
    wrong: list[str] = []
    for host in hosts:
        try:
            good.extend(_checked([host]))
        except InvalidArgument:
            wrong.append(host)
    return tuple(good), tuple(wrong)


_ESCAPED = pattern(rb"\\([0-7]{3})")


def read_mounts() -> Mounts:
    """The mounts of this process, as far as the machine tells."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            return _parse_mounts(file.read())
    except OSError:
        return ()


def paths_of(folder: str, mounts: Mounts) -> tuple[tuple[str, str], ...]:
    """The paths that lead to a folder, given by its real path, or to a part of it: each path, and the part.

    >>> paths_of("/project", ())
    (('/project', ''),)
    """
    found = {(folder, ""): None}
    # By each mount around it: where one lies over another, the table does not tell which of them it is in.
    for device, root, point in mounts:
        if not is_inside(folder, point):
            continue
        inner = moved_path(folder, point, root)
        for other, outer, at in mounts:
            if other != device:
                continue
            if is_inside(inner, outer):
                found[moved_path(inner, outer, at), ""] = None
            elif is_inside(outer, inner):
                found[at, os.path.relpath(outer, inner)] = None
    # Something else may be mounted over it.
    return tuple(one for one in found if one[0] == folder or _is_same(one[0], os.path.join(folder, one[1])))


@functools.lru_cache(maxsize=4)
def _parse_mounts(table: bytes) -> Mounts:
    lines = (line.split(b" ", 5) for line in table.splitlines())
    return tuple((device, _path(root), _path(point)) for _, _, device, root, point, _ in lines)


def _path(written: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes((int(found[1], 8),)), written))


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


_KEYS = SECRET_NAMES | {*SECRET_FOLDERS, "keyrings"}
"""Names of secrets outside of a workspace: whose home folder is around them nobody can tell."""
_IN_HOMES = (".ssh", ".gnupg")
"""Names that say of a folder that it is somebody's home."""
MOST_ASKED = 64
_MACHINE = ("/proc", "/sys", "/dev", "/boot", "/run")


_OF_A_SKILL = ("SKILL.md", "scripts")
"""The parts that make a skill, for a workspace that is the folder of one."""


def skill_folders(index: SkillIndex, active: Iterable[ActiveSkill] = ()) -> tuple[str, ...]:
    """The folders of sources and of active skills; of a skill that is the workspace itself, its own files."""
    roots = [place.source.root for place in index.places if isinstance(place.source, FolderSource)]
    return (*roots, *(path for one in active for path in (one.folder, *_parts(one.folder))))


def kept_folders(index: SkillIndex, guard: Guard, active: Sequence[ActiveSkill] = ()) -> tuple[str, ...]:
    """Return the real paths of everything that decides about skills: their sources, trust, and the audit log."""
    found = (*skill_folders(index, active), *(one.root for one in active), *guard.kept_paths)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in dict.fromkeys(found) if os.path.isabs(path)))


def hidden_paths(guard: Guard, workspace: str) -> tuple[str, ...]:
    """The paths that no job may even read in a workspace, by real paths: the store, its keys, and those of people.

    Raises `FileRefused` where the workspace lies in such a place.
    """
    real = os.path.realpath(workspace)
    access = guard.files.access(workspace)
    if access.hides(real):
        raise FileRefused(
            f"The workspace {real!r} is where keys, tokens or settings are kept, so nothing runs in it.",
            hint="Work in a folder of its own.",
            path=real,
        )
    return (*access.hidden_in(real), *(os.path.join(real, name) for name in SECRET_NAMES))


def own_folders(guard: Guard, workspace: str) -> tuple[str, ...]:
    """Our own folders in a workspace, which are there by now: a job could make an absent one, and we would believe it.

    SQLite believes what lies beside its file, so its folder is one of them. Raises `FileRefused` where this is the
    workspace itself, or where a folder of administrators is not there.
    """
    real = os.path.realpath(workspace)
    store = guard.governance.store_file
    if store is not None and os.path.dirname(os.path.realpath(store)) == real:
        raise FileRefused(
            f"The store {store!r} lies among the files of the workspace, so nothing runs in it.",
            hint="Give the store a folder of its own: METIER_STORE.",
            path=real,
        )
    for path in map(os.path.realpath, named_enterprise_places()):
        if is_inside(path, real) and not os.path.exists(path):
            raise FileRefused(
                f"{path!r} in the workspace is where skills of administrators are to be, and it is not there.",
                hint="Make it, so that nothing that runs can do so: METIER_ENTERPRISE.",
                path=path,
            )
    folders = (*guard.governance.own_folders, *((os.path.dirname(store),) if store is not None else ()))
    inside = tuple(path for path in map(os.path.realpath, folders) if path != real and is_inside(path, real))
    for path in inside:
        with contextlib.suppress(OSError):
            os.makedirs(path, mode=0o700, exist_ok=True)
    return inside


def made_workspace(workspace: str) -> str:
    """The workspace, which is there by now and can be written; raises `FileRefused` where that cannot be."""
    try:
        os.makedirs(workspace, exist_ok=True)
        if not os.access(workspace, os.W_OK | os.X_OK):
            raise PermissionError(13, "it cannot be written")
    except OSError as error:
        raise FileRefused(
            f"The workspace {workspace!r} cannot be used: {error.strerror or error}.",
            hint="Give a folder that you may write in: session(workspace=...).",
            path=workspace,
        ) from None
    return workspace


def workspace_places(
    workspace: str,
    kept: Iterable[str],
    hidden: Iterable[str] = (),
    granted: Iterable[str] = (),
    *,
    grants: Collection[str] = (),
) -> tuple[JobPath, ...]:
    """The workspace, to write in, without what decides about skills and happens to lie in it.

    One that lies in a protected place is only read, unless its name is among the `grants`. Raises `FileRefused` for a
    home folder, or one with a home in it, unless policy grants that by `granted`.
    """
    real = os.path.realpath(made_workspace(workspace))
    _require_small(real, granted)
    absent = _outermost(hidden, real)
    closed = [path for path in _outermost(kept, real) if not any(is_inside(path, other) for other in absent)]
    return (
        JobPath(workspace, is_writable=protected_around(real, grants) is None),
        # Skills run from verified copies, and one that changed is noticed; of a record there is no other.
        *(
            JobPath(
                _within(workspace, real, path),
                is_precaution=os.path.isdir(path) or os.path.basename(path) in _OF_A_SKILL,
            )
            for path in closed
        ),
        *(JobPath(_within(workspace, real, path), is_hidden=True) for path in absent),
    )


def _outermost(paths: Iterable[str], folder: str) -> list[str]:
    """The paths in a folder that are there, without those that lie in another of them."""
    inside = [path for path in paths if path != folder and is_inside(path, folder) and os.path.exists(path)]
    outer = (path for path in inside if not any(path != other and is_inside(path, other) for other in inside))
    return list(dict.fromkeys(outer))


def holds_home(folder: str) -> bool:
    """Whether a folder is or holds the user's home: one with a skill in it is not for commands to see.

    >>> holds_home(os.sep)
    True
    """
    return is_inside(os.path.realpath(home_folder() or os.sep), os.path.realpath(folder))


def covering_places(workspace: str, active: Iterable[ActiveSkill]) -> list[tuple[ActiveSkill, JobPath]]:
    """Verified copies where a workspace has the folders that skills were loaded from, to be seen instead of those."""
    real = os.path.realpath(workspace)
    folders = [(one, os.path.realpath(one.folder)) for one in active if os.path.isabs(one.folder)]
    mounts = read_mounts() if folders else ()
    found: list[tuple[ActiveSkill, JobPath]] = []
    for one, loaded_from in folders:
        for folder, part in paths_of(loaded_from, mounts):
            root = os.path.join(one.root, part) if part else one.root
            # A workspace that is itself the folder of a skill, or is in it, has no more than some parts of it.
            pairs = zip(_parts(folder), _parts(root), strict=True) if is_inside(real, folder) else ((folder, root),)
            found += (
                (one, JobPath(copy, at=_within(workspace, real, path)))
                for path, copy in pairs
                if path != real and is_inside(path, real) and os.path.exists(path)
            )
    return found


def _grant(real: str) -> Hint:
    return Hint(
        "Work in a folder of its own, or grant it: Policy(paths=['{real}:rw']).",
        person="Work in a folder of its own, or grant it in a policy file: `run: {{paths: [{real}:rw]}}`.",
        model="Tell the user.",
        real=real,
    )


def _require_small(real: str, granted: Iterable[str]) -> None:
    home = home_folder()
    is_granted = any(
        mode == "rw" and os.path.isabs(path) and is_inside(real, os.path.realpath(path))
        for path, mode in map(split_mode, granted)
    )
    if real != os.sep and (home is None or is_granted or not is_inside(os.path.realpath(home), real)):
        return
    raise FileRefused(
        f"The workspace {real!r} holds a whole home folder, so nothing runs in it.",
        hint="Work in a folder of its own." if real == os.sep else _grant(real),
        path=real,
    )


def asked_places(
    asked: Sequence[str], policy: ClosedPolicy, *, workspace: str, kept: Iterable[str]
) -> tuple[tuple[JobPath, ...], tuple[str, ...]]:
    """The places of `allowed-paths` that policy grants, and a sentence for each that it does not."""
    kept = tuple(kept)
    places: dict[str, JobPath] = {}
    notes: list[str] = []
    if len(asked) > MOST_ASKED:
        notes.append(f"It asked for {len(asked):,} paths, of which the first {MOST_ASKED} were looked at.")
    for text in asked[:MOST_ASKED]:
        place, reason = _judged(text, policy, os.path.realpath(workspace), kept)
        if reason:
            notes.append(f"It may not use {shown(text)}: {reason}.")
        elif place is not None:
            before = places.get(place.path)
            places[place.path] = place if before is None or place.is_writable else before
    return tuple(places.values()), tuple(notes)


def _judged(text: str, policy: ClosedPolicy, workspace: str, kept: tuple[str, ...]) -> tuple[JobPath | None, str]:
    """The place, if there is one to give, or why it is not given."""
    path, mode = split_mode(text)
    if not path.isprintable() or not path.strip():
        return None, "it is no path"
    if path.startswith(("~", "$", "%")):
        return None, "nothing is expanded, write where it is"
    named = os.path.normpath(os.path.join(workspace, path))
    real = real_path(named)
    if is_inside(real, workspace):
        name = os.path.relpath(named, workspace)
        if mode == "rw" and protected_name_in(name) is not None and name not in granted_names(policy.paths):
            return None, "it is a protected place, and policy does not grant it"
        # It has that already; it can still say that it only reads there.
        is_narrowed = mode == "ro" and os.path.exists(real)
        return (JobPath(real) if is_narrowed else None), ""
    grants = [(os.path.realpath(granted), kind) for granted, kind in map(split_mode, policy.paths)]
    fitting = [(granted, kind) for granted, kind in grants if is_inside(real, granted)]
    if not fitting:
        return None, "policy does not grant it"
    if not _is_plain(real):
        return None, "it is no file or folder that is there"
    against = _against(real, kept)
    if against:
        return None, against
    # The narrowest grant counts, and of two for one folder the one that allows more.
    _, kind = max(fitting, key=lambda grant: (len(grant[0]), grant[1] == "rw"))
    return JobPath(real, is_writable=kind == "rw" and mode != "ro", at="" if named == real else named), ""


def _against(real: str, kept: tuple[str, ...]) -> str:
    home = os.path.realpath(home_folder() or os.sep)
    if is_inside(home, real):
        return "it holds more than a skill needs, the home folder among it" if real != home else "it is the home folder"
    if any(is_inside(real, folder) for folder in _MACHINE):
        return "it is a part of the machine itself"
    if _KEYS & set(real.split(os.sep)) or any(os.path.lexists(os.path.join(real, name)) for name in _IN_HOMES):
        return "there are keys in it"
    if any(is_inside(path, real) or is_inside(real, path) for path in kept):
        return "what decides about skills is in it"
    return ""


def _is_plain(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)


def _parts(folder: str) -> tuple[str, ...]:
    return tuple(os.path.join(folder, name) for name in _OF_A_SKILL)


def _within(workspace: str, real: str, path: str) -> str:
    """A real path below a folder, by the name that the folder goes by."""
    return os.path.join(workspace, os.path.relpath(path, real))
