"""Atomic swap: two names in the file system change places in one step, where the system can do that."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""
_UNABLE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_FUNCTIONS = {"linux": "renameat2", "darwin": "renameatx_np"}


def atomic_swap(folder: int | None, one: str, other: str) -> bool:
    """Let two names below an open folder change places; False where the system or the file system cannot do it.

    Neither is ever missing, and a process that ends meanwhile ends before or after. Raises `OSError` as
    `os.rename` does.
    """
    name = _FUNCTIONS.get(sys.platform)
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name and folder is not None else None
    if function is None:
        return False
    if function(folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number), one, None, other)
