"""The workflow files of `metier test --workflow`: their steps are run here, on a change that breaks a skill."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from metier.testing import library, skill

FOLDER = resources.files("metier.proof").joinpath("workflows")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are for bash")


def scripts_of(service: str) -> list[str]:
    """The steps of a workflow that compare and test, in order."""
    found: Any = yaml.safe_load(FOLDER.joinpath(f"{service}.yml").read_text(encoding="utf-8"))
    steps = (
        [step.get("run", "") for step in found["jobs"]["test"]["steps"]]
        if service == "github"
        else found["skills"]["script"]
    )
    return [step for step in steps if "metier --skills" in step]


def git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository whose last change breaks a skill, and the commit before that."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    library(skill("greet"), into=folder / "skills")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "A skill")
    base = git(folder, "rev-parse", "HEAD")
    library(skill("greet", "See references/gone.md."), into=folder / "skills")
    git(folder, "commit", "-qam", "A mistake")
    return folder, base


@needs_bash
@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_change_that_breaks_a_skill_fails_and_is_named_in_the_reports(
    service: str, repository: tuple[Path, str], tmp_path: Path
) -> None:
    folder, base = repository
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "metier").write_text(f'#!/bin/sh\nexec {sys.executable} -m metier "$@"\n')
    (programs / "metier").chmod(0o755)
    (folder / "report").mkdir()
    variables = {"SKILLS": "skills", "BASE": base, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    env = {**os.environ, **variables, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    codes = [
        subprocess.run(["bash", "-e", "-c", step], cwd=folder, env=env, capture_output=True, timeout=120).returncode
        for step in scripts_of(service)
    ]
    assert codes == [0, 1]
    base_report = json.loads((folder / "report/base.json").read_text("utf-8"))
    assert base_report["verdict"] == "passed"
    text = (folder / "report/report.md").read_text("utf-8")
    assert "1 worse" in text and "greet form references" in text
    assert (folder / "report/junit.xml").read_text("utf-8").count("<failure") == 1
