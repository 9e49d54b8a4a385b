"""The packages of a skill that is to be installed: what they are, or why they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.errors import IsolationMissing, PackagesMissing, PackagesRefused, PartMissing
from metier.hints import for_person
from metier.skill.script_packages import package_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from metier.guard.policy.effective import EffectivePolicy
    from metier.hub.packages.tools import PackageTools
    from metier.skill.package import Files

_CANNOT = (PackagesRefused, PackagesMissing, IsolationMissing, PartMissing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagePlan:
    """The exact packages that the scripts of a skill would get."""

    python: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    """One line for each package, sorted: its version and the hashes of its files. They stand in the lock."""
    npm_files: Mapping[str, Any] = field(default_factory=dict)
    """The package.json and the lock that npm installs from."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who decides."""
    problem: str = ""
    """The reason why its scripts cannot have what they declare; the skill can be installed all the same."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The packages of both languages, as a lock names them."""
        return (*self.python, *self.npm)

    @property
    def names(self) -> tuple[str, ...]:
        """The packages with their versions, for people: `pandas==3.0.1`."""
        return package_names(self.lines)


NO_PACKAGES = PackagePlan()


def plan_packages(
    files: Files,
    capabilities: Collection[str],
    effective: EffectivePolicy,
    *,
    locked: Collection[str] = (),
    progress: Callable[[str], object] = str,
) -> PackagePlan:
    """Resolve the packages of a skill that declares some; `locked` are those that a lock names for this content."""
    if "packages" not in capabilities:
        return NO_PACKAGES
    from metier.hub.packages.build import resolve_packages

    try:
        return resolve_packages(files, locked=locked, tools=_tools(effective, progress))
    except _CANNOT as error:
        return PackagePlan(problem=f"{error.message} {for_person(error.hint)}".strip())


def build_packages(
    files: Files, plan: PackagePlan, effective: EffectivePolicy, *, progress: Callable[[str], object] = str
) -> str:
    """Build what was planned; the reason why that failed, or an empty text."""
    if plan.problem or not plan.lines:
        return plan.problem
    from metier.hub.packages.build import provide

    try:
        provide(files, plan, _tools(effective, progress))
    except _CANNOT as error:
        return f"{error.message} {for_person(error.hint)}".strip()
    return ""


def _tools(effective: EffectivePolicy, progress: Callable[[str], object]) -> PackageTools:
    from metier.hub.packages.tools import PackageTools

    return PackageTools(may_run_unsandboxed=effective.run.unsandboxed == "allow", progress=progress)
