"""Which content belongs in which folder: the skills whose content is governed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.store.codec import from_row, now, require_choice, require_key, to_row

if TYPE_CHECKING:
    from metier.store.rows import TenantRows

InstallState: TypeAlias = Literal["enabled", "disabled", "quarantined"]
_STATES = ("enabled", "disabled", "quarantined")


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """What was put into a folder, by whom, and whether it may be used."""

    location: str
    """The folder of the skill."""
    skill: str
    source: str = ""
    layer: str = ""
    digest: str
    state: InstallState = "enabled"
    by: str = ""
    at: str = ""


class Installs:
    """The installs of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, install: Install) -> Install:
        """Note what is in a folder now, in place of what was noted before."""
        require_key("location", install.location)
        require_choice("state of an install", install.state, _STATES)
        install = install if install.at else replace(install, at=now())
        with self._rows.transaction():
            self._rows.insert("installs", to_row(install), "replace")
            self._rows.bump()
        return install

    def get(self, location: str) -> Install | None:
        """What belongs in a folder."""
        found = self._rows.select("installs", {"location": location})
        return from_row(Install, found[0], {}) if found else None

    def all(self) -> list[Install]:
        """All of them, by folder."""
        return [from_row(Install, row, {}) for row in self._rows.select("installs", order=("location",))]

    def remove(self, location: str) -> bool:
        """Let go of a folder; False when nothing was noted about it."""
        with self._rows.transaction():
            was_there = self._rows.delete("installs", {"location": location}) > 0
            if was_there:
                self._rows.bump()
        return was_there
