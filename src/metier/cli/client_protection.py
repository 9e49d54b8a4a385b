"""The protection of clients: what is written for each, and whether it holds."""

from __future__ import annotations

import json
import os
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.cli.client_files import place_of, read_text
from metier.cli.client_permissions import list_parts, permissions_of
from metier.cli.file_part import FilePart
from metier.cli.hook_files import HOOK_FILES
from metier.cli.json_text import json_data
from metier.cli.output import short_path
from metier.errors import MetierError
from metier.library.clients import in_home
from metier.library.places import project_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from metier.cli.client_files import FileChange
    from metier.cli.client_permissions import ClientPermissions
    from metier.cli.hook_files import HookFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProtection:
    """Whether a client is protected, for a user or in a project, and by which files."""

    client: str
    scope: Literal["project", "user"]
    files: tuple[str, ...] = ()
    state: Literal["on", "changed", "inactive", "off"]
    """`changed` where the files are not as they would be written now, `inactive` where the client leaves them out."""
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        files = list(self.files)
        return {
            "client": self.client,
            "scope": self.scope,
            "state": self.state,
            "files": files,
            "problem": self.problem,
        }


def protect_client(client: str, *, is_user: bool, remove: bool = False, dry_run: bool = False) -> list[FileChange]:
    """Put our hooks and rules into the files of a client, or take them out; the program of hooks is not written."""
    parts = _parts(client, is_user=is_user, remove=remove)
    return [part.change(is_user=is_user, dry_run=dry_run) for part in parts]


def planned(client: str, *, is_user: bool = False, remove: bool = False) -> list[FileChange]:
    """The changes that protecting a client would make, or taking them back; nothing is written."""
    return protect_client(client, is_user=is_user, remove=remove, dry_run=True)


def _parts(client: str, *, is_user: bool, remove: bool = False) -> Iterator[FilePart]:
    """The files of a client, with our part of each."""
    hooks = HOOK_FILES[client]
    if remove:
        yield FilePart(place=hooks, content=None)
        yield from list_parts(client, None, is_user=is_user)
        return
    content, permissions = _hooks_of(client, hooks, is_user=is_user), client_permissions(client, is_user=is_user)
    if isinstance(content, dict):
        content |= permissions.beside_hooks
    yield FilePart(place=hooks, content=content, whole=frozenset({"sandbox"}))
    yield from list_parts(client, permissions.listed, is_user=is_user)


def client_permissions(client: str, *, is_user: bool) -> ClientPermissions:
    """The permissions of a client that follow from the policy in force here."""
    from metier.guard.governance import Governance

    return permissions_of(client, Governance.default(os.getcwd()), str(project_root(Path.cwd())), is_user=is_user)


def _hooks_of(client: str, hooks: HookFile, *, is_user: bool) -> dict[str, Any] | str:
    from metier.serve.client_hooks.fast_client import hook_command
    from metier.serve.client_hooks.gate import failure_mode

    fail = failure_mode(os.getcwd())
    # A file that others get too must not name this user's home.
    is_own = is_user or not hooks.is_shared
    if hooks.plugin:
        text = resources.files("metier.serve.client_hooks").joinpath(hooks.plugin).read_text("utf-8")
        command = hook_command(client, fail=fail, is_user=is_own)
        return text.replace('"__METIER_HOOK__"', json.dumps(command)).replace('"__METIER_FAIL__"', json.dumps(fail))

    def command_of(decides: bool) -> str:
        # A session that cannot be told to begin or end blocks nobody.
        return hook_command(client, fail=fail if decides else "open", is_user=is_own)

    return hooks.content(command_of, is_closed=fail == "closed")


def is_in_project() -> bool:
    """Whether one stands in a repository."""
    return os.path.lexists(os.path.join(project_root(Path.cwd()), ".git"))


def client_protections() -> Iterator[ClientProtection]:
    """The state of each client that has something of ours, for the user and in the project that one stands in."""
    for client in HOOK_FILES:
        for is_user in (False, True) if is_in_project() else (True,):
            yield _protection(client, is_user=is_user)


def _protection(client: str, *, is_user: bool) -> ClientProtection:
    scope: Literal["user", "project"] = "user" if is_user else "project"
    try:
        if all(one.is_none for one in planned(client, is_user=is_user, remove=True)):
            return ClientProtection(client=client, scope=scope, state="off")
        changes = planned(client, is_user=is_user)
    except MetierError as error:
        return ClientProtection(client=client, scope=scope, state="changed", problem=error.message)
    files = tuple(one.file for one in changes if one.before is not None)
    differing = [short_path(one.file) for one in changes if not one.is_none]
    problem = f"{', '.join(differing)} is not as it would be written now" if differing else _program_problem()
    if problem:
        return ClientProtection(client=client, scope=scope, files=files, state="changed", problem=problem)
    problem = _switch_problem(client, changes[0])
    state: Literal["on", "inactive"] = "inactive" if problem else "on"
    return ClientProtection(client=client, scope=scope, files=files, state=state, problem=problem)


def _program_problem() -> str:
    if sys.platform == "win32":
        return ""
    from metier.serve.client_hooks.fast_client import hook_path, is_written

    return "" if is_written() else f"{short_path(hook_path())}, which it runs, is missing or not as it was written"


def _switch_problem(client: str, change: FileChange) -> str:
    """The setting by which the client itself leaves our hooks out."""
    if client == "codex":
        return "" if _is_trusted_by_codex(change.file) else "Codex was not told to trust it yet, by `/hooks`"
    hooks = HOOK_FILES[client]
    for is_user in (False, True) if hooks.off else ():
        root, file = place_of(hooks, is_user=is_user)
        if switch := hooks.switched_off_by(json_data(read_text(root, file) or "")):
            return f"{switch} in {short_path(file)} switches hooks off"
    return ""


def _is_trusted_by_codex(file: str) -> bool:
    """Whether Codex has noted trust in a hook of a file that decides; whether in this one, it alone can tell."""
    import tomllib

    try:
        with open(in_home("{codex}/config.toml", os.path.expanduser("~")), "rb") as opened:
            state = tomllib.load(opened)["hooks"]["state"]
        return any(key.startswith(f"{file}:pre_tool_use:") and "trusted_hash" in state[key] for key in state)
    except (OSError, ValueError, LookupError, TypeError):
        return False
