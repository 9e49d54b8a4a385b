"""A shell without a machine: a bash interpreter over files in memory, in a process of its own.

`VirtualShell` keeps its files and variables from one command to the next, `VirtualRunner` runs a job and forgets it.
The interpreter is never in this process: `worker` and the modules it imports run in another, and whatever comes from
there is held to be hostile.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.run.virtual.limits import ShellEntry, ShellLimits, ShellUsage
    from metier.run.virtual.runner import VirtualRunner
    from metier.run.virtual.shell import VirtualShell
    from metier.run.virtual.shells import VirtualShells

_NAMES = {
    "ShellEntry": "metier.run.virtual.limits",
    "ShellLimits": "metier.run.virtual.limits",
    "ShellUsage": "metier.run.virtual.limits",
    "VirtualRunner": "metier.run.virtual.runner",
    "VirtualShell": "metier.run.virtual.shell",
    "VirtualShells": "metier.run.virtual.shells",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = ["ShellEntry", "ShellLimits", "ShellUsage", "VirtualRunner", "VirtualShell", "VirtualShells"]
