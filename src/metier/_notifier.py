"""The hook that starts the notify command: `guard` calls it, the package sets it to a function of `run`."""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    class StartProgram(Protocol):
        """Starts a program in the background, without a shell, with data on its input."""

        def __call__(
            self, command: Sequence[str], data: bytes, *, limit: float, failed: Callable[[str], None]
        ) -> None: ...


start: StartProgram
"""Set by `metier/__init__.py`, as `guard` may not import `run`."""
