"""How many tokens a text costs, near enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.skill import estimate_tokens
from metier.skill.frontmatter import tokens_of


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == 0


@pytest.mark.each(
    ("text", "low", "high"),
    [
        ("Fill the form, then check every field twice.", 7, 11),
        ("word " * 1_000, 800, 1_200),
        ("技能" * 500, 500, 1_200),
        ("Сначала проверьте форму. " * 100, 500, 1_500),
    ],
)
def test_the_estimate_is_of_the_right_size(text: str, low: int, high: int) -> None:
    assert low <= estimate_tokens(text) <= high


@given(st.text(max_size=300))
def test_lengths_alone_give_the_same(text: str) -> None:
    assert estimate_tokens(text) >= 0
    assert estimate_tokens(text) == tokens_of(len(text), len(text.encode(errors="replace")))


def test_a_lone_surrogate_does_not_raise() -> None:
    assert estimate_tokens("\ud800") >= 0
