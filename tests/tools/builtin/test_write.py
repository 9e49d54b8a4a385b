"""Writing files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier.tools import ToolResult

Call = Callable[..., ToolResult]


@pytest.mark.covers("S2-04")
def test_a_file_is_written_and_the_message_names_it(root: Path, call: Call) -> None:
    result = call("Write", file_path="docs/new/a.md", content="één\r\n")
    assert result.success
    assert result.result == result.data["message"] == f"Wrote 7 bytes to {root}/docs/new/a.md"
    assert (root / "docs" / "new" / "a.md").read_bytes() == "één\r\n".encode()


def test_a_file_is_replaced_as_a_whole(root: Path, call: Call) -> None:
    (root / "a.md").write_text("a long text")
    assert call("Write", file_path=f"{root}/a.md", content="").success
    assert (root / "a.md").read_bytes() == b""


@pytest.mark.covers("S2-04")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "file-refused"),
        ("../a.md", "file-refused"),
        ("docs", "file-refused"),
        ("a.md/b.md", "file-missing"),
        (3, "invalid-arguments"),
    ],
)
def test_what_cannot_be_written_is_explained(root: Path, call: Call, path: str, code: str) -> None:
    (root / "docs").mkdir()
    (root / "a.md").write_text("x")
    result = call("Write", file_path=path, content="y")
    assert (result.success, result.code) == (False, code)
    assert result.hint
    assert (root / "a.md").read_text() == "x"
    assert not (root.parent / "a.md").exists()
