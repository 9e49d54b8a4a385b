"""What a person types: `/deploy staging`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metier import Session
from metier.errors import InvalidArgument, Refused, SkillNotFound
from metier.guard import MemoryLog

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]


@pytest.mark.covers("O-106")
@pytest.mark.each(
    ("text", "arguments"),
    [
        ("/deploy", ""),
        ("/deploy staging now", "staging now"),
        ("/deploy\nstaging", "staging"),
        ("/Deploy  x", "x"),
        ("/deploy@memory x", "x"),
    ],
)
def test_a_skill_is_invoked_by_its_name(begin: Begin, skill: Files, text: str, arguments: str) -> None:
    session = begin(skill("other"), skill("deploy", "To [$ARGUMENTS]."), skills=["other"])
    invocation = session.invoke(text)
    assert invocation is not None
    assert (invocation.name, invocation.arguments, invocation.is_user_message) == ("deploy", arguments, False)
    assert f"To [{arguments}]." in invocation.text
    assert invocation.receipt is not None
    assert [item.name for item in invocation.receipt.active] == ["other", "deploy"]


@pytest.mark.covers("O-106")
@pytest.mark.each("text", ["", "deploy", "What is /etc for?", "/", "/ deploy", "/etc/passwd", "//", None, 5])
def test_what_is_no_invocation_is_none(begin: Begin, skill: Files, text: Any) -> None:
    session = begin(skill("deploy"))
    assert session.invoke(text) is None
    assert session.active == ()


def test_an_unknown_name_is_not_found(begin: Begin, skill: Files) -> None:
    with pytest.raises(SkillNotFound, match="Did you mean 'deploy'"):
        begin(skill("deploy")).invoke("/deplyo now")


def test_arguments_without_end_are_refused(begin: Begin, skill: Files) -> None:
    session = begin(skill("deploy"))
    with pytest.raises(InvalidArgument):
        session.invoke("/deploy " + "x" * 100_000)
    with pytest.raises(InvalidArgument):
        session.load("deploy", args="x" * 100_000)
    with pytest.raises(InvalidArgument):
        session.load("deploy", args=["x"])  # type: ignore[arg-type]
    assert session.active == ()


@pytest.mark.covers("O-106")
def test_a_skill_for_people_is_hidden_from_models_and_refused_to_them(
    begin: Begin, skill: Files, log: MemoryLog
) -> None:
    session = begin(skill("deploy", more="disable-model-invocation: true\n"), skill("b"))
    assert "deploy" not in session.instructions()
    assert [entry.name for entry in session.prompt.matching()] == ["b"]
    with pytest.raises(Refused) as caught:
        session.load("deploy", by="model")
    assert (caught.value.code, log.records[-1].code) == ("not-for-models", "not-for-models")
    assert "/deploy" in caught.value.hint
    assert session.invoke("/deploy") is not None


@pytest.mark.covers("O-106")
def test_a_skill_for_models_is_refused_to_people_and_shown_to_models(begin: Begin, skill: Files) -> None:
    session = begin(skill("deploy", more="user-invocable: false\n"))
    assert "deploy" in session.instructions()
    with pytest.raises(Refused) as caught:
        session.invoke("/deploy")
    assert caught.value.code == "not-for-people"
    assert session.load("deploy", by="model").changed == ("deploy",)


@pytest.mark.covers("G-32")
def test_a_message_of_the_user_is_rendered_and_nothing_is_loaded(begin: Begin, skill: Files, log: MemoryLog) -> None:
    greet = skill(
        "greet",
        "Hello $name, {{ title }}. {{ unknown }}",
        more="insert: user-message\narguments:\n  - name: name\n  - name: title\n    default: Commander\n",
    )
    session = begin(greet)
    invocation = session.invoke("/greet Alice")
    assert invocation is not None
    assert (invocation.text, invocation.is_user_message) == ("Hello Alice, Commander. {{ unknown }}", True)
    assert invocation.receipt is None
    assert session.active == ()
    (record,) = log.records
    assert (record.event, record.skill, record.by, record.success) == ("load", "greet", "user", True)
    assert record.digest == session.library.digest("greet")


@pytest.mark.covers("G-32")
def test_a_blocked_message_is_refused(begin: Begin, skill: Files) -> None:
    session = begin(skill("greet", more="insert: user-message\n"))
    session.guard.block(session.library.digest("greet"))
    with pytest.raises(Refused) as caught:
        session.invoke("/greet")
    assert caught.value.code == "skill-blocked"
