"""The folder of a static site: made beside the old one, and put in its place when it is complete."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

from metier._json_object import read_object
from metier._paths import CREATE, READ, safe_rmtree
from metier.errors import FileRefused, SourceUnavailable
from metier.hub.safe_folder import SafeFolder
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
        self._written: dict[str, str] = {}

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file of the new site."""
        with self._parent.safe_path(STAGING, self._token, *path.split("/"), create=True) as safe:
            descriptor = os.open(safe.at(), CREATE, 0o777 if executable else 0o666, dir_fd=safe.parent)
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
        self._written[path] = hashlib.sha256(data).hexdigest()

    def earlier(self) -> dict[str, Any]:
        """The notes of the site that lies there; raises `FileRefused` where anything in it is not as we left it."""
        if not os.path.lexists(self.path):
            return {}
        if os.path.islink(self.path) or not os.path.isdir(self.path):
            raise FileRefused(f"{shown(self.path, 300)} is no plain folder.", hint="Name another one.", path=self.path)
        there = dict(_walk(self.path))
        if not there:
            return {}
        said = self._marker()
        known = said.get("files")
        if not isinstance(known, dict):
            raise self._foreign("it is no site that `metier registry build` wrote")
        for path, is_plain in sorted(there.items()):
            if path != MARKER and not (is_plain and known.get(path) == self._sha256(path)):
                raise self._foreign(f"{shown(path)!r} is not as it was written, or somebody else's")
        return said

    @contextlib.contextmanager
    def replacing(self) -> Iterator[dict[str, Any]]:
        """Write a site; give the notes of the one before, and keep those that the block changes them to."""
        with self._parent.locked(STAGING):
            notes = self.earlier()
            notes.pop("files", None)
            try:
                yield notes
                marker = {**notes, "files": dict(sorted(self._written.items()))}
                self.write(MARKER, json.dumps(marker, indent=1, sort_keys=True).encode() + b"\n")
                self._swap()
            except OSError as error:
                raise SourceUnavailable(
                    f"{shown(self.path, 300)} cannot be written: {error.strerror}.",
                    hint="Check the disk and the permissions.",
                    path=self.path,
                ) from None
            finally:
                # After the swap this is where the old site lies.
                self._clear()

    def _swap(self) -> None:
        staged = os.path.join(STAGING, self._token)
        with self._parent.safe_path(self._name) as safe:

            def rename(one: str, other: str) -> None:
                os.rename(safe.at(one), safe.at(other), src_dir_fd=safe.parent, dst_dir_fd=safe.parent)

            if not os.path.lexists(self.path):
                rename(staged, self._name)
            elif not atomic_swap(safe.parent, staged, self._name):
                rename(self._name, f"{staged}-old")
                try:
                    rename(staged, self._name)
                except OSError:
                    rename(f"{staged}-old", self._name)
                    raise

    def _clear(self) -> None:
        staging = os.path.join(self._parent.path, STAGING)
        with contextlib.suppress(OSError):
            # Those that were killed left theirs: nobody else works here while the folder is locked.
            for name in os.listdir(staging):
                if name.startswith("site-"):
                    safe_rmtree(os.path.join(staging, name))
            os.rmdir(staging)

    def _marker(self) -> dict[str, Any]:
        try:
            return read_object(os.path.join(self.path, MARKER), most=_MAX_BYTES) or {}
        except ValueError:
            return {}

    def _sha256(self, path: str) -> str:
        with self._parent.safe_path(self._name, *path.split("/")) as safe:
            descriptor = os.open(safe.at(), READ, dir_fd=safe.parent)
            with os.fdopen(descriptor, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()

    def _foreign(self, why: str) -> FileRefused:
        return FileRefused(
            f"{shown(self.path, 300)} is not replaced: {why}.",
            hint="Name an empty folder for the site, or move what is in this one.",
            path=self.path,
        )


def _walk(root: str) -> Iterator[tuple[str, bool]]:
    """Everything below a folder but folders, and whether it is a plain file."""
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if below == "." else f"{below}/"
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*files, *links):
            path = os.path.join(folder, name)
            yield prefix + name, os.path.isfile(path) and not os.path.islink(path)
