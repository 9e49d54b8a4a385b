"""The syntax of the package, parsed once for all tests that look at it."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import metier

PACKAGE = Path(metier.__file__).parent


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a module's syntax; the module itself is the first."""
    with no_collection():
        return tuple(ast.walk(ast.parse(path.read_bytes())))


@functools.cache
def modules_outside(*folders: str) -> tuple[Path, ...]:
    """The modules of the package that are in none of these folders of it."""
    return tuple(path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in folders)


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is looked for among all that is kept."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
