"""Folders of this machine as records: listed, read and changed without ever following a link.

Each step is taken from the folder before it by its descriptor, so that nothing can be put in its place in between. Only
where a system has no such steps (Windows) are paths followed, each looked at first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import time
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import dataclass, field, logger, pattern
from metier._paths import HAS_DIR_FD, LIST, READ, open_folder, replace_file
from metier.errors import ShellRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO

log = logger("metier.run")

Record: TypeAlias = tuple[str, str, int]
"""A path from the folder (`/a/b`), what is there (`f`, `d` or `l`), and its mode."""
File: TypeAlias = tuple[str, str, int, bytes]
"""A record with its content: the bytes of a file, or where a link leads."""
FileToWrite: TypeAlias = "tuple[str, str, int, bytes | IO[bytes]]"
"""The same, or with a file that is open in place of the content, which is then read piece by piece."""
Closed: TypeAlias = "Callable[[Sequence[tuple[str, bool]]], Iterable[str | None]]"
"""Says of paths from the folder, each with whether a link is to be put there, what closes them to writing, if anything
does."""

MOST_BYTES = 4_096
MOST_NAME = 255
"""Of a path, and of each name in it."""
unseen = pattern(
    "[\x01-\x1f\x7f-\x9f\u180e\u200b-\u200d\u202a-\u202e\u2060\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""A character that no name may have, as two names would look the same by it. The interpreter refuses them too."""
_CAN_STEP = HAS_DIR_FD and {os.stat, os.mkdir, os.unlink, os.rmdir} <= os.supports_dir_fd
_CHUNK = 1024 * 1024
_MOST_LINES = 20
LEADS_OUT, PROTECTED, _LATE = "a link that leads elsewhere", "it is protected", "its time was over"
"""Reasons for which something was not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLimits:
    """Limits on the content of a folder."""

    file_bytes: int = 10_000_000
    total_bytes: int = 64_000_000
    files: int = 5_000
    """Files, folders and links together."""
    depth: int = 100
    """Folders inside one another."""


@dataclass(slots=True)
class FolderContent:
    """The content of a folder, without that of its files."""

    records: list[Record] = field(default_factory=list)
    stamps: list[tuple[int, ...]] = field(default_factory=list)
    """The states by which changes are found: of the folder itself, and of each record."""
    total_bytes: int = 0

    @property
    def changed_ns(self) -> list[int]:
        """The time of the last change of each, which nobody can set."""
        return [stamp[-1] for stamp in self.stamps]

    def is_current(self, folder: str) -> bool:
        """Whether nothing was changed in the folder since: the state of each file, without listing."""
        try:
            if _file_state(os.stat(folder)) != self.stamps[0]:
                return False
            return all(
                _file_state(os.lstat(folder + record[0])) == stamp
                for record, stamp in zip(self.records, self.stamps[1:], strict=True)
            )
        except OSError:
            return False


def list_folder(folder: str, limits: FolderLimits, *, skipped: frozenset[str] = frozenset()) -> FolderContent:
    """List a folder with its folders; raises `ShellRefused` if there is more than the limits allow.

    What is neither a file, a folder nor a link is left out, and so are names that are no text, and paths of `skipped`.
    """
    found = FolderContent()
    with contextlib.ExitStack() as opened:
        try:
            top = _Folder.top(folder, opened)
            found.stamps.append(_file_state(os.stat(top.path if top.descriptor is None else top.descriptor)))
            _look(top, "", found, limits, skipped)
        except OSError as error:
            raise ShellRefused(
                f"The folder {folder!r:.200} cannot be read: {error.strerror or error}.",
                hint="Check that it exists and is readable.",
                path=folder,
            ) from error
    return found


def load(folder: str, records: Sequence[Record], limits: FolderLimits) -> list[File]:
    """Read the records of a folder. Those that have gone since are left out."""
    found: list[File] = []
    total = 0
    if not records:
        return found
    with contextlib.ExitStack() as opened:
        top = _Folder.top(folder, opened)
        for path, kind, mode in records:
            try:
                content = _content(top, path, kind, limits)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                log.warning("%s is left out of the virtual shell: %s", folder + path, error.strerror or error)
                continue
            if kind == "l" and not _is_readable(content):
                log.warning("%s is left out of the virtual shell: it leads where no name can be read", folder + path)
                continue
            total += len(content)
            if total > limits.total_bytes:
                raise _too_much(f"exceeds the limit of {limits.total_bytes} bytes for all files", folder)
            found.append((path, kind, mode, content))
    return found


def with_executable_scripts(files: Sequence[File]) -> list[File]:
    """The files of a skill, whose scripts can be executed."""
    return [
        (path, kind, 0o755 if path.startswith("/scripts/") else mode, content) for path, kind, mode, content in files
    ]


def change(
    folder: str,
    files: Sequence[FileToWrite],
    gone: Sequence[str] = (),
    *,
    any_link: bool = False,
    closed: Closed | None = None,
    until: float | None = None,
) -> list[str]:
    """Write files below a folder and delete what is `gone`; the paths that could not be done, with the reason.

    A link is made only if it stays in the folder, unless `any_link`. What is `closed` is left as it is, and what was
    not begun `until` then is not done.
    """
    failed: list[str] = []
    if closed is not None:
        deleted = list(zip(gone, closed([(path, False) for path in gone]), strict=True))
        written = list(zip(files, closed([(path, kind == "l") for path, kind, _, _ in files]), strict=True))
        failed += [f"{path}: {PROTECTED}" for path, place in deleted if place]
        failed += [f"{file[0]}: {PROTECTED}" for file, place in written if place]
        gone = [path for path, place in deleted if not place]
        files = [file for file, place in written if not place]

    def attempt(path: str, act: Callable[[], None]) -> None:
        if until is not None and time.monotonic() > until:
            failed.append(f"{path}: {_LATE}")
            return
        try:
            act()
        except (OSError, ValueError) as error:
            failed.append(f"{path}: {getattr(error, 'strerror', None) or error}")

    with contextlib.ExitStack() as opened:
        top = _Folder.top(folder, opened)
        for path in sorted(gone, reverse=True):
            attempt(path, functools.partial(_delete, top, path))
        for file in files:
            attempt(file[0], functools.partial(_write, top, file, any_link=any_link))
    return failed


def format_unchanged(failed: Sequence[str]) -> str:
    """Lines that say which paths were not changed."""
    lines = [f"Not changed: {text}\n" for text in failed[:_MOST_LINES]]
    more = len(failed) - _MOST_LINES
    return "".join(lines) + (f"Not changed: {more} more\n" if more > 0 else "")


def kind_of(mode: int) -> str:
    """The kind of something by its mode: `f`, `d`, `l`, or nothing for all else."""
    return "d" if stat.S_ISDIR(mode) else "l" if stat.S_ISLNK(mode) else "f" if stat.S_ISREG(mode) else ""


class _Folder:
    """A folder that steps are taken from."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def top(cls, path: str, opened: contextlib.ExitStack) -> _Folder:
        """The folder itself, which may be reached by a link: it is what the caller named."""
        if not _CAN_STEP:
            return cls(os.path.realpath(path), None)
        descriptor = open_folder(path)
        opened.callback(os.close, descriptor)
        return cls(path, descriptor)

    def at(self, name: str) -> str:
        """The path to give the system for a name in this folder, together with `dir_fd`."""
        return name if self.descriptor is not None else os.path.join(self.path, name)

    @contextlib.contextmanager
    def step(self, name: str, *, make: bool = False) -> Iterator[_Folder]:
        """A folder in this one."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.at(name), 0o755, dir_fd=self.descriptor)
        if self.descriptor is None:
            if not stat.S_ISDIR(os.lstat(self.at(name)).st_mode):
                raise NotADirectoryError(f"{name} is no folder")
            yield _Folder(self.at(name), None)
            return
        descriptor = os.open(name, LIST, dir_fd=self.descriptor)
        try:
            yield _Folder(self.at(name), descriptor)
        finally:
            os.close(descriptor)

    def names(self) -> list[str]:
        """The names in it."""
        return sorted(os.listdir(self.path if self.descriptor is None else self.descriptor))


def _look(folder: _Folder, prefix: str, found: FolderContent, limits: FolderLimits, skipped: frozenset[str]) -> None:
    for name in folder.names():
        path = f"{prefix}/{name}"
        if path in skipped:
            continue
        about = os.stat(folder.at(name), dir_fd=folder.descriptor, follow_symlinks=False)
        kind = kind_of(about.st_mode)
        if not kind or not _is_text(name):
            continue
        if len(found.records) >= limits.files:
            raise _too_much(f"exceeds the limit of {limits.files} files and folders", folder.path)
        if path.count("/") > limits.depth:
            raise _too_much(f"exceeds the limit of {limits.depth} folders inside one another", folder.path)
        if len(path) > MOST_BYTES or len(path.encode()) > MOST_BYTES:
            raise _too_much(f"has a path that exceeds the limit of {MOST_BYTES} bytes", folder.path)
        size = about.st_size if kind == "f" else 0
        if size > limits.file_bytes:
            raise _too_much(f"has a file {name!r:.80} that exceeds the limit of {limits.file_bytes} bytes", folder.path)
        found.total_bytes += size
        if found.total_bytes > limits.total_bytes:
            raise _too_much(f"exceeds the limit of {limits.total_bytes} bytes for all files", folder.path)
        found.records.append((path, kind, 0o755 if kind == "d" or about.st_mode & 0o111 else 0o644))
        found.stamps.append(_file_state(about))
        if kind == "d":
            try:
                with folder.step(name) as inner:
                    _look(inner, path, found, limits, skipped)
            except PermissionError as error:
                log.warning("%s is left out of the virtual shell: %s", path, error.strerror)


def _content(top: _Folder, path: str, kind: str, limits: FolderLimits) -> bytes:
    if kind == "d":
        return b""
    with _parent(top, path) as (folder, name):
        if kind == "l":
            return os.fsencode(os.readlink(folder.at(name), dir_fd=folder.descriptor))
        descriptor = os.open(folder.at(name), READ, dir_fd=folder.descriptor)
        try:
            # It is looked at once it is open, and not before: it could have become something else.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            data = bytearray()
            while len(data) <= limits.file_bytes and (chunk := os.read(descriptor, _CHUNK)):
                data += chunk
        finally:
            os.close(descriptor)
    if len(data) > limits.file_bytes:
        raise _too_much(f"has a file {name!r:.80} that exceeds the limit of {limits.file_bytes} bytes", top.path)
    return bytes(data)


def _write(top: _Folder, file: FileToWrite, *, any_link: bool) -> None:
    path, kind, mode, content = file
    target = content if isinstance(content, bytes) else b""
    if kind == "l" and not any_link and not stays(path, target):
        raise ValueError(LEADS_OUT)
    with _parent(top, path, make=True) as (folder, name):
        _make_room(folder, name, kind)
        if kind == "d":
            with folder.step(name, make=True):
                return
        if kind == "f":
            with replace_file(folder.at(name), exact_mode=0o600 | mode & 0o777, dir_fd=folder.descriptor) as written:
                if isinstance(content, bytes):
                    written.write(content)
                else:
                    written.writelines(iter(functools.partial(content.read, _CHUNK), b""))
            return
        temporary = f".{os.urandom(8).hex()}.tmp"
        os.symlink(os.fsdecode(target), folder.at(temporary), dir_fd=folder.descriptor)
        try:
            # Whatever is there is replaced itself, also if it is a link.
            os.replace(
                folder.at(temporary), folder.at(name), src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor
            )
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(folder.at(temporary), dir_fd=folder.descriptor)
            raise


def _make_room(folder: _Folder, name: str, kind: str) -> None:
    """Remove what cannot be replaced: an empty folder in the place of a file, or a file in that of a folder.

    A link in the place of a folder stays, as somebody has made it lead elsewhere.
    """
    try:
        there = kind_of(os.stat(folder.at(name), dir_fd=folder.descriptor, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return
    if there == "d" and kind != "d":
        os.rmdir(folder.at(name), dir_fd=folder.descriptor)
    elif there == "f" and kind == "d":
        os.unlink(folder.at(name), dir_fd=folder.descriptor)


def _delete(top: _Folder, path: str) -> None:
    with contextlib.suppress(FileNotFoundError), _parent(top, path) as (folder, name):
        about = os.stat(folder.at(name), dir_fd=folder.descriptor, follow_symlinks=False)
        if stat.S_ISDIR(about.st_mode):
            os.rmdir(folder.at(name), dir_fd=folder.descriptor)
        else:
            os.unlink(folder.at(name), dir_fd=folder.descriptor)


@contextlib.contextmanager
def _parent(top: _Folder, path: str, *, make: bool = False) -> Iterator[tuple[_Folder, str]]:
    *above, name = path.strip("/").split("/")
    if not name or any(part in ("", ".", "..") for part in (*above, name)) or (os.sep != "/" and os.sep in path):
        raise ValueError("no path inside the folder")
    with contextlib.ExitStack() as steps:
        folder = top
        for part in above:
            folder = steps.enter_context(folder.step(part, make=make))
        yield folder, name


def _file_state(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _is_text(name: str) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        name.encode()
        if not unseen.search(name):
            return True
    log.warning("%r is left out of the virtual shell: its name cannot be read", name)
    return False


def _is_readable(target: bytes) -> bool:
    """Whether a link leads to a path that the interpreter takes."""
    try:
        text = target.decode()
    except UnicodeDecodeError:
        return False
    return not unseen.search(text) and all(len(part) <= MOST_NAME for part in target.split(b"/"))


def stays(path: str, target: bytes) -> bool:
    """Whether a link is relative and its way never leaves the folder that `path` starts from."""
    depth = path.count("/") - 1
    if target.startswith(b"/") or b"\\" in target or b"\0" in target or not target:
        return False
    for part in target.split(b"/"):
        depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
        if depth < 0:
            return False
    return True


def _too_much(what: str, folder: str) -> ShellRefused:
    return ShellRefused(
        f"The folder {folder!r:.200} {what}.", hint="Give the shell a smaller folder, or larger limits.", path=folder
    )
