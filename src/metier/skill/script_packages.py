"""Packages that the scripts of a skill declare: which files do so, for which language, and what they were resolved to.

Python packages are declared by a block of inline metadata in a script (PEP 723) or by `requirements.txt`, those of npm
by `package.json` with its lock. Reading errs on the side of seeing a declaration: a file that cannot be understood
counts as one, and whoever resolves it says what is wrong.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from metier._cache import BoundedCache
from metier._paths import default_cache_folder, open_own, short_digest
from metier.errors import MetierError, PackagesMissing
from metier.skill.folder import FolderPackage
from metier.skill.package import content_of, entries_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from metier.skill.package import Package

PackageKind: TypeAlias = Literal["python", "npm"]

LANGUAGES: dict[PackageKind, str] = {"python": "Python", "npm": "npm"}
_PLACES = ("", "scripts/")
REQUIREMENTS = tuple(f"{place}requirements.txt" for place in _PLACES)
MANIFESTS = tuple(f"{place}package.json" for place in _PLACES)
MANIFEST_FIELDS = ("dependencies", "optionalDependencies")
"""The fields of a package.json that name packages which a script needs at a run."""
NPM_PREFIX = "npm:"
"""Before the packages of npm, in a list with those of Python."""
_MAX_RECORD = 16 * 1024 * 1024

_BEGIN, _END = "# /// script", "# ///"
_declared: BoundedCache[str, dict[str, PackageKind]] = BoundedCache(512)


def declared_packages(package: Package, digest: str, copy: str = "") -> dict[str, PackageKind]:
    """The files of the content of a digest that declare packages; raises `SkillChanged` where it is another by now.

    It is read from the folder of a `copy`, where there is a whole one, as the files of the package may have changed.
    """
    found = _declared.get(digest)
    if found is None:
        with contextlib.suppress(MetierError):
            found = _declaring(FolderPackage(copy), digest) if copy else None
        found = _declared[digest] = _declaring(package, digest) if found is None else found
    return found


def knows_packages(digest: str) -> bool:
    """Whether it is known which packages the content of a digest declares."""
    return digest in _declared


def _declaring(package: Package, digest: str) -> dict[str, PackageKind]:
    entries = {one.path: one for one in entries_of(package, digest) if one.mode != "link"}
    return declaring_files(entries, lambda path: content_of(package, entries[path]))


def may_declare(path: str) -> bool:
    """Whether a file of this path can declare packages.

    >>> may_declare("scripts/fill.py"), may_declare("requirements.txt"), may_declare("references/requirements.txt")
    (True, True, False)
    """
    return path in REQUIREMENTS or path in MANIFESTS or (path.endswith(".py") and kind_of(path) == "script")


def declaring_files(paths: Iterable[str], read: Callable[[str], bytes]) -> dict[str, PackageKind]:
    """The files that declare packages, with their language, sorted by path; `read` gives the content of one.

    >>> files = {"requirements.txt": b"pypdf>=5", "package.json": b"{}", "SKILL.md": b"..."}
    >>> declaring_files(files, files.__getitem__)
    {'requirements.txt': 'python'}
    """
    return {
        path: "npm" if path in MANIFESTS else "python"
        for path in sorted(filter(may_declare, paths))
        if _declares(path, read(path))
    }


def _declares(path: str, data: bytes) -> bool:
    import json
    import tomllib

    if path in REQUIREMENTS:
        return bool(requirement_lines(data))
    try:
        if path in MANIFESTS:
            manifest = json.loads(data)
            return any(manifest.get(field) for field in MANIFEST_FIELDS)
        return _BEGIN.encode() in data and bool(tomllib.loads(inline_metadata(data) or "").get("dependencies"))
    except (ValueError, AttributeError, RecursionError):
        return True  # and whoever resolves it says what is wrong


def requirement_lines(data: bytes) -> list[str]:
    """The lines of a requirements.txt without comments, each with the lines that continue it."""
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n").replace("\\\n", " ")
    lines = (line.split(" #")[0].strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def inline_metadata(data: bytes) -> str | None:
    """The TOML of a script's block of inline metadata; None without one. Raises `ValueError` for two of them.

    >>> inline_metadata(b"# /// script\\n# dependencies = ['pypdf']\\n# ///\\nprint(1)\\n")
    "dependencies = ['pypdf']\\n"
    """
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    blocks = list(_blocks(text.split("\n")))
    if len(blocks) > 1:
        raise ValueError("it has two blocks of inline metadata")
    return "".join(f"{line[2:]}\n" for line in blocks[0]) if blocks else None


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The lines of each block, between its first and its last; each line is looked at once, however many begin one."""
    block: list[str] | None = None
    for line in lines:
        plain = line.rstrip(" \t")
        if block is not None and line != "#" and not line.startswith("# "):
            block = None  # one without an end is a comment
        elif block and plain == _END:
            yield block
            block = None
        elif block is not None:
            block.append(line)
        elif plain == _BEGIN:
            block = []


class PackageRecord(NamedTuple):
    """The packages that one content of a skill was given."""

    packages: tuple[str, ...] = ()
    """Exact versions with hashes, as a lock names them."""
    environments: Mapping[str, str] = {}
    """The name of the folder with the packages of each language."""


def package_record(digest: str) -> PackageRecord:
    """The record of the packages for the content of a digest; an empty one where nothing was resolved for it."""
    try:
        found = read_cached(record_path(digest))
    except PackagesMissing:
        return PackageRecord()
    packages, environments = found.get("packages"), found.get("environments")
    if not isinstance(packages, list) or not isinstance(environments, dict):
        return PackageRecord()
    names = {kind: name for kind, name in environments.items() if isinstance(name, str) and name.isalnum()}
    return PackageRecord(tuple(map(str, packages)), names)


def grant_of(packages: Collection[str]) -> str:
    """The grant that an approval of exactly these packages has; empty where the content of the skill names them itself.

    A lock of npm is part of the content, and approved with it. Python packages are resolved from outside of it: by an
    index, or by a `metier.lock` that anybody may have changed.

    >>> grant_of(["npm:ms@2.1.3 sha512-..."]), grant_of(["tiny==1.0 --hash=sha256:..."])[:17]
    ('', 'packages:a6582dc9')
    """
    lines = sorted(line for line in packages if not line.startswith(NPM_PREFIX))
    return f"packages:{short_digest(chr(10).join(lines).encode(), 64)}" if lines else ""


def package_names(packages: Iterable[str]) -> tuple[str, ...]:
    """The packages of a list with their versions, for people: `pandas==3.0.1`."""
    return tuple(line.split(" ")[0] for line in packages)


def environments_folder() -> str:
    """The folder of all environments; raises `PackagesMissing` where there is no cache."""
    cache = default_cache_folder()
    if cache is None:
        raise PackagesMissing(
            "Packages of scripts are kept in the cache, which is off.", hint="Set METIER_CACHE to a folder."
        )
    return os.path.join(os.path.realpath(cache), "environments")


def record_path(digest: str) -> str:
    """The file of the record for the content of a digest."""
    return os.path.join(environments_folder(), "skills", digest.removeprefix("sha256:"))


def read_cached(path: str) -> dict[str, Any]:
    """A JSON object of the cache; an empty one where it is not there or cannot be read."""
    from metier._json_object import parse_object  # few skills have packages

    try:
        with open_own(path) as file:
            return parse_object(file.read(_MAX_RECORD + 1), most=_MAX_RECORD)
    except (OSError, ValueError):
        return {}
