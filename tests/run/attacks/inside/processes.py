"""Attacks on processes: those of the host, those that watch, and ways to outlive them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import struct
import sys
import threading
import time
from functools import partial

from tests.run.attacks.inside.tools import (
    CALLS,
    IS_ARM,
    LIBC,
    MB,
    A,
    attack,
    attempt,
    beat,
    begun,
    breach,
    call,
    daemon,
    each,
    processes,
    read,
    safe,
    silently,
    verdict,
    write,
)

NEW_USER, NEW_PID, NEW_NET, NEW_NS, NEW_IPC, NEW_UTS, NEW_CGROUP = (
    0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x08000000, 0x04000000, 0x02000000,
)  # fmt: skip
CLONE_PARENT = 0x8000


@attack
def proc_signal_all() -> None:
    begun()
    for target in (-1, 0):
        with contextlib.suppress(OSError):
            os.kill(target, signal.SIGURG)
    with contextlib.suppress(OSError):
        os.kill(A["victim"], signal.SIGURG)
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(os.pidfd_open(A["victim"]), signal.SIGURG)
    time.sleep(0.2)


@attack
def proc_limits_of_victim() -> None:
    attempt(lambda: resource.prlimit(A["victim"], resource.RLIMIT_NOFILE, (5, 5)), lambda _: False)


def put_behind(pid: int) -> None:
    """Let a process have the processor only when nobody else wants it."""
    silently(
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.sched_setaffinity(pid, {0}),
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    )


@attack
def proc_priority_of_victim() -> None:
    begun()
    put_behind(A["victim"])
    with contextlib.suppress(OSError):
        call("ioprio_set", 1, A["victim"], 3 << 13)
        if os.path.exists(f"/proc/{A['victim']}/stat"):
            breach("ioprio_set")


def _others() -> list[int]:
    """Processes that are not of the job, as far as they can be named: whoever started it, and the victim."""
    seen = {A["victim"], A["runner"], os.getppid(), 1, *map(int, processes())}
    return sorted(seen - {os.getpid()})


@attack
def proc_memory_of_others() -> None:
    """The memory of whoever started the job, of the victim, and of all others in sight."""
    worked = []
    buffer = ctypes.create_string_buffer(8)
    for pid in _others():
        local = struct.pack("QQ", ctypes.addressof(buffer), 8)
        remote = struct.pack("QQ", 0x1000, 8)
        try:
            call("process_vm_readv", pid, local, 1, remote, 1, 0)
            worked.append(f"process_vm_readv {pid}")
        except OSError as error:
            # The address is not there, which only somebody is told who may ask.
            if error.errno == errno.EFAULT:
                worked.append(f"process_vm_readv {pid}")
        for file in ("mem", "maps", "environ", "auxv", "stack"):
            with contextlib.suppress(OSError):
                descriptor = os.open(f"/proc/{pid}/{file}", os.O_RDWR if file == "mem" else os.O_RDONLY)
                if file == "mem" or os.read(descriptor, 10):
                    worked.append(f"{file} of {pid}")
                os.close(descriptor)
    verdict(worked)


@attack
def proc_descriptors_of_others() -> None:
    worked = []
    for pid in _others():
        with contextlib.suppress(OSError):
            held = call("pidfd_open", pid, 0)
            for number in range(12):
                with contextlib.suppress(OSError):
                    call("pidfd_getfd", held, number, 0)
                    worked.append(f"pidfd_getfd {pid} {number}")
        for number in range(12):
            with contextlib.suppress(OSError):
                worked.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        with contextlib.suppress(OSError):
            call("kcmp", os.getpid(), pid, 2, 0, 0)
            worked.append(f"kcmp {pid}")
        with contextlib.suppress(OSError):
            call("migrate_pages", pid, 64, struct.pack("Q", 1), struct.pack("Q", 1))
            worked.append(f"migrate_pages {pid}")
    verdict(worked)


@attack
def proc_trace_others() -> None:
    """Seize whoever is in sight; it is not stopped by that."""
    each({str(pid): partial(call, "ptrace", 0x4206, pid, 0, 0) for pid in _others()})


@attack
def proc_see_victim() -> None:
    attempt(lambda: read(f"/proc/{A['victim']}/stat"), lambda text: "(sh)" in text)


@attack
def proc_stop_parent() -> None:
    """Stop whoever watches over the time, and sleep."""
    begun()
    for pid in (os.getppid(), 1, A["runner"]):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
    time.sleep(60)


@attack
def proc_kill_watchers() -> None:
    """End whoever is in sight, and live on."""
    begun()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    daemon(lambda: beat(6))
    for pid in (os.getppid(), 1):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
    time.sleep(0.3)


@attack
def proc_starve_watchers() -> None:
    """Take from whoever watches what it needs to watch with, and then live on."""
    begun()
    for pid in (os.getppid(), 1):
        for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_DATA, resource.RLIMIT_STACK):
            with contextlib.suppress(OSError):
                resource.prlimit(pid, kind, (0, 0))
    daemon(lambda: beat(6))
    time.sleep(0.3)


@attack
def proc_slow_watchers() -> None:
    """Put whoever watches behind everybody else, and be many."""
    begun()
    for pid in (os.getppid(), 1):
        put_behind(pid)
    with contextlib.suppress(OSError):
        for _ in range(60):
            if os.fork() == 0:
                os.setsid()
                break
    until = time.monotonic() + 8
    while time.monotonic() < until:
        pass


@attack
def proc_long_look() -> None:
    """Much memory shared by many, which takes long to tell apart."""
    begun()
    block = bytearray(300 * MB)
    with contextlib.suppress(OSError):
        for _ in range(90):
            if os.fork() == 0:
                break
    time.sleep(8)
    del block


@attack
def proc_stop_self() -> None:
    begun()
    os.kill(os.getpid(), signal.SIGSTOP)


@attack
def proc_stubborn() -> None:
    """A grandchild that ignores requests, has left its group, and holds the pipes."""

    def stay() -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(60)

    begun()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    daemon(stay, keep=True)
    time.sleep(60)


@attack
def proc_stubborn_exit() -> None:
    """The same, but the first process ends at once."""
    begun()
    daemon(lambda: time.sleep(60), keep=True)


def churn() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    until = time.monotonic() + 6
    count = 0
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()
        count += 1
        if count % 20 == 0:
            write(A["ws"] + "/heartbeat", ".")


@attack
def proc_churn() -> None:
    """A process that is always another one by the time somebody looks."""

    begun()
    daemon(churn)
    time.sleep(0.2)


@attack
def proc_churn_wide() -> None:
    """Several of them at once."""

    begun()
    for _ in range(8):
        daemon(churn)
    time.sleep(0.2)


@attack
def proc_sibling() -> None:
    """A child that belongs to the parent, and so is nobody's to the supervisor."""
    begun()
    number = CALLS["clone"][IS_ARM]
    if LIBC.syscall(number, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        with contextlib.suppress(OSError):
            os.setsid()
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        beat()
        os._exit(0)
    time.sleep(0.2)


@attack
def proc_subreaper() -> None:
    """Gather orphans, and become one."""

    def gather() -> None:
        LIBC.prctl(36, 1, 0, 0, 0)
        daemon(beat)
        time.sleep(8)

    begun()
    LIBC.prctl(36, 1, 0, 0, 0)
    daemon(gather)
    time.sleep(0.2)


@attack
def proc_disguise() -> None:
    """Another name, no environment, not to be looked into."""

    def hide() -> None:
        LIBC.prctl(15, b"kworker/0:1", 0, 0, 0)
        LIBC.prctl(4, 0, 0, 0, 0)
        code = (
            "import sys,time,ctypes; ctypes.CDLL(None).prctl(4,0,0,0,0)\n"
            "end=time.monotonic()+8\n"
            "while time.monotonic()<end: open(sys.argv[1]+'/heartbeat','a').write('.'); time.sleep(.05)"
        )
        os.execve(sys.executable, ["kworker", "-c", code, A["ws"]], {})

    begun()
    daemon(hide)
    time.sleep(0.3)


@attack
def proc_late_writer() -> None:
    """It ends while others go on writing to its output."""

    def talk() -> None:
        until = time.monotonic() + 8
        while time.monotonic() < until:
            os.write(1, b"still here\n" * 50)
            time.sleep(0.001)

    begun()
    daemon(talk, keep=True)


@attack
def proc_no_streams() -> None:
    begun()
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    time.sleep(60)


@attack
def proc_namespaces() -> None:
    """Every kind of namespace, by every call that makes one."""

    def clone3(flags: int) -> None:
        asked = struct.pack("QQQQQQQQ", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
        if call("clone3", asked, len(asked)) == 0:
            os._exit(0)

    def clone(flags: int) -> None:
        if call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
            os._exit(0)

    def unshare(flags: int) -> None:
        child = os.fork()
        if child == 0:
            try:
                call("unshare", flags)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise PermissionError("unshare")

    each(
        {
            f"{way.__name__} {flags:#x}": partial(way, flags)
            for way in (clone3, clone, unshare)
            for flags in (
                NEW_USER,
                NEW_USER | NEW_NET,
                NEW_USER | NEW_NS,
                NEW_PID,
                NEW_NET,
                NEW_IPC,
                NEW_UTS,
                NEW_CGROUP,
            )
        }
    )


@attack
def proc_join_namespaces() -> None:
    """Enter the namespaces of somebody else."""

    def join(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            call("setns", descriptor, 0)
        finally:
            os.close(descriptor)

    tries = {}
    for pid in _others():
        for kind in ("user", "net", "mnt", "pid", "ipc", "uts"):
            tries[f"{pid} {kind}"] = partial(join, f"/proc/{pid}/ns/{kind}")
    each(tries)


@attack
def proc_raise_limits() -> None:
    kinds = {name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
    raised = []
    for name, kind in kinds.items():
        soft, hard = resource.getrlimit(kind)
        if hard == resource.RLIM_INFINITY:
            continue
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard + 1))
            raised.append(name)
    with contextlib.suppress(OSError):
        os.nice(-5)
        raised.append("nice")
    for policy in (os.SCHED_FIFO, os.SCHED_RR):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(1))
            raised.append("realtime")
    with contextlib.suppress(OSError):
        score = int(read("/proc/self/oom_score_adj"))
        write("/proc/self/oom_score_adj", str(score - 100))
        raised.append("oom_score_adj")
    verdict(raised)


@attack
def proc_unbounded() -> None:
    """Limits that were never set."""
    unbounded = [
        name
        for name in ("RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_CPU")
        if resource.getrlimit(getattr(resource, name))[1] == resource.RLIM_INFINITY
    ]
    verdict(unbounded)


@attack
def proc_core_dump() -> None:
    begun()
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    os.abort()


@attack
def proc_threads() -> None:
    started = []
    threading.stack_size(64 * 1024)
    ended = threading.Event()
    try:
        for _ in range(400):
            thread = threading.Thread(target=ended.wait, args=(2,), daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        pass
    if len(started) > 150:
        breach(f"{len(started)} threads")
    else:
        safe(f"stopped at {len(started)}")
    ended.set()


@attack
def proc_fork_tree() -> None:
    """Children that have children, in sessions of their own."""
    begun()
    until = time.monotonic() + 0.6
    for _ in range(8):
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                os.setsid()
    while time.monotonic() < until:
        time.sleep(0.1)


@attack
def proc_privileges() -> None:
    """Whether a program that changes its user could be started with effect."""
    status = read("/proc/self/status") if os.path.exists("/proc/self/status") else ""
    facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    found = []
    if LIBC.prctl(39, 0, 0, 0, 0) != 1:
        found.append("new privileges")
    for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        if int(facts.get(kind, "0"), 16):
            found.append(f"{kind} {facts[kind]}")
    if facts and facts.get("Seccomp", "2").strip() != "2":
        found.append("no filter of calls")
    if 0 in (os.getuid(), os.geteuid()) and int(facts.get("CapEff", "0"), 16):
        found.append("root")
    verdict(found)
