"""Jobs with their limits, the runners that carry them out, and the guarantees that they really enforce.

This room runs programs and decides nothing. It imports `skill` and `guard`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.run.environment import INTERPRETERS as INTERPRETERS
    from metier.run.environment import command_for as command_for
    from metier.run.environment import job_environment as job_environment
    from metier.run.environment import skill_variables as skill_variables
    from metier.run.job import CANNOT_START as CANNOT_START
    from metier.run.job import NEEDS as NEEDS
    from metier.run.job import TIMED_OUT as TIMED_OUT
    from metier.run.job import Job as Job
    from metier.run.job import JobPath as JobPath
    from metier.run.job import Limits as Limits
    from metier.run.job import Network as Network
    from metier.run.job import Outcome as Outcome
    from metier.run.job import OutputLine as OutputLine
    from metier.run.job import Runner as Runner
    from metier.run.job import RunnerCapabilities as RunnerCapabilities
    from metier.run.job import Usage as Usage
    from metier.run.native import NativeRunner as NativeRunner
    from metier.run.plain import PlainRunner as PlainRunner
    from metier.run.selection import AutoRunner as AutoRunner
    from metier.run.virtual import VirtualRunner as VirtualRunner
    from metier.run.virtual import VirtualShell as VirtualShell

__getattr__, __dir__, __all__ = lazy_names(__name__)
