"""Environments of packages that scripts import: where jobs see them, and whether they are what was built.

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

from metier._lazy import pattern
from metier._paths import short_digest, write_file
from metier.errors import PackagesMissing
from metier.hints import for_people
from metier.run.environment import environment_python, find_program
from metier.run.job import JobPath
from metier.skill.script_packages import environments_folder, package_record, read_cached

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from metier.skill.script_packages import PackageKind

CONTENT: dict[PackageKind, str] = {"python": "python-packages", "npm": "node_modules"}
"""The folder with the packages, in an environment of each kind."""
MANIFEST = "manifest.json"
"""The file beside the packages that says what they are for, and what their files were when they were installed."""
_VERSION = pattern(r"python(3\.\d+)")


def mounted(
    folders: Mapping[PackageKind, str], skill_root: str, *, has_view: bool
) -> tuple[tuple[JobPath, ...], dict[str, str]]:
    """The folders of packages as places of a job, and the variables by which interpreters find them.

    A job with a view of its own sees them beside the skill's folder, where `require` and `import` of Node look: the
    cache folder itself is hidden from jobs, where it lies in what they see. Nothing processes `.pth` files on
    `PYTHONPATH`, so that none is executed at a start.
    """
    beside = {kind: os.path.join(os.path.dirname(skill_root), CONTENT[kind]) for kind in folders}
    places = tuple(JobPath(path, at=beside[kind] if has_view else "") for kind, path in folders.items())
    seen = beside if has_view else folders
    variables = {"PYTHONPATH": seen["python"]} if "python" in seen else {}
    if "npm" in folders and not has_view:
        variables["NODE_PATH"] = folders["npm"]
    return places, variables


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


def packages_for(skill: str, digest: str, kinds: Collection[PackageKind]) -> dict[PackageKind, str]:
    """The folder with the packages of each language; raises `PackagesMissing` unless all are there and whole."""
    recorded = package_record(digest).environments
    found: dict[PackageKind, str] = {}
    for kind in sorted(set(kinds)):
        if kind not in recorded:
            raise _missing(skill, "the packages that they declare have not been built.")
        folder = os.path.join(environments_folder(), recorded[kind])
        manifest = read_cached(os.path.join(folder, MANIFEST))
        built = manifest.get("for")
        if built != platform_tag(kind):
            raise _missing(skill, f"their packages are for {built}." if built else "their packages are gone.")
        if not is_whole(folder, kind, manifest):
            raise _missing(skill, "files among their packages are not those that were installed.")
        found[kind] = os.path.join(folder, CONTENT[kind])
    return found


def has_packages(digest: str, packages: Collection[str]) -> bool:
    """Whether exactly these packages were built for a content of a skill, and not deleted since."""
    record = package_record(digest)
    folders = [os.path.join(environments_folder(), name) for name in record.environments.values()]
    return set(record.packages) == set(packages) and all(map(os.path.isdir, folders))


def _missing(skill: str, why: str) -> PackagesMissing:
    return PackagesMissing(
        f"Scripts of skill {skill!r} cannot run: {why}",
        hint=for_people(
            f"`metier packages {skill}` builds them; `metier install` does so for all skills of the lock.",
            model="Tell the user: only they can have packages built.",
        ),
        skill=skill,
    )


def is_whole(folder: str, kind: PackageKind, manifest: Mapping[str, object]) -> bool:
    """Whether an environment has exactly the files that were installed.

    Their states are compared first, as that takes milliseconds. Where they differ, as after the cache was copied, the
    content of every file is read.
    """
    content = os.path.join(folder, CONTENT[kind])
    try:
        state = fingerprint(content)
        if state == manifest.get("state"):
            return True
        if fingerprint(content, reads=True) != manifest.get("content"):
            return False
    except OSError:
        return False
    with contextlib.suppress(OSError):  # or the next run reads all of it again
        write_file(os.path.join(folder, MANIFEST), json.dumps({**manifest, "state": state}).encode())
    return True


def fingerprint(folder: str, *, reads: bool = False) -> str:
    """A digest that changes whenever a file below a folder may have changed; with `reads`, when its content has."""
    import hashlib

    rows = []
    for path, entry in _walk(folder):
        status = entry.stat(follow_symlinks=False)
        identity: object = (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        if reads and entry.is_file(follow_symlinks=False):
            with open(entry.path, "rb") as file:
                identity = hashlib.file_digest(file, "sha256").hexdigest()
        elif reads:
            identity = os.readlink(entry.path) if entry.is_symlink() else "folder"
        rows.append(f"{path}\0{identity}")
    return short_digest("\n".join(sorted(rows)).encode(errors="surrogateescape"), 64)


def _walk(folder: str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{path}/")
