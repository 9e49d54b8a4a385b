"""Skills that come with installed Python packages. Nothing of a package is imported or executed.

A distribution offers skills in one of two ways. It has them as data files in `<package>/.agents/skills/`, which its
list of files tells; or one line of its `pyproject.toml` names a folder of them, here `skills` in `acme_tools`:

    [project.entry-points."metier.skills"]
    acme-tools = "acme_tools:skills"
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from importlib.machinery import PathFinder
from time import time_ns
from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier._paths import default_cache_folder, write_file
from metier.errors import ArchiveRefused, SourceUnavailable
from metier.skill import Diagnostic
from metier.source.folder import FolderSource
from metier.source.source import SourceDiagnostic, require_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from importlib.metadata import Distribution

    from metier.source.memory import MemorySource
    from metier.source.source import Source

ENTRY_POINT_GROUP = "metier.skills"
SKILLS_FOLDER = ".agents/skills"

_MODULE = pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_LISTED = pattern(r'(?m)^"?([^,"\r\n]+/\.agents/skills)/[^/,"\r\n]+/SKILL\.md"?,')
_MAX_METADATA = 32 * 1024 * 1024
_CACHE_FILE = "distributions.json"
_SETTLED_NS = 10 * 10**9


@dataclass(frozen=True, slots=True)
class InstalledDistribution:
    """An installed distribution, as far as its skills are concerned."""

    name: str
    """Its name in the form in which names are compared."""
    site: str
    """The folder, or the archive, that it is installed in."""
    installed_ns: int
    """When it was installed."""
    points: tuple[tuple[str, str], ...] = ()
    """Its entry points that announce skills: names and values."""
    folders: tuple[str, ...] = ()
    """The folders of skills among its files."""
    project: str = ""
    """The folder that it is run from, where it is installed as editable."""

    @property
    def has_skills(self) -> bool:
        """Whether it may have skills."""
        return bool(self.points or self.folders or self.project)


def installed_sources() -> tuple[list[Source], list[SourceDiagnostic]]:
    """The skills of all installed distributions; those that were installed last come last."""
    sources: list[Source] = []
    findings: list[SourceDiagnostic] = []
    chosen = chosen_distributions()
    for found in sorted(_distributions(), key=lambda one: (one.installed_ns, one.name)):
        if chosen is not None and found.name not in chosen:
            continue
        for name, value in sorted(found.points):
            try:
                sources.append(_announced(value, name))
            except SourceUnavailable as error:
                note = Diagnostic("entry-point-unusable", None, (name, value, error.message.rstrip(".")))
                findings.append(SourceDiagnostic(f"entry point {name}", note))
        for folder in found.folders:
            path = os.path.join(found.site, *folder.split("/"))
            if os.path.isdir(path):
                sources.append(FolderSource(path, name=found.name, whole_root=False))
            elif (zipped := _zipped_source(path, found.name, None)) is not None:
                sources.append(zipped)
        for path in _folders_of_project(found.project) if found.project else ():
            sources.append(FolderSource(path, name=found.name, whole_root=False, contain=found.project))
    return sources, findings


def chosen_distributions() -> frozenset[str] | None:
    """The distributions whose skills the user wants, by `$METIER_PLUGINS`; None for all of them."""
    written = os.environ.get("METIER_PLUGINS", "").strip()
    if not written:
        return None
    return (
        frozenset() if written.lower() == "off" else frozenset(map(normalized_name, written.replace(",", " ").split()))
    )


def normalized_name(name: str) -> str:
    """The name of a distribution in the form in which names are compared.

    >>> normalized_name("Acme_Tools.Extra")
    'acme-tools-extra'
    """
    plain = name.lower().replace("_", "-").replace(".", "-")
    while "--" in plain:
        plain = plain.replace("--", "-")
    return plain


def listed_folders(record: str) -> tuple[str, ...]:
    """The folders of skills that the list of a distribution's files names.

    >>> listed_folders("acme/.agents/skills/pdf/SKILL.md,sha256=x,10\\nacme/__init__.py,,\\n")
    ('acme/.agents/skills',)
    """
    if f"/{SKILLS_FOLDER}/" not in record:
        return ()
    found = dict.fromkeys(_LISTED.findall(record))
    return tuple(path for path in found if path[0] != "/" and ":" not in path and ".." not in path.split("/"))


def announced_folders(entry_points: str) -> tuple[tuple[str, str], ...]:
    """The names and values of the entry points of our group, of those that a distribution has."""
    found = []
    if ENTRY_POINT_GROUP in entry_points:
        section = ""
        for line in map(str.strip, entry_points.splitlines()):
            if line.startswith("[") and line.endswith("]"):
                section = line.strip("[]")
            elif section == ENTRY_POINT_GROUP and line and not line.startswith("#"):
                name, _, value = line.partition("=")
                found.append((name.strip(), value.strip()))
    return tuple(found)


def _distributions() -> list[InstalledDistribution]:
    """All installed distributions that have skills, as far as their own files tell.

    `importlib.metadata` would parse the metadata of every distribution, which takes longer than all else that a short
    command does. It is asked only for what does not lie in folders: archives, eggs, and finders of other programs.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    try:
        if finders != [PathFinder]:
            raise NotADirectoryError
        sites = {site: _metadata_folders(site) for site in (str(path) or "." for path in sys.path)}
    except NotADirectoryError:
        from importlib.metadata import distributions

        # As for an import, the first distribution of a name on the path is the one that counts.
        first: dict[str, InstalledDistribution] = {}
        for one in map(_asked, distributions()):
            first.setdefault(one.name, one)
        return [one for one in first.values() if one.has_skills]
    return _in_folders(sites)


def _asked(distribution: Distribution) -> InstalledDistribution:
    """A distribution as `importlib.metadata` reads it."""
    site = str(distribution.locate_file(""))
    path = str(getattr(distribution, "_path", "")).replace(os.sep, "/")
    folder = path.rpartition("/")[2] or f"{distribution.name}-0.dist-info"

    def read(file: str) -> str:
        try:
            return distribution.read_text(file) or ""
        except (OSError, ValueError):
            return ""

    return _described(site, folder, _time_of(path), read)


def _in_folders(sites: dict[str, list[str]]) -> list[InstalledDistribution]:
    """The distributions in folders of the path; files are read only where something was installed since the last time.

    Whoever installs a distribution makes the folder of its metadata, or changes the files in it: its time tells.
    """
    known = _read_cache()
    states: dict[str, tuple[str, list[InstalledDistribution]]] = {}
    for site, folders in sites.items():
        if not folders:
            continue
        times = {folder: _time_of(f"{site}/{folder}") for folder in folders}
        state = "".join([f"{folder} {times[folder]}\n" for folder in sorted(times)])
        before = known.get(site)
        if before is not None and before[0] == state:
            states[site] = before
        else:
            read = [_described(site, folder, time, _reader(f"{site}/{folder}")) for folder, time in times.items()]
            # What is being installed right now may change again without another time.
            is_settled = max(times.values()) < time_ns() - _SETTLED_NS
            states[site] = (state if is_settled else "", [one for one in read if one.has_skills])
    if any(known.get(site) != state for site, state in states.items() if state[0]):
        _write_cache({site: state for site, state in (known | states).items() if os.path.isdir(site)})
    found: dict[str, InstalledDistribution] = {}
    earlier: list[str] = []
    for site, folders in sites.items():
        for one in states[site][1] if site in states else ():
            if not any(_name_in(folder) == one.name for folder in earlier):
                found.setdefault(one.name, one)
        earlier += folders
    return list(found.values())


def _metadata_folders(path: str) -> list[str]:
    """The folders of metadata in a folder of the path, by name; raises `NotADirectoryError` if it is something else."""
    if os.path.basename(path).lower().endswith(".egg"):
        raise NotADirectoryError
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        raise
    except OSError:
        return []
    return [name for name in names if name.endswith((".dist-info", ".egg-info"))]


def _name_in(folder: str) -> str:
    return normalized_name(folder.rpartition(".")[0].partition("-")[0])


def _time_of(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reader(folder: str) -> Callable[[str], str]:
    def read(name: str) -> str:
        try:
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                is_small = os.fstat(file.fileno()).st_size <= _MAX_METADATA
                return file.read().decode("utf-8", "replace") if is_small else ""
        except OSError:
            return ""

    return read


def _described(site: str, folder: str, time: int, read: Callable[[str], str]) -> InstalledDistribution:
    return InstalledDistribution(
        name=_name_in(folder),
        site=site,
        installed_ns=time,
        points=announced_folders(read("entry_points.txt")),
        folders=listed_folders(read("RECORD")),
        project=_project(read("direct_url.json")),
    )


def _project(direct_url: str) -> str:
    """The folder that an editable distribution is run from, by the record of where it was installed from."""
    if '"editable"' not in direct_url:
        return ""
    from urllib.parse import unquote

    try:
        found = json.loads(direct_url)
        url = found["url"] if found["dir_info"]["editable"] is True else ""
        path = unquote(url[7:] if os.sep == "/" else url[8:]) if url.startswith("file:///") else ""
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
    return path if os.path.isabs(path) and os.path.isdir(path) else ""


def _folders_of_project(project: str) -> Iterator[str]:
    """The folders of skills in the packages of a project, which may have been added since it was installed."""
    for base in (project, os.path.join(project, "src")):
        try:
            with os.scandir(base) as entries:
                names = sorted(entry.name for entry in entries if entry.name.isidentifier() and entry.is_dir())
        except OSError:
            continue
        for name in names:
            path = os.path.join(base, name, *SKILLS_FOLDER.split("/"))
            if os.path.isdir(path) and os.path.isfile(os.path.join(base, name, "__init__.py")):
                yield path


def _read_cache() -> dict[str, tuple[str, list[InstalledDistribution]]]:
    folder = default_cache_folder()
    if folder is None:
        return {}
    try:
        with open(os.path.join(folder, _CACHE_FILE), "rb", buffering=0) as file:
            version, sites = json.loads(file.read() or b"")
        return {site: (state, [_cached(*row) for row in rows]) for site, (state, rows) in sites.items() if version == 1}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return {}


def _cached(
    name: str, site: str, installed_ns: int, points: list[list[str]], folders: list[str], project: str
) -> InstalledDistribution:
    pairs = tuple((str(key), str(value)) for key, value in points)
    return InstalledDistribution(str(name), str(site), int(installed_ns), pairs, tuple(map(str, folders)), str(project))


def _write_cache(states: dict[str, tuple[str, list[InstalledDistribution]]]) -> None:
    from dataclasses import astuple

    folder = default_cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            rows = {site: (state, [astuple(one) for one in found]) for site, (state, found) in states.items()}
            write_file(os.path.join(folder, _CACHE_FILE), json.dumps([1, rows]).encode())


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
    import importlib.util

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
    from metier.source.archive import packages_of
    from metier.source.memory import MemorySource
    from metier.source.unpack import unpack

    archive = path
    while archive and not os.path.isfile(archive):
        parent = os.path.dirname(archive)
        if parent == archive:
            return None
        archive = parent
    prefix = path[len(archive) :].strip(os.sep).replace(os.sep, "/") + "/"
    try:
        from pathlib import Path

        members = unpack(Path(archive))
        below = {path.removeprefix(prefix): member for path, member in members.items() if path.startswith(prefix)}
        packages = packages_of(below, name)
    except ArchiveRefused:
        return None
    require_one(path, packages, skill_name)
    by_folder = {key.rpartition("/")[0] or name: package for key, package in packages.items()}
    return MemorySource(by_folder, name=name, skill_name=skill_name)
