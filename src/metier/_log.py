"""Loggers that stay silent until the program around them configures logging."""

from __future__ import annotations

import logging

# Without a handler of its own, Python would print warnings of a library to standard error.
logging.getLogger("metier").addHandler(logging.NullHandler())

logger = logging.getLogger
"""The logger of a room by its name: `logger("metier.guard")`."""
