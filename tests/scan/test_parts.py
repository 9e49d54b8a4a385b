"""Markdown taken apart: what is prose, what is code, what is a comment, and on which line."""

from __future__ import annotations

import pytest

from metier.scan.parts import parts_of


def shape(text: str) -> list[tuple[str, int, str]]:
    return [(part.kind, part.line, part.text.strip()) for part in parts_of(text)]


@pytest.mark.each(
    ("text", "expected"),
    [
        ("", []),
        ("Just words.", [("prose", 1, "Just words.")]),
        ("---\nname: a\n---\nDo it.", [("frontmatter", 2, "name: a"), ("prose", 4, "Do it.")]),
        ("\n\n---\nname: a\n---\n\nDo it.", [("frontmatter", 4, "name: a"), ("prose", 6, "Do it.")]),
        ("Intro\n---\nname: a\n---\nx", [("prose", 1, "Intro"), ("frontmatter", 3, "name: a"), ("prose", 5, "x")]),
        ("a\n```\nb\n```\nc", [("prose", 1, "a"), ("code", 3, "b"), ("prose", 5, "c")]),
        ("~~~\nb\n```\n~~~\nc", [("code", 2, "b\n```"), ("prose", 5, "c")]),
        ("````\n```\nb\n```\n````\nc", [("code", 2, "```\nb\n```"), ("prose", 6, "c")]),
        ("- x\n\n    ```sh\n    b\n    ```\nc", [("prose", 1, "- x"), ("code", 4, "b"), ("prose", 6, "c")]),
        ("1. ```sh\n   b\n   ```\nc", [("code", 2, "b"), ("prose", 4, "c")]),
        ("> ```\n> b\n> ```\nc", [("code", 2, "> b"), ("prose", 4, "c")]),
        ("a `x` ```b``` c", [("prose", 1, "a `x` ```b``` c")]),
        ("a\n```\nb", [("prose", 1, "a"), ("code", 3, "b"), ("prose", 3, "b")]),
        ("a\n```sh", [("prose", 1, "a"), ("code", 2, "")]),
        ("a <!-- b\nc --> d", [("comment", 1, "b\nc"), ("prose", 1, "a \n d")]),
        ("a\n<!-- b", [("comment", 2, "b"), ("prose", 1, "a\n<!-- b")]),
        ("a `<!--` b <!-- c -->", [("comment", 1, "c"), ("prose", 1, "a `<!--` b")]),
        ("<!--\n```\nb\n```\n-->\nc", [("comment", 1, "```\nb\n```"), ("prose", 1, "c")]),
        ("```\n<!-- b -->\n```\nc", [("code", 2, "<!-- b -->"), ("prose", 4, "c")]),
    ],
)
def test_a_text_has_these_parts(text: str, expected: list[tuple[str, int, str]]) -> None:
    assert shape(text) == expected


def test_words_on_both_sides_of_a_comment_stand_together() -> None:
    prose = [part.text for part in parts_of("ignore <!-- x --> all <!-- y -->rules")][-1]
    assert " ".join(prose.split()) == "ignore all rules"


@pytest.mark.each(
    ("fence", "language"),
    [
        ("```bash", "shell"),
        ("``` console", "shell"),
        ("~~~ {.py .numberLines}", "python"),
        ("```PowerShell", "powershell"),
        ("```ts title='a.ts'", "typescript"),
        ("```", ""),
        ("```!", ""),
        ("```made-up", "made-up"),
    ],
)
def test_the_language_of_a_fence_goes_by_one_name(fence: str, language: str) -> None:
    closing = fence[:3]
    assert [part.language for part in parts_of(f"{fence}\nx\n{closing}\n")] == [language]
