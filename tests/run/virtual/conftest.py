"""Shells for tests: one for each test, or one that many share and each finds as it was in the beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


HOSTILE = {
    # A sum in more parentheses than the interpreter has stack for.
    "crash": "a=$(printf '(%.0s' $(seq 90000)); b=$(printf ')%.0s' $(seq 90000)); "
    'echo "$a$a$a$a$a$a$a$a${a}1$b$b$b$b$b$b$b$b$b" | bc',
    # A value so deep that to print it takes more memory than there is.
    "memory": "jq -n \"$(printf '[%.0s' $(seq 90000))$(printf ']%.0s' $(seq 90000))\"",
}


@pytest.fixture(scope="session")
def hostile() -> Callable[[str], str]:
    """Commands that end the interpreter, by what ends it."""
    return HOSTILE.__getitem__
