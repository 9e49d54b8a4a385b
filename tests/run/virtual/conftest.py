"""Shells for tests: one for each test, or one that many share and each finds as it was in the beginning."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("bashkit", reason="the virtual shell is not installed")

from metier._paths import safe_rmtree
from metier.run.virtual import VirtualShell, worker_process


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


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one, as to remove thousands of folders takes seconds on some disks."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    yield Path(folder)
    safe_rmtree(folder)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are soon out of memory: hardly more than their stack."""
    monkeypatch.setattr(worker_process, "MEMORY_BYTES", 384 * 1024 * 1024)


HOSTILE = {
    # A sum in more parentheses than the interpreter has stack for.
    "crash": "a='('; b=')'; for i in $(seq 20); do a=$a$a; b=$b$b; done; echo \"${a}1$b\" | bc",
    # A value so deep that to print it takes more memory than there is.
    "memory": "a='['; b=']'; for i in $(seq 15); do a=$a$a; b=$b$b; done; jq -n \"$a$b\"",
}


@pytest.fixture(scope="session")
def hostile() -> Callable[[str], str]:
    """Commands that end the interpreter, by what ends it."""
    return HOSTILE.__getitem__
