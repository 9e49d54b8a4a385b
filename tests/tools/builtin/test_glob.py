"""Listing files by pattern."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier.tools import ToolResult
from metier.tools.builtin.search import MAX_PATHS

Call = Callable[..., ToolResult]


@pytest.fixture
def files(root: Path) -> None:
    for name in ("a.py", "b/c.py", "b/d.md", "b/e/f.py", ".git/g.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("**/*.py", ".", ["a.py", "b/c.py", "b/e/f.py"]),
        ("*.py", ".", ["a.py"]),
        ("**/*.py", "b", ["c.py", "e/f.py"]),
        ("b/*.{py,md}", ".", ["b/c.py", "b/d.md"]),
    ],
)
def test_files_are_found_by_pattern(call: Call, pattern: str, path: str, found: list[str]) -> None:
    result = call("Glob", pattern=pattern, path=path)
    assert result.data["paths"] == found
    assert result.result == "\n".join(found)


@pytest.mark.usefixtures("files")
def test_finding_nothing_is_a_success(call: Call) -> None:
    result = call("Glob", pattern="*.rs")
    assert (result.success, result.result, result.data["count"]) == (True, "No files found.", 0)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("pattern", "path", "code"),
    [
        ("", ".", "invalid-argument"),
        ("../*", ".", "invalid-argument"),
        ("*", "none", "file-missing"),
        ("*", "a.py", "file-refused"),
        ("*", "..", "file-refused"),
    ],
)
def test_what_cannot_be_listed_is_explained(call: Call, pattern: str, path: str, code: str) -> None:
    result = call("Glob", pattern=pattern, path=path)
    assert (result.success, result.code) == (False, code)
    assert result.hint


def test_a_long_list_is_cut_and_says_so(root: Path, call: Call) -> None:
    for number in range(MAX_PATHS + 5):
        (root / f"{number}.txt").write_bytes(b"")
    result = call("Glob", pattern="*")
    assert result.truncated
    assert len(result.data["paths"]) == MAX_PATHS
    assert result.result.endswith("[5 more files]")
