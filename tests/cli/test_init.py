"""`metier init`."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.identity import system_user
from metier.cli.project_detection import FRAMEWORKS
from metier.guard import Action, Guard

Call = Callable[..., tuple[int, str, str]]

PAGES = Path(__file__).parents[2] / "docs"
SETTINGS = '{\n  // mine\n  "theme": "dark",\n  "hooks": {"BeforeTool": []}\n}\n'


@pytest.fixture(autouse=True)
def empty_path(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to stand in, and a path without programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def tree(folder: Path) -> dict[str, str | None]:
    found = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_text(encoding="utf-8") for path in found
    }


def states(out: str) -> dict[tuple[str, str], str]:
    return {(step["client"], step["step"]): step["state"] for step in json.loads(out)["steps"]}


def test_without_a_terminal_the_plan_is_shown_and_nothing_is_written(metier: Call, project: Path) -> None:
    (project / ".claude").mkdir()
    before = tree(project)
    code, out, err = metier("init")
    assert (code, err) == (0, "")
    assert re.search(r"connect  Claude Code  planned  \./\.mcp\.json +metier mcp --install claude-code", out)
    assert "metier protect claude-code --project" in out and "metier sync --client claude-code" in out
    assert "Nothing was changed." in out
    assert metier("init", "--dry-run", "--yes")[1].count("\n+") > 10  # the differences
    assert tree(project) == before


def test_what_is_done_is_not_done_twice_and_the_commands_that_are_named_undo_it(metier: Call, project: Path) -> None:
    """Three clients: one with a file of servers beside its hooks, one with both in one file, one with a plugin."""
    for folder in (".claude", ".gemini", ".opencode"):
        (project / folder).mkdir()
    (project / ".gemini/settings.json").write_text(SETTINGS, encoding="utf-8")
    before = tree(project)
    code, out, _ = metier("init", "--yes")
    assert code == 0
    undo = [shlex.split(line)[1:] for line in out.partition("To undo it:\n")[2].splitlines()]
    assert [words[0] for words in undo] == ["mcp", "protect"] * 3
    after = tree(project)
    assert "metier" in str(after[".mcp.json"]) and "// mine" in str(after[".gemini/settings.json"])
    code, out, _ = metier("init", "--yes", "--json")
    kinds = {"connect": "already", "protect": "already", "sync": "skipped"}  # it would have each skill twice
    assert (code, states(out)) == (
        0,
        {(client, kind): kinds[kind] for client in ("claude-code", "gemini", "opencode") for kind in kinds},
    )
    assert tree(project) == after
    for words in undo:
        assert metier(*words)[0] == 0
    restored = tree(project)
    # Taking a server out of a file of the user's leaves the section that it was in, with no server in it.
    settings = str(restored.pop(".gemini/settings.json"))
    assert settings.startswith(SETTINGS.removesuffix("\n}\n")) and "metier" not in settings
    assert restored == {path: text for path, text in before.items() if path != ".gemini/settings.json"}


def test_only_what_somebody_agrees_to_is_written(
    metier: Call, project: Path, typed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[str] = []

    def answer(question: str) -> bool:
        questions.append(question)
        return question.startswith("Sync")

    monkeypatch.setattr("metier.cli.terminal.ask_yes", answer)
    (project / ".cursor").mkdir()
    code, out, _ = metier("init")
    assert code == 0
    assert questions == [
        "Connect Cursor, by writing ./.cursor/mcp.json?",
        "Protect Cursor, by writing ./.cursor/hooks.json?",
        "Sync Cursor, by writing ./.cursor/skills?",
    ]
    assert out.index('+    "preToolUse": [') < out.index("+ csv-analyst")
    assert sorted(path.name for path in (project / ".cursor").iterdir()) == ["skills"]
    assert out.splitlines()[-2:] == ["To undo it:", "  metier sync --client cursor --remove"]
    assert metier("sync", "--client", "cursor", "--remove")[0] == 0
    assert tree(project / ".cursor") == {}


def test_a_server_that_cannot_start_is_not_written(
    metier: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    (project / ".cursor").mkdir()
    code, out, _ = metier("init", "--yes", "--json", "--only", "connect,sync")
    assert (code, states(out)) == (0, {("cursor", "connect"): "skipped", ("cursor", "sync"): "done"})
    assert "connect Cursor: The server needs `pip install 'metier[mcp]'` to start." in metier("init")[1]


def test_one_step_is_asked_for_alone(metier: Call, project: Path) -> None:
    (project / ".gemini").mkdir()
    code, out, _ = metier("init", "--yes", "--json", "--only", "protect")
    assert (code, states(out)) == (0, {("gemini", "protect"): "done"})
    code, out, _ = metier("init", "--yes", "--json", "--only", "connect,sync")
    assert (code, states(out)) == (0, {("gemini", "connect"): "done", ("gemini", "sync"): "done"})
    code, _, err = metier("init", "--only", "conect")
    assert code == 2 and "'conect' is no step" in err


def test_a_client_that_is_protected_for_its_user_is_not_protected_again(metier: Call, own_home: Path) -> None:
    (own_home / ".codex").mkdir()
    assert metier("protect", "codex", "--user")[0] == 0  # nobody told Codex to trust it yet
    code, out, _ = metier("init", "--yes", "--json", "--only", "protect")
    assert (code, states(out)) == (0, {("codex", "protect"): "already"})


def test_a_client_is_found_in_the_project_at_home_and_on_the_path(
    metier: Call, project: Path, own_home: Path, empty_path: Path
) -> None:
    (project / "opencode.jsonc").write_text("{}", encoding="utf-8")
    (own_home / ".codex").mkdir()
    (project / ".github").mkdir()  # which says nothing
    (project / ".agents/skills").mkdir(parents=True)
    program = empty_path / ("gemini.exe" if os.name == "nt" else "gemini")
    program.write_text("", encoding="utf-8")
    program.chmod(0o755)
    found = {one["client"]: one["found_by"] for one in json.loads(metier("init", "--json")[1])["clients"]}
    assert found == {"codex": ["~/.codex"], "gemini": ["the program gemini"], "opencode": ["./opencode.jsonc"]}


def test_a_file_that_cannot_be_changed_is_named_and_the_other_steps_are_done(metier: Call, project: Path) -> None:
    (project / ".gemini").mkdir()
    (project / ".cursor").mkdir()
    (project / ".gemini/settings.json").write_text("{", encoding="utf-8")
    code, out, err = metier("init", "--yes", "--only", "connect")
    assert code == 1
    assert "warning: connect Gemini CLI: " in err and "left as it is" in err
    assert (project / ".gemini/settings.json").read_text(encoding="utf-8") == "{"
    assert (project / ".cursor/mcp.json").is_file() and "metier mcp --remove cursor" in out


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["Pydantic_AI-slim[openai]>=2", "openai"]', ["pydantic-ai"]),
        ("pyproject.toml", '[project.optional-dependencies]\na = ["langgraph"]', ["langchain"]),
        ("pyproject.toml", "[tool.poetry.group.x.dependencies]\nopenai-agents = '^1'", ["openai-agents"]),
        ("pyproject.toml", '[dependency-groups]\ndev = [{include-group = "x"}]\nx = ["anthropic"]', ["anthropic"]),
        ("pyproject.toml", "project = 3\ntool = [1]\ndependency-groups = 4", []),
        ("requirements-dev.txt", "# openai\n-r more.txt\nagent-framework-core==1.23 ; x\n", ["agent-framework"]),
        ("package.json", '{"dependencies": {"@openai/agents": "1"}, "devDependencies": 3}', ["javascript"]),
        ("src/app.py", "import os\n    from google import genai\n", ["google-genai"]),
        ("src/app.py", "import google.genai.types\nimport anthropic", ["anthropic", "google-genai"]),
        ("src/app.py", "from agents import planner  # a module of its own\n", []),
        (".venv/lib/app.py", "import openai\n", []),
    ],
)
def test_frameworks_are_found_by_requirements_and_imports(
    file: str, text: str, names: list[str], metier: Call, project: Path
) -> None:
    (project / file).parent.mkdir(parents=True, exist_ok=True)
    (project / file).write_text(text, encoding="utf-8")
    found = json.loads(metier("init", "--json")[1])
    assert [one["framework"] for one in found["frameworks"]] == names
    assert found["problems"] == [] and all(one["found_by"] == [file] for one in found["frameworks"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_files_of_a_hostile_project_are_told_of_and_stop_nothing(metier: Call, project: Path, tmp_path: Path) -> None:
    (project / "pyproject.toml").write_text("[" * 100_000, encoding="utf-8")
    (project / "package.json").write_text('{"a":' * 100_000, encoding="utf-8")
    os.mkfifo(project / "requirements.txt")
    os.mkfifo(project / "pipe.py")
    (tmp_path / "elsewhere.py").write_text("import openai\n", encoding="utf-8")
    (project / "link.py").symlink_to(tmp_path / "elsewhere.py")
    (project / "requirements-\x1b[2J.txt").write_text("openai\0", encoding="utf-8")
    code, out, err = metier("init")
    assert code == 0
    assert "pyproject.toml was not read" in err and "package.json was not read: it is no JSON" in err
    assert "\x1b" not in out + err and "OpenAI's client" in out and "link.py" not in out


def test_the_lines_for_a_framework_are_those_of_its_page(metier: Call, project: Path) -> None:
    page = (PAGES / "how-to/frameworks.md").read_text(encoding="utf-8").replace('Skills("skills")', "Skills()")
    for one in FRAMEWORKS:
        if one.is_client:
            assert all(call in page for call in re.findall(r"chat\.\w+(?:\(\w+\))?", one.lines[2]))
        elif one.module:
            assert all(line in page for line in one.lines), one.name
            assert f"`metier[{one.extra}]`" in page
    (project / "requirements.txt").write_text("langchain\n", encoding="utf-8")
    out = metier("init")[1]
    assert "`pip install 'metier[langchain]'`, then add these lines" in out
    assert "\n    create_agent(model, tools, middleware=[Skills()])\n" in out


def test_where_nothing_is_found_the_next_step_is_named(metier: Call) -> None:
    code, out, _ = metier("init")
    assert code == 0
    assert "Neither a client nor a framework was found here. `metier mcp --install CLIENT`" in out


def test_the_home_folder_is_no_project(metier: Call, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_home)
    code, _, err = metier("init", "--yes")
    assert code == 2 and "home folder, and no project" in err


def test_it_is_for_people(metier: Call, project: Path, typed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    decision = Guard().decide(Action(point="call", tool="Bash", arguments={"command": "metier init --yes"}))
    assert decision.outcome == "deny" and "metier init" in decision.rule
    (project / ".claude").mkdir()
    assert metier("user", "add", system_user(), "--role", "admin")[0] == 0
    monkeypatch.setattr("metier.cli.identity.is_at_terminal", lambda: False)
    code, _, err = metier("init", "--yes")
    assert code and "This is for people to decide" in err
    assert tree(project / ".claude") == {} and not (project / ".mcp.json").exists()


def test_the_reference_names_each_key(metier: Call, project: Path) -> None:
    (project / ".claude").mkdir()
    (project / "requirements.txt").write_text("langchain\n", encoding="utf-8")
    section = (PAGES / "reference/json.md").read_text(encoding="utf-8").partition("## `metier init --json`")[2]
    example: dict[str, Any] = json.loads(section.partition("```json\n")[2].partition("```")[0])
    found = json.loads(metier("init", "--json")[1])
    assert example.keys() == found.keys()
    for key in ("clients", "frameworks", "steps"):
        assert example[key][0].keys() == found[key][0].keys()
