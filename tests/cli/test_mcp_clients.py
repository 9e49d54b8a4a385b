"""`metier mcp --install`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.cli import mcp_clients
from metier.cli.config_text import with_entry

Call = Callable[..., tuple[int, str, str]]

PROJECT = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}
USER = {
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": "config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
}
SECTION = {"vscode": "servers", "codex": "mcp_servers"}
IN_FOLDER = ["--workspace=${workspaceFolder}"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with the working folder somewhere inside, and the command on the path."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "project" / "deep")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / ("metier.exe" if sys.platform == "win32" else "metier")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "project"


def server(file: Path, client: str, name: str = "metier") -> dict[str, Any]:
    text = file.read_text()
    data = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    found: dict[str, Any] = data[SECTION.get(client, "mcpServers")][name]
    return found


@pytest.mark.parametrize("client", PROJECT)
def test_a_project_gets_a_server_that_everybody_can_start(metier: Call, project: Path, client: str) -> None:
    code, out, err = metier("mcp", "--install", client)
    assert (code, err) == (0, "")
    assert out.startswith(f"✓ {project / PROJECT[client]} has the server 'metier'")
    more = IN_FOLDER if client in ("cursor", "vscode") else []
    kind = {"type": "stdio"} if client in ("claude-code", "cursor", "vscode") else {}
    assert server(project / PROJECT[client], client) == {**kind, "command": "metier", "args": ["mcp", *more]}


@pytest.mark.parametrize("client", USER)
@pytest.mark.skipif(sys.platform != "linux", reason="the places of Linux")
def test_a_user_gets_a_server_by_its_full_path(metier: Call, project: Path, own_home: Path, client: str) -> None:
    assert metier("mcp", "--install", client, "--user")[0] == 0
    found = server(own_home / USER[client], client)
    assert (os.path.isabs(found["command"]), found["args"]) == (True, ["mcp"])
    assert sorted(os.listdir(project)) == [".git", "deep"]


@pytest.mark.parametrize("client", PROJECT)
def test_a_second_time_changes_nothing(metier: Call, project: Path, client: str) -> None:
    metier("mcp", "--install", client)
    before = (project / PROJECT[client]).read_bytes()
    code, out, _ = metier("mcp", "--install", client)
    assert (code, out.endswith("already.\n")) == (0, True)
    assert (project / PROJECT[client]).read_bytes() == before


def test_what_else_is_in_the_file_stays(metier: Call, project: Path) -> None:
    file = project / ".vscode" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  // ours\n  "servers": {"other": {"command": "x"}}, "inputs": []\n}\n')
    file.chmod(0o600)
    assert metier("mcp", "--install", "vscode")[0] == 0
    text = file.read_text()
    assert "// ours" in text
    assert json.loads(text.replace("// ours", ""))["servers"].keys() == {"other", "metier"}
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["mcp.json"]


@pytest.mark.each("client", PROJECT)
@pytest.mark.each("content", [b"{ broken", b"\xff\xfe", b'{"mcpServers": 1, "servers": 1, "mcp_servers": 1}'])
def test_a_file_that_cannot_be_read_is_left_as_it_is(metier: Call, project: Path, client: str, content: bytes) -> None:
    file = project / PROJECT[client]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    code, out, err = metier("mcp", "--install", client)
    assert (code, out) == (1, "")
    assert err.startswith("error [file-refused]: ")
    assert PROJECT[client] in err
    assert "\nhint: " in err
    assert file.read_bytes() == content


def test_a_dry_run_shows_the_change(metier: Call, project: Path) -> None:
    (project / ".mcp.json").write_text('{\n  "mcpServers": {\n    "other": {}\n  }\n}\n')
    code, out, _ = metier("mcp", "--install", "claude-code", "--dry-run")
    assert code == 0
    assert '-    "other": {}' in out
    assert '+    "other": {},' in out
    assert '+      "command": "metier",' in out
    assert "metier" not in (project / ".mcp.json").read_text()


def test_the_other_options_are_written_down(metier: Call, project: Path, tmp_path: Path) -> None:
    (project / "skills").mkdir()
    (tmp_path / "elsewhere").mkdir()
    options = ("--skills", "../skills", "--skills", tmp_path / "elsewhere", "--workspace", "..", "--dialect", "tool")
    more = ("--scripts", "ask", "--deny", "Bash(curl:*)", "--agent", "builder", "--name", "house")
    assert metier("mcp", *options, *more, "--install", "cursor")[0] == 0
    assert server(project / ".cursor/mcp.json", "cursor", "house")["args"] == [
        *("mcp", "--skills=${workspaceFolder}/skills", f"--skills={tmp_path / 'elsewhere'}"),
        *("--workspace=${workspaceFolder}", "--dialect=tool", "--deny=Bash(curl:*)", "--scripts=ask"),
        "--agent=builder",
    ]
    assert metier("mcp", *options, "--install", "gemini")[0] == 0
    assert server(project / ".gemini/settings.json", "gemini")["args"][1] == "--skills=./skills"
    assert metier("mcp", *options, "--install", "gemini", "--user")[0] == 0


def test_places_that_a_client_was_told_of_are_used(
    metier: Call, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    for client, file in {"codex": "codex/config.toml", "claude-code": "claude/.claude.json"}.items():
        assert metier("mcp", "--install", client, "--user")[0] == 0
        assert server(tmp_path / file, client)["args"] == ["mcp"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")
def test_nothing_is_written_outside_of_a_project(metier: Call, project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project / ".vscode").symlink_to(tmp_path / "outside")
    (project / ".mcp.json").symlink_to(tmp_path / "outside" / "file.json")
    for client in ("vscode", "claude-code"):
        code, _, err = metier("mcp", "--install", client)
        assert (code, "\nhint: " in err) == (1, True)
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.each("client", PROJECT)
@pytest.mark.each(
    "there",
    [
        {"type": "http", "url": "https://example.org", "headers": {"Authorization": "secret"}},
        {"command": "npx", "args": ["server"], "env": {"TOKEN": "secret"}},
        {"url": "http://127.0.0.1:8321/mcp", "command": "metier", "args": ["mcp"]},
        {"httpUrl": "http://127.0.0.1:8321/mcp"},
        {"command": "metier"},
        {},
        "text",
    ],
)
def test_a_server_that_was_not_written_here_is_left_alone(
    metier: Call, project: Path, client: str, there: dict[str, Any] | str
) -> None:
    file = project / PROJECT[client]
    file.parent.mkdir(exist_ok=True)
    if file.suffix == ".toml" and isinstance(there, str):
        file.write_text(f"[mcp_servers]\nmetier = {json.dumps(there)}\n")
    elif file.suffix == ".toml" and isinstance(there, dict):
        given = {word: value for word, value in there.items() if not isinstance(value, dict)}
        lines = [f"{word} = {json.dumps(value)}\n" for word, value in given.items()]
        file.write_text("[mcp_servers.metier]\n" + "".join(lines))
    else:
        file.write_text(json.dumps({SECTION.get(client, "mcpServers"): {"metier": there}}))
    before = file.read_bytes()
    code, _, err = metier("mcp", "--install", client)
    assert code == 1
    assert "another server 'metier'" in err
    assert "--name" in err
    assert file.read_bytes() == before


def test_a_server_that_was_written_here_is_brought_up_to_date_and_keeps_what_was_added(
    metier: Call, project: Path
) -> None:
    metier("mcp", "--install", "claude-code")
    file = project / ".mcp.json"
    entry = {"type": "stdio", "command": "/old/bin/metier.exe", "args": ["mcp", "--budget=9"], "env": {"A": "1"}}
    file.write_text(json.dumps({"mcpServers": {"metier": entry}}))
    assert metier("mcp", "--install", "claude-code", "--scripts", "ask")[0] == 0
    assert server(file, "claude-code") == {**entry, "command": "metier", "args": ["mcp", "--scripts=ask"]}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_several_at_once_lose_nothing(forked: list[str], project: Path) -> None:
    names = [f"s{number}" for number in range(6)]
    running = [
        subprocess.Popen([*forked, "mcp", "--install", "claude-code", "--name", name], stdout=subprocess.DEVNULL)
        for name in names
    ]
    assert [one.wait(timeout=60) for one in running] == [0] * 6
    assert sorted(json.loads((project / ".mcp.json").read_text())["mcpServers"]) == names


def test_what_another_program_writes_meanwhile_is_not_lost(
    metier: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, change, changes = project / ".mcp.json", with_entry, 0

    def meanwhile(*given: Any, **named: Any) -> str:
        nonlocal changes
        changes += 1
        if changes <= 2:
            file.write_text(json.dumps({"state": changes}))
        return change(*given, **named)

    monkeypatch.setattr(mcp_clients, "with_entry", meanwhile)
    assert metier("mcp", "--install", "claude-code")[0] == 0
    assert json.loads(file.read_text()).keys() == {"state", "mcpServers"}

    changes = -1_000
    code, _, err = metier("mcp", "--install", "claude-code", "--name", "other")
    assert (code, "all the time" in err) == (1, True)


@pytest.mark.parametrize("client", ["codex", "claude-code"])
def test_a_dry_run_makes_no_folder(
    metier: Call, project: Path, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "new"))
    code, out, _ = metier("mcp", "--install", client, "--user", "--dry-run")
    assert (code, "metier" in out) == (0, True)
    assert not (tmp_path / "new").exists()


def test_values_that_begin_with_a_hyphen_survive(metier: Call, project: Path) -> None:
    assert metier("mcp", "--install", "gemini", "--deny=-x", "--agent=-y")[0] == 0
    assert server(project / ".gemini/settings.json", "gemini")["args"] == ["mcp", "--deny=-x", "--agent=-y"]


@pytest.mark.each(
    "arguments",
    [
        ("--skills", "a${HOME}"),
        ("--workspace", "a${HOME}"),
        ("--deny", "${input:x}"),
        ("--agent", "${x}"),
        ("--skills", "nosuch"),
        ("--workspace", "/no/such/folder"),
    ],
)
def test_what_would_not_be_what_was_named_is_refused(metier: Call, project: Path, arguments: tuple[str, ...]) -> None:
    Path("a${HOME}").mkdir(exist_ok=True)
    for client in ("cursor", "claude-code"):
        code, _, err = metier("mcp", "--install", client, *arguments)
        assert (code, "\nhint: " in err) == (2, True)
        assert not (project / PROJECT[client]).exists()


@pytest.mark.each(
    "arguments",
    [
        ("--install", "emacs"),
        ("--install", "codex", "--http"),
        ("--install", "codex", "--token", "secret"),
        ("--install", "codex", "--name", "../x"),
        ("--install", "codex", "--name", ""),
        ("--user",),
        ("--dry-run",),
    ],
)
def test_wrong_usage_writes_nothing(metier: Call, project: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = metier("mcp", *arguments)
    assert (code, out) == (2, "")
    assert err
    assert sorted(os.listdir(project)) == [".git", "deep"]


# --- links ---------------------------------------------------------------------------------------------------------

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")


@needs_links
@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize("is_at_home", [True, False])
def test_a_user_s_file_that_is_kept_elsewhere_is_written_there(
    metier: Call, project: Path, own_home: Path, tmp_path: Path, client: str, is_at_home: bool
) -> None:
    kept = (own_home if is_at_home else tmp_path) / "dotfiles" / "config of a client"
    kept.parent.mkdir()
    kept.write_text("")
    link = own_home / USER[client]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(kept)
    code, out, err = metier("mcp", "--install", client, "--user")
    assert (code, err) == (0, "")
    assert out.startswith(f"✓ {kept} has the server 'metier'")
    assert link.readlink() == kept
    assert "metier" in kept.read_text()
    assert os.listdir(kept.parent) == [kept.name]
    (tomllib.loads if client == "codex" else json.loads)(kept.read_text())


@needs_links
def test_a_user_s_folder_that_is_kept_elsewhere_is_written_to(
    metier: Call, project: Path, own_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (own_home / ".codex").symlink_to(tmp_path / "dotfiles")
    assert metier("mcp", "--install", "codex", "--user")[0] == 0
    assert server(tmp_path / "dotfiles" / "config.toml", "codex")["args"] == ["mcp"]


@needs_links
@pytest.mark.parametrize("target", ["nowhere", "folder", "somebody else's", "itself"])
def test_a_link_to_anything_else_is_named_with_what_to_do(
    metier: Call, project: Path, own_home: Path, tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    if target == "folder":
        kept.mkdir()
    elif target == "somebody else's":
        kept.write_text("{}")
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
    link = own_home / ".claude.json"
    link.symlink_to(link if target == "itself" else kept)
    code, out, err = metier("mcp", "--install", "claude-code", "--user")
    assert (code, out) == (1, "")
    assert str(link) in err
    assert "workspace" not in err
    assert "Glob" not in err
    assert "\nhint: " in err
    assert not kept.is_file() or kept.read_text() == "{}"


@needs_links
def test_no_link_in_a_project_is_followed_wherever_it_leads(metier: Call, project: Path) -> None:
    (project / "config").mkdir()
    (project / "config" / "mcp.json").write_text("{}")
    (project / ".mcp.json").symlink_to("config/mcp.json")
    (project / ".vscode").symlink_to("config")
    for client in ("claude-code", "vscode"):
        code, _, err = metier("mcp", "--install", client)
        assert code == 1
        assert f"{project / PROJECT[client]} leads through a link" in err
        assert "--user" in err
    assert (project / "config" / "mcp.json").read_text() == "{}"


@pytest.mark.parametrize("options", [(), ("--user",)])
def test_a_folder_in_the_place_of_the_file_is_said_to_a_person(
    metier: Call, project: Path, own_home: Path, options: tuple[str, ...]
) -> None:
    file = (own_home / ".claude.json") if options else (project / ".mcp.json")
    file.mkdir()
    code, _, err = metier("mcp", "--install", "claude-code", *options)
    assert code == 1
    assert f"{file} was left as it is." in err
    assert "Glob" not in err
