"""The worker: a process that interprets, and answers requests one after the other until its socket is closed.

It imports no more than it needs, as somebody waits while it starts. Nothing here is trusted by the other side: a script
may have found a fault in the interpreter and taken this process over.
"""

from __future__ import annotations

import sys
import threading

from bashkit import Bash, ExecutionProfile

from metier.run.virtual.channel import Channel, ChannelBroken, ChannelClosed
from metier.run.virtual.execution import analysis, execute
from metier.run.virtual.extra_commands import extra_commands
from metier.run.virtual.filesystem import ReadOnlyFolders, Refusal, content, put, walk

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from bashkit import FileSystem

    from metier.run.virtual.channel import Head
    from metier.run.virtual.interpreter import Interpreter

_STACK = 256 * 1024 * 1024
"""Deep recursion ends the process when the stack does; with this one most of it meets a limit first."""
_ON_FILES = (
    "run", "checkpoint", "snapshot", "restore", "usage", "folder", "read", "write", "entries", "stat", "remove", "copy",
    "move", "make_folder", "put", "take",
)  # fmt: skip
"""Requests for the interpreter itself, by the names of its methods."""


def main() -> None:
    """Serve the socket that is this process's standard input."""
    line = _open_socket()
    threading.stack_size(_STACK)
    thread = threading.Thread(target=_serve, args=(Channel(line),), daemon=True)
    thread.start()
    thread.join()


def _open_socket() -> socket.socket:
    import socket

    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=0)


def _serve(channel: Channel) -> None:
    handler = RequestHandler(channel)
    try:
        while True:
            handler.answer(*channel.receive())
    except (ChannelClosed, ChannelBroken):
        return


class RequestHandler:
    """Answers requests: each has an `op`, and gets one reply, with an `error` in it if it could not be done."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._folders = ReadOnlyFolders()
        self._interpreter: Interpreter | None = None
        self._jobs = JobInterpreter(channel)
        self._ops: dict[str, Callable[[Head, list[bytes]], tuple[Head, list[bytes]]]] = {
            "open": self._open,
            "job": self._job,
            "keep": self._keep,
            "forget": self._forget,
            "skill": self._skill,
            "outlines": self._outlines,
            "analyze": self._analyze,
            **dict.fromkeys(_ON_FILES, self._on_files),
        }

    def answer(self, head: Head, blobs: list[bytes]) -> None:
        """Handle a request, and reply."""
        try:
            reply, more = self._ops[head["op"]](head, blobs)
        except Refusal as refusal:
            reply, more = {"error": refusal.kind, "detail": refusal.detail}, []
        except (ChannelClosed, ChannelBroken):
            raise
        except Exception as error:
            # The interpreter has no errors of its own to tell one failure from another.
            reply, more = {"error": "failed", "detail": f"{error}"[:500]}, []
        self._channel.send(reply, more)
        self._jobs.forget()

    def _open(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        from metier.run.virtual.interpreter import Interpreter

        self._interpreter = Interpreter(
            head["settings"], self._channel, {head["settings"]["mount"]: self._folders.skills()}
        )
        self._interpreter.begin(head.get("commit"), dict(zip(head.get("objects", ()), blobs, strict=True)))
        return {}, []

    def _skill(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._folders.put_skill(head["name"], head["records"], blobs)
        return {}, []

    def _outlines(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._folders.put_outlines(dict(zip(head["names"], blobs, strict=True)))
        return {}, []

    def _keep(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._folders.keep(head["key"], head["records"], blobs)
        return {}, []

    def _forget(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._folders.forget()
        return {}, []

    def _job(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:

        return self._jobs.run(head, blobs, {path: self._folders.kept(key) for path, key in head["mounts"]})

    def _analyze(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        return analysis(blobs[0].decode()), []

    def _on_files(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        if self._interpreter is None:
            raise Refusal("failed", "there is no shell")
        reply: tuple[Head, list[bytes]] = getattr(self._interpreter, head["op"])(head, blobs)
        return reply


_JOB_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp"}
"""The variables of every job."""


class JobInterpreter:
    """Runs jobs that share nothing but the process: each has an interpreter as if it were new.

    An interpreter that is reset is built anew inside and has nothing of before but what it was made with. That is half
    as much work as making one, so nothing that belongs to a single job may ever be given to the constructor or to
    `set_env`: its variables are in its command line.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._mounts: dict[str, FileSystem] = {}
        self._made_with: Head | None = None
        self._bash: Bash | None = None
        self._running: Bash | None = None
        self._is_used = False

    def run(self, head: Head, blobs: list[bytes], mounts: dict[str, FileSystem]) -> tuple[Head, list[bytes]]:
        """Run a command line over files that were sent along; the reply has the changes below the watched folders."""
        bash = self._fresh(head["settings"])
        # If it fails in the middle, it is not used again.
        self._bash, self._running, self._is_used = None, bash, True
        self._mounts.update(mounts)
        given = len(blobs) - head["stdin"]
        records, files = head["records"], bash.fs()
        if records:
            put(files, records, blobs[:given])
        for folder in head["folders"]:
            if folder != "/":
                files.mkdir(folder, recursive=True)
        for path, mounted in mounts.items():
            files.mkdir(path, recursive=True)
            bash.mount(path, mounted, read_only=True)
        reply, output = execute(bash, self._channel, head, blobs[given:])
        if head["watch"]:
            before = {path: (kind, mode, blob) for (path, kind, mode), blob in zip(records, blobs, strict=False)}
            changed, contents, gone = _changes(files, head["watch"], before, frozenset(mounts))
            reply, output = {**reply, "records": changed, "gone": gone}, [*output, *contents]
        for path in mounts:
            bash.unmount(path)
        self._mounts.clear()
        if not reply["failure"]:
            self._bash = bash
        return reply, output

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def forget(self) -> None:
        """Reset after the last job. That is done when it has been answered, and not when the next one waits."""
        self._running = None
        if self._is_used and self._bash is not None:
            self._bash.reset()
        self._is_used = False

    def _fresh(self, settings: Head) -> Bash:
        self.forget()
        if self._bash is not None and settings == self._made_with:
            return self._bash
        self._made_with = settings
        return Bash(
            username="user",
            hostname="sandbox",
            cwd="/",
            env=_JOB_ENVIRONMENT,
            # This profile has no cap on the number of calls; what else it lifts is set here.
            profile=ExecutionProfile.Interactive,
            max_commands=settings["commands"],
            max_loop_iterations=settings["loop_turns"],
            timeout_seconds=settings["seconds"],
            custom_builtins=extra_commands(settings, self._channel, self._mounts, self._cancel),
        )


def _changes(
    files: FileSystem, tops: list[str], before: dict[str, tuple[str, int, bytes]], skipped: frozenset[str]
) -> tuple[list[tuple[str, str, int]], list[bytes], list[str]]:
    changed: list[tuple[str, str, int]] = []
    contents: list[bytes] = []
    seen: set[str] = set()
    for top in tops:
        for path, kind, mode, size in sorted(walk(files, top, skipped)):
            seen.add(path)
            old = before.get(path)
            is_like = old is not None and old[0] == kind
            if is_like and kind == "d":
                continue
            # Modes and sizes of links are whatever a system says they are.
            if is_like and old is not None and (kind == "l" or (old[1] == mode and len(old[2]) == size)):
                blob = content(files, path, kind)
                if blob == old[2]:
                    continue
            else:
                blob = content(files, path, kind)
            changed.append((path, kind, mode))
            contents.append(blob)
    gone = [path for path in before if path not in seen and any(path.startswith(f"{top.rstrip('/')}/") for top in tops)]
    return changed, contents, gone
