"""The environment that this machine is in, where administrators say so: no caller chooses another one."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from metier.guard.policy.files import VARIABLE, Policies, system_policy
from metier.hints import Hint
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.verdict import Verdict

_of_administrators = functools.lru_cache(maxsize=16)(Policies.of_administrators)


def machine_environment(wanted: str | None) -> str | None:
    """The environment of a caller who says that they are in `wanted`; raises `Refused` where the machine is in another.

    >>> machine_environment("staging")
    'staging'
    """
    effective = _of_administrators(system_policy(), os.environ.get(VARIABLE, "")).found()
    if effective is None or effective.environment is None or wanted == effective.environment:
        return wanted
    if wanted is None:
        return effective.environment
    from metier.guard.audited_action import refused

    raise refused(other_environment(wanted, effective).as_decision())


def other_environment(wanted: str | None, effective: EffectivePolicy) -> Verdict:
    """The verdict on whoever is not in the environment that the machine is in."""
    from metier.guard.verdict import Verdict

    fixed = shown(effective.environment or "")
    said = f"another one was asked for, {shown(wanted)!r}" if wanted is not None else "it was begun in none"
    return Verdict(
        check="machine.environment",
        outcome="deny",
        reason=f"This machine is in the environment {fixed!r}, and {said}.",
        code="environment-denied",
        hint=Hint(
            "Leave the environment out, or say {fixed!r}." if wanted is not None else "Begin another session.",
            model="Tell the user.",
            fixed=fixed,
        ),
        origin=effective.origin("machine.environment"),
        is_switch=True,
    )
