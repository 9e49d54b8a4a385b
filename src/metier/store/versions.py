"""The history of a skill in its place: which content it had, since when, by whom and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.store.codec import from_row, now, require_key, to_row

if TYPE_CHECKING:
    from metier.store.rows import TenantRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One step in the history of a skill."""

    number: int
    """From 1 on, in each place by itself."""
    skill: str
    location: str
    digest: str
    by: str
    reason: str
    proposal: str = ""
    """The proposal that it came from."""
    at: str = ""


class Versions:
    """The histories of a tenant's skills."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, skill: str, location: str, digest: str, *, by: str, reason: str, proposal: str = "") -> Version:
        """Note that a skill has this content from now on."""
        require_key("location", location)
        require_key("skill", skill)
        with self._rows.transaction():
            earlier = self._rows.select("versions", {"location": location}, ("-number",))
            version = Version(
                number=earlier[0]["number"] + 1 if earlier else 1,
                skill=skill,
                location=location,
                digest=digest,
                by=by,
                reason=reason,
                proposal=proposal,
                at=now(),
            )
            self._rows.insert("versions", to_row(version))
        return version

    def of(self, location_or_skill: str) -> list[Version]:
        """The history of a place, or else of a skill wherever it is; the oldest first."""
        found = self._rows.select("versions", {"location": location_or_skill}, ("number",)) or self._rows.select(
            "versions", {"skill": location_or_skill}, ("at", "location", "number")
        )
        return [from_row(Version, row, {}) for row in found]
