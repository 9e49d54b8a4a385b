"""The process that interprets: it takes requests from its line, one after the other, until the line is closed.

It imports no more than it needs, as it starts in the middle of somebody's work. Nothing here is trusted by the other
side: a script may have found a fault in the interpreter and taken this process over.
"""

from __future__ import annotations

import sys
import threading

from metier.run.virtual.channel import Channel, ChannelBroken, ChannelClosed
from metier.run.virtual.filesystem import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from metier.run.virtual.channel import Head
    from metier.run.virtual.interpreter import Interpreter
    from metier.run.virtual.jobs import Jobs

_STACK = 256 * 1024 * 1024
"""Deep recursion ends the process when the stack does; with this one most of it meets a limit first."""
_ON_FILES = (
    "run", "checkpoint", "snapshot", "restore", "usage", "folder", "read", "write", "entries", "stat", "remove", "copy",
    "move", "make_folder", "put", "take",
)  # fmt: skip
"""What the interpreter itself is asked, by the names of its methods."""


def main() -> None:
    """Serve the line that is this process's standard input."""
    line = _line()
    threading.stack_size(_STACK)
    thread = threading.Thread(target=_serve, args=(Channel(line),), daemon=True)
    thread.start()
    thread.join()


def _line() -> socket.socket:
    import socket

    if sys.platform == "win32":
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=0)


def _serve(channel: Channel) -> None:
    desk = Desk(channel)
    try:
        while True:
            desk.answer(*channel.receive())
    except (ChannelClosed, ChannelBroken):
        return


class Desk:
    """Answers requests: each has an `op`, and gets one reply, with an `error` in it if it could not be done."""

    def __init__(self, channel: Channel) -> None:
        from metier.run.virtual.filesystem import ReadOnlyFolders

        self._channel = channel
        self._shelf = ReadOnlyFolders()
        self._interpreter: Interpreter | None = None
        self._jobs: Jobs | None = None
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
        """Do what a request asks, and reply."""
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
        if self._jobs is not None:
            self._jobs.forget()

    def _open(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        from metier.run.virtual.interpreter import Interpreter

        self._interpreter = Interpreter(
            head["settings"], self._channel, {head["settings"]["mount"]: self._shelf.skills()}
        )
        self._interpreter.begin(head.get("commit"), dict(zip(head.get("objects", ()), blobs, strict=True)))
        return {}, []

    def _skill(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._shelf.put_skill(head["name"], head["records"], blobs)
        return {}, []

    def _outlines(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._shelf.put_outlines(dict(zip(head["names"], blobs, strict=True)))
        return {}, []

    def _keep(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._shelf.keep(head["key"], head["records"], blobs)
        return {}, []

    def _forget(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        self._shelf.forget()
        return {}, []

    def _job(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        from metier.run.virtual.jobs import Jobs

        if self._jobs is None:
            self._jobs = Jobs(self._channel)
        return self._jobs.run(head, blobs, {path: self._shelf.kept(key) for path, key in head["mounts"]})

    def _analyze(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        from metier.run.virtual.execution import analysis

        return analysis(blobs[0].decode()), []

    def _on_files(self, head: Head, blobs: list[bytes]) -> tuple[Head, list[bytes]]:
        if self._interpreter is None:
            raise Refusal("failed", "there is no shell")
        reply: tuple[Head, list[bytes]] = getattr(self._interpreter, head["op"])(head, blobs)
        return reply
