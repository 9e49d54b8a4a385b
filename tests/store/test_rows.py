"""Values as databases keep them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.store.rows import decode_text, encode_text, new_id, now, require_key

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@given(ANY_TEXT)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    kept = encode_text(text)
    assert decode_text(kept) == text
    assert "\0" not in kept
    kept.encode()  # no half characters


@given(ANY_TEXT, ANY_TEXT)
def test_no_two_texts_are_kept_alike(one: str, other: str) -> None:
    assert (encode_text(one) == encode_text(other)) == (one == other)


@pytest.mark.each("text", ["\ufdd0", "\ufdd00000", "\0", "\ufdd0\0", "\ud800\udfff", "\ufdd0fdd0"])
def test_not_even_the_mark_itself_is_mistaken(text: str) -> None:
    assert decode_text(encode_text(text)) == text
    assert encode_text(text) != text


def test_ids_tell_their_kind_and_nothing_else() -> None:
    ids = {new_id("a") for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(re.fullmatch(r"a-[0-9a-hjkmnp-tv-z]{8}", made) for made in ids)


def test_times_can_be_compared_as_text() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", now())


@pytest.mark.each("key", ["", None, 7, "x" * 2_001, "ü" * 1_001, "\0" * 300])
def test_a_key_that_no_index_could_hold_is_refused(key: object) -> None:
    with pytest.raises(InvalidArgument):
        require_key("name", key)
