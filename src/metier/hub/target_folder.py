"""A folder that skills are written into, each as a folder of its own that is replaced as a whole.

What was written is on record elsewhere, by its digest, so that what somebody else put there or changed is told apart; a
small file beside the skills only tells others which of them are copies.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier._paths import safe_rmtree, write_file
from metier.errors import FileRefused, MetierError, SkillChanged
from metier.hub.safe_folder import SafeFolder, path_failure
from metier.hub.sync_record import Copy, SyncRecord
from metier.library.places import COPIES_FILE, copied_into
from metier.skill import FolderPackage, shown
from metier.skill.package import EXCLUDED, checked_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier._paths import SafePath
    from metier.hub.sync_record import FolderChange

SOMETHING = "something"
"""Stands for a digest where no plain folder of a skill lies."""

# What tools leave behind in a folder that they only used.
_LEFT_BEHIND = frozenset({"__pycache__", ".DS_Store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to be written."""

    data: bytes
    executable: bool = False


class TargetFolder:
    """A folder for skills.

    >>> import tempfile
    >>> target = TargetFolder(os.path.realpath(tempfile.mkdtemp()))
    >>> written = target.put("greet", {"SKILL.md": File(data=b"Say hello.")})
    >>> target.digest("greet") == written
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder of a path, there or not; raises `FileRefused` later where a link is on the way to it."""
        self._parent = SafeFolder(path)
        self.path = self._parent.path
        self.stranded: dict[str, str] = {}
        """The folders that an interrupted run put aside and somebody had changed, where their name is taken by now."""
        self._record: SyncRecord | None = None

    @property
    def record(self) -> SyncRecord:
        """The record of what was written here."""
        if self._record is None:
            self._record = SyncRecord(self.path)
        return self._record

    def check(self) -> None:
        """Raise `FileRefused` where a link is on the way to the folder."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._parent.safe_path(COPIES_FILE):
            pass

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder if need be, and have it for oneself; what a run that was cut short left is put right."""
        with self._parent.locked(COPIES_FILE):
            self._record = None
            self._recover()
            try:
                yield
            finally:
                self.record.close()
                self._list_copies()

    def _recover(self) -> None:
        for change in list(self.record.changes.values()):
            try:
                if self._is_settled(change):
                    self.record.end(change)
            except OSError:
                continue  # it stays on record

    def _is_settled(self, change: FolderChange) -> bool:
        """Put right what a change left that was cut short; whether that could be done."""
        safe_rmtree(os.path.join(self.path, change.staged))
        there, known = self.digest(change.aside), self.record.copies.get(change.name)
        if there is None or (known is not None and there in known.written):
            return there is None or safe_rmtree(os.path.join(self.path, change.aside))
        if self.digest(change.name) is not None:
            self.stranded[change.name] = change.aside
            return False
        # Somebody changed it at the last moment, so it is theirs.
        with self._parent.safe_path(change.name) as safe:
            safe.rename(change.aside, change.name)
        return True

    def _list_copies(self) -> None:
        """Tell whoever reads this folder which of its skills are copies."""
        before, copies = copied_into(self.path), self.record.copies
        # Others may have written here as well, from another machine.
        theirs = (name for name in before if is_folder_name(name) and os.path.lexists(os.path.join(self.path, name)))
        names = {*copies, *theirs}
        if names == before:
            return
        skills = {name: {"digest": copies[name].digest} if name in copies else {} for name in sorted(names)}
        text = json.dumps({"version": 1, "skills": skills}, indent=2)
        with self._parent.safe_path(COPIES_FILE, create=True) as safe:
            try:
                if not names:
                    os.unlink(safe.at(), dir_fd=safe.parent)
                    return
                write_file(safe.at(), f"{text}\n".encode(), mode=0o666, dir_fd=safe.parent)
            except OSError as error:
                hint = "Check the disk and the permissions, and that no folder has that name."
                raise path_failure(safe.path, "written", error, hint) from None

    def digest(self, name: str) -> str | None:
        """The digest of the folder of a name; None if there is nothing, `SOMETHING` for what sync never writes."""
        try:
            with self._parent.safe_path(name) as safe:
                status = os.stat(safe.at(), dir_fd=safe.parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except FileRefused:
            return SOMETHING  # a link
        folder = os.path.join(self.path, name)
        if not stat.S_ISDIR(status.st_mode) or holds_more(folder):
            return SOMETHING
        try:
            return FolderPackage(folder, contain=self.path).digest()
        except MetierError:
            return SOMETHING

    def put(
        self,
        name: str,
        files: Mapping[str, File],
        *,
        over: str | None = None,
        digest: str = "",
        origin: str = "",
        root: str = "",
    ) -> str:
        """Write a skill, in place of the one whose digest is `over`, and return the digest of what was written.

        `digest`, `origin` and `root` are those of the skill that it is a copy of. Raises `SkillChanged` when something
        else lies there by now.
        """
        change = self.record.begin(name)
        try:
            for path, file in files.items():
                with self._parent.safe_path(change.staged, *checked_path(path), create=True) as safe:
                    safe.create(file.data, executable=file.executable)
            written = FolderPackage(os.path.join(self.path, change.staged), contain=self.path).digest()
            copy = Copy(digest=digest, written=(written,), origin=origin, root=root)
            self.record.expect(name, copy)
            with self._aside(change, over) as safe:
                safe.rename(change.staged, name)
            self.record.settle(name, copy)
            return written
        finally:
            safe_rmtree(os.path.join(self.path, change.staged))

    def remove(self, name: str, digest: str) -> None:
        """Remove a skill, if it is still what its digest says; raises `SkillChanged` otherwise."""
        with self._aside(self.record.begin(name), digest):
            pass
        self.record.settle(name, None)

    @contextlib.contextmanager
    def _aside(self, change: FolderChange, digest: str | None) -> Iterator[SafePath]:
        """Move what lies under a name out of the way, for good if nothing fails meanwhile.

        It is looked at only where nobody expects it, so that nothing is lost that somebody wrote at the last moment.
        """
        name, aside = change.name, change.aside
        with self._parent.safe_path(name) as safe:
            if digest is not None:
                safe.rename(name, aside)
            try:
                if digest is not None and self.digest(aside) != digest:
                    raise changed_meanwhile(name)
                try:
                    yield safe
                except OSError as error:
                    if os.path.lexists(os.path.join(self.path, name)):
                        raise changed_meanwhile(name) from error
                    raise
            except BaseException:
                if digest is not None:
                    try:
                        safe.rename(aside, name)
                    except OSError:
                        # Somebody made the name anew. The change stays on record, and so does what was put aside.
                        raise stranded(name, os.path.join(self.path, aside)) from None
                self.record.end(change)
                raise
        if digest is not None:
            safe_rmtree(os.path.join(self.path, aside))
        self.record.end(change)


def is_folder_name(name: object) -> bool:
    """Whether a skill's folder may have this name: one plain segment that is not hidden.

    >>> is_folder_name("pdf-forms"), is_folder_name("../pdf"), is_folder_name(".git")
    (True, False, False)
    """
    if not isinstance(name, str) or not name or name.startswith(".") or len(name) > 255:
        return False
    try:
        return checked_path(name) == (name,)
    except MetierError:
        return False


def holds_more(folder: str) -> bool:
    """Whether a folder has in it what no copy has: version control, installed modules."""
    more = EXCLUDED - _LEFT_BEHIND
    return any(not more.isdisjoint((*folders, *files)) for _, folders, files in os.walk(folder))


def changed_meanwhile(name: str) -> SkillChanged:
    """The error for what somebody else changed between a look at it and the change."""
    return SkillChanged(f"{shown(name)!r} was changed this very moment.", hint="Try again.", name=name)


def stranded(name: str, path: str) -> SkillChanged:
    """The error for what somebody changed, and made anew, while it was being replaced."""
    return SkillChanged(
        f"{shown(name)!r} was changed while it was replaced, and what it was lies in {path} now.",
        hint="Take what you need of it, and move it away.",
        name=name,
    )
