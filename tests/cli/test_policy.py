"""`metier policy`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.guard.policy.schema import KEYS

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy of administrators, while somebody stands in a project with a skill."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\n")
    monkeypatch.setenv("METIER_POLICY", str(path))
    return path


@pytest.fixture
def project(ours: Path) -> Path:
    """The policy of the project, not written yet."""
    path = ours.parent / "project" / ".metier" / "policy.yaml"
    path.parent.mkdir()
    return path


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    write_skill(tmp_path / "skills" / "pdf", more="allowed-tools: Read, Bash(git:*)\n")
    (tmp_path / "skills" / "pdf" / "scripts").mkdir()
    (tmp_path / "skills" / "pdf" / "scripts" / "fill.py").write_text("print(1)\n")
    return tmp_path / "skills"


@pytest.fixture
def explain(metier: Call, skills: Path) -> Callable[..., dict[str, Any]]:
    def ask(*arguments: str) -> dict[str, Any]:
        code, out, err = metier("policy", "explain", *arguments, "--skills", skills, "--json")
        assert (code, err) == (0, "")
        answer: dict[str, Any] = json.loads(out)
        return answer

    return ask


# --- check ------------------------------------------------------------------------------------------------------------


def test_files_without_problems_are_fine(metier: Call, ours: Path) -> None:
    assert metier("policy", "check") == (0, "✓ 1 policy file without problems\n", "")


def test_without_files_the_defaults_hold(metier: Call, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_POLICY")
    code, out, err = metier("policy", "check")
    assert (code, err) == (0, "")
    assert "the defaults hold" in out


def test_an_error_is_told_with_file_line_and_hint_and_counts(metier: Call, ours: Path) -> None:
    ours.write_text("version: 1\nmode: audti\n")
    code, out, err = metier("policy", "check")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        f"{ours}:2: error: `mode` cannot be 'audti'.",
        "  → Write one of off, audit, enforce.",
        "1 error and 0 warnings",
    ]


@pytest.mark.covers("A-3")
def test_what_is_ignored_is_a_warning_that_names_the_layer_that_wins(metier: Call, ours: Path, project: Path) -> None:
    ours.write_text("sources:\n  allow: ['dir:*']\n")
    project.write_text("sources:\n  allow: ['git+https://github.com/acme/*']\n")
    code, out, err = metier("policy", "check")
    assert (code, err) == (0, "")
    assert f"{project}:2: warning: `sources.allow` is ignored" in out
    assert "the layer enterprise wins" in out
    assert f"See {ours}:2 (enterprise)" in out


def test_named_files_are_checked_by_themselves(metier: Call, ours: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("mode: off\n")
    bad.write_text("tools: [\n")
    assert metier("policy", "check", good)[0] == 0
    code, out, _ = metier("policy", "check", good, bad, tmp_path / "gone.yaml", "--json")
    report = json.loads(out)
    assert code == 1
    assert [Path(file["path"]).name for file in report["files"]] == ["good.yaml", "bad.yaml", "gone.yaml"]
    assert {Path(problem["path"]).name for problem in report["problems"]} == {"bad.yaml", "gone.yaml"}
    assert all(problem["line"] >= 1 and problem["hint"] for problem in report["problems"])


def test_nothing_in_a_file_acts_on_a_terminal(metier: Call, ours: Path) -> None:
    ours.write_bytes(b"mode: '\x1b[2J'\n\"a\\e[31m\": 1\n\xff\xfe: 3\n")
    code, out, _ = metier("policy", "check")
    assert code == 1
    assert "\x1b" not in out


# --- show -------------------------------------------------------------------------------------------------------------


def test_every_key_is_shown_with_what_set_it(metier: Call, ours: Path, project: Path) -> None:
    ours.write_text("mode: audit\nskills:\n  deny: ['crypto-*']\n")
    project.write_text("mode: enforce\nskills: {deny: [miner]}\n")
    code, out, err = metier("policy", "show")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()[1:]}
    assert rows.keys() == KEYS.keys()
    assert rows["mode"] == "./.metier/policy.yaml:1 (project) enforce"
    assert rows["skills.deny"] == f"{ours}:3 (enterprise), ./.metier/policy.yaml:2 (project) crypto-*, miner"
    assert rows["on-error"] == "default deny"


def test_what_is_shown_as_json_has_all_of_it(metier: Call, ours: Path) -> None:
    ours.write_text("mode: audit\nskill-policy: {approval: {expires: 7d}}\n")
    code, out, _ = metier("policy", "show", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["files"] == [
        {"layer": "enterprise", "path": str(ours), "digest": report["files"][0]["digest"], "is_broken": False}
    ]
    assert report["values"]["skill-policy.approval.expires"] == {"value": "7d", "set_by": [f"{ours}:2 (enterprise)"]}
    assert report["values"]["skill-policy.require-approval-for"]["value"]["all layers"] == []
    assert report["values"].keys() == KEYS.keys()


def test_a_section_can_be_shown_alone_and_a_key_that_is_none_is_told(metier: Call, ours: Path) -> None:
    _, out, _ = metier("policy", "show", "sources.require")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "sources.require.digest",
        "sources.require.pinned",
        "sources.require.signature",
    ]
    code, _, err = metier("policy", "show", "colour")
    assert code == 2
    assert "no key 'colour'" in err


# --- explain ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "decision"), [("p\u0501f", "deny"), ("pdf2", "allow")])
def test_a_name_that_looks_like_that_of_another_skill_is_explained(
    explain: Callable[..., dict[str, Any]], ours: Path, name: str, decision: str
) -> None:
    layers = "[enterprise, personal, project, plugin]"
    rule = f"{{id: R4, point: install, when: {{name-collides-with: {layers}}}, effect: deny}}"
    ours.write_text(f"version: 1\nrules:\n  - {rule}\n")
    assert explain(name, "--source", "dir:/elsewhere")["decision"] == decision


@pytest.mark.covers("A-3")
def test_a_source_that_administrators_do_not_allow_is_explained_by_their_line(
    explain: Callable[..., dict[str, Any]], ours: Path, project: Path
) -> None:
    ours.write_text("version: 1\nsources:\n  allow: ['dir:*']\n")
    project.write_text("sources: {allow: ['git+https://github.com/acme/*']}\n")
    answer = explain("new-skill", "--source", "git+https://github.com/acme/skills")
    assert answer["decision"] == "deny"
    assert f"{ours}:3 (enterprise)" in answer["rule"]
    assert answer["considered"][0]["origin"]["line"] == 3


@pytest.mark.covers("A-6")
def test_a_broken_policy_is_explained_by_the_place_of_its_error(
    explain: Callable[..., dict[str, Any]], ours: Path
) -> None:
    ours.write_text("mode: enforce\non-error: deny\ntools: [\n")
    answer = explain("pdf")
    assert answer["decision"] == "deny"
    assert f"{ours}:3" in answer["rule"]
    ours.write_text("mode: audit\ntools: [\n")
    answer = explain("pdf")
    assert (answer["decision"], answer["would"]) == ("allow", "deny")


def test_files_are_named_as_one_would_type_them_from_here(
    metier: Call, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, text in ((own_home, "tools: {deny: [WebFetch]}"), (tmp_path, "tools: {ask: [Bash]}")):
        (folder / ".metier").mkdir(exist_ok=True)
        (folder / ".metier/policy.yaml").write_text(f"version: 1\n{text}\n")
    _, out, _ = metier("policy", "show", "tools")
    assert "tools.deny           ~/.metier/policy.yaml:2 (personal)  [WebFetch]" in out
    assert "./.metier/policy.yaml:2 (project)" in out
    _, out, _ = metier("policy", "show", "tools", "--json")
    assert str(own_home) in out


def test_without_a_policy_file_it_is_said_where_one_may_be(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = metier("policy", "check")
    assert (code, "`~/.metier/policy.yaml`" in out) == (0, True)


def test_an_answer_fits_on_a_screen_and_names_rule_file_and_line(metier: Call, ours: Path, skills: Path) -> None:
    ours.write_text(
        "rules:\n  - {id: R1, point: script-run, effect: ask, reason: Scripts are new here.}\nrun: {scripts: ask}"
    )
    code, out, err = metier("policy", "explain", "pdf", "--script", "scripts/fill.py", "--skills", skills)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("ask  script-run · pdf@")
    assert any("rule R1" in line and f"{ours}:2 (enterprise)" in line for line in lines)
    assert any("run.scripts" in line and f"{ours}:3" in line for line in lines)
    assert len(lines) < 24


def test_to_run_a_script_is_explained_with_what_loading_takes(
    explain: Callable[..., dict[str, Any]], ours: Path
) -> None:
    ours.write_text("rules:\n  - {id: R1, point: activate, effect: deny}")
    answer = explain("pdf", "--script", "scripts/fill.py")
    assert answer["decision"] == "deny"
    assert answer["rule"].startswith("rule R1")
    assert [one["check"] for one in answer["considered"]].count("rule R1") == 1
    ours.write_text("rules:\n  - {id: R1, point: activate, effect: ask}\n  - {id: R2, point: script-run, effect: deny}")
    answer = explain("pdf", "--script", "scripts/fill.py")
    assert (answer["decision"], answer["rule"].partition(" (")[0]) == ("deny", "rule R2")
    assert [one["check"] for one in answer["considered"]] == ["rule R1", "rule R2"]


@pytest.mark.each(
    ("arguments", "decision", "rule"),
    [
        (("pdf", "--command", "git status"), "allow", ""),
        (("pdf", "--command", "git push"), "deny", "Bash(git push *)"),
        (("pdf", "--tool", "WebFetch", "--args", '{"url": "https://x.test"}'), "deny", "allowed-tools"),
        (("--tool", "WebFetch"), "ask", "tools: ask WebFetch"),
        (("--command", "git push"), "deny", "Bash(git push *)"),
    ],
)
def test_a_call_is_explained_by_policy_and_by_what_the_skill_declares(
    explain: Callable[..., dict[str, Any]], ours: Path, arguments: tuple[str, ...], decision: str, rule: str
) -> None:
    ours.write_text("tools:\n  deny: ['Bash(git push *)']\n  ask: [WebFetch]\n")
    answer = explain(*arguments)
    assert answer["decision"] == decision
    assert rule in answer["rule"]


@pytest.mark.parametrize("point", ["load", "activate"])
def test_points_go_by_both_names(explain: Callable[..., dict[str, Any]], ours: Path, point: str) -> None:
    ours.write_text("skills: {deny: [pdf]}")
    assert explain("pdf", "--point", point)["decision"] == "deny"


@pytest.mark.each(
    ("arguments", "said"),
    [
        (("--point", "sleep"), "no point of decision 'sleep'"),
        ((), "No skill is named"),
        (("pdf", "--point", "tool-call"), "No tool is named"),
        (("pdf", "--tool", "Bash", "--command", "x"), "stands for"),
        (("pdf", "--tool", "Bash", "--args", "[1"), "no JSON object"),
        (("pdff",), "'pdff'"),
    ],
)
def test_a_question_that_is_none_is_told(
    metier: Call, ours: Path, skills: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = metier("policy", "explain", *arguments, "--skills", skills)
    assert (code, out) == (1 if arguments == ("pdff",) else 2, "")
    assert said in err


# --- test -------------------------------------------------------------------------------------------------------------


CASES = """\
- {name: no curl, skill: pdf, command: curl x, expect: deny, rule: tools}
- {skill: pdf, expect: allow}
- {skill: crypto-x, layer: plugin, expect: deny, rule: skills.deny}
- {tool: WebFetch, args: {url: "https://x.test"}, expect: ask}
"""


@pytest.fixture
def cases(ours: Path) -> Path:
    ours.write_text("tools: {deny: ['Bash(curl *)'], ask: [WebFetch]}\nskills: {deny: ['crypto-*']}\n")
    path = ours.parent / "cases.yaml"
    path.write_text(CASES)
    return path


def test_cases_that_come_out_as_expected_are_fine(metier: Call, cases: Path, skills: Path) -> None:
    code, out, err = metier("policy", "test", cases, "--skills", skills)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "4 cases, all as expected"
    assert [line.split()[0] for line in out.splitlines()[1:5]] == ["ok"] * 4


def test_a_case_that_fails_is_told_and_counts(metier: Call, cases: Path, skills: Path) -> None:
    cases.write_text("cases:\n  - {skill: pdf, expect: deny}\n  - {skill: gone, expect: allow}\n")
    code, out, _ = metier("policy", "test", cases, "--skills", skills, "--json")
    report = json.loads(out)
    assert (code, report["failed"]) == (1, 2)
    assert [(one["line"], one["decision"]) for one in report["cases"]] == [(2, "allow"), (3, "error")]


@pytest.mark.each(
    ("text", "said"),
    [
        ("", "there are no cases"),
        ("a: b", "there are no cases"),
        ("- x", ":1: case 1 is text"),
        ("- {skill: pdf}", ":1: case 1 expects nothing"),
        ("- {skill: pdf, expect: maybe}", "expects maybe"),
        ("- {skil: pdf, expect: deny}", "`skil` is no part"),
        ("- {skill: [pdf], expect: deny}", "`skill` is a list"),
        ("- {skill: a, skill: b, expect: deny}", "given twice"),
        ("- {skill: a, by: cat, expect: deny}", "by nobody"),
        ("- [", "YAML cannot be read"),
    ],
)
def test_a_file_of_cases_that_is_none_is_told_with_its_line(
    metier: Call, cases: Path, skills: Path, text: str, said: str
) -> None:
    cases.write_text(text)
    code, out, err = metier("policy", "test", cases, "--skills", skills)
    assert (code, out) == (1, "")
    assert said in err and "hint" in err


def test_a_file_of_cases_that_cannot_be_read_is_told(metier: Call, cases: Path, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone.yaml"):
        code, _, err = metier("policy", "test", path)
        assert code == 1
        assert "cannot be read" in err


@pytest.mark.covers("USE-4")
@pytest.mark.each(("command", "code"), [("git status", 0), ("rm x", 1), ("git push", 4)])
def test_the_exit_code_says_the_decision_where_that_is_asked_for(
    metier: Call, ours: Path, command: str, code: int
) -> None:
    ours.write_text("version: 1\ntools:\n  deny: ['Bash(rm:*)']\n  ask: ['Bash(git push:*)']\n")
    words = ["policy", "explain", "--command", command]
    assert metier(*words)[0] == 0
    assert metier(*words, "--check")[0] == code
    assert metier(*words, "--check", "--json")[0] == code
