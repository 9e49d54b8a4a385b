"""VirtualShells: several shells, each by its id."""

from __future__ import annotations

import re
import threading
import uuid
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.run.virtual.shell import VirtualShell
from metier.run.virtual.validation import refused

if TYPE_CHECKING:
    from metier.run.job import Runner
    from metier.run.virtual.validation import ShellLimits

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}").fullmatch


class VirtualShells:
    """Shells by their ids, each with a workspace of its own. What they are made with is the same for all.

    >>> with VirtualShells() as shells:
    ...     shell = shells.create("notes")
    ...     shells.list(), shells.get("notes") is shell, shells.get("other"), shells.destroy("notes"), shells.list()
    (['notes'], True, None, True, [])
    """

    def __init__(
        self,
        *,
        limits: ShellLimits | None = None,
        folder: str = "/",
        mount: str = "/.sandbox/skills",
        native: Runner | None = None,
        most: int = 64,
    ) -> None:
        if type(most) is not int or most <= 0:
            raise InvalidArgument(f"The number of shells is {most!r:.40}.", hint="Give a positive number.")
        self._limits, self._folder, self._mount, self._native, self._most = limits, folder, mount, native, most
        self._lock = threading.Lock()
        self._shells: dict[str, VirtualShell] = {}

    def create(self, shell_id: str | None = None) -> VirtualShell:
        """A new shell, under an id that is made up if none is given."""
        with self._lock:
            return self._create(shell_id)

    def get(self, shell_id: str) -> VirtualShell | None:
        """The shell with an id."""
        with self._lock:
            return self._shells.get(shell_id)

    def get_or_create(self, shell_id: str) -> VirtualShell:
        """The shell with an id, which is made if there is none."""
        with self._lock:
            return self._shells.get(shell_id) or self._create(shell_id)

    def destroy(self, shell_id: str) -> bool:
        """Close a shell and forget it; whether there was one."""
        with self._lock:
            shell = self._shells.pop(shell_id, None)
        if shell is None:
            return False
        shell.close()
        return True

    def list(self) -> list[str]:
        """The ids, in order."""
        with self._lock:
            return sorted(self._shells)

    def close(self) -> None:
        """Close them all."""
        for shell_id in self.list():
            self.destroy(shell_id)

    def __enter__(self) -> VirtualShells:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self, shell_id: str | None) -> VirtualShell:
        name = uuid.uuid4().hex if shell_id is None else shell_id
        if not isinstance(name, str) or not _ID(name):
            raise InvalidArgument(
                f"{name!r:.80} is no id of a shell.", hint="Ids are letters, digits, dots, dashes and underscores."
            )
        if name in self._shells:
            raise refused("shell-exists", f"There is a shell {name!r} already.", "Use `get`, or another id.", id=name)
        if len(self._shells) >= self._most:
            raise refused(
                "shell-limit", f"This exceeds the limit of {self._most} shells.", "Destroy one that is not needed."
            )
        shell = VirtualShell(limits=self._limits, folder=self._folder, mount=self._mount, native=self._native)
        self._shells[name] = shell
        return shell
