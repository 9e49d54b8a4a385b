"""What docstrings say about parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.tools.function_schema import parse_docstring

GOOGLE = """Fetch a page.

    More about it.

    Args:
        url: Where it is:
            the whole address.
        limit (int, optional): How much.
        kind (Literal["a", "b"]): Which.

        **options: More.

    Returns:
        text: The page.
    """
NUMPY = """
    Fetch a page.

    Parameters
    ----------
    url : str
        Where it is:
        the whole address.
    limit : int, optional
        How much.
    kind
        Which.
    options
        More.

    Returns
    -------
    text : str
        The page.
    """
SPHINX = """Fetch a page.

    :param url: Where it is:
        the whole address.
    :param int limit: How much.
    :type limit: int
    :param str kind: Which.
    :param options: More.
    :returns: The page.
    """


@pytest.mark.each("text", [GOOGLE, NUMPY, SPHINX])
def test_parameters_are_described_in_each_style(text: str) -> None:
    said = parse_docstring(text)
    assert said.summary == "Fetch a page."
    assert said.parameters == {
        "url": "Where it is: the whole address.",
        "limit": "How much.",
        "kind": "Which.",
        "options": "More.",
    }


@pytest.mark.each(
    ("text", "summary"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Two\n    lines.\n\nMore.", "Two lines."),
        ("Args:\n    a: The first.", ""),
        ("Do it.\n:param a: The first.", "Do it."),
    ],
)
def test_the_first_paragraph_is_the_summary(text: str | None, summary: str) -> None:
    assert parse_docstring(text).summary == summary


@given(st.text(alphabet=st.sampled_from("a:(-* \nArgsParmte"), max_size=120))
def test_any_docstring_is_read(text: str) -> None:
    assert all(parse_docstring(text).parameters.values())
