"""Lines counted from 1, with their own line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.tools.patch import line_range, split_lines, usual_line_end

TEXTS = st.text(alphabet="ab\r\n\x0b\u2028", max_size=30)


@pytest.mark.covers("S2-04", "S2-13")
@pytest.mark.each("end", ["\n", "\r\n", "\r"])
def test_lines_two_to_three_are_the_second_alone(end: str) -> None:
    assert line_range(f"one{end}two{end}three{end}", 2, 3) == f"two{end}"


@pytest.mark.covers("S2-13")
@pytest.mark.each(
    ("start", "end", "lines"),
    [
        (1, None, "one\r\ntwo\rthree\nfour"),
        (1, 1, ""),
        (1, 2, "one\r\n"),
        (2, 4, "two\rthree\n"),
        (4, 5, "four"),
        (3, 99, "three\nfour"),
        (5, 9, ""),
        (99, None, ""),
        (3, 2, ""),
        (0, 2, "one\r\n"),
        (-5, 2, "one\r\n"),
        (1, -1, ""),
    ],
)
def test_a_range_of_mixed_lines_is_cut_to_what_there_is(start: int, end: int | None, lines: str) -> None:
    assert line_range("one\r\ntwo\rthree\nfour", start, end) == lines


@given(TEXTS)
def test_lines_put_together_are_the_text(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == len(text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")) - (not text)


@given(TEXTS, st.integers(-2, 9), st.integers(-2, 9))
def test_two_ranges_that_meet_are_one(text: str, start: int, end: int) -> None:
    whole = line_range(text, start)
    assert line_range(text, start, max(start, end)) + line_range(text, max(start, end)) == whole


@pytest.mark.each(
    ("text", "end"), [("", "\n"), ("a", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a\nb\r\n", "\n")]
)
def test_the_usual_line_end_is_that_of_most_lines(text: str, end: str) -> None:
    assert usual_line_end(split_lines(text)) == end
