"""`metier add` of signed skills, and what policies want of signatures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.signing import new_key, sign_folder

from metier.cli.identity import system_user
from metier.guard.signatures import SIGNATURE_FILE

Metier = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with two keys, of which one counts."""
    home = Path("~").expanduser()
    keys = tmp_path / "private"
    new_key(keys, "acme")
    new_key(keys, "other")
    (home / ".metier/keys").mkdir(parents=True, exist_ok=True)
    (home / ".metier/keys/acme.pub").write_bytes((keys / "acme.pub").read_bytes())
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return home


@pytest.fixture
def shared(tmp_path: Path, write_skill: Callable[..., Path], home: Path) -> Path:
    folder = tmp_path / "shared/hello"
    write_skill(folder, description="Says hello. Use when greeting.")
    return folder


def signed(folder: Path, key: str) -> str:
    return sign_folder(folder, folder.parent.parent / "private" / f"{key}.key")


def add(metier: Metier, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    code, out, err = metier("add", str(folder), "--to", "project", "--yes", "--json", *more)
    return code, json.loads(out or err)


def policy(home: Path, text: str) -> None:
    (home / ".metier/policy.yaml").write_text(f"version: 1\n{text}\n")


def lock() -> str:
    return Path("metier.lock").read_text()


@pytest.mark.covers("A-38")
def test_the_signer_is_locked_and_shown(metier: Metier, shared: Path) -> None:
    signer = signed(shared, "acme")
    code, shape = add(metier, shared)
    assert code == 0, shape
    assert shape["skills"][0]["signature"] == {"kind": "oms", "signer": signer, "status": "valid"}
    assert f'signer = "{signer}"' in lock()
    assert signer in metier("add", str(shared), "--to", "project", "--dry-run")[1]


@pytest.mark.covers("A-38")
def test_another_signer_or_none_is_denied_until_it_is_accepted_and_that_is_recorded(
    metier: Metier, shared: Path, home: Path, tmp_path: Path
) -> None:
    first = signed(shared, "acme")
    assert add(metier, shared)[0] == 0
    (shared / "SKILL.md").write_text((shared / "SKILL.md").read_text() + "More.\n")
    signed(shared, "other")
    code, shape = add(metier, shared)
    assert (code != 0, shape["error"]["code"]) == (True, "signer-changed")
    (shared / SIGNATURE_FILE).unlink()
    code, shape = add(metier, shared)
    assert shape["error"]["code"] == "signer-changed"
    assert "signer changed" in shape["error"]["message"]
    assert first in lock()
    code, shape = add(metier, shared, "--accept-signer", "They lost the key.")
    assert (code, shape["skills"][0]["exceptions"]) == (0, ["Another signer: They lost the key."])
    assert "signer = " not in lock()
    log = metier("audit", "tail", "--json")[1]
    assert "They lost the key." in log
    assert "signer-changed" in log


@pytest.mark.covers("A-38")
@pytest.mark.each(
    ("change", "code"),
    [
        (lambda folder: (folder / "SKILL.md").write_text("---\nname: hello\ndescription: x\n---\nevil\n"), "mismatch"),
        (lambda folder: (folder / "extra.md").write_text("evil"), "unsigned-file"),
    ],
)
def test_a_tampered_skill_is_not_installed_and_that_is_recorded(
    metier: Metier, shared: Path, change: Callable[[Path], object], code: str
) -> None:
    signed(shared, "acme")
    change(shared)
    status, shape = add(metier, shared, "--allow-unsigned", "x", "--accept-signer", "x")
    assert (status != 0, shape["error"]["code"].endswith(code)) == (True, True), shape
    assert not Path(".metier/skills/hello").exists()
    assert code in metier("audit", "tail", "--json")[1]


@pytest.mark.covers("A-38")
@pytest.mark.parametrize(
    "text", ["sources: {require: {signature: [oms]}}", "sources: {signers: {'dir:*': [oms:keys/acme.pub]}}"]
)
def test_where_policy_wants_a_signature_an_unsigned_skill_is_refused_or_a_recorded_exception(
    metier: Metier, shared: Path, home: Path, text: str
) -> None:
    policy(home, text)
    for key, problem in (("", "signature-missing"), ("other", "signer-unknown")):
        if key:
            signed(shared, key)
        code, shape = add(metier, shared)
        assert (code != 0, shape["error"]["code"]) == (True, problem), shape
    assert "somebody who is not known here" in metier("add", str(shared), "--dry-run")[1]
    code, shape = add(metier, shared, "--allow-unsigned", "From the next desk.")
    assert (code, shape["skills"][0]["exceptions"]) == (0, ["Unsigned: From the next desk."])
    assert 'unsigned = "From the next desk."' in lock()
    assert "From the next desk." in metier("audit", "tail", "--json")[1]
    signed(shared, "acme")
    assert add(metier, shared)[0] == 0
    assert "unsigned = " not in lock()


def test_a_source_that_policy_binds_to_a_key_gives_nothing_that_another_known_key_signed(
    metier: Metier, shared: Path, home: Path, tmp_path: Path
) -> None:
    (home / ".metier/keys/other.pub").write_bytes((tmp_path / "private/other.pub").read_bytes())
    policy(home, "sources: {signers: {'dir:*': [oms:keys/acme.pub]}}")
    signed(shared, "other")
    code, shape = add(metier, shared, "--allow-unsigned", "It is signed.")
    assert (code != 0, shape["error"]["code"]) == (True, "source-denied")
    assert "keys/acme.pub" in shape["error"]["message"]


def test_only_those_who_approve_of_skills_make_exceptions(metier: Metier, shared: Path, home: Path) -> None:
    policy(home, "sources: {require: {signature: [oms]}}\nskill-policy: {approval: {approvers: ['user:ada']}}")
    code, shape = add(metier, shared, "--allow-unsigned", "I want it.")
    assert (code != 0, shape["error"]["code"]) == (True, "not-permitted"), shape
    assert not Path(".metier/skills/hello").exists()


def test_where_people_are_known_a_shell_without_a_person_makes_no_exception(
    metier: Metier, shared: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy(home, "sources: {require: {signature: [oms]}}")
    code, token, _ = metier("user", "add", system_user(), "--role", "admin", "--token")
    assert code == 0
    code, shape = add(metier, shared, "--allow-unsigned", "A model wants it.")
    assert (code != 0, shape["error"]["code"]) == (True, "not-permitted"), shape
    assert not Path(".metier/skills/hello").exists()
    monkeypatch.setenv("METIER_API_TOKEN", token.strip())
    assert add(metier, shared, "--allow-unsigned", "I want it.")[0] == 0


def test_a_skill_is_packed_with_a_signature_that_installing_it_verifies(
    metier: Metier, shared: Path, tmp_path: Path
) -> None:
    key, archive = tmp_path / "private/acme.key", tmp_path / "hello.skill"
    code, out, err = metier("pack", str(shared), "--to", str(archive), "--sign", str(key), "--json")
    assert (code, json.loads(out)["signed"]) == (0, True), err
    code, shape = add(metier, archive)
    assert (code, shape["skills"][0]["signature"]["status"]) == (0, "valid"), shape
    # A signature that is there already stays, so that the archive stays the same.
    signed(shared, "acme")
    packed = []
    for name in ("a.skill", "b.skill"):
        assert metier("pack", str(shared), "--to", str(tmp_path / name), "--sign", str(key))[0] == 0
        packed.append((tmp_path / name).read_bytes())
    assert packed[0] == packed[1]


def test_a_skill_with_a_signature_of_other_content_is_not_packed_unless_it_is_signed_again(
    metier: Metier, shared: Path, tmp_path: Path
) -> None:
    signed(shared, "acme")
    (shared / "SKILL.md").write_text((shared / "SKILL.md").read_text() + "More.\n")
    code, _, err = metier("pack", str(shared), "--to", str(tmp_path / "a.skill"))
    assert (code != 0, "is not what was signed" in err) == (True, True), err
    key = tmp_path / "private/acme.key"
    assert metier("pack", str(shared), "--to", str(tmp_path / "a.skill"), "--sign", str(key))[0] == 0
    code, _, err = metier(
        "pack", str(shared), "--to", str(tmp_path / "b.skill"), "--sign", str(key.with_suffix(".pub"))
    )
    assert (code != 0, "cannot be used" in err) == (True, True), err


@pytest.mark.covers("A-38")
def test_an_update_by_another_signer_is_denied_until_it_is_accepted(
    metier: Metier, shared: Path, tmp_path: Path
) -> None:
    signed(shared, "acme")
    assert add(metier, shared)[0] == 0
    (shared / "SKILL.md").write_text((shared / "SKILL.md").read_text() + "More.\n")
    signed(shared, "other")
    code, out, err = metier("update", "--all", "--yes", "--json")
    assert (code != 0, "signer-changed" in out + err) == (True, True), out + err
    code, out, err = metier("update", "--all", "--yes", "--json", "--accept-signer", "A new team.")
    assert (code, "A new team." in out) == (0, True), out + err


@pytest.mark.covers("A-38")
def test_at_a_terminal_a_changed_signer_is_shown_and_asked_about_and_the_answer_is_recorded(
    metier: Metier, shared: Path, home: Path, tmp_path: Path, typed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = signed(shared, "acme")
    assert add(metier, shared)[0] == 0
    (home / ".metier/keys/other.pub").write_bytes((tmp_path / "private/other.pub").read_bytes())
    (shared / "SKILL.md").write_text((shared / "SKILL.md").read_text() + "More.\n")
    second = signed(shared, "other")
    asked: list[str] = []
    answer = False

    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr("metier.cli.terminal.ask_yes", ask)
    for answer in (False, True):
        code, out, err = metier("update", "--all")
        assert (code == 0, second in lock()) == (answer, answer), out
        assert f"it was {first}, and is {second}" in err
    assert [text.split()[0] for text in asked] == ["Do", "Do", "Update"], asked
    assert "Another signer: accepted at the terminal by " in metier("audit", "tail", "--json")[1]
    (shared / "SKILL.md").write_text((shared / "SKILL.md").read_text() + "Even more.\n")
    signed(shared, "acme")
    asked.clear()
    policy(home, "skill-policy: {approval: {approvers: ['user:ada']}}")
    assert metier("update", "--all")[0] == 1, "who may not decide is not asked"
    assert asked == []
