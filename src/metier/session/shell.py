"""The virtual shell of a session: files in memory, a bash interpreter over them, and the skills among them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shlex
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier.errors import MetierError, ShellRefused, SkillChanged
from metier.find.catalog_format import one_line
from metier.guard import Action
from metier.run.environment import program_of
from metier.run.job import run_in_thread
from metier.session.active_skills import subject_of
from metier.session.events import Event
from metier.skill import FolderPackage
from metier.skill.untrusted_text import escape_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from metier.library import Entry
    from metier.run import Job, Outcome, RunnerCapabilities
    from metier.run.job import OutputLine
    from metier.run.virtual import VirtualShell
    from metier.session.active_skills import ActiveSkill
    from metier.session.context import SessionParts
    from metier.session.prompt import Vocabulary
    from metier.skill import PackageFile


_MOST_OPEN = 64
"""Skills whose files are there without being loaded; those that no command named for longest are closed again."""
_MOST_DESCRIBED = 500
"""Of more skills there are folders alone: each file takes the interpreter longer than the one before."""
_BETWEEN = pattern(r"[\s/'\"\\;|&()<>$={},:`]+")
_STAND_INS = {
    "python3": "import sys\nsys.stderr.write({text} + '\\n')\nsys.exit(126)\n",
    "node": "console.error({text});\nprocess.exit(126);\n",
}


class SkillMounts:
    """The skills of one shell."""

    def __init__(self, shell: VirtualShell, parts: SessionParts) -> None:
        self.shell = shell
        self._context = parts.context
        self._known = parts.known
        self._loaded = parts.loaded
        self._calls = parts.calls
        self._copies = parts.copies
        self._mounted: dict[str, tuple[str, contextlib.ExitStack]] = {}
        self._entries: dict[str, Entry] = {}
        self._open: OrderedDict[str, str] = OrderedDict()
        """The skills that can be read although they are not loaded, each with its digest."""
        self._outlined_for: Hashable = None
        self._load_tool = ""

    def follow(self, words: Vocabulary | None = None) -> None:
        """Mount what was loaded, unmount what may not be seen any more; `words` are those of whoever reads."""
        if words is not None:
            self._load_tool = words.load
        wanted = {one.name: one for one in self._loaded.live()}
        for name, (digest, copy) in tuple(self._mounted.items()):
            if name not in wanted or wanted[name].digest != digest:
                self.shell.unmount(name)
                del self._mounted[name]
                copy.close()
        self._outline()
        for name, digest in tuple(self._open.items()):
            if name in wanted or not self._may_be_read(self._entries[name], digest):
                self.shell.unmount(name)
                del self._open[name]
        for name in wanted.keys() - self._mounted.keys():
            self._mount(wanted[name])

    def open(self, command: str) -> None:
        """Have the files of the skills that a command names, if they may be read without being loaded."""
        named = dict.fromkeys(word for word in _BETWEEN.split(command) if word in self._entries)
        for name in tuple(named)[:_MOST_OPEN]:
            if name in self._mounted:
                continue
            # A shell in which a command runs, a skill that may not be read, one that changes this very moment.
            with contextlib.suppress(MetierError):
                if name not in self._open:
                    self._open[name] = self._opened(self._entries[name])
                self._open.move_to_end(name)
        while len(self._open) > _MOST_OPEN:
            name, _ = self._open.popitem(last=False)
            with contextlib.suppress(ShellRefused):
                self.shell.unmount(name)

    def close(self) -> None:
        """End the shell, and let go of the copies."""
        self.shell.close()
        for _, copy in self._mounted.values():
            copy.close()
        self._mounted.clear()

    def _mount(self, one: ActiveSkill) -> None:
        with contextlib.ExitStack() as copy:
            try:
                root = copy.enter_context(self._copies.of(one))
            except SkillChanged:
                # What was loaded is gone; the other skills can still be used.
                self._loaded.is_stale(one)
                return
            self.shell.mount(one.name, root)
            self._mounted[one.name] = (one.digest, copy.pop_all())

    def _outline(self) -> None:
        made_for = (self._loaded.epoch, self._known.tools_version, self._load_tool)
        if made_for == self._outlined_for:
            return
        # What may be read was decided under what holds no more.
        for name in tuple(self._open):
            self.shell.unmount(name)
            del self._open[name]
        self._entries = {entry.name: entry for entry in self._known.listed()}
        describe = len(self._entries) <= _MOST_DESCRIBED
        self.shell.outline({name: self._outline_of(entry) if describe else "" for name, entry in self._entries.items()})
        self._outlined_for = made_for

    def _outline_of(self, entry: Entry) -> str:
        lines = (f"name: {entry.name}", f"description: {json.dumps(one_line(self._known.description(entry)))}")
        return escape_tags(
            "\n".join(("---", *lines, "---", f"This skill is not loaded. {self._how_to_load(entry)}", ""))
        )

    def _how_to_load(self, entry: Entry) -> str:
        return f"Load it first: call {self._load_tool} with {entry.name!r}." if self._load_tool else "Load it first."

    def _may_be_read(self, entry: Entry, digest: str) -> bool:
        """Whether a model could load it without anybody being asked, and without a check that has to pass first."""
        context, hooks = self._context, entry.skill.hooks
        if hooks is not None and hooks.pre:
            return False
        if self._load_tool:
            # What a rule says of the tool that loads a skill holds for its files as well.
            call = self._calls.action(self._load_tool, {"skill_name": entry.name}, (), is_control=True)
            if not context.guard.decide(call, context.actor).is_allowed:
                return False
        load = self._known.load_action(entry, digest, "model", nested=self._loaded.is_nested)
        return context.guard.decide(load, context.actor).is_allowed

    def _opened(self, entry: Entry) -> str:
        """The digest of a skill whose files are there now; raises where they may not be."""
        context = self._context
        digest = context.index.digest(entry)
        if not self._may_be_read(entry, digest):
            raise ShellRefused(f"Skill {entry.name!r} has to be loaded first.", hint="Load it.")
        action = Action(point="read", skill=subject_of(entry, digest), path="SKILL.md", by="model")
        with context.audited(action), self._copies.passing(entry, digest) as root:
            self.shell.mount(entry.name, self._files(entry, FolderPackage(root)))
        context.emit(Event(kind="read", skill=entry.name, message=f"Read {entry.name} without loading it."))
        return digest

    def _files(self, entry: Entry, package: FolderPackage) -> Mapping[str, bytes]:
        limits, files = self.shell.limits, package.listing().files
        text = f"Skill {entry.name!r} is not loaded, so its scripts do not run. {self._how_to_load(entry)}"
        found: dict[str, bytes] = {}
        for file in files:
            if file.kind == "link" or file.size > limits.file_bytes:
                continue
            data = package.read(file.path, limit=file.size)
            found[file.path] = _stand_in(file.path, text) if self._is_program(file, data) else data
        if sum(map(len, found.values())) > limits.total_bytes:
            raise ShellRefused(f"Skill {entry.name!r} is too large to be shown.", hint="Load it.")
        return found

    def _is_program(self, file: PackageFile, data: bytes) -> bool:
        folder = file.path.partition("/")[0]
        is_named = folder in self._context.options.script_folders or bool(program_of(file.path))
        return file.kind != "skill" and (is_named or file.executable or data.startswith(b"#!"))


def _stand_in(path: str, text: str) -> bytes:
    """A program that says why another does not run, in the language of that one."""
    program = program_of(path)
    if program in _STAND_INS:
        return _STAND_INS[program].format(text=json.dumps(text)).encode()
    return f"printf '%s\\n' {shlex.quote(text)} >&2\nexit 126\n".encode()


def is_installed() -> bool:
    """Whether what the virtual shell needs is here: `pip install 'metier[shell]'`."""
    return importlib.util.find_spec("bashkit") is not None


class SessionShell:
    """One session's shell: made when it is first used, and kept with all that is in it until the session ends.

    Programs that are no part of the shell, such as `python3`,
    are handed to the session's runner, if policy lets them run there.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._context = parts.context
        parts.loaded.on_change.append(self.follow)
        self._mounts: SkillMounts | None = None
        self._lock = threading.RLock()

    def get(self, words: Vocabulary | None = None) -> VirtualShell:
        """The shell, with the skills in it; raises `ShellUnavailable` where there can be none.

        `words` are those of the model that it is for.
        """
        self._context.require_open()
        with self._lock:
            if self._mounts is None:
                from metier.run.virtual import VirtualShell

                native = self._parts.sandbox.runner_for_commands(have_places=True)
                shell = VirtualShell(mount=self._context.options.mount, native=native, before=self._open)
                self._mounts = SkillMounts(shell, self._parts)
            self._mounts.follow(words)
            return self._mounts.shell

    def follow(self) -> None:
        """Mount and unmount what was loaded and unloaded, if there is a shell.

        One in which a command runs is left alone: whoever uses it next has it as it should be.
        """
        with self._lock, contextlib.suppress(ShellRefused):
            if self._mounts is not None:
                self._mounts.follow()

    def close(self) -> None:
        """End it; what is in it is gone."""
        with self._lock:
            mounts, self._mounts = self._mounts, None
        if mounts is not None:
            mounts.close()

    def _open(self, command: str) -> None:
        with self._lock:
            if self._mounts is not None and not self._context.is_closed:
                self._mounts.open(command)


class ShellRunner:
    """The shell as a runner of command lines, for what waits for jobs and cancels them."""

    def __init__(self, shell: VirtualShell, command: str) -> None:
        self._shell = shell
        self._command = command

    @property
    def name(self) -> str:
        """The name in results and audit records."""
        return "virtual"

    def capabilities(self) -> RunnerCapabilities:
        """The capabilities of the shell."""
        return self._shell.capabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run the command line to its end."""
        return self._shell.execute(
            self._command, seconds=job.limits.seconds, should_stop=should_stop, on_output=on_output
        )

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run the command line without holding up the event loop."""
        return await run_in_thread(self, job, on_output)
