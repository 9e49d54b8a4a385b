"""What a job writes is read to the end, kept up to a cap, and told line by line."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.run import OutputLine
from metier.run.output import OutputReader, Stream, streams


def fed(data: bytes, sizes: list[int], cap: int) -> tuple[Stream, list[str]]:
    """A stream that was fed data in pieces of these sizes, and what it told."""
    told: list[str] = []
    stream = Stream("stdout", cap, lambda line: told.append(line.text))
    at = 0
    for size in [*sizes, len(data)]:
        if data[at : at + size]:
            stream.feed(data[at : at + size])
        at += size
    stream.finish()
    return stream, told


pieces = st.lists(
    st.sampled_from([b"a", b"\n", b"\r\n", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xff", b"\xc3", b"\0", b"\x0c"])
)


@given(parts=pieces, sizes=st.lists(st.integers(1, 7)), cap=st.integers(-1, 40))
def test_what_is_told_is_what_is_kept_however_it_arrives(parts: list[bytes], sizes: list[int], cap: int) -> None:
    data = b"".join(parts)
    kept = data[: max(0, cap)]
    stream, told = fed(data, sizes, cap)
    assert "".join(told) == stream.text()
    assert stream.is_truncated == (len(data) > len(kept))
    whole = kept.decode(errors="replace")
    if not stream.is_truncated:
        assert stream.text() == whole
    # What the cap cut in two is left away, and nothing else.
    assert whole.startswith(stream.text())
    assert len(whole) - len(stream.text()) <= 1
    assert [line for line in told if not line.endswith("\n")] in ([], told[-1:])
    assert not any("\n" in line[:-1] for line in told)


def test_only_a_line_feed_ends_a_line() -> None:
    _, told = fed("a\rb\x0bc\x0cd\x1ce\x85f\u2028g\r\nh".encode(), [], 100)
    assert told == ["a\rb\x0bc\x0cd\x1ce\x85f\u2028g\r\n", "h"]


def test_a_line_that_does_not_end_is_told_in_parts() -> None:
    told: list[str] = []
    stream = Stream("stderr", 1_000_000, lambda line: told.append(line.text))
    for _ in range(100):
        stream.feed(b"x" * 1_000)
    assert told
    assert max(map(len, told)) <= 10_000
    stream.finish()
    assert "".join(told) == "x" * 100_000


@pytest.mark.each(("cap", "size", "is_flooded"), [(100_000, 3_200_000, False), (100_000, 3_200_001, True),
                                                         (0, 1_048_576, False), (0, 1_048_577, True)])  # fmt: skip
def test_many_times_what_is_kept_is_a_flood(cap: int, size: int, is_flooded: bool) -> None:
    stream = Stream("stdout", cap, None)
    stream.feed(b"x" * size)
    assert stream.is_flooded == is_flooded
    assert len(stream.text()) == cap


def test_whoever_fails_to_listen_is_told_no_more(caplog: pytest.LogCaptureFixture) -> None:
    told: list[OutputLine] = []

    def fail(line: OutputLine) -> None:
        told.append(line)
        raise RuntimeError("no screen")

    out, err = streams(100, fail)
    with caplog.at_level(logging.ERROR, logger="metier.run"):
        out.feed(b"one\ntwo\n")
        err.feed(b"three\n")
    assert [(line.stream, line.text) for line in told] == [("stdout", "one\n"), ("stderr", "three\n")]
    assert (out.text(), err.text()) == ("one\ntwo\n", "three\n")
    assert "no screen" in caplog.text


@pytest.fixture
def pipes() -> Iterator[Callable[[], tuple[OutputReader, tuple[Stream, Stream], list[OutputLine], list[int]]]]:
    """Makes a reader of two pipes, and the ends to write to."""
    opened: list[int] = []
    readers: list[OutputReader] = []

    def make() -> tuple[OutputReader, tuple[Stream, Stream], list[OutputLine], list[int]]:
        told: list[OutputLine] = []
        (out_read, out), (err_read, err) = os.pipe(), os.pipe()
        opened.extend((out, err))
        pair = streams(1_000, told.append)
        readers.append(OutputReader((os.fdopen(out_read, "rb", 0), os.fdopen(err_read, "rb", 0)), pair))
        return readers[-1], pair, told, [out, err]

    yield make
    for descriptor in opened:
        os.close(descriptor)
    for reader in readers:
        reader.give_up()


Make = Callable[[], tuple[OutputReader, tuple[Stream, Stream], list[OutputLine], list[int]]]


def test_a_reader_ends_when_both_pipes_do(pipes: Make) -> None:
    reader, (out, err), told, (to_out, to_err) = pipes()
    os.write(to_out, b"out\n")
    os.write(to_err, b"err")
    assert not reader.wait(0.01)
    for descriptor in (to_out, to_err):
        # Closed, and yet there to be closed again.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    assert reader.wait(20)
    assert reader.woken.is_set()
    assert (out.text(), err.text()) == ("out\n", "err")
    assert {line.text for line in told} == {"out\n", "err"}


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe cannot be waited for there")
def test_a_reader_gives_up_though_somebody_holds_a_pipe(pipes: Make) -> None:
    reader, (out, _), _, (to_out, _) = pipes()
    os.write(to_out, b"so far")
    while not out.text():
        pass
    reader.give_up()
    assert reader.wait(20)
    assert out.text() == "so far"
    assert not [thread for thread in threading.enumerate() if thread.name == "metier-output"]


def test_a_reader_says_when_it_is_flooded(pipes: Make) -> None:
    reader, (out, _), _, (to_out, _) = pipes()
    for _ in range(20):
        os.write(to_out, b"x" * 60_000)
    assert reader.woken.wait(20)
    assert reader.is_flooded
    assert len(out.text()) == 1_000
