"""`make test-touched` chooses the tests that a change touches."""

from __future__ import annotations

import pytest
from tests.touched import touched


@pytest.mark.each(
    ("file", "runs", "leaves"),
    [
        ("src/metier/scan/scanner.py", {"scan", "guard", "test_rooms.py"}, {"find", "source"}),
        ("src/metier/serve/mcp/server.py", {"serve", "inspector", "cli"}, {"guard", "skill"}),
        ("src/metier/cli/list.py", {"cli", "stories"}, {"serve", "skill", "guard"}),
        ("src/metier/_hosts.py", {"guard", "run"}, {"find"}),
        ("src/metier/bundled/x/SKILL.md", {"bundled"}, {"guard"}),
        ("tests/find/test_search.py", {"find"}, {"guard", "test_rooms.py"}),
        ("tests/test_hints.py", {"test_hints.py"}, {"find"}),
        ("tests/conftest.py", {""}, set()),
        ("pyproject.toml", {""}, set()),
        ("docs/reference/policy-file.md", {"docs"}, {"guard"}),
        ("README.md", {"docs", "test_glossary.py"}, {"guard"}),
        (".gitignore", set(), {""}),
    ],
)
def test_a_change_runs_its_room_and_those_that_import_it(file: str, runs: set[str], leaves: set[str]) -> None:
    found = set(touched([file]))
    assert runs <= found
    assert not leaves & found
