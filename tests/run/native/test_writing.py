"""What a job writes: kept up to a cap, told as it comes, and never more than that in memory."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.run import Limits, Outcome, OutputLine

Run = Callable[..., Outcome]


@in_one_sandbox
@pytest.mark.covers("O-72")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_ends_the_job_and_costs_little_memory(sh: Run, stream: str) -> None:
    sh("true")
    tracemalloc.start()
    try:
        outcome = sh(f"head -c 100000000 /dev/zero {'>&2' if stream == 'stderr' else ''}; sleep 600")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (outcome.killed_by, outcome.is_success, outcome.timed_out) == ("output", False, False)
    assert getattr(outcome, stream) == "\0" * Limits().output_bytes
    assert getattr(outcome, f"{stream}_truncated")
    assert peak <= Limits().output_bytes + 1_000_000


@in_one_sandbox
def test_a_hundred_megabytes_that_are_no_flood_yet_are_read_to_the_end(sh: Run) -> None:
    cap = 4_000_000
    outcome = sh("head -c 100000000 /dev/zero; echo the end >&2", output_bytes=cap)
    assert (outcome.is_success, outcome.stderr, outcome.stdout_truncated) == (True, "the end\n", True)
    assert len(outcome.stdout) == cap


@in_one_sandbox
@pytest.mark.covers("G-36")
@pytest.mark.parametrize(("cap", "is_truncated"), [(6, False), (5, False), (4, True), (1, True), (0, True), (-1, True)])
def test_the_cap_is_inclusive_and_each_streams_own(sh: Run, cap: int, is_truncated: bool) -> None:
    outcome = sh("printf 12345; printf 67890 >&2", output_bytes=cap)
    assert (outcome.stdout, outcome.stderr) == ("12345"[: max(0, cap)], "67890"[: max(0, cap)])
    assert (outcome.stdout_truncated, outcome.stderr_truncated) == (is_truncated, is_truncated)
    assert outcome.is_success


@in_one_sandbox
@pytest.mark.parametrize(("cap", "kept"), [(6, "ééé"), (7, "ééé"), (8, "éééé")])
def test_a_cap_never_leaves_half_a_character(run: Run, cap: int, kept: str) -> None:
    assert run("printf", "é" * 100, output_bytes=cap).stdout == kept


@in_one_sandbox
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("", ""),
        (r"a\377b", "a\ufffdb"),
        (r"a\000b\000", "a\0b\0"),
        (r"\303", "\ufffd"),
        (r"\355\240\200", "\ufffd\ufffd\ufffd"),
        (r"a\r\nb\rc", "a\r\nb\rc"),
        (r"\357\273\277x", "\ufeffx"),
        (r"a\fb\vc\342\200\250d", "a\fb\vc\u2028d"),
        (r"\033[31mred\a", "\x1b[31mred\a"),
    ],
    ids=repr,
)
def test_bytes_become_text_and_what_is_none_is_replaced(run: Run, written: str, text: str) -> None:
    told: list[OutputLine] = []
    outcome = run("printf", written, on_output=told.append)
    assert outcome.stdout == text
    assert "".join(line.text for line in told) == text


def test_lines_are_told_as_they_come_in_order(run: Run, workspace: Path) -> None:
    # Each line is written only when the one before it has been seen, so that there is one order.
    script = """
    for at in $(seq 10); do
        echo "out $at"; until [ -e "out $at" ]; do :; done
        echo "err $at" >&2; until [ -e "err $at" ]; do :; done
    done
    """
    told: list[tuple[str, str]] = []

    def tell(line: OutputLine) -> None:
        told.append((line.stream, line.text))
        (workspace / line.text.strip()).touch()

    outcome = run("bash", "-c", script, on_output=tell)
    assert outcome.is_success
    assert told == [
        line for at in range(1, 11) for line in (("stdout", f"out {at}\n"), ("stderr", f"err {at}\n"))
    ]  # fmt: skip


@in_one_sandbox
def test_what_is_told_is_what_is_kept(python: Run) -> None:
    script = """
import os
for at in range(300):
    os.write(1, b"%d " % at + b"\\xc3" * (at % 3) + b"\\xa9" + b"x" * (at * 7 % 50) + b"\\n" * (at % 4))
    os.write(2, b"y" * 997)
"""
    told: list[OutputLine] = []
    outcome = python(script, on_output=told.append, output_bytes=200_000)
    for stream in ("stdout", "stderr"):
        lines = [line.text for line in told if line.stream == stream]
        assert "".join(lines) == getattr(outcome, stream)
        assert not any("\n" in line[:-1] for line in lines)
    # A line that does not end is told in parts: nobody has to hold all of it.
    assert max(len(line.text) for line in told) < 100_000
    assert len([line for line in told if line.stream == "stderr"]) > 10


@in_one_sandbox
def test_a_line_that_has_not_ended_is_told_at_the_end(run: Run) -> None:
    told: list[OutputLine] = []
    run("printf", "a\nb", on_output=told.append)
    assert [line.text for line in told] == ["a\n", "b"]


@in_one_sandbox
def test_nothing_is_told_beyond_the_cap(sh: Run) -> None:
    told: list[OutputLine] = []
    outcome = sh("seq 1000", on_output=told.append, output_bytes=100)
    assert "".join(line.text for line in told) == outcome.stdout
    assert len(outcome.stdout) == 100


@in_one_sandbox
def test_whoever_listens_cannot_break_the_job(sh: Run, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def fail(line: OutputLine) -> None:
        told.append(line.text)
        raise ValueError("the screen is gone")

    with caplog.at_level(logging.ERROR, logger="metier.run"):
        outcome = sh("echo one; echo two; echo three", on_output=fail)
    assert (outcome.stdout, outcome.is_success) == ("one\ntwo\nthree\n", True)
    assert told == ["one\n"]
    assert "the screen is gone" in caplog.text


def test_a_stream_that_is_closed_early_does_not_end_the_job(sh: Run) -> None:
    outcome = sh("exec 1>&-; echo still here >&2; exec 2>&-; exit 4")
    assert (outcome.exit_code, outcome.stderr) == (4, "still here\n")
