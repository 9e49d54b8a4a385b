"""Signals and `suppress` for the launcher process, without the modules of the standard library that wrap them.

Those bring `enum`, `collections` and `functools`, which is half of the time that the process takes to start, and memory
that each of its forks has to copy.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true
if TYPE_CHECKING:
    import signal as signal
    from contextlib import suppress as suppress
else:
    import _signal as signal  # noqa: F401

    class suppress:  # noqa: N801  (it is written like that of `contextlib`)
        """Leave a block that fails with one of these errors as if it had not."""

        def __init__(self, *errors: type[BaseException]) -> None:
            self._errors = errors

        def __enter__(self) -> None:
            pass

        def __exit__(self, error: type[BaseException] | None, *_: object) -> bool:
            return error is not None and issubclass(error, self._errors)
