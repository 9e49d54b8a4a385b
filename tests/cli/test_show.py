"""`metier show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

REFERENCE = Path(__file__).parents[2] / "docs/reference/json.md"


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    file = write_skill(
        tmp_path / "deploy",
        description="Deploys it.",
        more="license: MIT\nallowed-tools: Read Grep\ncolour: [red, blue]\n",
        body="# Deploy\n\nDo it.",
    )
    (file.parent / "scripts").mkdir()
    (file.parent / "scripts" / "run.py").write_bytes(b"print('run')\n")
    return tmp_path


def test_everything_about_a_skill_is_shown(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "show", "deploy")
    assert (code, err) == (0, "")
    for expected in (
        "deploy  project, trusted",
        "Deploys it.",
        f"location       {skills}/deploy/SKILL.md",
        "sha256:",
        "license        MIT",
        "allowed-tools  Read, Grep",
        "colour         red, blue",
        "scripts/run.py  13",
    ):
        assert expected in out


def test_what_it_can_do_is_shown_beside_what_it_declares(metier: Call, skills: Path) -> None:
    _, out, _ = metier("--skills", skills, "show", "deploy", "--capabilities")
    assert "scripts     scripts/run.py:1  no" in out
    assert "CAPABILITY" not in metier("--skills", skills, "show", "deploy")[1]
    found = json.loads(metier("--skills", skills, "show", "deploy", "--capabilities", "--json")[1])["capabilities"]
    assert (found["names"], found["declared"], found["undeclared"]) == (["scripts"], [], ["scripts"])


def test_json_is_what_the_list_prints_and_more(metier: Call, skills: Path) -> None:
    (listed,) = json.loads(metier("--skills", skills, "list", "--json")[1])
    code, out, err = metier("--skills", skills, "show", "deploy", "--json")
    assert (code, err) == (0, "")
    shape = json.loads(out)
    assert {key: shape[key] for key in listed} == listed
    assert shape["fields"]["license"] == "MIT"
    assert shape["extra"] == {"colour": ["red", "blue"]}
    assert [(file["path"], file["kind"]) for file in shape["files"]] == [
        ("SKILL.md", "skill"),
        ("scripts/run.py", "script"),
    ]
    assert set(shape["files"][0]) == {"path", "size", "kind", "executable"}
    assert shape["files_stopped_at"] is None


def test_the_reference_names_every_key_of_the_json(metier: Call, skills: Path) -> None:
    listed = json.loads(metier("--skills", skills, "list", "--json")[1])[0]
    shape = json.loads(metier("--skills", skills, "show", "deploy", "--json")[1])
    described = REFERENCE.read_text(encoding="utf-8").partition("## `metier show")[2].partition("\n## ")[0]
    assert [key for key in shape if key not in listed and f"`{key}`" not in described] == []


@pytest.mark.parametrize("final", ["", "\n", "\n\n"])
def test_the_lines_of_the_body_are_counted_without_the_blank_ones_around_it(
    metier: Call, tmp_path: Path, final: str
) -> None:
    (tmp_path / "alpha").mkdir()
    text = f"---\nname: alpha\ndescription: Does it.\n---\n\nOne.\nTwo.{final}"
    (tmp_path / "alpha" / "SKILL.md").write_bytes(text.encode())
    assert json.loads(metier("--skills", tmp_path, "show", "alpha", "--json")[1])["body_lines"] == 2


@pytest.mark.covers("Y-02")
def test_a_skill_answers_to_its_folder_too(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "folder", name="real-name")
    for name in ("real-name", "folder", "FOLDER", "Real Name"):
        code, out, _ = metier("--skills", tmp_path, "show", name)
        assert code == 0
        assert out.startswith("real-name ")


@pytest.mark.covers("O-99")
def test_a_shadowed_skill_is_shown_by_its_source(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "one" / "deploy", description="First.")
    write_skill(tmp_path / "two" / "deploy", description="Second.")
    arguments = ("--skills", tmp_path / "one", "--skills", tmp_path / "two", "show")
    assert "First." in metier(*arguments, "deploy")[1]
    code, out, _ = metier(*arguments, "deploy@two")
    assert code == 0
    assert "Second." in out
    assert "Hidden by another skill called `deploy`" in out


def test_what_is_wrong_with_a_skill_is_shown_with_its_line_and_what_to_do(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "alpha", description="Use when: asked")
    _, out, _ = metier("--skills", tmp_path, "show", "alpha")
    assert "warning yaml-unquoted-colon line 3: " in out
    assert "→ Put the value in quotes" in out


@pytest.mark.covers("O-48")
@pytest.mark.each(
    ("name", "said"),
    [
        ("deplyo", "Did you mean 'deploy'?"),
        ("DEPLOX@nowhere", "was not found"),
        ("../deploy", "was not found"),
        ("/etc/passwd", "was not found"),
        ("a\nb\x1b[2J", "was not found"),
        ("x" * 10_000, "was not found"),
        ("\udcff", "was not found"),
    ],
)
def test_a_name_that_nothing_answers_to_is_a_problem_with_a_way_on(
    metier: Call, skills: Path, name: str, said: str
) -> None:
    code, out, err = metier("--skills", skills, "show", name)
    assert (code, out) == (1, "")
    assert said in err
    assert "`metier list` shows all 1." in err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 2


@pytest.mark.each("name", ["", " ", "\t"])
def test_an_empty_name_is_wrong_usage(metier: Call, skills: Path, name: str) -> None:
    code, _, err = metier("--skills", skills, "show", name)
    assert code == 2
    assert "`metier list` shows all." in err


def test_a_library_without_skills_says_where_to_look(metier: Call, tmp_path: Path) -> None:
    code, _, err = metier("--skills", tmp_path, "show", "anything")
    assert code == 1
    assert "`metier doctor`" in err


def test_values_that_yaml_makes_something_else_of_are_json_still(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "SKILL.md").write_text(
        "---\nname: alpha\ndescription: Does it.\na: 2024-01-01\nb: .nan\nc: .inf\n1: 2\nd: !!binary aGVsbG8=\n"
        "e: !!set {x, y}\nnull: 4\n? [k, l]\n: m\nmetadata: {1: 2, null: .inf, d: 2024-01-01}\n---\nDo it.\n"
    )
    code, out, _ = metier("--skills", tmp_path, "show", "alpha", "--json")
    assert code == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(out, parse_constant=refuse)


def test_a_field_with_a_very_long_name_and_value_is_shown(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", more=f"{'k' * 2_000}: {'v' * 20_000}\n")
    code, out, _ = metier("--skills", tmp_path, "show", "alpha")
    assert code == 0
    assert "…" in out
