"""Reading files."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.tools import Executor, ToolRegistry, ToolResult, Workspace
from metier.tools.builtin.files import MAX_READ_BYTES, read_tool

Call = Callable[..., ToolResult]


@pytest.mark.covers("O-94")
def test_a_file_is_read_with_its_size_encoding_and_place(root: Path, call: Call) -> None:
    (root / "a.txt").write_bytes("één\n".encode())
    result = call("Read", file_path="a.txt")
    assert result.success
    assert result.result == "één\n"
    assert result.data == {
        "message": f"Read 1 line of {root}/a.txt",
        "content": "één\n",
        "size": 6,
        "encoding": "utf-8",
        "path": f"{root}/a.txt",
    }


@pytest.mark.covers("O-94")
@pytest.mark.parametrize("text", ["a\r\nb\r\n", "a\rb\r", "a\nb\r\nc\rd", "", "\n", "no end"])
def test_line_ends_stay_as_they_are(root: Path, call: Call, text: str) -> None:
    (root / "a.txt").write_bytes(text.encode())
    assert call("Read", file_path="a.txt").result == text


@pytest.mark.covers("O-94")
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("none.txt", "not found"),
        ("docs", "not a file"),
        (".", "not a file"),
        ("", "cannot be empty"),
        ("   ", "cannot be empty"),
        ("../x", "leaves the workspace"),
    ],
)
def test_what_cannot_be_read_is_explained(root: Path, call: Call, path: str, problem: str) -> None:
    (root / "docs").mkdir()
    result = call("Read", file_path=path)
    assert not result.success
    assert result.error is not None
    assert problem in result.error
    assert result.code in ("file-missing", "file-refused")
    assert result.hint


@pytest.mark.covers("O-94")
def test_the_size_limit_is_inclusive(root: Path) -> None:
    executor = Executor(ToolRegistry([read_tool(Workspace(root), max_bytes=10)]))
    (root / "a.txt").write_text("x" * 10)
    assert executor.execute_blocking("Read", {"file_path": "a.txt"}).result == "x" * 10
    (root / "a.txt").write_text("x" * 11)
    result = executor.execute_blocking("Read", {"file_path": "a.txt"})
    assert result.code == "file-too-large"
    assert result.error is not None
    assert "exceeds maximum" in result.error


def test_the_largest_file_is_read_whole(root: Path, call: Call) -> None:
    (root / "a.bin").write_bytes(b"\xff" * MAX_READ_BYTES)
    result = call("Read", file_path="a.bin", encoding="base64")
    assert not result.truncated
    assert base64.b64decode(result.result) == b"\xff" * MAX_READ_BYTES


@pytest.mark.covers("O-94")
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "UTF-8"])
def test_an_encoding_is_honoured(root: Path, call: Call, encoding: str) -> None:
    (root / "a.txt").write_bytes("één".encode(encoding))
    assert call("Read", file_path="a.txt", encoding=encoding).result == "één"


@pytest.mark.covers("O-94")
@pytest.mark.parametrize(
    "encoding", ["utf-8", "ascii", "no-such", "", "zlib", "hex", "idna", "punycode", "undefined", "a\0b", "x" * 9_999]
)
def test_an_encoding_that_does_not_fit_fails(root: Path, call: Call, encoding: str) -> None:
    (root / "a.bin").write_bytes(b"\xff\xfe\x00\x81")
    result = call("Read", file_path="a.bin", encoding=encoding)
    assert result.code == "file-unreadable"
    assert result.error is not None
    assert "Failed to read file" in result.error
    assert result.hint


@pytest.mark.covers("S2-04")
@pytest.mark.parametrize(
    ("offset", "limit", "text"),
    [
        (2, 1, "two\r\n"),
        (1, 2, "one\ntwo\r\n"),
        (2, None, "two\r\nthree"),
        (3, 10, "three"),
        (9, 1, ""),
        (1, 0, ""),
        (0, 1, "one\n"),
        (-3, 1, "one\n"),
        (2, -1, ""),
        (10**18, 10**18, ""),
    ],
)
def test_a_part_is_read_by_lines(root: Path, call: Call, offset: int, limit: int | None, text: str) -> None:
    (root / "a.txt").write_bytes(b"one\ntwo\r\nthree")
    result = call("Read", file_path="a.txt", offset=offset, limit=limit)
    assert result.result == text
    assert result.data["size"] == 14


def test_a_part_of_a_large_file_is_read(root: Path, call: Call) -> None:
    (root / "big.log").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 10_000)
    result = call("Read", file_path="big.log")
    assert result.code == "file-too-large"
    assert call("Read", file_path="big.log", limit=1).result == "x" * 99 + "\n"
    assert call("Read", file_path="big.log", limit=10_000).code == "file-too-large"
