"""The parts of the guard import one another in one direction."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.syntax import imports

import metier

GUARD = Path(metier.__file__).parent / "guard"
PARTS = (
    ("vocabulary", ("decision", "remedies", "open_stores", "files.protected_names", "audit.keys")),
    ("shell", ("shell",)),
    ("policy", ("policy", "signers", "signatures", "node")),
    ("calls", ("tool_rules", "files")),
    ("audit", ("audit",)),
    ("approvals", ("approvals",)),
    ("engine", ("", "node.node_checks")),
)
"""Each part with its modules and folders; a part imports only those before it. All other modules are the engine."""


def rank(module: str) -> int:
    """The place of a module's part in the order, by the longest name that it begins with."""
    named = [
        (len(prefix), number)
        for number, (_, prefixes) in enumerate(PARTS)
        for prefix in prefixes
        if not prefix or module == prefix or module.startswith(f"{prefix}.")
    ]
    return max(named)[1]


def modules() -> dict[str, Path]:
    """The modules of the guard by their names in it."""
    paths = (path for path in GUARD.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(GUARD).with_suffix("").parts): path for path in paths}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the guard that a module imports, at run time or for the type checker."""
    found = set()
    for node in imports(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metier.guard"):
            base = (node.module or "").removeprefix("metier.guard").removeprefix(".")
            found |= {base, *(f"{base}.{alias.name}".removeprefix(".") for alias in node.names)}
    return found & known.keys()


def test_each_part_imports_only_the_parts_before_it() -> None:
    known = modules()
    wrong = [
        f"{name} ({PARTS[rank(name)][0]}) imports {other} ({PARTS[rank(other)][0]})"
        for name, path in sorted(known.items())
        for other in sorted(imported(path, known))
        if rank(other) > rank(name)
    ]
    assert wrong == []
