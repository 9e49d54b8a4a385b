"""`metier agents` looks at each agent, and what it needs to work is asked for in words a person can follow."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import thinned

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def declare(write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes an agent of the user's own; skills are `tables`, and `hello`, which is a message."""
    write_skill(tmp_path / "skills" / "tables")
    write_skill(tmp_path / "skills" / "hello", more="insert: user-message\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def write(text: str, *, file: str = "agent.yaml", prompt: str = "") -> Path:
        folder = Path(os.environ["HOME"]) / ".metier" / "agents" / "clerk"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
        if prompt:
            (folder / "prompt.jinja2").write_text(prompt)
        return tmp_path / "skills"

    return write


@pytest.mark.each(
    ("text", "prompt", "said"),
    [
        ("uses_skills: [tabels]", "", "Agent 'clerk' uses skill 'tabels', which was not found."),
        ("uses_skills: [hello]", "", "Agent 'clerk' uses skill 'hello', which is a message of the user's"),
        ("description: Does it.", "Dear {{ name }}", "prompt.jinja2, line 1: 'name' is undefined"),
        ("description: Does it.", "{% if %}", "prompt.jinja2, line 1"),
    ],
)
def test_an_agent_that_cannot_run_is_named_before_it_is_asked(
    metier: Call, declare: Callable[..., Path], text: str, prompt: str, said: str
) -> None:
    skills = declare(text, prompt=prompt)
    code, out, err = metier("agents", "--skills", skills)
    assert (code, err) == (1, "")
    assert said in out
    assert "\n  → " in out
    code, out, _ = metier("agents", "--skills", skills, "--json")
    assert code == 1
    problems = {one["id"]: one["problem"] for one in json.loads(out)["agents"]}
    assert said in problems.pop("clerk")["message"]
    assert set(problems.values()) == {None}


def test_a_tool_that_only_a_program_has_is_a_word_and_no_fault(metier: Call, declare: Callable[..., Path]) -> None:
    code, out, _ = metier("agents", "--skills", declare("uses_tools: [Read, Gerp]"))
    assert code == 0
    assert "! Agent 'clerk' uses tool 'Gerp', which is not here. Did you mean 'Grep'?" in out
    assert "tools=[...]" in out


def test_a_file_with_another_ending_is_noticed(metier: Call, declare: Callable[..., Path]) -> None:
    code, out, _ = metier("agents", "--skills", declare("description: Does it.", file="agent.yml"))
    assert code == 1
    assert "agent.yml is not read: the file of an agent is called agent.yaml." in out


def test_two_of_one_id_are_both_named(metier: Call, declare: Callable[..., Path]) -> None:
    skills = declare("id: same")
    other = Path(os.environ["HOME"]) / ".metier" / "agents" / "other"
    other.mkdir()
    (other / "agent.yaml").write_text("id: same")
    code, out, _ = metier("agents", "--skills", skills)
    assert code == 1
    assert f"✗ The agent in {other} is not used: the one in {other.parent / 'clerk'} has the id 'same' too." in out
    (failure,) = json.loads(metier("agents", "--skills", skills, "--json")[1])["failures"]
    assert (failure["id"], failure["folder"]) == ("same", str(other))


def test_all_is_well_with_an_agent_that_has_what_it_needs(metier: Call, declare: Callable[..., Path]) -> None:
    text = "uses_skills: [tables]\nuses_tools: [Read, write_skill, reviewer, agents]"
    skills = declare(text, prompt="{{ agent.name }} works for {{ user }} in {{ workspace }} on {{ date }}.")
    assert metier("agents", "--skills", skills)[0] == 0


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_a_workspace_that_is_not_there_is_not_made(metier: Call, declare: Callable[..., Path], command: str) -> None:
    task = ["Hello"] if command == "ask" else []
    code, out, err = metier(command, *task, "--model", "test", "--skills", declare(""), "--workspace", "nowhere")
    assert (code, out) == (2, "")
    assert "There is no folder nowhere." in err
    assert not Path("nowhere").exists()


@thinned("is_there", [True, False], one_in=2)
def test_an_engine_that_is_missing_or_too_old_is_named_with_the_version_that_is_needed(
    tmp_path: Path, is_there: bool
) -> None:
    """A package that has little of what is needed stands before the real one."""
    (tmp_path / "pydantic_ai").mkdir()
    (tmp_path / "pydantic_ai" / "__init__.py").write_text("" if is_there else "raise ImportError('nothing')")
    if is_there:
        (tmp_path / "pydantic_ai_slim-1.2.3.dist-info").mkdir()
        (tmp_path / "pydantic_ai_slim-1.2.3.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: pydantic-ai-slim\nVersion: 1.2.3\n"
        )
    done = subprocess.run(
        [sys.executable, "-m", "metier", "ask", "Hello", "--model", "test"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "[part-missing]" in done.stderr
    version = "1.2.3" if is_there else importlib.metadata.version("pydantic-ai-slim")
    assert f"pydantic-ai-slim {version} is installed" in done.stderr
    assert "pydantic-ai-slim>=2" in done.stderr
    assert "hint: pip install 'metier[agent]'" in done.stderr
