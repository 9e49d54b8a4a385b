"""`metier mcp --install` and `--remove`: our server in the configuration of an MCP client."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from metier._paths import is_inside
from metier.cli.client_files import change_file, place_of, read_text
from metier.cli.config_text import entries_in, with_entry, without_entry
from metier.cli.output import Style, print_done
from metier.cli.parser import DEFAULT_BUDGET, skill_folders
from metier.errors import InvalidArgument, MetierError
from metier.hints import install_command
from metier.library.clients import ARGUMENTS, CLIENTS, COMMAND, NAME, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.cli.client_files import FileChange
    from metier.library.clients import ServerFile

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}").fullmatch
_DEFAULTS = {
    "dialect": "runtime",
    "budget": DEFAULT_BUDGET,
    "ask": "",
    "deny": "",
    "scripts": "allow",
    "agent": None,
    "tenant": None,
    "environment": None,
}


def install(options: Namespace) -> None:
    """Write the server into the configuration of a client, or take it out, and say what is left to do."""
    is_removal = options.remove is not None
    client = CLIENTS[options.remove if is_removal else options.install]
    servers = client.servers
    assert servers is not None
    if options.http is not None or options.token is not None or options.no_token:
        raise InvalidArgument(
            "A client that starts the server itself needs neither --http nor --token.",
            hint="Leave them out; for a server that runs already, `docs/how-to/mcp.md` shows what to write.",
        )
    if not _NAME(options.name):
        raise InvalidArgument(
            f"{options.name!r} cannot be the name of a server.", hint="Use letters, digits, `-` and `_`, at most 64."
        )
    # Some clients have no file in a project.
    is_user = options.user or not servers.project
    root, file = _place(servers, is_user=is_user)
    style, shown = Style(sys.stdout), Style.text(file, 4_096)
    if not is_removal and (other := _installed_elsewhere(servers, options.name, is_user=is_user)):
        whose = "this project" if is_user else "all your projects"
        print_done(f"{Style.text(other, 4_096)} has the server {options.name!r} for {whose} already.")
        print(
            f"Nothing was written to {shown}, as {client.title} would have it twice. `--name OTHER` adds a second one; "
            f"`metier mcp --remove {client.name}{'' if is_user else ' --user'}` takes that one out."
        )
        return
    if not options.dry_run and not is_removal:
        os.makedirs(root, exist_ok=True)
    change = _change(servers, options, is_user=is_user)
    has = "has no" if is_removal else "has the"
    if change.is_none:
        print_done(f"{shown} {has} server {options.name!r} for {client.title} already.")
        other = _installed_elsewhere(servers, options.name, is_user=is_user) if is_removal else ""
        if other:
            print(f"{Style.text(other, 4_096)} has one: {'leave out' if is_user else 'add'} `--user` to take it out.")
    elif options.dry_run:
        print(change.diff())
    else:
        print_done(f"{shown} {has} server {options.name!r} for {client.title} now.")
        print(f"Restart {client.title} if it runs." if is_removal else servers.then)
    if not is_removal and importlib.util.find_spec("mcp") is None:
        print(f"{style.warn('note')}: It needs `{install_command('metier[mcp]')}` to start.", file=sys.stderr)


def planned_server(options: Namespace) -> FileChange | None:
    """The change that `--install` would make in a project; None where the client has such a server, here or for all."""
    servers = CLIENTS[options.install].servers
    assert servers is not None
    if any(_installed_elsewhere(servers, options.name, is_user=is_user) for is_user in (False, True)):
        return None
    return _change(servers, options, is_user=False)


def _change(servers: ServerFile, options: Namespace, *, is_user: bool) -> FileChange:
    root, file = _place(servers, is_user=is_user)
    entry = None if options.remove is not None else _entry(servers, root, options, is_user=is_user)

    def changed(text: str | None) -> str | None:
        before, is_ours = text or "", functools.partial(_is_ours, servers)
        section = _section(servers, before)
        if entry is not None:
            # In its older form, OpenCode starts nothing that does not say so.
            more = {"enabled": True} if section == servers.older_section else {}
            return with_entry(before, servers.format, section, options.name, {**entry, **more}, is_ours=is_ours)
        after = without_entry(before, servers.format, section, options.name, is_ours=is_ours)
        is_gone = text is None or (after != text and not is_user and _is_bare(servers, after))
        return None if is_gone else after

    return change_file(root, file, changed, dry_run=options.dry_run)


def _place(servers: ServerFile, *, is_user: bool) -> tuple[str, str]:
    user = servers.user_on_windows if sys.platform == "win32" and servers.user_on_windows else servers.user
    return place_of(user if is_user else servers.project, is_user=is_user, also=servers.also)


def _is_bare(servers: ServerFile, text: str) -> bool:
    """Whether nothing is left of a file but the names of the sections that lead to servers: it was made for ours."""
    return not re.sub(rf'[\s{{}}:]|"(?:{"|".join(servers.section)})"', "", text)


def _installed_elsewhere(servers: ServerFile, name: str, *, is_user: bool) -> str:
    """The other file of a client, of the user or of the project, where it has this server too; empty otherwise."""
    if not servers.project:
        return ""
    try:
        root, file = _place(servers, is_user=not is_user)
        text = read_text(root, file) or ""
        found = entries_in(text, servers.format, _section(servers, text)).get(name)
    except MetierError:
        return ""  # it is not the file that is to be changed
    return file if isinstance(found, dict) and _is_ours(servers, found) else ""


def _section(servers: ServerFile, text: str) -> tuple[str, ...]:
    """The keys that lead to the servers of a file: a file in the client's older form is kept in that form."""
    if servers.older_section:
        older = entries_in(text, servers.format, servers.older_section)
        if any(isinstance(one, dict) and "type" in one for one in older.values()):
            return servers.older_section
    return servers.section


def _is_ours(servers: ServerFile, entry: dict[str, Any]) -> bool:
    """Tell whether an entry was written here: it starts this program, and reaches nothing else."""
    words: list[Any] = []
    for field, value in servers.entry.items():
        if value in (COMMAND, ARGUMENTS, WORDS):
            given = entry.get(field)
            words += given if isinstance(given, list) else [given]
        elif field == "type" and entry.get(field, value) != value:
            return False
    return (
        len(words) >= 2
        and isinstance(words[0], str)
        and re.split(r"[/\\]", words[0])[-1].partition(".")[0] == "metier"
        and words[1] == "mcp"
        and not any("url" in word.lower() or word == "headers" for word in entry)
    )


def _entry(servers: ServerFile, root: str, options: Namespace, *, is_user: bool) -> dict[str, Any]:
    """Return the entry by which the client starts the server."""
    command = _program(is_user=is_user)
    arguments = ["mcp", *_arguments(servers, root, options, is_user=is_user)]
    try:
        "".join([command, *arguments]).encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            "A path with bytes that are no text cannot be written down.", hint="Name it without."
        ) from None
    values = {COMMAND: command, ARGUMENTS: arguments, WORDS: [command, *arguments], NAME: options.name}
    return {
        field: values.get(value, value) if isinstance(value, str) else value for field, value in servers.entry.items()
    }


def _program(*, is_user: bool) -> str:
    """Return the command that starts this program: in a file that others get too its name, if that is enough."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script).partition(".")[0] != "metier" or not os.path.isfile(script):
        beside = os.path.join(os.path.dirname(sys.executable), "metier")
        script = shutil.which("metier") or beside
    return script if is_user or shutil.which("metier") is None else "metier"


def _arguments(servers: ServerFile, root: str, options: Namespace, *, is_user: bool) -> Iterator[str]:
    def path(word: str, text: str) -> str:
        absolute = os.path.realpath(text)
        if not os.path.exists(absolute):
            raise InvalidArgument(f"{Style.text(text)} does not exist.", hint=f"{word} names a folder.")
        if is_user or not is_inside(absolute, root):
            return option(word, absolute)
        below = os.path.relpath(absolute, root).replace(os.sep, "/")
        start = servers.workspace or "."
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

    for folder in skill_folders(options):
        yield path("--skills", folder)
    if options.workspace is not None:
        yield path("--workspace", options.workspace)
    elif servers.workspace and not is_user:
        yield option("--workspace", servers.workspace, is_plain=True)
    for word, default in _DEFAULTS.items():
        value = getattr(options, word)
        if value not in (default, ""):
            yield option(f"--{word}", str(value))
