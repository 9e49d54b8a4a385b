"""Clients that are protected: each call is decided by our rules, in the real programs, and leaves one record."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.clients.story import DONE, RESULT, STORIES, SUM, played

from metier.cli import main


@pytest.mark.slow
@pytest.mark.parametrize("client", STORIES)
def test_a_protected_client_keeps_to_the_rules_of_a_skill_until_that_is_blocked(
    client: str, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    story, project = STORIES[client], tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    monkeypatch.chdir(project)
    told = played(client, project, own_home, tmp_path)
    assert DONE in told.output
    assert any(RESULT in text for text in told.texts), "an allowed call runs"
    assert not (project / "forbidden").exists()
    assert any(SUM in text for text in told.texts) is story.can_rewrite
    assert not (own_home / "outside").exists(), "its script ran in a sandbox, or not at all"
    forbidden, asked, *scripts, blocked = told.refusals
    assert "totals" in forbidden
    assert story.asked in asked
    assert len(scripts) == (1 if story.can_rewrite else 2)
    assert all("run totals scripts/add.py" in one for one in scripts)
    assert "blocked" in blocked

    capsys.readouterr()
    assert main(["audit", "export"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    calls = [one for one in records if one["event"] == "call"]
    decisions = ["allow", "allow", "deny", "ask", "allow" if story.can_rewrite else "deny", "deny", "deny"]
    assert [one["decision"] for one in calls] == decisions
    assert all(one["skills"][0].startswith("totals@") and "#" in one["skills"][0] for one in calls)
    assert told.hooks_of_user == len(calls), "a hook that was there before still runs"

    assert main(["protect", client, "--project", "--remove"]) == 0
    for name, text in story.before.items():
        assert (project / name).read_text() == text.replace("HOOK", f"echo ran >> {tmp_path}/hook-of-user")
