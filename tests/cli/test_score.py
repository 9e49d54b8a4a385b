"""`metier score`, and scores where skills are listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from metier.store import Store

Metier = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    for name in ("alpha", "beta"):
        write_skill(tmp_path / "skills" / name)
    return tmp_path / "skills"


def test_each_skill_has_a_score_with_its_parts_and_what_would_raise_it(metier: Metier, skills: Path) -> None:
    code, out, _ = metier("score", "--skills", skills)
    assert code == 0
    assert "FORM   FOUND" in out
    assert "+15" in out
    assert "It has no suite of tests." in out
    assert "2 skills, " in out


def test_json_has_the_score_of_a_skill(metier: Metier, skills: Path) -> None:
    code, out, err = metier("score", "alpha", "--json", "--skills", skills)
    (found,) = json.loads(out)["skills"]
    assert (code, err, found["name"]) == (0, "", "alpha")
    assert found["score"] == round(sum(part["points"] for part in found["parts"]))
    assert found["digest"].startswith("sha256:")
    assert found["advice"][0]["points"] >= found["advice"][-1]["points"]


def test_a_badge_is_an_image_of_one_score(metier: Metier, skills: Path) -> None:
    code, out, _ = metier("score", "alpha", "--badge", "--skills", skills)
    assert (code, ElementTree.fromstring(out).tag) == (0, "{http://www.w3.org/2000/svg}svg")
    assert metier("score", "--badge", "--skills", skills)[0] == 2


def test_a_recorded_score_is_listed_until_the_skill_changes(metier: Metier, skills: Path) -> None:
    assert "SCORE" not in metier("list", "--skills", skills)[1]
    metier("score", "alpha", "--skills", skills)
    assert "SCORE" in metier("list", "--skills", skills)[1]
    scores = {one["name"]: one["score"] for one in json.loads(metier("list", "--json", "--skills", skills)[1])}
    assert scores["beta"] is None
    assert f"{scores['alpha']} of 100" in metier("show", "alpha", "--skills", skills)[1]
    (skills / "alpha" / "more.md").write_text("More.\n")
    assert "SCORE" not in metier("list", "--skills", skills)[1]
    assert json.loads(metier("show", "alpha", "--json", "--skills", skills)[1])["score"] is None


def test_what_a_test_finds_is_recorded_in_the_name_of_the_user(metier: Metier, skills: Path) -> None:
    metier("test", "alpha", "--tier", "form", "--skills", skills)
    with Store.open() as store:
        (record,) = store.of().audit.search(type="skill.tested")
        (run,) = store.of().test_results.latest(record["digest"])
    assert (record["skill"], record["notes"], run.by) == ("alpha", [f"form {run.verdict}"], record["user"])


def test_results_by_another_suite_than_that_of_the_skill_are_not_recorded(
    metier: Metier, skills: Path, tmp_path: Path
) -> None:
    (tmp_path / "easy.yaml").write_text("version: 1\nrules:\n  - {tool: Read, expect: allow}\n")
    assert metier("test", "alpha", "--suite", tmp_path / "easy.yaml", "--skills", skills)[0] == 0
    with Store.open() as store:
        assert store.of().audit.search(type="skill.tested") == []


def test_where_nothing_can_be_recorded_the_score_is_there_with_a_warning(
    metier: Metier, skills: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "store.db").write_bytes(b"no database" * 100)
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{tmp_path}/store.db")
    code, out, err = metier("score", "alpha", "--skills", skills)
    assert (code, "alpha" in out) == (0, True)
    assert "The results were not recorded." in err
