"""The lists that clients have themselves: what `metier protect` writes there from the policy is what they obey."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.clients.story import ALLOWED, RESULT, STORIES, fixtures, run, texts_of, write_all
from tests.npm_packages import client_command
from tests.wire.server import recorded_model

from metier.cli import main
from metier.cli.hook_files import HOOK_FILES
from metier.library.clients import in_home

POLICY = "tools: {deny: ['Bash(git push:*)'], ask: ['Bash(npm publish:*)']}\n"


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    monkeypatch.chdir(folder)
    write_all(own_home, {".metier/policy.yaml": POLICY})
    return folder


@pytest.mark.slow
def test_codex_reads_the_rules_of_the_policy_as_they_are_meant(project: Path) -> None:
    codex = client_command("codex")
    assert main(["protect", "codex", "--project"]) == 0
    rules = str(project / ".codex/rules/metier.rules")
    found = {}
    for command in ("git push origin main", "npm publish", "git status"):
        check = [*codex, "execpolicy", "check", "--rules", rules, *command.split()]
        done = subprocess.run(check, capture_output=True, text=True, check=True)
        found[command] = json.loads(done.stdout).get("decision")
    assert found == {"git push origin main": "forbidden", "npm publish": "prompt", "git status": None}


@pytest.mark.slow
@pytest.mark.parametrize("client", [client for client in ("claude-code", "gemini") if client in STORIES])
def test_a_call_that_policy_denies_is_refused_by_the_client_itself(
    client: str, project: Path, own_home: Path, tmp_path: Path
) -> None:
    story = STORIES[client]
    write_all(project, {name: text.replace("HOOK", "true") for name, text in story.before.items()})
    (tmp_path / "model").mkdir()
    (own_home / "tmp").mkdir(exist_ok=True)
    calls = [story.shell("git push nowhere"), story.shell(ALLOWED)]
    with recorded_model([*fixtures(calls)], tmp_path / "model") as model:
        write_all(own_home, story.home(model.url, project))
        assert main(["protect", client, "--user"]) == 0
        file = Path(in_home(HOOK_FILES[client].user, str(own_home)))
        file.write_text(json.dumps({**json.loads(file.read_text()), "hooks": {}}))
        run(story, project, own_home, model)
        texts = [*texts_of(model.requests[-1].json)]
    assert not any("fatal: 'nowhere'" in text for text in texts)
    assert any("den" in text.lower() and "push" in text for text in texts), "it was refused"
    assert any(RESULT in text for text in texts), "another call was made"
