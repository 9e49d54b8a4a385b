"""The plan of a job for the virtual shell: the folders that it sees there, and their paths."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import shlex
import time
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier._lazy import dataclass, field
from metier.errors import InvalidArgument, ShellRefused
from metier.guard.files.file_access import FileAccess
from metier.run.host_files import list_folder, load, with_executable_scripts
from metier.run.job import JobPath
from metier.run.virtual.validation import (
    MOST_FILE_BYTES,
    MOST_FILES,
    MOST_SECONDS,
    MOST_TOTAL_BYTES,
    ShellLimits,
    is_inside,
    normal,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from metier.run.host_files import File, FolderContent, Record
    from metier.run.job import Job, Limits


SHELLS = ("bash", "sh")
_SYSTEM = ("/bin", "/usr", "/etc", "/proc", "/dev")
_OWN = ("/tmp",)
"""Folders that every job has for itself, so that those of this machine are never meant."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_MOST_SCRIPT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder that a job can only read."""

    at: str
    folder: str
    key: str
    records: list[Record] = field(repr=False)

    def load(self, limits: ShellLimits) -> list[File]:
        """Its content; the scripts of a skill can be executed."""
        files = load(self.folder, self.records, limits)
        return with_executable_scripts(files) if _is_skill(self.folder) else files


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths by which places of a job are seen, which are the same for every job that has the same."""

    folder: str
    mapped: tuple[tuple[str, str], ...]
    seats: tuple[tuple[JobPath, str, frozenset[str]], ...]
    """A place, where it is seen, and what others lie in it."""


@dataclass(slots=True)
class Plan:
    """The plan of a job, without the contents of files."""

    limits: ShellLimits
    command: str = ""
    folder: str = "/"
    mapped: tuple[tuple[str, str], ...] = ()
    """Folders of this machine and where they are seen, the longest first."""
    mounts: list[Mount] = field(default_factory=list)
    writable: list[tuple[str, str]] = field(default_factory=list)
    """The path by which a folder is seen, and the folder."""
    closed: list[str] = field(default_factory=list)
    """The paths by which places are seen that are not writable, be they in a writable one or not."""
    given: list[tuple[str, str, list[Record]]] = field(default_factory=list)
    """Folders that are copied in: the path, the folder, and its content."""
    total_bytes: int = 0

    @property
    def is_small(self) -> bool:
        """Whether it is little enough to be copied for a single job."""
        return self.total_bytes <= self.limits.total_bytes

    @property
    def folders(self) -> list[str]:
        """Folders that must be there, although nothing may be in them."""
        return [*dict.fromkeys((*(at for at, _ in self.writable), self.folder))]

    @property
    def watched(self) -> list[str]:
        """Folders whose changes are copied out; none is inside another."""
        tops = [at for at, _ in self.writable]
        return [at for at in tops if not any(other != at and is_inside(at, other) for other in tops)]

    def owner(self, path: str) -> str:
        """The innermost writable folder that a path lies in."""
        return max((at for at, _ in self.writable if is_inside(path, at)), key=len, default="")

    def access(self, at: str, folder: str, grants: Collection[str]) -> FileAccess:
        """The closed files of a writable folder: protected names, and each place in it that is not writable."""
        root = os.path.realpath(folder)
        kept = tuple(root + path[len(at.rstrip("/")) :] for path in self.closed if is_inside(path, at))
        return FileAccess(workspace=root, grants=frozenset(grants), read_only=kept)

    def load_files(self) -> list[File]:
        """The files that are copied in."""
        return [
            (at.rstrip("/") + path, kind, mode, content)
            for at, folder, records in self.given
            for path, kind, mode, content in load(folder, records, self.limits)
        ]

    def seen(self, text: str) -> str:
        """A word of a job, as the virtual shell knows it."""
        return _path_in_shell(text, self.mapped)


def planned(job: Job, mount: str, known: KnownFolders) -> Plan:
    """The plan for a job; raises for one that cannot be run here."""
    shell = _shell(job)
    if not all(isinstance(word, str) and "\0" not in word for word in job.argv):
        raise InvalidArgument("The words of a job are text without NUL.", hint="Give text.")
    skills = tuple(
        not place.at and not (place.is_writable or place.is_hidden) and _is_skill(place.path) for place in job.places
    )
    layout = _layout(tuple(job.places), skills, job.folder, mount)
    plan = Plan(limits=_limits(job.limits), folder=layout.folder, mapped=layout.mapped)
    for place, at, inner in layout.seats:
        _add(plan, place, at, inner, known)
    words = [plan.seen(word) for word in job.argv[1:]]
    # A script that `sh` runs stops on an error.
    options = ["-e"] if shell == "sh" and words and not words[0].startswith("-") else []
    env = {
        "HOME": plan.folder,
        **{name: plan.seen(value) for name, value in _checked(job.env).items()},
    }
    # A text alone is run as it is, which spares the interpreter another one.
    text = words[1] if len(words) == 2 and words[0] == "-c" else shlex.join((shell, *options, *words))
    exported = " ".join([f"{name}={shlex.quote(value)}" for name, value in env.items()])
    plan.command = f"{'' if plan.folder == '/' else f'cd {shlex.quote(plan.folder)}; '}export {exported}; {text}"
    return plan


def script_of(job: Job) -> bytes | None:
    """The script that a job would run, if that can be told from its words and files."""
    if not job.argv or os.path.basename(job.argv[0]) not in SHELLS:
        return None
    words = list(job.argv[1:])
    if len(words) >= 2 and words[0] == "-c":
        return words[1].encode()
    if not words or words[0].startswith("-"):
        return None
    path = words[0] if os.path.isabs(words[0]) else os.path.join(job.folder, words[0])
    for place in (*job.places, JobPath(job.folder, is_writable=True)):
        if is_inside(path, place.seen_at):
            real = place.path + path[len(place.seen_at) :]
            folder, name = os.path.split(real)
            try:
                found = load(folder, [(f"/{name}", "f", 0)], ShellLimits(file_bytes=_MOST_SCRIPT))
            except (OSError, ShellRefused):
                return None
            return found[0][3] if found else None
    return None


def _path_in_shell(text: str, mapped: tuple[tuple[str, str], ...]) -> str:
    for host, at in mapped:
        if is_inside(text, host):
            return at.rstrip("/") + text[len(host.rstrip("/")) :] or "/"
    return text


@functools.lru_cache(maxsize=256)
def _layout(given: tuple[JobPath, ...], skills: tuple[bool, ...], folder: str, mount: str) -> Layout:
    mount = normal(mount)
    is_skill = dict(zip(given, skills, strict=True))
    if not any(is_inside(folder, place.seen_at) for place in given if os.path.isabs(folder)):
        given = (*given, JobPath(folder, is_writable=True))
    hidden = {place.seen_at for place in given if place.is_hidden}
    places = [place for place in given if place.is_hidden or place.seen_at not in hidden]
    seen_at: dict[JobPath, str] = {}
    # A skill that lies in another place is seen there, and what lies in one that does not is seen in that.
    for place in places:
        if is_skill.get(place) and not any(other != place and is_inside(place.path, other.seen_at) for other in places):
            at = f"{mount}/{os.path.basename(place.path.rstrip(os.sep))}"
            seen_at[place] = _free(at, seen_at.values())
    moved = tuple((place.path, at) for place, at in seen_at.items())
    for place in places:
        if place not in seen_at:
            seen_at[place] = _free(_seen_at(place, moved, len(seen_at), folder), seen_at.values())
    pairs = [(host, at) for place, at in seen_at.items() for host in dict.fromkeys((place.path, place.seen_at))]
    mapped = tuple(sorted(pairs, key=lambda pair: -len(pair[0])))
    seats = []
    for place, at in seen_at.items():
        if at not in _OWN:
            others = [other for there, other in seen_at.items() if there is not place]
            seats.append((place, at, frozenset(other[len(at) :] for other in others if is_inside(other, at))))
    return Layout(normal(_path_in_shell(folder, mapped)), mapped, tuple(seats))


def _seen_at(place: JobPath, moved: tuple[tuple[str, str], ...], number: int, folder: str) -> str:
    if place.seen_at.startswith("/"):
        at = normal(os.path.normpath(_path_in_shell(place.seen_at, moved)))
    else:
        at = "/workspace" if place.path == folder else f"/places/{number}"
    if at != "/" and any(is_inside(at, system) for system in _SYSTEM):
        raise ShellRefused(
            f"A job cannot be given {place.path!r:.200} in the virtual shell.", hint="Use another folder."
        )
    return at


def _free(at: str, taken: Collection[str]) -> str:
    while at in taken:
        at += "-2"
    return at


def _add(plan: Plan, place: JobPath, at: str, inner: frozenset[str], known: KnownFolders) -> None:
    path = place.path
    if not place.is_writable:
        plan.closed.append(at)
    if place.is_hidden:
        return
    if os.path.isfile(path) and not os.path.islink(path):
        folder, name = os.path.split(path)
        plan.given.append((at.rpartition("/")[0] or "/", folder, [(f"/{name}", "f", 0o644)]))
        return
    if at == "/":
        # The root of the shell is its own; only the folder of a job that has no other is meant by it.
        return
    if not place.is_writable and not inner:
        found, key = known.look(path, plan.limits)
        plan.mounts.append(Mount(at, path, key, found.records))
    else:
        found = list_folder(path, plan.limits, skipped=inner)
        # What is writable cannot be inside of what is only read: so that is a copy too, and dropped in the end.
        plan.given.append((at, path, found.records))
        if place.is_writable:
            plan.writable.append((at, path))
    plan.total_bytes += found.total_bytes


def _is_skill(path: str) -> bool:
    if os.path.lexists(f"{path}/SKILL.md"):
        return True
    try:
        return any(name.casefold() == "skill.md" for name in os.listdir(path))
    except OSError:
        return False


def _shell(job: Job) -> str:
    name = os.path.basename(job.argv[0]) if job.argv and isinstance(job.argv[0], str) else ""
    if name not in SHELLS:
        raise ShellRefused(
            f"The virtual shell cannot run {name!r:.80}.",
            hint="It runs bash and sh; use the native runner for the rest.",
        )
    return name


@functools.lru_cache(maxsize=64)
def _limits(limits: Limits) -> ShellLimits:
    try:
        return ShellLimits(
            seconds=min(float(limits.seconds), MOST_SECONDS),
            output_bytes=min(limits.output_bytes, 8 * 1024 * 1024),
            file_bytes=min(limits.file_bytes, MOST_FILE_BYTES),
            total_bytes=min(limits.disk_bytes, MOST_TOTAL_BYTES),
            files=MOST_FILES,
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgument("The limits of the job are no numbers.", hint="Give positive numbers.") from error


def _checked(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str) or "\0" in value or not _NAME(name):
            raise InvalidArgument(f"{name!r:.80} cannot be set as a variable.", hint="Give names and text.")
    return env


_MOST = 64
_TICK_NS = 100_000_000
"""A file that was changed this short a time ago may be changed again without a sign: the clocks of files are coarse."""


class KnownFolders:
    """Read-only folders: listed once, and again only when something in them has changed.

    The key of a folder is the same for the same folder in the same state.
    """

    def __init__(self) -> None:
        self._found: BoundedCache[str, tuple[FolderContent, str, ShellLimits]] = BoundedCache(_MOST)

    def look(self, folder: str, limits: ShellLimits) -> tuple[FolderContent, str]:
        """List a folder as `list_folder` does, but only if it is not known to be unchanged."""
        known = self._found.get(folder)
        if known is not None and known[2] == limits and known[0].is_current(folder):
            return known[0], known[1]
        found = list_folder(folder, limits)
        if time.time_ns() - max(found.changed_ns) <= _TICK_NS:
            return found, secrets.token_hex(32)
        key = hashlib.sha256(repr((found.records, found.stamps)).encode()).hexdigest()
        self._found[folder] = found, key, limits
        return found, key
