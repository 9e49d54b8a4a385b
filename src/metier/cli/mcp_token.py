"""The token of `metier mcp --http` where nobody gave one: made once, in a file that its user alone can read."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING

from metier.errors import SourceUnavailable
from metier.library.trust import default_config_folder

if TYPE_CHECKING:
    from pathlib import Path

_MAX = 1_000
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_IS_POSIX = os.name == "posix"


def token_file() -> Path:
    """The file of the token."""
    return default_config_folder() / "mcp-token"


def kept_token(file: Path) -> str:
    """The token in a file, which is made where there is none; raises where others could have read or written it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _read(file)
        except FileNotFoundError:
            _make(file)
            return _read(file)
    except OSError as error:
        raise _unusable(file, f"cannot be used: {error.strerror}") from None


def _read(file: Path) -> str:
    descriptor = os.open(file, os.O_RDONLY | _FLAGS)
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if found.st_nlink > 1:
            _remove_parts(file)
            found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(file, "is no file")
        if _IS_POSIX and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_nlink != 1):
            raise _unusable(file, "is not yours alone")
        token = opened.read(_MAX).decode("ascii", "replace").strip()
    if len(token) < 32 or not token.isascii() or not token.isprintable():
        raise _unusable(file, "holds no token")
    return token


def _make(file: Path) -> None:
    """Make it whole or not at all: another server that starts now finds all of it, or makes it itself."""
    beside = file.with_name(f"{_part(file)}{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(f"{secrets.token_urlsafe(32)}\n".encode())
        with contextlib.suppress(FileExistsError):
            os.link(beside, file)  # unlike a rename, it takes the place of nothing
    finally:
        beside.unlink(missing_ok=True)


def _remove_parts(file: Path) -> None:
    """Remove the second name of the file: of a server that makes it at this moment, or was killed as it did."""
    for beside in file.parent.glob(f"{_part(file)}*"):
        with contextlib.suppress(OSError):
            if beside.samefile(file):
                beside.unlink()


def _part(file: Path) -> str:
    return f".{file.name}-"


def _unusable(file: Path, why: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"The file of the token {file} {why}.",
        hint="Remove it, and another is made; or set METIER_TOKEN.",
        path=os.fspath(file),
    )
