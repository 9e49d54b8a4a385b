"""The protection of clients: what is written for each, and whether it holds."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._json_object import value_at
from metier._lazy import dataclass
from metier.cli.client_files import place_of, read_text
from metier.cli.client_permissions import permissions_of
from metier.cli.file_part import FilePart
from metier.cli.hook_files import HOOK_FILES, is_our_hook
from metier.cli.json_text import json_data
from metier.cli.output import short_path
from metier.cli.undo_record import UndoRecord
from metier.errors import MetierError
from metier.library.clients import in_home
from metier.library.places import project_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from metier.cli.client_files import FileChange
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


def protect_client(client: str, *, is_user: bool, remove: bool = False, dry_run: bool = False) -> list[FileChange]:
    """Put our hooks and rules into the files of a client, or take them out; the program of hooks is not written."""
    hooks = HOOK_FILES[client]
    path, lists = (hooks.user, hooks.user_lists) if is_user else (hooks.project, hooks.project_lists)
    content, permissions = _hooks_of(client, hooks, is_user=is_user), permissions_of(client, is_user=is_user)
    if isinstance(content, dict):
        content |= permissions.beside_hooks
    parts = [FilePart(path=path, content=content, is_removed=remove, whole=frozenset({"sandbox"}))]
    if lists:
        listed = permissions.listed
        parts.append(FilePart(path=lists, content=listed, is_removed=remove, is_optional=isinstance(listed, dict)))
    return [part.change(is_user=is_user, dry_run=dry_run) for part in parts]


def _hooks_of(client: str, hooks: HookFile, *, is_user: bool) -> dict[str, Any] | str:
    from metier.serve.client_hooks.fast_client import hook_command
    from metier.serve.client_hooks.gate import failure_mode

    fail = failure_mode(os.getcwd())
    # A file that others get too must not name this user's home.
    is_own = is_user or not hooks.is_shared
    command = hook_command(client, fail=fail, is_user=is_own)
    if hooks.plugin:
        text = resources.files("metier.serve.client_hooks").joinpath(hooks.plugin).read_text("utf-8")
        return text.replace('"__METIER_HOOK__"', json.dumps(command)).replace('"__METIER_FAIL__"', json.dumps(fail))
    # A session that cannot be told to begin or end blocks nobody.
    observing = hook_command(client, fail="open", is_user=is_own)
    return hooks.content(command, observing, is_closed=fail == "closed")


def is_in_project() -> bool:
    """Whether one stands in a repository."""
    return os.path.lexists(os.path.join(project_root(Path.cwd()), ".git"))


def client_protections() -> Iterator[ClientProtection]:
    """The state of each client that has something of ours, for the user and in the project that one stands in."""
    is_home = os.path.realpath(project_root(Path.cwd())) == os.path.realpath(os.path.expanduser("~"))
    for client in HOOK_FILES:
        for is_user in (True,) if is_home else (False, True):
            yield protection_of(client, is_user=is_user)


def protection_of(client: str, *, is_user: bool) -> ClientProtection:
    """The state of a client for the user, or in the project that one stands in."""
    report = functools.partial(ClientProtection, client=client, scope="user" if is_user else "project")
    try:
        removed = protect_client(client, is_user=is_user, remove=True, dry_run=True)
        # A file that is gone, or without our hooks, was protected if there is a record of it.
        if all(one.is_none and UndoRecord.load(one.file) is None for one in removed):
            return report(state="off")
        changes = protect_client(client, is_user=is_user, dry_run=True)
    except MetierError as error:
        return report(state="changed", problem=error.message)
    files = tuple(one.file for one in changes if one.before is not None)
    differing = [short_path(one.file) for one in changes if not one.is_none]
    problem = f"{', '.join(differing)} is not as it would be written now" if differing else _program_problem()
    if problem:
        return report(files=files, state="changed", problem=problem)
    try:
        problem = _switch_problem(client, changes[0], is_user=is_user)
    except (MetierError, ValueError, LookupError, RecursionError) as error:
        problem = f"another file of its settings cannot be read ({error})"
    return report(files=files, state="inactive" if problem else "on", problem=problem)


def _program_problem() -> str:
    if sys.platform == "win32":
        return ""
    from metier.serve.client_hooks.fast_client import hook_path, is_written

    return "" if is_written() else f"{short_path(hook_path())}, which it runs, is missing or not as it was written"


def _switch_problem(client: str, change: FileChange, *, is_user: bool) -> str:
    """The setting by which the client itself leaves our hooks out."""
    if client == "codex":
        return _codex_distrust(change, is_user=is_user)
    hooks = HOOK_FILES[client]
    project = str(project_root(Path.cwd()))
    others = [os.path.join(project, name) for name in hooks.other_settings]
    files = [place_of(hooks.project, is_user=False), place_of(hooks.user, is_user=True)]
    files += [(os.path.dirname(one), one) for one in others]
    for root, file in files if hooks.off else ():
        if switch := hooks.switched_off_by(json_data(read_text(root, file) or "")):
            return f"{switch} in {short_path(file)} switches hooks off"
    return ""


def _codex_distrust(change: FileChange, *, is_user: bool) -> str:
    """The reason why Codex runs no hook of a file: it notes the hash of each one that a person has reviewed."""
    import tomllib

    try:
        with open(in_home("{codex}/config.toml", os.path.expanduser("~")), "rb") as opened:
            config = tomllib.load(opened)
    except (OSError, ValueError):
        config = {}
    if not is_user and value_at(config, "projects", change.root, "trust_level") != "trusted":
        return "Codex does not trust this project, so it reads no hooks of it: start `codex` here, and trust it"
    groups = json_data(change.before or "")["hooks"]["PreToolUse"]
    for number, group in enumerate(groups):
        for index, hook in enumerate(group.get("hooks", ()) if isinstance(group, dict) else ()):
            noted = value_at(config, "hooks", "state", f"{change.file}:pre_tool_use:{number}:{index}")
            is_on = is_our_hook(hook) and value_at(noted, "enabled") is not False
            if is_on and value_at(noted, "trusted_hash") == _codex_hash(group, hook):
                return ""
    return "Codex was not told by `/hooks` to trust it as it is now"


def _codex_hash(group: dict[str, Any], hook: dict[str, Any]) -> str:
    matcher = {"matcher": group["matcher"]} if "matcher" in group else {}
    whole = {"event_name": "pre_tool_use", **matcher, "hooks": [{"timeout": 600, "async": False, **hook}]}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
