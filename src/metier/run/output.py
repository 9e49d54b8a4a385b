"""What a job writes: read to the end, kept up to a cap."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLOOD = 32
"""A job that writes this many times what is kept has no use for it."""
_LEAST_FLOOD = 1024 * 1024


class OutputReader:
    """Reads one stream to its end in a thread, keeping no more than the cap.

    A thread, because a pipe on Windows cannot be waited for; elsewhere it looks up now and then, so that it ends even
    if somebody holds the pipe open for ever. `woken` is set when the stream ends or floods.
    """

    def __init__(self, stream: IO[bytes] | None, cap: int, woken: threading.Event) -> None:
        assert stream is not None
        self._stream, self._cap, self._woken = stream, max(0, cap), woken
        self._kept = bytearray()
        self._seen = 0
        self._given_up = False
        self._thread = threading.Thread(target=self._read, name="metier-output", daemon=True)
        self._thread.start()

    @property
    def is_truncated(self) -> bool:
        """Whether something was dropped."""
        return self._seen > len(self._kept)

    @property
    def is_flooded(self) -> bool:
        """Whether so much was written that the job should end."""
        return self._seen > max(self._cap * _FLOOD, _LEAST_FLOOD)

    def wait(self, seconds: float) -> bool:
        """Whether the stream has ended, after waiting for that so long."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def give_up(self) -> None:
        """Stop reading, though somebody still holds the pipe."""
        self._given_up = True
        self.wait(0.5)

    def text(self) -> str:
        """What was kept, without half a character at the cut."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._kept), final=not self.is_truncated)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._stream:
            for chunk in self._chunks():
                self._kept += chunk[: self._cap - len(self._kept)]
                self._seen += len(chunk)
                if self.is_flooded:
                    self._woken.set()
        self._woken.set()

    def _chunks(self) -> Iterator[bytes]:
        descriptor = self._stream.fileno()
        if sys.platform != "win32":
            import select

            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
        while not self._given_up:
            if sys.platform != "win32" and not poll.poll(50):
                continue
            chunk = os.read(descriptor, 65_536)
            if not chunk:
                return
            yield chunk
