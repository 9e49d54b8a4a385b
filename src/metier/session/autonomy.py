"""Autonomy settings of a skill over those of the platform, and durations such as `30s`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._lazy import dataclass

if TYPE_CHECKING:
    from metier.skill import Skill


_DURATION = re.compile(r"\s{0,100}([0-9]{1,9})(?:\.([0-9]{1,9}))?\s{0,100}(ms|s|m)\s{0,100}", re.IGNORECASE | re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000}


def milliseconds(text: str | None) -> int | None:
    """The milliseconds of a duration, or None when the text is none.

    >>> milliseconds("1.5s"), milliseconds(" 1m "), milliseconds("30")
    (1500, 60000, None)
    """
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    whole, part, unit = found.groups()
    factor = _MILLISECONDS[unit.lower()]
    # In whole numbers: 2.3 seconds are not 2299 milliseconds.
    return int(whole) * factor + int(part or 0) * factor // int("1" + "0" * len(part or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Autonomy:
    """Bounds for an agent that works by itself; the defaults are a platform's that says nothing."""

    max_iterations: int = 15
    max_retries_per_tool: int = 3
    """Zero means that no call is tried again."""
    timeout_per_iteration_ms: int = 30_000
    early_termination: bool = True
    """Whether it may end before the last iteration when it is done."""
    error_recovery: bool = True
    """Whether it may go on after an error; only the platform says so."""


def autonomy_of(skill: Skill, platform: Autonomy | None = None) -> Autonomy:
    """The settings for a skill: what it declares and makes sense, and for the rest what the platform says.

    >>> from metier.skill import Skill
    >>> autonomy_of(Skill(name="a", description="A.", max_retries_per_tool=0, timeout_per_iteration="10m"))
    Autonomy(max_iterations=15, max_retries_per_tool=0, timeout_per_iteration_ms=600000, early_termination=True, \
error_recovery=True)
    """
    platform = platform or Autonomy()
    iterations, retries = skill.max_iterations, skill.max_retries_per_tool
    return Autonomy(
        max_iterations=iterations if iterations is not None and iterations > 0 else platform.max_iterations,
        max_retries_per_tool=retries if retries is not None and retries >= 0 else platform.max_retries_per_tool,
        timeout_per_iteration_ms=milliseconds(skill.timeout_per_iteration) or platform.timeout_per_iteration_ms,
        early_termination=platform.early_termination if skill.early_termination is None else skill.early_termination,
        error_recovery=platform.error_recovery,
    )
