"""The files that tools may use: one folder to work in, and folders that may only be read."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import threading
from typing import TYPE_CHECKING, TypeAlias

from metier._lazy import dataclass
from metier._paths import LIST, READ, is_inside, open_below, path_below, write_file
from metier.errors import FileMissing, FileRefused, FileTooLarge, InvalidArgument, MetierError
from metier.guard.files.file_access import FileAccess, is_secret_name
from metier.hints import list_files
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier._paths import SafePath

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_WALK_FILES = 50_000
MAX_WALK_DEPTH = 64
PASSED_OVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
"""Folders that are not looked into when files are listed; a file in them can still be named."""

Roots: TypeAlias = "Iterable[str | os.PathLike[str]]"

# Control characters, half characters, and those that turn the direction of text and so hide what a path says.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MAX_PATH = 4_096
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The content of a file."""

    path: str
    """Absolute, with every link followed."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files below a folder."""

    folder: str
    """The absolute path of that folder."""
    files: tuple[str, ...]
    """Paths below it, with `/` on every system; folder by folder, in order of names."""
    stopped_at: str | None = None
    """The limit that cut the list short, if one did."""


class Workspace:
    """A folder that tools work in and cannot leave.

    Paths are relative to the folder, or absolute and inside it. Links are followed as long as they stay inside.
    `readable` names more folders, by absolute path, that can be read and never written; as a function it is asked each
    time, so that they may change.

    `access` says what is closed to tools: protected places are not written, and what is hidden is not there. As a
    function it is asked each time. By default no protected name is granted.

    `allows` is asked before a tool uses a file that links led to, with the name of the tool and the absolute path that
    was really found. Whoever decided about the call knew the path that it names and perhaps where that led then; a link
    can be put there since.

    >>> import tempfile
    >>> workspace = Workspace(tempfile.mkdtemp())
    >>> path = workspace.write("notes/today.md", b"hello")
    >>> workspace.read("notes/today.md").data
    b'hello'
    >>> try:
    ...     workspace.read("../secrets")
    ... except FileRefused as error:
    ...     print(error)
    '../secrets' leaves the workspace (path traversal).
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        readable: Roots | Callable[[], Roots] = (),
        allows: Callable[[str, str], bool] | None = None,
        access: FileAccess | Callable[[], FileAccess] | None = None,
    ) -> None:
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise InvalidArgument(
                f"{shown(os.fspath(root))!r} is no folder.", hint="A workspace is a folder that exists."
            )
        self._given = os.path.abspath(root)
        self._readable = readable
        self._allows = allows
        self._access = access if access is not None else FileAccess.of(self.root)
        self._lock = threading.Lock()

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES, tool: str = "Read") -> FileContent:
        """The content of a file of at most `limit` bytes, for a tool."""
        with _explaining(path, "read"), self._open(path, tool) as safe:
            return FileContent(path=safe.path, data=_read(safe, path, limit))

    def write(self, path: str, data: bytes) -> str:
        """Write a whole file, with the folders it needs, and return its absolute path.

        Whoever reads it meanwhile sees the old file or the new one, never a part. Its permissions stay.
        """
        with self._lock:
            return self._write(path, data, "Write")

    def update(self, path: str, change: Callable[[bytes], bytes]) -> str:
        """Replace what a file holds by what `change` makes of it; no other write comes between."""
        with self._lock:
            return self._write(path, change(self.read(path, tool="Edit").data), "Edit")

    def folder(self, path: str = ".", *, tool: str | None = None) -> str:
        """The absolute path of a folder inside, with every link followed."""
        with _explaining(path, "opened"), self._open(path, tool) as safe:
            status = _status(safe)
            if status is None:
                raise FileMissing(f"The folder {_quoted(path)} does not exist.", hint=list_files())
            if not stat.S_ISDIR(status.st_mode):
                raise FileRefused(f"{_quoted(path)} is not a directory.", hint="Name a folder.")
            return safe.path

    def is_folder(self, path: str) -> bool:
        """Whether a path leads to a folder; raises `FileMissing` when it leads nowhere."""
        with _explaining(path, "opened"), self._open(path) as safe:
            status = _status(safe)
            if status is None:
                raise _missing(path)
            return stat.S_ISDIR(status.st_mode)

    def walk(self, path: str = ".", *, limit: int = MAX_WALK_FILES, tool: str = "Glob") -> FoundFiles:
        """The plain files below a folder, for a tool; links are not followed and special files are left out."""
        folder = self.folder(path, tool=tool)
        root, start = self._placed(folder, writing=False)
        access = self.access
        hidden = frozenset(access.hidden_in(folder))
        files: list[str] = []
        stopped: str | None = None
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            segments = waiting.pop()
            names, folders = _listed(root, (*start, *segments), limit + 1)
            names, folders = (_visible(found, folder, segments, access, hidden) for found in (names, folders))
            for name in names:
                if len(files) == limit:
                    return FoundFiles(folder=folder, files=tuple(files), stopped_at=f"{limit:,} files")
                files.append("/".join((*segments, name)))
            if len(segments) < MAX_WALK_DEPTH:
                waiting.extend((*segments, name) for name in reversed(folders))
            elif folders:
                stopped = f"a depth of {MAX_WALK_DEPTH} folders"
        return FoundFiles(folder=folder, files=tuple(files), stopped_at=stopped)

    def _write(self, path: str, data: bytes, tool: str) -> str:
        if len(data) > MAX_FILE_BYTES:
            raise FileTooLarge(
                f"{_quoted(path)} would have {len(data):,} bytes; the limit is {MAX_FILE_BYTES:,}.",
                hint="Write less, or several files.",
            )
        with _explaining(path, "written"), self._open(path, tool, writing=True) as safe:
            status = _status(safe)
            if status is not None and stat.S_ISDIR(status.st_mode):
                raise FileRefused(f"{_quoted(path)} is a folder, not a file.", hint="Name a file in it.")
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise FileRefused(f"{_quoted(path)} is not a plain file.", hint="Only plain files are written.")
            if status is not None and not status.st_mode & 0o222:
                raise FileRefused(f"{_quoted(path)} is read-only.", hint="Write another file.")
            mode = None if status is None else stat.S_IMODE(status.st_mode) & 0o777
            write_file(safe.at(), data, mode=0o666, exact_mode=mode, dir_fd=safe.parent)
            return safe.path

    @property
    def access(self) -> FileAccess:
        """The files that are closed to tools now."""
        return self._access() if callable(self._access) else self._access

    @contextlib.contextmanager
    def _open(self, path: str, tool: str | None = None, *, writing: bool = False) -> Iterator[SafePath]:
        root, segments = self._placed(path, writing=writing)
        access = self.access
        with open_below(root, segments, create=writing, check=access.require_open if writing else None) as safe:
            was_led = safe.path != os.path.join(root, *segments)
            if was_led and tool is not None and self._allows is not None and not self._allows(tool, safe.path):
                raise FileRefused(
                    f"{_quoted(path)} leads through a link to what {tool} may not be used on.",
                    hint="Name the file itself, where it is allowed.",
                )
            if not writing and access.hides(safe.path):
                raise _missing(path)
            yield safe

    def _placed(self, path: str, *, writing: bool) -> tuple[str, list[str]]:
        """Below which root a path lies, and where."""
        text = _checked(path)
        if not os.path.isabs(text):
            return self.root, _collapsed(text, path)
        text = "/" + text.lstrip("/") if os.sep == "/" else text
        absolute = os.path.normpath(text)
        for given in (self._given, *(self._readable() if callable(self._readable) else self._readable)):
            real = os.path.realpath(given)
            for root in (real, os.path.abspath(given)):
                if is_inside(absolute, root):
                    if writing and given != self._given:
                        raise FileRefused(f"{_quoted(path)} can be read, not written.", hint="Write in the workspace.")
                    return real, _collapsed(path_below(absolute, root), path)
        raise _leaves(path)


def _checked(path: str) -> str:
    if not isinstance(path, str) or not path.strip():
        raise FileRefused("The path cannot be empty.", hint="Name a file, such as docs/notes.md.")
    if len(path) > _MAX_PATH or _UNSAFE.search(path):
        raise FileRefused(
            f"The path {_quoted(path)} has control characters or is too long.", hint="Use the path as it was listed."
        )
    if path == "~" or path.startswith("~/"):
        raise _leaves(path)
    return path.replace("\\", "/") if os.name == "nt" else path


def _collapsed(text: str, path: str) -> list[str]:
    segments: list[str] = []
    for segment in re.split(r"[/\\]" if os.name == "nt" else "/", text):
        if segment == "..":
            if not segments:
                raise _leaves(path)
            segments.pop()
        elif segment not in ("", "."):
            segments.append(segment)
    return segments


def _leaves(path: str) -> FileRefused:
    return FileRefused(
        f"{_quoted(path)} leaves the workspace (path traversal).",
        hint="Paths are relative to the workspace and stay inside it.",
    )


def _quoted(path: str) -> str:
    return repr(shown(path, 200))


def _missing(path: str) -> FileMissing:
    return FileMissing(f"File {_quoted(path)} was not found.", hint=list_files())


@contextlib.contextmanager
def _explaining(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except MetierError as error:
        error.context.setdefault("path", path)
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path) from None
    except OSError as error:
        what = "is a link" if error.errno in (errno.ELOOP, errno.EMLINK) else error.strerror or type(error).__name__
        raise FileRefused(
            f"{_quoted(path)} cannot be {done}: {what}.", hint="Check the path and its permissions.", path=path
        ) from None


def _status(safe: SafePath) -> os.stat_result | None:
    try:
        return os.stat(safe.at(), dir_fd=safe.parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _read(safe: SafePath, path: str, limit: int) -> bytes:
    try:
        descriptor = os.open(safe.at(), READ, dir_fd=safe.parent)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a socket; on some systems a folder
            raise FileRefused(f"{_quoted(path)} is not a file.", hint="Only plain files are read.") from None
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise FileRefused(f"{_quoted(path)} is a folder, not a file.", hint=list_files("in it"))
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused(f"{_quoted(path)} is not a file but a device or pipe.", hint="Only plain files are read.")
        chunks: list[bytes] = []
        size = 0
        while chunk := os.read(descriptor, min(_CHUNK, limit + 1 - size)):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise FileTooLarge(
                    f"{_quoted(path)} has {max(status.st_size, size):,} bytes, which exceeds maximum size {limit:,}.",
                    hint="Read a part of it.",
                    limit=limit,
                )
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def _visible(
    names: list[str], folder: str, segments: tuple[str, ...], access: FileAccess, hidden: frozenset[str]
) -> list[str]:
    """The names in a folder that are not hidden from tools."""
    if hidden:
        names = [name for name in names if os.path.join(folder, *segments, name) not in hidden]
    return [name for name in names if not is_secret_name(name) or name in access.grants]


def _listed(root: str, segments: tuple[str, ...], limit: int) -> tuple[list[str], list[str]]:
    """The names of plain files and of folders in a folder; nothing for one that has gone or is closed to us."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with open_below(root, segments) as safe:
            if safe.path != os.path.join(root, *segments):
                return [], []  # there was no link when it was listed
            descriptor = os.open(safe.at(), LIST, dir_fd=safe.parent) if safe.parent is not None else None
            try:
                with os.scandir(safe.path if descriptor is None else descriptor) as entries:
                    for entry in itertools.islice(entries, limit):
                        if entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
                        elif entry.is_dir(follow_symlinks=False) and entry.name not in PASSED_OVER:
                            folders.append(entry.name)
            finally:
                if descriptor is not None:
                    os.close(descriptor)
    except (OSError, FileRefused):
        return [], []
    return sorted(files), sorted(folders)
