"""Loading skills: in which order, at most how many, and what remains of a load that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Library, Place, Policy, Session
from metier.errors import ActivationFailed, InvalidArgument, MetierError, Refused, SessionNotFound, SkillNotFound
from metier.guard import MemoryLog
from metier.source import MemorySource

Files = Callable[..., dict[str, str]]
Begin = Callable[..., Session]
Write = Callable[..., Path]


def active(session: Session) -> list[str]:
    return [one.name for one in session.active]


def loads(log: MemoryLog) -> list[tuple[str, str, bool | None, str]]:
    return [(one.skill, one.decision, one.success, one.code) for one in log.records if one.event == "load"]


@pytest.mark.covers("G-21")
@pytest.mark.each(
    ("calls", "after"),
    [
        ([(["a"], "replace")], ["a"]),
        ([(["a"], "replace"), (["a", "b", "b"], "add")], ["a", "b"]),
        ([(["a", "b"], "replace"), (["a"], "add")], ["b", "a"]),
        ([(["a", "b"], "replace"), (["c"], "replace")], ["c"]),
        ([(["a", "b"], "replace"), (["c"], "")], ["c"]),
        ([(["b", "a"], "replace"), (["a", "b"], "replace")], ["a", "b"]),
        ([(["a", "A", " a "], "replace")], ["a"]),
        ([("a", "replace")], ["a"]),
    ],
)
def test_what_is_loaded_last_stands_last_and_once(
    begin: Begin, skill: Files, calls: list[tuple[Any, Any]], after: list[str]
) -> None:
    session = begin(skill("a"), skill("b"), skill("c"))
    for names, mode in calls:
        session.load(names, mode)
    assert active(session) == after


@pytest.mark.covers("G-39")
def test_a_receipt_says_what_is_loaded_and_from_where(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills" / "a", more="license: MIT\n")
    session = begin_in(tmp_path / "skills")
    receipt = session.load("a")
    assert receipt.changed == ("a",)
    assert receipt.as_dict() == {
        "active": [
            {
                "name": "a",
                "location": f"{session.loaded.one().root}/SKILL.md",
                "root_dir": session.loaded.one().root,
                "digest": session.library.digest("a"),
                "properties": {"license": "MIT"},
            }
        ]
    }
    assert receipt.active[0].digest.startswith("sha256:")


@pytest.mark.covers("G-22", "G-26")
@pytest.mark.each(
    ("names", "mode", "error"),
    [
        ([], "replace", InvalidArgument),
        ((), "add", InvalidArgument),
        (None, "replace", InvalidArgument),
        (5, "replace", InvalidArgument),
        ([5], "replace", InvalidArgument),
        ([None], "add", InvalidArgument),
        ({"b": 1}, "add", InvalidArgument),
        (["b"], "other", InvalidArgument),
        (["b"], None, InvalidArgument),
        (["b"], ["add"], InvalidArgument),
        ([""], "add", InvalidArgument),
        (["   "], "add", InvalidArgument),
        (["zz"], "add", SkillNotFound),
        (["b", "zz"], "replace", SkillNotFound),
        (["zz", "b"], "add", SkillNotFound),
        (["../b"], "add", SkillNotFound),
        (["b\0"], "add", SkillNotFound),
        (["b" * 100_000], "add", SkillNotFound),
        (["b@nowhere"], "add", SkillNotFound),
        (["b"] * 100_000, "add", InvalidArgument),
    ],
)
def test_a_load_that_cannot_be_changes_nothing(
    begin: Begin, skill: Files, names: Any, mode: Any, error: type[MetierError]
) -> None:
    session = begin(skill("a"), skill("b"), skills=["a"])
    version = session.loaded.version
    with pytest.raises(error) as caught:
        session.load(names, mode)
    assert caught.value.hint
    assert (active(session), session.loaded.version) == (["a"], version)


@pytest.mark.covers("G-22", "G-42")
@pytest.mark.parametrize("mode", ["replace", "add"])
def test_more_skills_than_may_be_active_are_refused_with_the_advice_to_load_fewer(
    begin: Begin, skill: Files, log: MemoryLog, mode: Any
) -> None:
    session = begin(*(skill(name) for name in "abcd"), skills=["a"], max_active=2)
    with pytest.raises(InvalidArgument) as caught:
        session.load(["b", "c", "d"], mode)
    assert "Load fewer" in caught.value.hint
    assert active(session) == ["a"]
    assert loads(log)[1:] == [(name, "allow", False, "invalid-argument") for name in "bcd"]


@pytest.mark.covers("G-42")
def test_adding_counts_what_is_active_already(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(*(skill(name) for name in "abc"), skills=["a", "b"], max_active=2)
    with pytest.raises(InvalidArgument, match="3 skills would be active; 2 are the most"):
        session.load(["c"], "add")
    assert active(session) == ["a", "b"]
    assert loads(log)[2:] == [("c", "allow", False, "invalid-argument")]


def test_with_room_for_one_a_load_replaces_and_an_addition_is_refused(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), max_active=1)
    session.load("a")
    session.load("b")
    assert active(session) == ["b"]
    with pytest.raises(InvalidArgument):
        session.load("a", "add")
    assert active(session) == ["b"]


@pytest.mark.parametrize("names", [["b", "zz", "c"], ["zz", "b", "c"], ["b", "c", "zz"]])
def test_a_failed_load_leaves_one_record_for_each_skill_that_was_wanted(
    begin: Begin, skill: Files, log: MemoryLog, names: list[str]
) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), skills=["a"])
    with pytest.raises(SkillNotFound):
        session.load(names, "add")
    assert sorted(loads(log)[1:]) == [(name, "allow", False, "skill-not-found") for name in sorted(names)]
    assert active(session) == ["a"]


def test_a_refused_skill_takes_the_others_with_it_and_each_has_its_record(
    begin: Begin, skill: Files, log: MemoryLog
) -> None:
    session = begin(skill("a"), skill("b"), skill("c"), policy=Policy(blocked=["b"]))
    with pytest.raises(Refused) as caught:
        session.load(["a", "b", "c"])
    assert caught.value.code == "skill-blocked"
    assert loads(log) == [
        ("a", "allow", False, "skill-blocked"),
        ("b", "deny", False, "skill-blocked"),
        ("c", "allow", False, "skill-blocked"),
    ]
    assert active(session) == []


def test_nobody_is_asked_about_skills_after_one_that_is_refused(begin: Begin, skill: Files) -> None:
    asked: list[str] = []

    def approve(action: Any, decision: Any) -> bool:
        asked.append(action.skill.name)
        return False

    places = [Place(layer="project", source=MemorySource({}).add(skill("a")).add(skill("b")), trusted=False)]
    session = Library(places, cache=False).session(guard=Guard(audit=MemoryLog(), approve=approve))
    with pytest.raises(Refused):
        session.load(["a", "b"], by="model")
    assert asked == ["a"]


@pytest.mark.covers("G-22")
def test_a_body_that_cannot_be_read_changes_nothing(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "s" / "a")
    broken = write_skill(tmp_path / "s" / "b")
    session = begin_in(tmp_path / "s", skills=["a"])
    broken.unlink()
    broken.mkdir()
    with pytest.raises(MetierError):
        session.load(["b"])
    assert active(session) == ["a"]


@pytest.mark.covers("G-23")
def test_a_skill_that_is_removed_while_it_is_loaded_is_not_found(
    begin_in: Begin, write_skill: Write, tmp_path: Path, log: MemoryLog
) -> None:
    write_skill(tmp_path / "s" / "a")
    file = write_skill(tmp_path / "s" / "b")
    session = begin_in(tmp_path / "s", skills=["a"])

    def remove(event: Any) -> None:
        if event.kind == "loading" and event.skill == "b":
            file.unlink()
            session.library.refresh()

    session.listen(remove)
    with pytest.raises(MetierError) as caught:
        session.load(["b"])
    assert caught.value.code in ("skill-not-found", "skill-unreadable", "file-missing")
    assert active(session) == ["a"]
    assert [(name, success) for name, _, success, _ in loads(log)] == [("a", True), ("b", False)]


def test_a_skill_that_is_blocked_while_it_is_loaded_is_refused(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), skill("b", "$(now)"))

    def block(event: Any) -> None:
        if event.kind == "loading" and event.skill == "b":
            session.guard.block("a")
            # Somebody else looks, so that the block counts as seen.
            assert session.active == ()

    session.listen(block)
    with pytest.raises(Refused) as caught:
        session.load(["a", "b"])
    assert caught.value.code == "skill-blocked"
    assert active(session) == []
    assert [(name, success, code) for name, _, success, code in loads(log)] == [
        ("a", False, "skill-blocked"),
        ("b", False, "skill-blocked"),
    ]


@pytest.mark.covers("G-22")
def test_a_session_that_is_closed_while_it_loads_stays_empty(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"))
    session.listen(lambda event: session.close())
    with pytest.raises(SessionNotFound):
        session.load("a")
    assert loads(log) == [("a", "allow", False, "session-not-found")]


@pytest.mark.covers("G-22")
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_a_load_that_is_interrupted_changes_nothing_and_is_recorded(
    begin: Begin, skill: Files, log: MemoryLog, interrupt: type[BaseException]
) -> None:
    def approve(action: Any, decision: Any) -> bool:
        return True

    session = begin(skill("a"), approve=approve)

    def stop(event: Any) -> None:
        if event.kind == "loading":
            raise interrupt

    stop_listening = session.listen(stop)
    with pytest.raises(interrupt):
        session.load("a")
    assert active(session) == []
    assert loads(log) == [("a", "allow", False, "cancelled")]
    stop_listening()
    assert session.load("a").changed == ("a",)


@pytest.mark.covers("S-07")
@pytest.mark.each("name", ["PYTHON-DEV", "Python-Dev", " python-dev ", "python_dev"])
def test_a_name_is_found_in_any_case(begin: Begin, skill: Files, name: str) -> None:
    session = begin(skill("python-dev"))
    assert session.load(name).changed == ("python-dev",)
    assert session.loaded.one(name).name == "python-dev"


@pytest.mark.covers("S-07")
def test_an_unknown_name_is_answered_with_what_may_have_been_meant(begin: Begin, skill: Files) -> None:
    with pytest.raises(SkillNotFound, match="Did you mean 'python-dev'"):
        begin(skill("python-dev")).load("pyton-dev")


@pytest.mark.covers("O-100")
@pytest.mark.each("name", ["secret", "secret@memory", "SECRET", "skill-1"])
def test_a_skill_out_of_scope_is_refused_exactly_like_an_absent_one(skill: Files, name: str) -> None:
    hidden = skill("secret", more="scope:\n  agents: [x]\n")
    outcomes = []
    for library in (Library.from_files(hidden, skill("b")).as_caller(agent="y"), Library.from_files(skill("b"))):
        session = library.session(guard=Guard(audit=MemoryLog()))
        with pytest.raises(SkillNotFound) as caught:
            session.load(name.replace("skill-1", "skill-one"))
        outcomes.append((str(caught.value), caught.value.hint))
        assert "secret" not in session.instructions()
        assert [entry.name for entry in session.prompt.matching()] == ["b"]
    assert outcomes[0] == outcomes[1]


@pytest.mark.covers("O-100")
def test_names_restrict_what_a_session_knows(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), names=["a"])
    with pytest.raises(SkillNotFound):
        session.load("b")
    assert "Does b" not in session.instructions()
    assert [entry.name for entry in session.prompt.matching()] == ["a"]
    assert [result.name for result in session.prompt.search("does b")] in ([], ["a"])


@pytest.mark.covers("O-98")
def test_the_enterprise_skill_is_loaded_whatever_priority_others_declare(skill: Files) -> None:
    loud = skill("deploy", "Loud.", more="priority: 5000\nallowed-tools: Bash\n")
    library = Library(
        [
            Place(layer="plugin", source=MemorySource({}, name="plug").add(loud)),
            Place(layer="enterprise", source=MemorySource({}, name="corp").add(skill("deploy", "Ours."))),
        ],
        cache=False,
    )
    session = library.session(guard=Guard(audit=MemoryLog()), skills=["deploy"])
    assert (session.loaded.one().body, session.loaded.one().entry.layer) == ("Ours.", "enterprise")
    # Replaced as a whole: nothing of the other's rules is left.
    assert session.calls.allowed_tools is None


def two_sources(skill: Files) -> Library:
    first, second = MemorySource({}, name="first"), MemorySource({}, name="second")
    first.add(skill("deploy", "From the first."))
    second.add(skill("deploy", "From the second.", more="allowed-tools: Read\n"))
    return Library([Place(layer="plugin", source=first), Place(layer="plugin", source=second)], cache=False)


@pytest.mark.covers("O-99", "G-15", "G-16")
@pytest.mark.each(
    ("name", "body"),
    [
        ("deploy", "From the second."),
        ("deploy@second", "From the second."),
        ("deploy@first", "From the first."),
        (" deploy@first ", "From the first."),
        ("Deploy@first", "From the first."),
    ],
)
def test_a_source_selects_among_skills_of_one_name(skill: Files, name: str, body: str) -> None:
    session = two_sources(skill).session(guard=Guard(audit=MemoryLog()))
    session.load(name)
    assert session.loaded.one().body == body
    assert session.active[0].body == body
    assert session.prompt.content().count(body) == 1


@pytest.mark.covers("O-99")
@pytest.mark.each("how", ["invoke", "fork", "activate"])
def test_a_source_selects_in_every_way_in(skill: Files, how: str) -> None:
    session = two_sources(skill).session(guard=Guard(audit=MemoryLog()))
    if how == "invoke":
        session.invoke("/deploy@first now")
        one = session.loaded.one()
    elif how == "fork":
        one = session.fork("deploy@first").loaded.one()
    else:
        one = session.parts.loader.activate("deploy@first")
    assert one.body.startswith("From the first.")


@pytest.mark.covers("G-15")
def test_two_skills_of_one_name_cannot_be_active_at_once(skill: Files) -> None:
    session = two_sources(skill).session(guard=Guard(audit=MemoryLog()))
    with pytest.raises(InvalidArgument, match="of one name"):
        session.load(["deploy@first", "deploy@second"])
    session.load("deploy@first")
    session.load("deploy@second", "add")
    assert [one.body for one in session.active] == ["From the second."]


@pytest.mark.covers("G-16")
def test_the_plain_name_goes_to_whoever_is_left(write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "one" / "deploy", body="One.")
    file = write_skill(tmp_path / "two" / "deploy", body="Two.")
    library = Library.from_folder(tmp_path / "two", tmp_path / "one")
    session = library.session(guard=Guard(audit=MemoryLog()))
    session.load("deploy")
    assert session.loaded.one().body.strip() == "Two."
    file.unlink()
    library.refresh()
    assert active(session) == []
    session.load("deploy")
    assert session.loaded.one().body.strip() == "One."


def test_a_skill_is_told_from_another_of_its_name_in_the_same_source(
    begin_in: Begin, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "s" / "x", name="x", body="First.")
    write_skill(tmp_path / "s" / "y", name="x", body="Other.")
    session = begin_in(tmp_path / "s")
    session.load(f"x@{tmp_path / 's' / 'y'}")
    assert session.loaded.one().body.strip() == "Other."
    write_skill(tmp_path / "s" / "z")
    session.library.refresh()
    assert [one.body.strip() for one in session.active] == ["Other."]


@pytest.mark.covers("G-17")
def test_the_key_of_a_skill_in_its_source_is_shown_nowhere(skill: Files) -> None:
    source = MemorySource({}, name="store")
    source.add(skill("deploy"))
    library = Library([Place(layer="project", source=source)], cache=False)
    session = library.session(guard=Guard(audit=MemoryLog()), delivery="instructions")
    key = library.get("deploy").key
    told = session.instructions() + str(session.load("deploy").changed) + session.instructions()
    assert f'"{key}"' not in told
    assert f">{key}<" not in told


@pytest.mark.covers("G-18", "O-31")
def test_many_loads_at_once_all_give_the_same(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", "Body of a."), skill("b", "Body of b."))
    start = threading.Barrier(16)
    errors: list[BaseException] = []
    bodies: list[str] = []

    def load(name: str) -> None:
        start.wait()
        try:
            session.load([name], "add")
            bodies.append(session.library.document(name).body)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=load, args=("ab"[number % 2],)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(active(session)) == ["a", "b"]
    assert sorted(set(bodies)) == ["Body of a.", "Body of b."]


@pytest.mark.covers("G-18")
def test_an_error_is_not_kept(begin_in: Begin, write_skill: Write, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "s" / "a")
    good = file.read_bytes()
    session = begin_in(tmp_path / "s")
    file.write_bytes(b"---\nname: other\ndescription: x\n---\nNo.")
    with pytest.raises(MetierError):
        session.load("a")
    file.write_bytes(good)
    assert session.load("a").changed == ("a",)


@pytest.mark.covers("G-23")
@pytest.mark.parametrize("round_", [0, *(pytest.param(round_, marks=pytest.mark.slow) for round_ in range(1, 5))])
def test_loads_and_unloads_from_many_threads_end_in_one_state_that_the_trail_explains(
    begin: Begin, skill: Files, log: MemoryLog, round_: int
) -> None:
    session = begin(*(skill(name) for name in "abcd"))
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        start.wait()
        try:
            for step in range(10):
                match (number + step + round_) % 4:
                    case 0:
                        session.load(["a"], "add")
                    case 1:
                        session.load(["b", "c"])
                    case 2:
                        session.unload("a")
                    case _:
                        session.unload(all=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    names = active(session)
    assert len(set(names)) == len(names)
    session.unload(all=True)
    counts = {
        event: sum(one.event == event and bool(one.success) for one in log.records) for event in ("load", "unload")
    }
    assert session.active == ()
    # Each unloading ends a loading; loading again what is loaded needs no end of its own.
    assert 0 < counts["unload"] <= counts["load"]


@pytest.mark.covers("G-23")
def test_an_addition_survives_an_unloading_of_all_that_comes_between(begin: Begin, skill: Files) -> None:
    session = begin(skill("a"), skill("b"), skills=["a"])

    def unload(event: Any) -> None:
        if event.kind == "loading" and event.skill == "b":
            session.unload(all=True)

    session.listen(unload)
    session.load(["b"], "add")
    assert active(session) == ["b"]


@pytest.mark.covers("G-29")
def test_a_session_begins_with_the_skills_in_the_given_order(begin: Begin, skill: Files) -> None:
    assert active(begin(skill("a"), skill("b"), skill("c"), skills=["c", "a", "b"])) == ["c", "a", "b"]
    assert active(begin(skill("aa"), skills="aa")) == ["aa"]


@pytest.mark.covers("G-29")
@pytest.mark.each(
    ("options", "error"),
    [
        ({"skills": ["a", "a"]}, InvalidArgument),
        ({"skills": ["a", " a"]}, InvalidArgument),
        ({"skills": ["a", "b"], "max_active": 1}, InvalidArgument),
        ({"skills": ["zz"]}, SkillNotFound),
        ({"skills": ""}, InvalidArgument),
        ({"skills": [1]}, InvalidArgument),
        ({"max_active": 0}, InvalidArgument),
        ({"delivery": "pigeon"}, InvalidArgument),
        ({"dependencies": "maybe"}, InvalidArgument),
        ({"listing": "a"}, InvalidArgument),
        ({"names": "a"}, InvalidArgument),
        ({"colour": "red"}, InvalidArgument),
        ({"id": "a\nb"}, InvalidArgument),
        ({"id": "a\0"}, InvalidArgument),
        ({"id": "x" * 10_000}, InvalidArgument),
        ({"id": 5}, InvalidArgument),
    ],
)
def test_a_session_that_cannot_be_is_refused(
    begin: Begin, skill: Files, options: dict[str, Any], error: type[MetierError]
) -> None:
    with pytest.raises(error) as caught:
        begin(skill("a"), skill("b"), **options)
    assert caught.value.hint


@pytest.mark.covers("G-32")
@pytest.mark.each("by", ["host", "model", "user"])
def test_what_is_a_message_of_the_user_cannot_be_active(begin: Begin, skill: Files, by: Any) -> None:
    session = begin(skill("greet", more="insert: user-message\n"))
    with pytest.raises(MetierError) as caught:
        session.load("greet", by=by)
    assert isinstance(caught.value, ActivationFailed | Refused)
    assert active(session) == []
    assert "greet" not in session.instructions()


@pytest.mark.covers("Y-17")
def test_what_a_skill_requires_is_named_and_not_loaded(begin: Begin, skill: Files) -> None:
    session = begin(skill("a", more="requires: [b]\n"), skill("b"))
    receipt = session.load("a")
    assert active(session) == ["a"]
    assert receipt.requires == {"a": ("b",)}
    assert receipt.as_dict()["requires"] == {"a": ["b"]}
    assert "builds on these skills" in session.prompt.content("a")
    assert session.load("b", "add").requires == {}


def test_with_loading_of_dependencies_they_come_first(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(
        skill("a", more="requires: [b, c]\n"), skill("b", more="requires: [c]\n"), skill("c"), dependencies="load"
    )
    assert session.load("a").changed == ("c", "b", "a")
    assert [name for name, *_ in loads(log)] == ["c", "b", "a"]


@pytest.mark.covers("O-103")
def test_skills_that_require_each_other_are_refused_with_the_cycle(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(
        skill("a", more="requires: [b]\n"), skill("b", more="requires: [a]\n"), skill("c"), dependencies="load"
    )
    session.load("c")
    with pytest.raises(ActivationFailed, match="a -> b -> a is a cycle"):
        session.load("a")
    assert active(session) == ["c"]
    assert loads(log)[1:] == [("a", "allow", False, "activation-failed")]


@pytest.mark.covers("O-103")
def test_skills_that_require_each_other_too_deep_are_refused(begin: Begin, skill: Files) -> None:
    chain = [skill(f"s{number}", more=f"requires: [s{number + 1}]\n") for number in range(7)]
    with pytest.raises(ActivationFailed, match="nested too deep: s0 -> s1"):
        begin(*chain, skill("s7"), dependencies="load").load("s0")


def test_a_required_skill_that_is_missing_fails_the_load(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a", more="requires: [gone]\n"), dependencies="load")
    with pytest.raises(SkillNotFound, match="gone"):
        session.load("a")
    assert loads(log) == [("a", "allow", False, "skill-not-found")]


@pytest.mark.covers("O-105", "O-108")
def test_a_load_leaves_one_record_with_skill_layer_user_and_time(begin: Begin, skill: Files, log: MemoryLog) -> None:
    session = begin(skill("a"), user="ada", correlation_id="c-1", id="s-1")
    session.load("a")
    (record,) = log.records
    assert (record.event, record.skill, record.layer, record.user) == ("load", "a", "project", "ada")
    assert (record.session, record.correlation_id, record.success) == ("s-1", "c-1", True)
    assert record.digest == session.library.digest("a")
    assert record.timestamp.endswith("+00:00")
    assert record.duration_ms > 0


@pytest.mark.covers("O-41")
def test_activation_and_deactivation_are_logged(begin: Begin, skill: Files, caplog: pytest.LogCaptureFixture) -> None:
    session = begin(skill("a"))
    with caplog.at_level("INFO", logger="metier.session"):
        session.load("a")
        session.unload("a")
    told = [one.getMessage() for one in caplog.records if one.name == "metier.session"]
    assert told[0].startswith("activated a (sha256:")
    assert told[1] == "deactivated a (unloaded)"
