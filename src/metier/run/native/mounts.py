"""The root of a job, put together from mounts; the rest of the machine is left behind. This runs in the supervisor."""

from __future__ import annotations

import errno
import os

from metier.run.native import kernel
from metier.run.native.light_stdlib import suppress
from metier.run.native.protocol import identity

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from typing import Any

ROOT = "/tmp"
"""The mount point of the new root before it becomes the root; it is there on every machine."""
_MOST_FILES = 20_000
_FURNITURE = 1024 * 1024
"""Bytes that the root needs for itself."""


def build(wanted: dict[str, Any]) -> None:
    """Enter a root as a request describes it. Only in a mount namespace of one's own."""
    kernel.stop_sharing_mounts()
    _limit_watches()
    # A place may lie below the folder where the new root goes, and no link may lead elsewhere: it is held before.
    places = [(kernel.open_exactly(source), at, is_writable) for source, at, is_writable in wanted["places"]]
    # One file system for the root and for temporary files: each takes the kernel as long as many mounts.
    kernel.mount("tmpfs", ROOT, f"mode=755,size={wanted['scratch'] + _FURNITURE},nr_inodes={_MOST_FILES}")
    _furnish(wanted["base_furniture"])
    _furnish(wanted["furniture"])
    for target, path in wanted["links"]:
        os.symlink(target, ROOT + path)
    for source, at in wanted["system"]:
        kernel.bind(source, ROOT + at)
    # Everything so far is only to be read. What comes now is not, or is so by itself.
    kernel.restrict(ROOT)
    for name in wanted["devices"]:
        kernel.bind(f"/dev/{name}", f"{ROOT}/dev/{name}")
    _mount_own()
    for path in wanted["masked"]:
        # Not every kernel has all of them.
        with suppress(OSError):
            kernel.bind("/dev/null", ROOT + path)
    _furnish(wanted["in_scratch"])
    for source, at, is_writable in places:
        try:
            kernel.bind(f"/proc/self/fd/{source}", ROOT + at)
        except FileNotFoundError:
            # It is to be seen inside another place, where there is nothing to show it on.
            raise FileNotFoundError(errno.ENOENT, "it cannot be shown there, as nothing is there", at) from None
        kernel.restrict(ROOT + at, is_writable=is_writable)
        os.close(source)
    for at, is_folder in wanted["hidden"]:
        if is_folder:
            kernel.mount("tmpfs", ROOT + at, "mode=000,size=4k,nr_inodes=1", is_readonly=True)
        else:
            kernel.bind("/dev/null", ROOT + at)
            kernel.restrict(ROOT + at)
    kernel.enter_root(ROOT)


def close_stand_ins(stand_ins: list[tuple[str, str]]) -> None:
    """Let nobody write to the stand-ins for absent names: made for each job, also in a sandbox that is there."""
    for _, path in stand_ins:
        kernel.bind(path, path)
        kernel.restrict(path)


def _limit_watches() -> None:
    """Leave to others what the kernel counts for a user: it does so for each namespace too."""
    for name, most in (("max_inotify_instances", b"32"), ("max_inotify_watches", b"8192")):
        with suppress(OSError), open(f"/proc/sys/user/{name}", "wb", buffering=0) as file:
            file.write(most)


def are_whole(wanted: dict[str, Any]) -> bool:
    """Whether each place is still shown where it was, for another request that wants the same.

    When something is replaced outside, the kernel takes away what was mounted on it here: a place inside another would
    then be what the other one holds, and could be written.
    """
    with open("/proc/self/mountinfo", "rb") as file:
        points = {line.split(b" ", 5)[4] for line in file}
    for (_, at, _), there in zip(wanted["places"], wanted["identities"], strict=True):
        try:
            if _escaped(at) not in points or identity(at) != tuple(there):
                return False
        except OSError:
            return False
    return True


def _escaped(path: str) -> bytes:
    """A path as the kernel writes it in its lists."""
    escaped = os.fsencode(path).replace(b"\\", b"\\134")
    for byte, written in ((b" ", b"\\040"), (b"\t", b"\\011"), (b"\n", b"\\012")):
        escaped = escaped.replace(byte, written)
    return escaped


def _furnish(wanted: dict[str, Any]) -> None:
    """Make the mount points, and the few files of the root itself."""
    for path in wanted["folders"]:
        # A place may be inside another one, where there is a folder for it already.
        with suppress(FileExistsError):
            os.mkdir(ROOT + path)
    for path, data in wanted["files"].items():
        descriptor = os.open(ROOT + path, os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(descriptor, data)
        os.close(descriptor)


def _mount_own() -> None:
    kernel.mount("proc", f"{ROOT}/proc", is_readonly=True)
    for path in ("/tmp", "/dev/shm"):
        kernel.make_writable(ROOT + path)
        os.chmod(ROOT + path, 0o1777)
    # A machine without terminals has no use for them here either.
    with suppress(OSError):
        kernel.mount_terminals(f"{ROOT}/dev/pts")
