"""No job uses more than its limits, however many processes it spreads that over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier._paths import safe_rmtree
from metier.run import Outcome
from metier.run.native import usage_watch
from metier.run.native.usage_watch import Disk, Memory, ProcessTree

Run = Callable[..., Outcome]
MB = 1_000_000


def test_one_process_cannot_have_more_memory_than_the_limit(python: Run) -> None:
    script = "data = bytearray(150_000_000); print(len(data))"
    assert python(script, memory_bytes=400 * MB).stdout == "150000000\n"
    outcome = python(script, memory_bytes=100 * MB)
    assert not outcome.is_success
    assert outcome.stdout == ""


@pytest.mark.covers("G-36")
def test_processes_together_cannot_have_more_memory_than_the_limit(python: Run) -> None:
    script = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        data = bytearray(b"x" * 60_000_000)
        time.sleep(600)
time.sleep(600)
"""
    outcome = python(script, memory_bytes=150 * MB, seconds=20)
    assert (outcome.killed_by, outcome.is_success, outcome.timed_out) == ("memory", False, False)
    assert outcome.exit_code == 137
    assert outcome.usage.memory_bytes > 150 * MB


def test_memory_is_looked_at_again_once_it_grows_though_others_give_back_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Tree(ProcessTree):
        def processes(self) -> list[int]:
            return [os.getpid()]

    monkeypatch.setattr(usage_watch, "_machine_memory", lambda: (4_000 * MB, 0))
    # The pause after a look never ends.
    monkeypatch.setattr("metier.run.native.usage_watch.time.monotonic", lambda: 1.0)
    size = {"seen": 110 * MB, "own": 90 * MB}
    monkeypatch.setattr(usage_watch, "_resident", lambda pid: size["seen"])
    monkeypatch.setattr(usage_watch, "_proportional", lambda pid: size["own"])
    memory = Memory(Tree(is_alone=False), 100 * MB)
    memory._look_at = 2.0
    memory._seen_used = 110 * MB
    assert not memory.is_over(60.0)
    size.update(seen=130 * MB, own=120 * MB)
    assert not memory.is_over(60.0), "too little for another look"
    size.update(seen=140 * MB, own=120 * MB)
    assert memory.is_over(60.0)


@in_one_sandbox
def test_memory_that_processes_share_counts_once(python: Run) -> None:
    script = """
import os, time
data = bytearray(b"x" * 100_000_000)
children = []
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.3)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print("done")
"""
    # Six times as much if each counted alone. While they end one by one, those looked at later have a larger share.
    outcome = python(script, memory_bytes=400 * MB)
    assert outcome.stdout == "done\n", outcome


@pytest.mark.parametrize("how", ["one file", "many files", "nameless files", "written by children"])
def test_a_job_cannot_fill_the_disk(python: Run, workspace: Path, how: str) -> None:
    script = {
        "one file": "open('big', 'wb').write(data * 40)",
        "many files": "[open(f'part-{at}', 'wb').write(data) for at in range(40)]",
        "nameless files": "held = [open(os.open('.', os.O_TMPFILE | os.O_RDWR), 'wb') for _ in range(40)]\n"
        "[(file.write(data), file.flush()) for file in held]",
        "written by children": "for at in range(40):\n"
        "    if os.fork() == 0:\n        open(f'part-{at}', 'wb').write(data); os._exit(0)\n    os.wait()",
    }[how]
    outcome = python(f"import os, time\ndata = b'x' * {MB}\n{script}\ntime.sleep(600)", disk_bytes=20 * MB, seconds=20)
    assert (outcome.killed_by, outcome.exit_code, outcome.timed_out) == ("disk", 137, False)


@in_one_sandbox
def test_what_a_job_writes_and_removes_again_does_not_count(python: Run) -> None:
    script = f"""
import os, time
for at in range(60):
    open("part", "wb").write(b"x" * {6 * MB})
    os.remove("part")
    time.sleep(0.005)
print("done")
"""
    # Far from what other tests write on this disk meanwhile: that much less room, too, would be held against the job.
    assert python(script, disk_bytes=300 * MB).stdout == "done\n"


def test_a_file_cannot_be_larger_than_the_limit(python: Run, workspace: Path) -> None:
    outcome = python(f"open('big', 'wb').write(b'x' * {2 * MB})", file_bytes=MB)
    assert not outcome.is_success
    assert (workspace / "big").stat().st_size <= MB


def test_temporary_files_count_too(sh: Run) -> None:
    script = 'for at in $(seq 60); do head -c 1000000 /dev/zero > "$TMPDIR/$at" || exit 9; done; sleep 600'
    outcome = sh(script, disk_bytes=20 * MB, seconds=20)
    # Either there is no more room, or the job is ended.
    assert outcome.exit_code == 9 or outcome.killed_by == "disk"


def test_a_job_has_no_more_processes_than_the_limit(python: Run) -> None:
    script = """
import os, sys, time
made = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(600)
        made += 1
except OSError:
    pass
print(made)
"""
    outcome = python(script, processes=20)
    # The kernel counts all processes of a user; where others come and go, the job is ended instead.
    assert outcome.killed_by == "processes" or 10 <= int(outcome.stdout) <= 28
    assert python("print(1)").is_success


def test_a_job_has_no_more_open_files_than_the_limit(python: Run) -> None:
    outcome = python("files = [open('/dev/null') for _ in range(100)]", open_files=64)
    assert "Too many open files" in outcome.stderr
    assert python("files = [open('/dev/null') for _ in range(100)]", open_files=128).is_success


def test_a_job_cannot_lift_its_limits(python: Run) -> None:
    script = """
import resource
for kind in (resource.RLIMIT_DATA, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1))
        print("lifted", kind)
    except (OSError, ValueError):
        pass
"""
    assert python(script).stdout == ""


def test_the_disk_of_this_machine_is_not_that_of_a_job_whose_root_is_not_made_yet() -> None:
    with subprocess.Popen(["sleep", "60"]) as beginning:

        class OnlyBeginning(ProcessTree):
            def processes(self) -> list[int]:
                return [beginning.pid]

        try:
            tree = OnlyBeginning(is_alone=False)
            assert not Disk(tree, 0, [], ("/proc/{pid}/root/tmp",)).is_over()
            assert Disk(tree, 0, [], ("/tmp",)).is_over()  # which its supervisor sees as the job does
        finally:
            beginning.kill()


def test_files_count_below_paths_longer_than_the_kernel_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(ProcessTree(is_alone=False), MB, [str(tmp_path)], ())
    monkeypatch.chdir(tmp_path)
    for _ in range(30):
        os.mkdir("n" * 200)
        os.chdir("n" * 200)
    Path("file").write_bytes(b"x" * 2 * MB)
    os.chdir(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    size, files = disk._changed_files()
    assert size >= 2 * MB
    assert files == 31
    assert len(os.listdir("/proc/self/fd")) == before
    safe_rmtree(str(tmp_path / ("n" * 200)))
