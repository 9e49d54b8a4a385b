"""A folder that skills are written into, each as a folder of its own that is replaced as a whole.

Every step goes down from a folder that is open, and follows no link on the way: whatever a repository put there,
nothing is written or removed outside of the folder that was named. A small file keeps what was written, by its digest,
so that what somebody else put there or changed is told apart.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from metier.errors import FileRefused, MetierError, SkillChanged, SourceUnavailable
from metier.library.copied import COPIES_FILE, MAX_LIST_BYTES
from metier.run.removing import remove_tree
from metier.skill import FolderPackage, shown
from metier.skill.files import EXCLUDED, checked_path
from metier.skill.folder import is_inside
from metier.source.path import expanded
from metier.source.source import absolute
from metier.tools.descent import CREATE, LIST, READ, descend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.tools.descent import Spot

SOMETHING = "something"
"""What stands for a digest where no plain folder of a skill lies."""

_BESIDE = re.compile(r"\.metier-sync-[0-9a-f]{16}").fullmatch
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}").fullmatch
# What tools leave behind in a folder that they only used.
_LEFT_BEHIND = frozenset({"__pycache__", ".DS_Store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What was written of one skill."""

    digest: str
    """That of the skill it was made from."""
    written: str
    """That of the folder as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to be written."""

    data: bytes
    executable: bool = False


class Target:
    """A folder for skills.

    >>> import tempfile
    >>> target = Target(os.path.realpath(tempfile.mkdtemp()))
    >>> written = target.put("greet", {"SKILL.md": File(data=b"Say hello.")})
    >>> target.digest("greet") == written
    True
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder of a path, there or not; raises `FileRefused` later where a link is on the way to it."""
        self._anchor, self._segments = _anchored(absolute(expanded(os.fspath(path))))
        self.path = os.path.join(self._anchor, *self._segments)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder if need be, and have it for oneself; what a run that was cut short left is removed."""
        with self._spot(COPIES_FILE, create=True) as spot:
            if spot.parent is not None:
                import fcntl

                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(spot.parent, fcntl.LOCK_EX)
            for name in self._names():
                if _BESIDE(name):
                    remove_tree(os.path.join(self.path, name))
            yield

    def copies(self) -> dict[str, Copy]:
        """What was written here, by the name of the folder."""
        try:
            with self._spot(COPIES_FILE) as spot:
                descriptor = os.open(spot.at(), READ, dir_fd=spot.parent)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        with os.fdopen(descriptor, "rb") as file:
            is_plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return self._understood(file.read(MAX_LIST_BYTES + 1) if is_plain else b"")

    def _understood(self, data: bytes) -> dict[str, Copy]:
        try:
            if len(data) > MAX_LIST_BYTES:
                raise ValueError("too large")
            skills = json.loads(data)["skills"]
            found = {name: Copy(digest=kept["digest"], written=kept["written"]) for name, kept in skills.items()}
            if not all(is_folder_name(name) for name in found) or not all(
                _DIGEST(digest) for kept in found.values() for digest in (kept.digest, kept.written)
            ):
                raise ValueError("not what is written here")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise FileRefused(
                f"{os.path.join(self.path, COPIES_FILE)} cannot be read, so it is not known what was written here.",
                hint="Bring it back as it was, or remove it: what lies there then counts as somebody else's.",
                path=self.path,
            ) from None
        return found

    def keep(self, copies: Mapping[str, Copy]) -> None:
        """Write down what was written here."""
        text = json.dumps({"version": 1, "skills": {name: asdict(copies[name]) for name in sorted(copies)}}, indent=2)
        with self._spot(COPIES_FILE, create=True) as spot:
            beside = spot.at(_beside())
            descriptor = os.open(beside, CREATE, 0o666, dir_fd=spot.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                os.replace(beside, spot.at(), src_dir_fd=spot.parent, dst_dir_fd=spot.parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=spot.parent)
                raise

    def digest(self, name: str) -> str | None:
        """The digest of the folder of a name; None if there is nothing, `SOMETHING` for what sync never writes."""
        try:
            with self._spot(name) as spot:
                status = os.stat(spot.at(), dir_fd=spot.parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except FileRefused:
            return SOMETHING  # a link
        folder = os.path.join(self.path, name)
        if not stat.S_ISDIR(status.st_mode) or _holds_more(folder):
            return SOMETHING
        try:
            return FolderPackage(folder, contain=self.path).digest()
        except MetierError:
            return SOMETHING

    def put(self, name: str, files: Mapping[str, File], *, over: str | None = None) -> str:
        """Write a skill, in place of the one whose digest is `over`, and return the digest of what was written.

        Raises `SkillChanged` when something else lies there by now.
        """
        staged = _beside()
        try:
            for path, file in files.items():
                self._write((staged, *checked_path(path)), file)
            written = FolderPackage(os.path.join(self.path, staged), contain=self.path).digest()
            with self._aside(name, over) as spot:
                os.rename(spot.at(staged), spot.at(), src_dir_fd=spot.parent, dst_dir_fd=spot.parent)
            return written
        finally:
            remove_tree(os.path.join(self.path, staged))

    def remove(self, name: str, digest: str) -> None:
        """Remove a skill, if it is still what its digest says; raises `SkillChanged` otherwise."""
        with self._aside(name, digest):
            pass

    def _write(self, segments: tuple[str, ...], file: File) -> None:
        with self._spot(*segments, create=True) as spot:
            descriptor = os.open(spot.at(), CREATE, 0o777 if file.executable else 0o666, dir_fd=spot.parent)
            with os.fdopen(descriptor, "wb") as out:
                out.write(file.data)

    @contextlib.contextmanager
    def _aside(self, name: str, digest: str | None) -> Iterator[Spot]:
        """Move what lies under a name out of the way, for good if nothing fails meanwhile.

        It is looked at only where nobody expects it, so that nothing is lost that somebody wrote at the last moment.
        """
        aside = _beside()
        with self._spot(name) as spot:

            def moved(source: str, to: str) -> None:
                os.rename(spot.at(source), spot.at(to), src_dir_fd=spot.parent, dst_dir_fd=spot.parent)

            if digest is not None:
                moved(name, aside)
            try:
                if digest is not None and self.digest(aside) != digest:
                    raise _changed(name)
                try:
                    yield spot
                except OSError as error:
                    if os.path.lexists(os.path.join(self.path, name)):
                        raise _changed(name) from error
                    raise
            except BaseException:
                if digest is not None:
                    moved(aside, name)
                raise
        if digest is not None:
            remove_tree(os.path.join(self.path, aside))

    def _names(self) -> list[str]:
        with self._spot() as spot:
            if spot.parent is None:
                return os.listdir(spot.path)
            descriptor = os.open(spot.at(), LIST, dir_fd=spot.parent)
            try:
                return os.listdir(descriptor)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _spot(self, *below: str, create: bool = False) -> Iterator[Spot]:
        """A place in the folder, reached without a link on the way."""
        wanted = os.path.join(self.path, *below)
        with contextlib.ExitStack() as opened:
            try:
                spot = opened.enter_context(descend(self._anchor, [*self._segments, *below], create=create))
            except FileRefused:
                raise _linked(wanted) from None
            except (FileNotFoundError, NotADirectoryError):
                if create:
                    raise SourceUnavailable(
                        f"{self.path} cannot be made: something on the way is no folder.", hint="Name another folder."
                    ) from None
                raise
            except OSError as error:
                raise SourceUnavailable(
                    f"{self.path} cannot be used: {error.strerror}.", hint="Check its permissions.", path=self.path
                ) from None
            if spot.path != wanted:
                raise _linked(wanted)
            yield spot


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


def _anchored(path: str) -> tuple[str, list[str]]:
    """A folder that the user stands in or owns, and the way from there, on which no link is followed."""
    for anchor in (os.getcwd(), os.path.expanduser("~")):
        for known in (os.path.abspath(anchor), os.path.realpath(anchor)):
            if is_inside(path, known) and path != known:
                return os.path.realpath(anchor), _segments(path[len(known) :])
    drive, rest = os.path.splitdrive(path)
    segments = _segments(rest)
    if not segments:
        raise FileRefused(f"{path} is no folder for skills.", hint="Name one, such as .claude/skills.")
    return drive + os.sep, segments


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split(os.sep) if segment]


def _beside() -> str:
    return f".metier-sync-{secrets.token_hex(8)}"


def _holds_more(folder: str) -> bool:
    """Whether a folder has in it what no copy has: version control, installed modules."""
    more = EXCLUDED - _LEFT_BEHIND
    return any(not more.isdisjoint((*folders, *files)) for _, folders, files in os.walk(folder))


def _changed(name: str) -> SkillChanged:
    return SkillChanged(f"{shown(name)!r} was changed this very moment.", hint="Try again.", name=name)


def _linked(path: str) -> FileRefused:
    return FileRefused(
        f"{path} leads through a link, and nothing is written through one.",
        hint=f"Name the folder that it leads to: {os.path.realpath(path)}.",
        path=path,
    )
