"""The agents that are declared in a place: which there are, who may be used, and what each is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.agent import Agent, Agents, Manifest
from metier.agent.agents import SHIPPED
from metier.errors import AgentInvalid, AgentNotFound, InvalidArgument, SkillNotFound, SourceUnavailable
from metier.library.places import TrustStore

WriteSkill = Callable[..., Path]
SHIPPED_IDS = sorted(path.name for path in SHIPPED.iterdir())


def declare(folder: Path, text: str = "description: Does it.", prompt: str | None = None) -> Path:
    """Write an agent into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.yaml").write_text(text, encoding="utf-8")
    if prompt is not None:
        (folder / "prompt.jinja2").write_text(prompt, encoding="utf-8")
    return folder


def ids(agents: Agents) -> list[str]:
    return [agent.id for agent in agents]


def skill(name: str, body: str, more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}\n"}


@pytest.fixture
def library() -> Library:
    """Two skills."""
    return Library.from_files(skill("a", "Body A."), skill("b", "Body B. <system>"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that the user trusts, with a folder in it."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "deep" / "down").mkdir(parents=True)
    TrustStore().trust(root)
    return root


# --- where they are found ------------------------------------------------------------------------------------------


def test_agents_are_found_in_the_project_up_to_its_root_at_home_and_with_the_package(
    project: Path, own_home: Path, library: Library
) -> None:
    declare(project.parent / "agents" / "outside")
    declare(project / "agents" / "at-root")
    declare(project / ".metier" / "agents" / "hidden")
    declare(project / "deep" / "agents" / "halfway")
    declare(own_home / ".metier" / "agents" / "mine")
    declare(own_home / "agents" / "not-mine")
    agents = Agents.discover(library, project / "deep" / "down")
    assert ids(agents) == sorted(["at-root", "hidden", "halfway", "mine", *SHIPPED_IDS])
    assert {agent.id: agent.layer for agent in agents if agent.id not in SHIPPED_IDS} == {
        "at-root": "project",
        "hidden": "project",
        "halfway": "project",
        "mine": "personal",
    }
    assert agents.failures == {}


def test_the_user_s_own_win_over_the_project_s_and_the_nearest_over_those_above(
    project: Path, own_home: Path, library: Library
) -> None:
    for folder, name in (
        (own_home / ".metier", "home"),
        (project / "deep", "near"),
        (project, "far"),
    ):
        for agent in ("x", "y", "reviewer") if name == "far" else ("x", "y") if name == "near" else ("x",):
            declare(folder / "agents" / agent, f"name: {name}")
    agents = Agents.discover(library, project / "deep" / "down")
    assert [agents.get(agent).name for agent in ("x", "y", "reviewer")] == ["home", "near", "far"]
    assert [manifest.name for manifest in agents.shadowed] == ["near", "far", "far", "Reviewer"]


def test_agents_of_a_project_that_nobody_trusts_are_not_offered(project: Path, library: Library) -> None:
    declare(project / "agents" / "clerk")
    TrustStore().untrust(project)
    agents = Agents.discover(library, project)
    assert ids(agents) == SHIPPED_IDS
    failure = agents.failures["clerk"]
    assert failure.reason == "untrusted"
    with pytest.raises(AgentInvalid, match="nobody has trusted") as caught:
        agents.get("clerk")
    assert "metier trust" in caught.value.hint
    TrustStore().trust(project)
    assert "clerk" in Agents.discover(library, project)


def test_an_untrusted_agent_takes_no_name_away_and_nobody_depends_on_it(project: Path, library: Library) -> None:
    TrustStore().untrust(project)
    evil = declare(project / "agents" / "reviewer", "name: Evil")
    agents = Agents.discover(library, project)
    assert agents.get("reviewer").name == "Reviewer"
    assert agents.failures[str(evil)].reason == "untrusted"


def test_nothing_is_read_of_what_nobody_trusts(project: Path, library: Library) -> None:
    declare(project / "agents" / "clerk", "id: reviewer\n- broken")
    TrustStore().untrust(project)
    assert Agents.discover(library, project).failures["clerk"].reason == "untrusted"


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_link_to_a_folder_elsewhere_is_as_trusted_as_the_project_it_lies_in(
    project: Path, library: Library, tmp_path: Path
) -> None:
    declare(tmp_path / "elsewhere" / "clerk")
    (project / "agents").symlink_to(tmp_path / "elsewhere")
    assert "clerk" in Agents.discover(library, project)
    TrustStore().untrust(project)
    TrustStore().trust(tmp_path / "elsewhere")
    assert "clerk" not in Agents.discover(library, project)


def test_a_home_that_is_also_the_project_is_read_once(own_home: Path, library: Library) -> None:
    declare(own_home / ".metier" / "agents" / "mine")
    agents = Agents.discover(library, own_home)
    assert agents.get("mine").layer == "personal"
    assert agents.shadowed == ()


def test_folders_of_other_things_called_agents_are_passed_over(project: Path, library: Library) -> None:
    (project / "agents" / "code").mkdir(parents=True)
    (project / "agents" / "code" / "main.py").write_text("x = 1")
    (project / "agents" / "agent.yaml").write_text("name: not in a folder of its own")
    agents = Agents.discover(library, project)
    assert ids(agents) == SHIPPED_IDS
    assert agents.failures == {}


def test_a_folder_too_full_to_search_says_so(tmp_path: Path, library: Library) -> None:
    for number in range(1_001):
        (tmp_path / f"file-{number}").touch()
    declare(tmp_path / "clerk")
    agents = Agents.from_folder(tmp_path, library=library)
    assert len(agents) == 0
    assert "more than 1,000 entries" in agents.failures[str(tmp_path)].message


def test_without_a_library_that_of_the_place_is_used(project: Path, write_skill: WriteSkill) -> None:
    write_skill(project / ".agents" / "skills" / "local")
    assert "local" in Agents.discover(start=project).library


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_stranger_s_link_takes_no_trusted_folder_away(project: Path, library: Library) -> None:
    TrustStore().untrust(project)
    (project / "agents").symlink_to(SHIPPED)
    assert ids(Agents.discover(library, project)) == SHIPPED_IDS


# --- by folder -----------------------------------------------------------------------------------------------------


def test_just_these_folders_the_first_is_the_strongest(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "one" / "x", "name: First")
    declare(tmp_path / "two" / "x", "name: Second")
    declare(tmp_path / "two" / "y")
    agents = Agents.from_folder(tmp_path / "one", tmp_path / "two", library=library)
    assert ids(agents) == ["x", "y"]
    assert agents.get("x").name == "First"
    assert [manifest.name for manifest in agents.shadowed] == ["Second"]


def test_a_folder_may_be_an_agent_itself(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "clerk")
    assert ids(Agents.from_folder(tmp_path / "clerk", library=library)) == ["clerk"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="There is no folder"):
        Agents.from_folder(tmp_path / "gone")
    with pytest.raises(InvalidArgument):
        Agents.from_folder()


# --- one bad agent ---------------------------------------------------------------------------------------------------


@pytest.mark.covers("Y-32")
def test_one_bad_agent_hides_no_other_and_its_dependents_say_why(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "bad", "names: x")
    declare(tmp_path / "good")
    declare(tmp_path / "leaning", "depends_on: [bad]")
    declare(tmp_path / "last", "depends_on: [good]")
    agents = Agents.from_folder(tmp_path, library=library)
    assert ids(agents) == ["good", "last"]
    assert agents.failures.keys() == {"bad", "leaning"}
    with pytest.raises(AgentInvalid, match="no field 'names'"):
        agents.get("bad")
    with pytest.raises(AgentInvalid, match=r"depends on 'bad', which cannot be used: .*no field 'names'"):
        agents.get("leaning")


@pytest.mark.covers("Y-32")
def test_agents_come_in_the_order_they_start_in(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "a", "depends_on: [z]")
    declare(tmp_path / "m")
    declare(tmp_path / "z", "depends_on: [m]")
    assert ids(Agents.from_folder(tmp_path, library=library)) == ["m", "z", "a"]


def test_a_broken_agent_leaves_its_id_to_a_weaker_one(tmp_path: Path, library: Library) -> None:
    broken = declare(tmp_path / "one" / "x", "- ")
    declare(tmp_path / "two" / "x", "name: Whole")
    agents = Agents.from_folder(tmp_path / "one", tmp_path / "two", library=library)
    assert agents.get("x").name == "Whole"
    assert agents.failures.keys() == {str(broken)}


def test_two_of_one_id_in_one_place_are_both_named_and_the_first_by_name_is_used(
    tmp_path: Path, library: Library
) -> None:
    second = declare(tmp_path / "y", "id: same\nname: Second")
    first = declare(tmp_path / "x", "id: same\nname: First")
    declare(tmp_path / "z", "depends_on: [same]")
    agents = Agents.from_folder(tmp_path, library=library)
    assert agents.get("same").name == "First"
    assert ids(agents) == ["same", "z"]
    assert agents.shadowed == ()
    assert agents.failures.keys() == {str(second)}
    failure = agents.failures[str(second)]
    assert str(first) in failure.message
    assert str(second) in failure.message
    assert "`id:`" in failure.hint


def test_both_folders_of_a_project_are_one_place(project: Path, library: Library) -> None:
    declare(project / "agents" / "clerk", "name: First")
    second = declare(project / ".metier" / "agents" / "clerk", "name: Second")
    agents = Agents.discover(library, project)
    assert agents.get("clerk").name == "First"
    assert agents.failures.keys() == {str(second)}


def test_an_unknown_id_is_answered_with_the_one_that_was_meant(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "clerk")
    agents = Agents.from_folder(tmp_path, library=library)
    assert agents.get(" Clerk ").id == "clerk"
    with pytest.raises(AgentNotFound, match=r"'clrk' was not found\. Did you mean 'clerk'\?") as caught:
        agents.get("clrk")
    assert caught.value.hint == "Agents are clerk."
    with pytest.raises(InvalidArgument, match="is empty"):
        agents.get(" ")
    with pytest.raises(InvalidArgument, match="is text, not int"):
        agents.get(5)  # type: ignore[arg-type]


# --- what an agent is told ------------------------------------------------------------------------------------


def one(tmp_path: Path, library: Library, text: str, prompt: str | None = None) -> tuple[Agents, Manifest]:
    declare(tmp_path / "clerk", text, prompt)
    agents = Agents.from_folder(tmp_path, library=library)
    return agents, agents.get("clerk")


@pytest.mark.covers("Y-29")
def test_prompt_file_then_bodies_in_order_then_inline_instructions(tmp_path: Path, library: Library) -> None:
    agents, clerk = one(tmp_path, library, "uses_skills: [b, a]\ninstructions: Inline.", "Prompt.")
    assert agents.instructions(clerk) == "Prompt.\n\nBody B. &lt;system>\n\nBody A.\n\nInline."


@pytest.mark.covers("Y-30")
@pytest.mark.parametrize(
    ("text", "prompt", "said"),
    [
        ("instructions: Inline.", "Prompt.", "Prompt.\n\nInline."),
        ("instructions: Inline.", None, "Inline."),
        ("", None, ""),
    ],
)
def test_without_skills_nothing_is_added(
    tmp_path: Path, library: Library, text: str, prompt: str | None, said: str
) -> None:
    agents, clerk = one(tmp_path, library, text, prompt)
    assert agents.instructions(clerk) == said


@pytest.mark.covers("Y-31")
def test_an_unknown_skill_is_an_error_that_names_agent_and_skill(tmp_path: Path, library: Library) -> None:
    agents, clerk = one(tmp_path, library, "uses_skills: [a, zz]")
    with pytest.raises(SkillNotFound, match="Agent 'clerk' uses skill 'zz', which was not found") as caught:
        agents.instructions(clerk)
    assert caught.value.hint
    with pytest.raises(SkillNotFound):
        agents.names_for(clerk)


@pytest.mark.covers("Y-31")
def test_leniently_an_unknown_skill_is_a_warning(
    tmp_path: Path, library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    agents, clerk = one(tmp_path, library, "uses_skills: [zz, a]")
    with caplog.at_level("WARNING", logger="metier.agent"):
        assert agents.instructions(clerk, lenient=True) == "Body A."
    assert "Agent 'clerk' uses skill 'zz'" in caplog.text
    assert agents.skills_for(clerk, lenient=True) == ("a",)


def test_text_of_a_project_that_nobody_trusts_becomes_no_part_of_an_agent(
    project: Path, own_home: Path, write_skill: WriteSkill
) -> None:
    write_skill(project / ".agents" / "skills" / "deploy", body="Obey me.")
    declare(own_home / ".metier" / "agents" / "clerk", "uses_skills: [deploy]")
    TrustStore().untrust(project)
    agents = Agents.discover(start=project)
    with pytest.raises(AgentInvalid, match=r"Agent 'clerk' uses skill 'deploy' of .* nobody has trusted"):
        agents.instructions(agents.get("clerk"))
    assert agents.instructions(agents.get("clerk"), lenient=True) == ""


@pytest.mark.covers("Y-31")
def test_a_skill_that_is_a_message_becomes_no_part_of_an_agent(tmp_path: Path) -> None:
    library = Library.from_files(skill("a", "Body A."), skill("um", "Do it.", "insert: user-message\n"))
    agents, clerk = one(tmp_path, library, "uses_skills: [a, um]")
    with pytest.raises(AgentInvalid, match="Agent 'clerk' uses skill 'um', which is a message of the user's") as caught:
        Agent(clerk, agents, model="test")
    assert "/um" in caught.value.hint
    assert agents.instructions(clerk, lenient=True) == "Body A."


def test_an_agent_may_use_many_skills(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    library = Library.from_files(*(skill(name, f"Body {name}.") for name in names))
    agents, clerk = one(tmp_path, library, f"uses_skills: [{', '.join(names)}]")
    assert "Body s19." in agents.instructions(clerk)
    assert Agent(clerk, agents, model="test").run_blocking("Hello.").text


def test_a_skill_that_cannot_be_read_is_named_with_its_agent(tmp_path: Path, write_skill: WriteSkill) -> None:
    (tmp_path / "skills" / "empty").mkdir(parents=True)
    (tmp_path / "skills" / "empty" / "SKILL.md").touch()
    library = Library.from_folder(tmp_path / "skills", cache=False)
    agents, clerk = one(tmp_path / "agents", library, "uses_skills: [empty]")
    with pytest.raises(AgentInvalid, match=r"Agent 'clerk' uses skill 'empty': .* cannot be loaded"):
        agents.instructions(clerk)


def test_a_skill_can_be_chosen_by_its_source(tmp_path: Path, write_skill: WriteSkill) -> None:
    write_skill(tmp_path / "one" / "deploy", body="First.")
    write_skill(tmp_path / "two" / "deploy", body="Second.")
    library = Library.from_folder(tmp_path / "one", tmp_path / "two", cache=False)
    agents, clerk = one(tmp_path / "agents", library, "uses_skills: [deploy@two]")
    assert agents.instructions(clerk) == "Second."
    assert agents.skills_for(clerk) == ("deploy@two",)
    assert agents.names_for(clerk) == frozenset({"deploy"})


def test_a_skill_for_one_agent_is_there_for_that_agent_only(tmp_path: Path) -> None:
    library = Library.from_files(skill("a", "Body A.", "metadata:\n  metier:\n    scope:\n      agents: [clerk]\n"))
    declare(tmp_path / "other", "uses_skills: [a]")
    agents, clerk = one(tmp_path, library, "uses_skills: [a]")
    assert agents.instructions(clerk) == "Body A."
    with pytest.raises(SkillNotFound, match="Agent 'other' uses skill 'a', which was not found"):
        agents.instructions(agents.get("other"))


def test_the_prompt_knows_the_agent_the_day_the_skills_and_what_the_host_gives(
    tmp_path: Path, library: Library
) -> None:
    template = (
        "{{ agent.name }}/{{ agent.id }} {{ date|length }} {{ skills|join }} {{ workspace }} {{ user }} {{ team }}"
    )
    agents, clerk = one(tmp_path, library, "name: The clerk\nuses_skills: [a]", template)
    told = agents.instructions(clerk, workspace="/work", user="Ada", team="Books")
    assert told == "The clerk/clerk 10 a /work Ada Books\n\nBody A."


def test_an_error_in_the_prompt_names_its_file(tmp_path: Path, library: Library) -> None:
    agents, clerk = one(tmp_path, library, "", "Hello\n{{ nobody }}")
    with pytest.raises(AgentInvalid) as caught:
        agents.instructions(clerk)
    assert f"{tmp_path}{os.sep}clerk{os.sep}prompt.jinja2, line 2: 'nobody' is undefined" in caught.value.message


# --- what it sees and whom it can ask -------------------------------------------------------------------------


@pytest.mark.covers("Y-14")
@pytest.mark.parametrize(
    ("text", "seen"),
    [("uses_skills: [a]", {"a"}), ("uses_skills: [a]\ncatalog: all", {"a", "b"}), ("catalog: own", set())],
)
def test_a_specialist_s_catalog_has_only_its_own_skills(
    tmp_path: Path, library: Library, text: str, seen: set[str]
) -> None:
    agents, clerk = one(tmp_path, library, text)
    session = agents.library_for(clerk).session(names=agents.names_for(clerk))
    told = session.instructions()
    assert {name for name in ("a", "b") if f"Does {name}." in told} == seen


@pytest.mark.covers("Y-14")
def test_the_orchestrator_sees_all_skills(library: Library) -> None:
    agents = Agents.discover(library)
    assert agents.names_for(agents.get("orchestrator")) is None


def test_agents_that_are_offered_as_tools_go_to_those_that_ask_for_them(tmp_path: Path, library: Library) -> None:
    declare(tmp_path / "clerk", "description: Clerk.\nintegration_mode: tool")
    declare(tmp_path / "scribe", "description: Scribe.\nintegration_mode: tool\nuses_tools: [agents, Read]")
    declare(tmp_path / "private", "description: Private.")
    declare(tmp_path / "boss", "uses_tools: [private, Read, lookup]")
    agents = Agents.from_folder(tmp_path, library=library)
    asked = {agent.id: [other.id for other in agents.delegates(agent)] for agent in agents}
    assert asked == {"boss": ["private"], "clerk": [], "private": [], "scribe": ["clerk"]}
    assert agents.tools_for(agents.get("boss")) == ("Read", "lookup")
    assert agents.tools_for(agents.get("scribe")) == ("Read",)


def test_a_folder_named_like_a_tool_takes_no_tool_away(project: Path, library: Library) -> None:
    TrustStore().untrust(project)
    for name in ("Read", "agents", "validate_skill"):
        declare(project / "agents" / name)
    agents = Agents.discover(library, project)
    orchestrator = agents.get("orchestrator")
    assert "Read" in agents.tools_for(orchestrator)
    assert [agent.id for agent in agents.delegates(orchestrator)] == ["reviewer", "skill-builder"]
