"""Folders that `metier sync` wrote: copies of skills that come from elsewhere, for clients that only read disk."""

from __future__ import annotations

import json
import os

COPIES_FILE = ".metier-sync.json"
"""The list of what was copied into a folder of skills, beside the copies."""
MAX_LIST_BYTES = 8 * 1024 * 1024
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def copied_into(folder: str | os.PathLike[str]) -> frozenset[str]:
    """The names of the folders that are copies; none where nothing readable says so.

    >>> import tempfile
    >>> copied_into(tempfile.mkdtemp())
    frozenset()
    """
    try:
        with open(os.open(os.path.join(folder, COPIES_FILE), _FLAGS), "rb") as file:
            skills = json.loads(file.read(MAX_LIST_BYTES))["skills"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
    return frozenset(skills) if isinstance(skills, dict) else frozenset()
