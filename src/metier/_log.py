"""Loggers that stay silent until the program around them configures logging."""

from __future__ import annotations

import logging

# Without a handler of its own, Python would print warnings of a library to standard error.
logging.getLogger("metier").addHandler(logging.NullHandler())

logger = logging.getLogger
"""The logger of a room by its name: `logger("metier.guard")`."""


def has_listeners(log: logging.Logger) -> bool:
    """Whether a handler of the program receives the warnings of a logger."""
    if not log.isEnabledFor(logging.WARNING):
        return False
    at: logging.Logger | None = log
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False
