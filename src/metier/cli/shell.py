"""`metier shell`: a person, or a program, in the virtual shell."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import sys
import threading
from argparse import Namespace
from typing import TYPE_CHECKING

import metier
import metier.guard
from metier.cli.exit_codes import exit_code_of
from metier.cli.identity import user_name
from metier.cli.json_shapes import error_shape, outcome_shape
from metier.cli.output import Style, plural, print_json
from metier.cli.parser import Parser, library_of, seconds
from metier.cli.terminal import LiveOutput, at_terminal, complete_lines, harmless, typed_lines
from metier.errors import InvalidArgument, MetierError, PackageTooLarge, Refused, SkillChanged
from metier.guard.decision import refuse
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node
    from tree_sitter import Parser as ShellSyntax

    from metier import Library
    from metier.cli.folder_copy import FolderCopy
    from metier.guard import Action
    from metier.library import Entry
    from metier.run import Outcome, VirtualShell


_OPENING = frozenset(
    (
        *("if", "then", "elif", "else", "for", "select", "while", "until", "do", "case", "in", "function"),
        *("{", "(", "((", "$(", "${", "$((", "<(", ">(", "[[", '"', "`", "<<", "<<-", "|", "|&", "&&", "||"),
    )
)


def missing_end(text: str) -> str:
    """Return the text that an incomplete command line lacks: the end of a here-document, or `more`; empty if complete.

    >>> missing_end("if true; then"), missing_end("cat <<END"), missing_end("echo done")
    ('more', 'END', '')
    """
    if (len(text) - len(text.rstrip("\\"))) % 2:
        return "more"
    data = f"{text}\n".encode(errors="replace")
    size, nodes = len(data.rstrip()), [_syntax().parse(data).root_node]
    waits = False
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children)
        if node.type == "heredoc_start" and not _has_end(node):
            return (node.text or b"").decode(errors="replace").strip("\\'\"")
        if node.end_byte >= size and (node.is_missing or (node.is_error and _opens(node))):
            waits = True
    return "more" if waits else ""


def _opens(error: Node) -> bool:
    return any(child.type in _OPENING for child in error.children) or (error.text or b"").startswith(b"'")


def _has_end(start: Node) -> bool:
    around = start.parent
    return around is not None and any(child.type == "heredoc_end" and not child.is_missing for child in around.children)


@functools.cache
def _syntax() -> ShellSyntax:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_MOST_MOUNTED = 50
_WORKSPACE = "/workspace"
_HAS_EXIT = re.compile(r"\bexit\b").search
_MARK = "__went_on"
"""A variable that says of a command with an `exit` in it whether it went on behind it."""


def add(parser: Parser) -> None:
    parser.example("metier shell --skill csv-analyst -c 'ls /.sandbox/skills/csv-analyst'")
    parser.set_defaults(is_exact=True)
    parser.library()
    parser.option(
        "--skill",
        "NAME",
        "mount just this skill (repeatable; default: the first 50)",
        action="append",
        complete="names",
    )
    parser.option("--workspace", "DIR", "a folder to copy to /workspace")
    parser.flag("--write-back", "at the end, bring what changed in /workspace back to the folder")
    parser.option("-c", "COMMAND", "run this, and end with its exit code", dest="line")
    parser.option("--timeout", "S", "seconds that a command has (default: 30)", type=seconds)
    parser.json()


def run(options: Namespace) -> int:
    try:
        return _opened(options)
    except MetierError as error:
        if not options.json:
            raise
        print_json(error_shape(error))
        return exit_code_of(error)


def _opened(options: Namespace) -> int:
    from metier.run.selection import native_runner
    from metier.run.virtual import ShellLimits, VirtualShell
    from metier.session.resource_grants import kept_folders

    folder = _folder(options)
    limits = ShellLimits(seconds=options.timeout) if options.timeout else ShellLimits()
    with VirtualShell(limits=limits, folder=_WORKSPACE, native=native_runner()) as shell:
        talk = ShellPrompt(shell, is_json=options.json)
        library = library_of(options)
        mounted, left_out = _mount(shell, library, options.skill)
        copy = None
        if folder is not None and options.write_back:
            from metier.cli.folder_copy import FolderCopy

            guard = metier.Guard(project=folder)
            copy = FolderCopy(shell, guard.files.access(folder, kept_folders(library.index, guard)), _WORKSPACE)
        elif folder is not None:
            shell.import_folder(folder, _WORKSPACE)
        if options.line is not None:
            code = talk.once(options.line)
        else:
            if left_out or talk.is_interactive:
                more = f", {left_out:,} more are not: `--skill NAME` mounts one" if left_out else ""
                print(f"{plural(mounted, 'skill')} below {shell.mount_path}{more}.", file=sys.stderr)
            code = talk.until_the_end()
        return _brought_back(copy, code) if copy is not None else code


def _folder(options: Namespace) -> str | None:
    if options.workspace is None:
        if options.write_back:
            raise InvalidArgument("There is nothing to write back to.", hint="Name a folder with --workspace DIR.")
        return None
    return os.path.abspath(str(options.workspace))


def _mount(shell: VirtualShell, library: Library, names: list[str] | None) -> tuple[int, int]:
    """Mount the skills that were named, or the first ones that somebody vouches for; how many are, and how many not."""
    gate = _Gate(library)
    if names:
        for entry in map(library.get, names):
            shell.mount(entry.name, gate.admitted(entry, shell.limits.total_bytes))
        return len(names), 0
    left, mounted, entries = shell.limits.total_bytes, 0, library.entries()
    for entry in entries:
        if mounted >= _MOST_MOUNTED:
            break
        if not entry.trusted:
            continue
        with contextlib.suppress(MetierError):
            if not gate.lets(entry):
                continue
            files = _files(entry, left)
            shell.mount(entry.name, files)
            left -= sum(map(len, files.values()))
            mounted += 1
    return mounted, len(entries) - mounted


_NO_HOOKS = refuse("hooks", "No hook runs for skills that are mounted in a shell.", code="hooks-denied")


class _Gate:
    """Admits skills to be mounted, which counts as loading them: policy, approvals and quarantines decide."""

    def __init__(self, library: Library) -> None:
        caller = library.caller
        self._library = library
        self._guard = metier.Guard(approve=at_terminal())
        self._actor = metier.guard.Actor(
            agent=caller.agent, tenant=caller.tenant, environment=caller.environment, user=user_name()
        )

    def _wanted(self, entry: Entry) -> Action:
        from metier.session.active_skills import subject_of

        return metier.guard.Action(point="load", skill=subject_of(entry, self._library.digest(entry)), by="host")

    def lets(self, entry: Entry) -> bool:
        """Whether a skill that nobody named may be mounted: nobody is asked about it."""
        try:
            self._require_checked(entry)
        except Refused:
            return False
        return self._guard.decide(self._wanted(entry), self._actor).is_allowed

    def _require_checked(self, entry: Entry) -> None:
        """Raise for a skill with a check: no hook runs for what is only mounted."""
        from metier.session.hooks import require_checked

        hooks = entry.skill.hooks
        if hooks is not None and hooks.pre:
            require_checked(entry.name, hooks.pre, _NO_HOOKS, self._guard.policy)

    def admitted(self, entry: Entry, most: int) -> dict[str, bytes]:
        """The files of a skill that somebody named; raises `Refused` where it may not be used."""
        wanted = self._wanted(entry)
        with self._guard.enter(wanted, self._actor) as audited:
            audited.require()
            self._require_checked(entry)
            files = _files(entry, most)
            if self._wanted(entry).skill != wanted.skill:
                raise SkillChanged(f"Skill {entry.name!r} was changed this very moment.", hint="Try again.")
            return files


def _files(entry: Entry, most: int) -> dict[str, bytes]:
    """The files of a skill; none that leads out of it."""
    files = [file for file in entry.package.listing().files if file.kind != "link"]
    if sum(file.size for file in files) > most:
        raise PackageTooLarge(
            f"Skill {entry.name!r} has more than {most:,} bytes, too many for the shell.",
            hint="Mount fewer or smaller skills.",
            name=entry.name,
        )
    return {file.path: entry.package.read(file.path, limit=file.size) for file in files}


def _brought_back(copy: FolderCopy, code: int) -> int:
    count, failed = copy.bring_back()
    style = Style(sys.stderr)
    print(f"{plural(count, 'path')} written back.", file=sys.stderr)
    for text in failed[:20]:
        print(f"{style.warn('not written')}: {Style.text(text)}", file=sys.stderr)
    return code or int(bool(failed))


class ShellPrompt:
    """Reads command lines, has the shell run them, and shows what comes of it."""

    def __init__(self, shell: VirtualShell, *, is_json: bool) -> None:
        self._shell = shell
        self._is_json = is_json
        self.is_interactive = not is_json and sys.stdin.isatty() and sys.stdout.isatty()
        self._is_over = False

    def once(self, command: str) -> int:
        """Run one command line; its exit code."""
        outcome = self._run(command)
        if self._is_json:
            print_json(outcome_shape(outcome))
        return outcome.exit_code or int(not outcome.is_success)

    def until_the_end(self) -> int:
        """Until the input ends or somebody says `exit`; the exit code of the last command."""
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")
        if self.is_interactive:
            complete_lines(self._paths, " \t\n;|&<>()\"'=")
            print("`help` shows the commands, Ctrl-D or `exit` ends it.", file=sys.stderr)
        code = 0
        for command in self._commands():
            try:
                outcome = self._run(command)
            except MetierError as error:
                code = 1
                self._fail(error)
                continue
            code = outcome.exit_code
            if self._is_json:
                print(json.dumps(outcome_shape(outcome)), flush=True)
            if self._is_over:
                break
        return code

    def _run(self, command: str) -> Outcome:
        if not _HAS_EXIT(command):
            return self._shown(command)
        outcome = self._shown(f"{_MARK}=no; {command}\n{_MARK}=$?; (exit ${_MARK})")
        if outcome.killed_by is None:
            # Where it is not set at all, the line could not even be read.
            self._is_over = self._shell.execute(f'printf %s "${_MARK}"; unset {_MARK}').stdout == "no"
        return outcome

    def _shown(self, command: str) -> Outcome:
        screen = LiveOutput("running", is_silent=self._is_json)
        with _interruptions() as interrupted:

            def should_stop() -> bool:
                return screen.should_stop() or interrupted.is_set()

            run = functools.partial(self._shell.execute, command, should_stop=should_stop, on_output=screen.take)
            outcome = screen.show(run)
        if interrupted.is_set() and not self.is_interactive:
            raise KeyboardInterrupt
        return outcome

    def _commands(self) -> Iterator[str]:
        """Command lines, each as long as it has to be to be run."""
        lines: list[str] = []
        waits = ""
        for line in typed_lines(lambda: self._prompt(is_first=not lines), is_interactive=self.is_interactive):
            if line is None:
                lines.clear()
                continue
            lines.append(line)
            if len(lines) > 1 and waits not in ("", "more") and line.strip() != waits:
                # A long here-document must not be read anew with each of its lines.
                continue
            waits = missing_end("\n".join(lines))
            if not waits:
                command = "\n".join(lines)
                lines.clear()
                if command.strip():
                    yield command
        if self.is_interactive:
            print()
        if lines:
            yield "\n".join(lines)

    def _prompt(self, *, is_first: bool) -> str:
        if not is_first:
            return "> "
        try:
            return f"{Style.text(self._shell.folder, 60)} $ "
        except MetierError:
            return "$ "

    def _paths(self, text: str) -> Iterator[str]:
        """The paths of the shell that begin so."""
        before, slash, _ = text.rpartition("/")
        folder = f"{before}/" if slash else ""
        with contextlib.suppress(MetierError):
            for entry in self._shell.list(folder if folder.startswith("/") else f"{self._shell.folder}/{folder}"):
                path = f"{folder}{entry.name}{'/' if entry.kind == 'folder' else ''}"
                if path.startswith(text):
                    yield path

    def _fail(self, error: MetierError) -> None:
        if self._is_json:
            print(json.dumps(error_shape(error)), flush=True)
            return
        style = Style(sys.stderr)
        print(f"{style.bad('error')} [{error.code}]: {harmless(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"{style.dim('hint')}: {harmless(for_person(error.hint))}", file=sys.stderr)


@contextlib.contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """An event that is set, instead of ending this program, when somebody presses Ctrl-C."""
    event = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
