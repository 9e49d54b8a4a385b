"""Whoever gives a job up, or dies while it runs, leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.run import Job, NativeRunner, Outcome, OutputLine

Run = Callable[..., Outcome]
Alive = Callable[[str], list[str]]
Wait = Callable[..., bool]
Start = Callable[..., "subprocess.Popen[str]"]

FAMILY = """
trap '' TERM
setsid bash -c 'trap "" TERM; echo there; while :; do sleep 600; done' "$1" &
(bash -c 'trap "" TERM; echo there; while :; do sleep 600; done' "$1" &)
echo there
while :; do sleep 600; done
"""
"""A job of three processes, of which one leads a session of its own and one has no parent; all are deaf to requests."""
COMPLETE = 3


class Counter:
    """Hears how many of the family are there."""

    def __init__(self) -> None:
        self.count = 0
        self.complete = threading.Event()

    def __call__(self, line: OutputLine) -> None:
        self.count += 1
        if self.count == COMPLETE:
            self.complete.set()


def job(mark: str, folder: Path) -> Job:
    return Job(argv=("bash", "-c", FAMILY, "bash", mark), folder=str(folder))


@in_one_sandbox
def test_a_job_ends_when_it_is_asked_to(runner: NativeRunner, workspace: Path, mark: str, alive: Alive) -> None:
    heard = Counter()
    outcome = runner.run_blocking(job(mark, workspace), on_output=heard, should_stop=heard.complete.is_set)
    assert (outcome.killed_by, outcome.is_success, outcome.timed_out) == ("cancel", False, False)
    assert outcome.stdout == "there\n" * COMPLETE
    assert alive(mark) == []


@in_one_sandbox
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_job_ends_when_asking_whether_to_stop_fails(
    runner: NativeRunner, workspace: Path, mark: str, alive: Alive, wait_until: Wait, error: type[BaseException]
) -> None:
    heard = Counter()

    def fail() -> bool:
        if heard.complete.is_set():
            raise error
        return False

    with pytest.raises(error):
        runner.run_blocking(job(mark, workspace), on_output=heard, should_stop=fail)
    assert wait_until(lambda: not alive(mark))


@in_one_sandbox
def test_a_job_ends_when_whoever_listens_is_interrupted(
    runner: NativeRunner, workspace: Path, mark: str, alive: Alive, wait_until: Wait
) -> None:
    heard = Counter()

    def fail(line: OutputLine) -> None:
        heard(line)
        if heard.complete.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run_blocking(job(mark, workspace), on_output=fail)
    assert wait_until(lambda: not alive(mark))


@in_one_sandbox
@pytest.mark.parametrize("how", ["group", "scope", "task"])
def test_cancelling_ends_the_job_before_it_returns(
    runner: NativeRunner, workspace: Path, mark: str, alive: Alive, how: str
) -> None:
    import asyncio

    heard = Counter()

    async def begun() -> None:
        while not heard.complete.is_set():
            await anyio.sleep(0.005)

    async def main() -> None:
        if how == "task":
            task = asyncio.ensure_future(runner.run(job(mark, workspace), on_output=heard))
            await begun()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif how == "group":
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: runner.run(job(mark, workspace), on_output=heard))
                await begun()
                group.cancel_scope.cancel()
        else:
            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:

                    async def let_it_be_late() -> None:
                        await begun()
                        scope.deadline = anyio.current_time()

                    group.start_soon(let_it_be_late)
                    await runner.run(job(mark, workspace), on_output=heard)
            assert scope.cancelled_caught
        assert alive(mark) == []

    anyio.run(main)


def test_a_job_that_is_cancelled_before_it_starts_never_starts(runner: NativeRunner, workspace: Path) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await runner.run(Job(argv=("touch", "began"), folder=str(workspace)))
        assert scope.cancelled_caught

    anyio.run(main)
    assert list(workspace.iterdir()) == []


@in_one_sandbox
def test_jobs_run_beside_the_event_loop(runner: NativeRunner, workspace: Path) -> None:
    outcomes: list[str] = []

    async def one(word: str) -> None:
        outcomes.append((await runner.run(Job(argv=("echo", word), folder=str(workspace)))).stdout)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for at in range(8):
                group.start_soon(one, str(at))

    anyio.run(main)
    assert sorted(outcomes) == [f"{at}\n" for at in range(8)]


HOST = """
tier, folder, family, mark = sys.argv[1:]
def tell(line):
    print(line.text, end="", flush=True)
job = Job(argv=("bash", "-c", family, "bash", mark), folder=folder)
print(NativeRunner(tier=tier).run_blocking(job, on_output=tell))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_job_does_not_outlive_its_host(
    host: Start, tier: str, workspace: Path, mark: str, alive: Alive, wait_until: Wait, how: str
) -> None:
    process = host(HOST, tier, str(workspace), FAMILY, mark)
    assert process.stdout is not None
    for _ in range(COMPLETE):
        assert process.stdout.readline() == "there\n"
    assert len(alive(mark)) > COMPLETE  # the host has the mark among its arguments too
    process.send_signal(signal.Signals[how])
    process.wait(20)
    assert wait_until(lambda: not alive(mark))


@in_one_sandbox
@pytest.mark.parametrize("times", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_a_launcher_that_was_killed_is_replaced(run: Run, launchers: Callable[[], list[int]], times: int) -> None:
    run("true")
    for at in range(times):
        for pid in launchers():
            os.kill(pid, signal.SIGKILL)
        outcome = run("echo", str(at))
        # A sandbox that was kept may take the job, and then die of the same cause.
        assert outcome.stdout == f"{at}\n" or outcome.killed_by == "signal", outcome
    assert run("echo", "on").stdout == "on\n"
    assert len(launchers()) == 1


def test_a_job_whose_launcher_is_killed_ends_or_can_be_ended(
    runner: NativeRunner,
    workspace: Path,
    mark: str,
    alive: Alive,
    wait_until: Wait,
    launchers: Callable[[], list[int]],
    run: Run,
) -> None:
    heard, stop = Counter(), threading.Event()
    outcomes: list[Outcome] = []

    def go() -> None:
        outcomes.append(runner.run_blocking(job(mark, workspace), on_output=heard, should_stop=stop.is_set))

    thread = threading.Thread(target=go)
    thread.start()
    assert heard.complete.wait(20)
    for pid in launchers():
        os.kill(pid, signal.SIGKILL)
    thread.join(0.1)
    stop.set()
    thread.join(20)
    assert [outcome.killed_by in ("signal", "cancel") for outcome in outcomes] == [True]
    assert wait_until(lambda: not alive(mark))
    assert run("echo", "on").stdout == "on\n"


@in_one_sandbox
def test_a_launcher_that_does_not_answer_is_no_trouble_for_the_next_job(
    run: Run, launchers: Callable[[], list[int]], workspace: Path, mark: str, alive: Alive, wait_until: Wait
) -> None:
    class GivenUp(Exception):
        pass

    def give_up(*_: Any) -> None:
        raise GivenUp

    run("true")
    (stopped,) = launchers()
    handler = signal.signal(signal.SIGALRM, give_up)
    os.kill(stopped, signal.SIGSTOP)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(GivenUp):
            # With a limit of its own it fits into no sandbox that is kept.
            run("bash", "-c", "sleep 600", mark, open_files=200)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        os.kill(stopped, signal.SIGCONT)
    assert wait_until(lambda: not alive(mark))
    held: list[str] = []
    before = set(os.listdir("/proc/self/fd"))

    def look() -> bool:
        if not held:
            held.extend(_held_processes(before))
            (workspace / "seen").touch()
        return False

    script = "until [ -e seen ]; do sleep 0.01; done; echo next"
    assert run("sh", "-c", script, should_stop=look, open_files=201).stdout == "next\n"
    # The process by which this job is ended is its own, and not the former's, which is dead.
    assert held
    assert "-1" not in held


def _held_processes(but: set[str]) -> list[str]:
    """The processes that this one holds other descriptors of; -1 for each that has ended."""
    found = []
    for name in set(os.listdir("/proc/self/fd")) - but:
        with contextlib.suppress(OSError):
            found += re.findall(r"^Pid:\s*(-?\d+)", Path(f"/proc/self/fdinfo/{name}").read_text(), re.MULTILINE)
    return found


FORKING = """
tier, folder = sys.argv[1:]
runner = NativeRunner(tier=tier)
job = Job(argv=("echo", "ran"), folder=folder)
assert runner.run_blocking(job).stdout == "ran\\n"
child = os.fork()
if child == 0:
    outcomes = [runner.run_blocking(job).stdout for _ in range(3)]
    print("child", outcomes == ["ran\\n"] * 3, flush=True)
    os._exit(0)
print("parent", [runner.run_blocking(job).stdout for _ in range(3)] == ["ran\\n"] * 3, flush=True)
os.waitpid(child, 0)
print("again", runner.run_blocking(job).stdout == "ran\\n")
"""


@in_one_sandbox
def test_a_fork_of_the_host_has_a_launcher_of_its_own(host: Start, tier: str, workspace: Path) -> None:
    said, _ = host(FORKING, tier, str(workspace)).communicate(timeout=60)
    assert sorted(said.splitlines()) == ["again True", "child True", "parent True"]


STARTING = """
tier, folder = sys.argv[1:]
runner = NativeRunner(tier=tier)
barrier = threading.Barrier(8)
said = []
def work():
    barrier.wait()
    said.append(runner.run_blocking(Job(argv=("echo", "ran"), folder=folder)).stdout)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
for name in os.listdir("/proc/self/task"):
    children += open(f"/proc/self/task/{name}/children").read().split()
print(said == ["ran\\n"] * 8, len(set(children)))
"""


@in_one_sandbox
def test_threads_that_begin_at_once_share_a_launcher(host: Start, tier: str, workspace: Path) -> None:
    said, _ = host(STARTING, tier, str(workspace)).communicate(timeout=60)
    assert said == "True 1\n"


SURROUNDINGS = """
tier, folder, *all_of_them = sys.argv[1:]

def be(what):
    if what == "signals are ignored":
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
    if what == "signals are blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if what == "no standard streams":
        os.close(0), os.close(1), os.close(2)
    if what == "private files":
        os.umask(0o077)
    if what == "few descriptors":
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    if what == "a folder that is gone":
        gone = os.path.join(folder, "gone")
        os.mkdir(gone), os.chdir(gone), os.rmdir(gone)

for what in all_of_them:
    if os.fork():
        continue
    out = os.dup(1)
    be(what)
    runner = NativeRunner(tier=tier)
    said = [what]
    for _ in range(2):
        one = runner.run_blocking(Job(argv=("bash", "-c", "echo $(echo out); exit 7"), folder=folder))
        two = runner.run_blocking(Job(argv=("bash", "-c", "kill -TERM $$; echo deaf"), folder=folder))
        said += [one.stdout.strip(), one.stderr, str(one.exit_code), two.stdout, str(two.exit_code)]
    os.write(out, "|".join(said).encode() + b"\\n")
    os._exit(0)
for _ in all_of_them:
    os.wait()
"""


@in_one_sandbox
def test_a_job_does_not_depend_on_how_its_host_was_started(host: Start, tier: str, workspace: Path) -> None:
    surroundings = [
        "signals are ignored", "signals are blocked", "no standard streams", "private files", "few descriptors",
        "a folder that is gone",
    ]  # fmt: skip
    said, _ = host(SURROUNDINGS, tier, str(workspace), *surroundings).communicate(timeout=60)
    assert sorted(said.splitlines()) == sorted(f"{what}{'|out||7||143' * 2}" for what in surroundings)
