"""The skills that `metier scan` scans, and the assignment of other scanners' findings to them."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

import metier.source
from metier._lazy import dataclass, field, replace
from metier.cli.output import Style
from metier.cli.parser import library_of
from metier.cli.validate import folder_of, skills_at
from metier.errors import ArchiveRefused, MetierError, SourceUnavailable
from metier.scan.sarif import THE_SKILL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.scan.finding import Finding
    from metier.skill import Package


class ScanTarget(NamedTuple):
    """A skill that was found."""

    location: str
    """The path of its SKILL.md."""
    folder: str
    """The name of its folder."""
    package: Package


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTargets:
    """The skills to scan, each once."""

    found: dict[str, ScanTarget] = field(default_factory=dict)
    """By location."""
    missing: list[str] = field(default_factory=list)
    """Arguments that are neither a path nor the name of a skill."""
    refused: dict[str, str] = field(default_factory=dict)
    """Archives that were not opened, each with the reason."""


def targets_of(options: Namespace) -> ScanTargets:
    """Find the skills at the named paths, or of those names; raises `SourceUnavailable` where there are none."""
    places = ScanTargets()
    for path in options.paths:
        if os.path.lexists(metier.source.expanded(path)):
            try:
                found = list(_at_path(path))
            except ArchiveRefused as error:
                places.refused[path] = error.message
                continue
        else:
            found = _by_name(path, options)
            places.missing.extend([] if found else [path])
        for place in found:
            places.found.setdefault(place.location, place)
    if len(places.missing) == len(options.paths):
        raise SourceUnavailable(
            f"There is no {places.missing[0]!r}.",
            hint="Name a SKILL.md, a folder, an archive, or a skill of `metier list`.",
        )
    return places


def _at_path(path: str) -> Iterator[ScanTarget]:
    source, keys, findings = skills_at(path)
    for finding in findings:
        if finding.diagnostic.severity != "info":
            print(f"note: {Style.text(finding.diagnostic.message, 1_000)}", file=sys.stderr)
    if not keys:
        raise SourceUnavailable(
            f"There is no SKILL.md in {path!r}.", hint="Name a skill's folder, a folder of skills, or an archive."
        )
    for key in keys:
        yield ScanTarget(source.location(key), folder_of(source, key), source.package(key))


def _by_name(name: str, options: Namespace) -> list[ScanTarget]:
    if os.sep in name or "/" in name:
        return []
    try:
        entry = library_of(options).get(name)
    except MetierError:
        return []
    return [ScanTarget(entry.location, folder_of(entry.place.source, entry.key), entry.package)]


def assign_findings(
    findings: Sequence[Finding], places: Mapping[str, ScanTarget], paths: Sequence[str]
) -> tuple[dict[str, list[Finding]], list[Finding]]:
    """Group findings of another scanner by the location of their skill, and those that lie in none."""
    homes = _Homes(places, ["/", os.getcwd(), *(os.path.abspath(metier.source.expanded(path)) for path in paths)])
    found: dict[str, list[Finding]] = {}
    strays: list[Finding] = []
    for finding in findings:
        location, inside = homes.of(finding.path)
        if location:
            found.setdefault(location, []).append(replace(finding, path=inside))
        else:
            strays.append(finding)
    return found, strays


class _Homes:
    """The skills that files may lie in, by paths that start from one of several folders."""

    def __init__(self, places: Mapping[str, ScanTarget], bases: Sequence[str]) -> None:
        self._places = places
        self._folders = {os.path.dirname(location): location for location in places}
        self._bases = bases
        self._files: dict[str, frozenset[str]] = {}

    def of(self, path: str) -> tuple[str, str]:
        """The location of the skill, and the path in it; the innermost folder counts."""
        for base in self._bases:
            whole = os.path.join(base, *path.split("/"))
            folder = os.path.dirname(whole)
            while folder and folder != os.path.dirname(folder):
                location = self._folders.get(folder)
                inside = os.path.relpath(whole, folder).replace(os.sep, "/")
                # Every path would lie in a skill that it starts from, also one that starts from elsewhere.
                if location is not None and (folder != base or self._has(location, inside)):
                    return location, inside
                folder = os.path.dirname(folder)
        only = next(iter(self._places), "") if len(self._places) == 1 else ""
        return (only, path) if only and (path == THE_SKILL or self._has(only, path)) else ("", "")

    def _has(self, location: str, path: str) -> bool:
        if location not in self._files:
            self._files[location] = frozenset(file.path for file in self._places[location].package.listing().files)
        return path in self._files[location]
