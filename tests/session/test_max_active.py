"""A load that makes room, and a skill that would have an agent of its own: both are said to everybody concerned."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from metier import Library, Session
from metier.dialect import as_text
from metier.guard import Guard, MemoryLog
from metier.session import Event
from metier.tools import ToolResult

NAMES = [f"skill-{letter}" for letter in "abcdefghi"]
READS = {"registry": ("read_skill", "skill_id"), "sandbox": ("get_skill", "skill_name")}


def skill(name: str, more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\nDo {name}.\n"}


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def begin(log: MemoryLog) -> Callable[..., Session]:
    def begin(*skills: dict[str, str], **options: Any) -> Session:
        library = Library.from_files(*(skills or map(skill, NAMES)))
        return library.session(guard=Guard(audit=log), **options)

    return begin


def listening(session: Session) -> list[Event]:
    events: list[Event] = []
    session.listen(events.append)
    return events


def model_notes(result: ToolResult) -> str:
    assert result.success
    return " ".join(result.result["notes"])


@pytest.mark.covers("ACC-4")
@pytest.mark.parametrize("dialect", READS)
def test_the_ninth_load_says_what_made_room_for_it(begin: Callable[..., Session], log: MemoryLog, dialect: Any) -> None:
    session = begin()
    executor = session.executor(dialect=dialect)
    tool, key = READS[dialect]
    for name in NAMES[:8]:
        assert "notes" not in executor.execute_blocking(tool, {key: name}).result
    events = listening(session)
    result = executor.execute_blocking(tool, {key: NAMES[8]})
    # The model, the program, whoever listens, and whoever reads the records.
    assert "skill-a" in model_notes(result)
    assert "skill-b" not in model_notes(result)
    assert result.data["receipt"]["unloaded"] == ["skill-a"]
    (unloaded,) = [event for event in events if event.kind == "unloaded"]
    assert unloaded.skill == "skill-a"
    assert "make room for skill-i" in unloaded.message
    (record,) = [one for one in log.records if one.event == "unload"]
    assert (record.skill, record.rule) == ("skill-a", "max_active")
    assert "make room for skill-i" in record.reason
    (loaded,) = [one for one in log.records if one.event == "load" and one.skill == "skill-i"]
    assert "skill-a" in " ".join(loaded.notes)


@pytest.mark.covers("ACC-4")
def test_a_person_who_invokes_a_ninth_skill_and_the_model_are_told(begin: Callable[..., Session]) -> None:
    session = begin(skills=NAMES[:8])
    events = listening(session)
    invoked = session.invoke("/skill-i", make_room=True)
    assert invoked is not None
    assert invoked.receipt is not None
    assert invoked.receipt.unloaded == ("skill-a",)
    assert "No longer active: skill-a." in invoked.text
    assert [event.skill for event in events if event.kind == "unloaded" and "make room" in event.message] == ["skill-a"]


@pytest.mark.covers("ACC-4", "G-42")
def test_where_the_cap_is_an_error_it_stays_one_and_nothing_is_unloaded(begin: Callable[..., Session]) -> None:
    session = begin(skills=NAMES[:8])
    in_runtime = session.executor().execute_blocking("skills_load", {"skills": ["skill-i"], "mode": "add"})
    in_tool = session.executor(dialect="tool").execute_blocking("skill", {"skill_name": "skill-i"})
    assert (in_runtime.success, in_tool.success) == (False, False)
    assert [one.name for one in session.active] == NAMES[:8]


@pytest.mark.covers("ACC-4")
def test_a_load_that_replaces_others_names_them(begin: Callable[..., Session]) -> None:
    session = begin()
    executor = session.executor()
    executor.execute_blocking("skills_load", {"skills": NAMES[:2]})
    result = executor.execute_blocking("skills_load", {"skills": [NAMES[1], NAMES[2]]})
    assert result.data["receipt"]["unloaded"] == ["skill-a"]
    assert "No longer active: skill-a." in as_text(result)
    unloaded = session.unload("skill-b")
    assert (unloaded.unloaded, unloaded.as_dict()["unloaded"]) == (("skill-b",), ["skill-b"])


@pytest.mark.covers("ACC-4")
def test_a_session_that_goes_on_with_less_room_says_what_it_left_out(
    begin: Callable[..., Session], log: MemoryLog
) -> None:
    session = begin(skills=NAMES[:4])
    state = session.save()
    resumed = Session.resume(session.library, state, guard=Guard(audit=log), max_active=3)
    assert [one.name for one in resumed.active] == NAMES[1:4]
    (record,) = [one for one in log.records if one.event == "unload"]
    assert (record.skill, record.rule, "make room" in record.reason) == ("skill-a", "max_active", True)


@pytest.mark.covers("ACC-4")
def test_what_made_room_is_no_longer_activated(begin: Callable[..., Session]) -> None:
    session = begin(max_active=1)
    session.parts.loader.activate("skill-a")
    session.load("skill-b", "add", make_room=True)
    assert session.parts.loader.activations == ()
    session.unload(all=True)
    assert session.parts.loader.activate("skill-a").name == "skill-a"


FORKED = skill("research", "context: fork\n")


@pytest.mark.covers("ACC-11")
def test_a_session_without_agents_says_that_a_skill_asked_for_one(
    begin: Callable[..., Session], log: MemoryLog
) -> None:
    session = begin(FORKED, skill("plain"))
    events = listening(session)
    receipt = session.load(["research", "plain"])
    assert receipt.inline == ("research",)
    assert receipt.as_dict()["inline"] == ["research"]
    (noted,) = [event for event in events if event.kind == "noted"]
    assert noted.skill == "research"
    assert "an agent of its own" in noted.message
    notes = {one.skill: one.notes for one in log.records if one.event == "load"}
    assert "an agent of its own" in " ".join(notes["research"])
    assert notes["plain"] == ()


@pytest.mark.covers("ACC-11")
@pytest.mark.each(
    ("dialect", "tool", "arguments"),
    [
        ("registry", "read_skill", {"skill_id": "research"}),
        ("runtime", "skills_load", {"skills": ["research"]}),
        ("tool", "skill", {"skill_name": "research"}),
        ("sandbox", "get_skill", {"skill_name": "research"}),
    ],
)
def test_a_model_is_told_that_a_skill_was_loaded_into_its_conversation(
    begin: Callable[..., Session], dialect: Any, tool: str, arguments: dict[str, Any]
) -> None:
    session = begin(FORKED, skill("plain"))
    result = session.executor(dialect=dialect).execute_blocking(tool, arguments)
    assert "asks for an agent of its own" in as_text(result)
    assert "Do research." in as_text(result)


@pytest.mark.covers("ACC-11")
def test_a_person_who_invokes_it_is_told_too(begin: Callable[..., Session]) -> None:
    session = begin(FORKED)
    events = listening(session)
    invoked = session.invoke("/research it")
    assert invoked is not None
    assert "asks for an agent of its own" in invoked.text
    assert "noted" in [event.kind for event in events]


@pytest.mark.covers("ACC-11")
def test_an_agent_of_its_own_is_told_nothing_of_the_kind(begin: Callable[..., Session], log: MemoryLog) -> None:
    session = begin(FORKED, skill("plain"))
    seen: list[str] = []

    async def spawn(active: Any, task: str, child: Any) -> str:
        seen.append(json.dumps(child.parts.loader.receipt(("research",)).as_dict()) + child.instructions())
        return "Found."

    executor = session.executor(spawn=spawn)
    result = executor.execute_blocking("skills_load", {"skills": ["research"]})
    assert "Found." in as_text(result)
    assert "of its own" not in "".join((*seen, as_text(result)))
    assert [one.notes for one in log.records if one.event == "load"] == [()]


@pytest.mark.covers("ACC-11")
def test_beside_others_a_skill_with_an_agent_of_its_own_is_not_loaded_inline(begin: Callable[..., Session]) -> None:
    session = begin(FORKED, skill("plain"))

    async def spawn(*_: Any) -> str:
        return "Found."

    result = session.executor(spawn=spawn).execute_blocking("skills_load", {"skills": ["plain", "research"]})
    assert (result.success, result.code) == (False, "invalid-argument")
    assert "research" in (result.error or "")
    assert session.active == ()
