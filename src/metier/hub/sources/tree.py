"""A tree of files that a source gave: which skills are in it, and their files.

Every kind that has files of its own (a folder, a commit, an archive) is a `Tree`, so that all of them find the same
skills in the same files.
"""

from __future__ import annotations

import functools
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier.errors import PackageTooLarge, SkillNotFound
from metier.hub.sources.fetch import Candidate
from metier.skill import shown
from metier.skill.package import EXCLUDED, MAX_FILE_BYTES, MAX_FILES, MAX_PACKAGE_BYTES
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from metier.skill.package import FileMode, Files
    from metier.source.unpack import ArchiveMember

MAX_TREE_FILES = 200_000
_HOLD_SKILLS = frozenset(
    {".agents", ".apm", ".claude", ".codex", ".cursor", ".github", ".gemini", ".metier", ".curated", ".system"}
)
"""Hidden folders that people keep skills in; in no other one are they looked for."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Files by their paths, with `/` between folders."""

    modes: Mapping[str, FileMode]
    """All files, and what each of them is."""
    contents: Callable[[Sequence[str]], Iterable[bytes]]
    """Gives the contents of files one by one, in the order that they were asked for; of a link, where it leads."""

    def read(self, paths: Sequence[str]) -> list[bytes]:
        """The contents of files, of at most as many bytes as a skill may have: a small source may give without end."""
        found = []
        left = MAX_PACKAGE_BYTES
        for path, data in zip(paths, self.contents(paths), strict=True):
            left -= len(data)
            if left < 0 or len(data) > MAX_FILE_BYTES:
                raise PackageTooLarge(f"With {shown(path)!r} it is larger than a skill may be.", hint="Ask for less.")
            found.append(data)
        return found


def memory_tree(files: Files) -> Tree:
    """The tree of files that are in memory already.

    >>> [candidate.folder for candidate in candidates_of(memory_tree({"pdf/SKILL.md": ("file", b"...")}))]
    ['pdf']
    """
    return Tree({path: mode for path, (mode, _) in files.items()}, lambda paths: (files[path][1] for path in paths))


def files_of_archive(members: Mapping[str, ArchiveMember]) -> Files:
    """The members of an archive as files of a skill."""
    return {path: ("exec" if one.executable else "file", one.data) for path, one in members.items()}


def archive_tree(data: bytes) -> Tree:
    """The files of an archive."""
    return memory_tree(files_of_archive(unpack(data)))


def skill_folders(paths: Iterable[str], below: str = "") -> list[str]:
    """The folders with a SKILL.md, sorted; none that lies in another skill, in hidden folders or among modules.

    >>> skill_folders(["a/SKILL.md", "a/b/SKILL.md", ".claude/skills/c/SKILL.md", "node_modules/d/SKILL.md"])
    ['.claude/skills/c', 'a']
    """
    found: list[str] = []
    prefix = f"{below}/" if below else ""
    for folder in sorted(
        {dirname(path) for path in paths if basename(path).lower() == "skill.md" and path.startswith(prefix)},
        key=lambda folder: folder.split("/"),
    ):
        parts = folder[len(prefix) :].split("/") if folder != below else []
        if any(part in EXCLUDED or (part.startswith(".") and part not in _HOLD_SKILLS) for part in parts):
            continue
        if found and (found[-1] == "" or folder.startswith(f"{found[-1]}/")):
            continue
        found.append(folder)
    return found


def candidates_of(
    tree: Tree, folders: Iterable[str] | None = None, *, package: str = "", version: str = ""
) -> list[Candidate]:
    """The skills of a tree; `folders` says where they lie where something else told that."""
    files: dict[str, list[str]] = {folder: [] for folder in (skill_folders(tree.modes) if folders is None else folders)}
    for path in tree.modes:
        # The skill that a file belongs to is the nearest folder above it that is one.
        at = dirname(path)
        while at and at not in files:
            at = dirname(at)
        if at in files:
            files[at].append(path)
    return [
        Candidate(
            folder=basename(folder),
            path=folder,
            skill_file=functools.partial(_skill_file, tree, folder, tuple(paths)),
            files=functools.partial(_files, tree, folder, tuple(paths)),
            package=package,
            version=version,
        )
        for folder, paths in files.items()
    ]


def _skill_file(tree: Tree, folder: str, paths: tuple[str, ...]) -> bytes:
    names = {path: basename(path) for path in paths if dirname(path) == folder}
    own = [path for path, name in names.items() if name == "SKILL.md"]
    own += [path for path, name in names.items() if name.lower() == "skill.md"]
    if not own:
        raise SkillNotFound(f"There is no SKILL.md in {shown(folder)!r}.", hint="Name another folder of the source.")
    return tree.read(own[:1])[0]


def _files(tree: Tree, folder: str, paths: tuple[str, ...]) -> Files:
    start = len(folder) + 1 if folder else 0
    wanted = [path for path in paths if EXCLUDED.isdisjoint(path[start:].split("/"))]
    if len(wanted) > MAX_FILES:
        raise PackageTooLarge(
            f"{shown(folder)!r} has {len(wanted):,} files.", hint=f"A skill has at most {MAX_FILES:,}."
        )
    return {path[start:]: (tree.modes[path], data) for path, data in zip(wanted, tree.read(wanted), strict=True)}
