"""Hints and explanations as people at a terminal, and models, read them: each in words that they can act on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.guard import Policy
from metier.testing import library, skill

pytestmark = pytest.mark.covers("ACC-13")
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def denying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy file of the user's that denies scripts."""
    home = tmp_path / "owner"
    (home / ".metier").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    file = home / ".metier" / "policy.yaml"
    file.write_text("version: 1\nrun:\n  scripts: deny\n  unsandboxed: deny\n")
    return file


def test_an_explanation_of_a_command_agrees_with_what_happens_and_names_the_line(metier: Call, denying: Path) -> None:
    _, out, _ = metier("policy", "explain", "--command", "ls")
    assert out.startswith("deny"), out
    assert "run.scripts: deny" in out and f"{denying}:3" in "".join(out.split()), out
    assert metier("explain", "--rules", "Bash", "--command", "ls")[1].startswith("deny")


def test_the_owner_of_a_policy_file_is_sent_to_its_line_and_to_no_administrator(metier: Call, denying: Path) -> None:
    code, _, err = metier("run", "csv-analyst", "peek_csv.py")
    said = " ".join(err.split())
    assert code != 0 and "Change `run.scripts` in line 3" in said, err
    assert "administrator" not in said and "scripts='allow'" not in said
    denying.write_text("version: 1\nrun:\n  unsandboxed: deny\n")
    _, _, err = metier("run", "--runner", "plain", "csv-analyst", "peek_csv.py")
    assert "--runner plain" not in err, "what was tried is no way on"


def test_a_question_that_nobody_can_be_asked_sends_nobody_to_a_list_of_requests(metier: Call, denying: Path) -> None:
    denying.write_text("version: 1\nrun:\n  scripts: ask\n")
    code, _, err = metier("run", "csv-analyst", "peek_csv.py")
    assert (code, "approve list" in err) == (4, False)
    assert "at a terminal, where you are asked each time" in " ".join(err.split())


def test_a_workspace_that_nothing_can_grant_is_told_of_no_grant(metier: Call, tmp_path: Path) -> None:
    _, _, err = metier("run", "--workspace", "/", "csv-analyst", "peek_csv.py")
    assert "/:rw" not in err, err


@pytest.mark.each("dialect", ["runtime", "tool", "registry", "sandbox"])
def test_no_model_is_told_of_commands_or_of_python(dialect: Any, tmp_path: Path) -> None:
    reports = library(skill("reports", files={"scripts/total.py": "print(42)\n"}))
    session = reports.session(policy=Policy(scripts="deny", unsandboxed="allow"), workspace=tmp_path)
    executor = session.executor(dialect=dialect, builtin=["Bash"])
    load = {"runtime": "skills_load", "tool": "skill", "registry": "read_skill", "sandbox": "get_skill"}[dialect]
    name = {"runtime": "skills", "tool": "skill_name", "registry": "skill_id", "sandbox": "skill_name"}[dialect]
    unknown = executor.execute_blocking(load, {name: ["zzz"] if name == "skills" else "zzz"})
    refused = executor.execute_blocking("Bash", {"command": "ls"})
    for result in (unknown, refused):
        assert not result.success
        assert "metier" not in f"{result.error} {result.hint}" and "='" not in f"{result.error} {result.hint}"
