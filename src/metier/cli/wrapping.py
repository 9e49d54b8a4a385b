"""Standard output and standard error of a person at a terminal: lines that are too long break between words."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator


class WrappingStream:
    """A terminal to which whole lines are written so that no word is broken.

    A line that is flushed before it ends, such as a question or a model's words as they come, stays as it is.
    """

    def __init__(self, stream: TextIO, width: int) -> None:
        from metier.cli.layout import wrap_line

        self._wrap_line = wrap_line
        self._stream = stream
        self._width = width
        self._pending = ""
        self._is_open = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> Any:
        self.flush()
        return self._stream.buffer

    def write(self, text: str) -> int:
        *lines, self._pending = (self._pending + text).split("\n")
        for line in lines:
            self._stream.write("\n".join([line] if self._is_open else self._wrap_line(line, self._width)) + "\n")
            self._is_open = False
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._pending:
            self._stream.write(self._pending)
            # What takes a line back, as the end of a progress report does, leaves none that is begun.
            self._is_open = not self._pending.endswith(("\r", "\x1b[K"))
            self._pending = ""
        self._stream.flush()


@contextlib.contextmanager
def wrapped_streams() -> Iterator[None]:
    """Wraps what is written to terminals meanwhile."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrapped, before)
    try:
        yield
    finally:
        wrapped = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, WrappingStream)]
        sys.stdout, sys.stderr = before
        for stream in wrapped:
            stream.flush()


def _wrapped(stream: TextIO) -> TextIO:
    if not stream.isatty():
        return stream
    from metier.cli.output import Style

    return cast("TextIO", WrappingStream(stream, Style(stream).width))
