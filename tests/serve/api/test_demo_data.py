"""The server to look at: `metier serve --demo`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from metier.store.people import ROLES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A process that serves the demo: its URL, its people, and the folders that it may have used."""
    home = tmp_path_factory.mktemp("home")
    (home / "tmp").mkdir()
    command = [sys.executable, "-m", "metier", "serve", "--demo", "--port", "0", "--json"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_"))}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home / "tmp")}
    with subprocess.Popen(command, env=environment, cwd=home, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = ""
        while not lines.endswith("\n}\n"):
            lines += (line := process.stdout.readline())
            assert line, "it ended"
        yield {**json.loads(lines), "home": home}
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not list((home / "tmp").iterdir()), "its folder is gone"


def get(demo: dict[str, Any], role: str, path: str) -> Any:
    token = next(one["token"] for one in demo["people"] if one["role"] == role)
    answer = httpx.get(f"{demo['url']}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(demo: dict[str, Any], role: str, path: str, body: dict[str, Any]) -> None:
    token = next(one["token"] for one in demo["people"] if one["role"] == role)
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{demo['url']}/api/v1{path}", headers=headers, json=body, timeout=30)
    assert answer.status_code < 300, answer.text


def test_there_is_a_person_of_each_role(demo: dict[str, Any]) -> None:
    assert [one["role"] for one in demo["people"]] == list(reversed(ROLES))
    for one in demo["people"]:
        assert (get(demo, one["role"], "/me")["name"], get(demo, one["role"], "/me")["roles"]) == (
            one["name"],
            [one["role"]],
        )


def test_skills_are_deployed_and_found(demo: dict[str, Any]) -> None:
    found = get(demo, "viewer", "/skills?deployed=true")["items"]
    assert len(found) == 6
    assert get(demo, "viewer", "/skills?q=receipts")["items"][0]["name"] == "expense-report"


def test_something_waits_and_something_happened(demo: dict[str, Any]) -> None:
    assert len(get(demo, "reviewer", "/requests?status=pending")["items"]) == 1
    assert get(demo, "viewer", "/audit?type=skill.deployed")["items"]
    assert {run["outcome"] for run in get(demo, "viewer", "/runs?kind=script")["items"]} >= {"succeeded", "denied"}
    assert sum(row["loads"] for row in get(demo, "viewer", "/usage")["rows"]) > 20
    assert get(demo, "viewer", "/audit/verify")["ok"] is True


def test_the_reviewer_decides_about_the_proposal_and_the_submission(demo: dict[str, Any]) -> None:
    (proposal,) = get(demo, "reviewer", "/proposals?status=open")["items"]
    post(demo, "reviewer", f"/proposals/{proposal['id']}/approve", {"comment": "It is right."})
    found = get(demo, "viewer", "/skills/team/expense-report")
    assert (found["version"], found["deployed"]) == ("1.0.1", "1.0.1")
    (submission,) = get(demo, "reviewer", "/submissions?status=submitted")["items"]
    assert submission["version"] == "1.1.0"


def test_nothing_of_it_is_in_the_folders_of_the_user(demo: dict[str, Any]) -> None:
    home: Path = demo["home"]
    assert not [path for path in home.rglob("*") if path.name == "metier.db" and "tmp" not in path.parts]
    assert not (home / ".config" / "metier").exists()
