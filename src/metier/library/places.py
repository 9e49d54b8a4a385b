"""The default places: where skills are looked for when nobody says where."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metier.library.layers import Place
from metier.library.trust import TrustStore, home_folder
from metier.source import FolderSource, entry_point_sources

if TYPE_CHECKING:
    from metier.source import Finding

PROJECT_FOLDERS = (".metier/skills", ".agents/skills", ".claude/skills")
PERSONAL_FOLDERS = (".metier/skills", ".agents/skills", ".claude/skills")


def default_places(start: Path | str | None = None) -> tuple[list[Place], list[Finding]]:
    """The places of this machine, this user and the project around `start`, and what installed packages offer."""
    places: list[Place] = []
    seen: set[str] = set()

    def add(place: Place) -> None:
        # A folder is read once, in the strongest layer it belongs to: `~/.claude/skills` is nobody's project.
        root = os.path.realpath(place.source.root) if isinstance(place.source, FolderSource) else ""
        if root not in seen:
            places.append(place)
            if root:
                seen.add(root)

    for path in enterprise_folders():
        add(Place(layer="enterprise", source=FolderSource(path, name="enterprise", whole_root=False)))
    for personal in personal_folders():
        add(Place(layer="personal", source=FolderSource(personal, name="personal", whole_root=False)))
    trust = TrustStore()
    root, folders = project_folders(Path(start) if start is not None else Path.cwd())
    for path in folders:
        # What counts is the project it stands in, also when the folder itself is a link to somewhere else.
        trusted = trust.is_trusted(path.parent.parent)
        source = FolderSource(path, name="project", whole_root=False, contain=None if trusted else root)
        add(
            Place(
                layer="project",
                source=source,
                trusted=trusted,
                on_missing_description="derive" if trusted else "hide",
            )
        )
    sources, findings = entry_point_sources()
    for source_of_package in sources:
        add(Place(layer="plugin", source=source_of_package))
    return places, findings


def enterprise_folders() -> list[Path]:
    """Where administrators put skills: `$METIER_ENTERPRISE` (a list of folders), then the system's own folder."""
    named = [Path(part) for part in os.environ.get("METIER_ENTERPRISE", "").split(os.pathsep) if part]
    if sys.platform == "win32":
        return [*named, Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "metier" / "skills"]
    return [*named, Path("/etc/metier/skills")]


def personal_folders() -> list[str]:
    """Where the user's own skills are; nowhere for a user without a home."""
    home = home_folder()
    return [os.path.join(home, folder) for folder in PERSONAL_FOLDERS] if home is not None else []


def project_root(start: Path) -> Path:
    """The repository that a folder lies in, or the folder itself."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def project_folders(start: Path) -> tuple[Path, list[Path]]:
    """The project's root, and its folders of skills from `start` up to the root, nearest first."""
    start = start.resolve()
    root = project_root(start)
    steps = [start, *(parent for parent in start.parents if parent == root or root in parent.parents)]
    return root, [step / folder for step in steps for folder in PROJECT_FOLDERS]
