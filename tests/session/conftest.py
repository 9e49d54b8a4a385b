"""Sessions to try things on: skills in memory, or in a folder, and a log of all that was decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Library, Policy, Session
from metier.guard import MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    """Where the records of a test go."""
    return MemoryLog()


@pytest.fixture
def skill() -> Callable[..., dict[str, str]]:
    """The files of a skill: its name, its body, what else its frontmatter says, and other files."""

    def files(name: str, body: str = "Do it.", more: str = "", **others: str) -> dict[str, str]:
        return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}"} | others

    return files


@pytest.fixture
def begin(log: MemoryLog, tmp_path: Path) -> Callable[..., Session]:
    """Begins a session with skills in memory."""

    def session(*skills: dict[str, str], policy: Policy | None = None, approve: Any = None, **options: Any) -> Session:
        guard = Guard(policy, audit=log, approve=approve)
        return Library.from_files(*skills).session(guard=guard, workspace=tmp_path / "workspace", **options)

    return session


@pytest.fixture
def begin_in(log: MemoryLog, tmp_path: Path) -> Callable[..., Session]:
    """Begins a session with the skills of a folder."""

    def session(folder: Path, *, policy: Policy | None = None, approve: Any = None, **options: Any) -> Session:
        guard = Guard(policy, audit=log, approve=approve)
        return Library.from_folder(folder).session(guard=guard, workspace=tmp_path / "workspace", **options)

    return session


@pytest.fixture(autouse=True)
def nobody_else_writes(quiet_files: None) -> None:
    """The files of a test are its own."""
