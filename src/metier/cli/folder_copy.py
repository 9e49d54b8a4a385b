"""A folder of this machine that a shell works on a copy of, and what changed there brought back."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, TypeAlias

from metier.run.host_files import change, list_folder, load

if TYPE_CHECKING:
    from metier.guard.files.file_access import FileAccess
    from metier.run.host_files import File
    from metier.run.virtual import VirtualShell

_Content: TypeAlias = "dict[str, File]"


class FolderCopy:
    """A copy of a folder in a shell, which remembers how it began.

    Only what the shell changed is written back, so that what somebody else changed meanwhile stays as it is.
    """

    def __init__(self, shell: VirtualShell, access: FileAccess, at: str) -> None:
        """A copy of the workspace of `access`, seen in the shell `at` a path."""
        self._shell, self._folder, self._at, self._access = shell, access.workspace, at, access
        shell.import_folder(self._folder, at)
        self._before = self._content()

    def bring_back(self) -> tuple[int, list[str]]:
        """Change the folder as its copy was changed: how many paths were, and those that could not be, with the reason.

        What runs something elsewhere later, such as hooks of git, is not changed.
        """
        now = self._content()
        changed = [file for path, file in now.items() if self._before.get(path) != file]
        gone = [path for path in self._before if path not in now]
        refused = change(self._folder, changed, gone, closed=self._access.closing_places_below)
        self._before = now
        return len(changed) + len(gone) - len(refused), refused

    def _content(self) -> _Content:
        with tempfile.TemporaryDirectory(prefix="metier-shell-") as folder:
            self._shell.export_folder(self._at, folder)
            limits = self._shell.limits
            files = load(folder, list_folder(folder, limits).records, limits)
        return {file[0]: file for file in files}
