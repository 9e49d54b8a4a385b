"""Arguments as a model gives them: plain values, or a reason why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.tools.arguments import MAX_ARGUMENT_BYTES, Misfit, read_arguments

LONE = st.text(alphabet=st.sampled_from("a\ud800é"), max_size=3)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | LONE | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=15,
)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


class Odd(Mapping[str, Any]):
    """A mapping that fails when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.each(
    ("given", "read"),
    [
        (None, {}),
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": [1, 2.5, null, true, "é"]}', {"a": [1, 2.5, None, True, "é"]}),
        (b'{"a": 1}', {"a": 1}),
        (MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        (nested(60), nested(60)),
    ],
)
def test_arguments_are_read_as_plain_values(given: Any, read: dict[str, Any]) -> None:
    assert read_arguments(given) == read


@pytest.mark.each(
    ("given", "problem"),
    [
        ([], "are a list, not an object"),
        ("[1]", "are a list, not an object"),
        ("3", "are a whole number, not an object"),
        ('"{}"', "are text, not an object"),
        (3.5, "are a number"),
        (object(), "something that JSON does not have"),
        ("{", "not JSON"),
        ("{'a': 1}", "not JSON"),
        (b"\xff{}", "not JSON"),
        ('{"a": NaN}', "nan for a number"),
        ('{"a": -Infinity}', "-inf for a number"),
        ({"a": float("inf")}, "inf for a number"),
        ({"a": {1}}, "JSON does not have: set"),
        ({"a": b"x"}, "JSON does not have: bytes"),
        ({1: 2}, "a whole number for a name"),
        ({"a": {None: 2}}, "null for a name"),
        ({"a": "\ud800"}, "half a character"),
        ({"\udfff": 1}, "half a character"),
        ('{"a": "\\ud800"}', "half a character"),
        ({"a": 10**400}, "number that is too large"),
        ('{"a": ' + "1" * 5_000 + "}", "not JSON"),
        (nested(100), "nested more than"),
        ("[" * 100_000, "nested more than|not JSON"),
        ('{"a":' * 500 + "1" + "}" * 500, "nested more than"),
        ({"a": "x" * MAX_ARGUMENT_BYTES}, "larger than"),
        ({"a": "é" * (MAX_ARGUMENT_BYTES // 2)}, "larger than"),
        ('{"a": "' + "x" * MAX_ARGUMENT_BYTES + '"}', "larger than"),
        ({"a": [0] * MAX_ARGUMENT_BYTES}, "larger than"),
        (Odd(), r"cannot be read \(RuntimeError\)"),
    ],
)
def test_what_cannot_be_arguments_is_explained(given: Any, problem: str) -> None:
    read = read_arguments(given)
    assert isinstance(read, Misfit)
    assert re.search(problem, read.problem), read.problem
    assert read.hint


def test_values_that_share_their_parts_are_counted_as_often_as_they_occur() -> None:
    value: list[Any] = ["x"]
    for _ in range(40):
        value = [value, value]
    assert isinstance(read_arguments({"a": value}), Misfit)


def test_arguments_are_copied() -> None:
    given = {"a": [1]}
    read = read_arguments(given)
    given["a"].append(2)
    assert read == {"a": [1]}


@given(ANYTHING)
def test_anything_is_read_or_explained(given: Any) -> None:
    read = read_arguments(given)
    if isinstance(read, Misfit):
        assert read.problem.isprintable()
        assert read.hint
    else:
        assert json.loads(json.dumps(read, allow_nan=False)) == read
        assert read_arguments(read) == read
