"""Commands import nothing that they do not need. The benchmark `commands.py` measures what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import thinned

NETWORK = {"asyncio", "anyio", "httpx", "http.client", "ssl"}
MODELS = {"pydantic", "jsonschema_rs", "msgspec", "mcp", "openai", "pydantic_ai"}
PARSERS = {"yaml", "markdown_it", "bashkit", "tree_sitter", "tree_sitter_bash"}
DATABASES = {"sqlalchemy", "sqlite3", "psycopg"}
SLOW = {"dataclasses", "inspect", "importlib.metadata", "email", "logging", "subprocess", "multiprocessing", "zipfile"}
OTHERS = {"numpy", "cryptography", "opentelemetry", "watchfiles", "metier.serve", "metier.agent", "metier.dialect"}
VECTORS = {"tokenizers", "safetensors", "wordllama"}
LIGHT = NETWORK | MODELS | PARSERS | DATABASES | SLOW | OTHERS
POLICY = "metier.guard.policy.effective"
NO_RUN = {"metier.run", "metier.session", "metier.tools", "metier.hub"}

COMMANDS: dict[str, set[str]] = {
    "--version": {*LIGHT, *NO_RUN, "argparse", "typing", "re", "metier.library", "metier.guard", "metier.cli.commands"},
    "--help": {*LIGHT, *NO_RUN, "json", "metier.library", "metier.guard", "metier.store"},
    "show --help": {*(LIGHT - {"dataclasses", "inspect"}), *NO_RUN},
    "list": {
        *LIGHT,
        *NO_RUN,
        "shutil",
        "hashlib",
        "metier.scan",
        "metier.store.store",
        "metier.guard.policy.effective",
    },
    "search it": {*(LIGHT - {"sqlite3"}), *NO_RUN, *VECTORS, "html", "metier.store.store"},
    "show one": {*(LIGHT - {"dataclasses", "inspect"}), *NO_RUN, "metier.store.store"},
    "policy show": {*LIGHT, *NO_RUN, "metier.store.store"},
    "approve list": {*(LIGHT - {"sqlite3"}), *NO_RUN, "metier.find", "shutil"},
    "audit tail": {*(LIGHT - {"sqlite3"}), *NO_RUN, "metier.find", "metier.library.index"},
    "run one x.py": {
        *(LIGHT - {"sqlite3", "subprocess"}),
        "metier.hub",
        "metier.scan.rule_book",
        "metier.tools.builtin",
    },
}
"""Commands, and the modules that none of them imports, in a home with a skill and a store."""

SCRIPT = """
import sys
before = set(sys.modules)
from metier.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("\\nMODULES", code, *(sys.modules.keys() - before))
"""


@pytest.fixture(scope="module")
def two_homes(tmp_path_factory: pytest.TempPathFactory, forked: list[str]) -> dict[str, Path]:
    """A home in which nothing was run yet, and one with a store."""
    found = {}
    for name in ("new", "used"):
        home = found[name] = tmp_path_factory.mktemp(name)
        folder = home / ".claude" / "skills" / "one"
        (folder / "scripts").mkdir(parents=True)
        (home / "work").mkdir()
        (folder / "SKILL.md").write_text("---\nname: one\ndescription: Does it.\n---\nDo it.\n")
        (folder / "scripts" / "x.py").write_text("print('done')\n")
        call(forked, home, "list")
    call(forked, found["used"], "trust ../work")
    call(forked, found["used"], "user list")
    return found


def call(command: list[str], home: Path, words: str) -> None:
    """Call the command in a home, for what it leaves there."""
    subprocess.run(
        [*command, *words.split()],
        cwd=home / "work",
        env=environment(home),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("METIER_", "XDG_", "COV"))}
    return {**kept, "HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(home), "LOCALAPPDATA": str(home)}


def start(home: Path, command: str) -> tuple[str, set[str]]:
    """Run a command in a process of its own; its exit code, and the modules that it imported."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command.split()],
        cwd=home / "work",
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, *modules = done.stdout.rpartition("\nMODULES ")[2].split()
    return code, set(modules)


@thinned("command", COMMANDS, one_in=3)
def test_a_command_imports_nothing_that_it_does_not_need(two_homes: dict[str, Path], command: str) -> None:
    has_store = command.split()[0] in ("approve", "audit", "run")
    code, modules = start(two_homes["used" if has_store else "new"], command)
    if command.startswith("run") and code != "0":
        pytest.skip("no sandbox here")
    assert code == "0"
    assert "metier.cli.main" in modules
    # Since Python 3.14 argparse imports these itself, for its colours.
    own = {"dataclasses", "inspect"} if sys.version_info >= (3, 14) else set()
    assert sorted(modules & COMMANDS[command] - own) == []
