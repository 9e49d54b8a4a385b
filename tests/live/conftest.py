"""Tests with real models are collected only when they are asked for, by `-m live`."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave everything here alone unless it was asked for."""
    return None if config.getoption("markexpr") == "live" else True
