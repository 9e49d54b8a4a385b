"""Path patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.tools.builtin.search import PathPattern


@pytest.mark.each(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "b/c/a.py", True),
        ("b/**", "b/c/a.py", True),
        ("b/**", "b", True),
        ("b/**/a.py", "b/a.py", True),
        ("b/**/**/a.py", "b/x/y/a.py", True),
        ("b/*/a.py", "b/a.py", False),
        ("./b//a.py", "b/a.py", True),
        ("?.py", "a.py", True),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("*.{py,pyi}", "a.pyi", True),
        ("{a,b}/{c,d}.md", "b/c.md", True),
        ("{a,b}/{c,d}.md", "b/e.md", False),
        ("{a,{b,c}}.md", "c.md", True),
        ("a.md", "A.md", False),
        (".*", ".hidden", True),
        ("**", "any/thing", True),
        ("a{b", "a{b", True),
        ("a.b", "axb", False),
    ],
)
def test_paths_fit_patterns(pattern: str, path: str, fits: bool) -> None:
    assert PathPattern(pattern).matches(path) is fits


@pytest.mark.each("pattern", ["", "  ", "a\0", "../x", "a/../b", "x" * 2_000, "{a,b}" * 10])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgument):
        PathPattern(pattern)


def test_a_pattern_made_to_be_slow_gives_an_answer() -> None:
    assert not PathPattern("**/a/" * 60 + "b").matches("a/" * 1_000 + "c")
    assert not PathPattern("*a" * 100 + "b").matches("a" * 255)


@given(st.text(alphabet="a*?[]!-{},/.", max_size=20), st.text(alphabet="ab/.", min_size=1, max_size=10))
def test_any_pattern_gives_an_answer(pattern: str, path: str) -> None:
    try:
        assert PathPattern(pattern).matches(path) in (True, False)
    except InvalidArgument as error:
        assert error.hint
