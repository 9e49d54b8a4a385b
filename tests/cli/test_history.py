"""`metier history` and `metier rollback`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.cli.identity import system_user
from metier.skill import FolderPackage
from metier.store import Person, Store

Metier = Callable[..., tuple[int, str, str]]
DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -5 +5 @@\n-Do it.\n+Do it well.\n"


@pytest.fixture
def skill(own_home: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    write_skill(own_home / ".metier/skills/deploy")
    return own_home / ".metier/skills/deploy"


@pytest.fixture
def changed(skill: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch, typed: None) -> str:
    """A skill that was changed by a proposal; the digest that it had before."""
    before = FolderPackage(skill).digest()
    with Store.open() as store:
        people = store.of().people
        people.add(Person(name=system_user(), roles=frozenset({"admin"})))
        people.add(Person(name="builder", kind="agent"))
        _, secret = people.new_token("builder")
    with monkeypatch.context() as patch:
        patch.setenv("METIER_API_TOKEN", secret)
        code, out, _ = metier("propose", "update", "deploy", "--diff", "-", "--why", "Better.", "--json", given=DIFF)
    assert code == 0
    assert metier("propose", "approve", json.loads(out)["proposal"]["id"])[0] == 0
    return before


def test_a_history_says_who_changed_what_when_and_why(changed: str, metier: Metier, skill: Path) -> None:
    code, out, _ = metier("history", "deploy")
    assert code == 0
    head, _, first, second = out.splitlines()
    assert head == f"deploy@personal  {skill}"
    assert first.split()[:2] == ["1", changed.removeprefix("sha256:")[:12]]
    assert second.startswith("2 ← now")
    assert system_user() in second
    assert "p-" in second
    assert second.endswith("Better.")
    code, out, _ = metier("history", "deploy", "--json")
    found = json.loads(out)
    assert [one["number"] for one in found["versions"]] == [1, 2]
    assert found["now"] == found["versions"][1]["digest"]


def test_two_versions_are_compared(changed: str, metier: Metier) -> None:
    code, out, _ = metier("history", "deploy", "--diff", "1", "2")
    assert code == 0
    assert "-Do it.\n+Do it well.\n" in out
    assert json.loads(metier("history", "deploy", "--diff", "2", "1", "--json")[1])["diff"].count("\n") > 3
    code, _, err = metier("history", "deploy", "--diff", "1", "7")
    assert (code, "no version 7" in err) == (2, True)


@pytest.mark.covers("A-40")
def test_a_rollback_restores_the_exact_content(changed: str, metier: Metier, skill: Path) -> None:
    code, out, _ = metier("rollback", "deploy", "--reason", "It broke.")
    assert code == 0
    assert "deploy@personal is version 3 now. Back to version 1. It broke." in out
    assert FolderPackage(skill).digest() == changed
    code, out, _ = metier("rollback", "deploy", "--to", "2", "--json")
    assert json.loads(out)["version"]["number"] == 4
    assert "Do it well." in (skill / "SKILL.md").read_text()


def test_a_change_by_hand_is_told(changed: str, metier: Metier, skill: Path) -> None:
    (skill / "mine.md").write_text("mine")
    assert "changed by hand" in metier("history", "deploy")[1]
    assert metier("rollback", "deploy", "--to", "2")[0] == 0
    assert not (skill / "mine.md").exists()
    assert "Changed by hand." in metier("history", "deploy")[1]


def test_a_skill_that_is_gone_still_has_a_history(changed: str, metier: Metier, skill: Path) -> None:
    (skill / "SKILL.md").unlink()
    skill.rmdir()
    assert "is gone from its folder" in metier("history", "deploy")[1]
    assert metier("rollback", "deploy")[0] == 0
    assert "Do it well." in (skill / "SKILL.md").read_text()


def test_what_has_no_history_says_so(skill: Path, metier: Metier) -> None:
    assert "no history yet" in metier("history", "deploy")[1]
    code, _, err = metier("rollback", "deploy")
    assert (code, "no earlier version" in err) == (2, True)
    for command in ("history", "rollback"):
        code, _, err = metier(command, "nothing")
        assert (code, "[skill-not-found]" in err) == (1, True)
