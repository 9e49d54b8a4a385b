"""Where each MCP client keeps its configuration, and what ours looks like in it."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier.cli.config_text import with_entry_in_json, with_entry_in_toml
from metier.cli.output import Style
from metier.errors import FileMissing, FileRefused, InvalidArgument, MetierError
from metier.guard import FileAccess
from metier.library.places import project_root
from metier.library.trust import home_folder
from metier.tools.workspace import Workspace

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}").fullmatch
_DEFAULTS = {"dialect": "runtime", "budget": 5_120, "ask": "", "deny": "", "scripts": "allow"}
_ATTEMPTS = 20
_WHO = ("agent", "tenant", "environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client."""

    title: str
    project: str
    """Its file in a project."""
    user: Callable[[str], str]
    """Its file for all projects of a user, by the user's home."""
    section: str = "mcpServers"
    """What servers are listed under."""
    says_type: bool = True
    """Whether an entry says that it is started, and spoken to over stdio."""
    workspace: str = ""
    """What stands for the project in a shared file; empty where the client starts servers there anyway."""
    then: str = ""
    """What is left to do."""


def _code_folder(home: str) -> str:
    """Where VS Code keeps what a user configures."""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "Code", "User")
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA") or home, "Code", "User")
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "Code", "User")


CLIENTS = {
    "claude-code": Client(
        title="Claude Code",
        project=".mcp.json",
        user=lambda home: os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or home, ".claude.json"),
        then="Start `claude`, and `/mcp` shows it; a server of a project has to be approved there once.",
    ),
    "cursor": Client(
        title="Cursor",
        project=".cursor/mcp.json",
        user=lambda home: os.path.join(home, ".cursor", "mcp.json"),
        workspace="${workspaceFolder}",
        then="Restart Cursor, and switch it on in its settings.",
    ),
    "vscode": Client(
        title="VS Code",
        project=".vscode/mcp.json",
        user=lambda home: os.path.join(_code_folder(home), "mcp.json"),
        section="servers",
        workspace="${workspaceFolder}",
        then="Run `MCP: List Servers`, and start it there.",
    ),
    "codex": Client(
        title="Codex",
        project=".codex/config.toml",
        user=lambda home: os.path.join(os.environ.get("CODEX_HOME") or os.path.join(home, ".codex"), "config.toml"),
        section="mcp_servers",
        says_type=False,
        then="Start `codex`, and `/mcp` shows it; the file of a project counts where Codex trusts the project.",
    ),
    "gemini": Client(
        title="Gemini CLI",
        project=".gemini/settings.json",
        user=lambda home: os.path.join(home, ".gemini", "settings.json"),
        says_type=False,
        then="Start `gemini`, and `/mcp` shows it.",
    ),
}


def install(options: argparse.Namespace) -> int:
    """Write the server into the configuration of a client, and say what is left to do."""
    client = CLIENTS[options.install]
    if options.http is not None or options.token is not None or options.no_token:
        raise InvalidArgument(
            "A client that starts the server itself needs neither --http nor --token.",
            hint="Leave them out; for a server that runs already, `docs/how-to/mcp.md` shows what to write.",
        )
    if not _NAME(options.name):
        raise InvalidArgument(
            f"{options.name!r} cannot be the name of a server.", hint="Use letters, digits, `-` and `_`, at most 64."
        )
    root, file = _place(client, is_user=options.user)
    entry = _entry(client, root, options)
    if not options.dry_run:
        os.makedirs(root, exist_ok=True)
    with contextlib.nullcontext() if options.dry_run else _alone_in(root):
        for _ in range(_ATTEMPTS):
            before, after = _changed(client, root, file, options.name, entry)
            if options.dry_run or before == after or _written(root, file, before, after):
                break
        else:
            raise FileRefused(
                f"{file} is being changed by another program all the time.", hint="End it, and try again.", path=file
            )
    style, shown = Style(sys.stdout), Style.text(file, 4_096)
    if before == after:
        print(f"{style.good('✓')} {shown} has the server {options.name!r} for {client.title} already.")
    elif options.dry_run:
        print("\n".join(_difference(before, after, file)))
    else:
        print(f"{style.good('✓')} {shown} has the server {options.name!r} for {client.title} now.")
        print(client.then)
    if importlib.util.find_spec("mcp") is None:
        print(f"{style.warn('note')}: It needs `pip install 'metier[mcp]'` to start.", file=sys.stderr)
    return 0


def _place(client: Client, *, is_user: bool) -> tuple[str, str]:
    """The folder that nothing is written outside of, and the file in it."""
    if not is_user:
        root = str(project_root(Path.cwd()))
        file = os.path.join(root, *client.project.split("/"))
        if os.path.realpath(file) != file:
            # Whoever wrote the project chose where it leads.
            raise FileRefused(
                f"{file} leads through a link, and nothing in a project is written through one.",
                hint="Put a copy in place of the link, or write into your own configuration with --user.",
                path=file,
            )
        return root, file
    home = home_folder()
    if home is None:
        raise InvalidArgument("You have no home folder here.", hint="Leave out --user.")
    file = os.path.abspath(client.user(os.path.abspath(home)))
    real, root = os.path.realpath(file), os.path.realpath(home)
    # That a home or a folder which the environment names is itself reached by a link says nothing.
    known = next((start for start in (os.path.abspath(home), root) if file.startswith(start + os.sep)), None)
    plain = os.path.dirname(file) if known is None else known
    if real != os.path.realpath(plain) + file[len(plain) :]:
        _require_own(file, real)
    return (root if real.startswith(root + os.sep) else os.path.dirname(real)), real


def _require_own(file: str, real: str) -> None:
    """Raise unless a link leads to a plain file of the user's: many keep such files in one folder, and link them."""
    is_new = not os.path.lexists(file)
    try:
        status = os.stat(os.path.dirname(real) if is_new else real)
    except OSError:
        why = f"where no {'folder' if is_new else 'file'} is"
    else:
        if not (stat.S_ISDIR if is_new else stat.S_ISREG)(status.st_mode):
            why = "which is no plain file"
        elif hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            why = "which belongs to somebody else"
        else:
            return
    raise FileRefused(
        f"{file} leads to {real} by a link, {why}.",
        hint="Make the link lead to a file of yours, or remove it.",
        path=file,
    )


def _changed(client: Client, root: str, file: str, name: str, entry: dict[str, Any]) -> tuple[str, str]:
    """The text of a file as it is, and as it would be."""
    before = _text(root, file)
    # What a link leads to may have any name.
    change = with_entry_in_toml if client.project.endswith(".toml") else with_entry_in_json
    try:
        after = change(before, client.section, name, entry, is_ours=_is_ours)
        after.encode()
    except MetierError as error:
        raise FileRefused(
            f"{file} was left as it is. {error.message}", hint=error.hint or "Mend it, and try again.", path=file
        ) from None
    except UnicodeEncodeError:
        raise InvalidArgument(
            "A path with bytes that are no text cannot be written down.", hint="Name it without."
        ) from None
    return before, after


def _text(root: str, file: str) -> str:
    if not os.path.isdir(root):
        return ""
    try:
        with _told_to_a_person(file):
            return Workspace(root).read(file).data.decode()
    except FileMissing:
        return ""
    except UnicodeDecodeError:
        raise FileRefused(f"{file} is not UTF-8.", hint="Mend it, and try again.", path=file) from None


def _written(root: str, file: str, before: str, after: str) -> bool:
    """Write a file, unless somebody else has done so since it was read."""
    if _text(root, file) != before:
        return False
    with _told_to_a_person(file):
        # A person has asked for it: such files are protected from tools.
        Workspace(root, access=FileAccess(workspace=root, is_open=True)).write(file, after.encode())
    return True


@contextlib.contextmanager
def _told_to_a_person(file: str) -> Iterator[None]:
    """While a file is used by what else serves models: what goes wrong is said in words for a person."""
    try:
        yield
    except FileMissing:
        raise
    except MetierError as error:
        raise FileRefused(
            f"{file} was left as it is. {error.message}",
            hint="Look at it and its permissions, and try again.",
            path=file,
        ) from None


@contextlib.contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """While no other process installs anything in a folder."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_ours(entry: dict[str, Any]) -> bool:
    """Whether an entry is one that was written here: it starts this program, and nothing else is to be reached."""
    command, arguments = entry.get("command"), entry.get("args")
    return (
        isinstance(command, str)
        and re.split(r"[/\\]", command)[-1].partition(".")[0] == "metier"
        and isinstance(arguments, list)
        and arguments[:1] == ["mcp"]
        and entry.get("type", "stdio") == "stdio"
        and not any("url" in word.lower() or word == "headers" for word in entry)
    )


def _entry(client: Client, root: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the client is told to start."""
    entry: dict[str, Any] = {"type": "stdio"} if client.says_type else {}
    return {**entry, "command": _program(is_user=options.user), "args": ["mcp", *_arguments(client, root, options)]}


def _program(*, is_user: bool) -> str:
    """How to start this program: by its name in a file that others get too, if that is enough to find it."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script).partition(".")[0] != "metier" or not os.path.isfile(script):
        beside = os.path.join(os.path.dirname(sys.executable), "metier")
        script = shutil.which("metier") or beside
    return script if is_user or shutil.which("metier") is None else "metier"


def _arguments(client: Client, root: str, options: argparse.Namespace) -> Iterator[str]:
    def path(word: str, text: str) -> str:
        absolute = os.path.realpath(text)
        if not os.path.exists(absolute):
            raise InvalidArgument(f"{Style.text(text)} does not exist.", hint=f"{word} names a folder.")
        if options.user or not (absolute + os.sep).startswith(root + os.sep):
            return option(word, absolute)
        below = os.path.relpath(absolute, root).replace(os.sep, "/")
        start = client.workspace or "."
        return option(word, start if below == "." else f"{start}/{plain(word, below)}", is_plain=True)

    def plain(word: str, text: str) -> str:
        if "${" in text:
            raise InvalidArgument(
                f"{word} has ${{ in it, which clients take for a variable.", hint="Use a name without it."
            )
        return text

    def option(word: str, text: str, *, is_plain: bool = False) -> str:
        # In one word, so that what begins with a hyphen is no option of its own.
        return f"{word}={text if is_plain else plain(word, text)}"

    for folder in (*(options.skills_before or ()), *(options.skills_after or ())):
        yield path("--skills", folder)
    if options.workspace is not None:
        yield path("--workspace", options.workspace)
    elif client.workspace and not options.user:
        yield option("--workspace", client.workspace, is_plain=True)
    for word, default in _DEFAULTS.items():
        if getattr(options, word) != default:
            yield option(f"--{word}", str(getattr(options, word)))
    for word in _WHO:
        if getattr(options, word, None):
            yield option(f"--{word}", getattr(options, word))


def _difference(before: str, after: str, file: str) -> Iterator[str]:
    shown = Style.text(file, 4_096)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), shown, shown, lineterm="")
    return (Style.text(line, 10_000) for line in lines)
