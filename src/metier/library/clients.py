"""The clients that use skills: where each of them looks for skills, and where it lists its MCP servers.

One table for everything that has to know another client: the folders that are searched for skills, the folders that
`sync` writes to, and the files that `mcp --install` changes. A path is relative to the home folder or to a project;
it may begin with a base such as `{config}`, which an environment variable or the platform moves.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_FOLDER = ".metier/skills"
"""Métier's own folder, in a home folder and in a project."""
SHARED_FOLDER = ".agents/skills"
"""The folder that the Agent Skills format has for all clients."""

COMMAND, ARGUMENTS, WORDS, NAME = "{command}", "{arguments}", "{words}", "{name}"
"""Placeholders in a server's entry: the program, the list of its arguments, both as one list, the server's name."""
_STARTED: Mapping[str, Any] = {"command": COMMAND, "args": ARGUMENTS}
_TYPED: Mapping[str, Any] = {"type": "stdio", **_STARTED}

_VARIABLES = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "claude": ("CLAUDE_CONFIG_DIR", ".claude"),
    "claude-home": ("CLAUDE_CONFIG_DIR", ""),
    "codex": ("CODEX_HOME", ".codex"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFile:
    """The file in which a client lists the MCP servers that it starts."""

    user: str
    """The file for all projects of a user."""
    user_on_windows: str = ""
    """The same on Windows, where it lies elsewhere."""
    also: tuple[str, ...] = ()
    """Further names of the same file: the first of them that exists is the one in use."""
    project: str = ""
    """The file in a project; empty where the client has none."""
    format: Literal["json", "toml", "yaml"] = "json"
    section: tuple[str, ...] = ("mcpServers",)
    """The keys that lead to the servers."""
    older_section: tuple[str, ...] = ()
    """The keys of files in the client's older form, which are kept in that form."""
    entry: Mapping[str, Any] = field(default_factory=lambda: _STARTED)
    """A server's entry, with placeholders."""
    workspace: str = ""
    """The client's variable for the project; empty where it starts the servers of a project in the project."""
    then: str = ""
    """The step that is left to the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program that uses skills; the first folder of each kind is the one that `sync` writes to."""

    name: str
    title: str
    personal: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    servers: ServerFile | None = None
    programs: tuple[str, ...] = ()
    """The names by which it is started."""

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The client's folders of skills that it does not share with all others."""
        return tuple(dict.fromkeys(path for path in (*self.personal, *self.project) if path != SHARED_FOLDER))


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            name="claude-code",
            title="Claude Code",
            programs=("claude",),
            personal=("{claude}/skills",),
            project=(".claude/skills",),
            servers=ServerFile(
                user="{claude-home}/.claude.json",
                project=".mcp.json",
                entry=_TYPED,
                then="Start `claude`, and `/mcp` shows it; a server of a project has to be approved there once.",
            ),
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            servers=ServerFile(
                user="{data}/Claude/claude_desktop_config.json",
                then="Quit Claude Desktop and start it again; its settings list the server under Developer.",
            ),
        ),
        Client(
            name="cursor",
            title="Cursor",
            programs=("cursor", "cursor-agent"),
            personal=(".cursor/skills",),
            project=(".cursor/skills",),
            servers=ServerFile(
                user=".cursor/mcp.json",
                project=".cursor/mcp.json",
                entry=_TYPED,
                workspace="${workspaceFolder}",
                then="Restart Cursor, and switch it on in its settings.",
            ),
        ),
        Client(
            name="vscode",
            title="VS Code",
            programs=("code", "code-insiders"),
            personal=(".copilot/skills",),
            project=(".github/skills",),
            servers=ServerFile(
                user="{data}/Code/User/mcp.json",
                project=".vscode/mcp.json",
                section=("servers",),
                entry=_TYPED,
                workspace="${workspaceFolder}",
                then="Run `MCP: List Servers`, and start it there.",
            ),
        ),
        Client(
            name="copilot",
            title="Copilot CLI",
            programs=("copilot",),
            personal=(".copilot/skills",),
            project=(".github/skills",),
            servers=ServerFile(
                user=".copilot/mcp-config.json",
                project=".github/mcp.json",
                entry={"type": "local", **_STARTED, "tools": ["*"]},
                then="Start `copilot`, and `/mcp show` lists it.",
            ),
        ),
        Client(
            name="codex",
            title="Codex",
            programs=("codex",),
            personal=(SHARED_FOLDER, "{codex}/skills"),
            project=(SHARED_FOLDER, ".codex/skills"),
            servers=ServerFile(
                user="{codex}/config.toml",
                project=".codex/config.toml",
                format="toml",
                section=("mcp_servers",),
                then="Start `codex`, and `/mcp` shows it; the file of a project counts where Codex trusts the project.",
            ),
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            programs=("gemini",),
            personal=(".gemini/skills",),
            project=(".gemini/skills",),
            servers=ServerFile(
                user=".gemini/settings.json",
                project=".gemini/settings.json",
                then="Start `gemini`, and `/mcp` shows it.",
            ),
        ),
        Client(
            name="antigravity",
            title="Antigravity",
            programs=("antigravity",),
            personal=(".gemini/antigravity/skills", ".gemini/antigravity-cli/skills"),
            project=(SHARED_FOLDER, ".agent/skills"),
        ),
        Client(
            name="opencode",
            title="OpenCode",
            programs=("opencode",),
            personal=("{config}/opencode/skills",),
            project=(".opencode/skills",),
            servers=ServerFile(
                user="{config}/opencode/opencode.json",
                project="opencode.json",
                also=("opencode.jsonc",),
                section=("mcp", "servers"),
                older_section=("mcp",),
                entry={"type": "local", "command": WORDS},
                then="`opencode mcp list` shows it.",
            ),
        ),
        Client(
            name="goose",
            title="goose",
            programs=("goose",),
            personal=("{config}/goose/skills",),
            project=(".goose/skills",),
            servers=ServerFile(
                user="{config}/goose/config.yaml",
                user_on_windows="{data}/Block/goose/config/config.yaml",
                format="yaml",
                section=("extensions",),
                entry={
                    "enabled": True,
                    "type": "stdio",
                    "name": NAME,
                    "description": "Skills",
                    "cmd": COMMAND,
                    "args": ARGUMENTS,
                    "timeout": 300,
                },
                then="Start a new session of goose.",
            ),
        ),
        Client(
            name="windsurf",
            title="Windsurf",
            programs=("windsurf",),
            personal=(".codeium/windsurf/skills",),
            project=(".windsurf/skills",),
            servers=ServerFile(
                user=".codeium/windsurf/mcp_config.json",
                then="Press Refresh in the list of MCP servers of Cascade.",
            ),
        ),
        Client(
            name="zed",
            title="Zed",
            programs=("zed", "zeditor"),
            personal=(SHARED_FOLDER,),
            project=(SHARED_FOLDER,),
            servers=ServerFile(
                user="{config}/zed/settings.json",
                user_on_windows="{data}/Zed/settings.json",
                project=".zed/settings.json",
                section=("context_servers",),
                then="The settings of the agent panel list it.",
            ),
        ),
        Client(
            name="amp",
            title="Amp",
            programs=("amp",),
            personal=("{config}/agents/skills",),
            project=(SHARED_FOLDER,),
        ),
    )
}

_FIRST = (OWN_FOLDER, SHARED_FOLDER, ".claude/skills")
PROJECT_FOLDERS = tuple(dict.fromkeys((*_FIRST, *(path for one in CLIENTS.values() for path in one.project))))
"""Every folder of skills in a project, of two parts each, the strongest first."""
_PERSONAL = tuple(dict.fromkeys((*_FIRST, *(path for one in CLIENTS.values() for path in one.personal))))

_OWNERS = {path: client for client in reversed(list(CLIENTS.values())) for path in client.own_folders}
_MOVABLE = {path: client for path, client in _OWNERS.items() if path.startswith("{")}


def in_home(path: str, home: str, environ: Mapping[str, str] = os.environ) -> str:
    """The absolute path that a path of the table has for a user."""
    base, _, rest = path.partition("/") if path.startswith("{") else ("", "", path)
    return os.path.join(_base(base.strip("{}"), home, environ), *rest.split("/"))


def _base(name: str, home: str, environ: Mapping[str, str]) -> str:
    if name == "data":
        if sys.platform == "darwin":
            return os.path.join(home, "Library", "Application Support")
        if sys.platform == "win32":
            return environ.get("APPDATA") or os.path.join(home, "AppData", "Roaming")
        name = "config"
    variable, below = _VARIABLES.get(name, ("", ""))
    chosen = environ.get(variable, "")
    # A relative one would mean another folder wherever one stands.
    return chosen if os.path.isabs(chosen) else os.path.join(home, below)


def moved_folders(home: str) -> tuple[str, ...]:
    """The folders of clients' settings that a variable has moved, so that their names no longer tell what they are."""
    folders = {in_home(path, home): in_home(path, home, {}) for path in ("{claude}/", "{codex}/", "{config}/opencode")}
    return tuple(os.path.normpath(folder) for folder, unmoved in folders.items() if folder != unmoved)


_HOOK_SETTINGS = (
    ".claude/settings.json", ".claude/settings.local.json", ".codex/config.toml", ".codex/hooks.json", ".codex/rules",
    ".copilot/hooks", ".cursor/cli-config.json", ".cursor/hooks.json", ".gemini/policies", ".gemini/settings.json",
    ".github/hooks", ".metier/hook", ".opencode/plugins",
)  # fmt: skip


def hook_settings(home: str, project: str) -> tuple[str, ...]:
    """The files and folders by which hooks of clients are written and switched off: what no grant opens to a client."""
    moved = ("{claude}/settings.json", "{codex}/config.toml", "{codex}/hooks.json", "{codex}/rules")
    return (
        *(os.path.join(folder, name) for folder in (home, project) for name in _HOOK_SETTINGS),
        *(in_home(path, home) for path in (*moved, "{config}/opencode/plugins")),
    )


def personal_folders(home: str, project: str = "") -> list[str]:
    """Every folder of skills in a home folder, the strongest first.

    A variable may move a client's folder anywhere. One that lies in `project` stays that of the project: whoever wrote
    the project wrote the skills in it.
    """
    from metier._paths import is_inside  # the command line has this table without it

    folders = {in_home(path, home): in_home(path, home, {}) for path in _PERSONAL}
    return [
        folder
        for folder, unmoved in folders.items()
        if folder == unmoved or not project or not is_inside(os.path.realpath(folder), project)
    ]


def client_of(folder: str) -> Client | None:
    """The client that a folder of skills belongs to; None for Métier's own, for the shared one and for any other.

    >>> [client and client.name for client in map(client_of, ("/shop/.cursor/skills", "/shop/.agents/skills"))]
    ['cursor', None]
    """
    parts = folder.replace(os.sep, "/").rsplit("/", 3)
    found = _OWNERS.get("/".join(parts[-2:])) or _OWNERS.get("/".join(parts[-3:]))
    # A variable makes no folder a client's that is Métier's own or shared by its name.
    if found is None and "/".join(parts[-2:]) not in (OWN_FOLDER, SHARED_FOLDER):
        home = os.path.expanduser("~")
        found = next((client for path, client in _MOVABLE.items() if folder == in_home(path, home)), None)
    return found
