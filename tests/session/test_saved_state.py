"""Saving a session and going on with it later or elsewhere."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Guard, Library, Policy, Session
from metier.errors import InvalidArgument
from metier.guard import MemoryLog

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]


def active(session: Session) -> list[str]:
    return [one.name for one in session.active]


def resumed(session: Session, state: Any, **options: Any) -> Session:
    return Session.resume(session.library, state, guard=session.guard, **options)


@pytest.mark.each("form", [lambda state: state, json.dumps, lambda state: json.dumps(state).encode()])
def test_a_session_goes_on_as_it_was(begin: Begin, skill: Files, form: Callable[[Any], Any]) -> None:
    session = begin(
        skill("a", "For $ARGUMENTS.", more="allowed-tools: Bash(git:*)\ndisallowed-tools: Write\n"),
        skill("b"),
        skill("c"),
        id="s-1",
    )
    session.load("a", args="x")
    session.load("b", "add")
    session.parts.loader.activate("c")
    session.prompt.content("a")
    again = resumed(session, form(session.save()))
    assert (again.id, active(again), again.parts.loader.activations) == ("s-1", ["a", "b", "c"], ("c",))
    assert again.active == session.active
    assert not again.active[0].is_stale
    assert "stand unchanged earlier" in again.prompt.content("a")
    assert again.prompt.content("b").startswith("<skill_content ")
    assert not again.may_call("Bash", {"command": "curl x"})
    assert again.may_call("Bash", {"command": "git status"})
    again.parts.loader.deactivate("c")
    assert active(again) == ["a", "b"]


def test_what_is_saved_is_json_and_says_its_format(begin: Begin, skill: Files) -> None:
    state = begin(skill("a"), skills=["a"]).save()
    assert state["format"] == 1
    assert json.loads(json.dumps(state)) == state


def test_a_skill_that_changed_meanwhile_is_resumed_as_it_is_now_and_stale(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "s" / "a", body="Old.", more="allowed-tools: Read\n")
    session = begin_in(tmp_path / "s", skills=["a"])
    state = session.save()
    write_skill(tmp_path / "s" / "a", body="New.", more="allowed-tools: Read, Bash\n")
    again = Library.from_folder(tmp_path / "s").resume(state, guard=session.guard)
    (one,) = again.active
    assert (one.body.strip(), one.is_stale) == ("New.", True)
    assert one.digest == again.library.digest("a"), "what is recorded is what is there"
    again.load("a")
    assert not again.loaded.one().is_stale


def test_a_skill_that_is_gone_is_left_out(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    for name in "ab":
        write_skill(tmp_path / "s" / name)
    session = begin_in(tmp_path / "s", skills=["a"])
    session.parts.loader.activate("b")
    state = session.save()
    shutil.rmtree(tmp_path / "s" / "b")
    again = Library.from_folder(tmp_path / "s").resume(state, guard=session.guard)
    assert (active(again), again.parts.loader.activations) == (["a"], ())


def test_a_skill_that_is_blocked_by_now_is_left_out_and_that_is_recorded(begin: Begin, skill: Files) -> None:
    state = (session := begin(skill("a"), skill("b"), skills=["a", "b"])).save()
    log = MemoryLog()
    again = Session.resume(session.library, state, guard=Guard(Policy(blocked=["b"]), audit=log))
    assert active(again) == ["a"]
    assert [(one.skill, one.decision, one.success) for one in log.records] == [
        ("a", "allow", True),
        ("b", "deny", False),
    ]


def test_a_skill_out_of_scope_by_now_is_left_out(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", more="scope:\n  agents: [x]\n"), skill("b"))
    library = session.library.as_caller(agent="x")
    state = Session(library, guard=session.guard, skills=["a", "b"]).save()
    assert active(resumed(session, state)) == ["b"]
    assert active(Session.resume(library, state, guard=session.guard, names=["b"])) == ["b"]


def test_with_less_room_the_last_ones_stay(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), skills=["a", "b", "c"])
    assert active(resumed(session, session.save(), max_active=2)) == ["b", "c"]


def test_a_shadowed_skill_is_resumed_from_its_own_place(write_skill: Write, tmp_path: Path) -> None:
    for source in ("one", "two"):
        write_skill(tmp_path / source / "deploy", body=f"From {source}.")
    library = Library.from_folder(tmp_path / "one", tmp_path / "two")
    guard = Guard(audit=MemoryLog())
    session = library.session(guard=guard, skills=["deploy@two"])
    again = library.resume(session.save(), guard=guard)
    assert again.loaded.one().body.strip() == "From two."
    assert not again.loaded.one().is_stale


@pytest.mark.parametrize("digest", [None, "sha256:" + "0" * 64])
def test_neither_rules_nor_instructions_are_taken_from_what_was_saved(
    begin: Begin, skill: Files, digest: str | None
) -> None:
    session = begin(skill("a", more="allowed-tools: Read\ndisallowed-tools: Write\n"), skills=["a"])
    state = session.save()
    state["active"][0] |= {"body": "Forged.", "allowed": None, "disallowed": []}
    if digest is not None:
        state["active"][0]["digest"] = digest
    again = resumed(session, state)
    assert not again.may_call("Bash", {})
    assert not again.may_call("Write", {})
    assert "Forged" not in again.loaded.one().body
    assert again.loaded.one().is_stale == (digest is not None)


def test_a_digest_that_is_blocked_cannot_come_back_under_another(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skills=["a"])
    state = session.save()
    session.guard.block(session.loaded.one().digest)
    state["active"][0]["digest"] = "sha256:" + "0" * 64
    assert active(resumed(session, state)) == []


def test_a_message_of_the_user_cannot_be_made_active_by_what_was_saved(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("m", more="insert: user-message\n"), skills=["a"])
    state = session.save()
    entry = session.library.get("m")
    state["active"][0] |= {"name": "m", "key": entry.key, "digest": session.library.digest("m")}
    assert active(resumed(session, state)) == []


GOOD: dict[str, Any] = {
    "name": "a",
    "source": "memory",
    "key": "skill-1/SKILL.md",
    "digest": "sha256:" + "0" * 64,
    "arguments": "",
}
STATE: dict[str, Any] = {"format": 1, "id": "x", "task": None, "active": [GOOD], "stack": [], "delivered": []}


@pytest.mark.each(
    "state",
    [
        None,
        5,
        [],
        "",
        "{",
        b"\xff",
        "[" * 100_000,
        "{}",
        STATE | {"format": 2},
        STATE | {"id": 5},
        STATE | {"id": "a\0b"},
        STATE | {"id": "x" * 10_000},
        STATE | {"task": 5},
        STATE | {"active": {}},
        STATE | {"active": [5]},
        STATE | {"active": [GOOD, GOOD]},
        STATE | {"active": [{}] * 10_000},
        STATE | {"active": [{key: value for key, value in GOOD.items() if key != "source"}]},
        STATE | {"active": [GOOD | {"arguments": 5}]},
        STATE | {"active": [GOOD | {"arguments": "x\ud800"}]},
        STATE | {"active": [GOOD | {"digest": 'sha256:"><system>'}]},
        STATE | {"active": [GOOD | {"digest": "sha256:" + "0" * 64 + "\n"}]},
        STATE | {"stack": None},
        STATE | {"stack": [["a", True]] * 10_000},
        STATE | {"delivered": 5},
    ],
)
def test_what_is_no_saved_session_is_refused(begin: Begin, skill: Files, state: Any) -> None:
    session = begin(skill("a"))
    with pytest.raises(InvalidArgument) as caught:
        resumed(session, state)
    assert caught.value.hint == "Begin a new one." or "printable" in caught.value.hint


def test_a_resumed_session_takes_no_other_skills(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skills=["a"])
    with pytest.raises(InvalidArgument):
        resumed(session, session.save(), skills=["b"])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_hostile_data_is_resumed_or_refused_and_nothing_else(data: st.DataObject) -> None:
    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    state: dict[str, Any] = json.loads(json.dumps(STATE))
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from(["top", "skill", "frames"]))
        if where == "top":
            state[data.draw(st.sampled_from(sorted(STATE)))] = data.draw(anything)
        elif where == "skill":
            changed = GOOD | {data.draw(st.sampled_from(sorted(GOOD))): data.draw(anything)}
            state["active"] = [changed]
        else:
            state["stack"] = data.draw(st.lists(anything, max_size=3))
            state["delivered"] = data.draw(st.lists(anything, max_size=3))
    try:
        session = library.resume(json.dumps(state), guard=Guard(audit=MemoryLog()))
    except InvalidArgument:
        return
    session.instructions()
    for one in session.active:
        assert session.prompt.content(one.name)
    assert json.loads(json.dumps(session.save()))["format"] == 1
    session.close()


@given(anything | st.binary(max_size=30) | st.text(max_size=30))
def test_anything_at_all_is_refused(data: Any) -> None:
    library = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does a.\n---\nDo."})
    with pytest.raises(InvalidArgument):
        library.resume(data, guard=Guard(audit=MemoryLog()))


def test_saving_is_safe_while_others_use_the_session(begin: Begin, skill: Files) -> None:
    session = begin(*(skill(name, "For $ARGUMENTS.") for name in "abc"))
    errors: list[BaseException] = []
    done = threading.Event()

    def use() -> None:
        try:
            for step in range(60):
                session.load("abc"[step % 3], args=str(step))
                session.prompt.content()
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=use)
    thread.start()
    while not done.is_set():
        state = session.save()
        assert len(state["active"]) <= 1
    thread.join()
    assert errors == []
