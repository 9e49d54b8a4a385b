"""A shell without a machine: a bash interpreter over files in memory, in a process of its own.

`VirtualShell` keeps its files and variables from one command to the next, `VirtualRunner` runs a job and forgets it.
The interpreter is never in this process: `worker` and the modules it imports run in another, and whatever comes from
there is held to be hostile.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.run.virtual.runner import VirtualRunner as VirtualRunner
    from metier.run.virtual.shell import VirtualShell as VirtualShell
    from metier.run.virtual.shells import VirtualShells as VirtualShells
    from metier.run.virtual.validation import ShellEntry as ShellEntry
    from metier.run.virtual.validation import ShellLimits as ShellLimits
    from metier.run.virtual.validation import ShellUsage as ShellUsage

__getattr__, __dir__, __all__ = lazy_names(__name__)
