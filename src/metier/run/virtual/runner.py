"""VirtualRunner: jobs that need nothing but a shell, each with an interpreter of its own and files in memory."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import MetierError
from metier.run.host_files import LEADS_OUT, change, format_unchanged
from metier.run.job import Runner, not_started
from metier.run.virtual.command_line import PROGRAMS_BY_EXTENSION
from metier.run.virtual.connection import Connection, WorkerRefusal
from metier.run.virtual.native_bridge import LoadedSkillFiles, checked_files
from metier.run.virtual.outcome import RUNNER, RunningCommand
from metier.run.virtual.plan import KnownFolders, planned, script_of
from metier.run.virtual.validation import checked_text
from metier.run.virtual.worker_process import CAPABILITIES, WorkerLost, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metier.run.host_files import File
    from metier.run.job import Job, Outcome, OutputLine, RunnerCapabilities
    from metier.run.virtual.channel import Head
    from metier.run.virtual.plan import Plan

_LATE = 0.25
"""Seconds that the worker has beyond a job's time to end it by itself, and that there are to copy out what it did."""
_MOST_TOLD = 20
_MOST_KEPT = 16
"""The number of folders that a worker keeps for the jobs to come, before it forgets them all."""
_NEEDS_NETWORK = frozenset({"curl", "wget", "http"})
_PROCESSORS = os.cpu_count() or 1


class VirtualRunner(Runner):
    """Runs jobs whose program is `bash` or `sh` without a process of this machine.

    Skills are seen below `mount`, other places under their own paths. The working folder and writable places are copied
    in, and what a job changes there is copied out when it has ended. `python3` and `node` are run by `native`.
    A worker is kept for the jobs to come; each has a new interpreter, in which there is nothing of the one before.

    >>> from metier.run import Job
    >>> with VirtualRunner() as runner:
    ...     runner.run_blocking(Job(argv=("bash", "-c", "echo $((6 * 7))"), folder="/")).stdout
    '42\\n'
    """

    def __init__(self, *, mount: str = "/.sandbox/skills", native: Runner | None = None) -> None:
        self._mount, self._native = mount, native
        self._lock = threading.Lock()
        self._idle: list[_Warm] = []
        self._known = KnownFolders()
        self._is_closed = False
        self._is_proven = False

    name = RUNNER

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees: nothing of this machine is there for a job; its runner keeps native programs.

        They are claimed once a worker has answered, which then waits for the first job.
        """
        if not self._is_proven:
            try:
                self._analyze(b":")
            except (MetierError, WorkerLost, WorkerRefusal) as error:
                return unavailable(error)
        return CAPABILITIES

    def runs(self, job: Job) -> bool:
        """Whether a job needs nothing but what is here: a shell, and commands that the shell has.

        It looks at the script without running it, and says no when it cannot tell.
        """
        try:
            script = script_of(job)
            if script is None or not planned(job, self._mount, self._known).is_small:
                return False
            with_network = job.network == "host" or (job.network == "restricted" and bool(job.hosts))
            names, known, hides_some = self._analyze(script)
        except (MetierError, WorkerLost, WorkerRefusal, ValueError, TypeError):
            return False
        return not hides_some and names <= known and not (with_network and names & _NEEDS_NETWORK)

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked some twenty times a second, and ends it."""
        try:
            plan = planned(job, self._mount, self._known)
            skills = {mount.at: LoadedSkillFiles([], mount.folder) for mount in plan.mounts}
            with self._worker() as warm:
                # Its time begins when there is a worker: the first one takes long to start.
                running = RunningCommand(
                    plan.limits, on_output, native=self._native, skills=lambda: skills, should_stop=should_stop
                )
                is_streamed = on_output is not None
                outcome, changed, gone = self._run(warm, job, plan, running, should_stop, is_streamed=is_streamed)
        except MetierError as error:
            return not_started(error, self.name)
        except WorkerLost as lost:
            return running.lost(lost, "No file was changed.")
        except WorkerRefusal as refusal:
            return running.lost(WorkerLost(139, "crash", refusal.detail), "No file was changed.")
        return _apply_changes(outcome, plan, changed, gone, job.grants)

    def close(self) -> None:
        """End the workers that are kept. Those that run a job end with it."""
        with self._lock:
            self._is_closed, idle = True, self._idle
            self._idle = []
        for warm in idle:
            warm.connection.close()

    def __enter__(self) -> VirtualRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _worker(self) -> Iterator[_Warm]:
        """A worker that nobody uses, or a new one; it is kept for others unless something went wrong."""
        warm = None
        with self._lock:
            while self._idle and (warm is None or not warm.connection.is_alive):
                warm = self._idle.pop()
        if warm is None or not warm.connection.is_alive:
            warm = _Warm()
        try:
            yield warm
        except BaseException:
            warm.connection.close()
            raise
        with self._lock:
            if not self._is_closed and warm.connection.is_alive and len(self._idle) < _PROCESSORS:
                self._idle.append(warm)
                return
        warm.connection.close()

    def _analyze(self, script: bytes) -> tuple[set[str], set[str], bool]:
        """The commands that a script names, those that the shell has, and whether it hides some, by a worker."""

        def read(reply: Head, _: list[bytes]) -> tuple[set[str], set[str], bool]:
            return set(_texts(reply["names"])), set(_texts(reply["known"])), reply.get("is_opaque") is not False

        with self._worker() as warm:
            found = warm.connection.ask_for(read, {"op": "analyze"}, [script])
        self._is_proven = True
        return found

    def _run(
        self,
        warm: _Warm,
        job: Job,
        plan: Plan,
        running: RunningCommand,
        should_stop: Callable[[], bool] | None,
        *,
        is_streamed: bool,
    ) -> tuple[Outcome, list[File], list[str]]:
        """The outcome of a job in a worker, and the files that it changed and deleted."""
        limits = plan.limits
        head: Head = {
            "op": "job",
            "command": plan.command,
            "files": plan.load_files(),
            "mounts": [(mount.at, mount.key) for mount in plan.mounts],
            "folders": plan.folders,
            "watch": plan.watched,
            "env": {},
            "keep": limits.output_bytes,
            "is_streamed": is_streamed,
            "settings": {
                "seconds": limits.seconds,
                "commands": limits.commands,
                "loop_turns": limits.loop_turns,
                "is_native": self._native is not None,
                "programs": PROGRAMS_BY_EXTENSION,
            },
        }

        def read(reply: Head, answer: list[bytes]) -> tuple[Outcome, list[File], list[str]]:
            outcome = running.ended(reply, answer)
            if not plan.watched:
                return outcome, [], []
            return outcome, checked_files(reply["files"]), _texts(reply["gone"])

        warm.have(plan)
        return warm.connection.ask_for(
            read,
            head,
            [job.stdin] if job.stdin else [],
            seconds=limits.seconds + _LATE,
            should_stop=should_stop,
            on_event=running.hear,
        )


class _Warm:
    """A worker, and the folders that it has already."""

    def __init__(self) -> None:
        self.connection = Connection()
        self._has: set[str] = set()

    def have(self, plan: Plan) -> None:
        """Send the worker the folders that a job only reads."""
        wanted = {mount.key: mount for mount in plan.mounts}
        if len(self._has | wanted.keys()) > _MOST_KEPT:
            self._has.clear()
            self.connection.ask({"op": "forget"})
        for key, mount in wanted.items():
            if key not in self._has:
                self.connection.ask({"op": "keep", "key": key, "files": mount.load(plan.limits)})
                self._has.add(key)


def _apply_changes(
    outcome: Outcome, plan: Plan, changed: list[File], gone: list[str], grants: Sequence[str]
) -> Outcome:
    """Change the folders of this machine as the job changed its copies, for a moment if its time is over."""
    if not changed and not gone:
        return outcome
    until = time.monotonic() + _LATE if outcome.timed_out else None
    failed: list[str] = []
    for at, folder in plan.writable:
        base = len(at.rstrip("/"))
        mine = [
            (path[base:], kind, mode, content)
            for path, kind, mode, content in changed
            if plan.owner(path) == at and path != at
        ]
        lost = [path[base:] for path in gone if plan.owner(path) == at and path != at]
        closed = plan.access(at, folder, grants).closing_places_below
        failed += change(folder, mine, lost, closed=closed, until=until)
    return _with_failures(outcome, failed) if failed else outcome


def _with_failures(outcome: Outcome, failed: list[str]) -> Outcome:
    """Report paths that were not changed. Only lost content makes a job fail; a link has none."""
    links = [text for text in failed if text.endswith(f": {LEADS_OUT}")]
    lost = [text for text in failed if not text.endswith(f": {LEADS_OUT}")]
    said = "" if outcome.stderr.endswith("\n") or not outcome.stderr else "\n"
    said += "".join(f"Not made: {text}\n" for text in links[:_MOST_TOLD])
    said += format_unchanged(lost)
    return replace(outcome, exit_code=outcome.exit_code or int(bool(lost)), stderr=outcome.stderr + said)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > 100_000:
        raise ValueError("what should be a list is not")
    return [checked_text(text, 8_192) for text in value]
