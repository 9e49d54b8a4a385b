"""Listing modes in a conversation: what a model is told, finds and may load, and what people may."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables import crossed, thinned

from metier import Library, Policy, Session
from metier.dialect import DialectName
from metier.errors import InvalidArgument, MetierError, Refused, SkillNotFound
from metier.find.visibility import listing_rule
from metier.guard import Guard, MemoryLog

LISTING = "{pinned-one: pinned, shy: name-only, deploy: manual, old: off}"
LOADS: dict[DialectName, tuple[str, str]] = {
    "runtime": ("skills_load", "skills"),
    "registry": ("read_skill", "skill_id"),
    "tool": ("skill", "skill_name"),
    "sandbox": ("get_skill", "skill_name"),
}


def library() -> Library:
    names = ("pinned-one", "shy", "deploy", "old", "plain")
    return Library.from_files(
        *({"SKILL.md": f"---\nname: {name}\ndescription: Sorts {name} mail.\n---\nSort {name}."} for name in names)
    )


@pytest.fixture(params=["policy", "program"])
def session(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The same modes, set by a policy file and by a program."""
    if request.param == "program":
        listing = {"pinned-one": "pinned", "shy": "name-only", "deploy": "manual", "old": "off"}
        return library().session(guard=Guard(audit=MemoryLog()), listing=listing)
    (tmp_path / "policy.yaml").write_text(f"version: 1\nskills: {{listing: {LISTING}}}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    return library().session(guard=Guard(audit=MemoryLog()))


def loading(dialect: DialectName, name: str) -> tuple[str, dict[str, object]]:
    tool, key = LOADS[dialect]
    return tool, {key: [name] if key == "skills" else name}


@pytest.mark.parametrize("dialect", LOADS)
def test_a_model_is_told_what_its_mode_says(session: Session, dialect: DialectName) -> None:
    tools = session.tools(dialect)
    told = session.instructions(dialect=dialect) + "".join(tool.description for tool in tools)
    assert "Sorts pinned-one mail." in told and "Sorts plain mail." in told
    assert "shy" in told and "Sorts shy" not in told
    assert "deploy" not in told
    assert "Sorts old" not in told and "`old`" not in told and ">old<" not in told


@thinned("dialect", LOADS, one_in=2)
def test_a_model_loads_what_is_listed_by_name_and_not_what_is_manual_or_off(
    session: Session, dialect: DialectName
) -> None:
    executor = session.executor(dialect=dialect)
    assert executor.execute_blocking(*loading(dialect, "shy")).success
    manual = executor.execute_blocking(*loading(dialect, "deploy"))
    assert (manual.success, manual.code) == (False, "not-for-models")
    off = executor.execute_blocking(*loading(dialect, "old"))
    absent = executor.execute_blocking(*loading(dialect, "gone"))
    assert (off.code, off.success) == (absent.code, absent.success) == ("skill-not-found", False)
    assert str(off.error).replace("old", "X") == str(absent.error).replace("gone", "X")


def test_a_search_finds_what_is_listed_by_name_and_describes_it(session: Session) -> None:
    assert {result.name for result in session.prompt.search("sort mail")} == {"pinned-one", "shy", "plain"}
    answer = session.executor().execute_blocking("skills_search", {"query": "shy"})
    assert "Sorts shy mail." in str(answer.result)


def test_a_model_cannot_tell_what_is_off_from_what_is_absent_by_any_way(session: Session) -> None:
    executor = session.executor()
    for tool, arguments in (
        ("skills_read", {"path": "SKILL.md", "skill": "{}"}),
        ("skills_run", {"script": "scripts/x.py", "skill": "{}"}),
        ("skills_unload", {"skills": ["{}"]}),
        ("skills_load", {"skills": ["{}@memory"]}),
        ("skills_load", {"skills": ["{}x"]}),
    ):
        answers = []
        for name in ("old", "gone"):
            given = {
                key: [one.format(name) for one in value] if isinstance(value, list) else value.format(name)
                for key, value in arguments.items()
            }
            answer = executor.execute_blocking(tool, given)
            answers.append(repr((answer.success, answer.code, answer.error, answer.hint)).replace(name, "X"))
        assert answers[0] == answers[1], tool


@pytest.mark.covers("SEC-5")
@thinned("action", ["load", "unload", "activate", "deactivate"], one_in=2)
def test_what_is_off_is_absent_for_every_action(session: Session, action: str) -> None:
    executor = session.executor(dialect="tool")
    off, absent = (
        executor.execute_blocking("skill", {"skill_name": name, "action": action}) for name in ("old", "gone")
    )
    assert (off.code, str(off.error).replace("old", "X")) == (absent.code, str(absent.error).replace("gone", "X"))


def test_people_start_what_is_manual_and_not_what_is_off(session: Session) -> None:
    invoked = session.invoke("/deploy")
    assert invoked is not None and "Sort deploy." in invoked.text
    with pytest.raises((Refused, SkillNotFound)):
        session.invoke("/old")


def test_the_mode_of_a_skill_names_what_sets_it(session: Session) -> None:
    rule = listing_rule(session.library.get("shy"), session.parts.known.listings)
    assert rule.mode == "name-only"
    assert str(rule.origin).endswith("policy.yaml:2 (enterprise)") or rule.origin == "the session"
    assert listing_rule(session.library.get("plain"), session.parts.known.listings).mode == "listed"


def test_what_a_file_keeps_from_models_no_program_gives_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text(f"version: 1\nskills: {{listing: {LISTING}}}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    session = library().session(guard=Guard(audit=MemoryLog()), listing={"*": "pinned", "old": "pinned"})
    assert "deploy" not in session.instructions() and "Sorts shy" not in session.instructions()
    for name in ("old", "deploy"):
        with pytest.raises(MetierError):
            session.load(name, by="model")


def test_a_changed_file_counts_at_the_next_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("version: 1\n")
    monkeypatch.setenv("METIER_POLICY", str(file))
    session = library().session(guard=Guard(audit=MemoryLog()))
    assert "Sorts plain" in session.instructions()
    file.write_text("version: 1\nskills: {listing: {plain: off}}\n")
    assert "plain" not in session.instructions()


@pytest.mark.each("options", [{"listing": {"a": "pin"}}, {"listing": ["a"]}, {"budget": 511}, {"budget": "many"}])
def test_an_option_that_is_none_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        library().session(**options)


# --- the tools that a session has ------------------------------------------------------------------------------------


def in_need(tool: str) -> Library:
    text = f"---\nname: needy\ndescription: Needs it.\nrequires: {{tools: [{tool}]}}\n---\nDo."
    return Library.from_files({"SKILL.md": text})


def browser(url: str) -> str:
    """Open a page."""
    return url


@pytest.mark.each(
    ("tool", "is_shown"),
    [
        ("browser", True),
        ("Browser", True),
        ("skills_load", True),
        ("Read", True),
        ("read_file", True),
        ("Bash", False),
        ("slack", False),
    ],
)
def test_readiness_counts_the_tools_that_the_session_really_has(tool: str, is_shown: bool) -> None:
    from metier import FunctionTool

    session = in_need(tool).session(guard=Guard(audit=MemoryLog()))
    assert "needy" in session.instructions(), "nobody knows yet which tools there are"
    executor = session.executor([FunctionTool(browser)], builtin=["Read"])
    assert ("needy" in session.instructions()) is is_shown
    assert bool(session.prompt.search("needs it")) is is_shown
    assert executor.execute_blocking("skills_load", {"skills": ["needy"]}).success


@pytest.mark.each("has_tool", [True, False])
def test_a_tool_that_the_session_has_is_not_said_to_be_unknown(has_tool: bool) -> None:
    from metier import FunctionTool

    log = MemoryLog()
    text = "---\nname: rates\ndescription: Rates.\nallowed-tools: browser\n---\nDo."
    session = Library.from_files({"SKILL.md": text}).session(guard=Guard(audit=log))
    executor = session.executor([FunctionTool(browser)] if has_tool else [])
    assert executor.execute_blocking("skills_load", {"skills": ["rates"]}).success
    notes = " ".join(str(one.as_dict()) for one in log.records)
    assert ("tools that are not known: browser" in notes) is not has_tool


@pytest.mark.covers("SEC-5")
@crossed(
    ("spelling", ["deploy", "DEPLOY", " deploy ", "deploy@house", "folder-of-it", "\uff44\uff45ploy"]),
    (
        ("dialect", "tool", "key"),
        [("runtime", "skills_load", "skills"), ("tool", "skill", "skill_name"), ("sandbox", "get_skill", "skill_name")],
    ),
    one_in=3,
)
def test_a_rule_that_names_a_skill_holds_for_every_spelling_of_its_name(
    tmp_path: Path, dialect: DialectName, tool: str, key: str, spelling: str
) -> None:
    folder = tmp_path / "house" / "folder-of-it"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: deploy\ndescription: Deploys.\n---\nDeploy.\n")
    library = Library.from_folder(tmp_path / "house", cache=False)
    given = {key: [spelling] if key == "skills" else spelling}
    for policy, code in (
        (Policy(deny=f"{tool}(deploy)"), "tool-not-allowed"),
        (Policy(ask=f"{tool}(dep*)"), "approval-needed"),
        (Policy(deny=f"{tool}(other)"), None),
    ):
        session = library.session(guard=Guard(policy, audit=MemoryLog()))
        assert session.executor(dialect=dialect).execute_blocking(tool, given).code == code
