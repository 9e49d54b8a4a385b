"""`metier test`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.proof.report import TIERS
from metier.testing import library, skill

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def skills(project: Path) -> Path:
    folder = project / "skills"
    library(skill("good"), skill("broken", "See references/api.md."), into=folder)
    return folder


def test_the_json_has_each_tier_of_each_skill(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "test", "good", "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["skills"]
    assert found["name"] == "good"
    assert [tier["tier"] for tier in found["tiers"]] == list(TIERS)
    assert {tier["verdict"] for tier in found["tiers"]} <= {"passed", "failed", "skipped"}


def test_a_failure_is_shown_with_its_advice_and_ends_with_1(metier: Call, skills: Path) -> None:
    code, out, _ = metier("--skills", skills, "test", "--tier", "form")
    assert code == 1
    assert "references/api.md" in out and "→ Add the file" in out
    assert "2 skills, 1 with failures" in out


def test_a_path_is_tested_without_being_installed(metier: Call, skills: Path) -> None:
    code, out, _ = metier("test", f"{skills}/good", "--tier", "form", "--json")
    assert code == 0
    assert [one["name"] for one in json.loads(out)["skills"]] == ["good"]


def test_a_path_without_a_skill_is_wrong_usage(metier: Call, project: Path) -> None:
    (project / "empty").mkdir()
    code, _, err = metier("test", "./empty")
    assert code == 2 and "There is no skill" in err


def test_reports_are_written_for_others(metier: Call, skills: Path, project: Path) -> None:
    files = [f"--{name}={project}/report.{name}" for name in ("junit", "html", "markdown", "sarif")]
    metier("--skills", skills, "test", "--tier", "form", *files)
    assert xml.etree.ElementTree.parse(project / "report.junit").getroot().get("name") == "metier"
    assert "<table>" in (project / "report.html").read_text("utf-8")
    assert "broken" in (project / "report.markdown").read_text("utf-8")
    assert json.loads((project / "report.sarif").read_text("utf-8"))["version"] == "2.1.0"


def test_what_got_worse_since_a_report_ends_with_1(metier: Call, skills: Path, project: Path) -> None:
    _, out, _ = metier("--skills", skills, "test", "good", "--tier", "form", "--json")
    (project / "base.json").write_text(out)
    assert metier("--skills", skills, "test", "good", "--tier", "form", "--compare", "base.json")[0] == 0
    (skills / "good/SKILL.md").write_text("---\nname: good\ndescription: Does good.\n---\nSee references/x.md.\n")
    code, out, _ = metier("--skills", skills, "test", "good", "--tier", "form", "--compare", "base.json")
    assert code == 1 and "worse: good form references" in out


def test_a_version_before_is_tested_by_the_suite_of_now(metier: Call, skills: Path, project: Path) -> None:
    suite = "version: 1\nrules: [{id: reads, tool: Read, arguments: {file_path: a}, expect: allow}]\n"
    library(skill("good", allowed_tools="Read", files={"evals/suite.yaml": suite}), into=skills)
    older = project / "older"
    library(skill("good", allowed_tools="Grep"), into=older)
    code, out, _ = metier("--skills", skills, "test", "good", "--tier", "rules", "--compare", older)
    assert code == 0 and "better: good rules reads" in out
    code, out, _ = metier("--skills", older, "test", "good", "--tier", "rules", "--compare", skills, "--suite",
                          skills / "good/evals/suite.yaml")  # fmt: skip
    assert code == 1 and "worse: good rules reads" in out


def test_a_state_of_a_repository_is_a_version_before(metier: Call, skills: Path, project: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments], check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Before")
    git("tag", "before")
    (skills / "good/SKILL.md").write_text("---\nname: good\ndescription: Does good.\n---\nSee references/x.md.\n")
    code, out, _ = metier("--skills", skills, "test", "good", "--tier", "form", "--compare", ".@before")
    assert code == 1 and "worse: good form references" in out


def test_a_model_that_was_named_and_cannot_run_is_no_success(metier: Call, project: Path) -> None:
    suite = "version: 1\nevals: [{id: one, prompt: Do it., steps: [{say: Done.}], assertions: [{answer: Done}]}]\n"
    library(skill("good", files={"evals/suite.yaml": suite}), into=project / "skills")
    command = ("--skills", project / "skills", "test", "--tier", "behaviour")
    assert metier(*command, "--with", "scripted")[0] == 0
    code, _, err = metier(*command, "--with", "scripted", "--with", "nobody:model")
    assert code == 1 and "nobody:model ran nothing" in err
    code, _, err = metier(*command, "--with", "test", "--budget", "1")
    assert code == 1 and "test ran nothing. budget: The price is not known" in err


def test_a_version_before_is_not_fetched_from_elsewhere(metier: Call, skills: Path) -> None:
    code, _, err = metier("--skills", skills, "test", "--compare", "acme/skills@v1")
    assert code == 2 and "not on this machine" in err


def test_a_file_that_is_no_report_is_wrong_usage(metier: Call, skills: Path, project: Path) -> None:
    (project / "base.json").write_text("{}")
    for name in ("base.json", "missing.json"):
        assert metier("--skills", skills, "test", "--compare", name)[0] == 2


@pytest.mark.parametrize("inside", [False, True], ids=["beside the skills", "in their folder"])
def test_pytest_runs_no_code_of_skills(project: Path, inside: bool) -> None:
    bad = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\ndef test_it(): pass\n"
    texts = {"conftest.py": bad, "tests/conftest.py": bad, "tests/test_bad.py": bad, "evals/test_bad.py": bad}
    library(skill("good", files=texts), into=project / "skills")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "metier.proof.pytest_plugin"),
            *("--metier", "." if inside else "skills", "--metier-tier", "form"),
        ],
        cwd=project / "skills" if inside else project,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "1 passed" in run.stdout
    assert not list(project.rglob("*.ran"))


def test_a_report_takes_the_place_of_no_device(metier: Call, project: Path) -> None:
    library(skill("good"), into=project / "skills")
    os.mkfifo(pipe := project / "report")
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    code, _, _ = metier("--skills", project / "skills", "test", "--tier", "form", "--markdown", pipe)
    out, _ = reader.communicate(timeout=60)
    assert code == 0 and pipe.is_fifo() and b"1 skill" in out


def test_pytest_runs_the_tiers_of_a_folder(skills: Path, project: Path) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "metier.proof.pytest_plugin"),
            *("--metier", str(skills), "--metier-tier", "form"),
        ],
        cwd=project,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "references/api.md" in run.stdout and "1 failed, 1 passed" in run.stdout
    assert "Traceback" not in run.stdout
