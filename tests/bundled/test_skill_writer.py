"""The skill that teaches to write skills."""

from __future__ import annotations

from pathlib import Path

SKILL = Path(__file__).parents[2] / "src/metier/bundled/skill-writer"
BODY = (SKILL / "SKILL.md").read_text("utf-8")


def test_the_check_to_run_is_named() -> None:
    assert "metier validate NAME --strict" in BODY


def test_the_way_to_start_a_skill_is_named() -> None:
    assert "`metier new NAME`" in BODY


def test_the_format_reference_covers_every_field() -> None:
    text = (SKILL / "references/format.md").read_text("utf-8")
    fields = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"]
    assert [field for field in fields if f"| `{field}` |" not in text] == []


def test_the_descriptions_reference_has_good_and_bad_examples() -> None:
    text = (SKILL / "references/descriptions.md").read_text("utf-8")
    assert text.count("| Bad:") >= 3
    assert text.count("| Good:") >= 3


def test_the_template_has_a_description_and_places_to_fill_in() -> None:
    text = (SKILL / "assets/SKILL.template.md").read_text("utf-8")
    assert text.startswith("---\nname: {{")
    assert "\ndescription: {{" in text
    assert text.count("{{") == text.count("}}")
