"""A folder as a source: the skills in it, or the one that it is."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier.errors import PackageTooLarge, SourceUnavailable
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import MAX_TREE_FILES, Tree
from metier.skill import FolderPackage, shown
from metier.skill.package import EXCLUDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Fetched, Transfer
    from metier.skill.package import FileMode


def resolve(address: SourceAddress, _transfer: Transfer) -> Resolved:
    """A folder has no states but the present one; the digest of each skill tells whether it changed."""
    if not os.path.isdir(address.location):
        raise SourceUnavailable(
            f"There is no folder {shown(address.location, 300)}.", hint="Check its name.", path=address.location
        )
    return Resolved(address=address, revision="")


@contextlib.contextmanager
def fetch(resolved: Resolved, _transfer: Transfer) -> Iterator[Fetched]:
    """The skills below a folder."""
    yield candidates_by_layout(folder_tree(resolved.address.location), resolved)


def folder_tree(root: str) -> Tree:
    """The files below a folder of the disk; links are not followed."""
    root = os.path.realpath(root)
    package = FolderPackage(root, contain=root)
    modes: dict[str, FileMode] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in EXCLUDED]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for path in (os.path.join(folder, name) for name in (*files, *links)):
            # A pipe or a device is a file, too, so that a skill with one is refused when it is read.
            mode: FileMode = "link" if os.path.islink(path) else "exec" if os.access(path, os.X_OK) else "file"
            modes[os.path.relpath(path, root).replace(os.sep, "/")] = mode
        if len(modes) > MAX_TREE_FILES:
            raise PackageTooLarge(
                f"{shown(root, 300)} has more than {MAX_TREE_FILES:,} files.", hint="Name a folder in it."
            )
    return Tree(
        modes,
        lambda paths: (package.link_target(path) if modes[path] == "link" else package.read(path) for path in paths),
    )
