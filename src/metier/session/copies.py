"""Copies of loaded skills that scripts and hooks run from, so that what runs is what was loaded.

The files of a skill may change at any time, also between a look at them and their use. A copy is made by reads that no
link leads out of, and counts only when the digest of exactly what was copied is the one that was loaded, decided about
and recorded. What is not part of a package, such as installed modules and bytecode, is not in its copy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import weakref
from typing import TYPE_CHECKING

from metier.errors import MetierError, PackageTooLarge, SkillChanged, SkillUnreadable
from metier.skill import FolderPackage
from metier.skill.files import DigestEntry, checked_path, digest_of
from metier.skill.folder import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.session.active import ActiveSkill
    from metier.skill.files import PackageFile


class Copies:
    """The copies of one session's skills, one for each content, made when they are first needed.

    Whatever a script does to the copy it runs from, the next run begins with what was loaded. Copies that are still
    there when nobody has this object any more, or when the program ends, are removed then.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: dict[str, _Copy] = {}
        self._is_closed = False
        self._folders: set[str] = set()
        weakref.finalize(self, _remove_all, self._folders)

    @contextlib.contextmanager
    def of(self, active: ActiveSkill) -> Iterator[str]:
        """The folder with the files of a skill as they were when it was loaded; it stays for as long as it is used.

        Raises `SkillChanged` when there is no copy yet and the files are no longer those.
        """
        copy = self._taken(active)
        try:
            yield copy.root
        finally:
            self._let_go(copy)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the copies that there are."""
        with self._lock:
            return tuple(copy.root for copy in self._kept.values())

    def root_of(self, digest: str) -> str:
        """The folder of the copy of a content; empty if there is none."""
        with self._lock:
            copy = self._kept.get(digest)
            return copy.root if copy is not None else ""

    def forget(self, digest: str) -> None:
        """Remove the copy of a content, as soon as nothing runs from it."""
        with self._lock:
            copy = self._kept.pop(digest, None)
        if copy is not None:
            self._let_go(copy)

    def close(self) -> None:
        """Remove all copies, and keep none from now on."""
        with self._lock:
            self._is_closed = True
            digests = tuple(self._kept)
        for digest in digests:
            self.forget(digest)

    def _taken(self, active: ActiveSkill) -> _Copy:
        with self._lock:
            copy = self._kept.get(active.digest)
            if copy is None or not copy.is_intact():
                self.forget(active.digest)
                copy = _made(active, self._folders)
                if not self._is_closed:
                    copy.users += 1  # this object
                    self._kept[active.digest] = copy
            copy.users += 1
            return copy

    def _let_go(self, copy: _Copy) -> None:
        with self._lock:
            copy.users -= 1
            if copy.users:
                return
        _remove(copy.folder)
        self._folders.discard(copy.folder)


class _Copy:
    """A copy on disk, and how many use it."""

    def __init__(self, folder: str, root: str) -> None:
        self.folder = folder
        self.root = root
        self.users = 0
        self._package = FolderPackage(root)
        self._digest = self._package.digest()
        self._signature = ""

    def is_intact(self) -> bool:
        """Whether it still holds what was copied; everything is read again only when a file may have changed."""
        try:
            signature = self._package.signature()
            if signature != self._signature and self._package.digest() != self._digest:
                return False
        except MetierError:
            return False
        self._signature = signature
        return True


def _made(active: ActiveSkill, folders: set[str]) -> _Copy:
    import tempfile

    folder = ""
    try:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="metier-skill-"))  # which nobody else may enter
        folders.add(folder)
        root = os.path.join(folder, active.name)
        os.mkdir(root)
        _write(active, root)
        return _Copy(folder, root)
    except BaseException as error:
        _remove(folder)
        folders.discard(folder)
        if isinstance(error, OSError):
            raise SkillUnreadable(
                f"The files of skill {active.name!r} cannot be copied: {error.strerror or error}.",
                hint=f"Scripts run from a copy; make room for it in {tempfile.gettempdir()}.",
                name=active.name,
            ) from None
        raise


def _write(active: ActiveSkill, root: str) -> None:
    """Write the files of a skill into an empty folder; raises `SkillChanged` unless they are what was loaded."""
    if active.listing.stopped_at is not None:
        raise PackageTooLarge(
            f"Skill {active.name!r} has more than {active.listing.stopped_at}, too many to run anything of it.",
            hint="Remove files that the skill does not need.",
            name=active.name,
        )
    entries: list[DigestEntry] = []
    links: dict[str, str] = {}
    # Not what the folder holds now: a file that was put there since is no part of what was loaded, nor in its way.
    for file in active.listing.files:
        target = os.path.join(root, *checked_path(file.path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if file.kind == "link":
            links[target] = _link_of(active, file.path)
            entries.append(DigestEntry(file.path, "link", hashlib.sha256(os.fsencode(links[target])).digest()))
            continue
        data = _read(active, file)
        entries.append(DigestEntry(file.path, "exec" if file.executable else "file", hashlib.sha256(data).digest()))
        with open(target, "xb") as opened:
            opened.write(data)
        os.chmod(target, 0o555 if file.executable else 0o444)
    if digest_of(entries) != active.digest:
        raise _changed(active)
    for link, leads_to in links.items():
        # Only where everything else is already written, so that nothing is written through one.
        with contextlib.suppress(OSError):
            os.symlink(leads_to, link)
    for link in links:
        if not is_inside(os.path.realpath(link), root):
            with contextlib.suppress(OSError):
                os.unlink(link)


def _read(active: ActiveSkill, file: PackageFile) -> bytes:
    try:
        return active.entry.package.read(file.path, limit=file.size)
    except MetierError as error:
        raise _changed(active, f" {error}") from None


def _link_of(active: ActiveSkill, path: str) -> str:
    """Where a link of a skill leads, which need not be inside it."""
    try:
        return os.readlink(os.path.join(active.root, *path.split("/")))
    except OSError:
        raise _changed(active, f" {path!r} is no link.") from None


def _changed(active: ActiveSkill, why: str = "") -> SkillChanged:
    return SkillChanged(
        f"The files of skill {active.name!r} have changed since it was loaded.{why}",
        hint="Load it again.",
        name=active.name,
    )


def _remove_all(folders: set[str]) -> None:
    for folder in tuple(folders):
        _remove(folder)


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, whatever its permissions have become."""
    if not folder:
        return
    import shutil

    for at, names, files in os.walk(folder):
        # A folder must be writable for that, and on Windows a file too.
        for name in (*names, *(files if os.name == "nt" else ())):
            path = os.path.join(at, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
