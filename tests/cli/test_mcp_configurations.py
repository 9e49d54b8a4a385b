"""Real configurations of each client: `mcp --install` adds to them, and `--remove` gives them back as they were."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.covers("USE-8")

Call = Callable[..., tuple[int, str, str]]

PLAIN = '{\n  "mcpServers": {\n    "other": {\n      "command": "npx",\n      "args": ["-y", "other"]\n    }\n  }\n}\n'
ZED = """// Zed settings
{
  "theme": "One Dark", // mine
  "context_servers": {
    // my own
    "other": { "command": "npx", "args": ["-y", "other"], "env": {} },
  },
  "vim_mode": true,
}
"""
OPENCODE = """{
  "$schema": "https://opencode.ai/config.json",
  // everything local
  "mcp": {
    "timeout": 10,
    "servers": {
      "other": { "type": "local", "command": ["npx", "-y", "other"], "disabled": true }
    }
  }
}
"""
OPENCODE_1 = """{
  "mcp": {
    "other": { "type": "local", "command": ["npx", "-y", "other"], "enabled": true }
  }
}
"""
GOOSE = """# Model Configuration
GOOSE_PROVIDER: "anthropic"
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    timeout: 300
    type: builtin
  # my own
  other:
    type: stdio
    cmd: npx
    args:
    - -y
    - other

# below
GOOSE_MODE: "smart_approve"
"""
CODEX = """model = "gpt-5"  # mine

[mcp_servers.other]
command = "npx"
args = ["-y", "other"]

# about projects
[projects."/work"]
trust_level = "trusted"
"""
FILES = {
    "claude-code": (".claude.json", PLAIN, ("mcpServers",)),
    "claude-desktop": ("config/Claude/claude_desktop_config.json", PLAIN, ("mcpServers",)),
    "cursor": (".cursor/mcp.json", PLAIN, ("mcpServers",)),
    "vscode": ("config/Code/User/mcp.json", PLAIN.replace("mcpServers", "servers"), ("servers",)),
    "copilot": (".copilot/mcp-config.json", PLAIN, ("mcpServers",)),
    "codex": (".codex/config.toml", CODEX, ("mcp_servers",)),
    "gemini": (".gemini/settings.json", PLAIN, ("mcpServers",)),
    "opencode": ("config/opencode/opencode.json", OPENCODE, ("mcp", "servers")),
    "goose": ("config/goose/config.yaml", GOOSE, ("extensions",)),
    "windsurf": (".codeium/windsurf/mcp_config.json", PLAIN, ("mcpServers",)),
    "zed": ("config/zed/settings.json", ZED, ("context_servers",)),
}
ENTRIES: dict[str, dict[str, Any]] = {
    "claude-desktop": {"command": "PROGRAM", "args": ["mcp"]},
    "copilot": {"type": "local", "command": "PROGRAM", "args": ["mcp"], "tools": ["*"]},
    "opencode": {"type": "local", "command": ["PROGRAM", "mcp"]},
    "goose": {
        "enabled": True,
        "type": "stdio",
        "name": "metier",
        "description": "Skills",
        "cmd": "PROGRAM",
        "args": ["mcp"],
        "timeout": 300,
    },
    "windsurf": {"command": "PROGRAM", "args": ["mcp"]},
    "zed": {"command": "PROGRAM", "args": ["mcp"]},
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to stand in, and the command on the path."""
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/metier").write_text("#!/bin/sh\n")
    (tmp_path / "bin/metier").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for variable in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "project"


def test_every_client_with_servers_is_tried_here() -> None:
    from metier.library.clients import CLIENTS

    assert FILES.keys() == {name for name, client in CLIENTS.items() if client.servers is not None}


def section_of(text: str, file: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    if file.suffix == ".yaml":
        data = yaml.safe_load(text)
    elif file.suffix == ".toml":
        data = tomllib.loads(text)
    else:
        plain = re.sub(r"(?m)(^|\s)//.*$", "", text)
        data = json.loads(re.sub(r",(\s*[}\]])", r"\1", plain))
    for key in keys:
        data = data[key]
    return dict(data)


@pytest.mark.each("client", FILES, every=2)
def test_a_configuration_in_use_gets_the_server_and_is_given_back_as_it_was(
    metier: Call, own_home: Path, tmp_path: Path, client: str
) -> None:
    name, before, keys = FILES[client]
    file = own_home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before)
    code, out, _ = metier("mcp", "--install", client, "--user", "--dry-run")
    assert code == 0 and "+" in out and file.read_text() == before
    assert metier("mcp", "--install", client, "--user")[0] == 0
    after = file.read_text()
    servers = section_of(after, file, keys)
    assert {"other", "metier"} <= servers.keys()
    if client in ENTRIES:
        program = str(tmp_path / "bin/metier")
        wanted = json.loads(json.dumps(ENTRIES[client]).replace("PROGRAM", program))
        assert servers["metier"] == wanted
    assert [line for line in before.splitlines() if line.strip(" ,") not in "".join(after)] == []
    assert "already" in metier("mcp", "--install", client, "--user")[1] and file.read_text() == after
    assert metier("mcp", "--install", client, "--user", "--scripts", "ask")[0] == 0
    assert "--scripts=ask" in file.read_text()
    code, out, _ = metier("mcp", "--remove", client, "--user", "--dry-run")
    assert code == 0 and "--scripts=ask" in file.read_text()
    assert metier("mcp", "--remove", client, "--user")[0] == 0
    left = file.read_text()
    assert section_of(left, file, keys) == section_of(before, file, keys)
    # A comma that may stand before an end, or not, is not brought back.
    assert left == before.replace("{} },\n", "{} }\n")
    code, out, _ = metier("mcp", "--remove", client, "--user")
    assert (code, "has no server 'metier'" in out) == (0, True)


@pytest.mark.each("client", FILES)
def test_a_file_that_is_not_there_is_made_and_a_server_of_others_stays(
    metier: Call, own_home: Path, client: str
) -> None:
    name, _, keys = FILES[client]
    file = own_home / name
    assert metier("mcp", "--remove", client, "--user")[0] == 0
    assert not file.exists()
    assert metier("mcp", "--install", client, "--user", "--name", "other")[0] == 0
    assert section_of(file.read_text(), file, keys).keys() == {"other"}
    assert metier("mcp", "--remove", client, "--user", "--name", "other")[0] == 0
    assert section_of(file.read_text(), file, keys) == {} if file.suffix != ".toml" else not file.read_text()


@pytest.mark.each("client", FILES)
def test_only_what_was_written_here_is_removed(metier: Call, own_home: Path, client: str) -> None:
    name, before, _ = FILES[client]
    file = own_home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before)
    for more in ((), ("--dry-run",)):
        code, _, err = metier("mcp", "--remove", client, "--user", "--name", "other", *more)
        assert (code, "another server 'other'" in err) == (1, True)
    assert file.read_text() == before


@pytest.mark.each("client", [name for name in FILES if name not in ("claude-desktop", "goose", "windsurf")])
@pytest.mark.parametrize("first", ["project", "user"])
def test_no_client_gets_the_server_twice(metier: Call, own_home: Path, project: Path, client: str, first: str) -> None:
    ways: dict[str, tuple[str, ...]] = {"project": (), "user": ("--user",)}
    second = "user" if first == "project" else "project"
    assert metier("mcp", "--install", client, *ways[first])[0] == 0

    def files() -> dict[Path, str]:
        return {path: path.read_text() for top in (own_home, project) for path in top.rglob("*") if path.is_file()}

    before = files()
    code, out, _ = metier("mcp", "--install", client, *ways[second])
    assert (code, "would have it twice" in out, "--remove" in out) == (0, True, True)
    assert files() == before
    code, out, _ = metier("mcp", "--remove", client, *ways[second])
    assert (code, "--user" in out) == (0, True)
    assert metier("mcp", "--remove", client, *ways[first])[0] == 0
    assert metier("mcp", "--install", client, *ways[second])[0] == 0
    assert files() != before


def test_a_client_without_a_file_in_projects_is_installed_for_the_user(metier: Call, own_home: Path) -> None:
    for client in ("claude-desktop", "windsurf", "goose"):
        assert metier("mcp", "--install", client)[0] == 0
        assert (own_home / FILES[client][0]).exists()
        assert metier("mcp", "--remove", client)[0] == 0


def test_opencode_s_older_form_and_its_other_name_are_kept(metier: Call, own_home: Path, project: Path) -> None:
    (project / "opencode.jsonc").write_text(OPENCODE_1)
    assert metier("mcp", "--install", "opencode")[0] == 0
    assert not (project / "opencode.json").exists()
    servers = section_of((project / "opencode.jsonc").read_text(), project / "opencode.jsonc", ("mcp",))
    assert servers["metier"] == {"type": "local", "command": ["metier", "mcp"], "enabled": True}
    assert metier("mcp", "--remove", "opencode")[0] == 0
    assert (project / "opencode.jsonc").read_text() == OPENCODE_1


@pytest.mark.each(
    "text",
    [
        "extensions: [a, b]\n",
        "extensions: {other: {cmd: npx}}\n",
        "a: &x {b: c}\nextensions:\n  other: *x\n",
        "extensions:\n  other\n",
        "{\n",
        "- list\n",
        "extensions:\n\tother: 1\n",
    ],
)
def test_yaml_that_cannot_be_changed_safely_is_left_alone(metier: Call, own_home: Path, text: str) -> None:
    file = own_home / "config/goose/config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    code, _, err = metier("mcp", "--install", "goose")
    assert (code, "was left as it is" in err) == (1, True)
    assert file.read_text() == text
