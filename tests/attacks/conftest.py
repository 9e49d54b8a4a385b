"""Servers over a folder of skills, as the tests of the server have them."""

from __future__ import annotations

from tests.serve.conftest import http, log, serve, skills

__all__ = ["http", "log", "serve", "skills"]
