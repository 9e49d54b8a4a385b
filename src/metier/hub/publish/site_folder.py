"""The folder of a static site: made beside the old one, and put in its place when it is complete."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from metier._json_object import read_object
from metier._paths import open_plain, safe_rmtree
from metier.errors import FileRefused
from metier.hub.safe_folder import SafeFolder, path_failure
from metier.run.atomic_swap import atomic_swap
from metier.skill import shown
from metier.skill.package import STAGING

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER = ".metier-site.json"
"""The list of what we wrote: whatever else is in the folder is somebody's, and is not removed."""
_MAX_BYTES = 64 * 1024 * 1024


class SiteFolder:
    """A site that is being written; `write` takes one file after the other."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        whole = os.path.abspath(os.path.expanduser(os.fspath(path)))
        self._parent, self._name = SafeFolder(os.path.dirname(whole)), os.path.basename(whole)
        self.path = os.path.join(self._parent.path, self._name)
        self._token = f"site-{secrets.token_hex(8)}"
        self.written: dict[str, str] = {}
        """The SHA-256 of each file."""

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file of the new site."""
        with self._parent.safe_path(STAGING, self._token, *path.split("/"), create=True) as safe:
            safe.create(data, executable=executable)
        self.written[path] = hashlib.sha256(data).hexdigest()

    @contextlib.contextmanager
    def replacing(self) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
        """Put in place what the block writes; it gets the notes of the site before, and takes notes for the next time.

        Raises `FileRefused` where anything in that site is not as we left it.
        """
        notes: dict[str, str] = {}
        with self._parent.locked(STAGING):
            try:
                yield self._notes_there(), notes
                marker = {"files": dict(sorted(self.written.items())), "notes": notes}
                self.write(MARKER, json.dumps(marker, indent=1, sort_keys=True).encode() + b"\n")
                self._swap()
            except OSError as error:
                raise path_failure(self.path, "written", error) from None
            finally:
                self._clear()

    def _notes_there(self) -> dict[str, Any]:
        if not os.path.lexists(self.path):
            return {}
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            raise FileRefused(f"{shown(self.path, 300)} is no plain folder.", hint="Name another one.", path=self.path)
        there = dict(self._content())
        marker: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            marker = read_object(os.path.join(self.path, MARKER), most=_MAX_BYTES) or {}
        files, notes = (one if isinstance(one, dict) else {} for one in map(marker.get, ("files", "notes")))
        foreign = [path for path, digest in sorted(there.items()) if path != MARKER and files.get(path) != digest]
        if foreign:
            why = f"{shown(foreign[0])!r} is not as `metier registry build` wrote it, or somebody else's"
            raise FileRefused(
                f"{shown(self.path, 300)} is not replaced: {why}.",
                hint="Name an empty folder for the site, or move what is in this one.",
                path=self.path,
            )
        return notes

    def _content(self) -> Iterator[tuple[str, str]]:
        """All that lies in the site but folders, with the SHA-256 of each plain file."""
        for folder, folders, files in os.walk(self.path):
            for name in (*files, *(one for one in folders if os.path.islink(os.path.join(folder, one)))):
                path, digest = os.path.join(folder, name), ""
                if os.path.isfile(path) and not os.path.islink(path):
                    with open_plain(path) as file:
                        digest = hashlib.sha256(file.read()).hexdigest()
                yield os.path.relpath(path, self.path).replace(os.sep, "/"), digest

    def _swap(self) -> None:
        """Put the new site in the place of the old one, which is then where the new one was made."""
        staged = os.path.join(STAGING, self._token)
        with self._parent.safe_path(self._name) as safe:
            if not os.path.lexists(self.path):
                safe.rename(staged, self._name)
            elif not atomic_swap(safe.parent, staged, self._name):
                safe.rename(self._name, f"{staged}-old")
                try:
                    safe.rename(staged, self._name)
                except OSError:
                    safe.rename(f"{staged}-old", self._name)
                    raise

    def _clear(self) -> None:
        staging = os.path.join(self._parent.path, STAGING)
        with contextlib.suppress(OSError):
            # Those that were killed left theirs: nobody else works here while the folder is locked.
            for name in os.listdir(staging):
                if name.startswith("site-"):
                    safe_rmtree(os.path.join(staging, name))
            os.rmdir(staging)
