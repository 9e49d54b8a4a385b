"""Writing a SKILL.md that reads back the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import MetierError, SkillInvalid
from metier.skill import parse, write_skill
from metier.skill.validate import check_strictly


@pytest.mark.covers("G-04")
def test_what_is_written_reads_back_with_every_field() -> None:
    fields = {
        "name": "weekly-report",
        "description": "Write it. Use when: asked, or it is Friday.",
        "version": "1.10",
        "tags": ["writing", "reports"],
        "custom": {"nested": ["yes", "~", "2026-01-02"]},
    }
    document = parse(write_skill(fields, "# Weekly report\n\nDo it."), folder="weekly-report")
    assert document.skill.frontmatter == fields
    assert document.skill.display_name == "Weekly report"
    assert document.skill.extra == {"custom": fields["custom"]}
    assert document.body == "# Weekly report\n\nDo it."
    assert document.skill.diagnostics == ()


@pytest.mark.covers("G-04")
@pytest.mark.each(
    "fields",
    [
        {"name": "Bad Name"},
        {"name": "../x"},
        {"description": ""},
        {"description": "x" * 1_025},
        {"insert": "somewhere"},
        {"arguments": [{"name": "a"}, {"name": "a"}]},
        {"arguments": [{"name": "1a"}]},
        {"tags": [" untrimmed"]},
        {"tags": "alone"},
        {"metadata": "no map"},
        {"extra": b"bytes"},
    ],
)
def test_an_invalid_document_is_not_written(fields: dict[str, Any]) -> None:
    with pytest.raises(SkillInvalid, match="invalid Skill document"):
        write_skill({"name": "a", "description": "Does it.", **fields}, "Do it.")


@pytest.mark.covers("G-04")
@pytest.mark.each("body", ["half \ud800 character", "a\0b", "esc \x1b[2J"])
def test_a_body_that_is_no_text_is_not_written(body: str) -> None:
    with pytest.raises(SkillInvalid):
        write_skill({"name": "a", "description": "Does it."}, body)


@given(description=st.text(min_size=1, max_size=60), body=st.text(max_size=80), value=st.text(max_size=30))
def test_anything_is_written_faithfully_or_refused(description: str, body: str, value: str) -> None:
    fields = {"name": "a", "description": description, "metadata": {"key": value}}
    try:
        data = write_skill(fields, body)
    except MetierError:
        return
    assert parse(data).skill.frontmatter == fields
    assert parse(data).body == body.strip()
    assert [found.code for found in check_strictly(data, folder="a")] == []
