"""Loggers that stay silent until the program around them configures logging."""

from __future__ import annotations

import logging

# Without a handler of its own, Python would print warnings of a library to standard error.
logging.getLogger("metier").addHandler(logging.NullHandler())


def logger(name: str) -> logging.Logger:
    """The logger of a room: `metier.guard`, `metier.session` ..."""
    return logging.getLogger(name)
