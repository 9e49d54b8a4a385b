"""What `metier.testing` gives people who test skills, and agents that have them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from pydantic_ai import Agent

from metier import Guard, Policy
from metier.dialect.pydantic_ai import Skills
from metier.errors import InvalidArgument, SkillInvalid
from metier.run import PlainRunner
from metier.testing import AuditProbe, FakeClock, ModelRequest, ScriptedModel, library, skill
from metier.tools import Executor, FunctionTool, ToolRegistry

# --- libraries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_skill_of_a_line_is_a_clean_one(on_disk: bool, tmp_path: Path) -> None:
    made = library("greet: Says hello.", skill("bye"), into=tmp_path if on_disk else None)
    assert [(entry.folder, entry.diagnostics) for entry in made] == [("bye", ()), ("greet", ())]


def test_two_skills_of_one_name_are_both_there() -> None:
    assert len(library("greet: One.", "greet: Two.").entries(all=True)) == 2


@pytest.mark.each(
    ("field", "hint"),
    [
        ("allowed_tool", "Did you mean 'allowed_tools'?"),
        ("Allowed_Tools", "Did you mean"),
        ("zebra", "no field 'zebra'"),
    ],
)
def test_a_field_that_no_skill_has_is_an_error_with_what_was_meant(field: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=hint) as caught:
        skill("greet", **{field: "Read"})  # type: ignore[arg-type]
    assert "below metadata" in caught.value.hint


def test_fields_are_written_as_a_skill_has_them() -> None:
    made = library(skill("greet", when_to_use="Always.", disable_model_invocation=True, metadata={"zebra": "1"}))
    greet = made.get("greet").skill
    assert (greet.when_to_use, greet.disable_model_invocation, greet.metadata["zebra"]) == ("Always.", True, "1")


def test_a_skill_is_a_name_a_description_or_all_of_its_files() -> None:
    made = library("greet", "bye: Says goodbye.", skill("forms", "Fill $ARGUMENTS.", files={"references/a.md": "A"}))
    assert [(entry.name, entry.description) for entry in made] == [
        ("bye", "Says goodbye."),
        ("forms", "Does forms."),
        ("greet", "Does greet."),
    ]
    assert made.document("forms").body == "Fill $ARGUMENTS."
    assert made.read("forms", "references/a.md") == b"A"


def test_fields_are_written_as_they_are_called_in_a_skill() -> None:
    entry = library(skill("a", allowed_tools=["Read", "Bash(git:*)"], disable_model_invocation=True)).get("a")
    assert entry.skill.allowed_tools == ("Read", "Bash(git:*)")
    assert entry.skill.disable_model_invocation


def test_a_skill_that_breaks_the_specification_is_an_error() -> None:
    with pytest.raises(SkillInvalid):
        skill("Not a name")


def test_a_library_may_be_written_to_a_folder_and_changed_there(tmp_path: Path) -> None:
    made = library("greet", skill("forms", files={"scripts/x.py": b"print(1)"}), into=tmp_path)
    assert (tmp_path / "forms" / "scripts" / "x.py").read_bytes() == b"print(1)"
    (tmp_path / "greet" / "SKILL.md").unlink()
    assert made.refresh().removed == ("greet",)


def test_files_that_are_no_proper_skill_can_be_tried_too(tmp_path: Path) -> None:
    made = library({"SKILL.md": "no frontmatter, but text"}, into=tmp_path)
    assert [entry.folder for entry in made.entries(all=True)] == ["skill-1"]


def test_scripts_of_a_skill_in_memory_run(tmp_path: Path) -> None:
    session = library(skill("forms", files={"scripts/x.py": "print('filled')"})).session(
        skills=["forms"], policy=Policy(unsandboxed="allow"), runner=PlainRunner(), workspace=tmp_path
    )
    assert session.run_blocking("scripts/x.py").stdout == "filled\n"


# --- the clock --------------------------------------------------------------------------------------------------------


def test_a_clock_goes_on_when_it_is_told_to() -> None:
    clock = FakeClock(10)

    def slow() -> str:
        """Takes two seconds."""
        clock.advance(2)
        return "done"

    result = Executor(ToolRegistry([FunctionTool(slow)]), clock=clock).execute_blocking("slow")
    assert result.duration_ms == 2_000
    with pytest.raises(InvalidArgument):
        clock.advance(-1)


# --- the log ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def probe() -> AuditProbe:
    """A log of a load, a refused call, and an unload."""
    probe = AuditProbe()
    session = library(skill("strict", allowed_tools="Grep")).session(guard=Guard(audit=probe))
    executor = session.executor(builtin=["Read"])
    executor.execute_blocking("skills_load", {"skills": ["strict"]})
    executor.execute_blocking("Read", {"file_path": "x"})
    session.close()
    return probe


def test_a_trail_says_what_happened_in_order(probe: AuditProbe) -> None:
    assert probe.summary() == [
        ("load", "strict", "ok"),
        ("call", "skills_load", "ok"),
        ("call", "Read", "tool-not-allowed"),
        ("unload", "strict", "ok"),
    ]
    assert probe.summary("load", "unload") == [("load", "strict", "ok"), ("unload", "strict", "ok")]


def test_records_are_found_by_what_they_hold(probe: AuditProbe) -> None:
    assert probe.one(tool="Read").active == ("strict",)
    assert [record.tool for record in probe.refused()] == ["Read"]
    assert probe.find(event="run") == []


def test_a_record_that_is_not_the_only_one_shows_all_records(probe: AuditProbe) -> None:
    with pytest.raises(AssertionError, match=r"2 records have .* the records are .*skills_load"):
        probe.one(event="call")


def test_a_log_forgets(probe: AuditProbe) -> None:
    probe.clear()
    assert probe.summary() == []


# --- the model --------------------------------------------------------------------------------------------------------


def agent_of(model: ScriptedModel) -> Agent[None, str]:
    agent = Agent(model, instructions="Be brief.", capabilities=[Skills(library("greet: Says hello."))])

    @agent.tool_plain
    def double(number: int) -> int:
        return number * 2

    return agent


def test_a_model_plays_its_script_and_keeps_what_it_was_asked() -> None:
    model = ScriptedModel([("double", {"number": 21}), "It is 42."])
    assert anyio.run(agent_of(model).run, "Double it.").output == "It is 42."
    first, second = model.requests
    assert "Be brief." in first.instructions
    assert "double" in first.tools
    assert "skills_load" in first.tools
    assert (first.told, second.told) == (("Double it.",), ("42",))
    assert 'double({"number":21})' in second.text
    assert model.left == 0


def test_a_script_is_streamed_piece_by_piece() -> None:
    model = ScriptedModel([("double", {"number": 21}), "It is forty two."])

    async def pieces() -> list[str]:
        async with agent_of(model).run_stream("Double it.") as stream:
            return [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]

    assert anyio.run(pieces) == ["It ", "is ", "forty ", "two."]
    assert model.requests[1].told == ("42",)


def test_a_step_may_say_something_and_call_several_tools() -> None:
    model = ScriptedModel([["Let me see.", ("double", {"number": 1}), ("double", {"number": 2})], "2 and 4"])
    assert anyio.run(agent_of(model).run, "Go.").output == "2 and 4"
    assert model.requests[1].told == ("2", "4")


def test_a_step_may_depend_on_what_the_model_was_told() -> None:
    def repeat(request: ModelRequest) -> str:
        return f"You said {request.told[0]}"

    assert anyio.run(agent_of(ScriptedModel([repeat])).run, "hello").output == "You said hello"


def test_a_step_may_be_a_failure() -> None:
    with pytest.raises(ConnectionError, match="no line"):
        anyio.run(agent_of(ScriptedModel([ConnectionError("no line")])).run, "hello")


def test_a_request_too_many_says_what_the_model_was_told() -> None:
    model = ScriptedModel([("double", {"number": 21})])
    with pytest.raises(AssertionError, match=r"The script has ended.*42"):
        anyio.run(agent_of(model).run, "Go.")


def test_several_models_may_play_one_script() -> None:
    model = ScriptedModel([("skills_load", {"skills": ["hard"]}), "done"], name="small")
    skills = Skills(library(skill("hard", model="large")), models={"large": model.named("large")})
    assert anyio.run(Agent(model, capabilities=[skills]).run, "Go.").output == "done"
    assert [request.model for request in model.requests] == ["small", "large"]


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_what_needs_no_agent_loads_none() -> None:
    statement = (
        "from metier.testing import AuditProbe, FakeClock, library; import sys\n"
        "library('greet').session(skills=['greet'])\nassert 'pydantic_ai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=60)


def test_a_model_without_its_extra_names_what_to_install() -> None:
    statement = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from metier.errors import PartMissing\n"
        "try:\n    from metier.testing import ScriptedModel\n"
        "except PartMissing as error:\n    assert 'metier[agent]' in error.hint\n"
        "else:\n    raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=60)
