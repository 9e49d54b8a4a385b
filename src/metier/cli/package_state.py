"""The state of what a skill's scripts import, as commands show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import MetierError

if TYPE_CHECKING:
    from metier.guard import Guard
    from metier.library import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageState:
    """The packages that a skill declares: where, whether they are built, and whether somebody agreed."""

    files: tuple[str, ...]
    missing: str = ""
    """The reason why they are not there for a run; empty where they are."""
    is_approved: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether scripts can import them."""
        return not self.missing and self.is_approved

    def __str__(self) -> str:
        return f"{'not built' if self.missing else 'built'}, {'approved' if self.is_approved else 'not approved'}"

    def as_dict(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            "files": list(self.files),
            "built": not self.missing,
            "missing": self.missing,
            "approved": self.is_approved,
        }


def package_state(entry: Entry, guard: Guard) -> PackageState | None:
    """The state of the packages of a skill; None for one that declares none, or cannot be read."""
    from metier.guard import Action
    from metier.run.packages import packages_for
    from metier.session.active_skills import subject_of
    from metier.skill.script_packages import declaring_files

    try:
        paths = [file.path for file in entry.package.listing().files if file.kind != "link"]
        declared = declaring_files(paths, entry.package.read)
        if not declared:
            return None
        digest = entry.package.digest()
        considered = guard.consider(guard.context(Action(point="run", skill=subject_of(entry, digest), by="user")))
    except (MetierError, OSError):
        return None
    missing = ""
    try:
        packages_for(entry.name, digest, set(declared.values()))
    except MetierError as error:
        missing = error.message
    is_approved = not any(decision.check == "packages" for decision in considered)
    return PackageState(files=tuple(declared), missing=missing, is_approved=is_approved)
