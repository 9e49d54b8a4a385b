"""The supervisor: the first process of a sandbox, which builds it, starts the job in it, watches it and ends it.

In a process namespace of its own it is the first process there, so that the kernel ends everything with it. Elsewhere
it adopts all processes that the job leaves behind. It runs in a child of the launcher process: the standard library and
this folder are all there is.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import resource
import select
import struct
import sys
import time

from metier.run.native import kernel, landlock, mounts, seccomp
from metier.run.native.light_stdlib import signal, suppress
from metier.run.native.protocol import (
    AF_INET,
    PROXY_PORT,
    SOCK_STREAM,
    TAKEN,
    Socket,
    format_report,
    identity,
    read_request,
    recv_fds,
    send_fds,
)
from metier.run.native.usage_watch import Disk, Memory, ProcessTree, children

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SLOW_TICKS = 2
"""Checks of memory for each one of the rest."""
_GRACE = 0.2
"""Seconds between the request to end and the end, for a job that took too long."""
_FLAG_UP = 0x1
_MOST_JOBS = 100
"""Jobs after which a sandbox is made anew."""
_PATIENCE = 2.0
"""Seconds that an idle sandbox waits for another job."""
_MOST_REASON = 500
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, which would stay so in the program of a job."""


def main(request: int, control: Socket, streams: list[int], ready: int, base: dict[str, Any]) -> NoReturn:
    """Be the supervisor of a sandbox; never returns. `ready` tells that this process has got its user."""
    code = 1
    try:
        if base["tier"] == "namespaces":
            # The kernel then ends all that is in the namespace. Elsewhere the control socket tells when the parent is
            # gone, and this process must end the job.
            kernel.die_with_parent()
        if os.read(ready, 1):
            kernel.hide_memory()
            _serve(base, control, request, streams)
            code = 0
    except BaseException as error:
        with suppress(OSError):
            _tell(control, failed=_reason(error))
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


def _serve(base: dict[str, Any], control: Socket, request: int, streams: list[int]) -> None:
    """Run a job, and then others that fit into the same sandbox, for as long as it is left as it was."""
    wanted = {**base, **read_request(request)}
    if base["tier"] == "namespaces":
        mounts.build(wanted)
        if base["network"] == "restricted":
            listen(control)
    else:
        kernel.adopt_orphans()
    empty = _scratch_state(wanted)
    for number in range(_MOST_JOBS):
        if base["tier"] == "namespaces":
            mounts.close_stand_ins(wanted["stand_ins"])
        is_kept = wanted["is_reusable"] and number + 1 < _MOST_JOBS
        is_kept = _Supervisor(wanted, control, request, streams).run(empty if is_kept else None)
        following = _next(control) if is_kept else None
        if following is None:
            return
        request, *streams = following
        wanted = {**base, **read_request(request)}
        if not mounts.are_whole(wanted):
            # The parent is told by the silence, and has another sandbox made.
            return
        control.send(TAKEN)


def _next(control: Socket) -> list[int] | None:
    """The request and the streams of the next job; None if none comes, or nobody is there to want one."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    deadline = time.monotonic() + _PATIENCE
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        message, descriptors = recv_fds(control, 64, 4)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if len(descriptors) == 4:
            return descriptors
        if not message:
            return None
        # Something about the job before, which has ended by itself in the meantime.
    return None


class _Supervisor:
    """The supervision of one job."""

    def __init__(self, wanted: dict[str, Any], control: Socket, request: int, streams: list[int]) -> None:
        self._wanted, self._control, self._request, self._streams = wanted, control, request, streams
        self._limits = wanted["limits"]
        self._tier = wanted["tier"]
        self._is_first = self._tier == "namespaces"
        self._job = 0
        self._status = 0
        self._cpu, self._largest = 0.0, 0
        self._begun = time.time() - 1.0

    def run(self, empty: dict[str, tuple[object, ...]] | None) -> bool:
        """Run the job to its end, and report; whether its sandbox is as `empty` as before, if it is kept at all."""
        started = time.monotonic()
        tree = ProcessTree(is_alone=self._is_first)
        memory = Memory(tree, self._limits["memory_bytes"])
        disk = Disk(tree, self._limits["disk_bytes"], self._wanted["writable"], self._wanted["scratch_folders"])
        self._start()
        for descriptor in self._streams:
            # From now on nobody holds them but the job.
            os.close(descriptor)
        cause = self._watch(started + self._limits["seconds"], tree, memory, disk)
        self._end(cause, tree)
        self._give_back()
        os.close(self._request)
        is_kept = empty is not None and _scratch_state(self._wanted) == empty
        _tell(
            self._control,
            killed_by=cause,
            cpu_ms=self._cpu * 1000,
            memory_bytes=max(memory.peak, self._largest),
            is_kept=1 if is_kept else None,
            status=self._status,
        )
        return is_kept

    def _start(self) -> None:
        """Start the job; raises with what kept it from starting."""
        wanted = self._wanted
        os.umask(0o022)
        if self._tier == "bubblewrap":
            os.chdir("/")
            # From this thread: what it starts is to end with the thread that started it.
            command = wanted["bubblewrap"]
            self._spawn(command[0], command, {}, self._request, self._control.fileno())
            return
        os.chdir(wanted["folder"])
        limit(wanted["limits"], wanted["others"])
        # What binds a process is bound to each of its threads. One thread takes it all on and starts the job, which
        # has it from its first instruction; this one stays free. So nothing is copied, as a fork would.
        done = _thread.allocate_lock()
        done.acquire()
        failed: list[BaseException] = []

        def start() -> None:
            try:
                confine(wanted)
                self._spawn(wanted["program"], wanted["argv"], wanted["env"])
            except BaseException as error:
                failed.append(error)
            finally:
                done.release()

        _thread.start_new_thread(start, ())
        done.acquire()
        if failed:
            raise failed[0]

    def _spawn(self, program: str, argv: list[str], env: dict[str, str], *more: int) -> None:
        kept = (*self._streams, *more)
        self._job = os.posix_spawn(
            program,
            argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, at) for at, descriptor in enumerate(kept)],
            setsid=True,
            setsigmask=(),
            setsigdef=_IGNORED,
        )

    def _watch(self, deadline: float, tree: ProcessTree, memory: Memory, disk: Disk) -> str | None:
        """Wait until the job ends by itself (None), or give the reason why it must be ended."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        ended = os.pidfd_open(self._job)
        poll.register(ended, select.POLLIN)
        ticks = 0
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return "timeout"
                events = dict(poll.poll(min(left, self._wanted["tick"]) * 1000))
                if ended in events:
                    return None
                if self._control.fileno() in events:
                    # The parent wants the job ended, or is gone.
                    return "cancel"
                ticks += 1
                if memory.is_over(deadline):
                    return "memory"
                if ticks % _SLOW_TICKS == 0 and disk.is_over():
                    return "disk"
                if len(tree.processes()) > self._limits["processes"] + 8:
                    # The kernel's own limit does not bind every user.
                    return "processes"
                self._reap()
        finally:
            os.close(ended)

    def _reap(self) -> None:
        """Reap every process that has ended, the job's first one included."""
        with suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                self._cpu += used.ru_utime + used.ru_stime
                self._largest = max(self._largest, used.ru_maxrss * 1024)
                if pid == self._job:
                    self._status = status

    def _end(self, cause: str | None, tree: ProcessTree) -> None:
        """Leave no process of the job behind."""
        if cause in ("timeout", "cancel"):
            self._ask_to_end(tree)
            deadline = time.monotonic() + _GRACE
            while tree.processes() and time.monotonic() < deadline:
                self._reap()
                time.sleep(0.005)
        while True:
            if self._is_first:
                with suppress(OSError):
                    os.kill(-1, signal.SIGKILL)
            else:
                _kill(tree.processes())
            self._reap()
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            time.sleep(0.0005)

    def _ask_to_end(self, tree: ProcessTree) -> None:
        if self._tier != "bubblewrap":
            with suppress(OSError):
                os.killpg(self._job, signal.SIGTERM)
            return
        # Bubblewrap is two processes, and would take the job with it.
        for pid in tree.processes():
            if pid != self._job and pid not in children(self._job):
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM)

    def _give_back(self) -> None:
        """Give files that a job made as another user to the owner of the folder."""
        drop = self._wanted["drop"]
        if drop is None:
            return
        for path in self._wanted["writable"]:
            with suppress(OSError, RecursionError), _OpenFolder(path) as folder:
                if os.fstat(folder).st_uid != drop:
                    _chown_below(folder, drop, os.fstat(folder), self._begun)


def _scratch_state(wanted: dict[str, Any]) -> dict[str, tuple[object, ...]]:
    """The state of a job's folders for temporary files, as another job would find it."""
    if not wanted["is_reusable"]:
        return {}
    places = tuple(f"{at}/" for _, at, _ in wanted["places"])
    folders = [path for path in wanted["in_scratch"]["folders"] if not f"{path}/".startswith(places)]
    found: dict[str, tuple[object, ...]] = {}
    with suppress(OSError):
        found["terminals"] = (os.stat("/dev/pts/ptmx").st_mode,)
    for folder in (*wanted["scratch_folders"], *folders):
        about = os.stat(folder)
        # Not even when something was last made here is for another job to know.
        os.utime(folder, (0, 0))
        found[folder] = (about.st_mode, about.st_uid, about.st_gid, os.listxattr(folder), sorted(os.listdir(folder)))
    return found


class _OpenFolder:
    """A descriptor of a folder, which is no link, for as long as a block lasts."""

    def __init__(self, name: str, parent: int | None = None) -> None:
        self._name, self._parent = name, parent

    def __enter__(self) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._folder = os.open(self._name, flags, dir_fd=self._parent)
        return self._folder

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)


def _chown_below(folder: int, user: int, owner: os.stat_result, since: float) -> None:
    """Give an owner what a user has made in a folder since then; no link is followed, whatever becomes one."""
    # To make something in a folder changes the folder; in one that has not changed only other folders matter.
    has_changed = os.fstat(folder).st_ctime >= since
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                about = os.stat(entry.name, dir_fd=folder, follow_symlinks=False) if has_changed else None
                if about is not None and about.st_uid == user and about.st_ctime >= since:
                    os.chown(entry.name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    with _OpenFolder(entry.name, folder) as inner:
                        _chown_below(inner, user, owner, since)


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with suppress(OSError):
            # One that makes others faster than it is found cannot do so any more.
            resource.prlimit(pid, resource.RLIMIT_NPROC, (0, 0))
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def inside_bubblewrap() -> NoReturn:
    """The entry point below bubblewrap: the rest of the sandbox, and then the job."""
    try:
        for descriptor in (REQUEST, CONTROL):
            os.set_inheritable(descriptor, False)
        wanted = read_request(REQUEST)
        wanted["filter"] = seccomp.program(kernel.MACHINE, **wanted["calls"])
        with Socket(fileno=os.dup(CONTROL)) as control:
            try:
                if [identity(at) for _, at, _ in wanted["places"]] != [tuple(one) for one in wanted["identities"]]:
                    raise RuntimeError("something that it was to see was replaced meanwhile")
                if wanted["network"] == "restricted":
                    listen(control)
                for ignored in _IGNORED:
                    signal.signal(ignored, signal.SIG_DFL)
                os.chdir(wanted["folder"])
                limit(wanted["limits"], wanted["others"])
                confine(wanted)
                _tell(control, begun=1)
                os.execve(wanted["program"], wanted["argv"], wanted["env"])
            except BaseException as error:
                _tell(control, failed=_reason(error))
    finally:
        os._exit(127)


REQUEST, CONTROL = 3, 4
"""The descriptors by which bubblewrap passes on the request and the control socket."""


def confine(wanted: dict[str, Any]) -> None:
    """Bind this thread to a user, files and system calls, in an order in which each can still be set."""
    user = wanted["drop"]
    if user is not None:
        kernel.become_user(user)
        kernel.limit_capabilities(kernel.CAP_DAC_OVERRIDE)
    else:
        kernel.limit_capabilities()
    kernel.forbid_new_privileges()
    rules = wanted["landlock"]
    if rules is not None:
        landlock.enforce(**rules, connects=wanted["network"] != "none")
    kernel.filter_calls(wanted["filter"])


def limit(limits: dict[str, Any], others: int) -> None:
    """Bound what each process of the job can use; this one has no more use for it."""
    # Twice the time on each processor: no job within its time reaches it, and one that got away stops burning.
    seconds = int(2 * limits["seconds"] * (os.cpu_count() or 1)) + 2
    for kind, most in (
        # Not the address space: interpreters reserve far more of it than they use.
        (resource.RLIMIT_DATA, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_MEMLOCK, 8 * 1024 * 1024),
        (resource.RLIMIT_NPROC, limits["processes"] + others),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = max(0, most) if hard == resource.RLIM_INFINITY else min(max(0, most), hard)
        resource.setrlimit(kind, (bound, bound))


def listen(control: Socket) -> None:
    """Listen in an empty network, and hand the socket to the proxy outside."""
    with Socket(AF_INET, SOCK_STREAM) as listener:
        name = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(listener, 0x8913, name))[1]
        if not flags & _FLAG_UP:
            fcntl.ioctl(listener, 0x8914, struct.pack("16sH14x", b"lo", flags | _FLAG_UP))
        listener.bind(("127.0.0.1", PROXY_PORT))
        listener.listen(64)
        send_fds(control, b"\n", [listener.fileno()])


def _tell(control: Socket, **facts: object) -> None:
    control.send(format_report(**facts))


def _reason(error: BaseException) -> str:
    """The reason of an error, in one line."""
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror or error}"
    return " ".join(text.split())[:_MOST_REASON] or type(error).__name__
