"""A server on loopback, and a place in which every file that is written would be seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.sources.loopback import Site, serving


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home, temporary and working folder in one, without proxies and credentials of whoever runs the tests."""
    place = tmp_path / "clean"
    place.mkdir()
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(place))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(place)
    return place
