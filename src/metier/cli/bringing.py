"""A folder of this machine that a shell works on a copy of, and what changed there brought back."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, TypeAlias

from metier.run.protected import PROTECTED
from metier.run.virtual.disk import change, load, survey
from metier.run.virtual.paths import is_inside

if TYPE_CHECKING:
    from metier.run.virtual import VirtualShell
    from metier.run.virtual.disk import Record

_Content: TypeAlias = "dict[str, tuple[Record, bytes]]"


class FolderCopy:
    """A copy of a folder in a shell, which remembers how it began.

    Only what the shell changed is written back, so that what somebody else changed meanwhile stays as it is.
    """

    def __init__(self, shell: VirtualShell, folder: str, at: str) -> None:
        self._shell, self._folder, self._at = shell, folder, at
        shell.import_folder(folder, at)
        self._before = self._content()

    def bring_back(self) -> tuple[int, list[str]]:
        """Change the folder as its copy was changed: how many paths were, and those that could not be, with the reason.

        What runs something elsewhere later, such as hooks of git, is not changed.
        """
        now = self._content()
        changed = [item for path, item in now.items() if self._before.get(path) != item]
        gone = [path for path in self._before if path not in now]
        failed = [
            f"{path}: it is protected" for path in (*(record[0] for record, _ in changed), *gone) if _is_protected(path)
        ]
        changed = [item for item in changed if not _is_protected(item[0][0])]
        gone = [path for path in gone if not _is_protected(path)]
        refused = change(self._folder, [record for record, _ in changed], [blob for _, blob in changed], gone)
        self._before = now
        return len(changed) + len(gone) - len(refused), [*failed, *refused]

    def _content(self) -> _Content:
        with tempfile.TemporaryDirectory(prefix="metier-shell-") as folder:
            self._shell.export_folder(self._at, folder)
            limits = self._shell.limits
            records, blobs = load(folder, survey(folder, limits).records, limits)
        return {record[0]: (record, blob) for record, blob in zip(records, blobs, strict=True)}


def _is_protected(path: str) -> bool:
    return any(is_inside(path, f"/{name}") for name in PROTECTED)
