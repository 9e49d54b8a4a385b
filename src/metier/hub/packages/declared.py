"""Declarations of packages, read strictly: plain requirements of Python, and a package.json of npm with its lock."""

from __future__ import annotations

import tomllib
from posixpath import dirname, join
from typing import TYPE_CHECKING, Any

from metier._json_object import parse_object
from metier._lazy import dataclass, field, pattern
from metier.errors import PackagesRefused
from metier.skill import shown
from metier.skill.script_packages import (
    MAX_DECLARATION_BYTES,
    REQUIREMENTS,
    declaring_files,
    inline_metadata,
    requirement_lines,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill.package import Files

MAX_REQUIREMENTS = 500
_PLAIN = "Only plain requirements are read, such as `pandas>=2,<3`: no addresses, paths, options or other files."
_HASH = pattern(r"\s--hash[= ]sha256:([0-9a-f]{64})(?=\s|$)")
_RANGE = pattern(r"(?:npm:(?:@[\w.~-]+/)?[\w.~-]+@)?[^:/]*")
_KEPT = ("name", "version", "dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides")
"""The fields of a package.json that npm gets to see; none of them names a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """All that the scripts of one skill declare."""

    python: tuple[str, ...] = ()
    """Requirements as the index knows them, sorted: `pandas>=2`."""
    hashes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The hashes that a requirements.txt demands, by package."""
    python_versions: tuple[str, ...] = ()
    """The versions of Python that scripts ask for: `>=3.11`."""
    manifest: Mapping[str, Any] | None = None
    lock: Mapping[str, Any] | None = None
    """The package.json and the package-lock.json of npm, without what is no description of packages."""


def declared_by(files: Files) -> Declared:
    """The packages that the files of a skill declare; raises `PackagesRefused` for what is no plain declaration."""
    contents = {path: data for path, (mode, data) in files.items() if mode != "link"}
    found = declaring_files(contents, contents.__getitem__)
    for path in found:
        if len(contents[path]) > MAX_DECLARATION_BYTES:
            raise _refused(path, "it is too large", f"At most {MAX_DECLARATION_BYTES:,} bytes are read.")
    python: set[str] = set()
    versions: set[str] = set()
    hashes: dict[str, frozenset[str]] = {}
    for path in (path for path, kind in found.items() if kind == "python"):
        if path in REQUIREMENTS:
            lines = requirement_lines(contents[path])
        else:
            lines, version = _inline(path, contents[path])
            versions |= {version} if version else set()
        _require_few(len(lines))
        for line in lines:
            name, text, wanted = _requirement(path, line)
            python.add(text)
            if wanted:
                hashes[name] = hashes.get(name, frozenset()) | wanted
    _require_few(len(python))
    manifests = [path for path, kind in found.items() if kind == "npm"]
    if len(manifests) > 1:
        raise _refused(manifests[1], "there is another package.json", "Declare all packages in one of them.")
    manifest, lock = _npm(manifests[0], contents) if manifests else (None, None)
    return Declared(
        python=tuple(sorted(python)),
        hashes=hashes,
        python_versions=tuple(sorted(versions)),
        manifest=manifest,
        lock=lock,
    )


def _require_few(count: int) -> None:
    if count > MAX_REQUIREMENTS:
        raise PackagesRefused(
            f"The skill declares {count:,} packages.", hint=f"At most {MAX_REQUIREMENTS} are resolved."
        )


def _inline(path: str, data: bytes) -> tuple[list[str], str]:
    """The requirements of a script's inline metadata, and the version of Python that it asks for."""
    try:
        block = tomllib.loads(inline_metadata(data) or "")
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its block of inline metadata cannot be read: {error}", "See PEP 723.") from None
    lines, version = block.get("dependencies", []), block.get("requires-python", "")
    if not isinstance(lines, list) or not all(isinstance(one, str) for one in lines) or not isinstance(version, str):
        raise _refused(path, "its dependencies are no list of texts", 'Write `dependencies = ["pandas>=2"]`.')
    return lines, version


def _requirement(path: str, line: str) -> tuple[str, str, frozenset[str]]:
    """The name of a package, its requirement in one spelling, and the hashes that are demanded of it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    hashes = frozenset(_HASH.findall(line))
    try:
        found = Requirement(_HASH.sub("", line).strip())
    except (InvalidRequirement, RecursionError):
        raise _refused(path, f"{shown(line)!r} is no plain requirement", _PLAIN) from None
    if found.url is not None:
        raise _refused(path, f"{shown(line)!r} names an address", _PLAIN)
    return canonicalize_name(found.name), str(found), hashes


def _npm(path: str, contents: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
    manifest = _json(path, contents[path])
    beside = join(dirname(path), "package-lock.json")
    if beside not in contents:
        hint = "`npm install --package-lock-only` writes the package-lock.json that belongs there."
        raise _refused(path, "it has no lock", hint)
    lock = _json(beside, contents[beside])
    if manifest.get("workspaces"):
        raise _refused(path, "it has workspaces", "Declare the packages themselves.")
    for kind in ("dependencies", "optionalDependencies"):
        for name, wanted in _table(path, manifest, kind).items():
            if not isinstance(wanted, str) or not _RANGE.fullmatch(wanted):
                why = f"{shown(name)!r} is {shown(str(wanted))!r}, which no registry has"
                raise _refused(path, why, "Only versions of packages in the registry are installed.")
    if lock.get("lockfileVersion") not in (2, 3):
        raise _refused(beside, "its version is neither 2 nor 3", "npm 7 and later write such a lock.")
    packages = _table(beside, lock, "packages")
    plain = {"name": "skill", "lockfileVersion": 3, "requires": True, "packages": packages}
    return {name: manifest[name] for name in _KEPT if name in manifest}, plain


def _json(path: str, data: bytes) -> dict[str, Any]:
    try:
        return parse_object(data, most=MAX_DECLARATION_BYTES)
    except ValueError as problem:
        raise _refused(path, str(problem), "Correct it; npm's documentation describes it.") from None


def _table(path: str, found: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name, {})
    if not isinstance(value, dict):
        raise _refused(path, f"its {name} are no object", "See the documentation of npm.")
    return value


def _refused(path: str, why: str, hint: str) -> PackagesRefused:
    return PackagesRefused(f"The packages of {shown(path)!r} cannot be installed: {why}.", hint=hint, path=path)
