"""Running commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.run import Job, Limits, Outcome, PlainRunner, RunnerCapabilities
from metier.tools import Executor, ToolRegistry, ToolResult, Workspace, builtin_tools
from metier.tools.builtin.bash import bash_tool

Call = Callable[..., ToolResult]
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


class Recorder:
    """A runner that runs nothing and remembers what it was asked for."""

    name = "recorder"

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.jobs: list[Job] = []
        self.outcome = outcome or Outcome(exit_code=0, stdout="done\n", runner="recorder", duration_ms=3.0)
        self.cancelled = False

    def capabilities(self) -> RunnerCapabilities:
        return RunnerCapabilities()

    def run_blocking(self, job: Job, **_: Any) -> Outcome:
        self.jobs.append(job)
        return self.outcome

    async def run(self, job: Job, **_: Any) -> Outcome:
        if job.argv[-1] == "wait":
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled = True
        return self.run_blocking(job)


def through(runner: Recorder, root: Path, **arguments: Any) -> ToolResult:
    executor = Executor(ToolRegistry([bash_tool(Workspace(root), runner)]))
    return executor.execute_blocking("Bash", {"command": "true", **arguments})


def test_there_is_no_bash_without_a_runner(root: Path) -> None:
    assert "Bash" not in [tool.name for tool in builtin_tools(Workspace(root))]
    assert builtin_tools(Workspace(root), PlainRunner())[-1].name == "Bash"


@needs_bash
@pytest.mark.covers("O-93")
def test_a_command_gives_its_output_and_more(root: Path, call: Call) -> None:
    (root / "docs").mkdir()
    result = call("Bash", command="echo out; echo err >&2; pwd", cwd="docs")
    assert result.success
    assert result.result == f"out\n{root}/docs\nerr"
    assert result.data["output"] == result.result
    assert result.data["exit_code"] == 0
    assert result.data["command"] == "echo out; echo err >&2; pwd"
    assert result.data["cwd"] == f"{root}/docs"
    assert result.data["duration_ms"] > 0


@needs_bash
@pytest.mark.covers("O-93")
def test_a_command_that_fails_is_no_success_and_still_has_its_output(call: Call) -> None:
    result = call("Bash", command="echo partly; exit 1")
    assert (result.success, result.code, result.result) == (False, "command-failed", "partly")
    assert result.error is not None
    assert "failed with exit code 1" in result.error
    assert result.data["exit_code"] == 1


@needs_bash
@pytest.mark.covers("O-93")
def test_a_command_that_takes_too_long_is_ended(call: Call) -> None:
    result = call("Bash", command="echo early; sleep 60", timeout=0.3)
    assert (result.success, result.code) == (False, "timed-out")
    assert result.error is not None
    assert "timed out" in result.error
    assert result.data["exit_code"] == 124


@needs_bash
@pytest.mark.covers("O-93")
def test_output_beyond_the_limit_is_dropped_and_that_is_said(call: Call) -> None:
    result = call("Bash", command="head -c 400000 /dev/zero | tr '\\0' x")
    assert result.truncated
    assert "[Output truncated" in result.result
    assert len(result.result) < 300_000


@pytest.mark.covers("O-93")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"command": ""}, "cannot be empty"),
        ({"command": " \n\t"}, "cannot be empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "x" * 100_000}, "more than"),
        ({"cwd": "none"}, "does not exist"),
        ({"cwd": "a.txt/x"}, "does not exist"),
        ({"cwd": "a.txt"}, "not a directory"),
        ({"cwd": ".."}, "leaves the workspace"),
        ({"cwd": ""}, "cannot be empty"),
        ({"env": "A=1"}, "must be a dictionary"),
        ({"env": ["A=1"]}, "must be a dictionary"),
        ({"env": {"A": 1}}, "'env.A' must be text"),
        ({"env": {"LD_PRELOAD": "x"}}, "may not be set"),
        ({"env": {"ZIPOPT": "-TT sh"}}, "may not be set"),
        ({"timeout": 0}, "timeout is 0 seconds"),
        ({"timeout": 601}, "timeout is 601 seconds"),
        ({"timeout": "5"}, "'timeout' must be a number or null"),
    ],
)
def test_a_command_that_cannot_be_run_never_starts(root: Path, arguments: dict[str, Any], problem: str) -> None:
    (root / "a.txt").write_text("x")
    runner = Recorder()
    result = through(runner, root, **arguments)
    assert not result.success
    assert result.error is not None
    assert problem in result.error
    assert result.hint
    assert runner.jobs == []


def test_a_command_is_one_argument_of_bash_without_start_files(root: Path) -> None:
    runner = Recorder()
    through(runner, root, command="echo $HOME && rm x", env={"INPUT_LEVEL": "3"}, timeout=7)
    (job,) = runner.jobs
    assert job.argv == ("bash", "--noprofile", "--norc", "-c", "echo $HOME && rm x")
    assert job.folder == str(root)
    assert (job.env["INPUT_LEVEL"], job.env["HOME"]) == ("3", str(root))
    assert job.limits == Limits(seconds=7)


def test_a_command_that_ends_by_a_signal_is_no_success(root: Path) -> None:
    result = through(Recorder(Outcome(exit_code=137, killed_by="memory")), root)
    assert (result.success, result.code) == (False, "command-failed")
    assert result.data["killed_by"] == "memory"
    json.dumps(dict(result.data))


def test_a_call_that_is_ended_ends_the_command(root: Path) -> None:
    runner = Recorder()
    executor = Executor(ToolRegistry([bash_tool(Workspace(root), runner)]))
    result = executor.execute_blocking("Bash", {"command": "wait"}, timeout=0.01)
    assert result.code == "timed-out"
    assert runner.cancelled
