"""The sandbox of Linux: what a job is not given is not there, and what it starts ends with it. No root, no packages.

The parts, from the outside in:

    runner      runs jobs, and says what is enforced here
    view        which files a job sees
    request     all that makes the cage of a job, worked out beforehand
    pipes       what a job writes, in the order in which it did
    cages       empty cages, for jobs that fit into them
    launcher    this side of the launcher
    zygote      the launcher: a small process that forks a warden for each job
    warden      builds a cage, starts the job in it, watches it and ends it; `words` is what it says beside its report
    mounts, bubblewrap, landlock, seccomp   what a cage is made of
    resident    a program that stays in a cage
    watch       what a job uses
    kernel      system calls
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.run.native.runner import NativeRunner as NativeRunner

# The launcher imports parts of this folder and must not come to know the rest.
__getattr__, __dir__, __all__ = lazy_names(__name__)
