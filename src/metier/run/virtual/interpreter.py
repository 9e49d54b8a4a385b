"""A bash interpreter with its files and its checkpoints. This runs in the worker."""

from __future__ import annotations

import time

from bashkit import BashError

from metier.run.virtual.execution import execute, new_interpreter
from metier.run.virtual.filesystem import Refusal, content, kind_of, measure, over, put, remember_initial_files, take
from metier.run.virtual.read_only_commands import ReadOnlyCommands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from bashkit import Bash, FileSystem

    from metier.run.virtual.channel import Channel, Head
    from metier.run.virtual.execution import Reply
    from metier.run.virtual.filesystem import File

_CHEAP, _SHARE = 0.05, 5
"""A checkpoint is taken at once if the last took no longer than this; else when so many times that has gone by."""
_KINDS = {"f": "file", "d": "folder", "l": "link"}


class Interpreter:
    """One shell: settings that never change, and state that does."""

    def __init__(self, settings: Head, channel: Channel, mounts: Mapping[str, FileSystem]) -> None:
        self._settings, self._channel, self._mounts = settings, channel, mounts
        self._seconds: float = settings["seconds"]
        self._known: list[str] = []
        self._cost, self._taken = 0.0, 0.0
        self._is_changed = False
        self._read_only = ReadOnlyCommands(is_known=True)
        self._bash = self._new()

    def begin(self, commit: str | None, objects: dict[str, bytes]) -> None:
        """Begin with an empty workspace, or where a checkpoint was taken."""
        files = self._bash.fs()
        remember_initial_files(self._bash)
        if commit is not None:
            self._bash.checkout(commit, objects)
            self._known = list(objects)
            self._read_only = ReadOnlyCommands(is_known=False)
        else:
            files.mkdir(self._settings["folder"], recursive=True)
            if self._settings["prelude"]:
                self._bash.execute_sync(self._settings["prelude"])
            self._is_changed = True
        self._show_mounts()

    def run(self, stdin: bytes = b"", *, seconds: float, command: str, **line: Any) -> Reply:
        """Run a command line, and keep its changes if they are within the limits."""
        if seconds != self._seconds:
            self._rebuild(seconds)
        if self._is_changed and self._is_due():
            commit, objects = self._commit()
            self._channel.send({"event": "checkpoint", **commit}, objects)
        is_read_only = self._read_only.includes(self._bash, command)
        reply, output = execute(self._bash, self._channel, stdin, command=command, **line)
        if is_read_only:
            return {**reply, "is_same": True}, output
        self._is_changed = True
        self._show_mounts()
        if too_much := self._over():
            return {**reply, "over": too_much}, output
        if not self._is_due():
            return reply, output
        commit, objects = self._commit()
        return {**reply, **commit}, [*output, *objects]

    def checkpoint(self) -> Reply:
        """The whole state as it is now, however much that costs."""
        self._known = []
        return self._commit()

    def snapshot(self) -> Reply:
        """The state in one piece, for people to keep."""
        return {}, [self._bash.snapshot()]

    def restore(self, snapshot: bytes) -> Reply:
        """Go back to such a piece."""
        try:
            self._bash.restore_snapshot(snapshot)
        except BashError as error:
            raise Refusal("snapshot", str(error)) from None
        self._is_changed, self._read_only = True, ReadOnlyCommands(is_known=False)
        self._show_mounts()
        return {"over": self._over()}, []

    def usage(self) -> Reply:
        """The number of files and bytes."""
        found = measure(self._bash, self._mounts)
        return {"counts": {"nodes": found.nodes, "files": found.files, "total_bytes": found.total_bytes}}, []

    def folder(self) -> Reply:
        """The working folder."""
        return {"path": self._bash.shell_state().cwd}, []

    def read(self, *, path: str) -> Reply:
        """The bytes of a file."""
        self._must_be(path, "file")
        return {}, [self._bash.fs().read_file(path)]

    def write(self, data: bytes, *, path: str) -> None:
        """Write a file, with the folders that it needs; if it would be too much, all stays as it was."""
        if self._kind(path) == "folder":
            raise Refusal("is-folder", path)
        self.put(files=[(path, "f", 0o644, data)])

    def take(self, *, path: str) -> Reply:
        """Read a folder with all that is in it."""
        self._must_be(path, "folder")
        return {"files": take(self._bash.fs(), path)}, []

    def entries(self, *, path: str) -> Reply:
        """The entries of a folder, and not of its folders."""
        self._must_be(path, "folder")
        entries = []
        for entry in self._bash.fs().read_dir(path):
            about = entry["metadata"]
            kind = {"directory": "folder", "symlink": "link"}.get(about["file_type"], "file")
            entries.append((f"{path.rstrip('/')}/{entry['name']}", kind, about["size"], about["mode"]))
        return {"entries": sorted(entries)}, []

    def stat(self, *, path: str) -> Reply:
        """The entry at a path."""
        kind = self._must_exist(path)
        if kind == "link":
            return {"entry": (path, kind, len(self._bash.read_link(path).encode()), 0o777)}, []
        about = self._bash.stat(path)
        return {"entry": (path, kind, about["size"], about["mode"])}, []

    def remove(self, *, path: str, recursive: bool) -> None:
        """Delete a file, or a folder."""
        files, is_folder = self._bash.fs(), self._must_exist(path) == "folder"
        if path == "/":
            raise Refusal("is-root", path)
        if is_folder and not recursive and files.read_dir(path):
            raise Refusal("not-empty", path)
        self._change(lambda: files.remove(path, recursive=recursive or is_folder))

    def copy(self, *, path: str, to: str) -> None:
        """Copy a file or folder to a path where nothing is."""
        system = self._bash.fs()
        self._must_be_free(path, to)
        kind = kind_of(system, path)
        mode = self._bash.stat(path)["mode"] if kind == "f" else 0o755
        inside = take(system, path) if kind == "d" else []
        top = (to, kind, mode, content(system, path, kind))
        self.put(files=[top, *((to + at[len(path) :], what, mode, blob) for at, what, mode, blob in inside)])

    def move(self, *, path: str, to: str) -> None:
        """Move a file or folder to a path where nothing is."""
        files = self._bash.fs()
        self._must_be_free(path, to)
        parent = to.rpartition("/")[0]
        if parent:
            self._change(lambda: files.mkdir(parent, recursive=True))
        self._change(lambda: files.rename(path, to))

    def make_folder(self, *, path: str) -> None:
        """Make a folder, with those that it is in."""
        if self._kind(path) not in ("", "folder"):
            raise Refusal("exists", path)
        self.put(files=[(path, "d", 0o755, b"")])

    def put(self, *, files: list[File]) -> None:
        """Write files, if all of them are within the limits."""
        system, limits = self._bash.fs(), self._settings["limits"]
        found = measure(self._bash, self._mounts)
        nodes, total = found.nodes, found.total_bytes
        given = {file[0] for file in files}
        for path, kind, _, blob in files:
            if len(blob) > limits["file_bytes"]:
                raise Refusal("over", f"{path} exceeds the limit of {limits['file_bytes']} bytes for a file")
            if path.count("/") > limits["depth"]:
                raise Refusal("over", f"{path} exceeds the limit of {limits['depth']} folders inside one another")
            there = kind_of(system, path)
            if there == "f" and kind != "d":
                total -= int(system.stat(path)["size"])
            elif not there:
                nodes += 1 + self._missing_above(path, given)
            total += len(blob) if kind == "f" else 0
        if total > limits["total_bytes"]:
            raise Refusal("over", f"this exceeds the limit of {limits['total_bytes']} bytes for all files")
        if nodes > limits["files"] + 1:
            raise Refusal("over", f"this exceeds the limit of {limits['files']} files and folders")
        self._change(lambda: put(system, files))

    def _new(self) -> Bash:
        self._shown: set[str] = set()
        return new_interpreter(
            self._settings,
            self._channel,
            self._mounts,
            lambda: self._bash.cancel(),
            folder=self._settings["folder"],
            env=self._settings["env"],
            seconds=self._seconds,
        )

    def _rebuild(self, seconds: float) -> None:
        """Go on with another time limit, which an interpreter is made with."""
        packed = self._bash.commit()
        self._seconds = seconds
        self._bash = self._new()
        self._bash.checkout(packed.id, packed.objects)
        self._show_mounts()

    def _show_mounts(self) -> None:
        """Mount the read-only folders, in folders that can be seen; a command may have removed those."""
        files = self._bash.fs()
        for path, mounted in self._mounts.items():
            parent, _, name = path.rpartition("/")
            if path in self._shown:
                if name in self._bash.ls(parent or "/"):
                    continue
                self._bash.unmount(path)
            files.mkdir(path, recursive=True)
            self._bash.mount(path, mounted, read_only=True)
            self._shown.add(path)

    def _change(self, act: Callable[[], object]) -> None:
        try:
            act()
        except RuntimeError as error:
            text = str(error)
            kind = "read-only" if "read-only" in text else "over" if "exceed" in text or "limit" in text else "failed"
            raise Refusal(kind, text.removeprefix("io error: ")) from None
        self._is_changed = True

    def _missing_above(self, path: str, given: set[str]) -> int:
        files, count = self._bash.fs(), 0
        while (path := path.rpartition("/")[0]) and path not in given and not files.exists(path):
            count += 1
        return count

    def _kind(self, path: str) -> str:
        return _KINDS.get(kind_of(self._bash.fs(), path), "")

    def _must_be(self, path: str, wanted: str) -> None:
        try:
            found = {"file": "file", "directory": "folder"}.get(self._bash.stat(path)["file_type"], "")
        except Exception:
            raise Refusal("missing", path) from None
        if found != wanted:
            raise Refusal("is-folder" if found == "folder" else "no-folder", path)

    def _must_exist(self, path: str) -> str:
        """The kind of a path."""
        if kind := self._kind(path):
            return kind
        raise Refusal("missing", path)

    def _must_be_free(self, path: str, to: str) -> None:
        """Raise if a path cannot be copied or moved to another one."""
        self._must_exist(path)
        if self._kind(to):
            raise Refusal("exists", to)
        if f"{to}/".startswith(f"{path.rstrip('/')}/"):
            raise Refusal("inside", to)

    def _over(self) -> str:
        return over(self._bash, self._mounts, self._settings["limits"])

    def _is_due(self) -> bool:
        return self._cost <= _CHEAP or time.monotonic() - self._taken > _SHARE * self._cost

    def _commit(self) -> Reply:
        started = time.monotonic()
        packed = self._bash.commit(have=self._known)
        known = set(self._known)
        new = {name: blob for name, blob in packed.objects.items() if name not in known}
        self._known.extend(new)
        self._taken = time.monotonic()
        self._cost, self._is_changed = self._taken - started, False
        return {"commit": packed.id, "objects": list(new)}, list(new.values())
