"""Values of secrets, out of what is written."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from metier.run import Outcome
from metier.run.job import OutputLine
from metier.session.secret_scrubbing import MARK, MaskedLines, Masks

SECRET = "pa/ss w+örd&%9"


@pytest.mark.covers("S2-10")
@pytest.mark.each(
    "written",
    [
        SECRET,
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
    ],
)
def test_a_value_is_hidden_in_each_of_its_forms(written: str) -> None:
    assert Masks([SECRET]).hide(f"<{written}> and {written}") == f"<{MARK}> and {MARK}"


@pytest.mark.each("before", ["", "u", "us", "usr", "user:"])
@pytest.mark.parametrize("after", ["", "\n", "!!"])
def test_a_value_inside_of_something_in_base64_is_hidden(before: str, after: str) -> None:
    written = base64.b64encode(f"{before}correct-horse-battery{after}".encode()).decode()
    hidden = Masks(["correct-horse-battery"]).hide(written)
    assert MARK in hidden
    left = base64.b64decode(
        hidden.replace(MARK, "").rstrip("=") + "A" * (-len(hidden.replace(MARK, "").rstrip("=")) % 4)
    )
    assert b"horse" not in left
    assert len(hidden.replace(MARK, "")) <= len(base64.b64encode((before + after).encode())) + 4


def test_every_line_of_a_value_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nabcdefgh\nijklmnop\n\nx\n-----END KEY-----\n"
    assert Masks([key]).hide("found: ijklmnop") == f"found: {MARK}"
    assert Masks([key]).hide(key) == MARK
    assert "x" in Masks([key]).hide("x")


@pytest.mark.each("value", ["", "a", "abc"])
def test_what_is_too_short_to_be_told_from_a_word_stays(value: str) -> None:
    masks = Masks([value])
    assert not masks
    assert masks.hide("abcabc") == "abcabc"


def test_a_longer_value_is_hidden_as_a_whole() -> None:
    assert Masks(["token", "token-and-more"]).hide("token-and-more token") == f"{MARK} {MARK}"


def test_what_was_cut_inside_of_a_value_is_hidden_too() -> None:
    masks = Masks(["correct-horse"])
    assert masks.hide("it is correct-ho", is_cut=True) == f"it is {MARK}"
    assert masks.hide("it is correct-ho") == "it is correct-ho"
    assert masks.hide("it is cor", is_cut=True) == "it is cor"


def test_an_outcome_is_hidden_in_both_streams() -> None:
    masks = Masks(["correct-horse"])
    outcome = Outcome(exit_code=0, stdout="correct-horse\n", stderr="x correct-h", stderr_truncated=True)
    assert masks.hide_in(outcome) == Outcome(exit_code=0, stdout=f"{MARK}\n", stderr=f"x {MARK}", stderr_truncated=True)
    ended = Outcome(exit_code=124, stdout="correct-h", timed_out=True, killed_by="timeout")
    assert masks.hide_in(ended).stdout == MARK


@pytest.mark.each("size", [1, 2, 3, 5, 8, 13, 14, 30, 200])
def test_a_line_in_pieces_is_hidden_wherever_it_is_cut(size: int) -> None:
    masks = Masks(["correct-horse", "correct-horse-battery"])
    text = "a correct-horse b" + "y" * 60 + "correct-horse-batter" + "z" * 60 + "correct-horse-battery" + "correct-hors"
    told: list[OutputLine] = []
    lines = MaskedLines(masks, told.append)
    for start in range(0, len(text), size):
        lines(OutputLine(stream="stdout", text=text[start : start + size]))
    lines.finish(is_cut=False)
    assert "".join(line.text for line in told) == masks.hide(text)


def test_the_two_streams_are_held_apart_and_lines_stay_whole() -> None:
    told: list[tuple[str, str]] = []
    lines = MaskedLines(Masks(["correct-horse"]), lambda line: told.append((line.stream, line.text)))
    lines(OutputLine(stream="stdout", text="correct-"))
    lines(OutputLine(stream="stderr", text="horse\n"))
    lines(OutputLine(stream="stdout", text="horse\n"))
    lines(OutputLine(stream="stderr", text="is correct-hor"))
    lines.finish(is_cut=True)
    assert told[:2] == [("stderr", "horse\n"), ("stdout", f"{MARK}\n")]
    assert "".join(text for stream, text in told[2:]) == f"is {MARK}"
