"""The syntax of the package: parsed only where a look at the text shows that there may be something to find."""

from __future__ import annotations

import ast
import functools
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import metier

PACKAGE = Path(metier.__file__).parent
IMPORT = re.compile(r"^[ \t]*((?:from|import)[ \t][^\n(#]*(?:\([^)]*\))?)", re.MULTILINE)


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a module's syntax; the module itself is the first."""
    with no_collection():
        return tuple(ast.walk(ast.parse(path.read_bytes())))


@functools.cache
def imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The imports of a module, wherever in it they stand: each begins a line, as the linter has it.

    To parse all of the package would take seconds, in each process that runs tests.
    """
    found: list[ast.Import | ast.ImportFrom] = []
    text = path.read_text("utf-8")
    for match in IMPORT.finditer(text):
        try:
            parsed = ast.parse(match[1]).body
        except SyntaxError:  # a sentence in a docstring
            assert not match[1].endswith("\\"), f"{path}: {match[1]}"
            continue
        for node in parsed:
            if isinstance(node, ast.Import | ast.ImportFrom):
                node.lineno += text.count("\n", 0, match.start())
                found.append(node)
    return tuple(found)


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
