"""Servers over a folder of skills and the command, as the tests of each have them."""

from __future__ import annotations

from tests.cli.conftest import metier
from tests.serve.conftest import http, log, serve, skills

__all__ = ["http", "log", "metier", "serve", "skills"]
