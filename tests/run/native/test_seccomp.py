"""The filter of system calls, run by a small interpreter of its language: every number, on both processors."""

from __future__ import annotations

import struct

import pytest

from metier.run.native import seccomp
from metier.run.native.seccomp import INET, UNIX, program

ALLOW, KILL, ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
EPERM, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT = 1, 38, 95, 97
MACHINES = ("x86_64", "aarch64")
ARCHITECTURES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
# Name -> the number on x86-64 and on aarch64, for calls that programs live on.
NEEDED = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "mmap": (9, 222), "munmap": (11, 215),
    "brk": (12, 214), "rt_sigaction": (13, 134), "pread64": (17, 67), "pipe2": (293, 59), "dup3": (292, 24),
    "getpid": (39, 172), "execve": (59, 221), "exit": (60, 93), "wait4": (61, 260), "kill": (62, 129),
    "fcntl": (72, 25), "getcwd": (79, 17), "unlinkat": (263, 35), "renameat2": (316, 276), "futex": (202, 98),
    "epoll_pwait": (281, 22), "sendmsg": (46, 211), "bind": (49, 200), "getrandom": (318, 278), "statx": (332, 291),
    "landlock_create_ruleset": (444, 444), "seccomp": (317, 277), "prctl": (157, 167), "setresuid": (117, 147),
}  # fmt: skip


def verdict(code: bytes, machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What a filter says of a call."""
    steps = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    values = [*arguments, *[0] * (6 - len(arguments))]
    shown = {0: number, 4: ARCHITECTURES[machine] if architecture is None else architecture}
    shown |= {16 + 8 * at: value & 0xFFFF_FFFF for at, value in enumerate(values)}
    at = register = 0
    while True:
        what, holds, fails, value = steps[at]
        at += 1
        if what == 0x06:
            return int(value)
        if what == 0x20:
            register = shown[value]
        elif what == 0x05:
            at += value
        else:
            is_so = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[what]
            at += holds if is_so else fails


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("is_alone", [True, False])
def test_every_call_is_refused_or_not_as_the_tables_say(machine: str, is_alone: bool) -> None:
    column = MACHINES.index(machine)
    code = program(machine, (UNIX,), is_alone=is_alone)
    expected = {
        numbers[column]: ERROR | error
        for table, error in (
            (seccomp._REFUSED, EPERM),
            (seccomp._ABSENT, ENOSYS),
            (seccomp._UNSUPPORTED, EOPNOTSUPP),
        )
        for numbers in table.values()
    }
    if not is_alone:
        expected[(76, 45)[column]] = ERROR | EPERM
    # With no argument at all, sockets are of no family, and nothing else that depends on arguments is refused.
    for number in ((41, 198)[column], (53, 199)[column]):
        expected[number] = ERROR | EAFNOSUPPORT
    for number in range(1_000):
        otherwise = ALLOW if number <= 470 else ERROR | ENOSYS
        assert verdict(code, machine, number) == expected.get(number, otherwise), number


@pytest.mark.each("machine", MACHINES)
@pytest.mark.parametrize("name", NEEDED)
def test_what_programs_live_on_is_let_through(machine: str, name: str) -> None:
    number = NEEDED[name][MACHINES.index(machine)]
    for is_alone in (True, False):
        assert verdict(program(machine, (UNIX,), is_alone=is_alone), machine, number, 1, 2, 3) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_a_socket_must_be_of_a_family_that_the_network_needs(machine: str) -> None:
    column = MACHINES.index(machine)
    socket, pair = (41, 198)[column], (53, 199)[column]
    code = program(machine, (UNIX, INET))
    families = {family for family in range(64) if verdict(code, machine, socket, family) == ALLOW}
    assert families == {UNIX, INET}
    assert {family for family in range(64) if verdict(code, machine, pair, family) == ALLOW} == {UNIX}
    assert not [family for family in range(64) if verdict(program(machine, ()), machine, socket, family) == ALLOW]


@pytest.mark.parametrize("machine", MACHINES)
def test_no_namespace_can_be_made(machine: str) -> None:
    clone = (56, 220)[MACHINES.index(machine)]
    code = program(machine, (UNIX,))
    for bit in range(8, 32):
        is_namespace = bit in (17, 25, 26, 27, 28, 29, 30)
        assert (verdict(code, machine, clone, 1 << bit | 17) == ERROR | EPERM) == is_namespace, bit


@pytest.mark.each("machine", MACHINES)
@pytest.mark.parametrize(("mode", "is_refused"), [(0o644, False), (0o1777, False), (0o4755, True), (0o2755, True)])
def test_no_file_can_give_its_runner_the_rights_of_another(machine: str, mode: int, is_refused: bool) -> None:
    column = MACHINES.index(machine)
    code = program(machine, (UNIX,))
    openat, fchmodat, fchmod = (257, 56)[column], (268, 53)[column], (91, 52)[column]
    for number, arguments in (
        (openat, (0, 0, 0o101, mode)),
        (openat, (0, 0, 0o20200002, mode)),
        (fchmodat, (0, 0, mode)),
        (fchmod, (0, mode)),
        (452, (0, 0, mode)),
    ):
        assert (verdict(code, machine, number, *arguments) == ERROR | EPERM) == is_refused
    # Without a file to make, the argument says nothing, and may be anything.
    assert verdict(code, machine, openat, 0, 0, 0o200000, mode) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_terminals_cannot_be_typed_into_and_no_space_reserved(machine: str) -> None:
    ioctl = (16, 29)[MACHINES.index(machine)]
    code = program(machine, (UNIX,))
    assert verdict(code, machine, ioctl, 0, 0x5412) == ERROR | EPERM
    assert verdict(code, machine, ioctl, 0, 0x4030_582A) == ERROR | EOPNOTSUPP
    assert verdict(code, machine, ioctl, 0, 0x5401) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_limits_of_others_are_not_to_be_set(machine: str) -> None:
    prlimit = (302, 261)[MACHINES.index(machine)]
    code = program(machine, (UNIX,))
    assert verdict(code, machine, prlimit, 0) == ALLOW
    assert verdict(code, machine, prlimit, 1) == ERROR | EPERM


def test_other_ways_into_the_kernel_end_the_job() -> None:
    assert verdict(program("x86_64", (UNIX,)), "x86_64", 1, architecture=0x4000_0003) == KILL
    assert verdict(program("aarch64", (UNIX,)), "aarch64", 1, architecture=0x4000_0028) == KILL
    assert verdict(program("x86_64", (UNIX,)), "x86_64", 0x4000_0000 | 1) == KILL
