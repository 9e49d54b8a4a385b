"""Sandboxes of each kind that can be made here, and ways to see from outside what a job left."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.run import Job, Limits, NativeRunner, Outcome

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to other systems only what is worked out beforehand."""
    if sys.platform != "linux":
        for item in items:
            if HERE in item.path.parents and item.path.name != "test_seccomp.py":
                item.add_marker(pytest.mark.skip(reason="sandboxes are made by Linux"))


# Root has no use for bubblewrap: it makes no user of its own for a job.
TIERS = (
    ["namespaces", "landlock"]
    if not hasattr(os, "geteuid") or os.geteuid() == 0
    else ["namespaces", "landlock", "bubblewrap"]
)


in_one_sandbox = pytest.mark.parametrize(
    "tier", [TIERS[0], *(pytest.param(other, marks=pytest.mark.slow) for other in TIERS[1:])], indirect=True
)
"""For a test of what all sandboxes have in common: in the others it is slow."""


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    """Each way to make a sandbox."""
    from metier.run.native.runner import why_not, works

    if not works(request.param):
        pytest.skip(why_not())
    return str(request.param)


@pytest.fixture
def runner(tier: str) -> NativeRunner:
    """A runner of each kind."""
    return NativeRunner(tier=tier)  # type: ignore[arg-type]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The working folder of jobs."""
    folder = tmp_path.resolve() / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def run(runner: NativeRunner, workspace: Path) -> Callable[..., Outcome]:
    """Runs a program in the workspace; limits and what else a job has by their names."""

    def go(*argv: Any, should_stop: Any = None, on_output: Any = None, **more: Any) -> Outcome:
        limits = {key: more.pop(key) for key in list(more) if key in Limits.__dataclass_fields__}
        job = Job(argv=argv, folder=str(more.pop("folder", workspace)), limits=Limits(**limits), **more)
        return runner.run_blocking(job, should_stop=should_stop, on_output=on_output)

    return go


@pytest.fixture
def sh(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Runs a script for a shell."""

    def go(script: str, *arguments: str, **more: Any) -> Outcome:
        return run("bash", "-c", script, "bash", *arguments, **more)

    return go


@pytest.fixture
def python(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Runs a program of Python, without packages."""

    def go(program: str, *arguments: str, **more: Any) -> Outcome:
        return run(sys.executable, "-S", "-c", program, *arguments, **more)

    return go


@pytest.fixture
def alive() -> Callable[[str], list[str]]:
    """Tells which processes of this machine have a word among their arguments."""

    def look(mark: str) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                        state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                        if state not in "ZX":
                            found.append(entry.name)
        return found

    return look


@pytest.fixture
def mark(alive: Callable[[str], list[str]]) -> Iterator[str]:
    """A word that no other process has among its arguments; whoever still has it at the end is ended."""
    word = f"mark-{secrets.token_hex(12)}"
    yield word
    for pid in alive(word):
        with contextlib.suppress(OSError):
            os.kill(int(pid), 9)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], bool]:
    """Waits for something that happens elsewhere, up to a bound that no healthy machine reaches."""

    def wait(condition: Callable[[], object], seconds: float = 20.0) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.02)
        return False

    return wait


@pytest.fixture
def launchers() -> Callable[[], list[int]]:
    """The launchers that this process has started and that live."""

    def look(of: int = 0) -> list[int]:
        found = []
        for thread in Path(f"/proc/{of or os.getpid()}/task").iterdir():
            for pid in map(int, (thread / "children").read_text().split()):
                with contextlib.suppress(OSError):
                    if b"metier.run.native.launcher_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
        return found

    return look


@pytest.fixture
def own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program of Python that runs jobs itself."""
    started: list[subprocess.Popen[str]] = []
    begin = "import os, signal, sys, threading\nfrom metier.run import Job, Limits, NativeRunner, JobPath\n"

    def start(program: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", begin + program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **more,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
