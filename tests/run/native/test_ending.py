"""However a job ends, nothing of it is left: no process, no file, no descriptor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.run import TIMED_OUT, Job, NativeRunner, Outcome

Run = Callable[..., Outcome]
Alive = Callable[[str], list[str]]

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ready, told = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        # An orphan in a session of its own that ignores requests and holds both pipes.
        os.setpgid(0, 0)
        os.write(told, b"x")
        print("the orphan is there", flush=True)
        while True:
            time.sleep(600)
    os._exit(0)
os.read(ready, 1)
while True:
    time.sleep(600)
"""


def _run_out_of_time(run: Callable[[float], Outcome], wanted: str) -> Outcome:
    """Let the time of a job be up as soon as it has said what it is to say, for which a busy machine needs longer."""
    for seconds in (0.2, 1.0, 5.0, 30.0):
        outcome = run(seconds)
        if outcome.stdout == wanted:
            break
    return outcome


@pytest.mark.covers("O-70", "G-36")
def test_nobody_outlives_the_time_however_well_it_hides(python: Run, mark: str, alive: Alive) -> None:
    said = "the orphan is there\n"
    outcome = _run_out_of_time(lambda seconds: python(STUBBORN, mark, seconds=seconds), said)
    assert (outcome.exit_code, outcome.timed_out, outcome.killed_by) == (TIMED_OUT, True, "timeout")
    assert outcome.stdout == said
    assert alive(mark) == []


@in_one_sandbox
@pytest.mark.parametrize("seconds", [0.1, 0.0, -1.0])
def test_a_short_time_is_kept(run: Run, seconds: float) -> None:
    outcome = run("sleep", "600", seconds=seconds)
    assert (outcome.exit_code, outcome.timed_out, outcome.killed_by) == (TIMED_OUT, True, "timeout")


@in_one_sandbox
@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e18])
def test_a_time_that_is_no_time_is_the_longest(run: Run, seconds: float) -> None:
    assert run("true", seconds=seconds).is_success


def test_a_job_may_end_well_when_it_is_asked_to(sh: Run, tier: str) -> None:
    if tier == "bubblewrap":
        pytest.skip("bubblewrap ends its job when it is asked to end itself")
    script = "trap 'echo cleaned up; exit 3' TERM; echo begun; while :; do sleep 0.01; done"
    said = "begun\ncleaned up\n"
    outcome = _run_out_of_time(lambda seconds: sh(script, seconds=seconds), said)
    assert (outcome.exit_code, outcome.stdout) == (TIMED_OUT, said)


@pytest.mark.covers("O-70")
def test_what_a_job_leaves_running_ends_with_it_and_does_not_hold_up_the_result(
    sh: Run, mark: str, alive: Alive
) -> None:
    script = "setsid bash -c 'exec -a $0 sleep 600' $1 & (bash -c 'exec -a $0 sleep 600' $1 &); echo done; exit 5"
    outcome = sh(script, mark)
    assert (outcome.stdout, outcome.exit_code, outcome.killed_by) == ("done\n", 5, None)
    assert alive(mark) == []


def test_a_swarm_that_keeps_forking_is_ended(python: Run, mark: str, alive: Alive) -> None:
    swarm = """
import os
while True:
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        pass
"""
    # Its first process ends at once, and each that is found has left another.
    python(swarm, mark, seconds=0.5)
    assert alive(mark) == []


def _descriptors(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _leave_nothing(
    runner: NativeRunner,
    body: Callable[[], None],
    launchers: Callable[[], list[int]],
    own_temp: Path,
    wait_until: Callable[..., bool],
    workspace: Path,
) -> None:
    runner.close()
    before = (_descriptors(), threading.active_count(), Path("/proc/self/mountinfo").read_text())
    runner.run_blocking(Job(argv=("true",), folder=str(workspace)))
    (launcher,) = launchers()
    at_first = _descriptors(launcher)
    body()
    assert launchers() == [launcher]
    # An empty sandbox or two may be kept for a moment.
    assert wait_until(lambda: len(_children(launcher)) <= MOST_KEPT)
    assert _descriptors(launcher) <= at_first + MOST_KEPT
    assert list(own_temp.iterdir()) == []
    runner.close()
    assert launchers() == []
    assert (_descriptors(), threading.active_count(), Path("/proc/self/mountinfo").read_text()) == before


MOST_KEPT = 2
RUNS = int(os.environ.get("METIER_TEST_RUNS", "24"))
many_runs = pytest.mark.parametrize("runs", [3, pytest.param(RUNS, marks=pytest.mark.slow)], ids=["few", "many"])
"""How many times several jobs are run; a thousand takes a minute."""


@pytest.mark.covers("O-70")
@many_runs
def test_many_runs_leave_nothing_behind(
    runner: NativeRunner,
    run: Run,
    launchers: Callable[[], list[int]],
    own_temp: Path,
    workspace: Path,
    wait_until: Callable[..., bool],
    runs: int,
) -> None:
    def many() -> None:
        for at in range(runs):
            assert run("sh", "-c", "cat; echo err >&2; sleep 600 & exit 3", stdin=b"in").stdout == "in"
            assert run("no-such-program", stdin=b"in").exit_code == 127
            if at % 20 == 0:
                assert run("sleep", "600", seconds=0.01).timed_out

    _leave_nothing(runner, many, launchers, own_temp, wait_until, workspace)
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize(
    ("threads", "runs"), [(4, 3), pytest.param(8, RUNS, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_jobs_at_once_do_not_mix_and_leave_nothing_behind(
    runner: NativeRunner,
    run: Run,
    launchers: Callable[[], list[int]],
    own_temp: Path,
    workspace: Path,
    wait_until: Callable[..., bool],
    threads: int,
    runs: int,
) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        for at in range(runs):
            word, code = f"{number}-{at}", at % 100
            outcome = run("sh", "-c", "echo $1; cat; echo $W >&2; exit $2", "sh", word, str(code), env={"W": word},
                          stdin=word.encode())  # fmt: skip
            if (outcome.stdout, outcome.stderr, outcome.exit_code) != (f"{word}\n{word}", f"{word}\n", code):
                wrong.append(outcome)

    def together() -> None:
        working = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()

    _leave_nothing(runner, together, launchers, own_temp, wait_until, workspace)
    assert wrong == []


@in_one_sandbox
def test_nothing_of_a_job_is_inherited_by_what_the_host_starts_meanwhile(run: Run) -> None:
    before = set(os.listdir("/proc/self/fd"))
    passed_on: set[str] = set()

    def look() -> bool:
        for name in set(os.listdir("/proc/self/fd")) - before:
            try:
                if os.get_inheritable(int(name)):
                    passed_on.add(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        return bool(passed_on)

    run("sleep", "0.2", should_stop=look)
    assert passed_on == set()
