"""The script that looks for credentials; the keys are put together, so none stands in this file."""

from __future__ import annotations

import json
import os
import random
import string
from pathlib import Path
from typing import Any

import pytest
from tests.bundled import in_process

SKILL = Path(__file__).parents[2] / "src/metier/bundled/secret-check"


def letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    chooser = random.Random(count)
    return "".join(chooser.choice(alphabet) for _ in range(count))


UPPER = string.ascii_uppercase + "234567"
HEX = string.digits + "abcdef"
KEYS = {
    "aws-access-key": "AK" + "IA" + letters(16, UPPER),
    "github-token": "gh" + "p_" + letters(36),
    "gitlab-token": "gl" + "pat-" + letters(20),
    "slack-token": "xo" + "xb-" + letters(30),
    "slack-webhook": "https://hooks.sl" + "ack.com/services/" + letters(30),
    "stripe-key": "sk_" + "live_" + letters(24),
    "google-api-key": "AI" + "za" + letters(35),
    "anthropic-key": "sk-" + "ant-api03-" + letters(60),
    "openai-key": "sk-" + "proj-" + letters(48),
    "huggingface-token": "h" + "f_" + letters(34),
    "npm-token": "np" + "m_" + letters(36),
    "pypi-token": "py" + "pi-AgE" + letters(60),
    "sendgrid-key": "S" + "G." + letters(22) + "." + letters(43),
    "digitalocean-token": "do" + "p_v1_" + letters(64, HEX),
    "telegram-token": "123456789" + ":AA" + letters(33),
    "json-web-token": "ey" + "J" + letters(20) + ".ey" + "J" + letters(30) + "." + letters(30),
    "private-key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + letters(64) + "\n-----END",
}
TOKEN = KEYS["github-token"]
PASSWORD = "hT7" + "!k9zQw2"


def run(path: Path | str, *arguments: str | Path, given: str = "") -> tuple[int, str, str]:
    done = in_process.run(SKILL / "scripts/find_secrets.py", path, *arguments, given=given)
    return done.returncode, done.stdout, done.stderr


def search(path: Path, *arguments: str | Path) -> dict[str, Any]:
    code, output, error = run(path, "--json", *arguments)
    assert code in {0, 1}, error
    found: dict[str, Any] = json.loads(output)
    assert code == (1 if found["findings"] else 0)
    return found


def rules(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"]]


@pytest.mark.parametrize("rule", KEYS)
def test_a_known_format_is_found_and_redacted(tmp_path: Path, rule: str) -> None:
    (tmp_path / "a.txt").write_text(f"x\nvalue {KEYS[rule]} here\n", encoding="utf-8")
    code, output, _ = run(tmp_path, "--json")
    (finding,) = json.loads(output)["findings"]
    assert (finding["rule"], finding["confidence"], finding["line"]) == (rule, "high", 2)
    assert code == 1
    assert KEYS[rule][8:30] not in output


@pytest.mark.parametrize(
    "line",
    [
        f'password = "{PASSWORD}"',
        f"DB_PASSWORD={PASSWORD}",
        f'"api_key": "{PASSWORD}"',
        f"secret_token: {PASSWORD}",
    ],
)
def test_a_literal_assigned_to_a_secret_name_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.cfg").write_text(line + "\n", encoding="utf-8")
    assert rules(search(tmp_path)) == ["assigned-secret"]
    assert PASSWORD not in run(tmp_path)[1]


@pytest.mark.parametrize(
    "line",
    [
        'password = "changeme"',
        'password = "your-password-here"',
        "password = os.environ['PASSWORD']",
        "token = ${TOKEN}",
        "token = get_token(user)",
        "password: string",
        'api_key = "xxxxxxxxxxxx"',
        'aws = "AKIAIOSFODNN7' + 'EXAMPLE"',
        "the secret: write less code",
        "url = postgres://user:password@host/db",
    ],
)
def test_a_placeholder_or_code_is_not_reported(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(line + "\n", encoding="utf-8")
    assert rules(search(tmp_path)) == []


def test_a_password_in_a_url_is_found(tmp_path: Path) -> None:
    text = f"postgres://app:{PASSWORD}@db/x"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert rules(search(tmp_path)) == ["password-in-url"]


def test_a_random_string_has_low_confidence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f'x = "{letters(44)}"\n', encoding="utf-8")
    (finding,) = search(tmp_path)["findings"]
    assert (finding["rule"], finding["confidence"]) == ("random-string", "low")
    assert rules(search(tmp_path, "--min-confidence", "medium")) == []


def test_random_strings_in_a_lock_file_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(f'x = "{letters(44)}"\n', encoding="utf-8")
    assert rules(search(tmp_path)) == []


def test_a_file_full_of_random_strings_is_cut_short(tmp_path: Path) -> None:
    lines = "".join(f'"{letters(40 + n)}"\n' for n in range(20))
    (tmp_path / "a.txt").write_text(lines, encoding="utf-8")
    found = search(tmp_path)
    assert (len(found["findings"]), found["findings_left_off"]) == (5, 15)


def test_one_secret_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f'token = "{TOKEN}"\n', encoding="utf-8")
    assert rules(search(tmp_path)) == ["github-token"]


@pytest.mark.parametrize("folder", [".git", "node_modules", "__pycache__"])
def test_folders_that_are_not_shared_are_skipped(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "a.txt").write_text(TOKEN, encoding="utf-8")
    assert rules(search(tmp_path)) == []


def test_a_hidden_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"GITHUB={TOKEN}\n", encoding="utf-8")
    assert rules(search(tmp_path)) == ["github-token"]


def test_a_binary_file_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1\2" + TOKEN.encode())
    assert search(tmp_path)["files"] == 0


def test_a_utf_16_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"x {TOKEN}\n".encode("utf-16"))
    assert rules(search(tmp_path)) == ["github-token"]


def test_a_file_in_another_encoding_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9 " + TOKEN.encode())
    assert rules(search(tmp_path)) == ["github-token"]


def test_archives_and_large_files_are_listed_as_not_searched(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK")
    (tmp_path / "b.txt").write_text("x" * 100, encoding="utf-8")
    found = search(tmp_path, "--max-bytes", "50")
    assert [entry["path"] for entry in found["skipped"]] == ["a.zip", "b.txt"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(TOKEN, encoding="utf-8")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/link.txt").symlink_to(outside)
    found = search(tmp_path / "shared")
    assert (rules(found), found["skipped_count"]) == ([], 1)


def test_a_key_store_is_reported_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "release.p12").write_bytes(b"\0\0")
    assert rules(search(tmp_path)) == ["risky-file"]


def test_the_baseline_hides_what_is_known_also_when_it_moves(tmp_path: Path) -> None:
    folder, baseline = tmp_path / "shared", tmp_path / "known.json"
    folder.mkdir()
    (folder / "a.txt").write_text(TOKEN, encoding="utf-8")
    search(folder, "--write-baseline", baseline)
    (folder / "a.txt").write_text(f"\n\n{TOKEN}", encoding="utf-8")
    found = search(folder, "--baseline", baseline)
    assert (rules(found), found["ignored_by_baseline"]) == ([], 1)


def test_the_baseline_does_not_hide_another_value(tmp_path: Path) -> None:
    folder, baseline = tmp_path / "shared", tmp_path / "known.json"
    folder.mkdir()
    (folder / "a.txt").write_text(KEYS["private-key"], encoding="utf-8")
    search(folder, "--write-baseline", baseline)
    other = KEYS["private-key"].replace(letters(64), letters(65))
    (folder / "a.txt").write_text(other, encoding="utf-8")
    assert rules(search(folder, "--baseline", baseline)) == ["private-key"]


def test_the_baseline_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{TOKEN}\npassword = '{PASSWORD}'\n", encoding="utf-8")
    search(tmp_path, "--write-baseline", tmp_path / "known.json")
    written = (tmp_path / "known.json").read_text("utf-8")
    assert TOKEN[8:] not in written
    assert PASSWORD not in written


@pytest.mark.parametrize("text", ["", "{", "[]", '{"findings": [1]}'])
def test_a_broken_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.json").write_text(text, encoding="utf-8")
    assert run(tmp_path, "--baseline", tmp_path / "known.json")[0] == 2


def test_a_line_can_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"{TOKEN}  # secret-check: allow\n", encoding="utf-8")
    found = search(tmp_path)
    assert (rules(found), found["allowed_inline"]) == ([], 1)


def test_an_excluded_path_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text(TOKEN, encoding="utf-8")
    assert rules(search(tmp_path, "--exclude", "docs/*")) == []


def test_rules_of_ones_own_can_be_given(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[rule]]\nname = "acme"\nhints = ["acme_"]\npattern = "acme_[0-9]{4}"\n', "utf-8")
    (tmp_path / "a.txt").write_text("acme_" + "1234", encoding="utf-8")
    assert rules(search(tmp_path / "a.txt", "--rules", own)) == ["acme"]


@pytest.mark.parametrize("text", ["x = [", "a = 1", '[[rule]]\nname="a"\nhints=[]\npattern="("'])
def test_broken_rules_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")
    assert run(tmp_path, "--rules", tmp_path / "own.toml")[0] == 2


def test_the_standard_input_is_searched() -> None:
    assert run("-", given=f"+{TOKEN}\n")[0] == 1


def test_a_single_file_is_searched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TOKEN, encoding="utf-8")
    assert rules(search(tmp_path / "a.txt")) == ["github-token"]


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    assert search(tmp_path)["findings"] == []


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    code, _, error = run(tmp_path / "no")
    assert code == 2
    assert "does not exist" in error


def test_the_bundled_skills_themselves_hold_no_secret() -> None:
    assert rules(search(SKILL.parent)) == []
