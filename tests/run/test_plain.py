"""The runner that isolates nothing still ends what it starts, keeps the host's secrets and bounds what it reads."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.run import (
    CANNOT_START,
    TIMED_OUT,
    Job,
    Limits,
    Outcome,
    PlainRunner,
    RunnerCapabilities,
    command_for,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs used here are those of a Unix")

RUNNER = PlainRunner()
PYTHON = sys.executable


def run(*argv: str, folder: Path, **more: Any) -> Outcome:
    limits = {key: more.pop(key) for key in list(more) if key in Limits.__dataclass_fields__}
    return RUNNER.run_blocking(Job(argv=argv, folder=str(folder), limits=Limits(**limits), **more))


def is_alive(pid: int) -> bool:
    """Whether a process is there and not merely unburied."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return Path("/proc/self").exists() is False and _answers(pid)
    return state != "Z"


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> bool:
    """Wait for something that happens elsewhere, up to a bound that no healthy machine reaches."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


def run_out_of_time(script: str, folder: Path, has_begun: Callable[[Outcome], bool]) -> Outcome:
    """Let the time of a job be up as soon as it has done what it is to do, for which a busy machine needs longer."""
    for seconds in (0.2, 1.0, 5.0, 30.0):
        outcome = run("sh", "-c", script, folder=folder, seconds=seconds)
        if has_begun(outcome):
            break
    return outcome


def written(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


def test_what_a_job_writes_and_how_it_ends_is_told(tmp_path: Path) -> None:
    outcome = run("sh", "-c", "echo out; echo err >&2; exit 3", folder=tmp_path)
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("out\n", "err\n", 3)
    assert not outcome.is_success
    assert not outcome.is_truncated
    assert outcome.killed_by is None
    assert (outcome.runner, outcome.duration_ms > 0) == ("plain", True)


def test_it_promises_nothing() -> None:
    assert RUNNER.capabilities() == RunnerCapabilities()
    assert RUNNER.name == "plain"


def test_a_job_works_in_its_folder(tmp_path: Path) -> None:
    assert run("pwd", "-P", folder=tmp_path).stdout == f"{tmp_path.resolve()}\n"


@pytest.mark.parametrize("data", [b"", b"hello", b"\x00\xff" * 100_000], ids=["empty", "short", "longer than a pipe"])
def test_a_job_reads_its_input_to_the_end(tmp_path: Path, data: bytes) -> None:
    outcome = run(PYTHON, "-c", "import sys; print(len(sys.stdin.buffer.read()))", folder=tmp_path, stdin=data)
    assert outcome.stdout == f"{len(data)}\n"


def test_a_job_that_does_not_read_its_input_ends_all_the_same(tmp_path: Path) -> None:
    assert run("true", folder=tmp_path, stdin=b"x" * 1_000_000).is_success


@pytest.mark.covers("O-71")
def test_nothing_of_the_hosts_environment_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_KEY", "API_TOKEN", "DATABASE_PASSWORD", "LD_PRELOAD_X", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "s3cret-of-the-host")
    outcome = run("env", folder=tmp_path, env={"GIVEN": "yes"})
    assert "s3cret-of-the-host" not in outcome.stdout
    names = {line.partition("=")[0] for line in outcome.stdout.splitlines()}
    assert {"PATH", "HOME", "LANG", "GIVEN"} <= names
    assert f"HOME={tmp_path}\n" in outcome.stdout


@pytest.mark.covers("O-74")
@pytest.mark.parametrize("value", ['"; rm -rf /"', "$(touch x)", "`touch x`", "a\nb", "", "ünïcode ✓"])
def test_values_and_arguments_arrive_as_they_are(tmp_path: Path, value: str) -> None:
    script = "import os, sys; sys.stdout.write(os.environ['VALUE'] + '|' + sys.argv[1])"
    assert run(PYTHON, "-c", script, value, folder=tmp_path, env={"VALUE": value}).stdout == f"{value}|{value}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("O-70", "G-36")
@pytest.mark.parametrize("seconds", [0.15, 0.0, -1.0])
def test_a_job_that_takes_too_long_is_ended(tmp_path: Path, seconds: float) -> None:
    outcome = run("sleep", "600", folder=tmp_path, seconds=seconds)
    assert (outcome.exit_code, outcome.timed_out, outcome.killed_by) == (TIMED_OUT, True, "timeout")
    assert not outcome.is_success


def test_what_was_written_before_the_time_was_up_is_kept(tmp_path: Path) -> None:
    outcome = run_out_of_time("echo early; exec sleep 600", tmp_path, lambda outcome: bool(outcome.stdout))
    assert (outcome.stdout, outcome.timed_out) == ("early\n", True)


@pytest.mark.covers("O-70")
@pytest.mark.parametrize(
    "script",
    [
        "sleep 600 & echo $! > pid; sleep 600",
        "trap '' TERM; (trap '' TERM; sleep 600) & echo $! > pid; while :; do sleep 600; done",
        "(sleep 600 & echo $! > pid); sleep 600",
    ],
    ids=["a child", "deaf to requests", "an orphan"],
)
def test_no_process_of_the_group_outlives_the_time(tmp_path: Path, script: str) -> None:
    assert run_out_of_time(script, tmp_path, lambda _: written(tmp_path / "pid")).timed_out
    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


@pytest.mark.covers("O-70")
def test_a_grandchild_that_holds_the_pipes_does_not_hold_up_the_result(tmp_path: Path) -> None:
    # In a session and with an environment of its own, nothing tells it from a stranger.
    script = "setsid env -i sleep 600 & echo $! > pid; echo done"
    try:
        outcome = run("sh", "-c", script, folder=tmp_path)
        assert (outcome.stdout, outcome.exit_code) == ("done\n", 0)
    finally:
        with_group_left = int((tmp_path / "pid").read_text())
        if is_alive(with_group_left):
            os.kill(with_group_left, 9)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes cannot be known by their environment")
def test_a_process_that_left_the_group_is_found_when_the_time_is_up(tmp_path: Path) -> None:
    script = "setsid sh -c 'echo $$ > pid; exec sleep 600' & exec sleep 600"
    assert run_out_of_time(script, tmp_path, lambda _: written(tmp_path / "pid")).timed_out
    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes cannot be known by their environment")
@pytest.mark.parametrize(
    "env",
    [{}, {"METIER_JOB": "mine"}, {f"INPUT_{at}": "x" * 60_000 for at in range(24)}],
    ids=["plain", "with a mark of its own", "behind much else"],
)
def test_a_process_that_left_the_group_does_not_outlive_a_job_that_went_well(
    tmp_path: Path, env: dict[str, str]
) -> None:
    script = (
        "setsid bash -c 'echo $$ > pid; exec sleep 600' >/dev/null 2>&1 </dev/null & while ! [ -s pid ]; do :; done"
    )
    assert run("bash", "-c", script, folder=tmp_path, env=env).is_success
    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_what_a_job_leaves_running_in_its_group_ends_with_it(tmp_path: Path) -> None:
    outcome = run("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > pid", folder=tmp_path)
    assert outcome.is_success
    assert wait_until(lambda: not is_alive(int((tmp_path / "pid").read_text())))


@pytest.mark.covers("G-36")
def test_more_output_than_the_cap_is_dropped_and_flagged(tmp_path: Path) -> None:
    outcome = run(PYTHON, "-c", "print('x' * 3000)", folder=tmp_path, output_bytes=1024)
    assert (len(outcome.stdout), outcome.stdout_truncated, outcome.stderr_truncated) == (1024, True, False)
    assert outcome.is_success


@pytest.mark.parametrize(("cap", "truncated"), [(5, False), (4, True), (0, True), (-1, True)])
def test_the_cap_is_inclusive(tmp_path: Path, cap: int, truncated: bool) -> None:
    outcome = run("printf", "12345", folder=tmp_path, output_bytes=cap)
    assert (outcome.stdout, outcome.stdout_truncated) == ("12345"[: max(0, cap)], truncated)


def test_a_cap_never_leaves_half_a_character(tmp_path: Path) -> None:
    outcome = run(PYTHON, "-c", "print('é' * 100)", folder=tmp_path, output_bytes=7)
    assert outcome.stdout == "ééé"


@pytest.mark.covers("O-72")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_ends_the_job(tmp_path: Path, stream: str) -> None:
    outcome = run("sh", "-c", "exec yes" if stream == "stdout" else "exec yes >&2", folder=tmp_path)
    assert outcome.killed_by == "output"
    assert not outcome.is_success
    assert len(getattr(outcome, stream)) == Limits().output_bytes


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    assert run("printf", r"a\377b\000c", folder=tmp_path).stdout == "a\ufffdb\0c"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-program",), "No such file"),
        (("./no-such-script",), "No such file"),
        (("/",), "Permission denied"),
        (("echo", "a\0b"), "null byte"),
        (("a\0b",), "null byte"),
        (("echo", "\ud800"), "surrogates not allowed"),
        (("echo", "x" * 10_000_000), "Argument list too long"),
        ((), "needs a program"),
        (("",), "needs a program"),
        (("echo", 1), "arguments that are text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_job_that_cannot_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[Any, ...], reason: str
) -> None:
    # A folder among those of programs that this user may not look into would be the reason.
    monkeypatch.setenv("PATH", os.defpath)
    outcome = run(*argv, folder=tmp_path)
    assert outcome.exit_code == CANNOT_START
    assert reason in outcome.stderr
    assert len(outcome.stderr) < 1_000


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    outcome = run("echo", folder=tmp_path / "gone")
    assert (outcome.exit_code, "the working folder" in outcome.stderr) == (CANNOT_START, True)


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"A": "x\0y"}, {"A": 1}, {"": "x"}, {b"METIER_JOB": "x"}, {1: "x"}])
def test_an_environment_that_cannot_be_passed_is_no_exception(tmp_path: Path, env: Any) -> None:
    assert run("true", folder=tmp_path, env=env).exit_code in (0, CANNOT_START)


def test_a_name_that_is_no_text_could_stand_there_twice_and_is_refused(tmp_path: Path) -> None:
    env: Any = {b"METIER_JOB": b"mine"}
    outcome = run("true", folder=tmp_path, env=env)
    assert (outcome.exit_code, "are text" in outcome.stderr) == (CANNOT_START, True)


@pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_job_that_dies_of_a_signal_says_so(tmp_path: Path, signal: str, code: int) -> None:
    outcome = run("sh", "-c", f"kill -{signal} $$", folder=tmp_path)
    assert (outcome.exit_code, outcome.killed_by) == (code, "signal")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere limits cannot be set for another process")
@pytest.mark.parametrize(
    ("script", "limits"),
    [
        ("bytearray(300_000_000)", {"memory_bytes": 200_000_000}),
        ("open('big', 'wb').write(b'x' * 100_000)", {"file_bytes": 1_000}),
        ("[open('/dev/null') for _ in range(200)]", {"open_files": 32}),
    ],
    ids=["memory", "file size", "open files"],
)
def test_the_kernel_keeps_the_limits_of_each_process(tmp_path: Path, script: str, limits: dict[str, int]) -> None:
    # The limits come right after the start, the last of them that no core is written.
    script = f"import resource\nwhile resource.getrlimit(resource.RLIMIT_CORE)[1]: pass\n{script}"
    assert run(PYTHON, "-c", script, folder=tmp_path).is_success
    assert not run(PYTHON, "-c", script, folder=tmp_path, **limits).is_success


def test_limits_that_are_no_sizes_are_no_exception(tmp_path: Path) -> None:
    outcome = run("true", folder=tmp_path, file_bytes=-1, seconds=float("nan"))
    assert outcome.exit_code == 0


def test_a_job_stops_when_asked(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    job = Job(argv=("sh", "-c", "echo $$ > pid; exec sleep 600"), folder=str(tmp_path))
    outcome = RUNNER.run_blocking(job, should_stop=lambda: written(mark))
    assert (outcome.killed_by, outcome.is_success) == ("cancel", False)
    assert not is_alive(int(mark.read_text()))


def test_a_job_dies_when_asking_whether_to_stop_fails(tmp_path: Path) -> None:
    mark = tmp_path / "pid"

    def fail() -> bool:
        if written(mark):
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        RUNNER.run_blocking(
            Job(argv=("sh", "-c", "echo $$ > pid; exec sleep 600"), folder=str(tmp_path)), should_stop=fail
        )
    assert not is_alive(int(mark.read_text()))


def test_a_job_runs_beside_the_event_loop(tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def main() -> None:
        async def one(word: str) -> None:
            outcomes.append((await RUNNER.run(Job(argv=("echo", word), folder=str(tmp_path)))).stdout)

        async with anyio.create_task_group() as group:
            for at in range(10):
                group.start_soon(one, str(at))

    anyio.run(main)
    assert sorted(outcomes) == [f"{at}\n" for at in range(10)]


@pytest.mark.parametrize("how", ["scope", "task"])
def test_cancelling_ends_the_job_before_it_returns(tmp_path: Path, how: str) -> None:
    import asyncio

    mark = tmp_path / "pid"
    job = Job(argv=("sh", "-c", "sleep 600 & echo $$ > pid; wait"), folder=str(tmp_path))

    async def started() -> None:
        while not written(mark):
            await anyio.sleep(0.005)

    async def main() -> None:
        if how == "task":
            task = asyncio.ensure_future(RUNNER.run(job))
            await started()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(RUNNER.run, job)
                await started()
                group.cancel_scope.cancel()
        assert not is_alive(int(mark.read_text()))

    anyio.run(main)


def test_a_job_that_is_cancelled_before_it_starts_never_starts(tmp_path: Path) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await RUNNER.run(Job(argv=("touch", "began"), folder=str(tmp_path)))
        assert scope.cancelled_caught

    anyio.run(main)
    assert list(tmp_path.iterdir()) == []


def test_jobs_leave_no_threads_behind(tmp_path: Path) -> None:
    for _ in range(5):
        run("sh", "-c", "sleep 600 & sleep 600", folder=tmp_path, seconds=0.05)
    assert not [thread.name for thread in threading.enumerate() if thread.name == "metier-output"]


@pytest.mark.covers("G-36", "O-69")
@pytest.mark.parametrize("name", ["run.sh", "a;touch owned.sh", "名前.sh", "-x.SH"])
def test_a_script_needs_no_execute_permission(tmp_path: Path, name: str) -> None:
    script = tmp_path / "scripts" / name
    script.parent.mkdir()
    script.write_text("echo ran $1\n", encoding="utf-8")
    assert run(*command_for(str(script)), "well", folder=tmp_path).stdout == "ran well\n"
    assert [path.name for path in tmp_path.iterdir()] == ["scripts"]


@pytest.mark.covers("G-36")
def test_an_executable_runs_directly_and_relative_to_the_folder(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/bin/sh\necho direct\n")
    script.chmod(0o755)
    assert run("./run", folder=tmp_path).stdout == "direct\n"
