"""Attacks on memory and disk: what takes room and shows in nobody's size."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import signal
import socket
import struct
import threading
import time

from tests.run.attacks.inside.tools import IS_ARM, LIBC, MB, A, attack, attempt, begun, breach, daemon


def hold(seconds: float = 0.7) -> None:
    begun()
    time.sleep(seconds)


def fill(path: str, size: int) -> int:
    """Write a file up to a size, in pieces; the bytes that were written."""
    written = 0
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while written < size:
            written += file.write(b"x" * MB)
    return written


@attack
def mem_memfd() -> None:
    """Files in memory without a name or a mapping: part of no process's size."""
    begun()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    descriptors = []
    with contextlib.suppress(OSError):
        for number in range(18):
            descriptors.append(os.memfd_create(f"m{number}"))
            for _ in range(50):
                os.write(descriptors[-1], b"x" * MB)
    hold()


@attack
def mem_shared_map() -> None:
    begun()
    maps = []
    with contextlib.suppress(OSError, ValueError):
        for _ in range(9):
            maps.append(mmap.mmap(-1, 100 * MB))
            for offset in range(0, 100 * MB, 4_096):
                maps[-1][offset] = 1
    hold()


def _fill_folder(folder: str) -> None:
    begun()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    total = sum(fill(f"{folder}/sbx_fill{number}", 50 * MB) for number in range(18))
    hold()
    print(f"{total // MB} MB", flush=True)


@attack
def mem_tmp() -> None:
    """The folder for temporary files, which may be memory."""
    _fill_folder("/tmp")


@attack
def mem_dev_shm() -> None:
    _fill_folder("/dev/shm")


@attack
def mem_orphans() -> None:
    """Processes that left the tree of their parents, each within the bounds of one."""

    def take() -> None:
        block = bytearray(160 * MB)
        time.sleep(1.2)
        del block

    begun()
    for _ in range(5):
        daemon(take)
    time.sleep(1.5)


@attack
def mem_sockets() -> None:
    """Memory that the kernel keeps for sockets, filled by many processes."""
    begun()

    def take() -> None:
        pairs = []
        with contextlib.suppress(OSError):
            for _ in range(110):
                pair = socket.socketpair()
                pairs.append(pair)
                for end in pair:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MB)
                    end.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        while True:
                            end.send(b"x" * 65_536)
        time.sleep(1.2)

    children = []
    with contextlib.suppress(OSError):
        for _ in range(8):
            child = os.fork()
            if child == 0:
                take()
                os._exit(0)
            children.append(child)
    for child in children:
        os.waitpid(child, 0)
    print("HELD", flush=True)


@attack
def mem_shared_hidden() -> None:
    """Shared memory that is in no process's size: given back only for show, or held by its first page."""
    begun()
    maps = []
    with contextlib.suppress(OSError, ValueError):
        for number in range(18):
            block = mmap.mmap(-1, 50 * MB)
            maps.append(block)
            for offset in range(0, 50 * MB, 4_096):
                block[offset] = 1
            if number % 2:
                block.madvise(mmap.MADV_DONTNEED)
            else:
                start = ctypes.addressof(ctypes.c_char.from_buffer(block))
                LIBC.munmap(ctypes.c_void_p(start + 4_096), ctypes.c_size_t(50 * MB - 4_096))
    time.sleep(1)
    os._exit(0)


@attack
def mem_headless() -> None:
    """Processes whose first thread has ended, so that they look like dead ones."""
    begun()

    def take() -> None:
        block = bytearray(300 * MB)
        time.sleep(1.5)
        del block
        os._exit(0)

    for _ in range(3):
        if os.fork() == 0:
            threading.Thread(target=take).start()
            LIBC.syscall(ctypes.c_long(93 if IS_ARM else 60), 0)
    time.sleep(1.7)


@attack
def mem_page_tables() -> None:
    """Pages of zeros, which cost nothing but the tables that say where they are."""
    begun()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # without a reserve
    size = 700 * 1024 * MB
    with contextlib.suppress(OSError, ValueError, OverflowError):
        zeros = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ)
        with contextlib.suppress(OSError):
            zeros.madvise(15)  # no huge pages
        for offset in range(0, size, 2 * MB):
            zeros[offset]
    time.sleep(0.8)


@attack
def mem_empty_files() -> None:
    """Files without content in folders that are memory."""
    begun()
    made = 0
    for folder in ("/tmp", "/dev/shm"):
        with contextlib.suppress(OSError):
            os.mkdir(folder + "/sbx_filled")
            os.chdir(folder + "/sbx_filled")
            for number in range(60_000):
                os.mknod(str(number))
                made += 1
    if made > 100_000:
        breach(f"{made} files")


@attack
def disk_reserve() -> None:
    """Space reserved by the older call for it."""
    begun()
    with contextlib.suppress(OSError):
        for number in range(10):
            descriptor = os.open(f"{A['ws']}/f{number}", os.O_CREAT | os.O_WRONLY)
            fcntl.ioctl(descriptor, 0x4030582A, struct.pack("hhqqiI16x", 0, 0, 0, 50 * MB, 0, 0))
    hold(0.8)


@attack
def disk_children() -> None:
    """Many short lives, each of which writes a little and is buried by nobody."""
    begun()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        for number in range(60):
            if os.fork() == 0:
                fill(f"{A['ws']}/c{number}", 8 * MB)
                os._exit(0)
            time.sleep(0.02)
    hold(0.5)


@attack
def disk_fallocate() -> None:
    begun()
    with contextlib.suppress(OSError):
        for number in range(10):
            descriptor = os.open(f"{A['ws']}/f{number}", os.O_CREAT | os.O_WRONLY)
            os.posix_fallocate(descriptor, 0, 50 * MB)
    hold(0.8)


@attack
def disk_deleted() -> None:
    """Files that have no name any more, and still take their space."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def write_all() -> str:
        held = []
        for number in range(9):
            path = f"{A['ws']}/gone{number}"
            held.append(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.unlink(path)
            for _ in range(50):
                os.write(held[-1], b"x" * MB)
        time.sleep(0.8)
        return f"{sum(os.fstat(descriptor).st_blocks for descriptor in held) * 512 // MB} MB without a name"

    begun()
    attempt(write_all)


@attack
def disk_many_files() -> None:
    """Small files, each of which takes a block."""
    begun()
    with contextlib.suppress(OSError):
        for number in range(90_000):
            if number % 1_000 == 0:
                os.mkdir(f"{A['ws']}/many{number // 1_000}")
            descriptor = os.open(f"{A['ws']}/many{number // 1_000}/{number}", os.O_CREAT | os.O_WRONLY)
            os.write(descriptor, b"x")
            os.close(descriptor)
