"""The function that starts a program which tells people something, for rooms that may not import `run`."""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    class Start(Protocol):
        """Starts a program in the background, without a shell, with data on its input."""

        def __call__(
            self, command: Sequence[str], data: bytes, *, limit: float, failed: Callable[[str], None]
        ) -> None: ...


start: Start
"""Set by the package, which joins the rooms."""
