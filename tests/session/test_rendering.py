"""A skill is rendered with the values of its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.session.substitution import Rendered, is_argument_name, render
from metier.skill import Argument

DECLARED = (Argument(name="name"), Argument(name="title", default="Commander"))


@pytest.mark.covers("G-11")
def test_values_and_defaults_go_where_the_body_asks_for_them() -> None:
    result = render(r"Hello $name, {{ title }}. \$name $1bad {{ unknown }}", DECLARED, {"name": "Alice"})
    assert result.text == "Hello Alice, Commander. $name $1bad {{ unknown }}"
    assert result.applied == {"name": "Alice", "title": "Commander"}
    assert result.unknown == ("unknown",)
    assert len(result.warnings) == 1
    assert "unknown" in result.warnings[0]


@pytest.mark.covers("G-11")
@pytest.mark.each(
    ("declared", "values", "warning"),
    [
        ((Argument(name="a", default="1"), Argument(name="a", default="2")), {}, "declared twice"),
        ((Argument(name="bad-name"),), {}, "'bad-name' is not a valid argument name"),
        ((Argument(name=""),), {}, "'' is not a valid argument name"),
        ((Argument(name="a", required=True),), {}, "required and has no value"),
        ((), {"other": "x"}, "There is no argument other"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said(
    declared: tuple[Argument, ...], values: dict[str, str], warning: str
) -> None:
    result = render("Text.", declared, values)
    assert [warning in said for said in result.warnings] == [True]
    assert result.text == "Text."


@pytest.mark.covers("G-11")
def test_of_two_arguments_with_one_name_the_first_counts() -> None:
    declared = (Argument(name="a", default="1"), Argument(name="a", default="2"))
    assert render("$a", declared).text == "1"


@pytest.mark.covers("G-12")
@pytest.mark.each("name", ["_ok", "a1_b2", "A"])
def test_a_name_of_letters_digits_and_underscores_is_valid(name: str) -> None:
    assert is_argument_name(name)


@pytest.mark.covers("G-12")
@pytest.mark.each("name", ["", "1abc", "bad-name", "bad name", "é", "a\n", None, 3])
def test_any_other_name_is_not(name: Any) -> None:
    assert not is_argument_name(name)


@pytest.mark.covers("G-13")
def test_nothing_gives_nothing() -> None:
    assert render("") == Rendered(text="")
    assert render("", (), {}).warnings == ()


@pytest.mark.each(
    ("body", "text"),
    [
        ("${name} {{name}} {{\tname }}", "Al Al Al"),
        ("$named {{ name", "$named {{ name"),
        ("{{{name}}}", "{Al}"),
        ("$SKILL_DIR {baseDir}", "/s /s"),
        ("$0 $ARGUMENTS[0]", "$0 $ARGUMENTS[0]"),
    ],
)
def test_all_ways_to_write_a_placeholder_work(body: str, text: str) -> None:
    assert render(body, DECLARED, {"name": "Al"}, variables={"SKILL_DIR": "/s"}).text == text


def test_an_argument_without_a_value_is_not_unknown() -> None:
    result = render("$name", (Argument(name="name"),))
    assert (result.text, result.unknown, result.applied) == ("$name", (), {})


def test_only_arguments_that_the_text_uses_are_applied() -> None:
    assert render("$name", DECLARED, {"name": "Al"}).applied == {"name": "Al"}


def test_a_value_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not text"):
        render("$name", DECLARED, {"name": 3})  # type: ignore[dict-item]


@given(st.text(max_size=30) | st.sampled_from(["$title", "{{ title }}", "\\$name", "$name"]))
def test_a_value_is_never_expanded(value: str) -> None:
    assert render("<$name|{{ name }}>", DECLARED, {"name": value}).text == f"<{value}|{value}>"
