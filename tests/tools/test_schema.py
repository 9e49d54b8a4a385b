"""Schemas of tools, and arguments that do not fit them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.tools.arguments import Schema, schema_of

SCHEMA = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "lines": {"type": "integer", "minimum": 1},
        "mode": {"enum": ["fast", "slow", None, 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "env": {"type": ["null", "object"]},
        "word": {"type": "string", "pattern": "^[a-z]+$"},
    },
    "required": ["file_path"],
    "additionalProperties": False,
}


@pytest.mark.each(
    ("arguments", "problem", "hint"),
    [
        ({}, "The argument 'file_path' is missing.", "The arguments are 'file_path', 'lines'"),
        ({"file_path": 3}, "'file_path' must be text, not a whole number (3).", ""),
        ({"file_path": None}, "'file_path' must be text, not null.", ""),
        ({"file_path": "a", "lines": "3"}, "'lines' must be a whole number, not text (\"3\").", "without quotes: 3"),
        ({"file_path": "a", "lines": 3.5}, "'lines' must be a whole number, not a number (3.5).", ""),
        ({"file_path": "a", "lines": True}, "'lines' must be a whole number, not a boolean.", ""),
        ({"file_path": "a", "lines": 0}, "'lines' does not fit: 0 is less than the minimum of 1.", ""),
        ({"file_path": "a", "mode": "x"}, "'mode' must be one of \"fast\", \"slow\", null, 3; it is \"x\".", ""),
        ({"file_path": "a", "tags": "[]"}, "'tags' must be a list, not text (\"[]\").", "not as text that holds JSON"),
        ({"file_path": "a", "tags": ["b", 2]}, "'tags[1]' must be text, not a whole number (2).", ""),
        ({"file_path": "a", "where": {}}, "The argument 'where.x' is missing.", ""),
        ({"file_path": "a", "where": {"x": "1"}}, "'where.x' must be a number, not text (\"1\").", ""),
        ({"file_path": "a", "env": "A=1"}, "'env' must be a dictionary or null, not text (\"A=1\").", ""),
        ({"file_path": "a", "word": "A"}, "'word' does not fit", ""),
        ({"file_path": "a", "filepath": 1}, "There is no argument 'filepath'.", "Did you mean 'file_path'?"),
        ({"file_path": "a", "\x1b[2J": 1}, "There is no argument '\\\\x1b[2J'.", "The arguments are"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_explained(arguments: dict[str, Any], problem: str, hint: str) -> None:
    misfit = Schema(SCHEMA).misfit(arguments)
    assert misfit is not None
    assert problem in misfit.problem
    assert hint in misfit.hint
    assert misfit.hint


def test_a_long_list_of_problems_is_cut() -> None:
    misfit = Schema(SCHEMA).misfit({"file_path": "a", "tags": list(range(1_000)), "lines": "x" * 100_000})
    assert misfit is not None
    assert len(misfit.problem) < 1_000
    assert "more that does not fit" in misfit.problem


@pytest.mark.parametrize(
    "arguments",
    [{"file_path": "a"}, {"file_path": "", "lines": 1, "mode": None, "tags": [], "where": {"x": 1}, "env": None}],
)
def test_arguments_that_fit_have_no_misfit(arguments: dict[str, Any]) -> None:
    assert Schema(SCHEMA).misfit(arguments) is None


@pytest.mark.each(
    "parameters",
    [
        None,
        [],
        "object",
        {},
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"minimum": float("inf")}}},
        {"type": "object", "$ref": "#/nowhere"},
        {"type": "object", "$schema": "https://example.org/unheard-of"},
        {"type": "object", "properties": {"a": {"enum": [{1, 2}]}}},
    ],
)
def test_what_is_no_schema_is_refused(parameters: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Schema(parameters)
    assert caught.value.hint


@pytest.mark.each("reference", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "other.json"])
def test_nothing_is_fetched_for_a_schema(reference: str) -> None:
    with pytest.raises(InvalidArgument, match="no valid JSON schema"):
        Schema({"type": "object", "properties": {"a": {"$ref": reference}}})


def test_a_schema_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(InvalidArgument):
        Schema({"type": "object", **schema})


@pytest.mark.each("pattern", [r"^(a+)+$", r"^(a|aa)+$", r"^(a+)+\1$", r"^(?=(a+)+b).*$"])
def test_a_pattern_made_to_be_slow_gives_an_answer(pattern: str) -> None:
    schema = Schema({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    assert schema.misfit({"a": "a" * 5_000 + "!"}) is not None


def test_the_same_parameters_are_checked_once() -> None:
    parameters = {"type": "object"}
    assert schema_of(parameters) is schema_of(parameters)
    assert schema_of(dict(parameters)) is not schema_of(parameters)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
NAMES = st.sampled_from([*SCHEMA["properties"], "other"]) | st.text(max_size=5)  # type: ignore[misc]


@given(st.dictionaries(NAMES, JSON, max_size=6))
def test_any_arguments_fit_or_are_explained_in_short(arguments: dict[str, Any]) -> None:
    misfit = Schema(SCHEMA).misfit(arguments)
    if misfit is not None:
        assert misfit.problem.isprintable()
        assert misfit.hint.isprintable()
        assert 0 < len(misfit.problem) < 10_000
