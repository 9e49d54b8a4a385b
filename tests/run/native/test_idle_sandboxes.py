"""A job finds nothing of the one before it, and of the files it was given what is there now."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.native.conftest import in_one_sandbox

from metier.run import JobPath, Outcome

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS_WITH_A_VIEW = ["namespaces"] if IS_ROOT else ["namespaces", "bubblewrap"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)

TRACES = {
    "a temporary file": ('echo x > "$TMPDIR/trace"', 'ls -A "$TMPDIR" | grep trace'),
    "a hidden file": ('echo x > "$TMPDIR/.trace"', 'ls -A "$TMPDIR" | grep trace'),
    "shared memory": ("echo x > /dev/shm/trace", "cat /dev/shm/trace"),
    "a file on the way to the workspace": ("echo x > ../trace; echo x > ../../trace", "cat ../trace ../../trace"),
    "permissions of folders": ('chmod 0 "$TMPDIR" /tmp /dev/shm', 'touch "$TMPDIR/mine" || echo found'),
    "a mark on a folder": (
        "python3 -c 'import os; [os.setxattr(d, \"user.trace\", b\"x\") for d in (\"/tmp\", \"/dev/shm\")]'",
        "python3 -c 'import os; print(*os.listxattr(\"/tmp\"), *os.listxattr(\"/dev/shm\"))' | grep trace",
    ),
    "a process": ("(setsid sleep 600 &)", "ls /proc/*/comm 2>&- | xargs cat 2>&- | grep sleep"),
    "a terminal": ("python3 -c 'import pty, time; pty.openpty(); time.sleep(0.01)'", "ls /dev/pts | grep '^[0-9]'"),
    "a named socket": (
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"\\0trace\")'",
        "grep trace /proc/net/unix",
    ),
    "a variable": ("export TRACE=1; echo TRACE=1 > ~/.x", "env | grep TRACE"),
    "a working folder": ("mkdir -p deep; cd deep", "pwd | grep deep"),
    "a limit": ("ulimit -n 20; ulimit -u 5", "[ $(ulimit -n) = 20 ] && echo found"),
    "a mask": ("umask 077", "umask | grep 077"),
}  # fmt: skip


@pytest.mark.parametrize(("leave", "find"), TRACES.values(), ids=TRACES)
def test_nothing_of_a_job_is_found_by_the_next(sh: Run, leave: str, find: str) -> None:
    sh(leave)
    assert sh(find).stdout == ""


@in_one_sandbox
def test_what_a_job_used_is_not_counted_for_the_next(python: Run, run: Run) -> None:
    large = python("data = bytearray(80_000_000); sum(range(3_000_000))")
    small = run("true")
    assert large.usage.memory_bytes > 80_000_000 > small.usage.memory_bytes
    assert large.usage.cpu_ms > small.usage.cpu_ms


@in_one_sandbox
def test_the_next_job_has_its_own_time(sh: Run) -> None:
    assert sh("true", seconds=4).is_success
    first = int(sh("ulimit -Ht", seconds=20).stdout)
    assert sh("sleep 600", seconds=0.05).timed_out
    # Whoever was given a short time before leaves no bound for whoever has a longer one.
    assert int(sh("ulimit -Ht", seconds=60).stdout) > 60
    assert first >= 20


def test_a_job_that_was_ended_is_no_trouble_for_the_next(sh: Run) -> None:
    for more in ({"seconds": 0.05}, {"should_stop": lambda: True}, {"output_bytes": 1_000}):
        assert sh("yes; sleep 600", **more).killed_by in ("timeout", "cancel", "output")
        assert sh("echo next").stdout == "next\n"


@pytest.mark.parametrize("times", [1, 2])
def test_a_workspace_that_is_made_anew_is_the_new_one(sh: Run, workspace: Path, times: int) -> None:
    for at in range(times):
        assert sh("touch old; ls").stdout.split() == ["old"]
        shutil.rmtree(workspace)
        workspace.mkdir()
        (workspace / "given").write_text(str(at))
        assert sh("cat given; echo made > made").stdout == str(at)
        assert (workspace / "made").read_text() == "made\n"
        shutil.rmtree(workspace)
        workspace.mkdir()


def test_a_workspace_that_was_moved_away_is_not_used(sh: Run, workspace: Path) -> None:
    sh("true")
    workspace.rename(workspace.with_name("other"))
    assert sh("touch made").exit_code == 127
    workspace.mkdir()
    assert sh("touch made").is_success
    assert (os.listdir(workspace), os.listdir(workspace.with_name("other"))) == (["made"], [])


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_is_replaced_is_the_new_one(sh: Run, workspace: Path, tmp_path: Path, times: int) -> None:
    data = tmp_path.resolve() / "data.txt"
    data.write_text("0")
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(data)))
    assert sh(f"cat {data}", places=places).stdout == "0"
    for at in range(1, times + 1):
        (tmp_path / "new").write_text(str(at))
        os.replace(tmp_path / "new", data)
    assert sh(f"cat {data}", places=places).stdout == str(times)


def _begin_repository(workspace: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    (workspace / ".git" / "hooks").mkdir(exist_ok=True)


REPLACED = {
    "settings are saved once": ["git config a.b one"],
    "settings are saved twice": ["git config a.b one", "git config a.b two"],
    "settings are saved three times": ["git config a.b one", "git config a.b two", "git config a.b three"],
    "a repository is begun anew": ["rm -rf .git", "git init -q", "mkdir -p .git/hooks"],
    "hooks are put in place anew": ["mv .git/hooks .git/h", "cp -r .git/h .git/hooks", "rm -r .git/h"],
    "hooks come and go": ["rm -r .git/hooks", "mkdir .git/hooks", "rm -r .git/hooks", "mkdir .git/hooks"],
}


@has_view
@pytest.mark.parametrize("commands", REPLACED.values(), ids=REPLACED)
def test_what_is_protected_stays_so_when_it_is_replaced(sh: Run, workspace: Path, commands: list[str]) -> None:
    _begin_repository(workspace)
    for _ in range(2):
        sh("true")
        for command in commands:
            subprocess.run(command, shell=True, cwd=workspace, check=True)
        before = (workspace / ".git" / "config").read_text()
        sh("echo evil >> .git/config; echo evil > .git/hooks/pre-commit; mv .git away; mv .git/hooks .git/away")
        assert (workspace / ".git" / "config").read_text() == before
        assert not (workspace / ".git" / "hooks" / "pre-commit").exists()


@has_view
def test_what_becomes_protected_meanwhile_is_protected(sh: Run, workspace: Path) -> None:
    sh("true")
    _begin_repository(workspace)
    (workspace / ".bashrc").write_text("mine")
    sh("echo evil > .git/hooks/pre-commit; echo evil > .bashrc")
    assert (workspace / ".bashrc").read_text() == "mine"
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()


@has_view
@pytest.mark.parametrize("times", [1, 2])
def test_a_read_only_place_that_is_replaced_stays_so(sh: Run, workspace: Path, times: int) -> None:
    inner = workspace / "inner"
    inner.mkdir()
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(inner)))
    for _ in range(times):
        sh("true", places=places)
        shutil.rmtree(inner)
        inner.mkdir()
        (inner / "kept").write_text("kept")
        outcome = sh("cat inner/kept; echo x > inner/kept; touch inner/new", places=places)
        assert outcome.stdout == "kept"
        assert [(path.name, path.read_text()) for path in inner.iterdir()] == [("kept", "kept")]


def test_a_place_that_is_replaced_by_a_link_leads_nowhere_else(sh: Run, workspace: Path, tmp_path: Path) -> None:
    secret = tmp_path.resolve() / "secret"
    secret.mkdir()
    (secret / "file").write_text("s3cret")
    given = tmp_path.resolve() / "given"
    given.mkdir()
    (given / "file").write_text("given")
    assert (
        sh(f"cat {given}/file", places=(JobPath(str(workspace), is_writable=True), JobPath(str(given)))).stdout
        == "given"
    )
    shutil.rmtree(workspace)
    workspace.symlink_to(secret)
    # Whoever names the link gives what it leads to; nobody else does.
    assert "s3cret" not in sh(f"cat {secret}/file", folder=given).stdout


def test_jobs_with_other_rights_do_not_meet(sh: Run, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path.resolve() / "other"
    other.mkdir()
    writable, readable = JobPath(str(workspace), is_writable=True), JobPath(str(workspace))
    for _ in range(3):
        assert sh("touch made", places=(writable,)).is_success
        assert not sh("touch made2", places=(readable,)).is_success
        assert sh(f"touch {other}/x", places=(writable, JobPath(str(other), is_writable=True))).is_success
        assert not sh(f"touch {other}/y", places=(writable,)).is_success
        assert not sh(f"touch {other}/y", places=(writable, JobPath(str(other)))).is_success
    assert (os.listdir(workspace), os.listdir(other)) == (["made"], ["x"])


def test_a_variable_is_for_one_job_only(sh: Run) -> None:
    assert sh("echo $SECRET", env={"SECRET": "s3cret"}).stdout == "s3cret\n"
    outcome = sh('echo "[$SECRET]"; cat /proc/*/environ /proc/*/cmdline; find /tmp /dev/shm -type f -exec cat {} +')
    assert outcome.stdout.startswith("[]\n")
    assert "s3cret" not in outcome.stdout


def test_a_sandbox_that_died_in_the_meantime_is_replaced(run: Run, launchers: Callable[[], list[int]]) -> None:
    for at in range(5):
        assert run("echo", str(at)).stdout == f"{at}\n"
        for launcher in launchers():
            for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
                # One that is on its way out already may be gone by now, and counts as dead.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
    assert run("cat", stdin=b"in").stdout == "in"
