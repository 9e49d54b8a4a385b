"""A text is made shorter at the end of a sentence or a word, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find.catalog_format import shortened


def in_bytes(text: str) -> int:
    return len(text.encode())


def in_json(text: str) -> int:
    return len(json.dumps(text))


@pytest.mark.each(
    ("text", "limit", "expected"),
    [
        ("Fill PDF forms.", 15, "Fill PDF forms."),
        ("Fill PDF forms.", 100, "Fill PDF forms."),
        ("", 0, ""),
        ("", 10, ""),
        ("Fill PDF forms. Use it for tax forms.", 20, "Fill PDF forms."),
        ("Fill PDF forms! Use it for tax forms.", 20, "Fill PDF forms!"),
        ("Fill forms? Use it for tax forms.", 14, "Fill forms?"),
        ("Fill PDF forms and sign them", 20, "Fill PDF forms and…"),
        ("Fill PDF forms, and sign them", 16, "Fill PDF forms…"),
        ("Fill PDF forms: and sign them", 16, "Fill PDF forms…"),
        ("Hi. Fill PDF forms and sign them", 30, "Hi. Fill PDF forms and sign…"),
        ("Uses v1.2 of forms and more", 12, "Uses v1.2…"),
        ("Fill forms", 4, "Fil…"),
        ("Fill forms", 5, "Fill…"),
        ("Fill forms", 1, ""),
        ("Fill forms", 0, ""),
        ("Fill forms", -1, ""),
        ("Incomprehensibilities", 10, "Incompreh…"),
        ("填写表单。然后签名和提交。", 8, "填写表单。"),
        ("填写表单然后签名", 5, "填写表单…"),
    ],
)
def test_a_text_is_cut_where_it_hurts_least(text: str, limit: int, expected: str) -> None:
    assert shortened(text, limit, len) == expected


@pytest.mark.each("size", [len, in_bytes, in_json])
def test_the_size_is_measured_as_asked(size: Callable[[str], int]) -> None:
    text = 'Ünïcödé "wörds" and\\or 表单 ' * 10
    for limit in range(5, 300):
        assert size(shortened(text, limit, size)) <= limit


def test_more_room_never_gives_fewer_whole_words() -> None:
    text = " ".join(f"word{number}" for number in range(50))
    lengths = [len(shortened(text, limit, len)) for limit in range(len(text) + 1)]
    assert lengths == sorted(lengths)


# Without the marks that are dropped before an ellipsis.
plain = st.text("ab é表 \n!?。…<&\"\\'🎉", max_size=80)


@given(plain, st.integers(0, 90), st.sampled_from([len, in_bytes]))
def test_what_is_left_is_a_beginning_within_the_limit(text: str, limit: int, size: Callable[[str], int]) -> None:
    short = shortened(text, limit, size)
    assert size(short) <= limit
    if size(text) <= limit:
        assert short == text
    else:
        assert text.startswith(short.removesuffix("…"))
        assert short == "" or short.endswith(("…", ".", "!", "?", "。"))


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=2, max_size=15), st.integers(8, 60))
def test_no_word_is_cut_in_two(words: list[str], limit: int) -> None:
    left = shortened(" ".join(words), limit, len).removesuffix("…").split(" ")
    assert left == words[: len(left)]


@given(st.text(max_size=80), st.integers(-2, 90))
def test_any_text_is_cut_to_a_beginning_of_itself(text: str, limit: int) -> None:
    assert text.startswith(shortened(text, limit, in_utf8).removesuffix("…"))


def in_utf8(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


@pytest.mark.each(("text", "limit"), [("a... b", 3), ("Wait.......... what", 6), ("a -. b", 3)])
def test_a_sentence_that_ends_in_many_marks_keeps_the_limit(text: str, limit: int) -> None:
    assert len(shortened(text, limit, len)) <= limit


@pytest.mark.each(("text", "limit"), [("example.com/very/long", 9), ("README.markdown", 8)])
def test_a_word_cut_in_two_is_never_silent(text: str, limit: int) -> None:
    assert shortened(text, limit, len).endswith("…")
