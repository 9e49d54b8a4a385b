"""Listing modes: which of several patterns and files counts."""

from __future__ import annotations

import pytest

from metier.skill.listing import MODES, ListingMode, Listings


def merged(*layers: dict[str, ListingMode]) -> Listings:
    """Layers, the strongest first."""
    found = Listings()
    for number, layer in enumerate(layers):
        found += Listings.of(layer, f"file {number}")
    return found


# Layers with the strongest first; the skill; its mode, and the number of the layer that sets it.
CASES: list[tuple[list[dict[str, ListingMode]], str, ListingMode, int]] = [
    ([{"pdf": "off"}, {"pdf": "pinned"}], "pdf", "off", 0),
    ([{"pdf": "pinned"}, {"pdf": "off"}], "pdf", "off", 1),
    ([{"pdf": "name-only"}, {"pdf": "manual"}], "pdf", "manual", 1),
    ([{"*": "manual"}, {"pdf": "listed"}], "pdf", "manual", 0),
    ([{"*": "name-only", "pdf": "listed"}], "pdf", "listed", 0),
    ([{"*": "off", "pdf*": "name-only", "pdf-forms": "pinned"}], "pdf-forms", "pinned", 0),
    ([{"*": "off", "pdf*": "name-only", "pdf-forms": "pinned"}], "pdf-text", "name-only", 0),
    ([{"pdf": "pinned"}, {"pdf": "listed"}], "pdf", "listed", 1),
    ([{"pdf": "pinned"}, {"*": "listed"}], "pdf", "pinned", 0),
    ([{"*": "listed"}, {"p*": "pinned"}], "pdf", "pinned", 1),
    ([{"PDF": "off"}], "pdf", "off", 0),
    ([{"p\u0434f": "off"}], "pdf", "listed", -1),
]


@pytest.mark.each(("layers", "name", "mode", "by"), CASES)
def test_the_strictest_file_and_the_most_precise_pattern_count(
    layers: list[dict[str, ListingMode]], name: str, mode: ListingMode, by: int
) -> None:
    rule = merged(*layers).rule_for(name)
    assert merged(*layers).mode(name) == mode
    assert rule is None if by < 0 else rule is not None and rule.origin == f"file {by}"


def test_a_source_is_more_precise_than_a_name() -> None:
    listings = merged({"pdf": "off", "pdf@acme": "listed"})
    assert (listings.mode("pdf", "acme"), listings.mode("pdf", "other")) == ("listed", "off")


@pytest.mark.each("mode", [mode for mode in MODES if mode not in ("pinned", "listed")])
def test_a_name_that_imitates_another_has_its_restrictions_and_no_exceptions(mode: ListingMode) -> None:
    imitation = "d\u0430ta"
    assert merged({"data": mode}).mode(imitation) == mode
    assert merged({"*": mode, "data": "listed"}).mode(imitation) == mode
    assert merged({"*": mode, "data": "listed"}).mode("data") == "listed"


def test_no_closer_layer_loosens_what_a_stronger_one_keeps_from_models() -> None:
    for strong in MODES[2:]:
        for weak in MODES:
            for pattern in ("pdf", "p*", "*", "pdf@acme"):
                found = merged({"pdf": strong}, {pattern: weak}).mode("pdf", "acme")
                assert MODES.index(found) >= MODES.index(strong)
