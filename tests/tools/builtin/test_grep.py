"""Searching files by regular expression."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.tools import Executor, ToolRegistry, ToolResult, Workspace
from metier.tools.builtin.search import MAX_MATCHES, grep_tool

Call = Callable[..., ToolResult]


@pytest.fixture
def files(root: Path) -> None:
    contents = {
        "a.py": b"import os\r\n\tdef main(x):\r\n    pass\n",
        "docs/b.md": "Main idea\nunité\n".encode(),
        "docs/c.bin": b"main\0\xff",
        "docs/d.txt": b"main \xff\n",
        ".git/config": b"main\n",
    }
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "main"}, ["a.py:2:\tdef main(x):", "docs/d.txt:1:main \ufffd"]),
        ({"pattern": "main", "ignore_case": True, "glob": "*.md"}, ["docs/b.md:1:Main idea"]),
        ({"pattern": "main", "glob": "docs/**"}, ["docs/d.txt:1:main \ufffd"]),
        ({"pattern": "main", "path": "docs"}, ["d.txt:1:main \ufffd"]),
        ({"pattern": "main", "path": "a.py"}, ["a.py:2:\tdef main(x):"]),
        ({"pattern": r"main\(\w\):$"}, ["a.py:2:\tdef main(x):"]),
        ({"pattern": "^import|unit\u00e9$"}, ["a.py:1:import os", "docs/b.md:2:unité"]),
        ({"pattern": r"\bos\b"}, ["a.py:1:import os"]),
    ],
)
def test_matching_lines_are_found(call: Call, arguments: dict[str, Any], lines: list[str]) -> None:
    result = call("Grep", **arguments)
    assert result.result == "\n".join(lines)
    assert result.data["count"] == len(lines)


@pytest.mark.usefixtures("files")
def test_finding_nothing_is_a_success(call: Call) -> None:
    result = call("Grep", pattern="nowhere")
    assert (result.success, result.result) == (True, "No matches found.")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"pattern": ""}, "invalid-argument"),
        ({"pattern": "("}, "invalid-argument"),
        ({"pattern": "(?=x)"}, "invalid-argument"),
        ({"pattern": r"(a)\1"}, "invalid-argument"),
        ({"pattern": "a{1000}{1000}"}, "invalid-argument"),
        ({"pattern": "x" * 1_001}, "invalid-argument"),
        ({"pattern": "x", "glob": "../*"}, "invalid-argument"),
        ({"pattern": "x", "path": "none"}, "file-missing"),
        ({"pattern": "x", "path": "../"}, "file-refused"),
        ({}, "invalid-arguments"),
    ],
)
def test_a_search_that_cannot_be_made_is_explained(call: Call, arguments: dict[str, Any], code: str) -> None:
    result = call("Grep", **arguments)
    assert (result.success, result.code) == (False, code)
    assert result.hint


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "(a?){500}a{500}", "(.*a){100}b", r"(\w+\s?)+!"])
def test_a_pattern_made_to_be_slow_gives_an_answer(root: Path, call: Call, pattern: str) -> None:
    (root / "a.txt").write_text(("a" * 5_000 + "\n") * 20)
    result = call("Grep", pattern=pattern)
    assert result.success or result.code == "invalid-argument"


def test_many_matches_are_cut_and_long_lines_shortened(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("x" * 1_000 + "\n" + "x\n" * MAX_MATCHES)
    result = call("Grep", pattern="x")
    assert result.truncated
    assert result.data["count"] == MAX_MATCHES
    assert result.result.endswith(f"[The search stopped after {MAX_MATCHES} lines]")
    assert len(result.result.split("\n")[0]) < 500


def test_huge_files_are_passed_over_and_that_is_said(root: Path, call: Call) -> None:
    (root / "huge.txt").write_bytes(b"x\n" * (3 * 1024 * 1024))
    (root / "small.txt").write_bytes(b"x\n")
    result = call("Grep", pattern="x")
    assert result.data["paths"] == ["small.txt"]
    assert "[Files over 4,194,304 bytes were passed over]" in result.result


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Executor:
    """A workspace with a file to search."""
    root = tmp_path_factory.mktemp("work")
    (root / "a.txt").write_text("ab [a] (b) {} * \\ +\n" * 3)
    return Executor(ToolRegistry([grep_tool(Workspace(root))]))


@given(st.text(alphabet=r"ab()[]{}*+?|\^$.,1-:=!<>", max_size=20))
def test_any_pattern_gives_an_answer(executor: Executor, pattern: str) -> None:
    result = executor.execute_blocking("Grep", {"pattern": pattern})
    assert result.success or (result.code == "invalid-argument" and result.hint)


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
@pytest.mark.parametrize("path", ["docs/x", "docs/in"])
def test_a_link_to_what_may_not_be_searched_is_explained(root: Path, path: str) -> None:
    (root / "secret").mkdir()
    (root / "secret" / "key").write_text("s3cret\n")
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "x").symlink_to("../secret/key")
    (root / "docs" / "in").symlink_to("../secret")
    workspace = Workspace(root, allows=lambda tool, path: tool == "Grep" and "secret" not in path)
    result = Executor(ToolRegistry([grep_tool(workspace)])).execute_blocking("Grep", {"pattern": ".", "path": path})
    assert (result.success, result.code) == (False, "file-refused")
    assert "may not be used on" in (result.error or "")
