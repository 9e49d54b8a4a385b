"""Unified diffs applied to a text."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.tools.patch import MAX_PATCH_LENGTH, apply_patch

TEXT = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


@pytest.mark.covers("S2-13")
@pytest.mark.each(
    ("patch", "changed"),
    [
        ("@@ -1,2 +1,3 @@\n one\n+half\n two\n", TEXT.replace("two", "half\ntwo")),
        ("@@ -1,3 +1,2 @@\n one\n-two\n three\n", TEXT.replace("two\n", "")),
        ("@@ -2 +2 @@\n-two\n+deux\n", TEXT.replace("two", "deux")),
        ("@@ -0,0 +1 @@\n+zero\n", "zero\n" + TEXT),
        ("@@ -7,0 +8 @@\n+eight\n", TEXT + "eight\n"),
        ("@@ -3,0 +4 @@\n+more\n", TEXT.replace("three\n", "three\nmore\n")),
        ("@@ -1,7 +0,0 @@\n" + "".join(f"-{line}\n" for line in TEXT.split()), ""),
        ("@@ -1,2 +1,2 @@\n-one\n+1\n two\n@@ -6,2 +6,3 @@\n six\n-seven\n+7\n+8\n", "1\n" + TEXT[4:-6] + "7\n8\n"),
        ("--- a/x\n+++ b/x\n@@ -2 +2 @@ def f():\n-two\n+deux\n", TEXT.replace("two", "deux")),
        (
            "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -2 +2 @@\n-two\n+deux",
            TEXT.replace("two", "deux"),
        ),
        ("@@ -2 +2 @@\r\n-two\r\n+deux\r\n", TEXT.replace("two", "deux")),
    ],
)
def test_lines_are_added_removed_and_replaced(patch: str, changed: str) -> None:
    assert apply_patch(TEXT, patch) == changed


@pytest.mark.covers("S2-04", "S2-13")
@pytest.mark.each("end", ["\n", "\r\n", "\r"])
def test_added_lines_end_as_the_others_do(end: str) -> None:
    text = TEXT.replace("\n", end)
    assert apply_patch(text, "@@ -2 +2,2 @@\n-two\n+deux\n+trois\n") == text.replace("two", f"deux{end}trois")


def test_lines_that_stay_keep_their_own_line_ends() -> None:
    assert apply_patch("a\r\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n") == "a\r\nB\nc\n"


@pytest.mark.each(
    ("text", "patch", "changed"),
    [
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n", "a\nc\n"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n", "a\nc"),
        ("a\nb", "@@ -2 +2,2 @@\n b\n+c\n", "a\nb\nc\n"),
        ("", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"),
    ],
)
def test_a_last_line_may_lack_its_line_end(text: str, patch: str, changed: str) -> None:
    assert apply_patch(text, patch) == changed


def test_an_empty_line_of_context_may_have_lost_its_blank() -> None:
    assert apply_patch("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n") == "a\n\nc\n"


def test_lines_that_have_moved_are_found_where_they_are() -> None:
    patch = "@@ -1,2 +1,2 @@\n five\n-six\n+SIX\n@@ -3 +3 @@\n-seven\n+SEVEN\n"
    assert apply_patch(TEXT, patch) == TEXT.replace("six", "SIX").replace("seven", "SEVEN")


@pytest.mark.covers("S2-13")
@pytest.mark.each(
    ("patch", "problem"),
    [
        ("", "no hunk"),
        ("two\n", "no hunk"),
        ("@@ nonsense @@\n-two\n", "is no header"),
        ("@@ -a,1 +1 @@\n-two\n", "is no header"),
        ("@@ -99999999999 +1 @@\n-two\n", "is no header"),
        ("@@ -2 +2 @@\n-two\n", "does not have the lines"),
        ("@@ -2,2 +2 @@\n-two\n+deux\n", "does not have the lines"),
        ("@@ -2 +2 @@\n*two\n", "does not have the lines"),
        ("@@ -0,0 +0,0 @@\n", "does not have the lines"),
        ("@@ -2 +2 @@\n-two\n+deux\nrubbish\n", "is no header"),
        ("@@ -2 +2 @@\n-two\n+deux\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "more than one file"),
        ("@@ -2 +2 @@\n-Two\n+deux\n", "line 2 is 'two', not 'Two'"),
        ("@@ -2 +2 @@\n-two \n+deux\n", "does not fit"),
        ("@@ -7,2 +7 @@\n seven\n-eight\n", "line 8 is beyond the end"),
        ("@@ -99,0 +99 @@\n+x\n", "outside the file"),
        ("@@ -5 +5 @@\n-five\n+5\n@@ -2 +2 @@\n-two\n+2\n", "does not fit|overlaps"),
        ("x" * (MAX_PATCH_LENGTH + 1), "more than"),
    ],
)
def test_a_patch_that_is_broken_or_does_not_fit_is_refused(patch: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        apply_patch(TEXT, patch)


def test_lines_that_stand_in_several_other_places_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than one other place"):
        apply_patch("x\na\ny\na\nz\n", "@@ -1 +1 @@\n-a\n+b\n")


def test_text_made_to_be_slow_to_search_is_searched_all_the_same() -> None:
    lines = ["a\n"] * 50_000
    hunk = [" a\n"] * 20_000 + [" b\n"]
    with pytest.raises(InvalidArgument, match="does not fit"):
        apply_patch("".join(lines), f"@@ -1,{len(hunk)} +1,{len(hunk)} @@\n" + "".join(hunk))


LINES = st.lists(st.sampled_from(["a", "b", "c", "", " ", "-", "+a", "@@", "\\"]), max_size=12)


@given(LINES, LINES, st.integers(0, 3), st.sampled_from(["\n", "\r\n"]))
def test_what_diff_finds_patch_applies(old: list[str], new: list[str], context: int, end: str) -> None:
    patch = "".join(difflib.unified_diff([f"{x}\n" for x in old], [f"{x}\n" for x in new], "a/x", "b/x", n=context))
    before, after = ("".join(f"{line}{end}" for line in lines) for lines in (old, new))
    if patch:
        # Where all of the old text goes, nothing says any more how its lines ended.
        expected = after if old else after.replace(end, "\n")
        assert apply_patch(before, patch) == expected


@given(st.text(alphabet="ab\n", max_size=20), st.text(alphabet="@-+, 12ab\n\\", max_size=60))
def test_any_text_for_a_patch_is_applied_or_refused(text: str, patch: str) -> None:
    try:
        assert isinstance(apply_patch(text, f"@@ -1 +1 @@\n{patch}"), str)
    except InvalidArgument as error:
        assert error.hint
