"""The output of a job: read to the end, kept up to a cap, and passed on line by line."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Literal

from metier._lazy import logger
from metier.run.job import Outcome, OutputLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from metier.run.job import KilledBy

log = logger("metier.run")

_FLOOD = 32
"""A job that writes this many times what is kept has no use for it."""
_LEAST_FLOOD = 1024 * 1024
_CHUNK = 65_536
_ONE_WRITE, _MANY_WRITES = 4_096, 1024 * 1024
"""Room in a pipe for a single write, and for many."""
_LONGEST_LINE = 8_192
"""Characters after which a line is passed on although it has not ended."""
_Decoder = codecs.getincrementaldecoder("utf-8")
_NAMES: tuple[Literal["stdout"], Literal["stderr"]] = ("stdout", "stderr")


class Stream:
    """One of a job's two streams, as far as it was read."""

    def __init__(self, name: Literal["stdout", "stderr"], cap: int, tell: Callable[[OutputLine], None] | None) -> None:
        self._name, self._cap, self._tell = name, max(0, cap), tell
        self._kept = bytearray()
        self._seen = 0
        self._decoder = _Decoder("replace")
        self._line = ""

    @property
    def is_truncated(self) -> bool:
        """Whether something was dropped."""
        return self._seen > len(self._kept)

    @property
    def is_flooded(self) -> bool:
        """Whether so much was written that the job should end."""
        return self._seen > max(self._cap * _FLOOD, _LEAST_FLOOD)

    def feed(self, chunk: bytes) -> None:
        """Add a chunk of bytes."""
        kept = chunk[: self._cap - len(self._kept)]
        self._kept += kept
        self._seen += len(chunk)
        if self._tell is not None and kept:
            self._split(self._decoder.decode(kept))

    def finish(self) -> None:
        """Pass on the last line, which has no end."""
        if self._tell is not None:
            self._split(self._decoder.decode(b"", final=not self.is_truncated))
            if self._line:
                self._say(self._line)
            self._line = ""

    def text(self) -> str:
        """The kept text, without half a character at the cut."""
        if self.is_truncated:
            return _Decoder("replace").decode(self._kept)
        return self._kept.decode("utf-8", "replace")

    def _split(self, text: str) -> None:
        # Not `splitlines`, which takes a form feed and other characters for the end of a line; and one by one, as there
        # may be as many lines as characters.
        text, start = self._line + text, 0
        while (end := text.find("\n", start)) >= 0:
            self._say(text[start : end + 1])
            start = end + 1
        while len(text) - start > _LONGEST_LINE:
            self._say(text[start : start + _LONGEST_LINE])
            start += _LONGEST_LINE
        self._line = text[start:]

    def _say(self, line: str) -> None:
        tell = self._tell
        if tell is None:
            return
        try:
            tell(OutputLine(stream=self._name, text=line))
        except Exception:
            # A listener cannot break the job.
            log.exception("what listens to the output of a job failed, and is told no more")
            self._tell = None


def streams(cap: int, tell: Callable[[OutputLine], None] | None = None) -> tuple[Stream, Stream]:
    """The two streams of a job."""
    return Stream(_NAMES[0], cap, tell), Stream(_NAMES[1], cap, tell)


def outcome_of(
    written: tuple[Stream, Stream], exit_code: int, killed_by: KilledBy | None, *, started: float, **facts: Any
) -> Outcome:
    """The outcome of a job that wrote these streams and was started then, with more fields of an outcome."""
    out, err = written
    if "stderr" not in facts:
        facts["stderr"] = err.text()
    return Outcome(
        exit_code=exit_code,
        stdout=out.text(),
        stdout_truncated=out.is_truncated,
        stderr_truncated=err.is_truncated,
        timed_out=killed_by == "timeout",
        killed_by=killed_by,
        duration_ms=(time.monotonic() - started) * 1000,
        **facts,
    )


@contextlib.contextmanager
def input_of(data: bytes) -> Iterator[int]:
    """The standard input of a job: a file without a name, which nobody has to stand by to write."""
    if data:
        with _nameless_file() as file:
            file.write(data)
            file.seek(0)
            yield file.fileno()
        return
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        yield nothing
    finally:
        os.close(nothing)


def _nameless_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("metier-stdin", os.MFD_CLOEXEC), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


class OutputReader:
    """Reads both streams to their ends in a thread of its own.

    It looks up now and then, so that it ends even if somebody holds a pipe open for ever. On Windows, where a pipe
    cannot be waited for, each has a thread. `woken` is set when both have ended, or one floods.
    """

    def __init__(self, pipes: tuple[IO[bytes] | None, IO[bytes] | None], into: tuple[Stream, Stream]) -> None:
        self.woken = threading.Event()
        self._streams = into
        self._given_up = False
        self._lock = threading.Lock()
        # Paired by position: a pipe that is None would be a program's without that stream, which is never asked for.
        pairs = [(pipe, stream) for pipe, stream in zip(pipes, into, strict=True) if pipe is not None]
        groups = [[pair] for pair in pairs] if sys.platform == "win32" else [pairs]
        self._left = len(groups)
        self._threads = [
            threading.Thread(target=self._read, args=(group,), name="metier-output", daemon=True) for group in groups
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_flooded(self) -> bool:
        """Whether so much was written that the job should end."""
        return any(stream.is_flooded for stream in self._streams)

    def wait(self, seconds: float) -> bool:
        """Whether both have ended, after waiting for that so long."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def give_up(self) -> None:
        """Stop reading, though somebody still holds a pipe."""
        self._given_up = True
        self.wait(0.5)

    def _read(self, pairs: list[tuple[IO[bytes], Stream]]) -> None:
        with contextlib.ExitStack() as opened:
            for pipe, _ in pairs:
                opened.enter_context(pipe)
            with contextlib.suppress(OSError, ValueError):
                if sys.platform == "win32":
                    self._read_one(*pairs[0])
                else:
                    self._read_all({pipe.fileno(): stream for pipe, stream in pairs})
        for _, stream in pairs:
            stream.finish()
        with self._lock:
            self._left -= 1
            if not self._left:
                self.woken.set()

    def _read_one(self, pipe: IO[bytes], stream: Stream) -> None:
        while not self._given_up and (chunk := os.read(pipe.fileno(), _CHUNK)):
            self._take(stream, chunk)

    def _read_all(self, pending: dict[int, Stream]) -> None:
        poll = select.poll()
        for descriptor in pending:
            poll.register(descriptor, select.POLLIN)
        while pending and not self._given_up:
            for descriptor, _ in poll.poll(50):
                chunk = os.read(descriptor, _CHUNK)
                if chunk:
                    self._take(pending[descriptor], chunk)
                else:
                    poll.unregister(descriptor)
                    del pending[descriptor]

    def _take(self, stream: Stream, chunk: bytes) -> None:
        with self._lock:
            stream.feed(chunk)
        if stream.is_flooded:
            self.woken.set()


class OutputPipes:
    """The two pipes of a job on Linux, and one more descriptor to wait for.

    When lines are passed on, each pipe has room for a single write, and the kernel queues the pipes in the order in
    which they were written to. So the order of a job's writes is known, though they go two ways; the job waits for each
    to be read, which takes no longer than to pass it on.
    """

    def __init__(self, streams: tuple[Stream, Stream], *, is_ordered: bool) -> None:
        self._opened = contextlib.ExitStack()
        self._given = contextlib.ExitStack()
        self._poll = select.epoll()
        self._opened.callback(self._poll.close)
        self._pending: dict[int, Stream] = {}
        self._is_ordered = is_ordered
        ends = []
        for stream in streams:
            read, write = os.pipe2(os.O_CLOEXEC | (os.O_DIRECT if is_ordered else 0))
            self._opened.callback(os.close, read)
            self._given.callback(os.close, write)
            os.set_blocking(read, False)
            if is_ordered:
                _resize_pipe(read, _ONE_WRITE)
            self._poll.register(read, select.EPOLLIN | (select.EPOLLET if is_ordered else 0))
            self._pending[read] = stream
            ends.append(write)
        self.given: tuple[int, int] = (ends[0], ends[1])
        """The ends that the job writes to."""
        self.are_given = True
        """Whether this side still has them too."""

    @property
    def are_open(self) -> bool:
        """Whether more may come."""
        return bool(self._pending)

    def give_away(self) -> None:
        """Close the ends that the job has by now."""
        self._given.close()
        self.are_given = False

    def close(self) -> None:
        """Close everything."""
        self._given.close()
        self._opened.close()

    def watch(self, descriptor: int) -> None:
        """Wait for another descriptor too."""
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        """Stop waiting for it."""
        self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> bool:
        """Wait, and read the pipes; whether the other descriptor is ready."""
        is_other = False
        events = self._poll.poll(seconds)
        for descriptor, kind in events:
            stream = self._pending.get(descriptor)
            if stream is None:
                is_other = True
            else:
                self._take(descriptor, stream, to_end=bool(kind & (select.EPOLLHUP | select.EPOLLERR)))
        if not events and self._is_ordered:
            # A job that makes a pipe larger, or writes to it by another name, may write twice and be announced once.
            for descriptor, stream in tuple(self._pending.items()):
                self._take(descriptor, stream, to_end=True)
        return is_other

    def _take(self, descriptor: int, stream: Stream, *, to_end: bool) -> None:
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._poll.unregister(descriptor)
                del self._pending[descriptor]
                return
            stream.feed(chunk)
            if self._is_ordered and stream.is_truncated:
                # The rest is not passed on.
                _resize_pipe(descriptor, _MANY_WRITES)
                self._poll.modify(descriptor, select.EPOLLIN)
            if not to_end or stream.is_flooded:
                return


def _resize_pipe(descriptor: int, size: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)
