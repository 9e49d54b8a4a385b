"""The filesystem view of a job: programs with their files, and its own places. Nothing else is there.

It is computed before anything is started; `mounts` makes a root of it, and `landlock` makes rules of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

from metier._lazy import dataclass, replace
from metier._paths import is_inside, moved_path
from metier.errors import InvalidArgument, IsolationMissing
from metier.hints import NO_ISOLATION
from metier.run.environment import environment_python, own_python, package_folder, programs_behind, search_path, which
from metier.run.job import JobPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.run.job import Job
    from metier.run.protection import Protection

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_SETTINGS = (
    "alternatives", "fonts", "ImageMagick-6", "ImageMagick-7", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
    "pki/ca-trust/extracted", "pki/tls/certs", "ssl/certs", "texmf",
)  # fmt: skip
"""Folders of `/etc` that programs read and that tell nothing about anybody."""
_SMALL_SETTINGS = (
    "hosts", "ld.so.cache", "localtime", "nsswitch.conf", "pki/tls/openssl.cnf", "ssl/openssl.cnf",
)  # fmt: skip
"""Files of the same kind. What they say is copied, which is less work than to show them."""
_FOR_NAMES = ("resolv.conf", "host.conf", "gai.conf", "protocols", "services")
"""More of them for a job that finds hosts by itself."""
_SMALL = 256 * 1024
DEVICES = ("null", "zero", "full", "random", "urandom")
_NEVER = ("/", "/dev", "/etc", "/proc", "/sys", *_SYSTEM)
"""Folders that a job has of its own, or sees as they are."""
_NO_PREFIX = (*_NEVER, "/home", "/root", "/run", "/tmp", "/var")
"""Folders that no program is installed in as a whole."""


@dataclass(frozen=True, slots=True)
class FilesystemView:
    """The paths a job sees. Each place is shown inside those that come before it."""

    programs: tuple[tuple[str, str], ...]
    """Interpreters that are installed outside of the system's own folders: what is shown, and its path."""
    system: tuple[tuple[str, str], ...]
    """Programs and what they read, under their own names, never written."""
    links: tuple[tuple[str, str], ...]
    """Links at the top, such as `/bin` to `usr/bin`: where each leads, and its path."""
    places: tuple[JobPath, ...]
    """The places that this job was given, the outermost first."""
    stand_ins: tuple[tuple[str, str], ...] = ()
    """Empty folders in them, which take names that the job must not make: each, and its path."""


def view_of(job: Job, protections: Iterable[Protection] = ()) -> FilesystemView:
    """The view of a job; raises for a place that is not there, or leads elsewhere by a link."""
    programs = _roots_of(job.argv[0] if job.argv else "", search_path())
    system, links = _system()
    more = _settings(_FOR_NAMES) if job.network == "host" else ()
    by_folder = {protection.folder: protection for protection in protections}
    places = given_places(job)
    stand_ins = [
        (path, moved_path(path, place.path, place.seen_at))
        for place in places
        if place.is_writable and place.path in by_folder
        for path in by_folder[place.path].stand_ins
        if not _is_replaced(path, place, places)
    ]
    return FilesystemView(
        programs=programs,
        system=(*system, *more),
        links=links,
        places=_places(places, programs, by_folder),
        stand_ins=tuple(dict.fromkeys(stand_ins)),
    )


@functools.lru_cache(maxsize=64)
def path_in(view: FilesystemView) -> str:
    """The folders with programs for the job: those of this process's path that it sees, and those of interpreters."""
    seen = [path for _, path in (*view.system, *view.programs, *view.links)]
    known = [folder for folder in search_path().split(os.pathsep) if any(is_inside(folder, root) for root in seen)]
    more = [folder for _, root in view.programs if os.path.isdir(folder := os.path.join(root, "bin"))]
    return os.pathsep.join(dict.fromkeys((*known, *more, "/usr/local/bin", "/usr/bin", "/bin")))


@functools.cache
def settings() -> dict[str, bytes]:
    """Small files of `/etc` that programs read, with what is in them."""
    found = {}
    for name in _SMALL_SETTINGS:
        with contextlib.suppress(OSError), open(f"/etc/{name}", "rb") as file:
            found[f"/etc/{name}"] = file.read(_SMALL)
    return found


def require_plain(view: FilesystemView) -> None:
    """Raise for places that need a view of their own, which Landlock alone cannot give: it can only add."""
    for place in view.places:
        if place.path != os.path.realpath(place.seen_at):
            raise IsolationMissing(
                f"This machine cannot show a job {place.path!r:.200} as {place.seen_at!r:.200}.",
                hint=NO_ISOLATION,
                missing=["view"],
            )
        if not place.is_writable and not place.is_precaution:
            for outer in view.places:
                if outer.is_writable and is_inside(place.path, outer.path):
                    raise IsolationMissing(
                        f"This machine cannot keep a job from writing {place.path!r:.200} in {outer.path!r:.200}.",
                        hint=NO_ISOLATION,
                        missing=["view"],
                    )


def is_temporary(path: str) -> bool:
    """Whether it is where a job has a folder of its own for temporary files.

    >>> is_temporary("/tmp/venv"), is_temporary("/tmp")
    (True, False)
    """
    return path.startswith(("/tmp/", "/dev/shm/"))


def is_covered(program: tuple[str, str]) -> bool:
    """Whether a job's own folders for temporary files would be in the way of a program, or of where it is shown."""
    return any(map(is_temporary, program))


def given_places(job: Job) -> list[JobPath]:
    """The places that a job was given, its working folder included.

    A folder that is named by a link is there under its own path too, and is the same by both: whatever is closed in it,
    or shown there instead, is so by both.
    """
    given = [_checked(place) for place in job.places]
    for place in tuple(given):
        if place.seen_at != place.path == os.path.realpath(place.seen_at):
            given += _mirrored(given, place.seen_at, place.path)
    folder = _normal(job.folder)
    if not any(is_inside(folder, place.seen_at) for place in given):
        working = _checked(JobPath(job.folder, is_writable=True))
        given += _mirrored(given, working.path, working.seen_at) or (working,)
    return given


def _mirrored(given: list[JobPath], seen: str, at: str) -> list[JobPath]:
    """The places that a job sees at a path, for another path as well; none if the path is in none of its places."""
    around = [place for place in given if is_inside(seen, place.seen_at)]
    if not around or any(place.seen_at == at for place in given):
        return []
    outer = max(around, key=lambda place: len(place.seen_at))
    top = replace(outer, path=moved_path(seen, outer.seen_at, outer.path), at=at)
    inside = (place for place in given if place.seen_at != seen and is_inside(place.seen_at, seen))
    return [top, *(replace(place, at=moved_path(place.seen_at, seen, at)) for place in inside)]


def _places(
    given: list[JobPath], programs: tuple[tuple[str, str], ...], protections: Mapping[str, Protection]
) -> tuple[JobPath, ...]:
    kept = _covered(programs, given)
    for place in given:
        if place.is_writable:
            closed = protections[place.path].before.closed if place.path in protections else ()
            # What is given by name to be written is not closed by what it lies in.
            closed = tuple(path for path in closed if not any(one.is_writable and one.path == path for one in given))
            closed = tuple(path for path in closed if not _is_replaced(path, place, given))
            kept += (*_protected(place, closed), *_pins(place, given))
    order = dict.fromkeys((*given, *kept))
    return tuple(sorted(order, key=lambda place: (place.seen_at.count("/"), not place.is_writable)))


def _is_replaced(path: str, place: JobPath, given: list[JobPath]) -> bool:
    """Whether the job sees nothing, or something else that it cannot write, where a writable place has this path."""
    seen = moved_path(path, place.path, place.seen_at)
    return any(
        not other.is_writable
        and is_inside(seen, other.seen_at)
        and is_inside(other.seen_at, place.seen_at)
        and (other.is_hidden or other.path != moved_path(other.seen_at, place.seen_at, place.path))
        for other in given
    )


def _covered(programs: tuple[tuple[str, str], ...], given: list[JobPath]) -> list[JobPath]:
    """Programs among temporary files, as places: those are held before anything covers them, and looked after.

    In what the job was given, they are there already. Where there are nothing but rules, nothing covers them.
    """
    return [
        JobPath(path, at=at, is_precaution=True)
        for path, at in filter(is_covered, programs)
        if os.path.exists(path) and not any(is_inside(at, place.seen_at) for place in given)
    ]


def _protected(place: JobPath, closed: Iterable[str]) -> list[JobPath]:
    """The paths in a writable place that are not to be written, as somebody outside would run it."""
    roots = (root for root in _own_roots() if root != place.path and is_inside(root, place.path))
    found: list[JobPath] = []
    for path in (*closed, *roots):
        *above, last = _steps(place, path)
        found += [*above, replace(last, is_writable=False)]
    return found


def _pins(place: JobPath, given: list[JobPath]) -> list[JobPath]:
    """The folders between a writable place and those in it that are only to be read, which must not be moved away."""
    inside = [other.seen_at for other in given if not other.is_writable and is_inside(other.seen_at, place.seen_at)]
    paths = [moved_path(seen, place.seen_at, place.path) for seen in inside if seen != place.seen_at]
    return [step for path in paths for step in _steps(place, path)[:-1] if os.path.isdir(step.path)]


def _steps(place: JobPath, path: str) -> list[JobPath]:
    """Each step from a place to a path in it. Mounted on itself, a folder stays what it is, and cannot be renamed."""
    parts = os.path.relpath(path, place.path).split(os.sep)
    return [
        JobPath(
            os.path.join(place.path, *parts[:at]),
            is_writable=True,
            at=os.path.join(place.seen_at, *parts[:at]),
            is_precaution=True,
        )
        for at in range(1, len(parts) + 1)
    ]


@functools.cache
def _own_roots() -> tuple[str, ...]:
    """The folders that this very process runs from: a job that can write there is no longer in a sandbox."""
    package = os.path.join(package_folder(), "metier")
    programs = (environment_python(), own_python())
    paths = (sys.prefix, sys.exec_prefix, sys.base_prefix, package, *map(os.path.dirname, programs))
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def _checked(place: JobPath) -> JobPath:
    """A place with the path that it really has; where it is seen stays as it was named."""
    real = place.real_path()
    seen = _normal(place.at or place.path)
    if "\0" in seen or not os.path.isabs(seen) or seen in _NEVER:
        raise InvalidArgument(
            f"No job can be shown {place.path!r:.80} as {seen!r:.80}.", hint="Name a folder below those at the top."
        )
    return replace(place, path=real, at=seen)


def _normal(path: str) -> str:
    # Two slashes at the beginning mean no more than one here, but would be kept.
    return os.path.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)


@functools.cache
def _system() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    folders, links = [], []
    for path in _SYSTEM:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            links.append((os.readlink(path), path))
        else:
            folders.append((path, path))
    return (*folders, *_settings(_SETTINGS)), tuple(links)


def _settings(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((os.path.realpath(path), path) for name in names if os.path.exists(path := f"/etc/{name}"))


@functools.lru_cache(maxsize=64)
def _roots_of(program: str, path: str) -> tuple[tuple[str, str], ...]:
    """The folders of a program, and of the Python of this process, if these are not the system's own.

    Scripts are run by an interpreter that may belong to a user: below a home folder, in a virtual environment.
    """
    found: dict[str, None] = {}
    wanted = [which(name, path) for name in (program, "python3", "node")]
    for name in (*wanted, environment_python(), own_python()):
        if not name or not os.path.isabs(name):
            continue
        for step in programs_behind(name):
            root = _prefix(step)
            # A folder that is a link is shown under its own name too, as other links lead through it.
            for path in dict.fromkeys((root, os.path.realpath(root))) if root is not None else ():
                if not any(is_inside(path, system) for system in (*_SYSTEM, *found)):
                    found[path] = None
    return tuple((os.path.realpath(root), root) for root in found)


def _prefix(program: str) -> str | None:
    """The folder that a program is installed in as a whole; only itself where that cannot be told."""
    folder, bin_folder = os.path.split(os.path.dirname(program))
    if bin_folder == "shims":
        return None  # a script of a version manager, which needs far more than itself
    home = os.path.expanduser("~")
    # In ~/.local lies much that is no program.
    is_shared = folder in (*_NO_PREFIX, os.path.join(home, ".local")) or is_inside(home, folder)
    is_installed = os.path.isdir(os.path.join(folder, "lib")) or os.path.exists(os.path.join(folder, "pyvenv.cfg"))
    if bin_folder == "bin" and is_installed and not is_shared:
        return folder
    return program if os.path.exists(program) else None
