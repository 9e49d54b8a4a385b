"""Lines and tables of any text at any width, and the stream that breaks lines for a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import thinned

from metier.cli.layout import columns_of, row_lines, width_of, wrap_line
from metier.cli.output import WrappingStream


@thinned("width", [1, 2, 7, 20, 80], one_in=2)
@given(texts=st.lists(st.text(alphabet=st.sampled_from("ab `技。「🎉e\u0301-/"), max_size=60), min_size=3, max_size=3))
def test_any_text_is_laid_out_with_all_of_its_characters(width: int, texts: list[str]) -> None:
    columns = columns_of([texts], width)
    laid = "".join("".join(row_lines(texts, columns, width)).split())
    assert sorted(laid) == sorted("".join("".join(texts).split()))
    line = " ".join(texts)
    assert "".join("".join(wrap_line(line, width)).split()) == "".join(line.split())


@pytest.mark.parametrize("width", [20, 80])
@given(text=st.text(alphabet=st.sampled_from("ab 技。「🎉e\u0301"), max_size=200))
def test_no_line_is_wider_than_its_longest_word_asks_for(width: int, text: str) -> None:
    for line in wrap_line(text, width):
        assert width_of(line) <= width or len(line.split()) == 1


def test_a_command_between_backticks_stays_on_one_line() -> None:
    text = "Look at it with `metier approve show r-7f3k2m9q`, and name the request by its id."
    assert "`metier approve show r-7f3k2m9q`," in [line.strip() for line in wrap_line(text, 36)]


def test_a_text_that_goes_on_never_begins_a_line_of_its_own() -> None:
    assert all(line.startswith("  ") for line in wrap_line("✓ all fine " * 20 + "x" * 79, 80)[1:])


@pytest.mark.each("text", ["技能" * 30, "café " * 30, "👍🏽 " * 30, "⚠\ufe0f " * 40])
def test_cells_are_counted_and_not_characters(text: str) -> None:
    lines = wrap_line(text, 40)
    assert len(lines) > 1
    assert all(width_of(line) <= 40 for line in lines)


def test_a_line_that_is_flushed_before_its_end_stays_as_it_is() -> None:
    out = io.StringIO()
    stream = WrappingStream(out, 10)
    stream.write("one two three")
    stream.flush()
    stream.write(" four five\nsix seven eight\n")
    assert out.getvalue() == "one two three four five\nsix seven\n  eight\n"


def test_after_a_line_that_is_taken_back_lines_are_broken_again() -> None:
    out = io.StringIO()
    stream = WrappingStream(out, 10)
    for text in ("\rReading 1 of 2", "\r\x1b[K"):
        stream.write(text)
        stream.flush()
    stream.write("one two three\n")
    assert out.getvalue().endswith("\x1b[Kone two\n  three\n")
