"""How scripts run: a job with its limits, the runners that carry it out, and what they really enforce.

This room runs programs and decides nothing. It imports `skill` and `guard`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.run.environment import INTERPRETERS, command_for, job_environment, skill_variables
    from metier.run.job import (
        CANNOT_START,
        TIMED_OUT,
        Capabilities,
        Job,
        Limits,
        Network,
        Outcome,
        OutputLine,
        Place,
        Runner,
        Usage,
    )
    from metier.run.native import NativeRunner
    from metier.run.plain import PlainRunner
    from metier.run.selection import NEEDS, AutoRunner
    from metier.run.virtual import VirtualRunner, VirtualShell

_NAMES = {
    "AutoRunner": "metier.run.selection",
    "CANNOT_START": "metier.run.job",
    "Capabilities": "metier.run.job",
    "INTERPRETERS": "metier.run.environment",
    "Job": "metier.run.job",
    "Limits": "metier.run.job",
    "NEEDS": "metier.run.selection",
    "NativeRunner": "metier.run.native",
    "Network": "metier.run.job",
    "Outcome": "metier.run.job",
    "OutputLine": "metier.run.job",
    "Place": "metier.run.job",
    "PlainRunner": "metier.run.plain",
    "Runner": "metier.run.job",
    "TIMED_OUT": "metier.run.job",
    "Usage": "metier.run.job",
    "VirtualRunner": "metier.run.virtual",
    "VirtualShell": "metier.run.virtual",
    "command_for": "metier.run.environment",
    "job_environment": "metier.run.environment",
    "skill_variables": "metier.run.environment",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "CANNOT_START",
    "INTERPRETERS",
    "NEEDS",
    "TIMED_OUT",
    "AutoRunner",
    "Capabilities",
    "Job",
    "Limits",
    "NativeRunner",
    "Network",
    "Outcome",
    "OutputLine",
    "Place",
    "PlainRunner",
    "Runner",
    "Usage",
    "VirtualRunner",
    "VirtualShell",
    "command_for",
    "job_environment",
    "skill_variables",
]
