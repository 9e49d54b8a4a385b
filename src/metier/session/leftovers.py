"""Files that a script left in the workspace, with marks where it wrote a secret into them.

Only what it made is touched: plain files of text that were not there before. A file of the user's that it changed stays
as it left it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.session.masking import Masks

MOST_FILES = 20_000
MAX_BYTES = 1024 * 1024
_FLAGS = os.O_RDWR | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class Leftovers:
    """What was in a folder before something ran there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before: set[str] = set()
        for count, path in enumerate(_files(folder)):
            if count == MOST_FILES:
                break
            self._before.add(path)

    def hide(self, masks: Masks) -> tuple[str, ...]:
        """Put marks into the files that are new; what people should know of it."""
        if len(self._before) == MOST_FILES:
            return ("New files were not searched for secrets, as the workspace has too many.",)
        notes = []
        for count, path in enumerate(_files(self._folder)):
            if count >= 2 * MOST_FILES:
                notes.append("Not all new files were searched for secrets, as there are too many.")
                break
            with contextlib.suppress(OSError):
                if path not in self._before and _hide_in(path, masks):
                    notes.append(f"A secret was taken out of {os.path.relpath(path, self._folder)}.")
        return tuple(notes)


def _files(folder: str) -> Iterator[str]:
    # Not `os.walk`, which calls itself in some versions of Python, and a script can make folders as deep as it likes.
    pending = [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry.path


def _hide_in(path: str, masks: Masks) -> bool:
    """Whether a file had something to hide, which it has no longer."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "r+b") as file:
        status = os.fstat(descriptor)
        # Another name may be that of a file which was there before.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_BYTES:
            return False
        data = file.read(MAX_BYTES + 1)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        hidden = masks.hide(text)
        if hidden == text:
            return False
        file.seek(0)
        file.write(hidden.encode())
        file.truncate()
    return True
