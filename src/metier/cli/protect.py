"""`metier protect`: our hooks in the configuration of a client, so that the guard decides about its tool calls."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.cli.client_permissions import list_parts, permissions_of
from metier.cli.file_part import FilePart
from metier.cli.hook_files import HOOK_FILES
from metier.cli.json_text import json_data
from metier.cli.output import Style, print_done, print_json, short_path, table
from metier.errors import InvalidArgument, MetierError
from metier.library.clients import CLIENTS, in_home
from metier.library.places import project_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from metier.cli.client_files import FileChange
    from metier.cli.client_permissions import ClientPermissions
    from metier.cli.hook_files import HookFile
    from metier.cli.parser import Parser
    from metier.guard.governance import Governance
    from metier.guard.policy.effective import EffectivePolicy


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


def add(parser: Parser) -> None:
    parser.example("metier protect claude-code --dry-run")
    parser.add_argument(
        "client",
        nargs="?",
        metavar="CLIENT",
        choices=list(HOOK_FILES),
        help=f"{', '.join(HOOK_FILES)}; without one, say which are protected",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--project", action="store_true", help="for this project alone (default in a repository)")
    scope.add_argument("--user", action="store_true", help="for all your projects (default elsewhere)")
    parser.flag("--remove", "take out what was written, and leave all else as it is")
    parser.flag("--dry-run", "only print what would change")
    parser.json()


def run(options: Namespace) -> None:
    if options.client is None:
        if options.remove or options.dry_run or options.project or options.user:
            raise InvalidArgument("No client was named.", hint=f"Name one of {', '.join(HOOK_FILES)}.")
        _print_all(options)
        return
    hooks, is_user = HOOK_FILES[options.client], options.user or not (options.project or _is_in_project())
    if not options.remove and not options.dry_run:
        _write_program()
    changes = protect_client(options.client, is_user=is_user, remove=options.remove, dry_run=options.dry_run)
    if options.json:
        shape = [
            {"file": one.file, "changed": not one.is_none, "exists": one.after is not None, "diff": one.diff()}
            for one in changes
            if not (one.before is None and one.after is None)
        ]
        print_json(
            {
                "client": options.client,
                "scope": "user" if is_user else "project",
                "removed": options.remove,
                "dry_run": options.dry_run,
                "files": shape,
                "unexpressed": list(_permissions(options.client).unexpressed),
                "limits": list(hooks.limits),
            }
        )
        return
    _print_changes(options, changes, hooks)


def protect_client(client: str, *, is_user: bool, remove: bool = False, dry_run: bool = False) -> list[FileChange]:
    """Put our hooks and rules into the files of a client, or take them out; the program of hooks is not written."""
    parts = _parts(client, is_user=is_user, remove=remove)
    return [part.change(is_user=is_user, dry_run=dry_run) for part in parts]


def planned(client: str, *, is_user: bool = False, remove: bool = False) -> list[FileChange]:
    """The changes that protecting a client would make, or taking them back; nothing is written."""
    return protect_client(client, is_user=is_user, remove=remove, dry_run=True)


def client_protections() -> Iterator[ClientProtection]:
    """The state of each client that has something of ours, for the user and in the project that one stands in."""
    for client in HOOK_FILES:
        for is_user in (False, True) if _is_in_project() else (True,):
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
    switch = HOOK_FILES[client].switched_off_by(json_data(change.before or "")) if HOOK_FILES[client].off else ""
    return f"{switch} in {short_path(change.file)} switches hooks off" if switch else ""


def _is_trusted_by_codex(file: str) -> bool:
    """Whether Codex has noted trust in a hook of a file that decides; whether in this one, it alone can tell."""
    import tomllib

    try:
        with open(in_home("{codex}/config.toml", os.path.expanduser("~")), "rb") as opened:
            state = tomllib.load(opened)["hooks"]["state"]
        return any(key.startswith(f"{file}:pre_tool_use:") and "trusted_hash" in state[key] for key in state)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _is_in_project() -> bool:
    return os.path.lexists(os.path.join(project_root(Path.cwd()), ".git"))


def _write_program() -> None:
    if sys.platform != "win32":
        from metier.serve.client_hooks.fast_client import hook_program

        hook_program()


def _parts(client: str, *, is_user: bool, remove: bool = False) -> Iterator[FilePart]:
    """The files of a client, with our part of each."""
    hooks = HOOK_FILES[client]
    if remove:
        yield FilePart(place=hooks, content=None)
        yield from list_parts(client, None, is_user=is_user)
        return
    content = _hooks_of(client, hooks, _governance().effective, is_user=is_user)
    permissions = _permissions(client)
    if isinstance(content, dict):
        content |= permissions.beside_hooks
    yield FilePart(place=hooks, content=content, whole=frozenset({"sandbox"}))
    yield from list_parts(client, permissions.listed, is_user=is_user)


def _permissions(client: str) -> ClientPermissions:
    return permissions_of(client, _governance(), str(project_root(Path.cwd())))


def _governance() -> Governance:
    from metier.guard.governance import Governance

    return Governance.default(os.getcwd())


def _hooks_of(client: str, hooks: HookFile, effective: EffectivePolicy, *, is_user: bool) -> dict[str, Any] | str:
    from metier.serve.client_hooks.fast_client import hook_command

    fail: Literal["open", "closed"] = _fail(effective)
    # A file that others get too must not name this user's home.
    is_own = is_user or not hooks.is_shared
    if hooks.plugin:
        text = resources.files("metier.serve.client_hooks").joinpath(hooks.plugin).read_text("utf-8")
        command = hook_command(client, fail=fail, is_user=is_own)
        return text.replace('"__METIER_HOOK__"', _quoted(command)).replace('"__METIER_FAIL__"', _quoted(fail))

    def command_of(decides: bool) -> str:
        # A session that cannot be told to begin or end blocks nobody.
        return hook_command(client, fail=fail if decides else "open", is_user=is_own)

    return hooks.content(command_of, is_closed=fail == "closed")


def _fail(effective: EffectivePolicy) -> Literal["open", "closed"]:
    return effective.protect_fail or ("closed" if any(one.layer == "enterprise" for one in effective.files) else "open")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


def _print_changes(options: Namespace, changes: list[FileChange], hooks: HookFile) -> None:
    title = CLIENTS[options.client].title
    changed = [one for one in changes if not one.is_none]
    for one in changed:
        print(one.diff())
    if not changed:
        print_done(f"{title} is {'not ' if options.remove else ''}protected here already.")
        return
    if options.dry_run:
        return
    names = ", ".join(Style.text(short_path(one.file), 4_096) for one in changed)
    if options.remove:
        print_done(f"{title} is no longer protected: {names} {'is' if len(changed) == 1 else 'are'} without our hooks.")
        print(f"Restart {title} if it runs.")
        return
    print_done(f"{title} is protected by {names}.")
    print(hooks.then)
    if left := "; ".join(_permissions(options.client).unexpressed):
        print(f"Its own lists cannot say these rules, so the hook alone enforces them: {Style.text(left, 4_096)}.")
    for limit in hooks.limits:
        print(f"{Style(sys.stdout).dim('limit')}: {limit}")
    scope = " --user" if options.user else " --project" if options.project else ""
    print(f"`metier protect {options.client}{scope} --remove` undoes it.")


def _print_all(options: Namespace) -> None:
    found = list(client_protections())
    if options.json:
        print_json({"clients": [one.as_json() for one in found]})
        return
    rows = [
        (one.client, one.scope, one.state, ", ".join(map(short_path, one.files)) or one.problem or "-") for one in found
    ]
    style = Style(sys.stdout)
    print(table(style, ("CLIENT", "SCOPE", "STATE", "FILES"), rows))
    for one in found:
        if one.problem:
            again = f"metier protect {one.client} --{one.scope}"
            print(f"{style.warn(one.client)}: {Style.text(one.problem, 4_096)}. `{again}` writes it again.")
