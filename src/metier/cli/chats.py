"""Conversations that were held at the terminal, kept so that they can go on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from metier.errors import InvalidArgument, SessionNotFound

MAX_KEPT = 200
MAX_BYTES = 64 * 1024 * 1024
LAST = "last"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def default_folder() -> Path:
    """Where they are kept: below the user's state folder."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home) / "metier" / "chats"
    if sys.platform == "darwin":
        return Path(home) / "Library" / "Application Support" / "metier" / "chats"
    return Path(os.environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")) / "metier" / "chats"


class Chats:
    """Kept conversations by their id, readable for nobody else; the oldest of many are removed.

    >>> import tempfile
    >>> chats = Chats(tempfile.mkdtemp())
    >>> chats.keep("one", {"agent": "orchestrator"})
    >>> chats.read("last")
    {'agent': 'orchestrator'}
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()

    def keep(self, id: str, state: dict[str, Any]) -> None:  # noqa: A002
        """Keep a conversation as it is now; it is there as a whole or as it was before."""
        path = self._path(id)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(state, file)
                if file.tell() > MAX_BYTES:
                    raise InvalidArgument(
                        f"The conversation has more than {MAX_BYTES:,} bytes and stays as it was kept before.",
                        hint="Begin a new one: `metier chat`.",
                    )
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        for old in self._kept()[MAX_KEPT:]:
            with contextlib.suppress(OSError):
                old.unlink()

    def read(self, id: str) -> dict[str, Any]:  # noqa: A002
        """A conversation as it was kept, or the one that was kept last."""
        if id == LAST:
            kept = self._kept()
            if not kept:
                raise SessionNotFound("No conversation is kept here.", hint="Begin one: `metier chat`.")
            path = kept[0]
        else:
            path = self._path(id)
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            raise SessionNotFound(
                f"No conversation {id!r:.80} is kept here.", hint="`--resume` alone goes on with the last one.", id=id
            ) from None
        try:
            state = json.loads(data) if len(data) <= MAX_BYTES else None
        except (ValueError, RecursionError):
            state = None
        if not isinstance(state, dict):
            raise InvalidArgument(f"The conversation in {path} cannot be read.", hint="Begin a new one: `metier chat`.")
        return state

    def _path(self, id: str) -> Path:  # noqa: A002
        if not _ID.fullmatch(id):
            raise InvalidArgument(f"{id!r:.80} is no id of a conversation.", hint="The end of a chat says its id.")
        return self.folder / f"{id}.json"

    def _kept(self) -> list[Path]:
        """The newest first."""
        found = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
        return [path for _, path in sorted(found, reverse=True)]
