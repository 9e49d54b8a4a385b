"""The packages of a skill that is to be installed: what they are, or why they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import IsolationMissing, PackagesMissing, PackagesRefused, PartMissing
from metier.hints import for_person

if TYPE_CHECKING:
    from collections.abc import Collection

    from metier.errors import MetierError
    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.packages.resolution import Resolution
    from metier.skill.package import Files

_CANNOT = (PackagesRefused, PackagesMissing, IsolationMissing, PartMissing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePlan:
    """The packages that the scripts of a skill would get."""

    resolutions: tuple[Resolution, ...] = ()
    problem: str = ""
    """The reason why its scripts cannot have what they declare; the skill can be installed all the same."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The exact packages, as a lock names them."""
        return tuple(line for one in self.resolutions for line in one.requirements)

    @property
    def names(self) -> tuple[str, ...]:
        """The packages with their versions."""
        return tuple(name for one in self.resolutions for name in one.names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the person who decides."""
        return tuple(note for one in self.resolutions for note in one.notes)


NO_PACKAGES = PackagePlan()


def plan_packages(
    files: Files, capabilities: Collection[str], effective: EffectivePolicy, *, locked: Collection[str] = ()
) -> PackagePlan:
    """Resolve the packages of a skill that declares some; `locked` are those that a lock names for this content."""
    if "packages" not in capabilities:
        return NO_PACKAGES
    from metier.hub.packages.resolution import resolve_packages

    try:
        found = resolve_packages(files, locked=locked, may_run_unsandboxed=effective.run.unsandboxed == "allow")
    except _CANNOT as error:
        return PackagePlan(problem=_format(error))
    return PackagePlan(resolutions=found)


def build_packages(files: Files, plan: PackagePlan, effective: EffectivePolicy) -> str:
    """Build what was planned; the reason why that failed, or an empty text."""
    if plan.problem or not plan.resolutions:
        return plan.problem
    from metier.hub.packages.build import provide

    try:
        provide(files, plan.resolutions, may_run_unsandboxed=effective.run.unsandboxed == "allow")
    except _CANNOT as error:
        return _format(error)
    return ""


def _format(error: MetierError) -> str:
    return f"{error.message} {for_person(error.hint)}".strip()
