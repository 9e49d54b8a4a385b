"""What policy bars, in everything that shows skills to people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Library
from metier.store import Store

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

POLICY = """version: 1
skills:
  deny: [miner]
  listing: {deploy: manual, notes: name-only}
"""


@pytest.fixture
def skills(own_home: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Skills that policy denies, keeps from models, shows by name, and has nothing against."""
    (own_home / "policy.yaml").write_text(POLICY)
    monkeypatch.setenv("METIER_POLICY", str(own_home / "policy.yaml"))
    for name in ("miner", "deploy", "notes", "plain"):
        write_skill(own_home / "skills" / name, description=f"Does the work of {name}.")
    return own_home / "skills"


def shapes(metier: Call, *arguments: str | Path) -> Any:
    code, out, err = metier(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.covers("A-2")
def test_a_list_leaves_out_what_is_denied_and_warns_with_file_and_layer(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "list")
    assert code == 0
    assert "miner" not in out
    assert "1 denied by policy" in out
    assert err.startswith("warning: miner (")
    assert f"{skills.parent / 'policy.yaml'}:3 (enterprise)" in err


@pytest.mark.covers("A-2", "A-7")
def test_a_list_of_all_has_the_status_and_the_reason(metier: Call, skills: Path) -> None:
    _, out, _ = metier("--skills", skills, "list", "--all")
    rows = {line.split()[0]: line for line in out.splitlines()[1:-1]}
    for name, status in (("miner", "denied"), ("deploy", "manual"), ("notes", "name-only")):
        assert f"  {status} " in rows[name]
        assert "policy.yaml:" in rows[name]
    assert "  active " in rows["plain"]


def test_json_says_what_policy_says(metier: Call, skills: Path) -> None:
    found = {one["name"]: one for one in shapes(metier, "--skills", skills, "list")}
    assert {name: one["status"] for name, one in found.items()} == {
        "deploy": "active",
        "miner": "denied",
        "notes": "active",
        "plain": "active",
    }
    assert found["miner"]["policy"]["code"] == "skill-denied"
    assert "(enterprise)" in found["miner"]["policy"]["rule"]
    assert {name: one["hidden_from_models"] for name, one in found.items()} == {
        "deploy": True,
        "miner": True,
        "notes": False,
        "plain": False,
    }
    assert "policy" not in found["plain"]
    assert shapes(metier, "--skills", skills, "show", "deploy")["policy"]["status"] == "manual"


@pytest.mark.parametrize("command", ["show", "show --instructions"])
def test_who_looks_at_what_is_denied_is_told(metier: Call, skills: Path, command: str) -> None:
    code, out, err = metier("--skills", skills, *command.split(), "miner")
    assert code == 0
    assert "policy.yaml:3 (enterprise)" in out + err
    code, out, err = metier("--skills", skills, *command.split(), "plain")
    assert "policy" not in out + err


@pytest.mark.covers("A-7")
def test_the_catalog_is_what_a_model_is_shown(metier: Call, skills: Path) -> None:
    code, out, err = metier("--skills", skills, "catalog")
    shown = Library.from_folder(skills).session(guard=Guard()).prompt.catalog()
    assert (code, out) == (0, shown + "\n")
    assert '<names_only search="skills_search">notes</names_only>' in out
    assert "deploy" not in out
    assert "miner" not in out
    assert "deploy (" in err
    assert set(shapes(metier, "--skills", skills, "catalog")["withheld"]) == {"deploy", "miner"}


def test_a_search_tells_people_and_finds_nothing_barred_for_models(metier: Call, skills: Path) -> None:
    for_people = {one["name"]: one for one in shapes(metier, "--skills", skills, "search", "work")}
    assert {name: one.get("policy", {}).get("status") for name, one in for_people.items()} == {
        "deploy": "manual",
        "miner": "denied",
        "notes": "name-only",
        "plain": None,
    }
    for_models = shapes(metier, "--skills", skills, "search", "--for-models", "work")
    assert {one["name"] for one in for_models} == {"notes", "plain"}


def test_a_doctor_names_what_is_denied(metier: Call, skills: Path) -> None:
    _, out, _ = metier("--skills", skills, "doctor")
    assert "DENIED BY POLICY" in out
    assert "policy.yaml:3 (enterprise)" in out
    report = json.loads(metier("--skills", skills, "doctor", "--json")[1])
    assert [one["name"] for one in report["denied"]] == ["miner"]


def test_a_quarantine_is_told_of_too(metier: Call, skills: Path) -> None:
    with Store.open() as store:
        store.of().blocks.add("name", "plain", reason="It was taken over.", by="ada")
    found = {one["name"]: one["status"] for one in shapes(metier, "--skills", skills, "list")}
    assert found["plain"] == "denied"
    assert "in quarantine" in metier("--skills", skills, "show", "plain", "--instructions")[2]
    assert "plain" not in metier("--skills", skills, "catalog")[1]


@pytest.mark.covers("A-1", "A-8")
def test_skills_of_one_name_are_told_apart(metier: Call, own_home: Path, write_skill: Write) -> None:
    for place in ("first", "second"):
        write_skill(own_home / place / "configure", description=f"Configures the {place}.")
    both = ("--skills", own_home / "first", "--skills", own_home / "second")
    _, out, _ = metier(*both, "show", "configure")
    other = shapes(metier, *both, "show", "configure")["others"][0]
    assert other["location"] == str(own_home / "second/configure/SKILL.md")
    assert all(other[key] in out for key in ("layer", "source", "digest", "location"))
    _, out, _ = metier(*both, "list", "--all")
    shadowed = next(line for line in out.splitlines() if "  shadowed " in line)
    assert "shadowed by configure@first (" in shadowed
    assert str(own_home / "first/configure/SKILL.md") in shadowed


@pytest.mark.covers("A-20")
def test_tools_that_nobody_has_are_warned_of(metier: Call, own_home: Path, write_skill: Write) -> None:
    folder = own_home / "skills"
    write_skill(folder / "odd", more="allowed-tools: Read Frobnicate mcp__files__read Bash(git:*)\n")
    write_skill(folder / "even", more="allowed-tools: Read skills_load\n")
    assert "tools-unknown" in metier("--skills", folder, "show", "odd")[1]
    assert "have: Frobnicate." in metier("validate", folder / "odd")[1]
    assert metier("validate", folder / "odd")[0] == 0
    assert json.loads(metier("--skills", folder, "doctor", "--json")[1])["diagnostics"]["tools-unknown"] == 1
    assert "tools-unknown" not in metier("--skills", folder, "show", "even")[1]
