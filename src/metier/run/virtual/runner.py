"""VirtualRunner: jobs that need nothing but a shell, each with an interpreter of its own and files in memory."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.hints import for_anybody
from metier.run.host_files import LEADS_OUT, change, format_unchanged
from metier.run.job import CANNOT_START, Outcome, run_in_thread
from metier.run.virtual.channel import ChannelBroken
from metier.run.virtual.command_line import PROGRAMS_BY_EXTENSION
from metier.run.virtual.connection import Connection, WorkerLost, WorkerRefusal
from metier.run.virtual.native_bridge import LoadedSkillFiles, checked_records, checked_request, run_natively
from metier.run.virtual.outcome import RUNNER, RunningCommand
from metier.run.virtual.plan import KnownFolders, planned, script_of
from metier.run.virtual.validation import checked_text
from metier.run.virtual.worker_process import CAPABILITIES, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metier.run.host_files import Record
    from metier.run.job import Job, OutputLine, Runner, RunnerCapabilities
    from metier.run.virtual.channel import Head
    from metier.run.virtual.plan import Plan

_LATE = 0.25
"""Seconds that the worker has beyond a job's time to end it by itself, and that there are to copy out what it did."""
_MOST_TOLD = 20
_MOST_KEPT = 16
"""The number of folders that a worker keeps for the jobs to come, before it forgets them all."""
_NEEDS_NETWORK = frozenset({"curl", "wget", "http"})
_PROCESSORS = os.cpu_count() or 1
_INVALID = (ValueError, TypeError, KeyError, IndexError, ChannelBroken)


class VirtualRunner:
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

    @property
    def name(self) -> str:
        """The name in results and audit records."""
        return RUNNER

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees: nothing of this machine is there for a job; its runner keeps native programs.

        They are claimed once a worker has answered, which then waits for the first job.
        """
        if not self._is_proven:
            try:
                self._ask({"op": "analyze"}, [b":"])
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
            reply = self._ask({"op": "analyze"}, [script])[0]
            names, known = set(_texts(reply["names"])), set(_texts(reply["known"]))
        except (MetierError, WorkerLost, WorkerRefusal, *_INVALID):
            return False
        return reply.get("is_opaque") is False and names <= known and not (with_network and names & _NEEDS_NETWORK)

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
            warm = self._warm()
        except MetierError as error:
            return Outcome(exit_code=CANNOT_START, stderr=for_anybody(error, error.hint), runner=self.name)
        running = RunningCommand(plan.limits.seconds, plan.limits.output_bytes, on_output)
        try:
            outcome, changes = self._run(warm, job, plan, running, should_stop, is_streamed=on_output is not None)
        except MetierError as error:
            warm.connection.close()
            return Outcome(exit_code=CANNOT_START, stderr=for_anybody(error, error.hint), runner=self.name)
        except WorkerLost as lost:
            return running.lost(lost, "No file was changed.")
        except (WorkerRefusal, *_INVALID) as error:
            warm.connection.close()
            why = error.detail if isinstance(error, WorkerRefusal) else "it sent what nobody sends"
            return running.lost(WorkerLost(139, "crash", why), "No file was changed.")
        except BaseException:
            warm.connection.close()
            raise
        self._keep(warm)
        return _apply_changes(outcome, plan, changes, job.grants)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run a job without blocking the event loop; cancelling ends the job and waits until it is dead."""
        return await run_in_thread(self, job, on_output)

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

    def _warm(self) -> _Warm:
        """A worker that nobody uses; a new one if there is none."""
        with self._lock:
            while self._idle:
                warm = self._idle.pop()
                if warm.connection.is_alive:
                    return warm
        return _Warm()

    def _keep(self, warm: _Warm) -> None:
        with self._lock:
            if not self._is_closed and warm.connection.is_alive and len(self._idle) < _PROCESSORS:
                self._idle.append(warm)
                return
        warm.connection.close()

    def _ask(self, head: Head, blobs: Sequence[bytes]) -> tuple[Head, list[bytes]]:
        warm = self._warm()
        try:
            answer = warm.connection.ask(head, blobs)
        except BaseException:
            warm.connection.close()
            raise
        self._is_proven = True
        self._keep(warm)
        return answer

    def _run(
        self,
        warm: _Warm,
        job: Job,
        plan: Plan,
        running: RunningCommand,
        should_stop: Callable[[], bool] | None,
        *,
        is_streamed: bool,
    ) -> tuple[Outcome, tuple[list[Record], list[bytes], list[str]]]:
        connection = warm.connection
        warm.have(plan)
        limits, records, blobs = plan.limits, *plan.load_records()
        head: Head = {
            "op": "job",
            "command": plan.command,
            "records": records,
            "mounts": [(mount.at, mount.key) for mount in plan.mounts],
            "folders": plan.folders,
            "watch": plan.watched,
            "stdin": bool(job.stdin),
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

        def heard(event: Head, more: list[bytes]) -> tuple[Head, Sequence[bytes]] | None:
            if event["event"] == "output":
                running.take(more)
                return None
            if event["event"] != "native" or self._native is None:
                raise ValueError("an event that is none")
            brought = run_natively(
                checked_request(event, more),
                self._native,
                skills={mount.at: LoadedSkillFiles((), (), mount.folder) for mount in plan.mounts},
                limits=limits,
                seconds=running.seconds_left,
                should_stop=should_stop,
            )
            return running.brought(brought)

        sent = [*blobs, job.stdin] if job.stdin else blobs
        reply, answer = connection.ask(
            head, sent, seconds=limits.seconds + _LATE, should_stop=should_stop, on_event=heard
        )
        outcome = running.ended(reply, answer[:2])
        if not plan.watched:
            return outcome, ([], [], [])
        changed = checked_records(reply["records"], answer[2:])
        return outcome, (list(changed), answer[2:], _texts(reply["gone"]))


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
                records, blobs = mount.load(plan.limits)
                self.connection.ask({"op": "keep", "key": key, "records": records}, blobs)
                self._has.add(key)


def _apply_changes(
    outcome: Outcome, plan: Plan, changes: tuple[list[Record], list[bytes], list[str]], grants: Sequence[str]
) -> Outcome:
    """Change the folders of this machine as the job changed its copies, for a moment if its time is over."""
    changed, blobs, gone = changes
    if not changed and not gone:
        return outcome
    until = time.monotonic() + _LATE if outcome.timed_out else None
    failed: list[str] = []
    for at, folder in plan.writable:
        mine = [
            ((path[len(at.rstrip("/")) :], kind, mode), blob)
            for (path, kind, mode), blob in zip(changed, blobs, strict=True)
            if plan.owner(path) == at and path != at
        ]
        lost = [path[len(at.rstrip("/")) :] for path in gone if plan.owner(path) == at and path != at]
        failed += change(
            folder,
            [record for record, _ in mine],
            [blob for _, blob in mine],
            lost,
            closed=plan.access(at, folder, grants).closing_places_below,
            until=until,
        )
    return _with_failures(outcome, failed) if failed else outcome


def _with_failures(outcome: Outcome, failed: list[str]) -> Outcome:
    """Report paths that were not changed. Only lost content makes a job fail; a link has none."""
    from dataclasses import replace

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
