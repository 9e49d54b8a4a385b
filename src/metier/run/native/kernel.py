"""System calls of Linux that Python has no function for, by ctypes.

Runs in the launcher too, which imports nothing but the standard library and this folder.
"""

from __future__ import annotations

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
# Called with the interpreter's lock held: the child of a `clone` must not find it taken by nobody.
_locked = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = _locked.syscall.restype = ctypes.c_long

MACHINE = os.uname().machine if hasattr(os, "uname") else ""
SUPPORTED = MACHINE in ("x86_64", "aarch64")
"""Whether the numbers below are known for this processor."""

_SIGCHLD = 17
_CLONE = 56 if MACHINE == "x86_64" else 220
_PIVOT_ROOT = 155 if MACHINE == "x86_64" else 41
_CAPSET = 126 if MACHINE == "x86_64" else 91
_SECCOMP = 317 if MACHINE == "x86_64" else 277
_SETGROUPS, _SETRESUID, _SETRESGID = (116, 117, 119) if MACHINE == "x86_64" else (159, 147, 149)
# From here on numbers are the same on every processor.
_OPENAT2, _MOUNT_SETATTR = 437, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

NEW_NS, NEW_USER, NEW_PID, NEW_NET = 0x0002_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000

CAP_DAC_OVERRIDE = 1

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_RECURSIVE = 0x8000
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECUREBITS = 1, 4, 28
_NO_SETUID_FIXUP = 1 << 2
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 36, 38, 47, 2


class KernelError(OSError):
    """A call that failed, by its name."""


def _call(name: str, number: int, *arguments: object) -> int:
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *values))
    if result < 0:
        raise _failed(name)
    return result


def _failed(name: str, path: str | None = None) -> KernelError:
    number = ctypes.get_errno()
    return KernelError(number, f"{name}: {os.strerror(number)}", path)


def _check(name: str, result: int, path: str | None = None) -> int:
    if result < 0:
        raise _failed(name, path)
    return result


def clone(flags: int) -> int:
    """`os.fork`, into new namespaces: the child gets 0. Only for a process with a single thread."""
    result = int(_locked.syscall(ctypes.c_long(_CLONE), ctypes.c_long(flags | _SIGCHLD), *[ctypes.c_long(0)] * 4))
    return _check("clone", result)


def die_with_parent() -> None:
    """Be killed when the thread that made this process ends."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0))


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end."""
    _check("prctl", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def hide_memory() -> None:
    """Keep other processes of this user from reading or tracing this one."""
    _check("prctl", _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def forbid_new_privileges() -> None:
    """From now on no program that this process becomes gains a right, setuid or not."""
    _check("prctl", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def become_user(number: int) -> None:
    """Change the user and groups of this thread, and of no other; what root may do stays permitted for now.

    It stays so also where the kernel looks at the real user, as it does for `access`.
    """
    _check("prctl", _libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0))
    _call("setgroups", _SETGROUPS, 0, None)
    _call("setresgid", _SETRESGID, number, number, number)
    _call("setresuid", _SETRESUID, number, number, number)


def limit_capabilities(*kept: int) -> None:
    """Have these capabilities and no other; no program that this thread becomes gets more without new privileges."""
    low = sum(1 << capability for capability in kept)
    header = struct.pack("=II", 0x2008_0522, 0)
    data = struct.pack("=6I", low, low, low, 0, 0, 0)
    _call("capset", _CAPSET, ctypes.c_char_p(header), ctypes.c_char_p(data))
    for capability in kept:
        _check("prctl", _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0))


def open_exactly(path: str) -> int:
    """A descriptor of an absolute path, with no link anywhere on the way."""
    no_symlinks, no_magic_links = 0x04, 0x02
    flags = os.O_PATH | os.O_CLOEXEC
    how = struct.pack("=QQQ", flags, 0, no_symlinks | no_magic_links)
    return _call("openat2", _OPENAT2, -100, ctypes.c_char_p(os.fsencode(path)), ctypes.c_char_p(how), len(how))


def mount(kind: str, at: str, options: str = "", *, is_readonly: bool = False) -> None:
    """Mount a file system of the kernel's own, where no program gains rights and nothing is a device."""
    _mount(kind, at, _MS_NOSUID | _MS_NODEV | (_MS_RDONLY if is_readonly else 0), options)


def mount_terminals(at: str) -> None:
    """Terminals of one's own."""
    _mount("devpts", at, _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")


def _mount(kind: str, at: str, flags: int, options: str) -> None:
    _check("mount", _libc.mount(kind.encode(), os.fsencode(at), kind.encode(), ctypes.c_ulong(flags), options.encode()))


def stop_sharing_mounts() -> None:
    """Nothing that is mounted from now on is seen outside, nor the other way round."""
    _check("mount", _libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None))


def bind(source: str, at: str) -> None:
    """Show one path also at another."""
    flags = ctypes.c_ulong(_MS_BIND | _MS_REC)
    _check("mount", _libc.mount(os.fsencode(source), os.fsencode(at), None, flags, None), at)


def restrict(at: str, *, is_writable: bool = False) -> None:
    """Let nobody write to a mount, or those in it; no program there gains rights, and nothing is a device."""
    always = _ATTR_NOSUID | _ATTR_NODEV
    wanted = struct.pack("=QQQQ", always if is_writable else always | _ATTR_RDONLY, 0, 0, 0)
    path = ctypes.c_char_p(os.fsencode(at))
    _call("mount_setattr", _MOUNT_SETATTR, -100, path, _AT_RECURSIVE, ctypes.c_char_p(wanted), len(wanted))


def make_writable(at: str) -> None:
    """Make a folder of a file system that nobody may write to a mount of its own, which may be written to."""
    bind(at, at)
    wanted = struct.pack("=QQQQ", 0, _ATTR_RDONLY, 0, 0)
    path = ctypes.c_char_p(os.fsencode(at))
    _call("mount_setattr", _MOUNT_SETATTR, -100, path, 0, ctypes.c_char_p(wanted), len(wanted))


def enter_root(folder: str) -> None:
    """Make a mounted folder the root, and leave the old one behind for good."""
    os.chdir(folder)
    dot = ctypes.c_char_p(b".")
    _call("pivot_root", _PIVOT_ROOT, dot, dot)
    _check("umount2", _libc.umount2(b".", _MNT_DETACH))
    os.chdir("/")


def circumstances() -> list[str]:
    """All that tells whether this process can make namespaces: the system, its settings, and what binds the process."""
    found = [*os.uname(), str(os.geteuid()), str(os.getegid())]
    for name in ("user", "mnt", "pid", "net"):
        found.append(os.readlink(f"/proc/self/ns/{name}"))
    for path in _SETTINGS:
        try:
            with open(path, "rb", buffering=0) as file:
                lines = file.read(65_536).decode(errors="replace").splitlines()
        except OSError:
            lines = ["none"]
        found += [line for line in lines if path != _STATUS or line.startswith(_BINDING)]
    return found


_STATUS = "/proc/self/status"
_BINDING = ("Groups", "Cap", "NoNewPrivs", "Seccomp")
_SETTINGS = (
    _STATUS,
    "/proc/self/attr/current",
    "/proc/sys/kernel/random/boot_id",
    *(f"/proc/sys/user/max_{name}_namespaces" for name in ("user", "mnt", "pid", "net")),
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)


def landlock_version() -> int:
    """The version of Landlock here, 0 if there is none."""
    try:
        return _call("landlock", _LANDLOCK_CREATE, None, 0, 1)
    except OSError:
        return 0


def landlock_ruleset(attributes: bytes) -> int:
    """A descriptor of an empty set of rules."""
    return _call("landlock_create_ruleset", _LANDLOCK_CREATE, ctypes.c_char_p(attributes), len(attributes), 0)


def landlock_allow(ruleset: int, path: int, access: int) -> None:
    """Allow kinds of access below a path, which is given by a descriptor."""
    rule = struct.pack("=Qi", access, path)
    _call("landlock_add_rule", _LANDLOCK_ADD, ruleset, 1, ctypes.c_char_p(rule), 0)


def landlock_enforce(ruleset: int) -> None:
    """Bind this process, and all that it starts, to the rules."""
    _call("landlock_restrict_self", _LANDLOCK_RESTRICT, ruleset, 0)


def filter_calls(program: bytes) -> None:
    """Bind this process, and all that it starts, to a filter of system calls."""
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    _call("seccomp", _SECCOMP, 1, 0, ctypes.c_char_p(header))
