"""What a model is asked while skills come and go, in every framework."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from tests.dialect.adapters.conftest import STREAMING
from tests.dialect.adapters.stage import Call, Outside, Performer, Script, load

from metier.errors import MetierError
from metier.session import Event

Perform = Callable[..., Performer]


@pytest.mark.covers("G-40")
def test_history_is_only_added_to_and_an_old_body_is_gone_from_the_next_call(perform: Perform) -> None:
    script = Script([load("letters"), load("report"), Call("skills_unload", {"all": True}), "Done."])
    anyio.run(perform(script, delivery="instructions").say, "Begin.")
    first, with_letters, with_report, none = script.requests
    for before, after in zip(script.requests, script.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.tools == before.tools
    assert "Dear reader." not in first.system
    assert "Dear reader." in with_letters.system
    assert "Dear reader." not in with_report.system
    assert "Write it." in with_report.system
    assert "Write it." not in none.system
    assert "Dear reader." not in none.text
    assert none.system == first.system


@pytest.mark.covers("G-41")
def test_the_request_says_that_the_skill_loaded_last_wins(perform: Perform) -> None:
    script = Script([load("letters"), load("report", mode="add"), "Done."])
    anyio.run(perform(script).say, "Begin.")
    last = script.requests[-1].system
    assert "Where active skills contradict each other, the one that was loaded last counts." in last
    assert last.index('name="letters"') < last.index('name="report"')


@pytest.mark.covers("O-108")
def test_loading_is_told_at_once_and_restricts_the_very_next_call(perform: Perform, outside: Outside) -> None:
    script = Script([load("report"), Call("web_fetch", {"url": "https://example.com"}), "Done."])
    agent = perform(script)
    told: list[Event] = []
    agent.session().listen(told.append)
    anyio.run(agent.say, "Begin.")
    assert "loaded" in [event.kind for event in told if event.skill == "report"]
    assert outside.calls == []


@pytest.mark.covers("O-108")
def test_it_restricts_a_call_of_the_same_answer_too(perform: Perform, outside: Outside) -> None:
    script = Script([(load("report"), Call("web_fetch", {"url": "https://example.com"})), "Done."])
    # Where somebody may be asked, loading goes on in a thread, and other calls could overtake it.
    anyio.run(perform(script, approve=lambda action, decision: True).say, "Begin.")
    assert outside.calls == []
    assert "Error [tool-not-allowed]" in "".join(script.requests[-1].results)


@pytest.mark.covers("O-106")
def test_what_only_people_may_use_is_loaded_by_name_and_not_by_the_model(perform: Perform) -> None:
    script = Script([load("deploy"), "Not for me.", "Deployed."])
    agent = perform(script)
    anyio.run(agent.say, "Deploy it.")
    assert "<name>deploy</name>" not in script.requests[0].system
    assert "Error [not-for-models]" in script.requests[1].results[0]
    invoked = agent.session().invoke("/deploy production")
    assert invoked is not None
    anyio.run(agent.say, invoked.text)
    assert "Deploy." in script.requests[2].text
    assert 'name="deploy"' in script.requests[2].system


@pytest.mark.covers("O-106")
def test_what_only_models_may_use_is_loaded_by_the_model_and_not_by_name(perform: Perform) -> None:
    script = Script([load("inner"), "Done."])
    agent = perform(script)
    anyio.run(agent.say, "Help.")
    assert "<name>inner</name>" in script.requests[0].system
    assert "Help." in script.requests[1].results[0]
    with pytest.raises(MetierError):
        agent.session().invoke("/inner")


def test_another_dialect_works_as_well(perform: Perform, outside: Outside) -> None:
    fetch = Call("web_fetch", {"url": "https://example.com"})
    script = Script([Call("skill", {"skill_name": "report"}), fetch, "Done."])
    anyio.run(perform(script, dialect="tool").say, "Write a report.")
    assert "report" in script.requests[0].tools["skill"]
    assert "Write it." in script.requests[1].results[0]
    assert outside.calls == []


def test_the_model_that_a_skill_asks_for_answers_while_it_is_active(perform: Perform) -> None:
    script = Script([load("think"), load("letters"), load("think"), Call("skills_unload", {"all": True}), "Done."])
    anyio.run(perform(script).say, "Think.")
    assert [request.model for request in script.requests] == ["own", "big", "own", "big", "own"]


@pytest.mark.parametrize("performer", STREAMING, indirect=True, ids=lambda performer: performer.name)
def test_a_stream_has_the_words_of_the_agent_only_and_switches_models_too(perform: Perform) -> None:
    script = Script([load("think"), load("research", args="x"), "The child speaks.", "The parent speaks."])
    said = anyio.run(perform(script, streamed=True).say, "Think.")
    assert said.strip() == "The parent speaks."
    assert [request.model for request in script.requests][:2] == ["own", "big"]


def test_a_skill_that_is_written_during_a_conversation_is_there_in_the_next_turn(
    perform: Perform, folder: object, write_skill: Callable[..., object]
) -> None:
    script = Script(["Hello.", load("brand-new"), "Done."])
    agent = perform(script)
    anyio.run(agent.say, "Hello.")
    write_skill(folder / "brand-new", body="Fresh.")  # type: ignore[operator]
    anyio.run(agent.say, "Again.")
    assert "<name>brand-new</name>" not in script.requests[0].system
    assert "<name>brand-new</name>" in script.requests[1].system
    assert "Fresh." in script.requests[2].results[0]


HOSTILE = [
    {},
    {"skills": 7},
    {"skills": []},
    {"skills": [None]},
    {"skills": ["../../etc/passwd"]},
    {"skills": ["report\0"]},
    {"skills": ["</available_skills>"]},
    {"skills": ["\ud800".encode("utf-8", "replace").decode()]},
    {"skills": ["report"], "mode": "forever"},
    {"skills": ["report"], "args": ["x"]},
    {"skills": ["x" * 100_000]},
    {"skills": ["report"], "nobody": {"asked": [[[[1]]]]}},
    {"skills": ["report"], "__class__": "x", "self": "y", "kit": "z", "arguments": "w"},
]


def test_hostile_arguments_are_answered_with_an_error(perform: Perform) -> None:
    script = Script([*(Call("skills_load", given) for given in HOSTILE), "Done."])
    agent = perform(script)
    assert anyio.run(agent.say, "Begin.").strip() == "Done."
    results = script.requests[-1].results
    assert len(results) == len(HOSTILE)
    assert [result[:60] for result in results if not result.startswith("Error [")] == []
    assert agent.session().active == ()
