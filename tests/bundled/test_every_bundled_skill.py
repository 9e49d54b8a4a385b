"""What holds for each skill that the package carries."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.bundled import in_process

from metier import Library

BUNDLED = Path(__file__).parents[2] / "src/metier/bundled"
SKILLS = sorted(path.parent for path in BUNDLED.glob("*/SKILL.md"))
SCRIPTS = sorted(BUNDLED.glob("*/scripts/*.py"))
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
MENTIONED = re.compile(r"\b(?:scripts|references|assets)/[\w.-]+\.\w+")

each_skill = pytest.mark.each("skill", SKILLS)
each_script = pytest.mark.each("script", SCRIPTS)


def frontmatter(skill: Path) -> dict[str, str]:
    """Read the top-level fields; the bundled skills write each on one line."""
    _, block, _ = re.split(r"^---$", (skill / "SKILL.md").read_text("utf-8"), maxsplit=2, flags=re.M)
    found = re.findall(r"^([\w-]+):[ ]?(.*)$", block, flags=re.M)
    return dict(found)


def test_five_skills_are_bundled() -> None:
    assert [skill.name for skill in SKILLS] == [
        "csv-analyst",
        "log-triage",
        "release-notes",
        "secret-check",
        "skill-writer",
    ]


def test_nothing_else_is_taken_for_a_skill() -> None:
    assert len(SKILLS) == len([p for p in BUNDLED.rglob("*") if p.name.lower() == "skill.md"])


@each_skill
def test_the_frontmatter_uses_only_fields_of_the_specification(skill: Path) -> None:
    assert set(frontmatter(skill)) <= FIELDS


@each_skill
def test_nothing_is_to_be_said_about_it(skill: Path) -> None:
    entry = Library.from_folder(skill).get(skill.name)
    assert entry.diagnostics == ()
    assert len(entry.skill.tags) == 4


@each_skill
def test_the_name_is_the_folder(skill: Path) -> None:
    assert frontmatter(skill)["name"] == skill.name


@each_skill
def test_the_description_says_when_to_use_it_and_is_short(skill: Path) -> None:
    description = frontmatter(skill)["description"]
    assert "Use " in description
    assert len(description) < 500
    assert not set("<>") & set(description)


@each_skill
def test_the_licence_is_apache(skill: Path) -> None:
    assert frontmatter(skill)["license"] == "Apache-2.0"


@each_skill
def test_the_body_is_under_150_lines(skill: Path) -> None:
    assert len((skill / "SKILL.md").read_text("utf-8").splitlines()) < 150


@each_skill
def test_every_path_mentioned_exists(skill: Path) -> None:
    texts = [path.read_text("utf-8") for path in skill.rglob("*.md")]
    mentioned = {path for text in texts for path in MENTIONED.findall(text)}
    assert [path for path in sorted(mentioned) if not (skill / path).is_file()] == []


@each_skill
def test_every_file_is_mentioned_in_the_skill(skill: Path) -> None:
    body = (skill / "SKILL.md").read_text("utf-8")
    files = [p.relative_to(skill).as_posix() for p in skill.rglob("*") if p.is_file()]
    # Its tests are for whoever changes it.
    files = [name for name in files if name != "SKILL.md" and not name.startswith("evals/")]
    assert [name for name in files if name not in body] == []


@functools.cache
def helped(script: Path) -> subprocess.CompletedProcess[str]:
    """What a script says of itself to somebody whose Python keeps what it compiles; it is asked once for all tests.

    It is asked in isolated mode and from another folder, where it must work as well; that ignores variables, too.
    """
    command: list[str | Path] = [sys.executable, "-I", script, "--help"]
    return subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir())


@each_script
def test_help_shows_an_example_and_the_exit_codes_also_in_isolated_mode_from_another_folder(script: Path) -> None:
    done = helped(script)
    assert done.returncode == 0
    assert "example: python3 scripts/" in done.stdout
    assert "exit codes: 0" in done.stdout


@each_script
def test_wrong_usage_exits_with_2_and_without_a_traceback(script: Path) -> None:
    done = in_process.run(script, "--nope")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@each_script
def test_a_script_leaves_no_compiled_files_in_the_skill(script: Path) -> None:
    assert helped(script).returncode == 0
    assert not list(script.parent.rglob("__pycache__"))


@each_script
def test_a_script_imports_only_the_standard_library_and_its_neighbours(script: Path) -> None:
    tree = ast.parse(script.read_text("utf-8"))
    names = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    known = sys.stdlib_module_names | {path.stem for path in script.parent.glob("*.py")}
    assert {name.split(".")[0] for name in names} <= known


@each_script
def test_a_script_starts_with_its_interpreter_and_is_short(script: Path) -> None:
    lines = script.read_text("utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env python3"
    assert len(lines) < 350


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
@each_script
def test_a_script_is_executable(script: Path) -> None:
    assert os.access(script, os.X_OK)
