"""The request for a sandbox: everything that the launcher process and the supervisor need, computed beforehand."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass
from metier.run.environment import base_environment, which
from metier.run.native import bubblewrap, kernel, seccomp
from metier.run.native.filesystem_view import (
    DEVICES,
    is_covered,
    is_temporary,
    path_in,
    require_plain,
    settings,
    view_of,
)
from metier.run.native.protocol import PROXY_PORT, identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.run.job import Job, JobPath, Limits
    from metier.run.native.filesystem_view import FilesystemView
    from metier.run.protection import Protection

Tier: TypeAlias = Literal["namespaces", "bubblewrap", "landlock"]
"""The kind of sandbox: namespaces of our own, those of bubblewrap, or none, where Landlock alone bounds files."""

Fit: TypeAlias = tuple[object, ...]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

NOBODY = 65_534
"""The user of a job when this process is root, whom no limit on processes binds."""
_NAMESPACES = kernel.NEW_USER | kernel.NEW_NS | kernel.NEW_PID
"""Not those of names and of queues between processes: the filter of system calls lets nobody get at either."""


def request_for(
    job: Job, tier: Tier, *, scratch: str = "", is_endless: bool = False, protections: Iterable[Protection] = ()
) -> SandboxRequest:
    """The request for a job; `scratch` is its folder for temporary files, where it cannot have a private one."""
    view = view_of(job, protections)
    if tier == "landlock":
        require_plain(view)
    # A list without hosts is no network at all, which is simpler to keep.
    network = "none" if job.network == "restricted" and not job.hosts else job.network
    drop = NOBODY if may_drop() else None
    env = _environment(job, view, network, scratch)
    readable, writable = _paths(view, tier, scratch)
    shown = [place for place in view.places if not place.is_hidden]
    asked = {
        "argv": list(job.argv),
        "program": _program(job.argv[0], env["PATH"]),
        "env": env,
        "folder": job.folder,
        # One that stays is watched more seldom: it is idle most of the time, and ours.
        "tick": 1.0 if is_endless else 0.025,
        "limits": _limits(job.limits, is_endless=is_endless),
        "others": _EXTRA[tier] + (_processes_of(os.getuid() if drop is None else drop) if tier == "landlock" else 0),
        "landlock": _rules(readable, writable, tier, [place.path for place in view.places]),
        "writable": _watched(view, tier, scratch),
        "scratch_folders": [
            at for at in _SCRATCH[tier] if not any(at.endswith(place.seen_at) for place in view.places)
        ],
        "scratch": max(job.limits.disk_bytes, 64 * 1024),
        "places": [(place.path, place.seen_at, place.is_writable) for place in shown],
        "hidden": [(place.seen_at, os.path.isdir(place.path)) for place in view.places if place.is_hidden],
        "stand_ins": view.stand_ins,
        "identities": [identity(place.path) for place in shown],
        "is_reusable": tier == "namespaces"
        and network != "restricted"
        and not is_endless
        and len(shown) == len(view.places),
    }
    if tier == "namespaces":
        asked.update(_furniture(view.places, _users(env["HOME"], drop)))
    programs = tuple(program for program in view.programs if not is_covered(program))
    base = _base(tier, network, drop, view.system, programs, view.links)
    if tier == "bubblewrap":
        # The rest of the sandbox is made by a new process, which knows only the request.
        asked.update({name: base.content[name] for name in ("network", "drop", "calls")})
        asked["bubblewrap"] = bubblewrap.command({**base.content, **asked})
    return SandboxRequest(asked, base, _fit(asked, base, view) if asked["is_reusable"] else None)


def _fit(asked: dict[str, Any], base: Base, view: FilesystemView) -> Fit:
    """The properties in which two jobs must agree to use one sandbox: all that it is made of, down to each file."""
    limits = tuple(asked["limits"].values())
    return (base.key, view.places, tuple(asked["identities"]), limits, asked["scratch"], asked["env"]["HOME"])


@dataclass(frozen=True, slots=True)
class Base:
    """The part that the requests of many jobs have in common, which is sent once."""

    content: Mapping[str, Any]
    key: int
    flags: int
    """The namespaces that the launcher process makes."""
    maps_all: bool
    """Whether all users are known in them."""


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """The request for one job."""

    content: Mapping[str, Any]
    base: Base
    fit: Fit | None = None
    """Equal for jobs that can use the same sandbox one after the other."""


_keys = itertools.count(1)


@functools.lru_cache(maxsize=64)
def _base(tier: Tier, network: str, drop: int | None, system: Pairs, programs: Pairs, links: Pairs) -> Base:
    content = {
        "tier": tier,
        "network": network,
        "drop": drop,
        "calls": _call_rules(network, tier),
        "scratch_folders": _SCRATCH[tier],
        "devices": DEVICES,
        # A job that may pass over permissions reads what only root reads there, and it tells about everybody.
        "masked": _ABOUT_ALL if drop is not None else (),
        "links": (*links, *_LINKS),
        "system": (*system, *programs),
        "base_furniture": _base_furniture((*system, *programs)) if tier == "namespaces" else None,
    }
    flags = 0
    if tier == "namespaces":
        flags = _NAMESPACES | (0 if network == "host" else kernel.NEW_NET)
    return Base(content, next(_keys), flags, may_drop())


_EXTRA: dict[Tier, int] = {"namespaces": 2, "bubblewrap": 4, "landlock": 2}
"""Processes and threads of a sandbox that count beside those of the job."""
_SCRATCH: dict[Tier, tuple[str, ...]] = {
    "namespaces": ("/tmp", "/dev/shm"),
    "bubblewrap": ("/proc/{pid}/root/tmp", "/proc/{pid}/root/dev/shm"),
    "landlock": (),
}
"""The job's own folders for temporary files, as its supervisor sees them."""


def _watched(view: FilesystemView, tier: Tier, scratch: str) -> list[str]:
    """The folders that the job may fill, by the names under which its supervisor sees them."""
    # What goes by two names is filled once.
    named = {
        place.path: place.seen_at if tier == "namespaces" else place.path for place in view.places if place.is_writable
    }
    places = tuple(named.values())
    kept = [path for path in places if not any(path.startswith(f"{other}/") for other in places)]
    return [*kept, *([scratch] if scratch else [])]


@functools.cache
def may_drop() -> bool:
    """Whether this process is root and can become somebody else."""
    if os.geteuid() != 0:
        return False
    set_ids = 1 << 6 | 1 << 7
    with open("/proc/self/status") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), 0)
    return effective & set_ids == set_ids


def _program(name: str, path: str) -> str:
    return name if os.sep in name else which(name, path) or name


def _environment(job: Job, view: FilesystemView, network: str, scratch: str) -> dict[str, str]:
    env = {**base_environment(job.folder), **job.env, "PATH": path_in(view), "TMPDIR": scratch or "/tmp"}
    if scratch:
        # Settings of this machine that a job may not read are no reason for git to give up.
        env["GIT_CONFIG_SYSTEM"] = os.path.join(scratch, GIT_SETTINGS)
    if network == "restricted":
        from metier.run.proxy import proxy_variables

        env.update(proxy_variables(PROXY_PORT))
    return env


def _limits(limits: Limits, *, is_endless: bool) -> dict[str, float]:
    return {
        "seconds": 1e9 if is_endless else limits.bounded_seconds,
        # With less than this nothing could be started at all.
        "memory_bytes": max(limits.memory_bytes, 64 * 1024 * 1024),
        "processes": max(limits.processes, 1),
        "file_bytes": max(limits.file_bytes, 0),
        "disk_bytes": max(limits.disk_bytes, 64 * 1024),
        "open_files": max(limits.open_files, 32),
    }


_FAMILIES: dict[str, tuple[int, ...]] = {
    "none": (),
    "restricted": (seccomp.INET, seccomp.INET6),
    "host": (seccomp.INET, seccomp.INET6, seccomp.NETLINK),
}
"""Families of sockets by the network of a job, beside those of the machine itself."""


def _call_rules(network: str, tier: Tier) -> dict[str, Any]:
    """The arguments of the filter for system calls."""
    # Sockets with a name may lie outside of what rules bound here: among the files, or in the network of all.
    is_bounded = tier != "landlock" and (network != "host" or kernel.landlock_version() >= 6)
    families = (*((seccomp.UNIX,) if is_bounded else ()), *_FAMILIES[network])
    return {"families": families, "is_alone": tier != "landlock"}


def _paths(view: FilesystemView, tier: Tier, scratch: str) -> tuple[list[str], list[str]]:
    """The readable and the writable paths, by the names under which the job sees them."""
    readable = [path for _, path in (*view.system, *view.programs, *view.links)]
    writable = [scratch] * bool(scratch)
    for place in view.places:
        # A rule can only add, so that a precaution needs none where there are nothing but rules.
        if tier != "landlock" or not place.is_precaution:
            (writable if place.is_writable else readable).append(place.seen_at if tier != "landlock" else place.path)
    return readable, writable


_LITTLE_OF_PROC = (
    "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime",
    "/proc/version", "/proc/sys/kernel/random", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease",
)  # fmt: skip


def _rules(readable: list[str], writable: list[str], tier: Tier, exact: list[str]) -> dict[str, Any] | None:
    version = kernel.landlock_version()
    if not version:
        return None
    devices = [f"/dev/{name}" for name in DEVICES]
    if tier == "landlock":
        return {
            "version": version,
            "readable": [*readable, *settings(), *_LITTLE_OF_PROC, "/etc/passwd", "/etc/group"],
            "writable": writable,
            "devices": devices,
            "exact": exact,
        }
    # All that there is below the job's own root, it was given.
    return {
        "version": version,
        "readable": ["/"],
        "writable": [*writable, "/tmp", "/dev/shm"],
        "devices": ["/dev"],
        "exact": [],
    }


_ABOUT_ALL = (
    "/proc/kpageflags", "/proc/kpagecount", "/proc/kpagecgroup", "/proc/slabinfo", "/proc/timer_list", "/proc/kcore",
    "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/kmsg", "/proc/sched_debug", "/proc/sysrq-trigger",
)  # fmt: skip
_LINKS = (
    ("/proc/self/fd", "/dev/fd"), ("/proc/self/fd/0", "/dev/stdin"), ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"), ("pts/ptmx", "/dev/ptmx"), ("../usr/lib/os-release", "/etc/os-release"),
)  # fmt: skip


def _base_furniture(system: Pairs) -> dict[str, Any]:
    """The folders and files that every root has before anything is mounted in it."""
    files = {**settings(), **dict.fromkeys((f"/dev/{name}" for name in DEVICES), b"")}
    return _furniture_of(("/dev", "/dev/pts", "/dev/shm", "/etc", "/proc", "/tmp"), files, system)


@functools.lru_cache(maxsize=64)
def _furniture(places: tuple[JobPath, ...], users: tuple[tuple[str, bytes], ...]) -> dict[str, Any]:
    """More of them for one job; those in its own folders for temporary files are made later, when these are there."""
    found = _furniture_of((), dict(users), tuple((place.path, place.seen_at) for place in places))
    return {"furniture": _part(found, is_scratch=False), "in_scratch": _part(found, is_scratch=True)}


def _furniture_of(folders: tuple[str, ...], files: dict[str, bytes], shown: Pairs) -> dict[str, Any]:
    needed = dict.fromkeys(folders)
    for path in files:
        needed.update(dict.fromkeys(_parents(path)))
    for source, path in shown:
        needed.update(dict.fromkeys(_parents(path)))
        if os.path.isdir(source):
            needed[path] = None
        else:
            files.setdefault(path, b"")
    return {"folders": sorted(needed, key=lambda path: path.count("/")), "files": files}


def _part(found: dict[str, Any], *, is_scratch: bool) -> dict[str, Any]:
    def fits(path: str) -> bool:
        return is_temporary(path) == is_scratch

    files = {path: data for path, data in found["files"].items() if fits(path)}
    return {"folders": list(filter(fits, found["folders"])), "files": files}


def _parents(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: at + 1]) for at in range(len(parts))]


GIT_SETTINGS = "gitconfig"


def git_settings() -> bytes:
    """Settings for git, which would not touch a workspace of another user than the job runs as."""
    return b"[safe]\n\tdirectory = *\n" if may_drop() else b""


def _users(home: str, drop: int | None) -> tuple[tuple[str, bytes], ...]:
    """The tables of users and groups: the job's user, and root."""
    user, group = (os.getuid(), os.getgid()) if drop is None else (drop, drop)
    at_home = home if ":" not in home and "\n" not in home else "/"
    others = "" if user == 0 else "root:x:0:0::/:/bin/sh\n"
    groups = "" if group == 0 else "root:x:0:\n"
    return (
        *((("/etc/gitconfig", git_settings()),) if drop is not None else ()),
        ("/etc/passwd", os.fsencode(f"{others}metier:x:{user}:{group}::{at_home}:/bin/sh\n")),
        ("/etc/group", f"{groups}metier:x:{group}:\n".encode()),
    )


def _processes_of(user: int) -> int:
    """The number of processes and threads that a user has now: without a namespace, they count too."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
