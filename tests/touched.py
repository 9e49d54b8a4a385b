"""The tests that a change touches: those of the rooms that it is in, and of the rooms that import what was changed.

    python -m tests.touched [BASE]

Prints paths for pytest. BASE is the commit that the change is compared with; without it, where the branch left
origin/main. Files that are not committed yet count too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.test_rooms import MAY_IMPORT, imported, modules

TESTS = Path(__file__).parent
BESIDE = {
    "skill": ("frozen",),
    "guard": ("governance", "attacks", "frozen"),
    "run": ("attacks",),
    "session": ("attacks", "test_any_conversation.py"),
    "dialect": ("wire",),
    "agent": ("wire",),
    "serve": ("inspector", "clients"),
    "cli": ("stories",),
}
"""Tests of a room that lie beside the folder of its name."""
OF_ALL = ("test_rooms.py", "test_glossary.py", "test_docstrings.py")
"""Tests that look at every module."""
OF_FOLDERS = {"docs": "docs", "examples": "docs", "benchmarks": "test_benchmarks.py"}
OF_PAGES = ("docs", "test_glossary.py")


def changed_files(base: str | None) -> list[str]:
    """The files that differ from the base, committed or not, and those that Git does not know yet."""
    base = base or _git("merge-base", "origin/main", "HEAD")[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.splitlines()


def touched(files: Iterable[str]) -> list[str]:
    """The paths below `tests` to run for these files; `[""]` is all of them.

    >>> touched(["tests/scan/test_urls.py", "benchmarks/run.py"])
    ['scan', 'test_benchmarks.py']
    """
    found: set[str] = set()
    for file in files:
        top, _, rest = file.partition("/")
        if file.startswith("src/metier/bundled/"):
            found.add("bundled")
        elif file.startswith("src/metier/"):
            found.update(OF_ALL)
            for room in rooms_of(file.removeprefix("src/metier/")):
                found.update((room, *BESIDE.get(room, ())))
        elif top == "tests":
            folder, _, below = rest.partition("/")
            if below or folder.startswith("test_"):
                found.add(folder)
            else:
                return [""]
        elif top in OF_FOLDERS:
            found.add(OF_FOLDERS[top])
        elif file.endswith(".md"):
            found.update(OF_PAGES)
        elif file in ("pyproject.toml", "requirements.lock", "requirements-core.lock"):
            return [""]
    return sorted(name for name in found if (TESTS / name).exists())


def rooms_of(file: str) -> set[str]:
    """The rooms of a module and of all modules that import it, or a package that it is in: packages offer its names."""
    name = file.removesuffix(".py").replace("/", ".").removesuffix("__init__").rstrip(".")
    parts = name.split(".")
    names = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    importing = {
        other.partition(".")[0]
        for other, path in modules()
        if any(module in names or module.startswith(f"{name}.") for _, module in imported(other, path))
    }
    return (importing | {parts[0]}) & MAY_IMPORT.keys()


if __name__ == "__main__":
    print(*(f"tests/{name}" for name in touched(changed_files(sys.argv[1] if len(sys.argv) > 1 else None))))
