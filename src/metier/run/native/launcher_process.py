"""The launcher process: it forks the supervisor of a job each time it is asked to.

It has nothing of the host's in it: no environment, no descriptors, no threads. Starting a job from it costs a fork, and
not the start of an interpreter. It ends when the other end of its socket does.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import sys
import time

from metier.run.native import kernel, seccomp, supervisor
from metier.run.native.light_stdlib import signal
from metier.run.native.protocol import Socket, read_request, recv_fds, send_fds

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from typing import Any

_MOST_MESSAGE = 4_096
_DESCRIPTORS = 5
_PATIENCE = 1.0
"""Seconds that supervisors have to end by themselves."""
_bases: dict[int, dict[str, Any]] = {}
"""The common parts of requests, by their numbers."""


def main(number: int) -> None:
    """Serve requests on a socket until it closes."""
    # Whatever the program that started this one ignores or holds back is no matter of a job's.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for ignored in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(ignored, signal.SIG_DFL)
    with Socket(fileno=number) as requests:
        # What never changes is shared with every job; a search for garbage would touch, and so copy, all of it.
        gc.disable()
        gc.freeze()
        poll = select.poll()
        poll.register(requests, select.POLLIN)
        supervisors: dict[int, int] = {}
        while True:
            for descriptor, _ in poll.poll():
                if descriptor in supervisors:
                    poll.unregister(descriptor)
                    os.close(descriptor)
                    os.waitpid(supervisors.pop(descriptor), 0)
                    continue
                made = _serve(requests)
                if made is None:
                    _reap(supervisors)
                    return
                for held, pid in made:
                    supervisors[held] = pid
                    poll.register(held, select.POLLIN)


def _reap(supervisors: dict[int, int]) -> None:
    """Wait a while for the supervisors to end, as they do when nobody is there any more."""
    poll = select.poll()
    deadline = time.monotonic() + _PATIENCE
    for descriptor in supervisors:
        poll.register(descriptor, select.POLLIN)
    while supervisors and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            os.waitpid(supervisors.pop(descriptor), 0)


def _serve(requests: Socket) -> list[tuple[int, int]] | None:
    """Answer one request with a descriptor of the supervisor, or why there is none; None when nobody asks any more."""
    message, descriptors = recv_fds(requests, _MOST_MESSAGE, _DESCRIPTORS)
    if not message:
        return None
    asked = marshal.loads(message)
    try:
        if "learn" in asked:
            # Each has been read by the time that the first request for it comes.
            base = read_request(descriptors[0])
            _bases[asked["learn"]] = {**base, "filter": seccomp.program(kernel.MACHINE, **base["calls"])}
        elif len(descriptors) == _DESCRIPTORS:
            return _answer(requests, asked, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    return []


def _answer(requests: Socket, asked: dict[str, Any], descriptors: list[int]) -> list[tuple[int, int]]:
    begin, ready = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pid = kernel.clone(asked["flags"])
        except OSError as error:
            requests.sendall(str(error.strerror).encode())
            return []
        if pid == 0:
            _become_supervisor(requests, ready, begin, descriptors, _bases[asked["base"]])
        held = os.pidfd_open(pid)
        try:
            if asked["flags"] & kernel.NEW_USER:
                _map_user(pid, asked["maps_all"])
            os.write(ready, b"1")
            send_fds(requests, b"made", [held])
        except OSError as error:
            os.kill(pid, signal.SIGKILL)
            requests.sendall(str(error.strerror).encode())
        return [(held, pid)]
    finally:
        os.close(begin)
        os.close(ready)


def _become_supervisor(requests: Socket, ready: int, begin: int, descriptors: list[int], base: dict[str, Any]) -> None:
    os.close(ready)
    requests.close()
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    request, control, *streams = descriptors
    supervisor.main(request, Socket(fileno=control), streams, begin, base)


def _map_user(pid: int, maps_all: bool) -> None:
    """Map the users of a user namespace to those outside: themselves, and nobody else."""
    user, group = os.geteuid(), os.getegid()
    everybody = "0 0 4294967295"
    files = [
        ("uid_map", everybody if maps_all else f"{user} {user} 1"),
        ("gid_map", everybody if maps_all else f"{group} {group} 1"),
    ]
    if not maps_all:
        # Without this no user may map groups, who could drop one that forbids something.
        files.insert(0, ("setgroups", "deny"))
    for name, text in files:
        # Without a buffer: the kernel takes each as a single write.
        with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
            file.write(text.encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
