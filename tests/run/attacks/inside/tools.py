"""What the attacks have in common: how they are known, what they print, and system calls by their names."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any

MB = 1024 * 1024
IS_ARM = platform.machine() == "aarch64"
IS_X86 = platform.machine() == "x86_64"
LIBC = ctypes.CDLL(None, use_errno=True)
A: dict[str, Any] = {}
"""What the attack was told about the place, by the names that the benchmark uses."""
ATTACKS: dict[str, Callable[[], None]] = {}

CALLS = {  # x86-64, aarch64
    "acct": (163, 89), "clone": (56, 220), "clone3": (435, 435), "fanotify_init": (300, 262), "fchmodat2": (452, 452),
    "fsopen": (430, 430), "init_module": (175, 105), "ioprio_set": (251, 30), "kcmp": (312, 272),
    "kexec_load": (246, 104), "keyctl": (250, 219), "migrate_pages": (256, 238), "mount_setattr": (442, 442),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "msgget": (68, 186), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "openat2": (437, 437), "open_tree": (428, 428), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "pivot_root": (155, 41), "process_vm_readv": (310, 270), "ptrace": (101, 117),
    "quotactl": (179, 60), "renameat2": (316, 276), "request_key": (249, 218), "semget": (64, 190),
    "sethostname": (170, 161), "setns": (308, 268), "shmget": (29, 194), "swapon": (167, 224), "syslog": (103, 116),
    "unshare": (272, 97), "vhangup": (153, 58),
}  # fmt: skip
EXCHANGE = 2
"""The flag of `renameat2` that swaps two files."""


def attack(function: Callable[[], None]) -> Callable[[], None]:
    """Make an attack known by its name."""
    ATTACKS["m_" + function.__name__] = function
    return function


def breach(what: object) -> None:
    print("BREACH:" + str(what)[:200], flush=True)


def safe(why: object) -> None:
    print("SAFE:" + str(why)[:200], flush=True)


def begun() -> None:
    """Say that it has started, where only somebody outside can tell whether it works."""
    print("BEGUN", flush=True)


def verdict(worked: list[str]) -> None:
    """A breach if there is anything in the list."""
    if worked:
        breach(worked)
    else:
        safe("refused")


def attempt(work: Callable[[], Any], worked: Callable[[Any], bool] = lambda _: True) -> None:
    """Try one thing; it is a breach if it goes well and the result says so."""
    try:
        result = work()
    except Exception as error:
        safe(f"{type(error).__name__}: {error}")
        return
    if worked(result):
        breach(result)
    else:
        safe(result)


def each(tries: Mapping[str, Callable[[], Any]]) -> None:
    """Try several ways; any that goes well is a breach."""
    worked = []
    for name, work in tries.items():
        with contextlib.suppress(Exception):
            work()
            worked.append(name)
    verdict(worked)


def silently(*works: Callable[[], Any]) -> None:
    """Try several things, of which somebody outside sees what they do."""
    for work in works:
        with contextlib.suppress(OSError):
            work()


def checked(result: int) -> int:
    """What a function of the C library returned; raises where it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(name: str, *arguments: Any) -> int:
    """Make a system call."""
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(int(LIBC.syscall(ctypes.c_long(CALLS[name][IS_ARM]), *given)))


def exchange(one: str, other: str) -> None:
    call("renameat2", -100, one.encode(), -100, other.encode(), EXCHANGE)


def read(path: str) -> str:
    with open(path, encoding="latin1") as file:
        return file.read(4_096)


def write(path: str, text: str = "pwned") -> None:
    with open(path, "a") as file:
        file.write(text)


def has_secret(text: str) -> bool:
    return "CANARY" in text


def processes() -> list[str]:
    """The processes that `/proc` shows."""
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def daemon(work: Callable[[], object], *, keep: bool = False) -> None:
    """Run something in a process that has left its parent, session and group; `keep` keeps the streams."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    if not keep:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
    try:
        work()
    finally:
        os._exit(0)


def beat(seconds: float = 8.0) -> None:
    """Show that it lives, where somebody outside looks."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        write(A["ws"] + "/heartbeat", ".")
        time.sleep(0.05)
