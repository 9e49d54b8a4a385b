"""The catalog as context before a turn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from metier import Library, Session
from metier.dialect import ContextProvider, SkillContext, dialect, enriched_prompt, joined_context

SEPARATOR = "\n\n---\n\n"


@dataclass
class Says:
    """A provider that says the same before every turn."""

    text: str | None
    priority: int = 50

    def context(self, prompt: str) -> str | None:
        return self.text


class Fails:
    """A provider that cannot say anything."""

    priority = 1

    def context(self, prompt: str) -> str | None:
        raise RuntimeError("the disk is gone")


def library_of(*names: str) -> Library:
    return Library.from_files(
        *({"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n---\nDo.\n"} for name in names)
    )


@pytest.mark.covers("Y-08")
def test_without_skills_there_is_no_context() -> None:
    assert SkillContext(Library.from_files().session()).context("Hello?") is None


@pytest.mark.covers("Y-09")
@pytest.mark.each("names", [["a"], ["a", "b"], [f"skill-{number:02}" for number in range(40)]])
def test_context_is_a_heading_a_bullet_for_each_skill_and_how_to_read_one(names: list[str]) -> None:
    context = SkillContext(library_of(*names).session()).context("Hello?")
    assert context is not None
    heading, *bullets, empty, usage = context.split("\n")
    assert heading.startswith("[")
    assert heading.endswith("]")
    assert bullets == [f"- `{name}`: Does {name}." for name in names]
    assert empty == ""
    assert "`read_skill`" in usage


@pytest.mark.covers("Y-10")
def test_the_priority_is_60_unless_another_is_given() -> None:
    session = library_of("a").session()
    assert SkillContext(session).priority == 60
    assert SkillContext(session, priority=5).priority == 5


@pytest.mark.covers("Y-11")
@pytest.mark.each(
    ("providers", "context"),
    [
        ([], None),
        ([Says(None)], None),
        ([Says(None), Says(""), Says(" \n")], None),
        ([Says("one")], "one"),
        ([Says("last", 90), Says("first", 10), Says("middle", 60)], f"first{SEPARATOR}middle{SEPARATOR}last"),
        ([Says("a", 5), Says("b", 5)], f"a{SEPARATOR}b"),
        ([Says("a", 1), Says(None, 2), Says("", 3), Says("b", 4)], f"a{SEPARATOR}b"),
    ],
)
def test_what_providers_say_is_joined_by_priority(providers: list[ContextProvider], context: str | None) -> None:
    assert joined_context(providers, "Hello?") == context


@pytest.mark.covers("Y-11")
def test_skills_stand_where_their_priority_puts_them() -> None:
    skills = SkillContext(library_of("a").session())
    context = joined_context([Says("after", 61), skills, Says("before", 59)], "Hello?")
    assert context == SEPARATOR.join(["before", skills.context("Hello?") or "", "after"])


@pytest.mark.covers("Y-12")
def test_a_prompt_comes_after_its_context() -> None:
    assert enriched_prompt([Says("Know this.")], "Hello?") == f"Know this.{SEPARATOR}Hello?"


@pytest.mark.covers("Y-12")
@pytest.mark.each("providers", [[], [Says(None)], [Fails()]])
def test_a_prompt_without_context_is_unchanged(providers: list[ContextProvider]) -> None:
    assert enriched_prompt(providers, "Hello?") == "Hello?"


@pytest.mark.covers("Y-13")
def test_a_provider_that_fails_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "metier.dialect"):
        assert enriched_prompt([Fails(), Says("Know this.")], "Hello?") == f"Know this.{SEPARATOR}Hello?"
    assert "the disk is gone" in caplog.text


class IsAsync(Says):
    async def context(self, prompt: str) -> str | None:  # type: ignore[override]
        return self.text


class HasNoPriority:
    def context(self, prompt: str) -> str | None:
        return "Nowhere."


class CannotSayItsPriority(HasNoPriority):
    @property
    def priority(self) -> int:
        raise OSError("the disk is gone")


async def made_later() -> None:
    raise AssertionError


@pytest.mark.covers("Y-13")
@pytest.mark.each(
    "make",
    [
        lambda: IsAsync("Later."),
        lambda: Says(5),  # type: ignore[arg-type]
        lambda: Says(b"Bytes."),  # type: ignore[arg-type]
        lambda: Says(["A", "list."]),  # type: ignore[arg-type]
        lambda: Says("Nowhere.", "first"),  # type: ignore[arg-type]
        lambda: Says("Nowhere.", None),  # type: ignore[arg-type]
        lambda: Says("Nowhere.", float("nan")),  # type: ignore[arg-type]
        HasNoPriority,
        CannotSayItsPriority,
        lambda: None,
        made_later,
    ],
)
def test_a_provider_that_is_none_costs_nothing_but_itself(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    providers = [Says("Last.", 90), make(), Says("First.", 10)]
    caplog.clear()
    with caplog.at_level(logging.ERROR, "metier.dialect"):
        assert enriched_prompt(providers, "Hello?") == f"First.{SEPARATOR}Last.{SEPARATOR}Hello?"
    assert "a context provider failed" in caplog.text


@pytest.mark.covers("Y-14")
def test_an_agent_with_skills_of_its_own_is_shown_only_those() -> None:
    library = library_of("x", "y", "z")
    worker, orchestrator = library.session(names=["x"]), library.session()
    assert (SkillContext(worker).context("") or "").count("\n- `") == 1
    assert "`x`" in (SkillContext(worker).context("") or "")
    assert (SkillContext(orchestrator).context("") or "").count("\n- `") == 3


@pytest.mark.covers("Y-14")
def test_a_skill_for_another_agent_is_not_in_the_context(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "open-one")
    write_skill(tmp_path / "closed-one", more="scope: {agents: [writer]}\n")
    library = Library.from_folder(tmp_path, cache=False)
    assert "closed-one" not in (SkillContext(library.session()).context("") or "")
    assert "closed-one" in (SkillContext(library.as_caller(agent="writer").session()).context("") or "")


def test_where_not_all_skills_fit_those_for_the_prompt_come_in() -> None:
    library = library_of(*(f"filler-{number:03}" for number in range(300)), "zebra-crossing")
    context = SkillContext(library.session(budget=1_500)).context("Paint a zebra crossing.") or ""
    assert "`zebra-crossing`" in context
    assert "list_skills" in context


def test_context_can_be_that_of_another_dialect(session: Session) -> None:
    context = SkillContext(session, dialect("runtime")).context("Hello?") or ""
    assert "skills_load" in context
    assert "read_skill" not in context
