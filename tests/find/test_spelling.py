"""A typing mistake is recognised by what is left of both words without one letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find.lexicon import is_one_slip, variants

words = st.text("abcdeé表", min_size=5, max_size=15)


@pytest.mark.each(
    ("one", "other"),
    [
        ("deplyo", "deploy"),
        ("form", "from"),
        ("deploy", "deploy"),
        ("deploys", "deploy"),
        ("eploy", "deploy"),
        ("deeploy", "deploy"),
        ("depley", "deploy"),
        ("xeploy", "deploy"),
        ("deplox", "deploy"),
        ("edploy", "deploy"),
        ("aaaa", "aaaaa"),
    ],
)
def test_one_slip_of_a_finger_is_recognised_both_ways(one: str, other: str) -> None:
    assert is_one_slip(one, other)
    assert is_one_slip(other, one)
    assert variants(one) & variants(other)


@pytest.mark.each(
    ("one", "other"),
    [
        ("deploy", "delpyo"),
        ("deploy", "dploxy"),
        ("deploy", "deployed"),
        ("deploy", ""),
        ("pdf", "csv"),
        ("abcd", "abdce"),
        ("abcd", "dbca"),
    ],
)
def test_two_slips_are_another_word(one: str, other: str) -> None:
    assert not is_one_slip(one, other)
    assert not is_one_slip(other, one)


@pytest.mark.each("word", ["", "a", "pdf", "x" * 17, "x" * 100_000])
def test_a_word_too_short_or_too_long_is_not_guessed_at(word: str) -> None:
    assert variants(word) == set()


@pytest.mark.each("word", ["form", "x" * 16])
def test_a_word_of_a_usual_length_has_itself_among_its_variants(word: str) -> None:
    assert word in variants(word)


@given(words, st.data())
def test_any_one_slip_shares_a_variant(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 2))
    letter = data.draw(st.sampled_from("axé"))
    for slip in (
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        word[:at] + letter + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    ):
        assert is_one_slip(word, slip)
        assert variants(word) & variants(slip)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_slip_goes_both_ways(one: str, other: str) -> None:
    assert is_one_slip(one, other) == is_one_slip(other, one)
