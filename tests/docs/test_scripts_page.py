"""The page about scripts says what is so."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from metier import Policy
from metier.run import INTERPRETERS, NEEDS

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "scripts.md").read_text(encoding="utf-8")


@pytest.mark.covers("G-44")
def test_the_page_has_the_table_of_interpreters() -> None:
    rows = dict(re.findall(r"^\| `(\.\w+)` \| `([^`]+)` \|$", PAGE, flags=re.MULTILINE))
    assert rows == {extension: " ".join(command) for extension, command in INTERPRETERS.items()}
    assert {".py", ".sh", ".js"} <= rows.keys()


@pytest.mark.each("need", NEEDS)
def test_the_page_names_what_can_be_required(need: str) -> None:
    assert f"`{need}`" in PAGE


@pytest.mark.each("field", [field.name for field in fields(Policy)][-6:])
def test_the_page_names_each_part_of_a_policy_for_what_runs(field: str) -> None:
    assert f"`{field}`" in PAGE
