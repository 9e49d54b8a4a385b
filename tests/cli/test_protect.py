"""`metier protect`: hooks in the files of clients, put in and taken out, whatever else is written there."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli.client_protection import protect_client
from metier.cli.hook_files import HOOK_FILES, is_our_hook
from metier.cli.json_text import json_data
from metier.library.places import default_config_folder

Call = Callable[..., tuple[int, str, str]]

JSON_CLIENTS = [client for client, row in HOOK_FILES.items() if not row.plugin]
OWN_HOOK = {"command": "./mine.sh"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    """The program is written once for all: what it is has tests of its own."""
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("metier.serve.client_hooks.fast_client.hook_program", lambda: "")
    monkeypatch.setattr("metier.serve.client_hooks.fast_client.is_written", lambda: True)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/" for path in folder.rglob("*")}


def ours(data: Any) -> int:
    """How many hooks of ours there are in data."""
    if isinstance(data, list):
        return sum(is_our_hook(item) or ours(item) for item in data)
    return sum(map(ours, data.values())) if isinstance(data, dict) else 0


@pytest.mark.parametrize("scope", ["--project", "--user"])
@pytest.mark.parametrize("client", HOOK_FILES)
def test_a_client_is_protected_once_and_all_is_as_before_when_that_is_undone(
    client: str, scope: str, project: Path, own_home: Path, metier: Call
) -> None:
    before = tree(project), {name for name in tree(own_home) if "metier" not in name and name != "config"}
    code, out, err = metier("protect", client, scope)
    assert (code, err) == (0, "")
    assert "is protected by" in out
    assert ("have git ignore it" in out) == ((client, scope) == ("claude-code", "--project"))
    files = tree(project)
    homes = tree(own_home)
    written = {**files, **homes}
    assert any(b"hook" in data and client.encode() in data for data in written.values())
    assert metier("protect", client, scope)[1].count("already") == 1
    assert tree(project) == files
    shape = json.loads(metier("protect", "--json")[1])["clients"]
    assert {one["state"] for one in shape if one["client"] == client and f"--{one['scope']}" == scope} == {
        "inactive" if client == "codex" else "on"
    }
    assert {one["state"] for one in shape if one["client"] != client} == {"off"}
    assert metier("protect", client, scope, "--remove")[0] == 0
    after = tree(project), {name for name in tree(own_home) if "metier" not in name and name != "config"}
    assert after == before


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_hooks_and_comments_of_the_user_stay_byte_for_byte(client: str, project: Path, metier: Call) -> None:
    row = HOOK_FILES[client]
    file = project / row.project
    file.parent.mkdir(parents=True)
    hook = OWN_HOOK if row.matcher is None else {"matcher": "Bash", "hooks": [OWN_HOOK]}
    event = row.deciding[0]
    text = f'// mine\r\n{{"theme": "dark", "hooks": {{"{event}": [{json.dumps(hook)}], /* why */ "Other": []}}}} // end'
    file.write_bytes(text.encode())
    assert metier("protect", client)[0] == 0
    data = json_data(file.read_text())
    assert data["hooks"][event][0] == hook
    assert ours(data) == len(row.deciding) + len(row.observed)
    assert data["theme"] == "dark"
    assert metier("protect", client, "--remove")[0] == 0
    assert file.read_bytes() == text.encode()


def test_what_is_written_by_hand_since_then_is_kept(project: Path, metier: Call) -> None:
    file = project / ".claude/settings.local.json"
    metier("protect", "claude-code")
    data = json.loads(file.read_text())
    data["model"] = "opus"
    data["hooks"]["PreToolUse"][0]["hooks"].append(OWN_HOOK)
    data["hooks"]["Stop"] = [{"hooks": [OWN_HOOK]}]
    file.write_text(json.dumps(data))
    assert metier("protect", "claude-code", "--remove")[0] == 0
    assert json.loads(file.read_text()) == {
        "model": "opus",
        "hooks": {
            "PreToolUse": [{"matcher": "*", "hooks": [OWN_HOOK]}],
            "Stop": [{"hooks": [OWN_HOOK]}],
        },
    }


@pytest.mark.parametrize("text", ['{"theme": "dark", "hooks": {"BeforeTool": []}}\n', '{\n\t"ui": {}\n}\n', "{}\n"])
def test_the_layout_is_as_before_in_a_file_that_somebody_added_to(text: str, project: Path, metier: Call) -> None:
    file = project / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_text(text)
    metier("protect", "gemini")
    file.write_text(f"{file.read_text()}// mine\n")
    assert metier("protect", "gemini", "--remove")[0] == 0
    assert file.read_text() == f"{text}// mine\n"


def test_a_file_that_a_colleague_protected_is_recognised_without_a_record(project: Path, metier: Call) -> None:
    metier("protect", "codex")
    file = project / ".codex/hooks.json"
    for record in Path(default_config_folder(), "protected").iterdir():
        record.unlink()
    assert str(Path.home()) not in file.read_text()
    assert "already" in metier("protect", "codex")[1]
    assert metier("protect", "codex", "--remove")[0] == 0
    assert json.loads(file.read_text()) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read"),
        ('{"hooks": []}', "no object for hooks"),
        ('{"hooks": {"PreToolUse": {}}}', "no list for hooks.PreToolUse"),
        ("[]", "no object"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_as_it_is(text: str, why: str, project: Path, metier: Call) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text(text)
    code, _, err = metier("protect", "claude-code")
    assert code
    assert why in err
    assert file.read_text() == text


def test_a_dry_run_shows_the_difference_and_writes_nothing(project: Path, metier: Call) -> None:
    code, out, _ = metier("protect", "cursor", "--dry-run")
    assert code == 0
    assert '+    "preToolUse": [' in out
    assert sorted(tree(project)) == [".git"]


def test_a_file_of_another_plugin_is_not_replaced(project: Path, metier: Call) -> None:
    file = project / ".opencode/plugins/metier.js"
    file.parent.mkdir(parents=True)
    file.write_text("export const Mine = () => ({})\n")
    code, _, err = metier("protect", "opencode")
    assert code
    assert "not one that" in err


def test_nothing_is_written_through_a_link_of_the_project(project: Path, metier: Call, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project / ".claude").symlink_to(tmp_path / "elsewhere")
    code, _, err = metier("protect", "claude-code")
    assert code
    assert "link" in err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_lists_in_lists_take_no_longer_than_others(project: Path, metier: Call) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    # Deep enough that a text which grew twofold with each list would fill any memory.
    file.write_text('{"mine": ' + '["a", ' * 60 + "1" + "]" * 60 + "}")
    for _ in range(2):
        assert metier("protect", "claude-code", "--project")[0] == 0


def test_two_at_once_leave_one_set_of_hooks(project: Path) -> None:
    command = [sys.executable, "-m", "metier", "protect", "gemini"]
    running = [subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait() for one in running] == [0, 0]
    data = json.loads((project / ".gemini/settings.json").read_text())
    assert ours(data) == 5
    subprocess.run([*command, "--remove"], cwd=project, check=True, stdout=subprocess.DEVNULL)
    assert sorted(tree(project)) == [".git"]


POLICY = """
tools:
  deny: ["Bash(git push:*)", "Bash(rm * /)", "Read(/srv/keys/**)", "WebSearch", "mcp__Mail__send", "Frobnicate(x)"]
  ask: ["Bash(npm publish *)"]
protect: {scripts: sandbox, fail: closed}
"""


@pytest.fixture
def policy(own_home: Path) -> None:
    (own_home / ".metier").mkdir()
    (own_home / ".metier/policy.yaml").write_text(POLICY)


def test_rules_of_the_policy_stand_in_the_permissions_of_claude_code(project: Path, metier: Call, policy: None) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    text = '{"permissions": {"deny": ["WebSearch", "Read(./mine)"], "allow": ["Bash(git push:*)"]}}'
    file.write_text(text)
    _, out, _ = metier("protect", "claude-code")
    assert "enforces them: deny Frobnicate(x)." in out
    data = json.loads(file.read_text())
    deny = data["permissions"]["deny"]
    assert deny[:2] == ["WebSearch", "Read(./mine)"]
    wanted = ["Bash(git push:*)", "Bash(rm * /)", "Read(//srv/keys/**)", "mcp__Mail__send", "Edit(~/.metier/**)"]
    assert {*wanted, "Read(~/.ssh)", "Edit(**/.claude/settings*.json)"} <= {*deny}
    assert deny.count("WebSearch") == 1
    assert data["permissions"]["ask"] == ["Bash(npm publish *)"]
    assert data["permissions"]["allow"] == ["Bash(git push:*)"]
    assert data["sandbox"]["enabled"] is True
    hook = data["hooks"]["PreToolUse"][0]["hooks"][0]
    assert hook["onFailure"] == "block"
    assert "exit 2" in hook["command"]
    assert "exit 2" not in data["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    metier("protect", "claude-code", "--remove")
    assert file.read_text() == text


def test_a_sandbox_that_somebody_configured_stays_so(project: Path, metier: Call, policy: None) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text('{"sandbox": {"enabled": false}}')
    metier("protect", "claude-code")
    assert json.loads(file.read_text())["sandbox"] == {"enabled": False}


def test_rules_go_when_the_policy_no_longer_has_them(project: Path, own_home: Path, metier: Call, policy: None) -> None:
    metier("protect", "codex")
    rules = project / ".codex/rules/metier.rules"
    lines = rules.read_text().splitlines()
    assert [line.partition(", justification")[0] for line in lines[1:]] == [
        'prefix_rule(pattern = ["git", "push"], decision = "forbidden"',
        'prefix_rule(pattern = ["npm", "publish"], decision = "prompt"',
    ]
    (own_home / ".metier/policy.yaml").write_text("protect: {fail: open}\n")
    metier("protect", "codex")
    assert not rules.exists()
    assert (project / ".codex/hooks.json").exists()


def test_rules_of_the_policy_stand_in_the_policies_of_gemini_for_a_user(
    own_home: Path, metier: Call, policy: None
) -> None:
    assert "deny Bash(git push:*)" in metier("protect", "gemini", "--project")[1]
    metier("protect", "gemini", "--project", "--remove")
    assert "; deny Read(/srv/keys/**)" in metier("protect", "gemini", "--user")[1]
    rules = tomllib.loads((own_home / ".gemini/policies/metier.toml").read_text())["rule"]
    assert [(rule["toolName"], rule.get("commandPrefix"), rule["decision"]) for rule in rules] == [
        ("run_shell_command", "git push", "deny"),
        ("google_web_search", None, "deny"),
    ]


def test_rules_of_the_policy_stand_in_the_configuration_of_cursor_where_there_is_one(
    own_home: Path, metier: Call, policy: None
) -> None:
    file = own_home / ".cursor/cli-config.json"
    metier("protect", "cursor", "--user")
    assert not file.exists()
    text = '{"version": 1, "permissions": {"allow": ["Shell(ls)"], "deny": []}}'
    file.write_text(text)
    metier("protect", "cursor", "--user")
    assert json.loads(file.read_text())["permissions"]["deny"] == ["Shell(git:push*)", "Read(/srv/keys/**)"]
    metier("protect", "cursor", "--user", "--remove")
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("client", "name", "setting"),
    [
        ("claude-code", ".claude/settings.local.json", {"disableAllHooks": True}),
        ("claude-code", ".claude/settings.json", {"disableAllHooks": True}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"disabled": ["metier"]}}),
    ],
)
def test_it_is_told_where_a_client_leaves_hooks_out(
    client: str, name: str, setting: dict[str, Any], project: Path, metier: Call
) -> None:
    file = project / name
    file.parent.mkdir()
    file.write_text(json.dumps(setting))
    metier("protect", client)
    (found,) = [one for one in json.loads(metier("protect", "--json")[1])["clients"] if one["files"]]
    assert (found["client"], found["state"]) == (client, "inactive")
    assert "switches hooks off" in found["problem"]


def test_codex_holds_once_its_user_trusts_the_project_and_the_hook_as_it_is(
    project: Path, own_home: Path, metier: Call
) -> None:
    def problem() -> str:
        (found,) = [one for one in json.loads(metier("protect", "--json")[1])["clients"] if one["files"]]
        text: str = found["problem"]
        return text

    metier("protect", "codex")
    file, config = project / ".codex/hooks.json", own_home / ".codex/config.toml"
    assert "does not trust this project" in problem()
    config.parent.mkdir()
    trusted = f'[projects."{project}"]\ntrust_level = "trusted"\n'
    config.write_text(trusted)
    assert "trust it as it is now" in problem()
    (group,) = json.loads(file.read_text())["hooks"]["PreToolUse"]
    whole = {"event_name": "pre_tool_use", "matcher": "*", "hooks": [{**group["hooks"][0], "async": False}]}
    noted = hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    config.write_text(f'{trusted}[hooks.state."{file}:pre_tool_use:0:0"]\ntrusted_hash = "sha256:{noted}"\n')
    assert problem() == ""
    config.write_text(config.read_text().replace(noted, "0" * 64))
    assert "trust it as it is now" in problem()


def test_a_client_is_protected_for_its_user_or_in_a_project_but_not_twice(metier: Call, project: Path) -> None:
    metier("protect", "gemini", "--user")
    code, _, err = metier("protect", "gemini", "--project")
    assert code == 2
    assert "metier protect gemini --user --remove" in err
    assert not (project / ".gemini").exists()


def test_what_was_begun_and_not_written_is_undone_all_the_same(
    metier: Call, project: Path, own_home: Path, policy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    text = '{"permissions": {"deny": ["Read(./mine)"]}}'
    file.write_text(text)
    metier("protect", "claude-code")
    (own_home / ".metier/policy.yaml").write_text("protect: {fail: open}\n")

    def die(change: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("metier.cli.client_files._write", die)
        protect_client("claude-code", is_user=False)
    assert "Bash(git push:*)" in file.read_text()
    metier("protect", "claude-code", "--remove")
    assert file.read_text() == text


@pytest.mark.parametrize("kind", ["folder", "pipe", "bytes", "deep"])
def test_whatever_stands_in_the_place_of_a_file_is_told_and_left(kind: str, metier: Call, project: Path) -> None:
    file = project / ".gemini/settings.json"
    file.parent.mkdir()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        if sys.platform == "win32":
            pytest.skip("no pipes in folders")
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff{}" if kind == "bytes" else b'{"a":' * 5_000 + b"1" + b"}" * 5_000)
    for words in (("gemini",), ("gemini", "--remove"), ()):
        code, out, err = metier("protect", *words)
        assert "Traceback" not in err
        # Since Python 3.14, JSON of any depth can be read.
        is_read = kind == "deep" and sys.version_info >= (3, 14) and code == 0
        refused = code != 0 and "left as it is" in err
        assert refused or is_read or "is not UTF-8" in err or (not words and "gemini" in out)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"file": 1}', '{"file": "x", "before": 1, "after": [], "folders": {}}']
)
def test_a_record_that_is_no_record_counts_as_none(text: str, metier: Call, project: Path) -> None:
    metier("protect", "cursor")
    (record,) = Path(default_config_folder(), "protected").iterdir()
    record.write_text(text.replace('"x"', json.dumps(str(project / ".cursor/hooks.json"))))
    assert metier("protect", "cursor", "--remove")[0] == 0
    assert json.loads((project / ".cursor/hooks.json").read_text()) == {"version": 1}


def test_settings_of_another_layer_that_cannot_be_read_are_told(metier: Call, project: Path, own_home: Path) -> None:
    metier("protect", "claude-code")
    (own_home / ".claude").mkdir()
    (own_home / ".claude/settings.json").write_text("{")
    shape = json.loads(metier("protect", "--json")[1])["clients"]
    assert [one["state"] for one in shape if one["client"] == "claude-code"] == ["inactive", "changed"]


@pytest.mark.parametrize("client", HOOK_FILES)
def test_a_file_that_somebody_took_away_is_told(client: str, metier: Call, project: Path) -> None:
    metier("protect", client)
    (project / HOOK_FILES[client].project).unlink()
    (found,) = [one for one in json.loads(metier("protect", "--json")[1])["clients"] if one["state"] != "off"]
    assert (found["client"], found["state"]) == (client, "changed")
    metier("protect", client, "--remove")
    assert "Not protected: claude-code, codex, gemini" in metier("protect")[1]
    assert sorted(tree(project)) == [".git"]


def test_a_plugin_without_a_record_is_taken_out_if_it_is_what_would_be_written(metier: Call, project: Path) -> None:
    file = project / ".opencode/plugins/metier.js"
    metier("protect", "opencode")
    text = file.read_text()
    for record in Path(default_config_folder(), "protected").iterdir():
        record.unlink()
    file.write_text(f"{text}// mine\n")
    code, _, err = metier("protect", "opencode", "--remove")
    assert code
    assert "of another `metier protect`" in err
    file.write_text(text)
    assert metier("protect", "opencode", "--remove")[0] == 0
    assert not file.exists()


def test_where_an_administrator_decides_no_program_takes_protection_away(
    metier: Call, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n")
    monkeypatch.setenv("METIER_POLICY", str(policy))
    metier("protect", "claude-code")
    text = (project / ".claude/settings.local.json").read_text()
    assert "exit 2" in text, "it fails closed by default"
    code, _, err = metier("protect", "claude-code", "--remove")
    assert code
    assert "person" in err or "terminal" in err
    assert (project / ".claude/settings.local.json").read_text() == text
    monkeypatch.setattr("metier.cli.identity.is_at_terminal", lambda: True)
    assert metier("protect", "claude-code", "--remove")[0] == 0
    assert not (project / ".claude").exists()


def test_the_page_names_every_file_that_is_written() -> None:
    page = Path(__file__).parents[2].joinpath("docs/how-to/protect.md").read_text("utf-8")
    moved = {"{claude}": ".claude", "{codex}": ".codex", "{config}": ".config"}
    names = [(row.project, row.user, row.project_lists, row.user_lists) for row in HOOK_FILES.values()]
    for name in filter(None, itertools.chain(*names)):
        base, _, rest = name.partition("/")
        assert f"{moved.get(base, base)}/{rest}" in page
    assert all(f"`{client}`" in page for client in HOOK_FILES)
