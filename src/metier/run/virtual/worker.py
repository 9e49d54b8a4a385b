"""The worker: a process that interprets, and answers requests one after the other until its socket is closed.

It imports no more than it needs, as somebody waits while it starts. Nothing here is trusted by the other side: a script
may have found a fault in the interpreter and taken this process over.
"""

from __future__ import annotations

import sys
import threading

from metier.run.virtual.channel import Channel, ChannelBroken, ChannelClosed
from metier.run.virtual.execution import analysis, execute, new_interpreter
from metier.run.virtual.filesystem import ReadOnlyFolders, Refusal, content, put, walk

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from bashkit import Bash, FileSystem

    from metier.run.virtual.channel import Head
    from metier.run.virtual.execution import Reply
    from metier.run.virtual.filesystem import File
    from metier.run.virtual.interpreter import Interpreter

_STACK = 256 * 1024 * 1024
"""Deep recursion ends the process when the stack does; with this one most of it meets a limit first."""


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
    """Answers requests: each names an `op`, and gets one reply, with an `error` in it if it could not be done.

    The blobs of a request are the positional arguments of what handles it, and the rest of its head those by name.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._folders = folders = ReadOnlyFolders()
        self._interpreter: Interpreter | None = None
        self._jobs = JobInterpreter(channel, folders)
        self._ops: dict[str, Callable[..., Reply | None]] = {
            "open": self._open,
            "job": self._jobs.run,
            "keep": folders.keep,
            "forget": folders.forget,
            "skill": folders.put_skill,
            "outlines": folders.put_outlines,
            "analyze": analysis,
        }

    def answer(self, head: Head, blobs: list[bytes]) -> None:
        """Handle a request, and reply."""
        try:
            op = head.pop("op")
            # The rest are methods of the interpreter.
            handle = self._ops.get(op) or getattr(self._interpreter, op)
            reply, more = handle(*blobs, **head) or ({}, [])
        except Refusal as refusal:
            reply, more = {"error": refusal.kind, "detail": refusal.detail}, []
        except (ChannelClosed, ChannelBroken):
            raise
        except Exception as error:
            # The interpreter has no errors of its own to tell one failure from another.
            reply, more = {"error": "failed", "detail": f"{error}"[:500]}, []
        self._channel.send(reply, more)
        self._jobs.forget()

    def _open(self, *contents: bytes, settings: Head, commit: str | None, objects: list[str]) -> None:
        from metier.run.virtual.interpreter import Interpreter

        self._interpreter = Interpreter(settings, self._channel, {settings["mount"]: self._folders.skills()})
        self._interpreter.begin(commit, dict(zip(objects, contents, strict=True)))


_JOB_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp"}
"""The variables of every job."""


class JobInterpreter:
    """Runs jobs that share nothing but the process: each has an interpreter as if it were new.

    An interpreter that is reset is built anew inside and has nothing of before but what it was made with. That is half
    as much work as making one, so nothing that belongs to a single job may ever be given to the constructor or to
    `set_env`: its variables are in its command line.
    """

    def __init__(self, channel: Channel, folders: ReadOnlyFolders) -> None:
        self._channel, self._folders = channel, folders
        self._mounts: dict[str, FileSystem] = {}
        self._bash: Bash | None = None
        self._made_with: Head | None = None
        """The settings of the interpreter; None while a job is in it, as it is not used again if that fails."""
        self._is_used = False

    def run(
        self,
        stdin: bytes = b"",
        *,
        settings: Head,
        files: list[File],
        folders: list[str],
        mounts: list[tuple[str, str]],
        watch: list[str],
        **line: Any,
    ) -> Reply:
        """Run a command line over files that were sent along; the reply has the changes below the watched folders."""
        bash = self._fresh(settings)
        self._made_with, self._is_used = None, True
        self._mounts.update({path: self._folders.kept(key) for path, key in mounts})
        system = bash.fs()
        put(system, files)
        for folder in folders:
            if folder != "/":
                system.mkdir(folder, recursive=True)
        for path, mounted in self._mounts.items():
            system.mkdir(path, recursive=True)
            bash.mount(path, mounted, read_only=True)
        reply, output = execute(bash, self._channel, stdin, **line)
        if watch:
            changed, gone = _changes(system, watch, files, frozenset(self._mounts))
            reply |= {"files": changed, "gone": gone}
        for path in self._mounts:
            bash.unmount(path)
        if not reply["failure"]:
            self._made_with = settings
        return reply, output

    def forget(self) -> None:
        """Reset after the last job. That is done when it has been answered, and not when the next one waits."""
        if not self._is_used:
            return
        self._is_used = False
        self._mounts.clear()
        if self._bash is not None and self._made_with is not None:
            self._bash.reset()
        else:
            self._bash = None

    def _cancel(self) -> None:
        if self._bash is not None:
            self._bash.cancel()

    def _fresh(self, settings: Head) -> Bash:
        self.forget()
        if self._bash is None or settings != self._made_with:
            self._bash = new_interpreter(
                settings, self._channel, self._mounts, self._cancel, folder="/", env=_JOB_ENVIRONMENT
            )
        return self._bash


def _changes(
    system: FileSystem, tops: list[str], given: list[File], skipped: frozenset[str]
) -> tuple[list[File], list[str]]:
    """The files below some folders that are not as they were given, and the paths of those that are gone."""
    before = {file[0]: file for file in given}
    changed: list[File] = []
    seen: set[str] = set()
    for top in tops:
        for path, kind, mode, _ in sorted(walk(system, top, skipped)):
            seen.add(path)
            old = before.get(path)
            is_like = old is not None and old[1] == kind
            if is_like and kind == "d":
                continue
            blob = content(system, path, kind)
            # Modes and sizes of links are whatever a system says they are.
            if old is not None and is_like and blob == old[3] and (kind == "l" or old[2] == mode):
                continue
            changed.append((path, kind, mode, blob))
    gone = [path for path in before if path not in seen and any(path.startswith(f"{top.rstrip('/')}/") for top in tops)]
    return changed, gone
