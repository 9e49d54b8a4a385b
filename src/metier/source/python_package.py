"""Skills that come inside Python packages: package data, announced by an entry point.

A package offers skills with one line in its `pyproject.toml`:

    [project.entry-points."metier.skills"]
    acme-tools = "acme_tools:skills"

which names the folder `skills` inside the package `acme_tools`. Nothing of the package is imported or executed.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from metier.errors import ArchiveRefused, SourceUnavailable
from metier.skill import Diagnostic
from metier.source.archive import packages_of
from metier.source.folder import FolderSource
from metier.source.memory import MemorySource
from metier.source.source import SourceDiagnostic, require_one
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from metier.source.source import Source

ENTRY_POINT_GROUP = "metier.skills"

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def package_source(
    package: str, folder: str = "skills", *, name: str | None = None, skill_name: str | None = None
) -> Source:
    """The skills in a folder of an installed Python package; `skill_name` replaces the name of the one in it.

    >>> package_source("metier", "bundled").name
    'metier'
    """
    if not _MODULE.fullmatch(package) or ".." in folder.split("/") or folder.startswith("/"):
        raise SourceUnavailable(
            f"{package}:{folder} does not name a folder of a package.", hint='Write "package:folder".'
        )
    label = name or package
    for root in _locations(package):
        path = os.path.join(root, *folder.split("/"))
        if os.path.isdir(path):
            # A folder that is one skill can be named as such; what an entry point names is a folder of skills.
            return FolderSource(path, name=label, whole_root=skill_name is not None, skill_name=skill_name)
        zipped = _zipped_source(path, label, skill_name)
        if zipped is not None:
            return zipped
    raise SourceUnavailable(
        f"The package {package!r} has no folder {folder!r}.",
        hint="Check the entry point of the package.",
        package=package,
    )


def entry_point_sources() -> tuple[list[Source], list[SourceDiagnostic]]:
    """The sources of all installed packages that announce skills, sorted by name."""
    # Costs tens of milliseconds to import, and most calls have no use for it.
    from importlib.metadata import entry_points

    sources: list[Source] = []
    findings: list[SourceDiagnostic] = []
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value))
    for name, value in dict.fromkeys((point.name, point.value) for point in points):
        try:
            sources.append(_announced(value, name))
        except SourceUnavailable as error:
            note = Diagnostic("entry-point-unusable", None, (name, value, error.message.rstrip(".")))
            findings.append(SourceDiagnostic(f"entry point {name}", note))
    return sources, findings


def _announced(value: str, name: str) -> Source:
    """The source that an entry point means: `package:folder`, a package with a `skills` folder, or `package.folder`."""
    package, colon, folder = (part.strip() for part in value.partition(":"))
    if colon:
        return package_source(package, folder or "skills", name=name)
    try:
        return package_source(package, "skills", name=name)
    except SourceUnavailable:
        parent, _, last = package.rpartition(".")
        if not parent:
            raise
        return package_source(parent, last, name=name)


def _locations(package: str) -> list[str]:
    """The folders of a package, found without importing anything of it.

    Only the finders of the import system are asked, and only for the top-level package: asking for one below would
    import those above it.
    """
    top, *below = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, AttributeError, ValueError, KeyError):
        return []
    if spec is None or spec.submodule_search_locations is None:
        return []
    return [os.path.join(location, *below) for location in spec.submodule_search_locations]


def _zipped_source(path: str, name: str, skill_name: str | None) -> MemorySource | None:
    """Skills of a package that is imported from a zip file."""
    archive = path
    while archive and not os.path.isfile(archive):
        parent = os.path.dirname(archive)
        if parent == archive:
            return None
        archive = parent
    prefix = path[len(archive) :].strip(os.sep).replace(os.sep, "/") + "/"
    try:
        members = unpack(Path(archive))
        below = {path.removeprefix(prefix): member for path, member in members.items() if path.startswith(prefix)}
        packages = packages_of(below, name)
    except ArchiveRefused:
        return None
    require_one(path, packages, skill_name)
    by_folder = {key.rpartition("/")[0] or name: package for key, package in packages.items()}
    return MemorySource(by_folder, name=name, skill_name=skill_name)
