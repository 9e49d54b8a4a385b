"""`metier replay` shows which decisions another policy, or another content, would have changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Metier = Callable[..., tuple[int, str, str]]
SKILL = "---\nname: totals\ndescription: Adds up.\nallowed-tools: Read Bash(git:*)\n---\nAdd.\n"
STEPS = """load totals
call Write {"file_path": "x", "content": "y"}
call Read {"file_path": "a.txt"}
"""
STRICTER = "version: 1\ntools: {deny: [Read]}\n"


@pytest.fixture
def session(metier: Metier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a recorded session."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "skills" / "totals"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (tmp_path / "stricter.yaml").write_text(STRICTER)
    metier("--skills", "skills", "session", "--builtin", "Read", "--builtin", "Write", given=STEPS)
    return str(json.loads(metier("audit", "tail", "--json")[1])["records"][0]["session"])


def shape(metier: Metier, *arguments: str) -> dict[str, Any]:
    code, out, err = metier("--skills", "skills", "replay", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_session_is_decided_again_and_nothing_is_recorded(metier: Metier, session: str) -> None:
    before = metier("audit", "tail", "--json")[1]
    code, out, err = metier("--skills", "skills", "replay", session)
    assert (code, out, err) == (0, "3 decisions of 1 session under no policy file: 3 equal, 0 changed\n", "")
    assert metier("audit", "tail", "--json")[1] == before


def test_another_policy_names_each_decision_that_changes(metier: Metier, session: str, tmp_path: Path) -> None:
    found = shape(metier, session, "--policy", "stricter.yaml")
    assert found["counts"] == {"equal": 2, "changed": 1, "other-rule": 0, "unclear": 0}
    (one,) = found["differences"]
    rule = f"tools: deny Read ({tmp_path / 'stricter.yaml'}:2 (enterprise))"
    assert (one["status"], one["then"]["outcome"], one["now"]) == (
        "changed",
        "allow",
        {"outcome": "deny", "rule": rule, "code": "tool-not-allowed", "would": ""},
    )
    assert (found["by_rule"], found["by_skill"]) == ({rule: 1}, {"totals": 1})
    code, out, _ = metier("--skills", "skills", "replay", "--all", "--policy", "stricter.yaml", "--check")
    assert code == 1
    assert 'call totals Read {"file_path": "a.txt"}  allow  deny  tools: deny Read' in out
    assert f"changed by rule: {rule} 1" in out


def test_another_content_takes_the_place_of_the_one_that_was_used(metier: Metier, session: str, tmp_path: Path) -> None:
    other = tmp_path / "next"
    other.mkdir()
    (other / "SKILL.md").write_text(SKILL.replace("Read", "Write"))
    found = shape(metier, "--all", "--with", "next")
    assert [(one["then"]["outcome"], one["now"]["outcome"]) for one in found["differences"]] == [
        ("deny", "allow"),
        ("allow", "deny"),
    ]
    digest = json.loads(metier("--skills", "skills", "list", "--json")[1])[0]["digest"]
    assert shape(metier, "--all", "--with", f"totals@{digest[7:15]}")["counts"]["equal"] == 3


def test_only_what_came_since_is_replayed(metier: Metier, session: str) -> None:
    assert shape(metier, "--all", "--since", "1h")["decisions"] == 3
    assert shape(metier, "--all", "--since", "2999-01-01")["decisions"] == 0


def test_an_export_is_verified_before_it_is_replayed(metier: Metier, session: str, tmp_path: Path) -> None:
    metier("audit", "export", "-o", "audit.jsonl")
    found = shape(metier, "--all", "--file", "audit.jsonl")
    assert (found["counts"]["equal"], found["verified"]) == (3, True)
    file = tmp_path / "audit.jsonl"
    file.write_text(file.read_text().replace("a.txt", "b.txt"))
    code, out, err = metier("--skills", "skills", "replay", "--all", "--file", "audit.jsonl")
    assert (code, out) == (3, "")
    assert "error [integrity-failed]: The records are not as they were written." in err


def test_records_without_hashes_are_replayed_and_said_to_prove_nothing(
    metier: Metier, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_AUDIT", "plain.jsonl")
    metier("--skills", "skills", "session", "--builtin", "Read", "--builtin", "Write", given=STEPS)
    monkeypatch.delenv("METIER_AUDIT")
    code, out, err = metier("--skills", "skills", "replay", "--all", "--file", "plain.jsonl")
    assert (code, out) == (0, "3 decisions of 1 session under no policy file: 3 equal, 0 changed\n")
    assert "they have no hashes" in err


def test_what_cannot_be_replayed_is_listed_with_its_reason(metier: Metier, session: str, tmp_path: Path) -> None:
    (tmp_path / "skills" / "totals" / "SKILL.md").write_text(SKILL.replace("Add.", "Add all."))
    code, out, _ = metier("--skills", "skills", "--no-cache", "replay", "--all")
    assert code == 0
    assert "3 decisions of 1 session under no policy file: 0 equal, 0 changed, 3 unclear" in out
    assert "content-gone 3: The content of a skill is neither in the library nor kept in the store." in out


WRONG: tuple[tuple[tuple[str, ...], int, str], ...] = (
    ((), 2, "error [invalid-argument]: Which session?"),
    (("x", "--all"), 2, "error [invalid-argument]: Which session?"),
    (("nobody",), 1, "error [session-not-found]: No decision of session 'nobody' is on record."),
    (("--all", "--since", "soon"), 2, "error [invalid-argument]: 'soon' is no time."),
    (("--all", "--with", "nothing"), 2, "error [invalid-argument]: nothing is no content of a skill."),
    (("--all", "--with", "totals@abcdef0"), 1, "error [file-missing]: No content that is kept of skill 'totals'"),
    (("--all", "--policy", "nothing.yaml"), 1, "error [policy-invalid]:"),
    (("--all", "--file", "nothing.jsonl"), 2, "error [invalid-argument]: nothing.jsonl cannot be read"),
)


@pytest.mark.each(("arguments", "code", "message"), WRONG)
def test_what_is_asked_wrongly_is_said(
    arguments: tuple[str, ...], code: int, message: str, metier: Metier, session: str
) -> None:
    found, out, err = metier("--skills", "skills", "replay", *arguments)
    assert (found, out) == (code, "")
    assert err.startswith(message)


def test_without_a_store_there_is_nothing_to_replay(metier: Metier, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert metier("replay", "--all") == (0, "0 decisions of 0 sessions under no policy file: 0 equal, 0 changed\n", "")
