"""Files that decide about a protected client are closed to its own tools: its hooks, its lists, our program."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from tests.serve.client_hooks.conftest import ClaudeCode

from metier._paths import default_cache_folder
from metier.cli.hook_files import HOOK_FILES
from metier.library.clients import in_home
from metier.library.places import default_config_folder
from metier.serve.client_hooks.fast_client import hook_path

PLACES = {client: (row.user, row.project) for client, row in HOOK_FILES.items()}
PLACES |= {
    f"{client} lists": (row.user_lists, row.project_lists) for client, row in HOOK_FILES.items() if row.user_lists
}


def refusals(claude: ClaudeCode, path: str) -> set[str]:
    word = shlex.quote(path)
    answers = [
        claude.calls("Write", file_path=path, content="{}"),
        claude.calls("Edit", file_path=path, old_string="a", new_string="b"),
        claude.bash(f"rm -f {word}"),
        claude.bash(f"cd {shlex.quote(os.path.dirname(path))} && echo '{{}}' > {shlex.quote(os.path.basename(path))}"),
        claude.bash(f"""python3 -c "open({path!r}, 'w')" """),
    ]
    return {answer.get("permissionDecision", "none") for answer in answers}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("name", PLACES)
def test_no_tool_of_a_client_changes_the_files_that_protect_it(name: str, is_there: bool, claude: ClaudeCode) -> None:
    home = os.path.expanduser("~")
    user, project = PLACES[name]
    paths = [in_home(user, home), *([str(claude.folder / project)] if project else [])]
    for path in paths:
        if is_there:
            Path(path).parent.mkdir(parents=True)
            Path(path).write_text("{}")
        assert refusals(claude, path) == {"deny"}, path


def test_a_grant_of_its_folder_opens_no_file_that_protects_a_client(claude: ClaudeCode, own_home: Path) -> None:
    names = [".claude", ".codex", ".gemini", ".cursor", ".copilot", ".github/hooks", ".opencode", ".metier"]
    home, paths = str(own_home), [f"{name}:rw" for name in (*names, ".config/opencode")]
    (own_home / ".metier").mkdir(exist_ok=True)
    (own_home / ".metier/policy.yaml").write_text(f"version: 1\nrun: {{paths: {paths}}}\n")
    (claude.folder / ".claude/commands").mkdir(parents=True)
    assert claude.calls("Write", file_path=str(claude.folder / ".claude/commands/fix.md"), content="Fix it.") == {}
    for user, project in PLACES.values():
        for path in (in_home(user, home), *([str(claude.folder / project)] if project else [])):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            assert refusals(claude, path) == {"deny"}, path
    assert refusals(claude, hook_path()) == {"deny"}
    (claude.folder / ".claude/settings.local.json").write_text("{}")
    assert claude.bash("mv .claude elsewhere")["permissionDecision"] == "deny"


def test_no_tool_of_a_client_changes_our_program_its_socket_or_what_we_noted(
    claude: ClaudeCode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    cache = default_cache_folder()
    assert cache is not None
    for path in (
        hook_path(),
        os.path.join(default_config_folder(), "protected/x.json"),
        os.path.join(cache, "hooks/x.sock"),
        str(tmp_path / "run/metier/x.sock"),
    ):
        assert refusals(claude, path) == {"deny"}, path


@pytest.mark.parametrize("command", ["metier protect claude-code --remove", "python -m metier protect codex --user"])
def test_no_client_takes_its_own_protection_away(command: str, claude: ClaudeCode) -> None:
    assert claude.bash(command)["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    ("variable", "client"),
    [("CLAUDE_CONFIG_DIR", "claude-code"), ("CODEX_HOME", "codex"), ("XDG_CONFIG_HOME", "opencode")],
)
def test_a_folder_of_a_client_that_was_moved_is_closed_there(
    variable: str, client: str, claude: ClaudeCode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    assert refusals(claude, in_home(HOOK_FILES[client].user, os.path.expanduser("~"))) == {"deny"}
