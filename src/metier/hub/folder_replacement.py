"""A skill's folder, replaced as a whole: whoever looks finds the old one or the new one, and never half of either.

The new one is made in a folder beside it that no library looks into, and the two change places in one step. What is
going on is written down in the user's configuration folder first, so that whatever a process leaves behind that was
killed is put right by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from typing import TYPE_CHECKING, Literal

from metier._lazy import asdict, dataclass, logger, replace
from metier._paths import safe_rmtree
from metier.errors import FileMissing, FileRefused, MetierError, SkillChanged, SkillExists
from metier.hub.safe_folder import SafeFolder, path_failure
from metier.hub.target_folder import changed_meanwhile, holds_more
from metier.library.places import default_config_folder
from metier.run.atomic_swap import atomic_swap
from metier.skill import FolderPackage
from metier.skill.package import STAGING, checked_path, digest_of_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier._paths import SafePath
    from metier.skill.package import Files

log = logger("metier.hub")

_SOMETHING = "something"
"""Stands for the digest of what is no plain folder of a skill."""
_LOOKS = 3
"""The number of attempts to read a folder that is replaced meanwhile."""


def digest_at(folder: str) -> str | None:
    """The digest of what lies in a skill's folder; None where there is nothing.

    Raises `FileRefused` where it holds what is no part of a skill and would be lost with it, such as `.git`, and
    `SkillChanged` where it changes faster than it can be read.
    """
    if not os.path.lexists(folder):
        return None
    if os.path.islink(folder) or not os.path.isdir(folder):
        raise FileRefused(f"{folder} is no plain folder.", hint="Name the folder that it leads to.", path=folder)
    if holds_more(folder):
        raise FileRefused(
            f"{folder} holds more than a skill: version control, or installed modules.",
            hint="Change it there with git, or move the skill into a folder of its own.",
            path=folder,
        )
    for _ in range(_LOOKS):
        with contextlib.suppress(FileMissing):
            return FolderPackage(folder, contain=os.path.dirname(folder)).digest()
        if not os.path.lexists(folder):
            return None
    raise changed_meanwhile(os.path.basename(folder))


@contextlib.contextmanager
def replacing(folder: str, files: Files, *, over: str | None) -> Iterator[Callable[[], None]]:
    """Make a skill's new folder, and give what puts it in place of the one whose digest is `over` (None: of nothing).

    If the block raises after that, the old one comes back. Nobody else replaces anything beside it meanwhile. Raises
    `SkillChanged` when something else lies there by now.

    >>> import tempfile
    >>> folder = os.path.join(os.path.realpath(tempfile.mkdtemp()), "greet")
    >>> with replacing(folder, {"SKILL.md": ("file", b"Say hello.")}, over=None) as put:
    ...     put()
    >>> os.listdir(folder)
    ['SKILL.md']
    """
    parent, name = SafeFolder(os.path.dirname(folder)), os.path.basename(folder)
    with parent.locked(STAGING):
        _recover(parent)
        after = digest_of_files(files)
        journal = _Journal.begun(_Entry(folder=parent.path, name=name, before=over or "", after=after))
        replacement = _Replacement(parent, journal.entry)
        try:
            replacement.stage(files)
            journal.enter("swapping")
            yield replacement.put
        except BaseException:
            replacement.take_back()
            raise
        finally:
            if not replacement.is_astray:
                journal.enter("clearing")
                if replacement.clear():
                    journal.end()


def remove_folder(folder: str) -> None:
    """Remove a skill's folder: in one step it is gone from its place, and then its files are deleted."""
    parent, name = SafeFolder(os.path.dirname(folder)), os.path.basename(folder)
    aside = (STAGING, f"{os.urandom(8).hex()}-removed")
    with parent.locked(STAGING):
        _recover(parent)
        with parent.safe_path(name) as safe, parent.safe_path(*aside, create=True) as to:
            try:
                os.rename(safe.at(), to.at(), src_dir_fd=safe.parent, dst_dir_fd=to.parent)
            except OSError as error:
                raise path_failure(folder, "removed", error, "Check its permissions.") from None
            _settle(safe)
        safe_rmtree(os.path.join(parent.path, *aside))
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(parent.path, STAGING))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A replacement that was begun."""

    folder: str
    name: str
    before: str
    after: str
    token: str = ""
    phase: Literal["making", "swapping", "clearing"] = "making"
    """While they change places, what lies beside may be the old one, with what somebody wrote at the last moment."""

    @property
    def staged(self) -> tuple[str, str]:
        return STAGING, self.token

    @property
    def aside(self) -> tuple[str, str]:
        return STAGING, f"{self.token}-old"


class _Replacement:
    def __init__(self, parent: SafeFolder, entry: _Entry) -> None:
        self._folder, self._entry = parent, entry
        self._staged, self._aside = (os.path.join(parent.path, *way) for way in (entry.staged, entry.aside))
        self._is_put = self._is_exchanged = False
        self.is_astray = False
        """Whether the old folder could not be given its place again, and lies where the new one was made."""

    def stage(self, files: Files) -> None:
        """Write the new folder, so that it outlasts a power cut."""
        try:
            for path, (mode, data) in files.items():
                with self._folder.safe_path(*self._entry.staged, *checked_path(path), create=True) as safe:
                    if mode == "link":
                        os.symlink(os.fsdecode(data), safe.at(), dir_fd=safe.parent)
                    else:
                        safe.create(data, executable=mode == "exec", sync=True)
                    _settle(safe)
        except OSError as error:
            raise path_failure(self._folder.path, "written", error) from None
        if _digest(self._staged) != self._entry.after:
            raise SkillChanged("What was written is not what was to be written.", hint="Check the disk, and try again.")

    def put(self) -> None:
        """Let the new folder take the old one's place."""
        entry = self._entry
        with self._safe_path() as safe:
            try:
                if not entry.before:
                    safe.rename(os.path.join(*entry.staged), entry.name)
                elif not self._exchange(safe):
                    # In two steps, and if it ends between them the next process takes the second one back.
                    safe.rename(entry.name, os.path.join(*entry.aside))
                    self._is_put = True
                    safe.rename(os.path.join(*entry.staged), entry.name)
            except OSError as error:
                raise self._explained(error) from None
            self._is_put = True
            _settle(safe)
        # Looked at only where nobody expects it any more, so that nothing is lost that was written at the last moment.
        if entry.before and _digest(self._staged if self._is_exchanged else self._aside) != entry.before:
            raise changed_meanwhile(entry.name)

    def take_back(self) -> None:
        """Let the old folder have its place again, if it was moved."""
        if not self._is_put:
            return
        self.is_astray = True
        with self._safe_path() as safe:
            if self._is_exchanged:
                self._exchange(safe)
            else:
                with contextlib.suppress(FileNotFoundError):
                    safe.rename(self._entry.name, os.path.join(*self._entry.staged))
                if self._entry.before:
                    safe.rename(os.path.join(*self._entry.aside), self._entry.name)
            _settle(safe)
        self.is_astray = False

    def restore(self) -> None:
        """Finish the first of the two steps backwards."""
        with self._safe_path() as safe:
            safe.rename(os.path.join(*self._entry.aside), self._entry.name)

    def clear(self) -> bool:
        """Remove what is not needed any more; whether that could be done."""
        is_clear = all([safe_rmtree(self._staged), safe_rmtree(self._aside)])
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(self._folder.path, STAGING))
        return is_clear

    def _exchange(self, safe: SafePath) -> bool:
        done = atomic_swap(safe.parent, os.path.join(*self._entry.staged), self._entry.name)
        self._is_exchanged = self._is_exchanged or done
        return done

    def _safe_path(self) -> contextlib.AbstractContextManager[SafePath]:
        return self._folder.safe_path(self._entry.name)

    def _explained(self, error: OSError) -> MetierError:
        folder = os.path.join(self._folder.path, self._entry.name)
        if not self._entry.before and os.path.lexists(folder):
            return SkillExists(f"{folder} exists already.", hint="Choose another name.", path=folder)
        if isinstance(error, FileNotFoundError):
            return changed_meanwhile(self._entry.name)
        return path_failure(folder, "replaced", error, "Check the permissions of the folder.")


def _settle(safe: SafePath) -> None:
    """Let a change of names outlast a power cut, where a folder can be told to."""
    if safe.parent is not None:
        with contextlib.suppress(OSError):
            os.fsync(safe.parent)


def _digest(folder: str) -> str | None:
    try:
        return digest_at(folder)
    except MetierError:
        return _SOMETHING


class _Journal:
    """The note of one replacement, there while it is under way: a line of JSON for each phase."""

    def __init__(self, entry: _Entry) -> None:
        self.entry = entry
        self._path = os.path.join(_journals(), f"{entry.token}.jsonl")

    @classmethod
    def begun(cls, entry: _Entry) -> _Journal:
        journal = cls(replace(entry, token=secrets.token_hex(8)))
        journal._add()
        return journal

    def enter(self, phase: Literal["swapping", "clearing"]) -> None:
        self.entry = replace(self.entry, phase=phase)
        self._add()

    def end(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _add(self) -> None:
        try:
            os.makedirs(_journals(), mode=0o700, exist_ok=True)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(self.entry)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            hint = "Check its permissions, or set METIER_CONFIG to a writable folder."
            raise path_failure(self._path, "written", error, hint) from None


def _journals() -> str:
    return os.path.join(default_config_folder(), "replacing")


def recover(folder: str) -> None:
    """Put right what was left in a folder of skills by those that were killed, if anything was."""
    parent = SafeFolder(folder)
    if any(_begun_in(parent)):
        with parent.locked(STAGING):
            _recover(parent)


def _recover(parent: SafeFolder) -> None:
    for entry in _begun_in(parent):
        with contextlib.suppress(OSError, MetierError):  # it stays on record
            _put_right(parent, entry)


def _begun_in(parent: SafeFolder) -> Iterator[_Entry]:
    """The replacements in a folder that are on record."""
    try:
        files = sorted(os.listdir(_journals()))
    except OSError:
        return
    for file in files:
        entry = _last_entry(os.path.join(_journals(), file))
        if entry is not None and entry.folder == parent.path:
            yield entry


def _last_entry(path: str) -> _Entry | None:
    """The last entry of a journal; a process that was killed may have left half a line."""
    found = None
    with contextlib.suppress(OSError, ValueError, TypeError), open(path, encoding="utf-8") as file:
        for line in file:
            entry = _Entry(**json.loads(line))
            # Each of them becomes part of a path.
            if os.path.basename(entry.token) == entry.token and os.path.basename(entry.name) == entry.name:
                found = entry
    return found


def _put_right(parent: SafeFolder, entry: _Entry) -> None:
    replacement = _Replacement(parent, entry)
    name, staged, aside = (os.path.join(parent.path, *way) for way in ((entry.name,), entry.staged, entry.aside))
    if entry.phase == "swapping":
        if os.path.lexists(aside) and not os.path.lexists(name):
            replacement.restore()
        for folder in (aside, staged):
            if _digest(folder) not in (None, entry.before, entry.after):
                log.warning("Somebody changed %s while it was replaced; what they changed is in %s.", name, folder)
                return
    if replacement.clear():
        _Journal(entry).end()
