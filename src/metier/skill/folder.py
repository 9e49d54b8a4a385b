"""The files of a skill that is a folder on disk.

Nothing here checks a path and then uses it. Files are opened segment by segment from the skill's own descriptor, each
without following links; a link is read and its target walked the same way, so it can lead anywhere inside the skill
and nowhere else, whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from metier._paths import HAS_DIR_FD, LIST, READ, LinkRules, open_below, open_folder, short_digest
from metier.errors import FileMissing, FileRefused, FileTooLarge, MetierError, PackageTooLarge, SkillUnreadable
from metier.hints import for_people
from metier.skill.package import (
    EXCLUDED,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_PACKAGE_BYTES,
    NAME_LISTED,
    DigestEntry,
    PackageFile,
    PackageListing,
    checked_path,
    digest_of,
    kind_of,
    sha256,
)
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_CHUNK = 1 << 20
_LINK_ERRORS = (errno.ELOOP, errno.EMLINK)
_LINKS = LinkRules(
    leads_out="A link leads outside the skill (path traversal).",
    hint="Replace the link by a copy of the file.",
    too_many_hint="Replace the link by a copy of the file.",
    excluded=EXCLUDED,
)

# A file changed this recently may change again without its time stamp moving: time stamps are only so fine.
_RACY_NS = 100_000_000
_RACY_COARSE_NS = 2_000_000_000
_SETTLE_NS = 15_000_000
_LOOKS, _MOST_LOOKS = 10, 40
"""The number of looks at a file that is being written, and at one that is empty: that one is most likely between being
truncated and being written, by somebody who may not get the processor for a while."""
_CTIME_IS_CHANGE = os.name == "posix"  # elsewhere it is the time of creation


IdentityRow: TypeAlias = tuple[int, int, int, int]
"""An identity as the index compares it: a plain tuple, thousands of which are made in every scan."""


class Identity(NamedTuple):
    """The identity of a file: whether it is still the one that was read.

    The change time is in it beside the modification time because it cannot be set back: content that was approved
    cannot be swapped for other content of the same size and date.
    """

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def unsettled(cls, data: bytes) -> Identity:
        """Equal to no file on disk: what was read must be read again at the next look, and compared by content."""
        # A checksum would do against accidents, but not against somebody who makes two files look alike.
        digest = short_digest(data, 28)
        return cls(UNSETTLED_INODE, len(data), int(digest[:14], 16), int(digest[14:], 16))

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def is_settled(self, now_ns: int) -> bool:
        """Whether the time stamps are old enough that a later change must show in them."""
        newest = self.ctime_ns if _CTIME_IS_CHANGE else max(self.mtime_ns, self.ctime_ns)
        window = _RACY_NS if newest % 1_000_000_000 else _RACY_COARSE_NS
        return now_ns - newest > window


UNSETTLED_INODE = -1
"""The inode of no file: marks an identity that was taken too soon after the file was written."""


def read_skill_file(path: str, limit: int, contain: str | None = None) -> tuple[bytes, Identity]:
    """The bytes of a SKILL.md and the identity they were read under, in one consistent state.

    With `contain`, its folder must lie inside that path at the moment it is opened.
    Raises `OSError` as `open` does, `ELOOP` for a link; `FileRefused` for what is no regular file; `FileTooLarge`.
    """
    for attempt in range(_MOST_LOOKS):
        descriptor = os.open(path, READ) if contain is None else _open_contained(path, contain)
        try:
            before = os.fstat(descriptor)
            size = before.st_size
            if not stat.S_ISREG(before.st_mode):
                raise FileRefused(f"{path} is not a regular file.", hint="Replace it by a Markdown file.")
            if size > limit:
                raise FileTooLarge(
                    f"{path} has {size:,} bytes; the limit is {limit:,}.",
                    hint="Move detail into files below references/.",
                    size=size,
                    limit=limit,
                )
            data = os.read(descriptor, size + 1)
            while len(data) < size and (more := os.read(descriptor, size + 1 - len(data))):
                data += more
            identity = Identity(before.st_ino, size, before.st_mtime_ns, before.st_ctime_ns)
            now = time.time_ns()
            if identity.is_settled(now):
                if len(data) == size:
                    return data, identity
            else:
                after = Identity.of(os.fstat(descriptor))
                age = now - (after.ctime_ns if _CTIME_IS_CHANGE else max(after.mtime_ns, after.ctime_ns))
                # A time stamp from the future (a clock that was set back) never gets old; waiting would not help.
                quiet = age > (_SETTLE_NS if data else _RACY_NS) or age < -_SETTLE_NS
                if after == identity and len(data) == size and quiet:
                    return data, Identity.unsettled(data)
            if data and attempt + 1 >= _LOOKS:
                return data, Identity.unsettled(data)
        finally:
            os.close(descriptor)
        # Somebody is writing this very moment, perhaps in place: an editor between truncating and writing.
        time.sleep(0.002 * (min(attempt, _LOOKS) + 1))
    return data, Identity.unsettled(data)


class FolderPackage:
    """A skill's files in a folder.

    >>> import tempfile
    >>> from pathlib import Path
    >>> root = Path(tempfile.mkdtemp())
    >>> _ = (root / "SKILL.md").write_text("hello")
    >>> FolderPackage(root).read("SKILL.md")
    b'hello'
    """

    def __init__(self, root: Path | str, *, contain: str | None = None) -> None:
        """The folder `root`; with `contain`, it must lie inside that path whenever it is opened."""
        self.root = os.fspath(root)
        self._contain = contain

    def listing(self) -> PackageListing:
        """All files, sorted, bounded; links are listed as links and never followed."""
        files: list[PackageFile] = []
        stopped = None
        for path, status in self._walk():
            if len(files) == MAX_FILES:
                stopped = f"{MAX_FILES:,} files"
                break
            if status is None:
                stopped = f"a depth of {MAX_DEPTH} folders"
                continue
            is_link = stat.S_ISLNK(status.st_mode)
            files.append(
                PackageFile(
                    path=path,
                    size=status.st_size,
                    kind="link" if is_link else kind_of(path),
                    executable=not is_link and bool(status.st_mode & 0o111),
                )
            )
        return PackageListing(files=tuple(sorted(files, key=lambda file: file.path)), stopped_at=stopped)

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of one file; refuses every path that leaves the folder, however it tries."""
        segments = checked_path(path)
        try:
            descriptor = _open_file(self.root, segments, self._contain)
        except MetierError as error:
            error.context.setdefault("path", path)
            raise
        except OSError as error:
            raise _explained(path, error) from None
        try:
            return b"".join(_chunks(descriptor, path, limit))
        finally:
            os.close(descriptor)

    def signature(self) -> str:
        """Path, inode, size and times of every file, hashed."""
        rows, now = [], time.time_ns()
        for path, status in sorted(self._walk_all()):
            identity = Identity.of(status)
            if not identity.is_settled(now):
                rows.append(f"{now}")
            inode, size, modified, changed = identity
            rows.append(f"{path}\0{status.st_mode & 0o111}\0{inode} {size} {modified} {changed}\0")
        return sha256("\n".join(rows).encode(errors="surrogateescape")).hexdigest()

    def digest(self) -> str:
        """The content digest of the whole package; raises `PackageTooLarge` rather than leave a file out."""
        return digest_of(self.contents())

    def contents(self) -> list[DigestEntry]:
        """Every file with the hash of its content."""
        entries: list[DigestEntry] = []
        size = 0
        for path, status in self._walk_all():
            if stat.S_ISLNK(status.st_mode):
                try:
                    target = os.readlink(f"{self.root}/{path}")
                except OSError as error:
                    raise _explained(path, error) from None
                entries.append(DigestEntry(path, "link", sha256(os.fsencode(target)).digest()))
                continue
            size += status.st_size
            if size > MAX_PACKAGE_BYTES:
                raise PackageTooLarge(
                    f"{self.root} has more than {MAX_PACKAGE_BYTES:,} bytes.",
                    hint="Remove files that the skill does not need.",
                )
            executable = bool(status.st_mode & 0o111)
            entries.append(DigestEntry(path, "exec" if executable else "file", self._hash(path)))
        return entries

    def link_target(self, path: str) -> bytes:
        """The target of a link of the package."""
        try:
            return os.fsencode(os.readlink(os.path.join(self.root, *path.split("/"))))
        except OSError:
            raise FileMissing(f"{shown(path)!r} is no link.", hint=NAME_LISTED, path=path) from None

    def _hash(self, path: str) -> bytes:
        content = sha256()
        try:
            descriptor = _open_file(self.root, tuple(path.split("/")), self._contain)
            try:
                for chunk in _chunks(descriptor, path, MAX_PACKAGE_BYTES):
                    content.update(chunk)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _explained(path, error) from None
        except FileTooLarge:
            raise PackageTooLarge(f"{path!r} has more than {MAX_PACKAGE_BYTES:,} bytes.", hint="Remove it.") from None
        return content.digest()

    def _walk_all(self) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        for path, status in self._walk():
            if status is None or len(found) == MAX_FILES * 5:
                raise PackageTooLarge(
                    f"{self.root} has more than {MAX_FILES * 5:,} files or {MAX_DEPTH} levels of folders.",
                    hint="Remove files that the skill does not need.",
                )
            found.append((path, status))
        return found

    def _walk(
        self, prefix: str = "", depth: int = 0, parent: int | None = None
    ) -> Iterator[tuple[str, os.stat_result | None]]:
        """Each file or link with its status; None for a folder too deep to enter. Special files are no part of it.

        Folders are opened one in another, without following a link anywhere on the way.
        """
        descriptor, folders = None, []
        try:
            try:
                if HAS_DIR_FD:
                    descriptor = (
                        open_folder(self.root, self._contain)
                        if parent is None
                        else os.open(prefix[:-1].rpartition("/")[2], LIST, dir_fd=parent)
                    )
                with os.scandir(f"{self.root}/{prefix}" if descriptor is None else descriptor) as entries:
                    listed = _statuses(entries)
            except (FileNotFoundError, NotADirectoryError):
                if not prefix:
                    raise SkillUnreadable(
                        f"{self.root} does not exist.",
                        hint=for_people("Check the path; `metier list` shows what skills there are."),
                    ) from None
                return
            except OSError as error:
                raise _explained(prefix or self.root, error) from None
            for name, status in listed:
                path = f"{prefix}{name}"
                if stat.S_ISDIR(status.st_mode):
                    if depth + 1 >= MAX_DEPTH:
                        yield path, None
                    else:
                        folders.append(f"{path}/")
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield path, status
            for folder in reversed(folders):
                yield from self._walk(folder, depth + 1, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _statuses(entries: Iterable[os.DirEntry[str]]) -> list[tuple[str, os.stat_result]]:
    """The entries of a folder, sorted, without those that vanished meanwhile or are no part of a package."""
    found = []
    for entry in entries:
        if entry.name not in EXCLUDED:
            try:
                found.append((entry.name, entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue  # only what is gone may be missing: a file that cannot be looked at must not drop out
    return sorted(found)


def _open_file(root: str, segments: tuple[str, ...], contain: str | None) -> int:
    """Open a file below a folder, following links so that none can lead out."""
    if HAS_DIR_FD and ".." not in segments:
        try:
            return _open_plain(root, segments, contain)
        except OSError as error:
            if error.errno not in (*_LINK_ERRORS, errno.ENOTDIR):
                raise
    with open_below(root, segments, links=_LINKS, contain=contain) as at:
        if at.name == ".":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        descriptor = os.open(at.at(), READ, dir_fd=at.parent)
    if at.parent is None and not (
        os.path.samestat(os.fstat(descriptor), os.stat(at.path)) and os.path.realpath(at.path) == at.path
    ):
        os.close(descriptor)
        raise FileRefused("The file changed while it was opened.", hint="Try again.")
    return descriptor


def _open_plain(root: str, segments: tuple[str, ...], contain: str | None) -> int:
    """Open a file on whose way there is no link, as on nearly every one."""
    folder = _enter(root, segments[:-1], contain)
    try:
        return os.open(segments[-1], READ, dir_fd=folder)
    finally:
        os.close(folder)


def _enter(root: str, segments: Sequence[str], contain: str | None) -> int:
    """The descriptor of a folder below another; raises `OSError` for a link on the way."""
    folder = open_folder(root, contain)
    for segment in segments:
        try:
            inner = os.open(segment, LIST, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_contained(path: str, contain: str) -> int:
    folder, name = os.path.split(path)
    return (_open_plain if HAS_DIR_FD else _open_file)(folder, (name,), contain)


def _chunks(descriptor: int, path: str, limit: int) -> Iterator[bytes]:
    """The content of a regular file piece by piece; raises `FileTooLarge` at the first piece too many."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise FileRefused(f"{path!r} is a folder, not a file.", hint="Name a file in it.", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{path!r} is not a regular file.", hint="Only plain files are read.", path=path)
    left = limit
    while chunk := os.read(descriptor, min(_CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise FileTooLarge(
                f"{path!r} has more than {limit:,} bytes.",
                hint="Read a part of it with a script.",
                path=path,
                limit=limit,
            )
        yield chunk


def _explained(path: str, error: OSError) -> MetierError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileMissing(f"{path!r} is not among the skill's files.", hint=NAME_LISTED, path=path)
    if isinstance(error, IsADirectoryError):
        return FileRefused(f"{path!r} is a folder, not a file.", hint="Name a file in it.", path=path)
    if error.errno in _LINK_ERRORS:
        return FileRefused(f"{path!r} is a link.", hint="Replace it by a copy of the file.", path=path)
    return SkillUnreadable(
        f"{path!r} cannot be read: {error.strerror or error}.", hint="Check its permissions.", path=path
    )
