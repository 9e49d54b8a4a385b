"""The filter for the system calls of a job, assembled for the kernel. This runs in the launcher process.

Calls that no script needs are refused as if for lack of permission. So are setuid files, namespaces of one's own, and
sockets of any family that the job's network does not need. Some calls are said not to exist, so that programs take the
older way, whose arguments a filter can see.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Step: TypeAlias = tuple[int, int, int, int]
    """An instruction: its code, how many to skip if it holds and if not, and a value."""

_EPERM, _ENOSYS, _EAFNOSUPPORT, _EOPNOTSUPP = 1, 38, 97, 95

_AUDIT = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_LOAD, _EQUAL, _ANY_OF, _AT_LEAST, _JUMP, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x05, 0x06
_FAR = 255
"""The longest jump of a decision."""
_ALLOW, _KILL, _ERROR = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_LET: Step = (_RETURN, 0, 0, _ALLOW)
_NUMBER, _ARCH, _ARGUMENT = 0, 4, 16
"""Offsets in the data of a filter; an argument has eight bytes, of which the lower four come first."""

# Name -> the number on x86-64 and on aarch64; None where there is no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "statmount": (457, 457),
    "listmount": (458, 458), "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263), "syslog": (103, 116), "vhangup": (153, 58), "sethostname": (170, 161),
    "setdomainname": (171, 162), "uselib": (134, None), "personality": (135, 92), "ustat": (136, None),
    "sysfs": (139, None), "_sysctl": (156, None), "create_module": (174, None), "get_kernel_syms": (177, None),
    "query_module": (178, None), "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "set_mempolicy_home_node": (450, 450), "memfd_secret": (447, None),
    "map_shadow_stack": (453, 453), "lsm_set_self_attr": (460, 460), "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119), "ioprio_set": (251, 30), "vmsplice": (278, 75),
}  # fmt: skip

_ABSENT: dict[str, tuple[int | None, int | None]] = {
    # Its flags are behind a pointer, where a filter cannot look; the C library then uses `clone`.
    "clone3": (435, 435),
    # The same for the permissions of a file that it makes.
    "openat2": (437, 437),
    # The whole machine has only so many of these, and no script needs one.
    "io_setup": (206, 0),
    # Memory that belongs to no process would escape the limit on memory.
    "memfd_create": (319, 279),
}

_UNSUPPORTED: dict[str, tuple[int | None, int | None]] = {
    # Space that nobody writes would escape the limit on disk; programs then write zeros.
    "fallocate": (285, 47),
}

_CLONE = (56, 220)
_NAMESPACES = 0x7E02_0000
"""The flags of `clone` for new namespaces."""
_IOCTL, _TRUNCATE = (16, 29), (76, 45)
_TERMINAL_INPUT = (0x5412, 0x541C, 0x5414)
"""Requests that put characters into the input of a terminal."""
_RESERVING = (0x4030_5828, 0x4030_582A, 0x4030_5839)
"""Requests that are `fallocate` by another name."""
_LIMITS = ((302, 261), 0)
# Call -> which argument says whom it is about; 0 is the caller. For priority and processors.
_OTHERS: tuple[tuple[tuple[int, int], int], ...] = (((141, 140), 1), ((203, 122), 0), ((142, 118), 0))
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_SET_IDS = 0o6000
# Call -> which argument has the permissions. A file that gives its runner another user's rights cannot be made.
_MODES: tuple[tuple[tuple[int | None, int | None], int], ...] = (
    ((90, None), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2), ((85, None), 1), ((133, None), 1), ((259, 33), 2),
)  # fmt: skip
_OPENS: tuple[tuple[tuple[int | None, int | None], int], ...] = (((2, None), 1), ((257, 56), 2))
"""Call -> which argument has the flags; the permissions are the next one, and count only if a file is made."""
_CREATING = 0o100 | 0o20000000
"""The flags that make a file: by its name, and without one."""

_UNKNOWN = 471
"""From here on nobody knew what a call does when this was written."""

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16


def program(machine: str, families: tuple[int, ...], *, is_alone: bool = True) -> bytes:
    """The filter for a processor, with the families of sockets that may be made. Pairs of sockets always may.

    Where the job is not alone (`is_alone` is False), it must not touch what only namespaces keep from it: other
    processes, and files by their names in ways that an old Landlock does not know.
    """
    column = 0 if machine == "x86_64" else 1
    cases: dict[int, list[Step]] = {}
    for table, error in ((_REFUSED, _EPERM), (_ABSENT, _ENOSYS), (_UNSUPPORTED, _EOPNOTSUPP)):
        for call in table.values():
            _add(cases, call[column], [_refuse(error)])
    namespaces = [*_argument(0), (_ANY_OF, 0, 1, _NAMESPACES), _refuse(_EPERM)]
    _add(cases, _CLONE[column], namespaces)
    requests = [*_one_of(_TERMINAL_INPUT, _EPERM), *_one_of(_RESERVING, _EOPNOTSUPP)]
    _add(cases, _IOCTL[column], [*_argument(1), *requests])
    allowed = [(_EQUAL, len(families) - at, 0, family) for at, family in enumerate(families)]
    _add(cases, _SOCKET[column], [*_argument(0), *allowed, _refuse(_EAFNOSUPPORT)])
    _add(cases, _SOCKETPAIR[column], [*_argument(0), (_EQUAL, 1, 0, UNIX), _refuse(_EAFNOSUPPORT)])
    # The limits of others, the supervisor's among them, are not a job's to set.
    for others, at in (_LIMITS, *(() if is_alone else _OTHERS)):
        _add(cases, others[column], [*_argument(at), (_EQUAL, 1, 0, 0), _refuse(_EPERM)])
    if not is_alone:
        _add(cases, _TRUNCATE[column], [_refuse(_EPERM)])
    set_ids = [(_ANY_OF, 0, 1, _SET_IDS), _refuse(_EPERM)]
    for modes, at in _MODES:
        _add(cases, modes[column], [*_argument(at), *set_ids])
    for opens, at in _OPENS:
        mode = [*_argument(at + 1), *set_ids]
        _add(cases, opens[column], [*_argument(at), (_ANY_OF, 0, len(mode), _CREATING), *mode])
    code: list[Step] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        # Numbers of the old half-wide interface, which mean the same calls.
        code += [(_AT_LEAST, 0, 1, 0x4000_0000), (_RETURN, 0, 0, _KILL)]
    code += _decide(_stretches(cases))
    return b"".join(struct.pack("=HBBI", *step) for step in code)


def _add(cases: dict[int, list[Step]], number: int | None, steps: list[Step]) -> None:
    """Add the steps for one call, at whose end it is allowed."""
    if number is not None:
        cases[number] = steps if steps[-1][0] == _RETURN and len(steps) == 1 else [*steps, _LET]


def _stretches(cases: dict[int, list[Step]]) -> list[tuple[int, list[Step]]]:
    """The numbers from which on there are other steps than before; calls without any may be made."""
    edges = sorted({0, _UNKNOWN, *cases, *(number + 1 for number in cases)})
    found: list[tuple[int, list[Step]]] = []
    for number in edges:
        # What a kernel to come can do is not there yet.
        steps = cases.get(number, [_LET] if number < _UNKNOWN else [_refuse(_ENOSYS)])
        if not found or found[-1][1] != steps:
            found.append((number, steps))
    return found


def _decide(stretches: list[tuple[int, list[Step]]]) -> list[Step]:
    """Find the steps for a call by halves: the kernel tries out the whole filter for each call when it is set."""
    if len(stretches) == 1:
        return stretches[0][1]
    middle = len(stretches) // 2
    below, above = _decide(stretches[:middle]), _decide(stretches[middle:])
    first = stretches[middle][0]
    if len(below) <= _FAR:
        return [(_AT_LEAST, len(below), 0, first), *below, *above]
    return [(_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def _refuse(error: int) -> Step:
    return (_RETURN, 0, 0, _ERROR | error)


def _argument(at: int) -> Iterator[Step]:
    yield (_LOAD, 0, 0, _ARGUMENT + 8 * at)


def _one_of(values: tuple[int, ...], error: int) -> Iterator[Step]:
    for value in values:
        yield (_EQUAL, 0, 1, value)
        yield _refuse(error)
