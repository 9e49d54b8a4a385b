"""Which files of a skill declare packages."""

from __future__ import annotations

import pytest

from metier.skill.script_packages import declaring_files, inline_metadata, requirement_lines

BLOCK = "# /// script\n# dependencies = ['pypdf']\n# ///\nimport pypdf\n"


@pytest.mark.each(
    ("files", "expected"),
    [
        ({"scripts/a.py": BLOCK}, {"scripts/a.py": "python"}),
        ({"scripts/a.py": f"#!/usr/bin/env python3\n{BLOCK}"}, {"scripts/a.py": "python"}),
        ({"scripts/a.py": BLOCK.replace("\n", "\r\n")}, {"scripts/a.py": "python"}),
        ({"scripts/a.py": "# /// script\n# requires-python = '>=3.11'\n# ///\n"}, {}),
        ({"scripts/a.py": "# /// script\n# dependencies = []\n# ///\n"}, {}),
        # One that cannot be read counts as one.
        ({"scripts/a.py": "# /// script\n# dependencies = [\n# ///\n"}, {"scripts/a.py": "python"}),
        ({"scripts/a.py": BLOCK + BLOCK}, {"scripts/a.py": "python"}),
        # A block that is never closed is a comment, as the specification says.
        ({"scripts/a.py": "# /// script\n# dependencies = ['pypdf']\nimport pypdf\n"}, {}),
        ({"references/a.py": BLOCK, "a.txt": BLOCK}, {}),
        ({"requirements.txt": "pandas\n"}, {"requirements.txt": "python"}),
        ({"scripts/requirements.txt": "--index-url x\n"}, {"scripts/requirements.txt": "python"}),
        ({"requirements.txt": "# nothing\n\n"}, {}),
        ({"assets/requirements.txt": "pandas\n"}, {}),
        ({"package.json": '{"dependencies": {"ms": "1"}}'}, {"package.json": "npm"}),
        ({"package.json": '{"optionalDependencies": {"ms": "1"}}'}, {"package.json": "npm"}),
        ({"package.json": '{"type": "module", "devDependencies": {"ms": "1"}}'}, {}),
        ({"scripts/package.json": "{"}, {"scripts/package.json": "npm"}),
        ({"package.json": "[]"}, {"package.json": "npm"}),
    ],
)
def test_packages_are_declared_where_scripts_run(files: dict[str, str], expected: dict[str, str]) -> None:
    assert declaring_files(files, lambda path: files[path].encode()) == expected


def test_a_line_of_requirements_goes_on_behind_a_backslash() -> None:
    assert requirement_lines(b"\xef\xbb\xbfa==1 \\\n  --hash=sha256:0\n# no\nb  # why\n") == [
        "a==1    --hash=sha256:0",
        "b",
    ]


def test_the_text_of_a_block_is_what_stands_behind_its_marks() -> None:
    assert inline_metadata(b"# /// script\n#\n# a = 1\n# ///\n") == "\na = 1\n"
    assert inline_metadata(b"print(1)\n") is None


@pytest.mark.each(
    "data",
    [
        b"# /// script\n" * 150_000,
        b"# /// script\n# a\n" * 150_000 + b"x = 1\n# ///\n",
        b"# /// script\n#\n\n" * 150_000,
    ],
    ids=["begins", "begins-and-lines", "runs"],
)
def test_blocks_without_an_end_are_comments_however_many_begin(data: bytes) -> None:
    """By an expression that starts anew at each of them, this would take hours."""
    assert inline_metadata(data) is None
