"""Changing files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.tools import ToolResult

Call = Callable[..., ToolResult]


@pytest.mark.parametrize(
    ("before", "arguments", "after"),
    [
        (b"one two", {"old_string": "two", "new_string": "three"}, b"one three"),
        (b"one two", {"old_string": " two", "new_string": ""}, b"one"),
        (b"a a a", {"old_string": "a", "new_string": "b", "replace_all": True}, b"b b b"),
        (b"a\r\nb\r\nc\r\n", {"old_string": "a\nb", "new_string": "A\nB\nB"}, b"A\r\nB\r\nB\r\nc\r\n"),
        (b"a\r\nb\r\n", {"old_string": "a\r\nb", "new_string": "c"}, b"c\r\n"),
        (b"a\nb\n", {"old_string": "a\nb", "new_string": "c\r\nd"}, b"c\r\nd\n"),
        (b"\xff one \xe9", {"old_string": "one", "new_string": "\u00e9"}, b"\xff \xc3\xa9 \xe9"),
        (b"\xef\xbb\xbfone", {"old_string": "one", "new_string": "two"}, b"\xef\xbb\xbftwo"),
        (b"a.b", {"old_string": ".", "new_string": r"\1"}, rb"a\1b"),
    ],
)
def test_text_is_replaced_exactly(
    root: Path, call: Call, before: bytes, arguments: dict[str, Any], after: bytes
) -> None:
    (root / "a.txt").write_bytes(before)
    result = call("Edit", file_path="a.txt", **arguments)
    assert result.success, result.error
    assert (root / "a.txt").read_bytes() == after
    assert f"in {root}/a.txt" in result.data["message"]


@pytest.mark.covers("S2-04")
def test_a_patch_is_applied_to_a_file_with_crlf(root: Path, call: Call) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    result = call("Edit", file_path="a.txt", patch="@@ -1,3 +1,3 @@\n one\n-two\n+deux\n three\n")
    assert result.data["message"] == f"Applied the patch to {root}/a.txt"
    assert (root / "a.txt").read_bytes() == b"one\r\ndeux\r\nthree\r\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "either old_string and new_string, or a patch"),
        ({"new_string": "x"}, "either old_string"),
        ({"old_string": "a", "new_string": "b", "patch": "x"}, "either old_string"),
        ({"new_string": "b", "patch": "x"}, "either old_string"),
        ({"old_string": "a"}, "new_string is missing"),
        ({"old_string": "", "new_string": "b"}, "cannot be empty"),
        ({"old_string": "a", "new_string": "a"}, "are the same"),
        ({"old_string": "z", "new_string": "b"}, "is not in the file"),
        ({"old_string": "A", "new_string": "b"}, "is not in the file"),
        ({"old_string": "a", "new_string": "b"}, "occurs 3 times"),
        ({"patch": "nonsense"}, "no hunk"),
        ({"patch": "@@ -1 +1 @@\n-x\n+y\n"}, "does not fit"),
        ({"old_string": "a", "new_string": "b", "file_path": "none.txt"}, "not found"),
        ({"old_string": "a", "new_string": "b", "file_path": "../a.txt"}, "leaves the workspace"),
        ({"old_string": 3, "new_string": "b"}, "'old_string' must be text"),
    ],
)
def test_an_edit_that_cannot_be_made_changes_nothing(
    root: Path, call: Call, arguments: dict[str, Any], problem: str
) -> None:
    (root / "a.txt").write_text("a and a")
    result = call("Edit", **{"file_path": "a.txt", **arguments})
    assert not result.success
    assert result.error is not None
    assert problem in result.error
    assert result.hint
    assert (root / "a.txt").read_text() == "a and a"


def test_an_edit_never_makes_a_file_of_any_size(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("a" * 1_000_000)
    result = call("Edit", file_path="a.txt", old_string="a", new_string="b" * 500_000, replace_all=True)
    assert result.code == "file-too-large"
    assert (root / "a.txt").stat().st_size == 1_000_000
