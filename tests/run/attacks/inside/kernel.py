"""Attacks on the kernel: other ways to call it, and what only an administrator may."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import time
from collections.abc import Callable

from tests.run.attacks.inside.tools import (
    IS_X86,
    LIBC,
    MB,
    A,
    attack,
    attempt,
    begun,
    call,
    checked,
    each,
    safe,
    verdict,
)

NEW_USER = 0x10000000


def machine_code() -> Callable[..., int]:
    """A function that calls the kernel in the way of 32-bit programs."""
    code = bytes.fromhex("53 89f8 89f3 87ca cd80 5b c3")
    page = mmap.mmap(-1, 4_096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)(address)
    KEPT.append(page)
    return function


KEPT: list[object] = []


def in_child(work: Callable[[], bool]) -> bool:
    """Whether something works, in a process that may die of it."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if work() else 1
        os._exit(code)
    return os.waitpid(child, 0)[1] == 0


@attack
def ker_32_bit() -> None:
    if not IS_X86:
        safe("another processor")
        return
    worked = [
        name
        for name, numbers in {
            "unshare": (310, NEW_USER, 0, 0),
            "socket": (359, 2, 1, 0),
            "ptrace": (26, 0, 0, 0),
            "keyctl": (288, 0, -3, 0),
        }.items()
        if in_child(lambda: machine_code()(*numbers) >= 0)  # noqa: B023 - called at once
    ]
    verdict(worked)


@attack
def ker_x32() -> None:
    if not IS_X86:
        safe("another processor")
        return
    worked = [
        name
        for name, number, argument in (
            ("unshare", 272, NEW_USER),
            ("ptrace", 521, 0),
            ("socket", 41, 2),
            ("getpid", 39, 0),
        )
        if in_child(lambda: LIBC.syscall(0x40000000 + number, argument, 1, 0) >= 0)  # noqa: B023 - called at once
    ]
    verdict(worked)


@attack
def ker_mounts() -> None:
    each(
        {
            "fsopen": lambda: call("fsopen", b"tmpfs", 0),
            "clone a tree": lambda: call("open_tree", -100, b"/", 1),
            "change a mount": lambda: call("mount_setattr", -100, b"/", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32),
            "chroot": lambda: os.chroot(A["ws"]),
            "pivot_root": lambda: call("pivot_root", A["ws"].encode(), A["ws"].encode()),
            "umount": lambda: checked(LIBC.umount2(b"/proc", 2)),
            "bind": lambda: checked(LIBC.mount(A["home"].encode(), A["ws"].encode(), None, 4096, None)),
            "remount": lambda: checked(LIBC.mount(None, b"/", None, 32 | 4096, None)),
        }
    )


@attack
def ker_administration() -> None:
    """What only an administrator may, asked for so that nothing happens."""
    each(
        {
            "acct": lambda: call("acct", 0),
            "swapon": lambda: call("swapon", b"/nothing", 0),
            "init_module": lambda: call("init_module", b"", 0, b""),
            "kexec": lambda: call("kexec_load", 0, 0, 0, 0),
            "hostname": lambda: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)),
            "kernel log": lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64),
            "quota": lambda: call("quotactl", 0x800005, 0, 0, ctypes.create_string_buffer(256)),
            "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
            "fanotify": lambda: call("fanotify_init", 0, 0),
            "vhangup": lambda: call("vhangup"),
        }
    )


@attack
def ker_keys() -> None:
    each(
        {
            "keyctl": lambda: call("keyctl", 0, -3, 1),
            "join a session": lambda: call("keyctl", 1, 0),
            "request_key": lambda: call("request_key", b"user", b"sbx", 0, -3),
        }
    )


@attack
def ker_sysv_left() -> None:
    """Objects that no process owns, and that nobody removes."""
    begun()
    key = A["shmkey"] + 1
    for name, arguments in {"shmget": (key, MB, 0o1600), "msgget": (key, 0o1600), "semget": (key, 1, 0o1600)}.items():
        with contextlib.suppress(OSError):
            call(name, *arguments)


@attack
def ker_message_queue() -> None:
    def make() -> int:
        descriptor = call("mq_open", b"sbx_queue", os.O_CREAT | os.O_RDWR, 0o600, 0)
        call("mq_unlink", b"sbx_queue")
        return descriptor

    attempt(make)
