"""Paths: containment, opening without following a link out, atomic writes, removing a tree, and the cache folder."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from typing import IO, TYPE_CHECKING, NamedTuple

from metier._lazy import dataclass
from metier.errors import FileRefused

# `hashlib` loads OpenSSL, for which a short command has no other use.
try:
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found,unused-ignore]  # before Python 3.12
    except ImportError:
        from hashlib import sha256 as _sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_MAX_LINKS = 16
_MAX_DEPTH = 100
"""Each folder on the way is open at once, and a process may only have so many."""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSE
HAS_DIR_FD = os.open in os.supports_dir_fd and os.readlink in os.supports_dir_fd and bool(_NO_FOLLOW)

READ = os.O_RDONLY | _NO_FOLLOW | _CLOSE | getattr(os, "O_NONBLOCK", 0) | _BINARY
"""Flags to open a file: never through a link, and never waiting for the other end of a pipe."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _CLOSE | _BINARY
LIST = _FOLDER | _NO_FOLLOW
_CAN_REMOVE = HAS_DIR_FD and os.supports_dir_fd >= {os.rename, os.unlink, os.rmdir} and os.scandir in os.supports_fd
_MOST_SECONDS = 60.0
"""Seconds for removing a tree, in which another process may be making files faster than they are removed."""
_REPLACE = CREATE & ~os.O_WRONLY | os.O_RDWR


def default_cache_folder() -> str | None:
    """The folder of the index and the like: `$METIER_CACHE`, else the user's cache folder; None when that is `off`."""
    chosen = os.environ.get("METIER_CACHE")
    if chosen:
        return None if chosen.lower() == "off" else chosen
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or home, "metier", "cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "metier")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "metier")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it; both are absolute and free of links and `..`.

    >>> is_inside("/a/b", "/a"), is_inside("/ab", "/a"), is_inside("/a", "/")
    (True, False, True)
    """
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def upwards(folder: str) -> Iterator[str]:
    """An absolute folder, and each one that it lies in.

    >>> list(upwards("/a/b"))
    ['/a/b', '/a', '/']
    """
    yield folder
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def real_path(path: str) -> str:
    """The real path of a path. A link that this user may not read, such as that of another's process, leads to itself.

    >>> real_path("/nowhere/../elsewhere")
    '/elsewhere'
    """
    try:
        return os.path.realpath(path)
    except OSError:
        folder, name = os.path.split(os.path.abspath(path))
        full = os.path.join(real_path(folder), name)
    try:
        return real_path(os.path.join(os.path.dirname(full), os.readlink(full)))
    except OSError:
        return full


def moved_path(path: str, folder: str, other: str) -> str:
    """The path of something in a folder, as it is in another one.

    >>> moved_path("/a/b/c", "/a", "/z")
    '/z/b/c'
    """
    return os.path.normpath(os.path.join(other, os.path.relpath(path, folder)))


class LinkRules(NamedTuple):
    """The links that may be followed below a folder, and the sentences that refuse others."""

    leads_out: str
    hint: str
    too_many_hint: str
    allows_absolute: bool = False
    """Whether an absolute link may be followed that stays in the folder."""
    excluded: frozenset[str] = frozenset()
    """Names that no link may lead to or through."""

    def outside(self) -> FileRefused:
        """The refusal of a link that leads out of the folder."""
        return FileRefused(self.leads_out, hint=self.hint)


WORKSPACE_LINKS = LinkRules(
    leads_out="A link leaves the workspace (path traversal).",
    hint="Only files inside the workspace can be used.",
    too_many_hint="Name the file itself.",
    allows_absolute=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafePath:
    """A path below a folder, reached without leaving it: the folder that is open, and a name in it, there or not."""

    parent: int | None
    """The descriptor of the folder; None where the system cannot open relative to one."""
    folder: str
    name: str
    """A plain name that was no link when it was looked at; `.` for the folder itself."""

    @property
    def path(self) -> str:
        """The absolute path, for people."""
        return self.folder if self.name == "." else os.path.join(self.folder, self.name)

    def at(self, name: str | None = None) -> str:
        """The path to give the system for this name or a neighbour, together with `dir_fd=parent`."""
        name = name or self.name
        return name if self.parent is not None else os.path.join(self.folder, name)

    def rename(self, source: str, to: str) -> None:
        """Give a name of the folder another one; either may be a path below it."""
        os.rename(self.at(source), self.at(to), src_dir_fd=self.parent, dst_dir_fd=self.parent)

    def create(self, data: bytes, *, executable: bool = False, sync: bool = False) -> None:
        """Make the file, which must not be there yet; with `sync`, so that it outlasts a power cut."""
        descriptor = os.open(self.at(), CREATE, 0o777 if executable else 0o666, dir_fd=self.parent)
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            if sync:
                out.flush()
                os.fsync(descriptor)


@contextlib.contextmanager
def open_below(
    root: str,
    segments: Sequence[str],
    *,
    create: bool = False,
    check: Callable[[str], None] | None = None,
    links: LinkRules = WORKSPACE_LINKS,
    contain: str | None = None,
) -> Iterator[SafePath]:
    """The path that segments lead to, below a folder that is itself free of links; with `create`, folders are made.

    Each segment is opened from the folder before it and without following links; a link is read and its target walked
    the same way. Nothing is checked and then used, so that a change of the folder meanwhile makes no difference.
    `check` gets the path that they really lead to, once before a folder is made and once in the end, and may raise.
    With `contain`, the folder must lie inside that path when it is opened.
    Raises `FileRefused` when a link leads out, and `OSError` as opening does.
    """
    if not HAS_DIR_FD:
        yield _resolve(root, segments, create=create, check=check, links=links, contain=contain)
        return
    stack = [open_folder(root, contain)]
    names: list[str] = []
    waiting = list(reversed(segments))
    followed = 0
    name = "."
    try:
        while waiting:
            segment = waiting.pop()
            if segment == "..":
                if not names:
                    raise links.outside()
                names.pop()
                os.close(stack.pop())
                continue
            target = _read_link(segment, stack[-1])
            if target is None:
                if not waiting:
                    name = segment
                    break
                if len(stack) > _MAX_DEPTH:
                    raise FileRefused(f"The path is more than {_MAX_DEPTH} folders deep.", hint="Use fewer folders.")
                try:
                    entered = os.open(segment, LIST, dir_fd=stack[-1])
                except FileNotFoundError:
                    if not create:
                        raise
                    if check is not None:
                        # Below what is not there yet no link can be.
                        check(os.path.normpath(os.path.join(root, *names, segment, *reversed(waiting))))
                    entered = _make_folder(segment, stack[-1])
                stack.append(entered)
                names.append(segment)
                continue
            followed += 1
            if followed > _MAX_LINKS:
                raise FileRefused("Too many links follow one another.", hint=links.too_many_hint)
            if os.path.isabs(target):
                if not links.allows_absolute:
                    raise links.outside()
                target = path_below(target, root, links)
                while names:
                    names.pop()
                    os.close(stack.pop())
            parts = [part for part in target.split("/") if part not in ("", ".")]
            if not links.excluded.isdisjoint(parts):
                raise FileRefused(
                    "A link leads to what is not part of the skill.", hint="Replace it by a copy of the file."
                )
            waiting.extend(reversed(parts))
        safe = SafePath(parent=stack[-1], folder=os.path.join(root, *names), name=name)
        if check is not None:
            check(safe.path)
        yield safe
    finally:
        for descriptor in stack:
            os.close(descriptor)


def open_folder(root: str, contain: str | None = None) -> int:
    """The descriptor of a folder; raises `FileRefused` where it lies outside of `contain` once it is open."""
    descriptor = os.open(root, _FOLDER)
    if contain is not None and not _lies_inside(descriptor, root, contain):
        os.close(descriptor)
        raise FileRefused(
            f"{root} leads outside {contain} (path traversal).", hint="Trust the folder, or copy the skill into it."
        )
    return descriptor


def open_plain(path: str) -> IO[bytes]:
    """Open a file to read it, with the flags of `READ`; a folder in its place is an `OSError` as well."""
    # By an opener, as `open` does not close a descriptor that it is given and refuses.
    return open(path, "rb", opener=lambda file, _: os.open(file, READ))


def open_own(path: str) -> IO[bytes]:
    """Open a regular file of this user to read it; anything else there is an `OSError`."""
    file = open_plain(path)
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
    except BaseException:
        file.close()
        raise
    return file


def short_digest(data: bytes, digits: int) -> str:
    """The first digits of the SHA-256 of something short: a name for it.

    >>> short_digest(b"/srv/skills", 8)
    '9f0fc3e5'
    """
    digest: str = _sha256(data).hexdigest()
    return digest[:digits]


def path_below(path: str, root: str, links: LinkRules = WORKSPACE_LINKS) -> str:
    """The rest of an absolute path below a folder; raises `FileRefused` when it lies elsewhere."""
    if not is_inside(path, root):
        raise links.outside()
    return path[len(root) :].lstrip(os.sep)


def _lies_inside(descriptor: int, path: str, contain: str) -> bool:
    try:
        real = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        # No such view of open folders here: the path must lead there, and to the same folder.
        real = os.path.realpath(path)
        if not os.path.samestat(os.fstat(descriptor), os.stat(real)):
            return False
    return is_inside(real, contain)


def _read_link(segment: str, folder: int) -> str | None:
    """The target of a link; None for anything else, and for what is not there."""
    try:
        return os.readlink(segment, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _make_folder(segment: str, folder: int) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(segment, dir_fd=folder)
    return os.open(segment, LIST, dir_fd=folder)


def _resolve(
    root: str,
    segments: Sequence[str],
    *,
    create: bool,
    check: Callable[[str], None] | None,
    links: LinkRules,
    contain: str | None,
) -> SafePath:
    """The same where the system cannot open relative to a descriptor: resolve, then check."""
    base = os.path.realpath(root)
    if contain is not None:
        path_below(base, contain, links)
    real = os.path.realpath(os.path.join(base, *segments))
    path_below(real, base, links)
    if check is not None:
        check(real)
    if real == base:
        return SafePath(parent=None, folder=base, name=".")
    folder, name = os.path.split(real)
    if create:
        os.makedirs(folder, exist_ok=True)
    return SafePath(parent=None, folder=folder, name=name)


@contextlib.contextmanager
def locked_folder(folder: str, *names: str) -> Iterator[None]:
    """Hold a lock on a folder while files in it are read and changed; it does nothing where there are no locks.

    Of the files that are named, it takes away what another process left that was killed while it wrote one.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, _FOLDER)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(f".{name}.tmp", dir_fd=descriptor)
        yield
    finally:
        os.close(descriptor)


def safe_rmtree(folder: str) -> bool:
    """Remove a folder with all that is in it, however deep and locked, following no link; whether it is gone.

    A deep folder is moved up before its content is listed. So no path grows long, two descriptors are enough, and
    nothing recurses. A folder that stays is logged.
    """
    if not _CAN_REMOVE:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            top = _open_unlocked(folder, None)
            try:
                _empty(top)
            finally:
                os.close(top)
            os.rmdir(folder)
    is_gone = not os.path.lexists(folder)
    if not is_gone:
        from metier._lazy import logger  # imported where it is needed: every command imports this module

        logger("metier").warning("The private folder %s could not be removed.", folder)
    return is_gone


def _empty(top: int) -> None:
    until = time.monotonic() + _MOST_SECONDS
    has_changed = True
    while has_changed:
        has_changed = False
        for name, is_folder in _list(top):
            if time.monotonic() > until:
                return
            with contextlib.suppress(OSError):
                if not is_folder:
                    os.unlink(name, dir_fd=top)
                else:
                    has_changed |= _raise_folders(top, name)
                    os.rmdir(name, dir_fd=top)
                has_changed = True


def _raise_folders(top: int, name: str) -> bool:
    """Empty a folder: files are deleted, and folders moved to the top under new names; whether there was one."""
    folder, has_raised = _open_unlocked(name, top), False
    try:
        for inner, is_folder in _list(folder):
            with contextlib.suppress(OSError):
                if not is_folder:
                    os.unlink(inner, dir_fd=folder)
                    continue
                # Only a folder that may be written to can be moved.
                os.close(_open_unlocked(inner, folder))
                os.rename(inner, os.urandom(16).hex(), src_dir_fd=folder, dst_dir_fd=top)
                has_raised = True
    finally:
        os.close(folder)
    return has_raised


def _open_unlocked(name: str, parent: int | None) -> int:
    """A descriptor of a folder, unlocked if its mode does not let its owner in."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        if path_only := getattr(os, "O_PATH", 0):
            held = os.open(name, path_only | LIST, dir_fd=parent)
            try:
                # The folder itself, whatever has its name by now.
                os.chmod(f"/proc/self/fd/{held}", stat.S_IRWXU)
            finally:
                os.close(held)
        else:
            os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)
    return os.open(name, LIST, dir_fd=parent)


def _list(folder: int) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False)


@contextlib.contextmanager
def replace_file(
    path: str | os.PathLike[str],
    *,
    mode: int = 0o600,
    exact_mode: int | None = None,
    sync: bool = False,
    alone: bool = False,
    dir_fd: int | None = None,
) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends, and is removed when the block raises.

    A reader finds the old file or the whole new one, and a crash leaves no half of it.

    It lies in the same folder until then. The umask limits `mode`, and not `exact_mode`. With `sync`, its content is on
    disk before it takes the place. `path` may be relative to the folder that `dir_fd` is the descriptor of. Who is
    `alone`, by `locked_folder` with the name of the file, leaves nothing for good when killed meanwhile.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "notes.txt")
    >>> with replace_file(path) as file:
    ...     _ = file.write(b"whole")
    >>> with open(path, "rb") as file:
    ...     file.read()
    b'whole'
    """
    path = os.fspath(path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.tmp" if alone else f".metier-{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, _REPLACE, mode, dir_fd=dir_fd)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            if exact_mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, exact_mode)
            if sync:
                file.flush()
                os.fsync(descriptor)
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        raise


def write_file(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int = 0o600,
    exact_mode: int | None = None,
    sync: bool = False,
    alone: bool = False,
    dir_fd: int | None = None,
) -> None:
    """Write a whole file atomically; see `replace_file`."""
    with replace_file(path, mode=mode, exact_mode=exact_mode, sync=sync, alone=alone, dir_fd=dir_fd) as file:
        file.write(data)
