"""Messages between the parent, the launcher process and the supervisor of a job."""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False  # what type checkers take for true; importing `typing` would make every fork dearer
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TAKEN = b"taken 1\n"
"""The supervisor took another job into its sandbox."""
PROXY_PORT = 3128
"""The port of the proxy in the empty network of a job, in which no other port is taken."""


def write_request(request: Mapping[str, Any]) -> int:
    """A descriptor with a request in it: a file without a name."""
    descriptor = os.memfd_create("metier-request", os.MFD_CLOEXEC)
    try:
        data = memoryview(marshal.dumps(dict(request)))
        while data:
            data = data[os.write(descriptor, data) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_request(descriptor: int) -> dict[str, Any]:
    """The request that a descriptor was written with."""
    request: dict[str, Any] = marshal.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    return request


def format_report(**facts: object) -> bytes:
    """Lines of a report, each a name and a value; None is left out."""
    text = "".join(f"{name} {value}\n" for name, value in facts.items() if value is not None)
    return text.encode(errors="backslashreplace")


def parse_report(report: bytes) -> dict[str, str]:
    """The names and values of a report."""
    lines = report.decode(errors="replace").splitlines()
    return dict([line.partition(" ")[::2] for line in lines])


def identity(path: str) -> tuple[int, int]:
    """The device and number of a file or folder, which no other has."""
    status = os.stat(path)
    return status.st_dev, status.st_ino
