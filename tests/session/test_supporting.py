"""Files that instructions mention are offered with what is said about them."""

from __future__ import annotations

import os
import time

import pytest
from tests.tables import in_part

from metier.session.content import (
    SupportingFile,
    described,
    initial_context,
    line_count,
    supporting_files,
    supporting_section,
)
from metier.skill import MemoryPackage, PackageListing


def listing(*paths: str) -> PackageListing:
    return MemoryPackage({"SKILL.md": "", **dict.fromkeys(paths, "x")}).listing()


FILES = listing(
    "reference.md", "templates/report.md", "data.json", "conf.yaml", "conf.yml", "notes.txt", "run.py", "a.png"
)


@pytest.mark.covers("O-52", "O-53")
@pytest.mark.each(
    ("body", "path", "description", "lines"),
    [
        ("- reference.md: API documentation (1,200 lines)", "reference.md", "API documentation", 1200),
        ("* `reference.md`: API (1 line)", "reference.md", "API", 1),
        ("1. reference.md - API", "reference.md", "API", None),
        ("  - **reference.md**: API", "reference.md", "API", None),
        ("**reference.md**: The API (300 lines)", "reference.md", "The API", 300),
        ("**reference.md:** The API", "reference.md", "The API", None),
        ("- [reference.md](reference.md): The API", "reference.md", "The API", None),
        ("- reference.md (300 lines): The API", "reference.md", "The API", 300),
        ("- reference.md (300 lines)", "reference.md", "", 300),
        ("- reference.md", "reference.md", "", None),
        ("- templates/report.md: A report", "templates/report.md", "A report", None),
        ("- ./data.json: Data", "data.json", "Data", None),
        ("- conf.yaml: A", "conf.yaml", "A", None),
        ("- conf.yml: A", "conf.yml", "A", None),
        ("- notes.txt: A", "notes.txt", "A", None),
        ("See reference.md for details.", "reference.md", "details", None),
        ("First READ `reference.md` for the API. Then go.", "reference.md", "the API", None),
        ('check "reference.md"', "reference.md", "", None),
        ("See reference.md.", "reference.md", "", None),
        ("See the file 'templates/report.md' for all of it", "templates/report.md", "all of it", None),
        ("Look at [the report](templates/report.md) too.", "templates/report.md", "the report", None),
    ],
)
def test_a_file_that_is_mentioned_is_found(body: str, path: str, description: str, lines: int | None) -> None:
    expected = SupportingFile(path=path, description=description, lines=lines)
    assert supporting_files(f"# Title\n\n{body}\n", FILES) == (expected,)


@pytest.mark.covers("O-53")
@pytest.mark.each(
    "body",
    [
        "- missing.md: Not there",
        "- run.py: A script",
        "- a.png: A picture",
        "See ../reference.md for more",
        "See /etc/reference.md for more",
        "- SKILL.md: Itself",
        "It wrote reference.md yesterday.",
        "See xreference.md and reference.mdx",
        "",
    ],
)
def test_what_is_missing_or_no_text_is_dropped(body: str) -> None:
    assert supporting_files(body, FILES) == ()


@pytest.mark.covers("O-53", "O-55")
def test_each_file_is_there_once_in_order() -> None:
    body = "See reference.md.\n- notes.txt: Notes\n- reference.md: The API (3 lines)\n- reference.md: Again\n"
    assert supporting_files(body, FILES) == (
        SupportingFile(path="notes.txt", description="Notes"),
        SupportingFile(path="reference.md", description="The API", lines=3),
    )


@pytest.mark.covers("O-54")
@pytest.mark.each(
    ("text", "lines"),
    [
        ("(1,200 lines)", 1200),
        ("x (300 lines) y", 300),
        ("(1 line)", 1),
        ("(1 LINES)", 1),
        ("", None),
        ("300 lines", None),
        ("(many lines)", None),
        ("(, lines)", None),
        ("(-3 lines)", None),
        ("(300 words)", None),
        ("(" + "9" * 100 + " lines)", None),
    ],
)
def test_a_count_of_lines_is_read(text: str, lines: int | None) -> None:
    assert line_count(text) == lines


@pytest.mark.covers("O-54")
def test_a_description_is_one_short_line() -> None:
    assert described("  The \t API\n (1,200 lines)  of it ") == "The API of it"
    assert described("x" * 200) == "x" * 200
    assert (len(described("x" * 201)), described("x" * 201)[-4:]) == (200, "x...")


@pytest.mark.covers("O-55")
def test_a_section_names_absolute_paths_in_order(tmp_path: os.PathLike[str]) -> None:
    context = initial_context("- reference.md: API (1,200 lines)\nSee notes.txt\n", str(tmp_path), FILES)
    assert (context.line_count, len(context.files), context.folder) == (2, 2, str(tmp_path))
    heading, _, *entries = context.section().split("\n")
    assert heading == "AVAILABLE SUPPORTING FILES"
    assert entries == [
        f"- {os.path.join(tmp_path, 'notes.txt')}",
        f"- {os.path.join(tmp_path, 'reference.md')} (1,200 lines): API",
    ]


@pytest.mark.covers("O-55")
def test_without_files_there_is_no_section() -> None:
    assert supporting_section((), "/skills/x") == ""


@in_part
@pytest.mark.each(
    ("before", "unit", "count"),
    [
        ("", "see ", 100_000),
        ("", "- ", 100_000),
        ("", "[", 200_000),
        ("", "see reference.md ", 50_000),
        ("", "a.md/", 60_000),
        ("- reference.md", " (", 100_000),
    ],
    every=2,
)
def test_no_body_takes_long(before: str, unit: str, count: int, part: float) -> None:
    body = before + unit * int(count * part)
    # Were any of these more than linear, it would take far longer.
    start = time.process_time()
    assert len(supporting_files(body, FILES)) <= 1
    assert time.process_time() - start < 5 * part


def test_many_files_take_no_longer_than_few() -> None:
    names = [f"reference/{'x' * 20}{number}.md" for number in range(2_000)]
    body = "\n".join((*(f"- {name}: Facts" for name in names), *["word. " * 20] * 8_000))
    start = time.process_time()
    assert [file.path for file in supporting_files(body, listing(*names))] == sorted(names)
    assert time.process_time() - start < 1.5
