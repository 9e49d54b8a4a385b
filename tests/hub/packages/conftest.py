"""A package index on loopback, and a cache of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.packages.package_index import PackageIndex, served


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with the package `tiny`, which is the one that this user has configured."""
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    with served(PackageIndex(tmp_path / "index")) as index:
        index.add_wheel("tiny")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index
