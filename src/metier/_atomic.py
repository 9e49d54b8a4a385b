"""Atomic writes: a reader finds the old file or the whole new one, and a crash leaves no half of it."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREATE = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@contextlib.contextmanager
def replace_file(
    path: str | os.PathLike[str],
    *,
    mode: int = 0o600,
    exact_mode: int | None = None,
    sync: bool = False,
    dir_fd: int | None = None,
) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when the block ends, and is removed when the block raises.

    It lies in the same folder until then. The umask limits `mode`, and not `exact_mode`. With `sync`, its content is on
    disk before it takes the place. `path` may be relative to the folder that `dir_fd` is the descriptor of.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "notes.txt")
    >>> with replace_file(path) as file:
    ...     _ = file.write(b"whole")
    >>> open(path, "rb").read()
    b'whole'
    """
    path = os.fspath(path)
    temporary = os.path.join(os.path.dirname(path), f".metier-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, _CREATE, mode, dir_fd=dir_fd)
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
    dir_fd: int | None = None,
) -> None:
    """Write a whole file atomically; see `replace_file`."""
    with replace_file(path, mode=mode, exact_mode=exact_mode, sync=sync, dir_fd=dir_fd) as file:
        file.write(data)
