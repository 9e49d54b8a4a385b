"""Hints: worded for a program, for a person at a terminal, and for a model by the tools that it has."""

from __future__ import annotations

import ast
import pickle
import re
import traceback
from pathlib import Path

import pytest
from tests.syntax import modules_outside, nodes

import metier
from metier import Library
from metier.dialect import DialectName
from metier.errors import MetierError, SkillNotActive, SkillNotFound
from metier.guard import MemoryLog, Policy
from metier.hints import Hint, find_skill, for_model, for_people, for_person, install, joined, load_skill, run_script
from metier.testing import library, skill

pytestmark = pytest.mark.covers("ACC-13")


@pytest.fixture
def reports() -> Library:
    """A skill with a script and a file."""
    return library(skill("reports", files={"scripts/total.py": "print(42)\n", "references/a.md": "A.\n"}))


@pytest.mark.each(
    ("dialect", "tool", "arguments", "hint"),
    [
        ("runtime", "skills_load", {"skills": ["zzz"]}, "Find one that fits with skills_search."),
        ("tool", "skill", {"skill_name": "zzz"}, "Find one that fits with skill action=search."),
        ("registry", "read_skill", {"skill_id": "zzz"}, "Find one that fits with list_skills."),
        ("runtime", "skills_read", {"path": "a.md", "skill": "reports"}, "Get 'reports' first with skills_load."),
        (
            "registry",
            "read_skill_resource",
            {"path": "a.md", "skill_id": "reports"},
            "Get 'reports' first with read_skill.",
        ),
        (
            "tool",
            "skill",
            {"action": "read", "args": "a.md", "skill_name": "reports"},
            "Get 'reports' first with skill.",
        ),
    ],
)
def test_a_model_is_told_of_the_tools_of_its_dialect(
    reports: Library, dialect: DialectName, tool: str, arguments: dict[str, object], hint: str
) -> None:
    executor = reports.session().executor(dialect=dialect)
    assert executor.execute_blocking(tool, arguments).hint == hint


@pytest.mark.parametrize(
    ("dialect", "load", "read", "hint"),
    [
        (
            "runtime",
            ("skills_load", {"skills": ["reports"]}),
            ("skills_read", {"path": "scripts/total.py"}),
            "Run it with skills_run: skill 'reports', script 'scripts/total.py'.",
        ),
        (
            "registry",
            ("read_skill", {"skill_id": "reports"}),
            ("read_skill_resource", {"skill_id": "reports", "path": "scripts/total.py"}),
            "Ask the user to run scripts/total.py.",
        ),
    ],
)
def test_a_script_that_is_read_is_run_by_the_way_that_the_dialect_has(
    reports: Library,
    dialect: DialectName,
    load: tuple[str, dict[str, object]],
    read: tuple[str, dict[str, object]],
    hint: str,
) -> None:
    executor = reports.session().executor(dialect=dialect)
    assert executor.execute_blocking(*load).success
    assert executor.execute_blocking(*read).hint == hint


def test_a_built_in_tool_is_named_only_where_the_agent_has_it(reports: Library, tmp_path: Path) -> None:
    for builtin, hint in ((["Read"], "List the files that exist."), (["Read", "Glob"], "Glob lists the files that ex")):
        executor = reports.session(workspace=tmp_path).executor(builtin=builtin)
        assert (executor.execute_blocking("Read", {"file_path": "none"}).hint or "").startswith(hint)


def test_a_program_reads_python_and_a_person_a_command(reports: Library) -> None:
    with pytest.raises(SkillNotFound) as caught:
        reports.get("zzz")
    assert caught.value.hint == "library.entries() has all 1."
    assert "hint: library.entries() has all 1." in "".join(traceback.format_exception(caught.value))
    assert for_person(caught.value.hint) == "`metier list` shows all 1."
    with pytest.raises(SkillNotActive) as idle:
        reports.session().read("a.md", "reports")
    assert idle.value.hint == "Call session.load('reports') first."
    assert for_person(idle.value.hint) == "Load reports first."


def test_a_program_is_told_which_policy_would_allow_it(reports: Library, tmp_path: Path) -> None:
    session = reports.session(policy=Policy(scripts="deny"), workspace=tmp_path, skills=["reports"])
    with pytest.raises(MetierError) as caught:
        session.run_blocking("scripts/total.py")
    assert caught.value.hint == "Policy(scripts='allow') would allow it."
    assert for_person(caught.value.hint) == "In a policy file, `run: {scripts: allow}` would allow it."
    assert for_model(caught.value.hint, {}) == "Do the task without it, or ask the user."


def test_what_comes_from_elsewhere_is_never_read_as_a_template() -> None:
    for value in ("{load}", "{0}", "{name.__class__}", "{", "}}", "`metier trust`"):
        hint = joined(load_skill(value), value, run_script(value, value), for_people("See {one}.", one=value))
        for text in (str(hint), for_person(hint), for_model(hint, {"load": "get_skill"})):
            assert value in text


def test_an_error_keeps_its_hint_between_processes() -> None:
    error = SkillNotFound("There is none.", hint=find_skill(3))
    again = pickle.loads(pickle.dumps(error))
    assert (again.hint, for_person(again.hint)) == (error.hint, "`metier list` shows all 3.")
    assert for_model(again.hint, {"search": "list_skills"}) == "Find one that fits with list_skills."


def test_the_first_text_for_models_that_names_no_absent_tool_is_taken() -> None:
    hint = Hint("p", model=("With {execute}.", "With {run}.", "Without."))
    assert [for_model(hint, tools) for tools in ({"execute": "x", "run": "y"}, {"run": "y"}, {})] == [
        "With x.",
        "With y.",
        "Without.",
    ]


def test_a_session_under_a_policy_that_denies_scripts_has_bash_and_refuses_it_with_a_record(tmp_path: Path) -> None:
    log = MemoryLog()
    session = library("greet").session(
        guard=metier.Guard(Policy(scripts="deny", unsandboxed="allow"), audit=log), workspace=tmp_path
    )
    result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": "ls"})
    assert (result.success, result.code) == (False, "scripts-denied")
    assert [(one.event, one.decision) for one in log.records if one.event == "run"] == [("run", "deny")]


COMMAND = r"`metier |pip install"


def test_no_hint_outside_of_the_command_is_a_plain_text_with_a_command_in_it() -> None:
    wrong = []
    for file in modules_outside("cli", "bundled"):
        has_command = re.search(COMMAND, file.read_text("utf-8"))
        for node in (one for one in nodes(file) if isinstance(one, ast.Call)) if has_command else ():
            for keyword in node.keywords:
                if keyword.arg == "hint" and isinstance(keyword.value, ast.Constant | ast.JoinedStr):
                    text = ast.unparse(keyword.value)
                    wrong += [f"{file.name}:{node.lineno}: {text}"] if re.search(COMMAND, text) else []
    assert wrong == []


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/usr", "pip install 'metier[mcp]'"),
        ("/home/ada/.local/share/pipx/venvs/metier", "pipx install --force 'metier[mcp]'"),
        ("/home/ada/.local/share/uv/tools/metier", "uv tool install 'metier[mcp]'"),
    ],
)
def test_a_part_is_installed_where_the_program_is(monkeypatch: pytest.MonkeyPatch, prefix: str, command: str) -> None:
    monkeypatch.setattr("sys.prefix", prefix)
    assert for_person(install("metier[mcp]")) == command
