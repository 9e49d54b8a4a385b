"""Calls with many texts: each could be a path, and all are judged by one look at the workspace."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard
from metier.guard import Action, Decision, MemoryLog
from metier.guard.files.file_check import FileTargets, file_targets
from metier.skill.tool_rules import _ALIASES, canonical_tool

MANY = [f"some tag {number}" for number in range(200)]


def decided(workspace: Path, tool: str, **arguments: Any) -> Decision:
    action = Action(point="call", tool=tool, arguments=arguments, workspace=str(workspace))
    return Guard(audit=MemoryLog()).decide(action)


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A workspace in which a name without meaning leads where an editor looks for its settings."""
    (tmp_path / "vs").mkdir()
    for name in (".vscode", "hidden"):
        (tmp_path / name).symlink_to("vs")
    return tmp_path


def test_a_workspace_is_looked_through_once_however_many_texts_a_call_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    looks: list[object] = []
    stat = os.stat

    def counting(path: Any, **options: Any) -> os.stat_result:
        looks.append(path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", counting)
    assert decided(tmp_path, "save_note", path="notes.md", tags=MANY).is_allowed
    assert looks.count(str(tmp_path / "elsewhere")) <= 1


@pytest.mark.covers("SEC-1")
@pytest.mark.each(
    "arguments",
    [
        {"tags": [*MANY, "hidden/x"]},
        {"tags": ["hidden/x", *MANY]},
        {"path": ".envrc", "tags": ["x"] * 20_000},
        {"tags": ["x"] * 20_000, "path": ".envrc"},
        {"tags": [[{}]] * 20_000, "path": ".envrc"},
        {**{f"a{number}_dir": f"d{number}" for number in range(200)}, "tags": MANY, "file": "hidden/x"},
        {"dir": "%2econfig", "path": "git/config"},
        {"folder": "%2Egit", "name": "config"},
        {"path": "%2eenvrc"},
    ],
)
def test_no_text_is_overlooked_for_the_others(linked: Path, arguments: dict[str, Any]) -> None:
    decision = decided(linked, "save_note", **arguments)
    assert (decision.outcome, decision.code) == ("deny", "protected-place")


def test_a_call_with_many_texts_does_not_hold_up_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    guard, decide = Guard(audit=MemoryLog()), Guard.decide

    def noting(self: Guard, *args: Any) -> Decision:
        threads.append(threading.get_ident())
        return decide(self, *args)

    monkeypatch.setattr(Guard, "decide", noting)
    for arguments in ({"tags": MANY}, {"tags": str(MANY).replace("'", '"')}, {"path": "notes.md"}):
        action = Action(point="call", tool="save_note", arguments=arguments, workspace=str(tmp_path))
        anyio.run(guard.enter_async, action)
    assert [thread == threading.get_ident() for thread in threads] == [False, False, True]


def test_numbers_are_no_paths_however_many(tmp_path: Path) -> None:
    assert decided(tmp_path, "save_numbers", numbers=[0.5] * 50_000, name="x").is_allowed


def test_a_shell_that_is_given_a_command_alone_names_no_file_by_its_arguments() -> None:
    # `Guard` does not look for files in such a call: rules about shells read its command.
    names = [name for name in (*_ALIASES, "Bash", "BASH") if canonical_tool(name) == "bash"]
    assert len(names) > 10
    for name in names:
        for command in (".envrc", "cat .ssh/id", '{"path": ".git/config"}', "--- a/x\n+++ b/.git/config\n"):
            assert Action(point="call", tool=name, arguments={"command": command}).shell_command == command
            assert file_targets(name, {"command": command}) == FileTargets()
