"""What `validate` says of a whole package."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from metier.skill import FolderPackage, MemoryPackage
from metier.skill.validate import check

HEAD = "---\nname: a\ndescription: Does it.\n---\n"


def lint(
    text: str, files: dict[str, str] | None = None, *, strict: bool = False, portable: bool = False
) -> list[tuple[str, int | None]]:
    package = MemoryPackage({"SKILL.md": text, **(files or {})})
    _, notes = check(text.encode(), package, folder="a", strict=strict, portable=portable)
    return [(note.code, note.line) for note in notes]


def test_a_sound_skill_is_not_spoken_of() -> None:
    text = HEAD + "# A\n\nRead [the API](references/api.md) and run `scripts/run.sh`.\n"
    files = {"references/api.md": "x", "scripts/run.sh": "#!/bin/sh\n", "scripts/ok.py": "print(1)\n"}
    assert lint(text, files) == []
    assert lint(text, files, strict=True, portable=True) == []


@pytest.mark.covers("O-107")
def test_a_file_that_is_mentioned_but_missing_is_said_with_its_line() -> None:
    text = (
        HEAD
        + "\n# A\n\nSee [x](missing.md) and `references/gone.md`.\n\n[web](https://x.y/z) [top](#a) [abs](/etc/x)\n"
    )
    assert lint(text) == [("reference-missing", 8), ("reference-missing", 8)]


def test_a_path_in_a_code_block_is_no_reference() -> None:
    assert lint(HEAD + "```\nscripts/x.py\n[x](y.md)\n```\nDo.\n") == []


def test_a_folder_may_be_mentioned() -> None:
    assert lint(HEAD + "See [all](references/) and [too](references).\n", {"references/a.md": "x"}) == []


def test_a_path_that_leaves_the_skill_is_said() -> None:
    assert lint(HEAD + "See [x](../other/y.md).\n") == [("reference-outside", 5)]


def test_scripts_are_read_and_never_run(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    files = {"scripts/bad.py": "def (:\n", "scripts/evil.py": f"open({str(flag)!r}, 'w')\n", "scripts/no.sh": "echo\n"}
    codes = [code for code, _ in lint(HEAD + "Do.\n", files)]
    assert codes == ["script-syntax", "script-no-shebang"]
    assert not flag.exists()


@pytest.mark.each("source", ["(" * 5_000, "x\0y", "\xff", "# -*- coding: nope -*-\n", "-" * 200_000 + "1", "'" * 3])
def test_an_odd_script_never_raises(source: str) -> None:
    codes = [code for code, _ in lint(HEAD + "Do.\n", {"scripts/odd.py": source})]
    assert set(codes) <= {"script-syntax"}


def test_unknown_fields_and_other_forms_are_said() -> None:
    text = "---\nname: a\ndescription: x\nauthor: me\nallowed-tools: Read, Write\n---\r\nDo.\n"
    assert [code for code, _ in lint(text)] == ["line-endings", "unknown-fields", "tools-form"]


def test_strict_says_errors_instead_of_warnings() -> None:
    text = "---\nname: A b\ndescription: x: y\n---\n"
    codes = [code for code, _ in lint(text, strict=True)]
    assert "spec-yaml" in codes
    assert not {"name-invalid", "yaml-unquoted-colon"} & set(codes)


def test_a_link_that_leaves_is_said(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    root = tmp_path / "a"
    root.mkdir()
    (root / "SKILL.md").write_text(HEAD + "Do.\n")
    (root / "out").symlink_to("../outside.txt")
    (root / "abs").symlink_to(tmp_path / "outside.txt")
    (root / "in").symlink_to("SKILL.md")
    _, notes = check((root / "SKILL.md").read_bytes(), FolderPackage(root), folder="a")
    assert [(note.code, note.values) for note in notes] == [
        ("file-link-outside", ("abs",)),
        ("file-link-outside", ("out",)),
    ]


def test_a_package_too_large_to_upload_is_said(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(HEAD + "Do.\n")
    with open(tmp_path / "big.bin", "wb") as big:
        big.truncate(30_000_001)
    _, notes = check((tmp_path / "SKILL.md").read_bytes(), FolderPackage(tmp_path), folder="a", portable=True)
    assert [note.code for note in notes] == ["portable-too-large"]


def test_a_folder_that_vanished_is_said(tmp_path: Path) -> None:
    _, notes = check((HEAD + "Do.\n").encode(), FolderPackage(tmp_path / "gone"), folder="a")
    assert [note.code for note in notes] == ["file-unreadable"]


def test_a_folder_that_vanished_is_said_when_portable_too(tmp_path: Path) -> None:
    _, notes = check((HEAD + "Do.\n").encode(), FolderPackage(tmp_path / "gone"), folder="a", portable=True)
    assert "file-unreadable" in [note.code for note in notes]


def test_many_mentions_of_one_file_are_counted_in_linear_time() -> None:
    text = HEAD + "[x](y)\n" * 20_000
    start = time.process_time()
    lint(text)
    assert time.process_time() - start < 0.4


@pytest.mark.each(
    "unit", ["](", "[a](b", "scripts/", "scripts/a scripts/", "```\n", "~~~\n```\n", "../", "(<"], every=2
)
def test_long_odd_bodies_are_linted_in_bounded_time(unit: str) -> None:
    start = time.process_time()
    lint(HEAD + unit * (100_000 // len(unit)))
    assert time.process_time() - start < 2


@pytest.mark.covers("ACC-12")
@pytest.mark.each(
    "text",
    ["<!--", "```a\n", "a/", "a.b ", "[x](", "- a.md: b\n", "see ", "`docs/a.md` ", "  ```", "python scripts/"],
    every=3,
)
def test_references_are_looked_for_in_time_that_grows_with_the_text(text: str) -> None:
    """Ten times the text takes about ten times as long, and not a hundred times."""

    def seconds(size: int) -> float:
        body = text * (size // len(text))
        data = f"---\nname: a\ndescription: Does it.\n---\n{body}".encode()
        start = time.process_time()
        check(data, MemoryPackage({"SKILL.md": data}), folder="a")
        return time.process_time() - start

    seconds(10_000)
    assert seconds(200_000) < 40 * max(seconds(20_000), 0.005)
