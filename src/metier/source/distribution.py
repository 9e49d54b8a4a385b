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
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import pattern
from metier._paths import default_cache_folder, short_digest, write_file
from metier.errors import SourceUnavailable
from metier.skill import Diagnostic
from metier.source.folder import FolderSource
from metier.source.source import SourceDiagnostic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.source.source import Source

ENTRY_POINT_GROUP = "metier.skills"
SKILLS_FOLDER = ".agents/skills"

_MODULE = pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_SEPARATORS = pattern(r"[-_.]+")
_MAX_METADATA = 32 * 1024 * 1024
_CACHE_FILE = "distributions.json"
_KEPT_STATES = 8
_SETTLED_NS = 10 * 10**9


class InstalledDistribution(NamedTuple):
    """An installed distribution that has skills."""

    name: str
    """Its name in the form in which names are compared."""
    site: str
    """The folder that it is installed in."""
    installed_ns: int
    """When it was installed."""
    points: Mapping[str, str]
    """Its entry points that announce skills: values by name."""
    folders: Sequence[str]
    """The folders of skills among its files."""
    project: str
    """The folder that it is run from, where it is installed as editable."""


def installed_sources() -> tuple[list[Source], list[SourceDiagnostic]]:
    """The skills of all installed distributions; those that were installed last come last."""
    sources: list[Source] = []
    findings: list[SourceDiagnostic] = []
    chosen = _chosen_distributions()
    for found in sorted(_distributions(), key=lambda one: (one.installed_ns, one.name)):
        if chosen is not None and found.name not in chosen:
            continue
        for name, value in sorted(found.points.items()):
            try:
                sources.append(_announced_source(name, value))
            except SourceUnavailable as error:
                note = Diagnostic("entry-point-unusable", None, (name, value, error.message.rstrip(".")))
                findings.append(SourceDiagnostic(f"entry point {name}", note))
        for folder in found.folders:
            path = os.path.join(found.site, *folder.split("/"))
            if os.path.isdir(path):
                sources.append(FolderSource(path, name=found.name, whole_root=False))
        for path in _folders_of_project(found.project) if found.project else ():
            sources.append(FolderSource(path, name=found.name, whole_root=False, contain=found.project))
    return sources, findings


def _chosen_distributions() -> frozenset[str] | None:
    """The distributions whose skills the user wants, by `$METIER_PLUGINS`; None for all of them."""
    written = os.environ.get("METIER_PLUGINS", "")
    names = frozenset(map(normalized_name, written.replace(",", " ").split()))
    return names - {"off"} if written.strip() else None


def normalized_name(name: str) -> str:
    """The name of a distribution in the form in which names are compared.

    >>> normalized_name("Acme_Tools.Extra")
    'acme-tools-extra'
    """
    return _SEPARATORS.sub("-", name).lower()


def recorded_files(record: str) -> dict[str, str]:
    """The hashes of the files of a distribution by their paths, as its list of files has them.

    >>> recorded_files('acme/__init__.py,sha256=x,10\\n"acme/a, b.md",,\\n')
    {'acme/__init__.py': 'sha256=x', 'acme/a, b.md': ''}
    """
    rows = (line.rsplit(",", 2) for line in record.splitlines() if line.count(",") > 1)
    return {path.strip('"').replace('""', '"'): digest for path, digest, _ in rows}


def folders_among(paths: Iterable[str]) -> list[str]:
    """The folders `.agents/skills` that hold a skill, among the paths of a distribution's files.

    >>> folders_among(["acme/.agents/skills/pdf/SKILL.md", "acme/__init__.py"])
    ['acme/.agents/skills']
    """
    found = dict.fromkeys(
        f"{package}/{SKILLS_FOLDER}"
        for package, below, rest in (path.partition(f"/{SKILLS_FOLDER}/") for path in paths)
        if package and below and rest.lower().endswith("/skill.md")
    )
    return [path for path in found if path[0] != "/" and ":" not in path and ".." not in path.split("/")]


def announced_folders(entry_points: str) -> dict[str, str]:
    """The values of the entry points of our group by name, of those that a distribution has."""
    found: dict[str, str] = {}
    section = ""
    for line in map(str.strip, entry_points.splitlines() if ENTRY_POINT_GROUP in entry_points else ()):
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif section == ENTRY_POINT_GROUP and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
    return found


def announced_places(value: str) -> list[tuple[str, str]]:
    """The package and the folder in it that an entry point means, the likeliest first.

    >>> announced_places("acme:data/skills"), announced_places("acme.extra")
    ([('acme', 'data/skills')], [('acme.extra', 'skills'), ('acme', 'extra')])
    """
    package, colon, folder = (part.strip() for part in value.partition(":"))
    parent, _, last = package.rpartition(".")
    return [(package, folder or "skills"), *([(parent, last)] if parent and not colon else [])]


def _distributions() -> list[InstalledDistribution]:
    """All installed distributions that have skills, as far as the files in their folders of metadata tell.

    `importlib.metadata` would parse the metadata of every distribution, which takes longer than all else that a short
    command does. These files too are read only where something was installed since the last time: whoever installs a
    distribution makes the folder of its metadata, or changes the files in it, and its time tells.
    """
    sites = [str(path) or "." for path in sys.path]  # some programs put a `Path` there
    places = [(site, name, _time_of(f"{site}/{name}")) for site in sites for name in _metadata_folders(site)]
    state = short_digest(repr(places).encode(), 32)
    known = _read_cache()
    if state not in known:
        # As for an import, the first distribution of a name on the path is the one that counts.
        first = {_name_in(place[1]): place for place in reversed(places)}
        found = [_read_distribution(name, *place) for name, place in first.items()]
        known = {state: [one for one in found if one.points or one.folders or one.project], **known}
        # What is being installed right now may change again without another time.
        if max((time for *_, time in places), default=0) < time_ns() - _SETTLED_NS:
            _write_cache(known)
    return known[state]


def _metadata_folders(site: str) -> list[str]:
    try:
        return [name for name in os.listdir(site) if name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return []


def _name_in(folder: str) -> str:
    return normalized_name(folder.rpartition(".")[0].partition("-")[0])


def _time_of(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _read_distribution(name: str, site: str, folder: str, installed_ns: int) -> InstalledDistribution:
    def read(file: str) -> str:
        try:
            with open(os.path.join(site, folder, file), "rb", buffering=0) as opened:
                is_small = os.fstat(opened.fileno()).st_size <= _MAX_METADATA
                return opened.read().decode("utf-8", "replace") if is_small else ""
        except OSError:
            return ""

    record = read("RECORD")
    return InstalledDistribution(
        name=name,
        site=site,
        installed_ns=installed_ns,
        points=announced_folders(read("entry_points.txt")),
        folders=folders_among(recorded_files(record)) if f"/{SKILLS_FOLDER}/" in record else [],
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
            names = sorted(name for name in os.listdir(base) if name.isidentifier())
        except OSError:
            continue
        for name in names:
            path = os.path.join(base, name, *SKILLS_FOLDER.split("/"))
            if os.path.isdir(path) and os.path.isfile(os.path.join(base, name, "__init__.py")):
                yield path


def _read_cache() -> dict[str, list[InstalledDistribution]]:
    """The distributions with skills by the state of all folders of metadata that they were found in."""
    folder = default_cache_folder()
    if folder is None:
        return {}
    try:
        with open(os.path.join(folder, _CACHE_FILE), "rb", buffering=0) as file:
            found = json.loads(file.read())
        return {state: [InstalledDistribution(*row) for row in rows] for state, rows in found.items()}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return {}


def _write_cache(known: dict[str, list[InstalledDistribution]]) -> None:
    folder = default_cache_folder()
    if folder is not None:
        kept = dict(list(known.items())[:_KEPT_STATES])
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            write_file(os.path.join(folder, _CACHE_FILE), json.dumps(kept).encode())


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
    for root in _locations(package):
        path = os.path.join(root, *folder.split("/"))
        if os.path.isdir(path):
            # A folder that is one skill can be named as such; what an entry point names is a folder of skills.
            return FolderSource(path, name=name or package, whole_root=skill_name is not None, skill_name=skill_name)
    raise SourceUnavailable(
        f"The package {package!r} has no folder {folder!r}.",
        hint="Check the entry point of the package.",
        package=package,
    )


def _announced_source(name: str, value: str) -> Source:
    *likelier, (package, folder) = announced_places(value)
    for place in likelier:
        with contextlib.suppress(SourceUnavailable):
            return package_source(*place, name=name)
    return package_source(package, folder, name=name)


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
