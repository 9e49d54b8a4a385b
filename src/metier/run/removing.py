"""A folder with all that is in it, removed whatever somebody made of it: however deep, and however it is locked."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from typing import TYPE_CHECKING

from metier._log import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logger("metier.run")

_NEEDED = {os.open, os.stat, os.rename, os.unlink, os.rmdir}
_CAN_STEP = hasattr(os, "O_NOFOLLOW") and os.supports_dir_fd >= _NEEDED and os.scandir in os.supports_fd
_FOLDER = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_PATH_ONLY = getattr(os, "O_PATH", 0)
_MOST_SECONDS = 60.0
"""After which it gives up, as somebody may be making files faster than they can be removed."""


def remove_tree(folder: str) -> bool:
    """Remove a folder, without following a link; whether it is gone. What stays is logged.

    What lies deep is moved up before it is looked into. So no path grows long, two descriptors are enough, and nothing
    calls itself.
    """
    if not _CAN_STEP:
        shutil.rmtree(folder, ignore_errors=True)
        return _is_gone(folder)
    with contextlib.suppress(OSError):
        top = _opened(folder, None)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)
    return _is_gone(folder)


def _empty(top: int) -> None:
    until = time.monotonic() + _MOST_SECONDS
    has_changed = True
    while has_changed:
        has_changed = False
        for name, is_folder in _entries(top):
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
    folder, has_raised = _opened(name, top), False
    try:
        for inner, is_folder in _entries(folder):
            with contextlib.suppress(OSError):
                if not is_folder:
                    os.unlink(inner, dir_fd=folder)
                    continue
                # To be moved, a folder must be one that may be written to.
                os.close(_opened(inner, folder))
                os.rename(inner, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
                has_raised = True
    finally:
        os.close(folder)
    return has_raised


def _opened(name: str, parent: int | None) -> int:
    """A folder, unlocked if its mode does not let its owner in."""
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        if _PATH_ONLY:
            held = os.open(name, _PATH_ONLY | _FOLDER, dir_fd=parent)
            try:
                # The folder itself, whatever has its name by now.
                os.chmod(f"/proc/self/fd/{held}", stat.S_IRWXU)
            finally:
                os.close(held)
        else:
            os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)
    return os.open(name, os.O_RDONLY | _FOLDER, dir_fd=parent)


def _entries(folder: int) -> Iterator[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False)


def _is_gone(folder: str) -> bool:
    is_gone = not os.path.lexists(folder)
    if not is_gone:
        log.warning("The private folder %s could not be removed.", folder)
    return is_gone
