"""The folder that a registry is made of: releases in `NAME/VERSION/`, or one in `NAME/`, and a `registry.json`.

`registry.json` is for people to read and to write: how the registry is called, who keeps it, and which releases were
published, yanked and deprecated. A release that is on record there never changes.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from metier._json_object import read_object
from metier._lazy import dataclass
from metier._paths import locked_folder, write_file
from metier.errors import FileRefused, IntegrityFailed, InvalidArgument, SkillExists, SkillNotFound, SourceUnavailable
from metier.hub.publish.release import read_release, require_version
from metier.hub.publish.site_folder import MARKER
from metier.skill import is_valid_name, shown
from metier.skill.skill_requirement import version_of
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.hub.publish.release import Release

RECORD = "registry.json"
_MAX_BYTES = 16 * 1024 * 1024
_MAX_RELEASES = 20_000
_TABLES = ("published", "yanked", "deprecated")
_TEXTS = ("name", "description", "owner", "email", "url")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRecord:
    """The content of `registry.json`."""

    texts: Mapping[str, str]
    """`name`, `description`, `owner`, `email` and `url`, as far as they are given."""
    published: Mapping[str, Mapping[str, Any]]
    """By name and version: `digest` of the content, `at` and `by`."""
    yanked: Mapping[str, Mapping[str, Any]]
    """By name and version: the reason."""
    deprecated: Mapping[str, Mapping[str, Any]]
    """By name: `reason` and `successor`."""

    def reason_against(self, name: str, version: str) -> str:
        """The reason why a release was yanked; empty where it was not."""
        return str(self.yanked.get(name, {}).get(version, ""))

    def require_unchanged(self, release: Release) -> None:
        """Raise `IntegrityFailed` where a release is not the one that was published under its version."""
        known = self.published.get(release.name, {}).get(release.version)
        if isinstance(known, dict) and known.get("digest", release.digest) != release.digest:
            raise IntegrityFailed(
                f"{shown(release.label)} is not the content that was published: {release.digest}, not "
                f"{shown(str(known.get('digest')))}.",
                hint="Bring the published content back, and publish the change under a new version.",
            )


class RegistryFolder:
    """The folder of a registry, there or not."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(absolute(expanded(os.fspath(path))))

    def record(self) -> RegistryRecord:
        """The content of `registry.json`, empty where there is none; raises `SourceUnavailable` where it is broken."""
        said = self._read()
        tables = {key: said.get(key, {}) for key in _TABLES}
        texts = {key: said[key] for key in _TEXTS if key in said}
        is_sound = all(isinstance(text, str) and len(text) <= 2_000 for text in texts.values()) and all(
            isinstance(table, dict) and all(isinstance(one, dict) for one in table.values())
            for table in tables.values()
        )
        if not is_sound:
            raise self._broken("it has not the shape of one")
        return RegistryRecord(texts=texts, **tables)

    def releases(self) -> Iterator[tuple[str, list[str]]]:
        """The names of all skills, sorted, each with the folders of its releases."""
        if not os.path.isdir(self.path):
            raise SourceUnavailable(
                f"There is no folder {shown(self.path, 300)}.", hint="Name the folder with the skills.", path=self.path
            )
        count = 0
        for name in _folders(self.path):
            folder = os.path.join(self.path, name)
            found = [folder] if os.path.lexists(os.path.join(folder, "SKILL.md")) else []
            found = found or [
                os.path.join(folder, version)
                for version in _folders(folder)
                if os.path.lexists(os.path.join(folder, version, "SKILL.md"))
            ]
            count += len(found)
            if count > _MAX_RELEASES:
                raise SourceUnavailable(
                    f"{shown(self.path, 300)} has more than {_MAX_RELEASES:,} releases.", hint="Use several registries."
                )
            if found:
                yield name, found

    def read(self, name: str, folder: str) -> Release:
        """The release in a folder, for a skill of a name."""
        version = "" if os.path.basename(folder) == name and os.path.dirname(folder) == self.path else folder
        release = read_release(folder, version=os.path.basename(version))
        if release.name != name:
            raise InvalidArgument(
                f"{shown(folder, 300)} holds a skill called {shown(release.name)!r}.",
                hint=f"Let its folder be {shown(release.name)}/VERSION.",
            )
        return release

    def folder_for(self, release: Release) -> str:
        """The folder of a new release; raises `SkillExists` where that version is there, in whatever spelling."""
        folder = os.path.join(self.path, release.name)
        if os.path.lexists(os.path.join(folder, "SKILL.md")):
            raise SkillExists(
                f"{shown(folder, 300)} holds a skill without its earlier versions.",
                hint=f"Move what is in it to {shown(release.name)}/VERSION.",
            )
        taken = {*(_folders(folder) if os.path.isdir(folder) else ()), *self.record().published.get(release.name, {})}
        for version in taken:
            if version_of(version) == version_of(release.version):
                raise SkillExists(
                    f"{shown(release.name)} {shown(version)} is published already, and a version never changes.",
                    hint="Publish it under a new version.",
                )
        return os.path.join(folder, release.version)

    def note(self, table: str, name: str, entry: Any, *, version: str = "") -> None:
        """Put something on record about a skill, or about one version of it."""

        def change(said: dict[str, Any]) -> None:
            about = said.setdefault(table, {})
            if version:
                about.setdefault(name, {})[version] = entry
            else:
                about[name] = entry

        self._change(change)

    def yank(self, name: str, version: str, reason: str) -> None:
        """Withdraw a version: nobody who does not have it gets it any more."""
        self._require(name, version)
        self.note("yanked", name, reason, version=version)

    def deprecate(self, name: str, *, successor: str = "", reason: str = "") -> None:
        """Say of a skill that another one should be used, or none."""
        self._require(name)
        if successor and not is_valid_name(successor):
            raise InvalidArgument(f"{shown(successor)!r} is no name of a skill.", hint="Name the skill to use instead.")
        self.note("deprecated", name, {"successor": successor, "reason": reason})

    def _require(self, name: str, version: str = "") -> None:
        if os.path.lexists(os.path.join(self.path, MARKER)):
            raise InvalidArgument(
                f"{shown(self.path, 300)} is a site that was built.", hint="Name the folder that it is built of."
            )
        folders = next((found for one, found in self.releases() if one == name), None)
        if folders is None:
            raise SkillNotFound(
                f"There is no skill {shown(name)!r} in {shown(self.path, 300)}.", hint="Check its name."
            )
        if version:
            require_version(version)
            known = {self.read(name, folder).version for folder in folders}
            if version not in known:
                raise SkillNotFound(
                    f"There is no version {version} of {shown(name)!r}.",
                    hint=f"There are {', '.join(sorted(known))}." if any(known) else "It has no versions.",
                )

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        os.makedirs(self.path, exist_ok=True)
        self.record()  # one that is broken is left to people
        with locked_folder(self.path):
            said = self._read()
            change(said)
            for table in (one for one in _TABLES if one in said):
                said[table] = {
                    name: dict(sorted(entry.items())) if table != "deprecated" else entry
                    for name, entry in sorted(said[table].items())
                }
            data = json.dumps(said, indent=2, ensure_ascii=False).encode(errors="replace") + b"\n"
            write_file(os.path.join(self.path, RECORD), data, mode=0o666, sync=True)

    def _read(self) -> dict[str, Any]:
        try:
            return read_object(os.path.join(self.path, RECORD), most=_MAX_BYTES) or {}
        except ValueError as problem:
            raise self._broken(str(problem)) from None

    def _broken(self, why: str) -> SourceUnavailable:
        path = os.path.join(self.path, RECORD)
        return SourceUnavailable(
            f"{shown(path, 300)} cannot be used: {shown(why)}.", hint="Correct it, or restore it.", path=path
        )


def _folders(path: str) -> list[str]:
    """The folders in a folder, sorted; neither links nor hidden ones."""
    try:
        with os.scandir(path) as entries:
            found = [one.name for one in entries if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise FileRefused(
            f"{shown(path, 300)} cannot be read: {error.strerror}.", hint="Check it.", path=path
        ) from None
    return sorted(found)
