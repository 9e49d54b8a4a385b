"""Files that a message mentions by `@`: Claude Code reads them without asking the hook of a tool.

The hook of the message refuses one that mentions a hidden file; the client's own permissions close such files besides.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from tests.clients.story import DONE, STORIES, run, write_all
from tests.wire.server import recorded_model

from metier.cli import main

SECRETS = {".ssh/id_test": "secret-1", ".netrc": "secret-2", ".config/gh/hosts.yml": "secret-3"}


@pytest.mark.slow
@pytest.mark.parametrize("by", ["hook", "lists", "nothing"])
def test_a_hidden_file_that_is_mentioned_reaches_no_model(
    by: str, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.chdir(project)
    write_all(own_home, SECRETS)
    write_all(project, {"notes.txt": "plain-4", ".netrc": "secret-5"})
    file = project / ".claude/settings.local.json"
    if by != "nothing":
        assert main(["protect", "claude-code", "--project"]) == 0
        settings = json.loads(file.read_text())
        file.write_text(json.dumps({**settings, "hooks": {}} if by == "lists" else {"hooks": settings["hooks"]}))
    mentions = [*(f"@{own_home}/{name}" for name in SECRETS), "@.netrc", "@notes.txt"]
    story = STORIES["claude-code"]
    story = dataclasses.replace(story, arguments=("-p", " ".join(mentions), *story.arguments[2:]))
    (tmp_path / "model").mkdir()
    (own_home / "tmp").mkdir(exist_ok=True)
    with recorded_model([{"match": {"turnIndex": 0}, "response": {"content": DONE}}], tmp_path / "model") as model:
        run(story, project, own_home, model)
        sent = json.dumps([request.json for request in model.requests])
    assert ("plain-4" in sent) is (by != "hook")
    found = {secret for secret in (*SECRETS.values(), "secret-5") if secret in sent}
    assert found == ({*SECRETS.values(), "secret-5"} if by == "nothing" else set())
