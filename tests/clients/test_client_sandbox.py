"""The sandbox of Claude Code, which `protect.scripts: sandbox` switches on, beside ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients.story import STORIES, fixtures, run, texts_of, write_all
from tests.wire.server import recorded_model

from metier.cli import main

SKILL = "---\nname: totals\ndescription: Adds up what was sold.\n---\nAdd up every line.\n"


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "darwin" and not (shutil.which("bwrap") and shutil.which("socat")),
    reason="the sandbox of Claude Code needs bubblewrap and socat",
)
def test_commands_run_in_its_sandbox_and_scripts_of_skills_in_ours(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, project = STORIES["claude-code"], tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.chdir(project)
    write_all(project, {name: text.replace("HOOK", "true") for name, text in story.before.items()})
    script = ".claude/skills/totals/scripts/add.py"
    write_all(project, {".claude/skills/totals/SKILL.md": SKILL, script: "print('the sum is', 40 + 2)\n"})
    write_all(own_home, {".metier/policy.yaml": "protect: {scripts: sandbox}\n"})
    assert main(["trust", str(project)]) == 0
    assert main(["protect", "claude-code", "--project"]) == 0
    (tmp_path / "model").mkdir()
    (own_home / "tmp").mkdir(exist_ok=True)
    ours = f"{sys.executable} -I -m metier run --help"
    commands = ["touch ~/first", f"python3 {project}/{script}", f"{ours}; touch ~/second"]
    with recorded_model([*fixtures([*map(story.shell, commands)])], tmp_path / "model") as model:
        run(story, project, own_home, model)
        texts = [*texts_of(model.requests[-1].json)]
    assert any("the sum is 42" in text for text in texts), "a script of a skill runs in our sandbox"
    assert not (own_home / "first").exists()
    assert not (own_home / "second").exists(), "no command leaves its sandbox by naming ours"
