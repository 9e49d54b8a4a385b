"""`metier show NAME FILE` and `metier show NAME --instructions`: content as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]


@pytest.fixture
def skills(write_skill: Write, tmp_path: Path) -> Path:
    root = tmp_path / "skills"
    file = write_skill(root / "alpha", body="# Alpha\n\nDo it.\n\n")
    (file.parent / "references").mkdir()
    (file.parent / "references" / "api.md").write_bytes(b"one\r\ntwo\x00\xff")
    (file.parent / ".git").mkdir()
    (file.parent / ".git" / "config").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    return root


def test_the_instructions_are_printed_without_the_frontmatter(metier: Call, skills: Path) -> None:
    assert metier("--skills", skills, "show", "alpha", "--instructions") == (0, "# Alpha\n\nDo it.\n", "")


def test_a_file_is_printed_byte_for_byte(
    process: Callable[..., subprocess.CompletedProcess[bytes]], skills: Path
) -> None:
    done = process("--skills", skills, "show", "alpha", "references/api.md")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\r\ntwo\x00\xff", b"")


def test_the_instructions_are_utf8_whatever_the_encoding_of_the_terminal(
    process: Callable[..., subprocess.CompletedProcess[bytes]], write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "alpha", body="Überprüfe 技能 🎉.")
    done = process(
        "--skills", tmp_path, "show", "alpha", "--instructions", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    )
    assert (done.returncode, done.stdout.decode().strip(), done.stderr) == (0, "Überprüfe 技能 🎉.", b"")


@pytest.mark.each("path", ["./references/api.md", "references//api.md", "references\\api.md"])
def test_other_spellings_of_a_path_inside_are_understood(metier: Call, skills: Path, path: str) -> None:
    (skills / "alpha/references/api.md").write_text("api")
    assert metier("--skills", skills, "show", "alpha", path) == (0, "api", "")


@pytest.mark.covers("Y-20")
@pytest.mark.each(
    "path", ["../../secret.txt", "/etc/passwd", "references/../../../secret.txt", "..", "C:\\x", "..\\..\\secret.txt"]
)
def test_a_path_that_leaves_the_skill_is_refused(metier: Call, skills: Path, path: str) -> None:
    code, out, err = metier("--skills", skills, "show", "alpha", path)
    assert (code, out) == (1, "")
    assert "[file-refused]" in err
    assert "traversal" in err
    assert "\nhint: " in err


@pytest.mark.covers("Y-20")
@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")
def test_a_link_that_leaves_the_skill_is_refused(metier: Call, skills: Path) -> None:
    (skills / "alpha/link.txt").symlink_to("../../secret.txt")
    code, out, err = metier("--skills", skills, "show", "alpha", "link.txt")
    assert (code, out) == (1, "")
    assert "traversal" in err


@pytest.mark.covers("Y-22", "O-107")
@pytest.mark.each(
    ("path", "expected"),
    [
        ("nothing.md", "file-missing"),
        ("references/api.md/deeper", "file-missing"),
        (".git/config", "file-missing"),
        ("references", "file-refused"),
        ("", "file-refused"),
        ("a\nb", "file-refused"),
        ("x" * 5_000, "file-refused"),
    ],
)
def test_a_path_that_is_no_file_of_the_skill_has_an_error_of_its_own(
    metier: Call, skills: Path, path: str, expected: str
) -> None:
    code, out, err = metier("--skills", skills, "show", "alpha", path)
    assert (code, out) == (1, "")
    assert f"[{expected}]" in err
    assert "\nhint: " in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_is_refused_and_not_waited_for(metier: Call, skills: Path) -> None:
    os.mkfifo(skills / "alpha" / "pipe")
    code, _, err = metier("--skills", skills, "show", "alpha", "pipe")
    assert code == 1
    assert "is not a regular file" in err


def test_a_file_over_the_limit_is_a_problem(metier: Call, skills: Path) -> None:
    with open(skills / "alpha" / "huge.bin", "wb") as huge:
        huge.truncate(100 << 20)
    code, out, err = metier("--skills", skills, "show", "alpha", "huge.bin")
    assert (code, out) == (1, "")
    assert "[file-too-large]" in err


@pytest.mark.parametrize("name", ["beta", "broken"])
def test_a_skill_that_cannot_be_loaded_is_a_problem(metier: Call, skills: Path, name: str) -> None:
    (skills / "broken").mkdir()
    (skills / "broken" / "SKILL.md").write_bytes(b"")
    code, out, err = metier("--skills", skills, "show", name, "--instructions")
    assert (code, out) == (1, "")
    assert "\nhint: " in err


def test_an_edit_is_seen_at_the_next_call(metier: Call, write_skill: Write, skills: Path) -> None:
    assert metier("--skills", skills, "show", "alpha", "--instructions")[1].endswith("Do it.\n")
    write_skill(skills / "alpha", body="# Alpha\n\nDo IT.\n\n")
    assert metier("--skills", skills, "show", "alpha", "--instructions")[1].endswith("Do IT.\n")
