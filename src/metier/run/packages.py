"""Environments of packages that scripts import: where they lie, and whether they are what was built.

An environment is a folder in the cache, built once for each list of exact packages (`hub/packages`) and never changed.
A job sees it read-only. Nothing is ever installed for a run: what is missing is an error that names the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier._paths import default_cache_folder, open_own, short_digest, write_file
from metier.errors import PackagesMissing
from metier.hints import for_people
from metier.run.environment import environment_python, find_program
from metier.run.job import JobPath

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from metier.skill.script_packages import PackageKind

CONTENT: dict[PackageKind, str] = {"python": "python-packages", "npm": "node_modules"}
"""The folder with the packages, in an environment of each kind."""
MANIFEST, FILES = "manifest.json", "files.json"
"""What an environment is, and the hash of every file in it; they lie beside the packages."""
_MAX_RECORD = 64 * 1024 * 1024
_VERSION = pattern(r"python(3\.\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPackages:
    """The environments for the scripts of one skill."""

    python: str = ""
    npm: str = ""
    """The folders with packages; empty where there is none."""

    def _folders(self) -> tuple[tuple[PackageKind, str], ...]:
        return ("python", self.python), ("npm", self.npm)

    def variables(self, skill_root: str, *, has_view: bool) -> dict[str, str]:
        """The variables by which interpreters find packages; a job with a view of its own finds those of npm without.

        Nothing processes `.pth` files on `PYTHONPATH`, so that none is executed at a start.
        """
        found = {"PYTHONPATH": _beside(skill_root, "python") if has_view else self.python} if self.python else {}
        if self.npm and not has_view:
            found["NODE_PATH"] = self.npm
        return found

    def places(self, skill_root: str, *, has_view: bool) -> tuple[JobPath, ...]:
        """The places of a job: seen beside the skill's folder, where `require` and `import` of Node look.

        The cache folder itself is hidden from jobs, where it lies in what they see.
        """
        return tuple(
            JobPath(path, at=_beside(skill_root, kind) if has_view else "") for kind, path in self._folders() if path
        )


def _beside(skill_root: str, kind: PackageKind) -> str:
    return os.path.join(os.path.dirname(skill_root), CONTENT[kind])


def environments_folder() -> str:
    """The folder of all environments; raises `PackagesMissing` where there is no cache."""
    cache = default_cache_folder()
    if cache is None:
        raise PackagesMissing(
            "Packages of scripts are kept in the cache, which is off.", hint="Set METIER_CACHE to a folder."
        )
    return os.path.join(os.path.realpath(cache), "environments")


def platform_tag(kind: PackageKind) -> str:
    """The interpreter and machine that an environment is for.

    >>> platform_tag("npm").startswith(sys.platform)
    True
    """
    machine = f"{sys.platform}-{platform.machine()}"
    return f"{machine}-python{python_version(find_program('python3'))}" if kind == "python" else machine


def python_version(program: str) -> str:
    """The version of an interpreter, as `3.12`: by its name where that tells it, else by asking it."""
    if program in (sys.executable, environment_python()):
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    named = _VERSION.fullmatch(os.path.basename(os.path.realpath(program)))
    if named is not None:
        return str(named[1])
    import subprocess

    command = [program, "-I", "-S", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise PackagesMissing(f"{program} does not say its version: {error}.", hint="Install Python.") from None


def record_path(skill_digest: str) -> str:
    """The file that says which environments a content of a skill has."""
    return os.path.join(environments_folder(), "skills", skill_digest.removeprefix("sha256:"))


def has_record(skill_digest: str) -> bool:
    """Whether packages were built for a content of a skill, and not deleted since."""
    recorded = read_record(record_path(skill_digest))
    folders = [os.path.join(environments_folder(), str(name)) for name in recorded.values()]
    return bool(folders) and all(map(os.path.isdir, folders))


def packages_for(skill: str, digest: str, kinds: Collection[PackageKind]) -> ScriptPackages:
    """The environments of a content of a skill; raises `PackagesMissing` unless all are there and whole."""
    recorded = read_record(record_path(digest))
    found: dict[PackageKind, str] = {}
    for kind in sorted(set(kinds)):
        name = recorded.get(kind)
        if not isinstance(name, str) or not name.isalnum():
            raise _missing(skill, "The packages that they declare have not been built.")
        folder = os.path.join(environments_folder(), name)
        manifest = read_record(os.path.join(folder, MANIFEST))
        if manifest.get("for") != platform_tag(kind):
            built = manifest.get("for")
            raise _missing(skill, f"Their packages are for {built}." if built else "Their packages are gone.")
        if not is_whole(folder, kind, manifest):
            raise _missing(skill, "Files among their packages are not those that were installed.")
        found[kind] = os.path.join(folder, CONTENT[kind])
    return ScriptPackages(**found)


def _missing(skill: str, why: str) -> PackagesMissing:
    return PackagesMissing(
        f"Scripts of skill {skill!r} cannot run: {why[0].lower()}{why[1:]}",
        hint=for_people(
            f"`metier packages {skill}` builds them; `metier install` does so for all skills of the lock.",
            model="Tell the user: only they can have packages built.",
        ),
        skill=skill,
    )


def is_whole(folder: str, kind: PackageKind, manifest: dict[str, object]) -> bool:
    """Whether an environment has exactly the files that were installed.

    Their states are compared first, as that takes milliseconds. Where they differ, as after the cache was copied, the
    content of every file is read.
    """
    content = os.path.join(folder, CONTENT[kind])
    try:
        state = state_of(content)
        if state == manifest.get("state"):
            return True
        if hashes_of(content) != read_record(os.path.join(folder, FILES)):
            return False
    except OSError:
        return False
    with contextlib.suppress(OSError):  # or the next run reads all of it again
        write_file(os.path.join(folder, MANIFEST), json.dumps({**manifest, "state": state}).encode())
    return True


def state_of(folder: str) -> str:
    """A short text that changes whenever a file below a folder may have changed."""
    rows = []
    for path, entry in _walk(folder):
        status = entry.stat(follow_symlinks=False)
        identity = (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        rows.append(f"{path}\0{identity}")
    return short_digest("\n".join(sorted(rows)).encode(errors="surrogateescape"), 64)


def hashes_of(folder: str) -> dict[str, str]:
    """The hash of every file below a folder; of a link, where it leads."""
    import hashlib

    found = {}
    for path, entry in _walk(folder):
        if entry.is_symlink():
            found[path] = f"link:{os.readlink(entry.path)}"
        elif entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                found[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _walk(folder: str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{path}/")


def read_record(path: str) -> dict[str, object]:
    """A record of the cache; nothing where it is not there or cannot be read."""
    try:
        with open_own(path) as file:
            found = json.loads(file.read(_MAX_RECORD))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
