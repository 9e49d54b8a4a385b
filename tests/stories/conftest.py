"""Stories are played through the public surface: the command, the Python API, a server."""

from __future__ import annotations

from tests.cli.conftest import command, forked, metier, one_parser, plain_surroundings, process, terminal, typed

__all__ = ["command", "forked", "metier", "one_parser", "plain_surroundings", "process", "terminal", "typed"]
