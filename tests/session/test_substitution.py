"""Placeholders are replaced once, from left to right, and nothing in a value is a placeholder."""

from __future__ import annotations

import os
import re
import time
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.session.substitution import (
    MAX_ARGUMENTS,
    MAX_LISTED,
    Segment,
    new_session_id,
    split_arguments,
    standard_variables,
    substitute,
)
from metier.skill import Argument

VARIABLES = standard_variables(
    workspace="/project", skill_dir="/skills/x", session_id="s-1", user="ada", today=date(2026, 1, 27)
)


@pytest.mark.covers("O-56")
@pytest.mark.each(
    ("body", "text"),
    [
        ("$ARGUMENTS", "one two"),
        ("${ARGUMENTS}", "one two"),
        ("$USER on $DATE", "ada on 2026-01-27"),
        ("${SKILL_DIR}/a $SKILL_DIR/a $SKILL_ROOT/a", "/skills/x/a /skills/x/a /skills/x/a"),
        ("${WORKSPACE} $WORKSPACE", "/project /project"),
        ("${CLAUDE_SESSION_ID} $SESSION_ID", "s-1 s-1"),
        ("${CLAUDE_SKILL_DIR} ${HERMES_SKILL_DIR} {baseDir}/x", "/skills/x /skills/x /skills/x/x"),
        ("${CLAUDE_PLUGIN_ROOT} ${CLAUDE_PROJECT_DIR}", "/skills/x /project"),
        ("$USERNAME $USER_ID {USER} $$USER", "$USERNAME $USER_ID {USER} $ada"),
        ("Grüße, $USER ✓", "Grüße, ada ✓"),
    ],
)
def test_standard_variables_are_replaced(body: str, text: str) -> None:
    assert substitute(body, variables=VARIABLES, arguments="one two", append=False).text == text


@pytest.mark.covers("O-56", "O-86")
def test_replacements_are_counted() -> None:
    assert substitute("$USER $USER ${DATE} $HOME", variables=VARIABLES).count == 3
    assert substitute("$USER é " * 300, variables=VARIABLES).count == 300


@pytest.mark.covers("O-57")
@pytest.mark.each(
    ("body", "arguments", "text"),
    [
        ("Do it.", "data.csv", "Do it.\n\nARGUMENTS: data.csv"),
        ("", "data.csv", "\n\nARGUMENTS: data.csv"),
        ("Do $ARGUMENTS.", "data.csv", "Do data.csv."),
        ("Do $0.", "data.csv", "Do data.csv."),
        ("Do $ARGUMENTS[0].", "data.csv", "Do data.csv."),
        ("Do $name.", "data.csv", "Do data.csv."),
        ("Do it.", "", "Do it."),
        ("Do it.", "  ", "Do it."),
        (r"Do \$ARGUMENTS.", "x", "Do $ARGUMENTS.\n\nARGUMENTS: x"),
        ("It costs $9.", "x", "It costs $9.\n\nARGUMENTS: x"),
    ],
)
def test_arguments_that_the_body_does_not_ask_for_are_appended(body: str, arguments: str, text: str) -> None:
    declared = (Argument(name="name"),)
    assert substitute(body, variables=VARIABLES, arguments=arguments, declared=declared).text == text


@pytest.mark.covers("O-57")
def test_appending_can_be_switched_off() -> None:
    assert substitute("Do it.", variables={}, arguments="x", append=False).text == "Do it."


@pytest.mark.covers("O-58")
def test_undefined_names_are_left_listed_once_and_warned_of_once() -> None:
    result = substitute("$HOME ${FOO} $HOME $(pwd) $? $$ ${FOO:-x} $lowercase $Mixed", variables={})
    assert result.text == "$HOME ${FOO} $HOME $(pwd) $? $$ ${FOO:-x} $lowercase $Mixed"
    assert result.undefined == ("HOME", "FOO")
    assert [warning.split()[0] for warning in result.warnings] == ["$HOME", "$FOO"]


@pytest.mark.covers("O-58")
def test_lower_case_is_never_matched() -> None:
    assert substitute("$lowercase ${lowercase} {{ lowercase }}", variables={"lowercase": "x"}).count == 0


@pytest.mark.covers("O-58")
def test_custom_variables_go_over_standard_ones() -> None:
    custom = {**VARIABLES, "USER": "eve", "ARGUMENTS": "mine", "TEAM": "ops"}
    assert substitute("$USER $ARGUMENTS $TEAM", variables=custom, arguments="theirs").text == "eve mine ops"


@pytest.mark.covers("O-58", "O-86")
@pytest.mark.each("value", ["$USER", "${SKILL_DIR}", "\\$USER", "\\1 \\g<0>", "{{ name }}", "{baseDir}", "$0", "$"])
def test_a_value_is_not_expanded_again(value: str) -> None:
    assert substitute("<$ARGUMENTS>", variables=VARIABLES, arguments=value).text == f"<{value}>"
    assert substitute("<$DATE>USER", variables={**VARIABLES, "DATE": value}).text == f"<{value}>USER"


@pytest.mark.each(
    ("body", "arguments", "text"),
    [
        ("$0, $1, $2", "a 'b c'", "a, b c, $2"),
        ("$ARGUMENTS[1] $ARGUMENTS[7]", "a b", "b $ARGUMENTS[7]"),
        ("$from to $to, {{ to }}", "a b", "a to b, b"),
        ("$from to $to", "a", "a to there"),
        ("$0 costs $10.50 or $1bad", "a", "a costs $10.50 or $1bad"),
        (r"\$0 \$from \$nobody \\$0", "a", r"$0 $from \$nobody \$0"),
        ("$0 $1", "don't stop", "don't stop"),
        ("$0 costs $1, $from {{ from }}", "", "$0 costs $1, $from {{ from }}"),
        (r"\$0 \$from", "", r"\$0 \$from"),
        ("$ARGUMENTS[0]", "", "$ARGUMENTS[0]"),
    ],
)
def test_parts_of_the_arguments_have_places_and_names(body: str, arguments: str, text: str) -> None:
    declared = (Argument(name="from"), Argument(name="to", default="there"))
    assert substitute(body, variables={}, arguments=arguments, declared=declared, append=False).text == text


def test_a_declared_argument_in_upper_case_goes_over_a_variable() -> None:
    declared = (Argument(name="USER"),)
    assert substitute("$USER", variables=VARIABLES, arguments="eve", declared=declared).text == "eve"
    assert substitute("$USER", variables=VARIABLES, declared=declared).text == "ada"


def test_without_a_folder_its_names_stay() -> None:
    result = substitute("{baseDir} ${SKILL_DIR}", variables=standard_variables(workspace="/project"))
    assert (result.text, result.undefined) == ("{baseDir} ${SKILL_DIR}", ("SKILL_DIR",))


@pytest.mark.covers("O-86")
def test_a_literal_stretch_is_passed_on_as_it_is() -> None:
    body = (Segment(text="$USER "), Segment(text="$USER $", literal=True), Segment(text="USER $USER"))
    assert substitute(body, variables=VARIABLES).text == "ada $USER $USER ada"


@pytest.mark.covers("O-59")
def test_defaults_are_what_this_process_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "grace")
    values = standard_variables()
    assert (values["USER"], values["WORKSPACE"], values["DATE"]) == ("grace", os.getcwd(), date.today().isoformat())
    assert re.fullmatch(r"session-\d{8}-[0-9a-f]{8}", values["SESSION_ID"])
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert standard_variables()["USER"] == "unknown"


@pytest.mark.covers("O-59")
def test_session_ids_are_unique() -> None:
    made = {new_session_id(date(2026, 1, 27)) for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"session-20260127-[0-9a-f]{8}", name) for name in made)


@pytest.mark.each("arguments", [None, 3, ["a"], "x" * (MAX_ARGUMENTS + 1)], ids=lambda value: str(value)[:5])
def test_arguments_that_are_no_line_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidArgument, match="Arguments are text"):
        substitute("$ARGUMENTS", variables={}, arguments=arguments)


@pytest.mark.parametrize("length", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_a_short_body_cannot_grow_without_end(length: int) -> None:
    with pytest.raises(InvalidArgument, match="longer than") as caught:
        substitute("$ARGUMENTS" * 100_000, variables={}, arguments="x" * length)
    assert caught.value.hint


def test_warnings_have_an_end() -> None:
    result = substitute(" ".join(f"$V{at}" for at in range(5_000)), variables={})
    assert (len(result.undefined), len(result.warnings)) == (MAX_LISTED, MAX_LISTED + 1)
    assert "4,900 more" in result.warnings[-1]


@pytest.mark.each(
    "text",
    [
        "{{" * 100_000,
        "{{ " * 60_000,
        "{{" + " " * 200_000,
        "$" * 200_000,
        "${A" * 60_000,
        "$A" + "A" * 200_000,
        "\\" * 200_000,
    ],
    ids=lambda text: text[:6],
)
def test_no_body_takes_long(text: str) -> None:
    # Were any of these more than linear, it would take far longer.
    start = time.process_time()
    assert substitute(text, variables={}).text == text
    assert time.process_time() - start < 5


BODIES = st.lists(
    st.sampled_from(
        ["$ARGUMENTS", "$0", "$1", "$name", "{{ name }}", "\\", "$USER", " ", "x", "$", "{", "ARGUMENTS", "[0]"]
    ),
    max_size=12,
).map("".join)
VALUES = st.lists(
    st.sampled_from(["$ARGUMENTS", "$USER", "!`id`", "'", '"', "\\", " ", "$0", "{{ name }}", "x", "é"])
).map("".join)


@given(BODIES, VALUES)
def test_nothing_in_the_arguments_is_ever_expanded(body: str, arguments: str) -> None:
    declared = (Argument(name="name"),)
    # The same parts by names that mean nothing: whatever they contain must end up in their places.
    parts = split_arguments(arguments)
    plain = " ".join(f"@{at}@" for at in range(len(parts)))
    shape = substitute(body, variables={"USER": "@u@"}, arguments=plain, declared=declared, append=False).text
    filled = substitute(body, variables={"USER": "@u@"}, arguments=arguments, declared=declared, append=False).text
    if plain:
        pieces = re.split(f"({re.escape(plain)}|@[0-9]+@)", shape)
        values = {plain: arguments, **{f"@{at}@": part for at, part in enumerate(parts)}}
        if len(parts) == 1:
            return  # the whole line and its only part look alike
        assert "".join(values.get(piece, piece) for piece in pieces) == filled
