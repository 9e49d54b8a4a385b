"""The sandbox of Linux, without root and without packages: files that a job is not given are not there.

The parts, from the outside in:

    runner            NativeRunner: runs jobs, and knows the guarantees of this machine
    filesystem_view   the files that a job sees
    request           the request for a sandbox, computed beforehand
    launcher          starts sandboxes, and keeps idle ones
    launcher_process  a small process that forks a supervisor for each job
    supervisor        builds a sandbox, starts the job in it, watches it and ends it
    protocol          the messages between these processes
    light_stdlib      signals for the launcher process, which must start quickly
    mounts, bubblewrap, landlock, seccomp   the means of a sandbox
    staging           a copy of a folder, where Landlock alone cannot protect places in it
    usage_watch       memory, processes and disk of a job
    kernel            system calls
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.run.native.runner import NativeRunner as NativeRunner

# The launcher process imports parts of this folder and must not load the rest.
__getattr__, __dir__, __all__ = lazy_names(__name__)
