"""The folder that a registry is made of: releases in `NAME/VERSION/`, or one in `NAME/`, and a `registry.json`.

`registry.json` is for people to read and to write: how the registry is called, who keeps it, and which releases were
published, yanked and deprecated. A release that is on record there never changes.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

from metier._json_object import read_object
from metier._paths import locked_folder, write_file
from metier.errors import IntegrityFailed, InvalidArgument, SkillExists, SkillNotFound, SourceUnavailable
from metier.hub.folder_replacement import replacing
from metier.hub.publish.release import read_release, require_new, require_version
from metier.hub.publish.site_folder import MARKER
from metier.hub.safe_folder import path_failure
from metier.skill import is_valid_name, shown
from metier.skill.skill_requirement import version_of
from metier.source.source import absolute, expanded
from metier.store.rows import now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.publish.release import Release

RECORD = "registry.json"
_MAX_BYTES = 16 * 1024 * 1024
_TEXT = {"type": "string", "maxLength": 2_000}
_ENTRIES = {"published": {"type": "object", "additionalProperties": _TEXT}, "yanked": _TEXT, "deprecated": _TEXT}
"""The tables: by name and version `digest`, `at` and `by`; by name and version a reason; by name `reason` and
`successor`."""
_SHAPE = {
    "properties": {
        **dict.fromkeys(("description", "owner", "email", "url"), _TEXT),
        "name": {"type": "string", "maxLength": 64, "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        **{
            table: {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": entry}}
            for table, entry in _ENTRIES.items()
        },
    }
}


class RegistryFolder:
    """The folder of a registry, there or not."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(absolute(expanded(os.fspath(path))))

    def record(self) -> dict[str, Any]:
        """The content of `registry.json`, with all of its tables; raises `SourceUnavailable` where it is broken."""
        from jsonschema_rs import validate

        path = os.path.join(self.path, RECORD)
        try:
            found = read_object(path, most=_MAX_BYTES) or {}
            validate(_SHAPE, found)
        except ValueError as problem:  # that of the schema has a message of one line, and is one too
            why = shown(str(getattr(problem, "message", problem)), 200)
            raise SourceUnavailable(
                f"{shown(path, 300)} cannot be used: {why}.", hint="Correct it, or restore it.", path=path
            ) from None
        return {**{table: {} for table in _ENTRIES}, **found}

    def skills(self) -> dict[str, list[str]]:
        """The versions of each skill, the newest first; empty for the only release of a skill, in `NAME/`."""
        from packaging.version import Version

        found: dict[str, list[str]] = {}
        for name in _folders(self.path):
            folder = os.path.join(self.path, name)
            is_only = os.path.lexists(os.path.join(folder, "SKILL.md"))
            named = [one for one in _folders(folder) if os.path.lexists(os.path.join(folder, one, "SKILL.md"))]
            versions = {one: version_of(one) or Version("0") for one in ([""] if is_only else named)}
            if len(set(versions.values())) < len(versions):
                raise IntegrityFailed(
                    f"{shown(name)} has a version twice, under two spellings.", hint=f"Look at {shown(folder, 300)}."
                )
            found[name] = sorted(versions, key=versions.__getitem__, reverse=True)
        return {name: versions for name, versions in found.items() if versions}

    def read(self, name: str, version: str) -> Release:
        """The release of a skill that is kept as a version."""
        folder = os.path.join(self.path, name, version)
        release = read_release(folder, version=version)
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
        published = self.record()["published"].get(release.name, {})
        require_new(release, (*published, *(_folders(folder) if os.path.isdir(folder) else ())))
        return os.path.join(folder, release.version)

    def put(self, release: Release, by: str) -> str:
        """Put a new release in its folder, which is returned, and on record."""
        folder = self.folder_for(release)
        with replacing(folder, release.files, over=None) as put:
            put()
        with self._changing() as record:
            entry = {"digest": release.digest, "at": now(), "by": by}
            record["published"].setdefault(release.name, {})[release.version] = entry
        return folder

    def yank(self, name: str, version: str, reason: str) -> None:
        """Withdraw a version: nobody who does not have it gets it any more. Without a reason, that is taken back."""
        known = {one or self.read(name, one).version for one in self._versions(name)}
        require_version(version)
        if version not in known:
            raise SkillNotFound(
                f"There is no version {version} of {shown(name)!r}.",
                hint=f"There are {', '.join(sorted(known))}." if any(known) else "It has no versions.",
            )
        with self._changing() as record:
            yanked = record["yanked"].get(name, {})
            if not reason and version not in yanked:
                raise InvalidArgument(f"{shown(name)} {version} is not yanked.", hint="There is nothing to undo.")
            others = {one: why for one, why in yanked.items() if one != version}
            record["yanked"][name] = {**others, version: reason} if reason else others

    def deprecate(self, name: str, *, successor: str = "", reason: str = "", undo: bool = False) -> None:
        """Say of a skill that another one should be used, or none; `undo` takes that back."""
        self._versions(name)
        if successor and not is_valid_name(successor):
            raise InvalidArgument(f"{shown(successor)!r} is no name of a skill.", hint="Name the skill to use instead.")
        with self._changing() as record:
            if undo and not record["deprecated"].get(name):
                raise InvalidArgument(f"{shown(name)} is not deprecated.", hint="There is nothing to undo.")
            record["deprecated"][name] = {} if undo else {"successor": successor, "reason": reason}

    def _versions(self, name: str) -> list[str]:
        """The versions of a skill; raises where there is no such skill, or this is no folder of a registry."""
        if os.path.lexists(os.path.join(self.path, MARKER)):
            raise InvalidArgument(
                f"{shown(self.path, 300)} is a site that was built.", hint="Name the folder that it is built of."
            )
        found = self.skills()
        if name not in found:
            raise SkillNotFound(
                f"There is no skill {shown(name)!r} in {shown(self.path, 300)}.", hint="Check its name."
            )
        return found[name]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The record, of which changes are kept; one that is broken is left to people."""
        os.makedirs(self.path, exist_ok=True)
        with locked_folder(self.path):
            record = self.record()
            yield record
            for table in _ENTRIES:
                entries = {name: dict(sorted(one.items())) for name, one in sorted(record.pop(table).items()) if one}
                record |= {table: entries} if entries else {}
            data = json.dumps(record, indent=2, ensure_ascii=False).encode(errors="replace") + b"\n"
            write_file(os.path.join(self.path, RECORD), data, mode=0o666, sync=True)


def _folders(path: str) -> list[str]:
    """The folders in a folder, sorted; neither links nor hidden ones."""
    try:
        with os.scandir(path) as entries:
            found = [one.name for one in entries if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise path_failure(path, "read", error, "Name the folder with the skills.") from None
    return sorted(found)
