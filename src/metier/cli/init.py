"""`metier init`: finds the frameworks and clients of a project, and offers to connect, protect and sync them.

Each step is another command, which can be called and undone alone; it writes in this project only, apart from the
program that hooks of clients run, which belongs to the user.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, replace
from metier.cli import identity
from metier.cli.exit_codes import FINE, PROBLEMS
from metier.cli.output import Style, plural, print_json, print_warning, short_path, table
from metier.cli.parser import Parser, library_of, parse, skill_folders
from metier.cli.project_detection import found_clients, found_frameworks
from metier.cli.sync import several
from metier.errors import InvalidArgument, MetierError
from metier.hints import install_command
from metier.library.clients import CLIENTS
from metier.library.places import home_folder, project_root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.cli.client_files import FileChange
    from metier.cli.project_detection import FoundClient, FoundFramework
    from metier.library.clients import Client

Kind = Literal["connect", "protect", "sync"]
_PURPOSES: dict[Kind, str] = {
    "connect": "has the skills of Métier over MCP",
    "protect": "asks Métier before each tool call, by the program ~/.metier/hook",
    "sync": "has copies of the skills as folders; needless where it is connected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InitStep:
    """Something that can be done for a client, by a command line; `undo` takes it back."""

    kind: Kind
    client: Client
    command: tuple[str, ...]
    undo: tuple[str, ...]
    files: tuple[str, ...] = ()
    """The files and folders that it writes."""
    details: str = ""
    """The difference that it makes, for people."""
    state: Literal["planned", "already", "impossible", "skipped", "done", "failed"] = "planned"
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "step": self.kind,
            "client": self.client.name,
            "files": list(self.files),
            "command": _line(self.command),
            "undo": _line(self.undo),
            "state": self.state,
            "reason": self.reason,
        }


def add(parser: Parser) -> None:
    parser.example("metier init --dry-run")
    parser.library(caller=False)
    parser.option("--only", "STEP,...", f"just these: {', '.join(_PURPOSES)} (repeatable)", action="append")
    parser.flag("--yes", "do all that is found to do, without asking", short="-y")
    parser.flag("--dry-run", "only show what would be written")
    parser.json()


def run(options: Namespace) -> int:
    kinds = _chosen(options)
    root, home = str(project_root(Path.cwd())), os.path.realpath(home_folder() or os.sep)
    if root == home:
        raise InvalidArgument(
            "This is your home folder, and no project.",
            hint="Change into a project; `metier protect CLIENT --user` and `metier mcp --install CLIENT --user` are "
            "for all of them.",
        )
    frameworks, problems = found_frameworks(root)
    clients = found_clients(root, home)
    planner = _Planner(options, root)
    steps = list(planner.steps([client for client, _ in clients], kinds))
    acts = not options.dry_run and (options.yes or (identity.is_at_terminal() and not options.json))
    if not options.json:
        for problem in problems:
            print_warning(problem)
        _print_found(clients, frameworks)
        _print_steps(steps, shows_details=options.dry_run)
    if acts and any(step.state == "planned" for step in steps):
        identity.require_person()
        steps = list(planner.carry_out(steps))
    if options.json:
        print_json(
            {
                "dry_run": not acts,
                "project": root,
                "clients": [{"client": client.name, "found_by": by} for client, by in clients],
                "frameworks": [
                    {"framework": one.name, "found_by": by, "extra": one.extra, "lines": one.lines}
                    for one, by in frameworks
                ],
                "steps": [step.as_json() for step in steps],
                "problems": problems,
            }
        )
    else:
        _print_end(steps, acts=acts, is_empty=not clients and not frameworks)
    return PROBLEMS if any(step.state in ("impossible", "failed") for step in steps) else FINE


def _chosen(options: Namespace) -> list[Kind]:
    named = several(options.only)
    if unknown := [one for one in named if one not in _PURPOSES]:
        raise InvalidArgument(f"{unknown[0]!r} is no step.", hint=f"Steps are {', '.join(_PURPOSES)}.")
    return [kind for kind in _PURPOSES if not named or kind in named]


class _Planner:
    """Plans the steps for the clients of a project, and carries them out."""

    def __init__(self, options: Namespace, root: str) -> None:
        self._options, self._root = options, root
        self._connected: set[str] = set()
        self._before = [word for folder in skill_folders(options) for word in ("--skills", folder)]

    def steps(self, clients: Sequence[Client], kinds: Sequence[Kind]) -> Iterator[InitStep]:
        """The steps for clients; of those that read one folder, the first gets the copies."""
        from metier.cli.hook_files import HOOK_FILES

        folders = set()
        for client in clients:
            name = client.name
            if "connect" in kinds and client.servers is not None and client.servers.project:
                yield self._planned("connect", client, ("mcp", "--install", name), ("mcp", "--remove", name))
            if "protect" in kinds and name in HOOK_FILES:
                words = ("protect", name, "--project")
                yield self._planned("protect", client, words, (*words, "--remove"))
            if "sync" in kinds and client.project and client.project[0] not in folders:
                folders.add(client.project[0])
                words = ("sync", "--client", name)
                yield self._planned("sync", client, words, (*words, "--remove"))

    def _planned(self, kind: Kind, client: Client, words: Sequence[str], undo: Sequence[str]) -> InitStep:
        return self._looked_at(InitStep(kind=kind, client=client, command=(*self._before, *words), undo=tuple(undo)))

    def _looked_at(self, step: InitStep) -> InitStep:
        try:
            plans = {"connect": self._connect, "protect": self._protect, "sync": self._sync}
            return plans[step.kind](step)
        except MetierError as error:
            return replace(step, state="impossible", reason=f"{error.message} {error.hint}".rstrip())

    def _connect(self, step: InitStep) -> InitStep:
        from metier.cli.mcp_clients import planned_server

        options = Namespace()
        parse([*step.command, "--dry-run"], options)
        change = planned_server(options)
        if change is None:
            self._connected.add(step.client.name)
            return replace(step, state="already")
        if importlib.util.find_spec("mcp") is None:
            return replace(
                step, state="skipped", reason=f"The server needs `{install_command('metier[mcp]')}` to start."
            )
        return _with_changes(step, [change])

    def _protect(self, step: InitStep) -> InitStep:
        from metier.cli.client_protection import protect_client, protection_of

        if protection_of(step.client.name, is_user=True).files:
            return replace(step, state="already", reason="It is protected for all your projects.")
        return _with_changes(step, protect_client(step.client.name, is_user=False, dry_run=True))

    def _sync(self, step: InitStep) -> InitStep:
        from metier.hub import sync_to

        if step.client.name in self._connected and not self._options.only:
            return replace(step, state="skipped", reason="It is connected, and would have each skill twice.")
        folder = os.path.join(self._root, *step.client.project[0].split("/"))
        found = sync_to(library_of(self._options), folder, dry_run=True)
        new = [one.skill for one in found.steps if one.done in ("added", "updated", "removed")]
        if not new:
            return replace(step, state="already", files=(folder,))
        return replace(
            step, files=(folder,), details=Style.text(f"{plural(len(new), 'skill')}: {', '.join(new)}", 2_000)
        )

    def carry_out(self, steps: Sequence[InitStep]) -> Iterator[InitStep]:
        """Do each step that is agreed to."""
        for planned in steps:
            # What an earlier step wrote may be in the same file, or make this one needless.
            step = self._looked_at(planned) if planned.state == "planned" else planned
            if step.state == "planned":
                is_agreed = self._options.yes or _is_agreed(step)
                step = self._done(step) if is_agreed else replace(step, state="skipped", reason="Nobody agreed to it.")
            yield step

    def _done(self, step: InitStep) -> InitStep:
        from metier.cli.main import main

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = main(step.command)
        if not self._options.json:
            # Where somebody was asked, the difference was shown before the question.
            print(said.getvalue() if self._options.yes else said.getvalue().replace(f"{step.details}\n", ""), end="")
        if step.kind == "connect" and not code:
            self._connected.add(step.client.name)
        return replace(step, state="failed" if code else "done", reason=f"It ended with {code}." if code else "")


def _with_changes(step: InitStep, changes: Sequence[FileChange]) -> InitStep:
    new = [one for one in changes if not one.is_none]
    if not new:
        return replace(step, state="already")
    return replace(step, files=tuple(one.file for one in new), details="\n".join(one.diff() for one in new))


def _is_agreed(step: InitStep) -> bool:
    from metier.cli.terminal import ask_yes

    print(step.details)
    files = " and ".join(Style.text(short_path(file), 4_096) for file in step.files)
    return ask_yes(f"{step.kind.capitalize()} {step.client.title}, by writing {files}?")


def _print_found(clients: Sequence[FoundClient], frameworks: Sequence[FoundFramework]) -> None:
    rows = [[client.title, ", ".join(by)] for client, by in clients]
    rows += [[one.title, ", ".join(by)] for one, by in frameworks]
    if rows:
        print(table(Style(sys.stdout), ["FOUND", "BY"], rows))
    for one, _ in frameworks:
        needs = f"`pip install 'metier[{one.extra}]'`, then " if one.extra else ""
        print(f"\n{one.title}: {needs}add these lines (`docs/how-to/frameworks.md` has more; no code is changed here):")
        print("\n".join(f"    {line}" for line in one.lines))


def _print_steps(steps: Sequence[InitStep], *, shows_details: bool) -> None:
    if not steps:
        return
    style = Style(sys.stdout)
    rows = [
        [step.kind, step.client.title, step.state, ", ".join(map(short_path, step.files)), _line(step.command)]
        for step in steps
    ]
    print(f"\n{table(style, ['STEP', 'CLIENT', 'STATE', 'WRITES', 'COMMAND'], rows)}")
    for kind in dict.fromkeys(step.kind for step in steps):
        print(style.dim(f"{kind}: the client {_PURPOSES[kind]}"))
    for step in steps:
        if step.state == "impossible":
            print_warning(f"{step.kind} {step.client.title}: {step.reason}")
        elif step.reason:
            print(f"{step.kind} {step.client.title}: {step.reason}")
        elif shows_details and step.details:
            print(f"\n{_line(step.command)}\n{step.details}")


def _print_end(steps: Sequence[InitStep], *, acts: bool, is_empty: bool) -> None:
    done = [step for step in steps if step.state == "done"]
    waiting = [step for step in steps if step.state == "planned"]
    if done:
        print("\nTo undo it:")
        print("\n".join(f"  {_line(step.undo)}" for step in done))
    elif waiting:
        print("\nNothing was changed. At a terminal, `metier init` asks about each step; `--yes` does all of them.")
    elif acts and any(step.state in ("failed", "impossible") or step.reason.startswith("Nobody") for step in steps):
        print("\nNothing was changed.")
    elif steps:
        print("\nThere is nothing left to do here; `metier doctor` says whether it all holds.")
    if is_empty:
        names = ", ".join(one.name for one in CLIENTS.values() if one.servers is not None and one.servers.project)
        print(f"Neither a client nor a framework was found here. `metier mcp --install CLIENT` connects one: {names}.")
        print("`metier list` shows the skills that there are, and `metier add` brings more.")


def _line(words: Sequence[str]) -> str:
    return shlex.join(("metier", *words))
