"""Loggers that stay silent until the program around them configures logging."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from logging import Logger
    from typing import Any

    def logger(name: str) -> Logger:
        """The logger of a room by its name: `logger("metier.guard")`."""

else:

    class logger(str):  # noqa: N801  (it is called like `logging.getLogger`)
        """The logger of a room by its name; nothing hears it in a program that has not imported `logging`.

        A short command has not, and need not: that takes longer than opening the library.
        """

        __slots__ = ()

        def __getattr__(self, name: str) -> Any:
            return getattr(_logger(self), name) if "logging" in sys.modules else _ignore


def _logger(name: str) -> Logger:
    import logging

    above = logging.getLogger("metier")
    if not above.handlers:
        # Without a handler of its own, Python would print warnings of a library to standard error.
        above.addHandler(logging.NullHandler())
    return logging.getLogger(name)


def _ignore(*_: object, **__: object) -> None:
    pass
