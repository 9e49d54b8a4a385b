"""Whether skills can work here, and `metier list TEXT`: what `list`, `show` and `doctor` say of it."""

from __future__ import annotations

import json
import re
import stat
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]
Terminal = Callable[..., tuple[int, str]]
Write = Callable[..., Path]

UNREADY = "requires: {bins: [no-such-program]}\n"
ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def as_json(metier: Call, *arguments: str | Path) -> Any:
    code, out, err = metier("--skills", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture
def tagged(write_skill: Write, tmp_path: Path) -> Path:
    """Skills with and without tags, one of them broken, one for another agent."""
    root = tmp_path / "skills"
    write_skill(root / "devops", description="Ships it.")
    write_skill(root / "cutter", description="Cuts films.", more="tags: [Developer, video]\n")
    write_skill(root / "letters", description="Writes to developers.")
    write_skill(root / "dev-secret", more="scope: {agents: [painter]}\n")
    (root / "dev-broken").mkdir()
    (root / "dev-broken" / "SKILL.md").write_bytes(b"")
    return root


@pytest.fixture
def mixed(write_skill: Write, tmp_path: Path) -> Path:
    """One skill that is ready and one that is not."""
    root = tmp_path / "skills"
    write_skill(root / "alpha", description="Does a.")
    write_skill(root / "cutter", description="Cuts films.", more=UNREADY)
    return root


# --- list TEXT ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("Y-15")
@pytest.mark.each(
    ("text", "expected"),
    [
        ("dev", ["cutter", "devops"]),
        ("DEV", ["cutter", "devops"]),
        ("vOp", ["devops"]),
        ("video", ["cutter"]),
        ("e", ["cutter", "devops", "letters"]),
        ("films", []),
        ("developers", []),
        ("*", []),
        ("", ["cutter", "devops", "letters"]),
    ],
)
def test_only_skills_whose_name_or_a_tag_contains_a_text_are_listed(
    metier: Call, tagged: Path, text: str, expected: list[str]
) -> None:
    assert [shape["name"] for shape in as_json(metier, tagged, "list", text)] == expected


@pytest.mark.covers("Y-15")
def test_the_table_has_only_what_contains_the_text(metier: Call, tagged: Path) -> None:
    code, out, err = metier("--skills", tagged, "list", "dev")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "NAME    LAYER    DESCRIPTION",
        "cutter  project  Cuts films.",
        "devops  project  Ships it.",
    ]
    assert lines[3].startswith("2 skills.")


@pytest.mark.covers("Y-15")
def test_with_all_the_broken_and_hidden_ones_must_contain_it_too(metier: Call, tagged: Path) -> None:
    shapes = as_json(metier, tagged, "list", "--all", "DEV-")
    assert [(shape["name"], shape["status"]) for shape in shapes] == [
        ("dev-broken", "broken"),
        ("dev-secret", "hidden"),
    ]
    _, out, _ = metier("--skills", tagged, "list", "dev-", "--all")
    assert [line.split()[0] for line in out.splitlines()[1:-1]] == ["dev-broken", "dev-secret"]


@pytest.mark.covers("Y-15")
@pytest.mark.parametrize("options", [[], ["--all"]])
def test_a_text_that_nothing_contains_is_fine_and_says_where_else_to_look(
    metier: Call, tagged: Path, options: list[str]
) -> None:
    code, out, err = metier("--skills", tagged, "list", "films", *options)
    assert (code, err) == (0, "")
    assert out == "No name or tag contains 'films'. `metier search` looks at everything they say.\n"
    assert as_json(metier, tagged, "list", "films", *options) == []


@pytest.mark.covers("O-100")
def test_a_hidden_skill_is_not_listed_by_a_part_of_its_name(metier: Call, tagged: Path) -> None:
    assert as_json(metier, tagged, "list", "secret") == []
    assert [shape["name"] for shape in as_json(metier, tagged, "list", "secret", "--agent", "painter")] == [
        "dev-secret"
    ]


@pytest.mark.each("text", ["\x1b[2J", "a\nb", "\u202e", "\udcff", "x" * 10_000, "'", "%s{0}"])
def test_a_text_that_acts_on_a_terminal_is_shown_and_never_sent(metier: Call, tagged: Path, text: str) -> None:
    code, out, err = metier("--skills", tagged, "list", text)
    assert (code, err) == (0, "")
    assert out.startswith("No name or tag contains ")
    assert ACTING.search(out) is None
    assert len(out.splitlines()) == 1
    assert len(out) < 2_000


# --- list --------------------------------------------------------------------------------------------------------


def test_there_is_no_column_for_readiness_when_all_are_ready(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", more="requires: {tools: [browser]}\n")
    _, out, _ = metier("--skills", tmp_path, "list")
    assert out.splitlines() == ["NAME   LAYER    DESCRIPTION", "alpha  project  Does it.", "1 skill."]


def test_a_skill_that_is_not_ready_brings_the_column(metier: Call, mixed: Path) -> None:
    code, out, err = metier("--skills", mixed, "list")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "NAME    LAYER    READY                          DESCRIPTION",
        "alpha   project  ready                          Does a.",
        "cutter  project  missing bins: no-such-program  Cuts films.",
        "2 skills. 1 cannot work here; `metier show NAME` says what is missing.",
    ]


def test_the_column_is_only_there_for_what_is_listed(metier: Call, mixed: Path) -> None:
    assert "READY" not in metier("--skills", mixed, "list", "alpha")[1]
    assert "READY" in metier("--skills", mixed, "list", "cut")[1]


def test_with_all_the_status_says_what_is_missing(metier: Call, mixed: Path) -> None:
    _, out, _ = metier("--skills", mixed, "list", "--all")
    assert "READY" not in out
    assert re.search(r"^alpha +project +skills +active +Does a\.$", out, re.MULTILINE)
    assert re.search(r"^cutter +project +skills +missing bins: no-such-program +Cuts films\.$", out, re.MULTILINE)


def test_with_all_a_broken_or_shadowed_skill_keeps_its_status(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "one" / "cutter")
    write_skill(tmp_path / "two" / "cutter", more=UNREADY)
    (tmp_path / "two" / "broken").mkdir()
    (tmp_path / "two" / "broken" / "SKILL.md").write_bytes(b"")
    _, out, _ = metier("--skills", tmp_path / "one", "--skills", tmp_path / "two", "list", "--all")
    assert {tuple(line.split()[:4:3]) for line in out.splitlines()[1:-1]} == {
        ("broken", "broken"),
        ("cutter", "active"),
        ("cutter", "shadowed"),
    }


def test_json_says_what_is_missing_and_what_only_the_agent_can_tell(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "alpha")
    more = "requires: {bins: [no-such-program], env: [NO_SUCH_VARIABLE], tools: [browser], mcp: [github]}\n"
    write_skill(tmp_path / "cutter", more=more)
    alpha, cutter = as_json(metier, tmp_path, "list")
    assert alpha["readiness"] == {"ready": True, "missing": {}, "unknown": {}}
    assert cutter["readiness"] == {
        "ready": False,
        "missing": {"bins": ["no-such-program"], "env": ["NO_SUCH_VARIABLE"]},
        "unknown": {"tools": ["browser"], "mcp": ["github"]},
    }


def test_json_says_which_skills_are_not_for_models(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    write_skill(tmp_path / "deploy", more="disable-model-invocation: true\n")
    assert [shape["hidden_from_models"] for shape in as_json(metier, tmp_path, "list")] == [False, True]


def test_a_variable_that_is_set_makes_a_skill_ready(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "alpha", more="requires: {env: [METIER_TEST_KEY]}\n")
    monkeypatch.delenv("METIER_TEST_KEY", raising=False)
    assert "missing env: METIER_TEST_KEY" in metier("--skills", tmp_path, "list")[1]
    monkeypatch.setenv("METIER_TEST_KEY", "x")
    assert "READY" not in metier("--skills", tmp_path, "list")[1]


@pytest.mark.skipif(sys.platform == "win32", reason="this is how POSIX systems start programs")
def test_a_program_that_was_installed_makes_a_skill_ready(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "skills" / "cutter", more=UNREADY)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "READY" in metier("--skills", tmp_path / "skills", "list")[1]
    program = tmp_path / "bin" / "no-such-program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert "READY" not in metier("--skills", tmp_path / "skills", "list")[1]


def _columns(line: str) -> int:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain)


@pytest.mark.parametrize("options", [[], ["--all"]], ids=["list", "all"])
def test_a_long_name_and_much_that_is_missing_leave_the_table_within_the_terminal(
    terminal: Terminal, write_skill: Write, tmp_path: Path, options: list[str]
) -> None:
    name = "quarterly-financial-statement-reconciliation"
    write_skill(tmp_path / name, more="requires: {bins: [no-such-program-one, no-such-program-two]}\n")
    _, out = terminal("--skills", tmp_path, "list", *options, columns=80)
    assert max(map(_columns, out.splitlines()[:2])) <= 80


# --- show --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "ready"),
        ("requires: {bins: [no-such-program]}\n", "missing bins: no-such-program"),
        ("requires: {tools: [browser]}\n", "ready; the agent must have tools browser"),
        (
            "requires: {tools: [browser, shell], mcp: [github]}\n",
            "ready; the agent must have tools browser, shell and mcp github",
        ),
        (
            "requires: {env: [NO_SUCH_VARIABLE], any-bins: [no-such-a, no-such-b], tools: [browser]}\n",
            "missing any-bins: no-such-a, no-such-b; env: NO_SUCH_VARIABLE; the agent must have tools browser",
        ),
    ],
)
def test_readiness_is_a_row_of_what_is_shown(
    metier: Call, write_skill: Write, tmp_path: Path, more: str, said: str
) -> None:
    write_skill(tmp_path / "alpha", more=more)
    code, out, err = metier("--skills", tmp_path, "show", "alpha")
    assert (code, err) == (0, "")
    assert re.search(rf"^readiness +{re.escape(said)}$", out, re.MULTILINE)


def test_json_of_one_skill_has_its_readiness(metier: Call, mixed: Path) -> None:
    shape = as_json(metier, mixed, "show", "cutter")
    assert shape["readiness"] == {"ready": False, "missing": {"bins": ["no-such-program"]}, "unknown": {}}


# --- doctor ------------------------------------------------------------------------------------------------------


def test_what_cannot_work_here_has_its_section_and_is_no_problem(metier: Call, mixed: Path) -> None:
    code, out, err = metier("--skills", mixed, "doctor")
    assert (code, err) == (0, "")
    assert "\nCANNOT WORK HERE  WHY\ncutter            missing bins: no-such-program\n" in out
    assert "→ Some skills cannot work here: install what is missing" in out
    assert "Nothing needs to be done" not in out


def test_there_is_no_section_when_all_can_work(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", more="requires: {tools: [browser]}\n")
    _, out, _ = metier("--skills", tmp_path, "doctor")
    assert "CANNOT WORK HERE" not in out
    assert "→ Nothing needs to be done." in out


def test_json_maps_names_of_what_cannot_work_to_the_reason(metier: Call, mixed: Path) -> None:
    report = as_json(metier, mixed, "doctor")
    assert report["ok"] is True
    assert report["active"] == 2
    assert report["unready"] == {"cutter": "missing bins: no-such-program"}
    assert any("cannot work here" in step for step in report["next"])


def test_no_more_of_them_are_printed_than_one_can_read_and_json_has_all(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    for number in range(13):
        write_skill(tmp_path / f"cutter-{number}", more=UNREADY)
    _, out, _ = metier("--skills", tmp_path, "doctor")
    assert out.count("missing bins: no-such-program") == 10
    assert "and 3 more; `metier list` shows them" in out
    assert len(as_json(metier, tmp_path, "doctor")["unready"]) == 13


def test_a_shadowed_skill_that_cannot_work_is_not_mentioned(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "one" / "cutter")
    write_skill(tmp_path / "two" / "cutter", more=UNREADY)
    assert as_json(metier, tmp_path / "one", "--skills", tmp_path / "two", "doctor")["unready"] == {}


@pytest.mark.covers("O-100")
def test_a_hidden_skill_that_cannot_work_is_not_mentioned(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "secret", more=f"scope: {{agents: [painter]}}\n{UNREADY}")
    assert as_json(metier, tmp_path, "doctor")["unready"] == {}
    assert list(as_json(metier, tmp_path, "doctor", "--agent", "painter")["unready"]) == ["secret"]


# --- words of a stranger -----------------------------------------------------------------------------------------


@pytest.mark.each("arguments", [["list"], ["list", "--all"], ["show", "evil"], ["doctor"]])
def test_requirements_that_act_on_a_terminal_are_never_sent(
    terminal: Terminal, write_skill: Write, tmp_path: Path, arguments: list[str]
) -> None:
    text = json.dumps("x\x1b[2J\x9b31m\u202e\r\ny")
    kinds = ", ".join(f"{kind}: [{text}, no-such-thing]" for kind in ("bins", "any-bins", "env", "os", "tools", "mcp"))
    write_skill(tmp_path / "evil", more=f"requires: {{{kinds}}}\n")
    code, out = terminal("--skills", tmp_path, *arguments, columns=1_000, env={"NO_COLOR": "1"})
    assert code == 0
    assert "missing bins: no-such-thing" in out
    assert ACTING.search(out) is None, repr(out)
    assert "\r" not in out.replace("\r\n", "")
