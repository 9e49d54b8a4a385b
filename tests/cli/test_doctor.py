"""`metier doctor`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.sandbox_report import Facts, advice
from metier.run.job import NEEDS
from metier.run.selection import native_runner

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

REFERENCE = Path(__file__).parents[2] / "docs/reference/json.md"


def report(metier: Call, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    code, out, err = metier(*arguments, "doctor", "--json")
    assert err == ""
    shape = json.loads(out)
    assert isinstance(shape, dict)
    return code, shape


def test_nothing_wrong_is_said_so(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    code, out, err = metier("--skills", tmp_path, "doctor")
    assert (code, err) == (0, "")
    assert re.search(rf"^project +trusted +1 +{re.escape(str(tmp_path))}$", out, re.MULTILINE)
    assert "1 skill to use, 0 shadowed, 0 hidden, 0 broken." in out
    assert "→ Nothing needs to be done." in out


def test_policy_files_and_the_store_are_shown(
    metier: Call, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, _ = metier("doctor")
    assert "policy: no file, the defaults hold\n" in out
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text("version: 1\nmode: audit\n")
    _, out, _ = metier("doctor")
    assert "policy: ~/.metier/policy.yaml (personal), mode audit\n" in out
    assert re.search(r"^store: sqlite:///.*metier\.db, not made yet$", out, re.MULTILINE)
    _, shape = report(metier)
    assert [one["layer"] for one in shape["policy"]["files"]] == ["personal"]
    assert shape["store"]["exists"] is False


def test_every_place_is_shown_with_its_state(
    metier: Call, write_skill: Write, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / ".agents/skills/alpha")
    write_skill(own_home / ".claude/skills/beta")
    monkeypatch.chdir(tmp_path)
    code, shape = report(metier)
    assert code == 0
    states = {place["path"]: (place["layer"], place["state"], place["skills"]) for place in shape["places"]}
    assert states[str(tmp_path / ".agents/skills")] == ("project", "untrusted", 1)
    assert states[str(tmp_path / ".metier/skills")] == ("project", "missing", 0)
    assert states[str(own_home / ".claude/skills")] == ("personal", "trusted", 1)
    assert any(layer == "plugin" and skills for layer, _, skills in states.values())
    assert any("`metier trust`" in step for step in shape["next"])


@pytest.mark.covers("USE-8")
def test_folders_of_other_clients_are_shown_where_they_exist(
    metier: Call, write_skill: Write, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(own_home / ".cursor/skills/beta")
    monkeypatch.chdir(tmp_path)
    _, out, _ = metier("doctor")
    assert f"{own_home}/.cursor/skills" in out
    assert ".windsurf" not in out and "Searched too, but not there: " in out


def test_a_trusted_project_needs_no_word_on_trust(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / ".agents/skills/alpha")
    monkeypatch.chdir(tmp_path)
    assert metier("trust")[0] == 0
    assert not any("trust" in step for step in report(metier)[1]["next"])


def test_a_broken_skill_is_a_problem_with_its_place_line_and_remedy(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "alpha")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").write_bytes(b"")
    code, out, _ = metier("--skills", tmp_path, "doctor")
    assert code == 1
    assert f"\n{tmp_path}/broken/SKILL.md\n  error file-empty line 1: The file is empty.\n    → Write" in out
    assert "→ Mend what is marked as an error above" in out
    code, shape = report(metier, "--skills", tmp_path)
    assert code == 1
    assert (shape["ok"], shape["active"], shape["broken"]) == (False, 1, 1)
    assert shape["broken_skills"][0]["location"] == f"{tmp_path}/broken/SKILL.md"
    assert shape["broken_skills"][0]["diagnostics"][0]["line"] == 1


def test_shadowed_skills_are_counted(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "one" / "deploy")
    write_skill(tmp_path / "two" / "deploy")
    code, shape = report(metier, "--skills", tmp_path / "one", "--skills", tmp_path / "two")
    assert code == 0
    assert (shape["active"], shape["shadowed"], shape["diagnostics"]) == (1, 1, {"shadowed": 1})


def test_a_place_without_skills_says_how_to_begin(metier: Call, tmp_path: Path) -> None:
    code, out, _ = metier("--skills", tmp_path, "doctor")
    assert code == 0
    assert "→ `metier new NAME" in out


def test_an_archive_is_a_place_too(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "packed" / "alpha")
    archive = shutil.make_archive(str(tmp_path / "skills"), "zip", tmp_path / "packed")
    code, shape = report(metier, "--skills", archive)
    assert code == 0
    assert [(place["state"], place["skills"]) for place in shape["places"]] == [("trusted", 1)]
    assert shape["places"][0]["path"].startswith(archive)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")
def test_a_link_that_leaves_an_untrusted_project_is_an_error(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "elsewhere" / "alpha")
    skills = tmp_path / "project" / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "alpha").symlink_to(tmp_path / "elsewhere" / "alpha")
    monkeypatch.chdir(tmp_path / "project")
    code, shape = report(metier)
    assert code == 1
    (finding,) = shape["findings"]
    assert (finding["where"], finding["code"], finding["severity"]) == (
        str(skills / "alpha"),
        "symlink-escape",
        "error",
    )
    assert "symlink-escape" in metier("doctor")[1]


def test_a_cache_that_cannot_be_written_is_mentioned(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "file" / "cache"))
    write_skill(tmp_path / "skills" / "alpha")
    code, out, _ = metier("--skills", tmp_path / "skills", "doctor")
    assert code == 0
    assert "cache-unusable" in out
    assert "METIER_CACHE" in out


def test_what_to_do_has_no_gaps_to_fill_in(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "SKILL.md").write_text("---\ndescription: a: b\n---\nDo it.\n")
    _, out, _ = metier("--skills", tmp_path, "doctor")
    assert "name-missing" in out
    assert not re.search(r"\{\d\}", out)


def test_no_more_broken_skills_are_printed_than_one_can_read(metier: Call, tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"broken-{number}").mkdir()
        (tmp_path / f"broken-{number}" / "SKILL.md").write_bytes(b"")
    _, out, _ = metier("--skills", tmp_path, "doctor")
    assert "40 broken" in out
    assert out.count("error file-empty") == 10


# --- what scripts can be kept from ------------------------------------------------------------------------------


def test_each_runner_is_told_with_what_it_enforces_here(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    found = {runner["name"]: runner for runner in report(metier, "--skills", tmp_path)[1]["runners"]}
    assert list(found) == ["native", "virtual", "plain"]
    native = native_runner().capabilities()
    assert found["native"]["how"] == native.how
    assert found["native"]["isolates"] is native.isolates_files
    assert found["native"]["enforces"]["memory"] is native.limits_memory
    assert set(NEEDS) <= set(found["native"]["enforces"]), "what a policy can require"
    assert not any(found["plain"]["enforces"].values())
    out = metier("--skills", tmp_path, "doctor")[1]
    assert re.search(r"^RUNNER +STATE +HOW$", out, re.MULTILINE)
    assert re.search(r"^plain +isolates nothing +a plain process", out, re.MULTILINE)
    mark = "✓" if native.isolates_files else "-"
    assert re.search(rf"^files +{mark} +[✓-] +- +files that it was not given$", out, re.MULTILINE)


def test_without_the_virtual_shell_it_is_said_what_to_install(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "bashkit" else real(name, *more)
    )
    write_skill(tmp_path / "alpha")
    code, shape = report(metier, "--skills", tmp_path)
    (virtual,) = (runner for runner in shape["runners"] if runner["name"] == "virtual")
    assert (code, shape["ok"]) == (0, True), "what is not needed is not missing"
    assert not virtual["isolates"] and virtual["next"] == ["pip install 'metier[shell]'"]
    assert "virtual: pip install 'metier[shell]'" in metier("--skills", tmp_path, "doctor")[1]


def test_a_machine_that_cannot_be_probed_is_no_failure(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr("metier.run.plain.PlainRunner.capabilities", refuse)
    write_skill(tmp_path / "alpha")
    code, shape = report(metier, "--skills", tmp_path)
    assert code == 0
    assert "not permitted" in shape["runners"][2]["how"]


_USERNS, _APPARMOR = "kernel.unprivileged_userns_clone", "kernel.apparmor_restrict_unprivileged_userns"


@pytest.mark.each(
    ("facts", "expected"),
    [
        (Facts(tier="namespaces", landlock=7), []),
        (Facts(tier="bubblewrap", landlock=4, has_bubblewrap=True), []),
        (Facts(tier="namespaces"), ["Landlock"]),
        (Facts(tier="landlock", landlock=4, settings=(_USERNS,)), [f"sysctl {_USERNS}=1", "install bubblewrap"]),
        (Facts(tier="landlock", landlock=4, settings=(_APPARMOR,)), [f"sysctl {_APPARMOR}=0", "install bubblewrap"]),
        (Facts(tier="landlock", landlock=4, has_bubblewrap=True), ["container"]),
        (Facts(tier=None, settings=(_USERNS,)), [f"sysctl {_USERNS}=1", "install bubblewrap", "kernel of 5.13"]),
    ],
)
def test_what_would_help_depends_on_what_is_in_the_way(facts: Facts, expected: list[str]) -> None:
    steps = list(advice(facts))
    assert len(steps) == len(expected)
    assert all(part in step for part, step in zip(expected, steps, strict=True))


def test_the_reference_names_every_key_of_the_json(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    described = REFERENCE.read_text(encoding="utf-8").partition("## `metier doctor")[2]
    _, shape = report(metier, "--skills", tmp_path)
    keys = {*shape, *shape["places"][0], *shape["runners"][0], *shape["runners"][0]["enforces"]}
    assert [key for key in keys if not re.search(rf'[`"]{key}[`"]', described)] == []


def test_agents_that_cannot_work_are_counted_and_where_to_look_is_said(
    metier: Call, write_skill: Write, tmp_path: Path, own_home: Path
) -> None:
    write_skill(tmp_path / "alpha")
    _, shape = report(metier, "--skills", tmp_path)
    assert shape["agents"] == {"usable": 3, "failing": []}
    for name, text in (("clerk", "uses_skills: [beta]"), ("cook", "limits: many"), ("host", "uses_tools: [oven]")):
        folder = own_home / ".metier" / "agents" / name
        folder.mkdir(parents=True)
        (folder / "agent.yaml").write_text(text)
    code, shape = report(metier, "--skills", tmp_path)
    assert (code, shape["agents"]) == (0, {"usable": 4, "failing": ["clerk", "cook"]})
    assert any("`metier agents` says why" in step for step in shape["next"])
    assert "4 agents to ask, 2 with problems." in metier("--skills", tmp_path, "doctor")[1]


def test_the_skills_that_come_with_it_are_clean(metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert report(metier)[1]["diagnostics"] == {}


@pytest.mark.covers("USE-6")
def test_a_warning_names_the_skills_that_it_is_about(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma", "delta", "epsilon"):
        write_skill(tmp_path / name, name=f"{name}-x")
    write_skill(tmp_path / "fine")
    _, out, _ = metier("--skills", tmp_path, "doctor")
    (line,) = (line for line in out.splitlines() if "alpha-x" in line)
    assert "alpha-x, beta-x, delta-x and 2 more" in line
    assert "fine" not in line
