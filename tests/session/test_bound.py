"""Skills that are part of what an agent is: loaded to the end, whatever anybody unloads."""

from __future__ import annotations

from typing import Any

import pytest

from metier import Library, Session
from metier.errors import InvalidArgument, SkillNotFound
from metier.guard import Guard, MemoryLog


@pytest.fixture
def library() -> Library:
    return Library.from_files(
        {"SKILL.md": "---\nname: strict\ndescription: S.\nallowed-tools: Read\n---\nRead only."},
        {"SKILL.md": "---\nname: free\ndescription: F.\n---\nDo."},
        {"SKILL.md": "---\nname: other\ndescription: O.\n---\nDo."},
    )


def begin(library: Library, **options: object) -> Session:
    return library.session(**{"guard": Guard(audit=MemoryLog()), "bound": ["strict"]} | options)


def names(session: Session) -> list[str]:
    return [one.name for one in session.active]


def test_nobody_unloads_what_is_bound(library: Library) -> None:
    session = begin(library)
    assert session.unload(["strict"]).changed == ()
    session.load("free")
    assert names(session) == ["strict", "free"]
    session.unload(all=True, by="model")
    assert names(session) == ["strict"]
    with session.task():
        session.load("other")
    assert names(session) == ["strict"]


def test_what_is_bound_takes_no_room_from_others(library: Library) -> None:
    session = begin(library, max_active=1)
    session.load("free")
    session.load("other", make_room=True)
    assert names(session) == ["strict", "other"]
    with pytest.raises(InvalidArgument):
        session.load("free", "add")
    session.load("free", "add", make_room=True)
    assert names(session) == ["strict", "free"]


def test_as_many_are_bound_as_an_agent_needs_beside_as_many_others_as_may_be_active() -> None:
    texts = (f"---\nname: s{number}\ndescription: S.\n---\nDo." for number in range(24))
    library = Library.from_files(*({"SKILL.md": text} for text in texts))
    session = begin(library, bound=[f"s{number}" for number in range(12)])
    session.load([f"s{number}" for number in range(12, 20)])
    assert len(session.active) == 20
    with pytest.raises(InvalidArgument, match="21 skills would be active; 20 are the most"):
        session.load("s20", "add")
    with pytest.raises(InvalidArgument, match="9 skills would be active; 8 are the most"):
        session.load([f"s{number}" for number in range(12, 21)])
    # What is bound already takes no room when somebody loads it again.
    session.load([f"s{number}" for number in range(20)])
    assert len(session.active) == 20


def test_its_text_is_not_given_a_second_time(library: Library) -> None:
    session = begin(library)
    assert "earlier in this conversation" in session.prompt.content("strict")
    assert '<skill name="strict"' in session.instructions()


@pytest.mark.parametrize("dialect", ["runtime", "registry", "tool", "sandbox"])
def test_its_text_is_not_at_the_top_level_either(library: Library, dialect: Any) -> None:
    session = begin(library, delivery="instructions", skills=["free"])
    text = session.instructions(dialect=dialect)
    assert "Read only." not in text
    assert "Do." in text


def test_what_it_restricts_stays_so_when_it_is_blocked(library: Library) -> None:
    guard = Guard(audit=MemoryLog())
    session = begin(library, guard=guard)
    guard.block("strict")
    assert names(session) == []
    assert not session.may_call("Write", {"file_path": "x"})


def test_it_is_recorded_like_any_other_load_and_ends_with_the_session(library: Library) -> None:
    log = MemoryLog()
    begin(library, guard=Guard(audit=log)).close()
    assert [(record.event, record.skill) for record in log.records] == [("load", "strict"), ("unload", "strict")]


def test_one_that_does_not_exist_is_an_error(library: Library) -> None:
    with pytest.raises(SkillNotFound):
        begin(library, bound=["nope"])


def test_a_resumed_session_is_bound_again(library: Library) -> None:
    session = begin(library)
    session.load("free")
    state = session.save()
    again = library.resume(state, bound=["strict"], guard=Guard(audit=MemoryLog()))
    assert names(again) == ["strict", "free"]
    again.unload(all=True)
    assert names(again) == ["strict"]
