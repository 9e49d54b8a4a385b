"""Packages that the scripts of a skill declare: which files do so, and for which language.

Python packages are declared by a block of inline metadata in a script (PEP 723) or by `requirements.txt`, those of npm
by `package.json` with its lock. Reading errs on the side of seeing a declaration: a file that cannot be understood
counts as one, and whoever resolves it says what is wrong.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._cache import BoundedCache
from metier.errors import MetierError
from metier.skill.folder import FolderPackage
from metier.skill.package import content_of, entries_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.skill.package import Package

PackageKind: TypeAlias = Literal["python", "npm"]

LANGUAGES: dict[PackageKind, str] = {"python": "Python", "npm": "npm"}
_PLACES = ("", "scripts/")
REQUIREMENTS = tuple(f"{place}requirements.txt" for place in _PLACES)
MANIFESTS = tuple(f"{place}package.json" for place in _PLACES)
MANIFEST_FIELDS = ("dependencies", "optionalDependencies")
"""The fields of a package.json that name packages which a script needs at a run."""
MAX_DECLARATION_BYTES = 8 * 1024 * 1024

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
    found: dict[str, PackageKind] = {}
    for path in sorted(filter(may_declare, paths)):
        data = read(path)
        if path in MANIFESTS:
            if _names_packages(data):
                found[path] = "npm"
        elif requirement_lines(data) if path in REQUIREMENTS else _BEGIN.encode() in data and _has_dependencies(data):
            found[path] = "python"
    return found


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


def _has_dependencies(data: bytes) -> bool:
    import tomllib

    try:
        block = inline_metadata(data)
        return block is not None and bool(tomllib.loads(block).get("dependencies"))
    except (ValueError, RecursionError):
        return True


def _names_packages(data: bytes) -> bool:
    import json

    try:
        manifest = json.loads(data)
        return any(manifest.get(field) for field in MANIFEST_FIELDS)
    except (ValueError, AttributeError, RecursionError):
        return True
