"""Skills on disk, and sessions over them that record what happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Library, Session
from metier.dialect import DialectName
from metier.guard import Guard, MemoryLog, Policy
from metier.run import PlainRunner
from metier.tools import ToolResult

ECHO = """\
import os, sys
print("arguments:", *sys.argv[1:])
print("variable:", os.environ.get("INPUT_GIVEN"))
print("folder:", os.path.basename(os.getcwd()))
"""


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    """Three skills: one with files, one that builds on it, one that only people may use."""
    folder = tmp_path / "skills"
    write_skill(folder / "forms", description="Fills forms.", body="Fill: $ARGUMENTS", more="tags: [pdf, Office]\n")
    for path, text in {
        "scripts/echo.py": ECHO,
        "scripts/fail.py": "import sys\nsys.exit('no such form')\n",
        "templates/t.yaml": "a: 1\nb: 2\nc: 3\nd: 4\n",
        "assets/logo.bin": "\0\1\2",
    }.items():
        file = folder / "forms" / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    write_skill(folder / "letters", description="Writes letters.", body="Write.", more="requires: [forms]\n")
    write_skill(folder / "deploy", description="Deploys.", body="Deploy.", more="disable-model-invocation: true\n")
    return folder


@pytest.fixture
def log() -> MemoryLog:
    """What was recorded."""
    return MemoryLog()


@pytest.fixture
def begin(tmp_path: Path, skills: Path, log: MemoryLog) -> Callable[..., Session]:
    """Begins a session with the skills on disk, in which scripts may run."""

    (tmp_path / "work").mkdir()

    def begin(policy: Policy | None = None, **options: Any) -> Session:
        guard = Guard(policy or Policy(unsandboxed="allow"), audit=log)
        library = Library.from_folder(skills, cache=False)
        return library.session(guard=guard, runner=PlainRunner(), workspace=tmp_path / "work", **options)

    return begin


@pytest.fixture
def session(begin: Callable[..., Session]) -> Session:
    """A session with nothing loaded."""
    return begin()


@pytest.fixture
def call(session: Session) -> Callable[..., ToolResult]:
    """Calls a tool by name, of whichever dialect has it."""
    dialects: tuple[DialectName, ...] = ("registry", "tool", "runtime", "sandbox")
    executors = [session.executor(dialect=dialect) for dialect in dialects]

    def call(name: str, **arguments: Any) -> ToolResult:
        executor = next(executor for executor in executors if name in executor.registry)
        return executor.execute_blocking(name, arguments)

    return call


@pytest.fixture
def asking() -> Callable[..., tuple[str, dict[str, Any]]]:
    """The call by which a model loads a skill in a dialect."""

    def asking(dialect: str, name: str, args: str = "") -> tuple[str, dict[str, Any]]:
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "registry": ("read_skill", {"skill_id": name}),
            "tool": ("skill", {"skill_name": name}),
            "runtime": ("skills_load", {"skills": [name], "mode": "add"}),
            "sandbox": ("get_skill", {"skill_name": name}),
        }
        tool, arguments = calls[dialect]
        return tool, {**arguments, **({"args": args} if args else {})}

    return asking


@pytest.fixture(autouse=True)
def nobody_else_writes(quiet_files: None) -> None:
    """The files of a test are its own."""
