"""Tables of cases that are the product of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

in_part = pytest.mark.parametrize("part", [0.3, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
"""For a test of long texts: they have a part of their length in `make test`, and all of it in `make test-slow`."""


def thinned(
    names: str | tuple[str, ...], cases: Iterable[Any], *, one_in: int, ids: Any = None, **more: Any
) -> pytest.MarkDecorator:
    """A test for every case of a table of variants: one in so many in `make test`, all in `make test-slow`."""
    one = isinstance(names, str)
    params = [
        pytest.param(*((case,) if one else case), marks=[] if number % one_in == 0 else [pytest.mark.slow])
        for number, case in enumerate(cases)
    ]
    return pytest.mark.parametrize(names, params, ids=ids, **more)


def crossed(*columns: tuple[str | tuple[str, ...], Iterable[Any]], one_in: int) -> pytest.MarkDecorator:
    """A test for every combination: one in so many in `make test`, with each value among them; all in `make test-slow`.

    A column is the name of an argument with its values, or the names of several with theirs.
    """
    names = [name for column, _ in columns for name in ((column,) if isinstance(column, str) else column)]
    values = [[(value,) if isinstance(column, str) else value for value in some] for column, some in columns]
    cases, tried = [], [set[int]() for _ in columns]
    for numbers in itertools.product(*(range(len(some)) for some in values)):
        case = [part for some, number in zip(values, numbers, strict=True) for part in some[number]]
        is_quick = sum(numbers) % one_in == 0
        cases.append(pytest.param(*case, marks=[] if is_quick else [pytest.mark.slow]))
        for seen, number in zip(tried, numbers, strict=True):
            seen.update([number] if is_quick else [])
    assert [len(seen) for seen in tried] == [len(some) for some in values], "some value is in no quick case"
    return pytest.mark.parametrize(names, cases)
