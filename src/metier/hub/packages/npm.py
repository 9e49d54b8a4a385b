"""Packages of npm: the package.json of a skill with its lock, read strictly, and their installation without scripts."""

from __future__ import annotations

import json
import os
import re
from posixpath import dirname, join
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from metier._json_object import parse_object
from metier._lazy import replace
from metier._paths import write_file
from metier.hub.packages.python import refusal
from metier.hub.packages.tools import NPM, npm_program, npm_registry
from metier.skill import shown
from metier.skill.package import MAX_FILE_BYTES
from metier.skill.script_packages import MANIFEST_FIELDS, NPM_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.hub.packages.tools import PackageTools

_RANGE = re.compile(r"(?!\.)(?:npm:(?:@[\w.~-]+/)?[\w.~-]+@)?[^:/]*")
_NAME = r"(?:@[\w.~-]+/)?[.~-]*\w[\w.~-]*"
_PATH = re.compile(rf"node_modules/{_NAME}(?:/node_modules/{_NAME})*")
_VERSION = re.compile(r"[\w.+-]{1,100}")
_INTEGRITY = re.compile(r"sha(?:512|384|256)-[A-Za-z0-9+/=]{40,100}")
_GIVEN = ("name", "version", "dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides")
"""The fields of a package.json that npm gets to see; none of them names a program."""
_NOT_GIVEN = frozenset({"resolved", "hasInstallScript", "license", "funding", "deprecated"})
"""The fields in a lock that it does not: without addresses it asks the registry for what a person was shown."""
_INSTALL = ("--ignore-scripts", "--omit=dev", "--no-bin-links", "--no-audit", "--no-fund", "--no-update-notifier")


def read_npm(
    contents: Mapping[str, bytes], paths: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, Any], tuple[str, ...]]:
    """Read the package.json among files, and its lock; raises for packages that are no files of the registry.

    Returns a line for each package, both files without what is no description of packages, and sentences for the person
    who decides.
    """
    path = paths[0]
    if len(paths) > 1:
        raise refusal(paths[1], "there is another package.json", "Declare all packages in one of them.")
    manifest = _parse(path, contents[path])
    beside = join(dirname(path), "package-lock.json")
    if beside not in contents:
        hint = "`npm install --package-lock-only` writes the package-lock.json that belongs there."
        raise refusal(path, "it has no lock", hint)
    lock = _parse(beside, contents[beside])
    if manifest.get("workspaces"):
        raise refusal(path, "it has workspaces", "Declare the packages themselves.")
    for kind in MANIFEST_FIELDS:
        for name, wanted in _table(path, manifest, kind).items():
            if not isinstance(wanted, str) or not _RANGE.fullmatch(wanted):
                why = f"{shown(name)!r} is {shown(str(wanted))!r}, which no registry has"
                raise refusal(path, why, "Only versions of packages in the registry are installed.")
    if lock.get("lockfileVersion") not in (2, 3):
        raise refusal(beside, "its version is neither 2 nor 3", "npm 7 and later write such a lock.")
    packages = _table(beside, lock, "packages")
    hosts = {urlsplit(address).netloc.rpartition("@")[2] for address in (NPM, *npm_registry().addresses)}
    registries = tuple(f"{scheme}://{host}/" for host in hosts for scheme in ("https", "http"))
    entries = {path: entry for path, entry in packages.items() if path}
    lines = {_read_entry(path, entry, registries) for path, entry in entries.items()}
    if not lines:
        raise refusal(beside, "it names no package", "`npm install --package-lock-only` writes it again.")
    scripts = {_name_at(path) for path, entry in entries.items() if entry.get("hasInstallScript")}
    given = {
        path: {key: value for key, value in entry.items() if key not in _NOT_GIVEN}
        for path, entry in packages.items()
        if isinstance(entry, dict)
    }
    files = {
        "package.json": {name: manifest[name] for name in _GIVEN if name in manifest},
        "package-lock.json": {"name": "skill", "lockfileVersion": 3, "requires": True, "packages": given},
    }
    notes = (f"{shown(name)} has an install script, which is not run." for name in sorted(scripts))
    return tuple(sorted(lines)), files, tuple(notes)


def _parse(path: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_object(data, most=MAX_FILE_BYTES)
    except ValueError as problem:
        raise refusal(path, str(problem), "Correct it; npm's documentation describes it.") from None


def _table(path: str, found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name, {})
    if not isinstance(value, dict):
        raise refusal(path, f"its {name} are no object", "See the documentation of npm.")
    return value


def _name_at(path: str) -> str:
    return path.rpartition("node_modules/")[2]


def _read_entry(path: str, entry: Any, registries: tuple[str, ...]) -> str:
    """The line for a package of a lock; raises for one that is not a file of the registry with a hash."""
    problem, entry = "", entry if isinstance(entry, dict) else {"link": True}
    name = entry.get("name", _name_at(path))
    at, integrity, version = (entry.get(key, "") for key in ("resolved", "integrity", "version"))
    # Of several hashes npm is content with any; those of SHA-1, which old locks have too, do not count.
    known = [one for one in str(integrity).split() if not one.startswith("sha1-")]
    if not _PATH.fullmatch(path) or entry.get("link"):
        problem = "is no package of a registry"
    elif entry.get("inBundle"):
        # That it lies in the file of another package is only said: npm fetches what is not there, without a hash.
        problem = "is bundled with another package, and has no hash of its own"
    elif not isinstance(name, str) or not re.fullmatch(_NAME, name):
        problem = f"is called {shown(str(name))!r}, which is no name"
    elif not isinstance(at, str) or (at and not at.startswith(registries)):
        problem = f"comes from {shown(at if isinstance(at, str) else repr(at))!r}, which is not the registry"
    elif not isinstance(version, str) or not _VERSION.fullmatch(version) or not _INTEGRITY.fullmatch(" ".join(known)):
        problem = "has no version with a hash, one only, of at least SHA-256"
    if problem:
        raise refusal(
            "package-lock.json", f"{shown(path)!r} {problem}", "Only files of the registry with a hash count."
        )
    return f"{NPM_PREFIX}{name}@{version} {known[0]}"


def install_npm(files: Mapping[str, Any], staging: str, tools: PackageTools) -> None:
    """Install what a lock names into a folder; nothing of a package is executed for it."""
    registry, settings = npm_registry(), os.path.join(staging, ".user-npmrc")
    write_file(settings, registry.login.encode())
    registry = replace(registry, variables={**registry.variables, "NPM_CONFIG_USERCONFIG": settings})
    for name, data in files.items():
        write_file(os.path.join(staging, name), json.dumps(data).encode())
    command = (npm_program(), "ci", *_INSTALL, "--loglevel=error", "--cache", ".npm-cache")
    tools.run(command, staging, registry, what="installing the packages of npm")
