"""`metier feedback`, and what becomes of feedback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from metier import Guard, Library
from metier.cli.identity import system_user
from metier.errors import SkillNotFound
from metier.skill import FolderPackage
from metier.store import Store

Metier = Callable[..., tuple[int, str, str]]
DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -5 +5 @@\n-Do it.\n+Do it well.\n"
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def skill(own_home: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    write_skill(own_home / ".metier/skills/deploy")
    return own_home / ".metier/skills/deploy"


def test_feedback_is_kept_with_the_content_that_it_is_about(skill: Path, metier: Metier) -> None:
    code, out, _ = metier("feedback", "deploy", "--did-not-help", "--comment", f"Step two fails. {SECRET}", "--json")
    given = json.loads(out)["feedback"]
    assert code == 0
    assert (given["skill"], given["helped"], given["by"]) == ("deploy@personal", False, system_user())
    assert given["digest"] == FolderPackage(skill).digest()
    with Store.open() as store:
        (kept,) = store.of().feedback.of("deploy@personal")
        (record,) = store.of().audit.tail(1)
    assert kept.id == given["id"]
    assert kept.comment.startswith("Step two fails.")
    assert SECRET not in kept.comment + json.dumps(record)
    assert (record["type"], record["skill"], record["digest"]) == ("feedback.not-helped", "deploy", given["digest"])


def test_it_counts_in_stats(skill: Path, metier: Metier) -> None:
    for verdict in ("--helped", "--did-not-help", "--did-not-help"):
        assert metier("feedback", "deploy", verdict)[0] == 0
    code, out, _ = metier("stats", "deploy")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0].endswith("COST HELPED")
    assert lines[1] == "deploy@personal 0 0 0 0 0 0 - 1 of 3"
    assert "deploy@personal: It helped 1 times and did not 2 times." in lines


def test_reviewers_of_a_change_read_it(skill: Path, metier: Metier) -> None:
    proposed = json.loads(metier("propose", "update", "deploy", "--diff", "-", "--why", "x", "--json", given=DIFF)[1])
    id_ = proposed["proposal"]["id"]
    assert "FEEDBACK" not in metier("propose", "show", id_)[1]
    metier("feedback", "deploy", "--did-not-help", "--comment", "No\x1b[2J" + "x" * 5_000)
    out = metier("propose", "show", id_)[1]
    (line,) = [line for line in out.splitlines() if "It helped" in line]
    assert line.startswith('  It helped 0 times and did not 1 time. Last: "No\\x1b[2J')
    assert len(line) < 300
    assert "did not 1 time" in json.loads(metier("propose", "show", id_, "--json")[1])["feedback"]


@pytest.mark.parametrize("wrong", [("deploy",), ("deploy", "--helped", "--did-not-help"), ("--helped",)])
def test_it_needs_a_skill_and_one_verdict(skill: Path, metier: Metier, wrong: tuple[str, ...]) -> None:
    assert metier("feedback", *wrong)[0] == 2


def test_a_skill_that_nobody_knows_gets_none(skill: Path, metier: Metier) -> None:
    code, _, err = metier("feedback", "deplyo", "--helped")
    assert code == 1
    assert "skill-not-found" in err


def test_a_model_has_the_tool_only_where_the_session_says_so(skill: Path) -> None:
    library = Library.from_folder(skill.parent, cache=False)
    assert "skills_feedback" not in [tool.name for tool in library.session().tools()]
    session = library.as_caller(agent="clerk").session(guard=Guard(), feedback=True, user="ada", skills=["deploy"])
    call = {"skill": "deploy", "helped": True, "comment": "Fine."}
    result = anyio.run(session.executor().execute, "skills_feedback", call)
    missing = anyio.run(session.executor().execute, "skills_feedback", {"skill": "none", "helped": True})
    assert (result.success, missing.success, missing.code) == (True, False, "skill-not-found")
    with Store.open() as store:
        (kept,) = store.of().feedback.of(f"deploy@{library.get('deploy').source}")
    assert (kept.helped, kept.by, kept.agent, kept.session) == (True, "ada", "clerk", session.id)
    assert kept.digest == session.loaded.one("deploy").digest


def test_a_program_may_give_feedback_for_a_person(skill: Path) -> None:
    session = Library.from_folder(skill.parent, cache=False).session(guard=Guard(), user="ada")
    given = session.feedback("deploy", helped=False, comment="x" * 5_000)
    assert (given.by, given.agent, len(given.comment)) == ("ada", "", 2_000)
    with pytest.raises(SkillNotFound):
        session.feedback("none", helped=True)
