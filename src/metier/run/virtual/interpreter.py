"""A bash interpreter with its files and its checkpoints. This runs in the worker."""

from __future__ import annotations

import time

from bashkit import Bash, BashError, ExecutionProfile

from metier.run.virtual.execution import execute
from metier.run.virtual.extra_commands import extra_commands
from metier.run.virtual.filesystem import Refusal, content, kind_of, measure, over, put, remember_initial_files, take
from metier.run.virtual.read_only_commands import ReadOnlyCommands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from bashkit import FileSystem

    from metier.run.virtual.channel import Channel, Head

    Reply: TypeAlias = tuple[Head, list[bytes]]

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

    def run(self, head: Head, blobs: list[bytes]) -> Reply:
        """Run a command line, and keep its changes if they are within the limits."""
        if head["seconds"] != self._seconds:
            self._rebuild(head["seconds"])
        if self._is_changed:
            self._send_checkpoint()
        is_read_only = self._read_only.includes(self._bash, head["command"])
        reply, output = execute(self._bash, self._channel, head, blobs)
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

    def checkpoint(self, head: Head, blobs: list[bytes]) -> Reply:
        """The state as it is now, however much that costs."""
        if head["is_whole"]:
            self._known = []
        return self._commit()

    def snapshot(self, head: Head, blobs: list[bytes]) -> Reply:
        """The state in one piece, for people to keep."""
        return {}, [self._bash.snapshot()]

    def restore(self, head: Head, blobs: list[bytes]) -> Reply:
        """Go back to such a piece."""
        try:
            self._bash.restore_snapshot(blobs[0])
        except BashError as error:
            raise Refusal("snapshot", str(error)) from None
        self._is_changed, self._read_only = True, ReadOnlyCommands(is_known=False)
        self._show_mounts()
        return {"over": self._over()}, []

    def usage(self, head: Head, blobs: list[bytes]) -> Reply:
        """The number of files and bytes."""
        found = measure(self._bash, self._mounts)
        return {"nodes": found.nodes, "files": found.files, "total_bytes": found.total_bytes}, []

    def folder(self, head: Head, blobs: list[bytes]) -> Reply:
        """The working folder."""
        return {"path": self._bash.shell_state().cwd}, []

    def read(self, head: Head, blobs: list[bytes]) -> Reply:
        """The bytes of a file."""
        self._must_be(head["path"], "file")
        return {}, [self._bash.fs().read_file(head["path"])]

    def write(self, head: Head, blobs: list[bytes]) -> Reply:
        """Write a file, with the folders that it needs; if it would be too much, all stays as it was."""
        path, data = head["path"], blobs[0]
        if self._kind(path) == "folder":
            raise Refusal("is-folder", path)
        self._put_within_limits([(path, "f", 0o644)], [data])
        return {}, []

    def put(self, head: Head, blobs: list[bytes]) -> Reply:
        """Write many files."""
        self._put_within_limits(head["records"], blobs)
        return {}, []

    def take(self, head: Head, blobs: list[bytes]) -> Reply:
        """Read a folder with all that is in it."""
        self._must_be(head["path"], "folder")
        records, contents = take(self._bash.fs(), head["path"])
        return {"records": records}, contents

    def entries(self, head: Head, blobs: list[bytes]) -> Reply:
        """The entries of a folder, and not of its folders."""
        self._must_be(head["path"], "folder")
        entries = []
        base = head["path"].rstrip("/")
        for entry in self._bash.fs().read_dir(head["path"]):
            about = entry["metadata"]
            kind = {"file": "file", "directory": "folder", "symlink": "link"}.get(about["file_type"], "file")
            entries.append((f"{base}/{entry['name']}", kind, about["size"], about["mode"]))
        return {"entries": sorted(entries)}, []

    def stat(self, head: Head, blobs: list[bytes]) -> Reply:
        """The entry at a path."""
        path = head["path"]
        kind = self._kind(path)
        if not kind:
            raise Refusal("missing", path)
        if kind == "link":
            return {"entry": (path, kind, len(self._bash.read_link(path).encode()), 0o777)}, []
        about = self._bash.stat(path)
        return {"entry": (path, kind, about["size"], about["mode"])}, []

    def remove(self, head: Head, blobs: list[bytes]) -> Reply:
        """Delete a file, or a folder."""
        path, files = head["path"], self._bash.fs()
        kind = self._kind(path)
        if not kind:
            raise Refusal("missing", path)
        if path == "/":
            raise Refusal("is-root", path)
        if kind == "folder" and not head["recursive"] and files.read_dir(path):
            raise Refusal("not-empty", path)
        self._change(lambda: files.remove(path, recursive=head["recursive"] or kind == "folder"))
        return {}, []

    def copy(self, head: Head, blobs: list[bytes]) -> Reply:
        """Copy a file or folder to a path where nothing is."""
        path, to, files = head["path"], head["to"], self._bash.fs()
        kind = self._kind(path)
        self._free(path, to, kind)
        if kind == "folder":
            records, contents = take(files, path)
            records = [(to, "d", 0o755), *((to + name[len(path) :], what, mode) for name, what, mode in records)]
            contents = [b"", *contents]
        else:
            records = [(to, "f" if kind == "file" else "l", self._bash.stat(path)["mode"] if kind == "file" else 0)]
            contents = [content(files, path, records[0][1])]
        self._put_within_limits(records, contents)
        return {}, []

    def move(self, head: Head, blobs: list[bytes]) -> Reply:
        """Move a file or folder to a path where nothing is."""
        path, to, files = head["path"], head["to"], self._bash.fs()
        self._free(path, to, self._kind(path))
        parent = to.rpartition("/")[0]
        if parent:
            self._change(lambda: files.mkdir(parent, recursive=True))
        self._change(lambda: files.rename(path, to))
        return {}, []

    def make_folder(self, head: Head, blobs: list[bytes]) -> Reply:
        """Make a folder, with those that it is in."""
        if self._kind(head["path"]) not in ("", "folder"):
            raise Refusal("exists", head["path"])
        self._put_within_limits([(head["path"], "d", 0o755)], [b""])
        return {}, []

    def _new(self) -> Bash:
        settings = self._settings
        self._shown: set[str] = set()
        return Bash(
            username="user",
            hostname="sandbox",
            cwd=settings["folder"],
            env=settings["env"],
            # This profile has no cap on the number of calls; what else it lifts is set here.
            profile=ExecutionProfile.Interactive,
            max_commands=settings["commands"],
            max_loop_iterations=settings["loop_turns"],
            timeout_seconds=self._seconds,
            custom_builtins=extra_commands(settings, self._channel, self._mounts, self._cancel),
        )

    def _cancel(self) -> None:
        self._bash.cancel()

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

    def _put_within_limits(self, records: list[tuple[str, str, int]], blobs: list[bytes]) -> None:
        files, limits = self._bash.fs(), self._settings["limits"]
        found = measure(self._bash, self._mounts)
        nodes, total = found.nodes, found.total_bytes
        for (path, kind, _), blob in zip(records, blobs, strict=True):
            if len(blob) > limits["file_bytes"]:
                raise Refusal("over", f"{path} exceeds the limit of {limits['file_bytes']} bytes for a file")
            if path.count("/") > limits["depth"]:
                raise Refusal("over", f"{path} exceeds the limit of {limits['depth']} folders inside one another")
            there = kind_of(files, path)
            if there and kind != "d" and there != "l":
                total -= int(files.stat(path)["size"]) if there == "f" else 0
            elif not there:
                nodes += 1 + self._missing_above(path, {record[0] for record in records})
            total += len(blob) if kind == "f" else 0
        if total > limits["total_bytes"]:
            raise Refusal("over", f"this exceeds the limit of {limits['total_bytes']} bytes for all files")
        if nodes > limits["files"] + 1:
            raise Refusal("over", f"this exceeds the limit of {limits['files']} files and folders")
        self._change(lambda: put(files, records, blobs))

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

    def _free(self, path: str, to: str, kind: str) -> None:
        if not kind:
            raise Refusal("missing", path)
        if self._kind(to):
            raise Refusal("exists", to)
        if _is_below(to, path):
            raise Refusal("inside", to)

    def _over(self) -> str:
        return over(self._bash, self._mounts, self._settings["limits"])

    def _is_due(self) -> bool:
        return self._cost <= _CHEAP or time.monotonic() - self._taken > _SHARE * self._cost

    def _send_checkpoint(self) -> None:
        if self._is_due():
            commit, objects = self._commit()
            self._channel.send({"event": "checkpoint", **commit}, objects)

    def _commit(self) -> Reply:
        started = time.monotonic()
        packed = self._bash.commit(have=self._known)
        known = set(self._known)
        new = {name: blob for name, blob in packed.objects.items() if name not in known}
        self._known.extend(new)
        self._taken = time.monotonic()
        self._cost, self._is_changed = self._taken - started, False
        return {"commit": packed.id, "objects": list(new)}, list(new.values())


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
