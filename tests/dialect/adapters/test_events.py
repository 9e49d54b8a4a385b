"""A program that gives an agent skills gets their events and questions in every framework."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.dialect.adapters.stage import Call, Outside, Performer, Script, load

from metier import Library, Policy
from metier.dialect.raw import Skills
from metier.errors import InvalidArgument

pytestmark = pytest.mark.covers("USE-7")

Perform = Callable[..., Performer]
FETCH = Call("web_fetch", {"url": "https://example.com/x"})


def test_events_are_told_from_the_first_load_on(perform: Perform, outside: Outside) -> None:
    events: list[Any] = []
    script = Script([load("report"), FETCH, Call("skills_read", {"path": "references/style.md"}), "Done."])
    anyio.run(perform(script, on_event=events.append).say, "Write a report.")
    kinds = [event.kind for event in events if event.kind not in ("action", "observation")]
    assert kinds[:4] == ["loading", "loaded", "refused", "read"]
    assert len({event.session for event in events}) == 1
    assert outside.calls == []


def test_events_of_a_skill_in_an_agent_of_its_own_are_told_too(perform: Perform, outside: Outside) -> None:
    events: list[Any] = []
    script = Script([load("research", args="the moon"), load("letters"), "Far away.", "Done."])
    anyio.run(perform(script, on_event=events.append).say, "Research it.")
    loaded = [event.skill for event in events if event.kind == "loaded"]
    assert loaded == ["research", "letters"]


def test_whoever_is_asked_gets_a_sentence_to_show(perform: Perform, outside: Outside) -> None:
    sentences: list[str] = []

    def approve(action: Any, decision: Any) -> bool:
        sentences.append(action.describe(decision))
        return True

    script = Script([load("letters"), FETCH, "Done."])
    anyio.run(perform(script, policy=Policy(ask="WebFetch"), approve=approve).say, "Fetch it.")
    assert outside.calls == ["https://example.com/x"]
    [sentence] = sentences
    assert sentence.startswith("The model wants to call web_fetch with {")
    assert "https://example.com/x" in sentence and "while 'letters' is active" in sentence
    assert sentence.endswith("Policy says to ask before tool 'web_fetch' is used so.")


@pytest.mark.parametrize("listener", [5, "print", asyncio.sleep])
def test_what_cannot_be_told_anything_is_refused_at_once(tmp_path: Path, listener: Any) -> None:
    with pytest.raises(InvalidArgument, match="listens"):
        Skills(Library.from_files({"SKILL.md": "Do."}), on_event=listener)
