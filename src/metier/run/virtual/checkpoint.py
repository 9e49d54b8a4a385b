"""Checkpoints of a shell: its worker is started when it is needed, and again from the last one when it died."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.run.virtual.command_line import PRELUDE, PROGRAMS_BY_EXTENSION
from metier.run.virtual.connection import Connection, WorkerRefusal
from metier.run.virtual.validation import checked_text
from metier.run.virtual.worker_process import WorkerLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from metier.run.virtual.channel import Head
    from metier.run.virtual.native_bridge import LoadedSkillFiles
    from metier.run.virtual.validation import ShellLimits

_OBJECT = re.compile(r"[0-9a-f]{16,128}").fullmatch
_MOST_HELD, _MOST_OBJECTS = 3, 2_000
"""The most that checkpoints hold, in multiples of the limit on all files and in objects, before one is taken anew."""
_ENVIRONMENT = {"HOME": "/home/user", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp"}


class Checkpoints:
    """Keeps a worker, the skills that it must have, and the state to begin another one with.

    A checkpoint is objects that only a worker ever looks into; each new one adds those that changed. One is taken after
    every command while that is cheap, and less often when a workspace is large. Nothing here is safe for threads.
    """

    def __init__(self, *, folder: str, mount: str, limits: ShellLimits, is_native: bool) -> None:
        self.skills: dict[str, LoadedSkillFiles] = {}
        self._outlines: Mapping[str, bytes] = {}
        self.connection: Connection | None = None
        self._limits = limits
        self._settings = {
            "folder": folder,
            "env": _ENVIRONMENT,
            "mount": mount,
            "prelude": PRELUDE,
            "is_native": is_native,
            "programs": PROGRAMS_BY_EXTENSION,
            "seconds": limits.seconds,
            "commands": limits.commands,
            "loop_turns": limits.loop_turns,
            "limits": {name: getattr(limits, name) for name in ("file_bytes", "total_bytes", "files", "depth")},
        }
        self._commit: str | None = None
        self._objects: dict[str, bytes] = {}
        self._behind, self._least = 0, 0

    @property
    def is_current(self) -> bool:
        """Whether the checkpoint is up to date."""
        return self._commit is not None and self._behind == 0

    @property
    def state(self) -> str:
        """The state that a new worker starts with, in a sentence."""
        if self._commit is None:
            return "The workspace is as it was in the beginning."
        if self._behind <= 0:
            return "Files and variables are as they were before this command."
        return f"Files and variables are as they were {self._behind} commands before this one."

    def connected(self) -> Connection:
        """The worker, started if there is none."""
        if self.connection is None or not self.connection.is_alive:
            self.connection = self.start()
        return self.connection

    def start(self) -> Connection:
        """Another worker, which starts from the last checkpoint."""
        connection = Connection()
        try:
            if self._outlines:
                self._send_outlines(connection)
            for name in tuple(self.skills):
                self._send_skill(connection, name)
            self._open(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def put_skill(self, name: str, skill: LoadedSkillFiles | None) -> bool:
        """Mount a skill, or unmount it; whether it was there."""
        was_there = self.skills.pop(name, None) is not None
        if skill is not None:
            self.skills[name] = skill
        if self.connection is not None and self.connection.is_alive:
            self._send_skill(self.connection, name)
        return was_there

    def put_outlines(self, outlines: Mapping[str, bytes]) -> None:
        """Set the outlines of skills that are not mounted."""
        self._outlines = dict(outlines)
        if self.connection is not None and self.connection.is_alive:
            self._send_outlines(self.connection)

    def go_back(self) -> None:
        """Go back to the last checkpoint."""
        try:
            if self.connection is not None:
                self._open(self.connection)
        except (WorkerRefusal, WorkerLost):
            self.drop()

    def drop(self) -> None:
        """End the worker; the next one starts from the checkpoint."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def forget(self) -> None:
        """End the worker and drop the checkpoint."""
        self.drop()
        self._objects.clear()

    def fall_behind(self) -> None:
        """Count a command without a checkpoint."""
        self._behind += 1

    def take(self, head: Head, blobs: Sequence[bytes]) -> None:
        """Store a checkpoint that a worker sent; raises `ValueError` for an invalid one."""
        commit, names = checked_text(head["commit"], 200), head["objects"]
        if not _OBJECT(commit) or not isinstance(names, list) or len(names) != len(blobs):
            raise ValueError("a checkpoint that is none")
        if not all(_OBJECT(checked_text(name, 200)) for name in names):
            raise ValueError("a checkpoint of something else")
        if self._size() > 2 * _MOST_HELD * self._limits.total_bytes + 2**26:
            raise ValueError("more in a checkpoint than there can be")
        self._objects.update(zip(names, blobs, strict=True))
        self._commit, self._behind = commit, 0

    def tidy(self) -> None:
        """Drop objects that only older checkpoints had, if they are many."""
        is_much = self._size() > _MOST_HELD * self._limits.total_bytes
        if is_much or len(self._objects) > max(_MOST_OBJECTS, 2 * self._least):
            try:
                self.refresh()
            except (WorkerRefusal, WorkerLost):
                self.drop()

    def refresh(self) -> None:
        """Take a complete checkpoint, however much it costs."""

        def read(head: Head, objects: list[bytes]) -> None:
            self._objects, self._least = {}, len(objects)
            self.take(head, objects)

        self.connected().ask_for(read, {"op": "checkpoint"})

    def _size(self) -> int:
        return sum(map(len, self._objects.values()))

    def _open(self, connection: Connection) -> None:
        head: Head = {"op": "open", "settings": self._settings, "commit": self._commit, "objects": list(self._objects)}
        connection.ask(head, list(self._objects.values()))

    def _send_outlines(self, connection: Connection) -> None:
        # All at once: there may be thousands.
        connection.ask({"op": "outlines", "names": list(self._outlines)}, list(self._outlines.values()))

    def _send_skill(self, connection: Connection, name: str) -> None:
        skill = self.skills.get(name)
        connection.ask({"op": "skill", "name": name, "files": skill.files if skill else []})
