"""NativeRunner: jobs in a sandbox made by the kernel of Linux."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier._paths import default_cache_folder, open_own, safe_rmtree, short_digest, write_file
from metier._version import __version__
from metier.errors import IsolationMissing, MetierError
from metier.hints import NO_ISOLATION
from metier.run.environment import isolated_python, package_folder
from metier.run.job import (
    CANNOT_START,
    TIMED_OUT,
    Job,
    Limits,
    Outcome,
    Runner,
    RunnerCapabilities,
    Usage,
    not_started,
)
from metier.run.native.launcher import close_shared, enter_sandbox, keep_sandbox
from metier.run.native.protocol import TAKEN, parse_report, recv_fds
from metier.run.output import OutputPipes, input_of, outcome_of, streams
from metier.run.protection import conclude, protect

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.run.job import KilledBy, OutputLine
    from metier.run.native.request import Tier
    from metier.run.native.staging import WorkspaceCopy
    from metier.run.proxy import AllowListProxy

log = logger("metier.run")

_MEANS: dict[Tier, str] = {"namespaces": "namespaces", "bubblewrap": "bubblewrap", "landlock": "no namespaces"}
"""The kinds of sandboxes, the best one first, and their names for people."""
_LATE = 5.0
"""Seconds beyond its time after which a supervisor that says nothing is killed."""
_DRAIN = 0.5
"""Seconds to read the rest of the pipes when a job has ended."""
_MOST_REPORT = 64 * 1024
_LOOK_UP = 0.05
"""Seconds between two calls of `should_stop`."""


class NativeRunner(Runner):
    """Runs jobs in a sandbox of the operating system; a job that cannot be kept in one is not run.

    `tier` chooses the kind of sandbox; the best that works here is taken if none is named.

    >>> from metier.run import Job
    >>> NativeRunner().run_blocking(Job(argv=("echo", "hello"), folder="/tmp")).stdout  # doctest: +SKIP
    'hello\\n'
    """

    def __init__(self, *, tier: Tier | None = None) -> None:
        self._asked = tier
        self._found: Tier | None = None
        self._was_looked_for = False

    name = "native"

    @property
    def tier(self) -> Tier | None:
        """The kind of sandbox that works here; None if none does. Found once, by making one.

        It stays the same: what was decided about a job for one kind must not be run in a weaker one.
        """
        if not self._was_looked_for:
            candidates = _MEANS if self._asked is None else (self._asked,)
            self._found = next((tier for tier in candidates if works(tier)), None)
            self._was_looked_for = True
        return self._found

    @property
    def is_outdated(self) -> bool:
        """Whether its kind of sandbox cannot be made here after all, so that it runs nothing any more."""
        return self._found is not None and not works(self._found)

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees that are enforced here."""
        tier = self.tier
        if tier is None:
            return RunnerCapabilities(how=why_not())
        from metier.run.native.kernel import landlock_version
        from metier.run.native.request import may_drop

        version = landlock_version()
        has_view = tier != "landlock"
        return RunnerCapabilities(
            isolates_files=True,
            hides_files=has_view,
            isolates_network=True,
            filters_hosts=has_view,
            isolates_processes=has_view or version >= 6,
            kills_descendants=True,
            limits_memory=True,
            limits_processes=os.geteuid() != 0 or may_drop(),
            limits_disk=True,
            filters_calls=True,
            how=", ".join((_MEANS[tier], *([f"Landlock {version}"] if version else []), "seccomp")),
        )

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job to its end; `should_stop` is asked some twenty times a second, and ends it."""
        tier = self.tier
        if tier is None or self.is_outdated:
            raise IsolationMissing(
                f"This machine has no sandbox for programs: {why_not()}.",
                hint=NO_ISOLATION,
                missing=["files", "network"],
            )
        if job.network == "restricted" and job.hosts and tier == "landlock":
            raise IsolationMissing(
                "This machine cannot keep a job from hosts that are not on its list.",
                hint=NO_ISOLATION,
                missing=["hosts"],
            )
        outcome = self._run(job, tier, should_stop, on_output)
        if outcome.exit_code == CANNOT_START and tier in _believed:
            probe(tier)
        return outcome

    def _run(
        self,
        job: Job,
        tier: Tier,
        should_stop: Callable[[], bool] | None,
        on_output: Callable[[OutputLine], None] | None,
    ) -> Outcome:
        started = time.monotonic()
        try:
            running = _SandboxedJob(job, tier, on_output)
        except MetierError as error:
            return not_started(error, self.name)
        except (OSError, ValueError, TypeError) as error:
            return Outcome(exit_code=CANNOT_START, stderr=_format_failure(job, str(error)), runner=self.name)
        with running:
            return running.outcome(started, should_stop)

    def close(self) -> None:
        """End the launcher process and the idle sandboxes, of all native runners of this process."""
        close_shared()


class _SandboxedJob:
    """A running job: its pipes, and its sandbox. It starts with this object, which is entered and left at the end."""

    def __init__(self, job: Job, tier: Tier, on_output: Callable[[OutputLine], None] | None) -> None:
        self._job, self._tier = job, tier
        self._streams = streams(job.limits.output_bytes, on_output)
        self._open = contextlib.ExitStack()
        self._report = b""
        self._proxy: AllowListProxy | None = None
        self._contacts: Callable[[], tuple[str, ...]] = tuple
        self._killed_by: KilledBy | None = None
        self._is_kept = False
        try:
            self._start(is_followed=on_output is not None)
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> _SandboxedJob:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        if self._is_kept:
            keep_sandbox(self._request, self._sandbox)
        else:
            self._sandbox.close()

    def _start(self, *, is_followed: bool) -> None:
        # Only Linux has what these are made of.
        from metier.run.native import request, staging
        from metier.run.native.filesystem_view import given_places

        scratch = ""
        if self._tier == "landlock":
            import tempfile

            scratch = os.path.realpath(tempfile.mkdtemp(prefix="metier-tmp-"))
            self._open.callback(safe_rmtree, scratch)
            with open(os.path.join(scratch, request.GIT_SETTINGS), "xb") as file:
                file.write(request.git_settings())
            if request.may_drop():
                os.chown(scratch, request.NOBODY, request.NOBODY)
        _check(self._job)
        self._protections = protect(
            self._job, given_places(self._job), self._open, is_closable=self._tier != "landlock"
        )
        self._copies: list[WorkspaceCopy] = []
        job = self._job
        if self._tier == "landlock":
            self._copies = staging.working_copies(job, self._protections, self._open)
            job = staging.job_on_copies(job, self._copies)
        self._request = request.request_for(job, self._tier, scratch=scratch, protections=self._protections)
        self._pipes = OutputPipes(self._streams, is_ordered=is_followed)
        self._open.callback(self._pipes.close)
        self._enter()

    def _enter(self, *, anew: bool = False) -> None:
        """Start the job, in a new sandbox or an idle one."""
        with input_of(self._job.stdin) as stdin:
            self._sandbox = enter_sandbox(self._request, (stdin, *self._pipes.given), anew=anew)
        if not self._sandbox.is_used:
            self._pipes.give_away()

    def outcome(self, started: float, should_stop: Callable[[], bool] | None) -> Outcome:
        """Read until the job has ended; its outcome."""
        try:
            self._follow(started, should_stop)
        except BaseException:
            self._end()
            raise
        finally:
            if self._proxy is not None:
                self._proxy.close()
        report = parse_report(self._report)
        self._is_kept = "is_kept" in report and not self._pipes.are_open
        code, killed_by, message = self._judge(report)
        brought = [copy.bring_back() for copy in self._copies]
        lost = [text for failed, _ in brought for text in failed]
        if lost:
            from metier.run.host_files import format_unchanged

            code, message = code or 1, message + format_unchanged(lost)
        outcome = outcome_of(
            self._streams,
            code,
            killed_by,
            started=started,
            stderr=self._streams[1].text() + message,
            runner="native",
            usage=Usage(cpu_ms=_number(report, "cpu_ms"), memory_bytes=int(_number(report, "memory_bytes"))),
            contacts=self._contacts(),
            notes=tuple(text for _, notes in brought for text in notes),
        )
        return conclude(outcome, self._protections)

    def _follow(self, started: float, should_stop: Callable[[], bool] | None) -> None:
        latest = started + self._job.limits.bounded_seconds + _LATE
        self._pipes.watch(self._sandbox.control.fileno())
        is_ended = False
        while self._pipes.are_open or not is_ended:
            left = latest - time.monotonic()
            if left <= 0:
                self._end()
                self._killed_by = self._killed_by or "timeout"
                break
            if self._pipes.wait(min(left, _LOOK_UP)) and not self._hear():
                self._pipes.forget(self._sandbox.control.fileno())
                is_ended = True
                latest = min(latest, time.monotonic() + _DRAIN)
            if self._killed_by is None and not is_ended:
                if any(stream.is_flooded for stream in self._streams):
                    self._stop("output")
                elif should_stop is not None and should_stop():
                    self._stop("cancel")
        for stream in self._streams:
            stream.finish()

    def _hear(self) -> bool:
        """Read a message of the supervisor; whether more may come."""
        try:
            data, descriptors = recv_fds(self._sandbox.control, _MOST_REPORT, 1)
        except OSError:
            # The other end is gone, with something that it had not read.
            data, descriptors = b"", []
        if descriptors:
            os.set_inheritable(descriptors[0], False)
            self._open_way_out(descriptors[0])
            return True
        if data == TAKEN:
            self._pipes.give_away()
            return True
        if not data and self._sandbox.is_used and not self._report and self._pipes.are_given:
            # It ended by itself right before it was told of this job, which has not begun.
            self._pipes.forget(self._sandbox.control.fileno())
            self._sandbox.close()
            self._enter(anew=True)
            self._pipes.watch(self._sandbox.control.fileno())
            return True
        self._report += data
        return bool(data) and len(self._report) <= _MOST_REPORT and b"\nstatus " not in data

    def _open_way_out(self, listener: int) -> None:
        import socket

        from metier.run.proxy import AllowListProxy, Contacts, address_check

        contacts = Contacts()
        self._contacts = contacts.seen
        self._proxy = AllowListProxy(
            socket.socket(fileno=listener),
            self._job.hosts,
            on_decision=contacts.note,
            permits_address=address_check(may_be_private=self._job.may_reach_private),
        )
        self._proxy.start()

    def _stop(self, why: KilledBy) -> None:
        self._killed_by = why
        with contextlib.suppress(OSError):
            self._sandbox.control.send(b"x")

    def _end(self) -> None:
        """End the job, whatever state it is in: by its supervisor, and without one if that does not answer."""
        if self._tier != "namespaces":
            # Where the kernel does not end all with the supervisor, that must do so itself.
            self._stop(self._killed_by or "cancel")
            deadline = time.monotonic() + _LATE
            poll = select.poll()
            poll.register(self._sandbox.control, select.POLLIN)
            while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000) and self._hear():
                pass
        self._sandbox.kill()

    def _judge(self, report: dict[str, str]) -> tuple[int, KilledBy | None, str]:
        """The exit code, the reason why the job was ended, and a message about it."""
        if "failed" in report:
            return CANNOT_START, self._killed_by, _format_failure(self._job, report["failed"])
        killed_by = self._killed_by or _cause(report.get("killed_by"))
        if self._tier == "bubblewrap" and "begun" not in report and killed_by is None:
            return CANNOT_START, None, _format_failure(self._job, "bubblewrap could not make its sandbox")
        if "status" not in report:
            return 128 + signal.SIGKILL, killed_by or "signal", ""
        if killed_by == "timeout":
            return TIMED_OUT, killed_by, ""
        code = os.waitstatus_to_exitcode(int(_number(report, "status")))
        if killed_by is not None:
            return 128 + signal.SIGKILL if code <= 0 else code, killed_by, ""
        return (128 - code, "signal", "") if code < 0 else (code, None, "")


def _check(job: Job) -> None:
    """Raise for a job that no program could be started with."""
    if not job.argv or not all(isinstance(part, str) for part in job.argv) or not job.argv[0]:
        raise ValueError("a job needs a program, and arguments that are text")
    if job.hosts:
        from metier._hosts import checked_hosts

        checked_hosts(job.hosts)
    texts = (*job.env, *job.env.values())
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("the names and values of environment variables are text")
    if any("\0" in text for text in (*job.argv, *texts, job.folder)):
        raise ValueError("an argument or variable has a NUL character")


def _number(report: dict[str, str], name: str) -> float:
    try:
        return float(report.get(name, 0))
    except ValueError:
        return 0.0


def _cause(value: object) -> KilledBy | None:
    return value if value in ("timeout", "memory", "disk", "processes", "cancel") else None


def _format_failure(job: Job, why: str) -> str:
    program = str(job.argv[0])[:200] if job.argv else ""
    return f"Cannot start {program!r}: {why.rstrip('.')}."


_worked: dict[Tier, bool] = {}
_why: dict[Tier, str] = {}


def works(tier: Tier) -> bool:
    """Whether sandboxes of this kind can be made here; found once, by running a program that does nothing in one.

    For the best kind, the answer of an earlier process under the same circumstances will do. It can lead to no weaker
    sandbox: a job whose own cannot be made does not start, and then this process tests it.
    """
    if tier not in _worked:
        proof = _proof() if tier == BEST else None
        if proof is not None and _holds(*proof):
            _believed.add(tier)
            _worked[tier] = True
        else:
            probe(tier)
    return _worked[tier]


def probe(tier: Tier) -> None:
    """Test whether sandboxes of a kind can be made here, unless this process has; earlier ones are not believed."""
    if tier in _worked and tier not in _believed:
        return
    _worked[tier] = _try(tier)
    _believed.discard(tier)
    if tier == BEST and (proof := _proof()) is not None:
        with contextlib.suppress(OSError):
            if _worked[tier]:
                os.makedirs(os.path.dirname(proof[0]), mode=0o700, exist_ok=True)
                write_file(*proof)
            else:
                os.unlink(proof[0])


BEST: Tier = "namespaces"
_believed: set[Tier] = set()
"""The kinds of sandboxes that this process has not tested itself."""


def _proof() -> tuple[str, bytes] | None:
    """The file in the cache that says where sandboxes could be made, and its content for here; None without a cache."""
    cache = default_cache_folder()
    if cache is None or sys.platform != "linux":
        return None
    from metier.run.native import kernel

    try:
        about = [__version__, package_folder(), *isolated_python(), *kernel.circumstances()]
    except OSError:
        return None  # without /proc nothing can be told
    return os.path.join(cache, "sandbox"), short_digest("\n".join(about).encode(errors="surrogateescape"), 64).encode()


def _holds(path: str, content: bytes) -> bool:
    if not os.access(os.path.dirname(path), os.W_OK):
        return False  # it could not be taken back
    with contextlib.suppress(OSError), open_own(path) as file:
        return file.read(len(content) + 1) == content
    return False


def why_not() -> str:
    """The reasons why no sandbox can be made."""
    return "; ".join(f"{_MEANS[tier]}: {reason}" for tier, reason in _why.items()) or "it is not Linux"


def _try(tier: Tier) -> bool:
    if sys.platform != "linux":
        return False
    from metier.run.native import bubblewrap, kernel

    if not kernel.SUPPORTED:
        _why[tier] = f"the processor {kernel.MACHINE} is not supported"
        return False
    if tier == "landlock" and not kernel.landlock_version():
        _why[tier] = "the kernel has no Landlock"
        return False
    if tier == "bubblewrap" and (bubblewrap.found() is None or os.geteuid() == 0):
        _why[tier] = "not installed" if bubblewrap.found() is None else "of no use to root"
        return False
    import tempfile

    with tempfile.TemporaryDirectory(prefix="metier-probe-") as folder:
        job = Job(argv=("true",), folder=os.path.realpath(folder), limits=Limits(seconds=5))
        try:
            with _SandboxedJob(job, tier, None) as running:
                outcome = running.outcome(time.monotonic(), None)
        except (OSError, ValueError, TypeError, MetierError) as error:
            _why[tier] = str(error)
            return False
    if not outcome.is_success:
        _why[tier] = outcome.stderr.strip() or f"a program that does nothing ended with {outcome.exit_code}"
    return outcome.is_success
