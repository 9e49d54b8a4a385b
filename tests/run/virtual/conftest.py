"""Shells for tests: one for each test, or one that many share and each finds as it was in the beginning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("bashkit", reason="the virtual shell is not installed")

from metier.run.virtual import VirtualShell


@pytest.fixture(scope="session")
def _shared() -> Iterator[tuple[VirtualShell, bytes]]:
    with VirtualShell(folder="/workspace") as shell:
        yield shell, shell.snapshot()


@pytest.fixture
def shell(_shared: tuple[VirtualShell, bytes]) -> VirtualShell:
    """A shell in `/workspace`, with nothing in it and the usual limits."""
    shell, beginning = _shared
    shell.unmount("demo")
    shell.restore(beginning)
    return shell
