"""Names and shapes of the systems that people come from are taken, and none of them is a way round a rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.tables import crossed

from metier import FunctionTool, Guard, Library, Policy, Session
from metier.agent import Agent, Agents, Manifest, parse_manifest, read_manifest
from metier.dialect import Kit, SkillContext
from metier.errors import AgentInvalid
from metier.guard import MemoryLog
from metier.run import PlainRunner
from metier.skill import parse
from metier.testing import ScriptedModel
from metier.tools import Executor

DIALECTS: tuple[Any, ...] = ("runtime", "registry", "tool", "sandbox")
BUILT_IN = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"]
SHOW = "import os, sys\nprint(*sys.argv[1:], os.environ.get('INPUT_A'), os.path.basename(os.getcwd()))\n"


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def begin(tmp_path: Path, write_skill: Callable[..., Path], log: MemoryLog) -> Callable[..., Session]:
    """Begins a session with two skills, one of which has a script and a file."""
    folder = tmp_path / "skills"
    for name in ("pdf", "mail"):
        write_skill(folder / name, description=f"Does {name}.", body=f"Do {name}.")
    (folder / "pdf" / "scripts").mkdir()
    (folder / "pdf" / "scripts" / "show.py").write_text(SHOW)
    (folder / "pdf" / "notes.md").write_text("Note.\n")
    (tmp_path / "work" / "inner").mkdir(parents=True)

    def begin(policy: Policy | None = None, **options: Any) -> Session:
        guard = Guard(policy or Policy(unsandboxed="allow"), audit=log)
        library = Library.from_folder(folder, cache=False)
        return library.session(guard=guard, runner=PlainRunner(), workspace=tmp_path / "work", **options)

    return begin


def executors(session: Session, **options: Any) -> dict[str, Executor]:
    """An executor of each dialect, by the tools that it has."""
    found: dict[str, Executor] = {}
    for dialect in DIALECTS:
        executor = session.executor(dialect=dialect, **options)
        found |= dict.fromkeys(executor.registry.names(), executor)
    return found


# --- tool calls -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("ACC-7")
def test_the_calls_of_another_runtime_work_as_they_are_documented_there(begin: Callable[..., Session]) -> None:
    session = begin()
    call = session.executor().execute_blocking
    assert call("skills.load", {"names": ["pdf", "mail"], "mode": "replace"}).success
    assert [one.name for one in session.active] == ["pdf", "mail"]
    read = call("skills.read", {"skill": "pdf", "path": "notes.md"})
    assert "Note." in read.result
    ran = call(
        "skills.run_script",
        {
            "skill": "pdf",
            "path": "scripts/show.py",
            "args": ["--in", "x"],
            "env": {"INPUT_A": "1 = one"},
            "workdir": "inner",
        },
    )
    assert (ran.data["path"], ran.data["exit_code"], ran.data["stderr"]) == ("scripts/show.py", 0, "")
    assert ran.result["stdout"] == "--in x 1 = one inner\n"
    assert call("skills.unload", {"names": ["pdf"]}).success
    assert [one.name for one in session.active] == ["mail"]
    assert call("skills.unload", {"all": True}).success


@pytest.mark.covers("ACC-7")
@pytest.mark.each("env", [{"INPUT_A": "b"}, ["INPUT_A=b"], "INPUT_A=b"])
def test_variables_are_an_object_a_list_or_one_text(begin: Callable[..., Session], env: Any) -> None:
    call = begin(skills=["pdf"]).executor().execute_blocking
    assert call("skills_run", {"script": "scripts/show.py", "env": env}).result["stdout"].split()[0] == "b"


@pytest.mark.covers("ACC-7")
@pytest.mark.each("env", [{"A=B": "c"}, {"INPUT_A": 1}, {"INPUT_A": None}, 5, [["a"]], ["INPUT_A"], {"": "x"}])
def test_what_is_no_variable_is_an_error(begin: Callable[..., Session], env: Any) -> None:
    result = begin(skills=["pdf"]).executor().execute_blocking("skills_run", {"script": "scripts/show.py", "env": env})
    assert not result.success
    assert result.hint


@pytest.mark.covers("ACC-7")
@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("Skill", {"skill": "pdf"}),
        ("skill", {"skill": "pdf", "args": "x"}),
        ("skill", {"skill_id": "pdf", "action": "activate"}),
        ("GetSkill", {"skillName": "PDF"}),
        ("get_skill", {"skill_id": "pdf"}),
        ("read_skill", {"skill_name": "pdf"}),
        ("skills.load", {"names": ["pdf"]}),
    ],
)
def test_a_skill_is_loaded_however_the_call_names_it(
    begin: Callable[..., Session], tool: str, arguments: dict[str, Any]
) -> None:
    session = begin()
    result = executors(session)[
        {"Skill": "skill", "GetSkill": "get_skill", "skills.load": "skills_load"}.get(tool, tool)
    ].execute_blocking(tool, arguments)
    assert result.success, result.error
    assert [one.name for one in session.active] == ["pdf"]


@pytest.mark.covers("ACC-7")
def test_commands_and_files_are_had_under_their_other_names(begin: Callable[..., Session], tmp_path: Path) -> None:
    call = begin().executor(builtin=["Read", "Bash"]).execute_blocking
    (tmp_path / "work" / "a.txt").write_text("Text.\n")
    assert "Text." in str(call("read_file", {"file_path": "a.txt", "encoding": "utf-8"}).result)
    ran = call("bash_exec", {"command": "echo hi", "timeout_ms": 10_000, "workdir": "inner"})
    assert "hi" in str(ran.result)
    slow = call("bash_exec", {"command": "sleep 20", "timeout_ms": 200})
    assert slow.code == "timed-out" or slow.data.get("timed_out"), slow


@pytest.mark.covers("ACC-7")
def test_two_names_for_one_argument_must_say_the_same(begin: Callable[..., Session]) -> None:
    session = begin()
    call = session.executor().execute_blocking
    result = call("skills_load", {"names": ["pdf"], "skills": ["mail"]})
    assert (result.code, session.active) == ("invalid-arguments", ())
    assert "'names'" in (result.error or "")
    assert "'skills'" in (result.hint or "")
    assert call("skills_load", {"names": ["pdf"], "skills": ["pdf"]}).success


@pytest.mark.covers("ACC-7")
def test_an_unknown_argument_is_still_an_error(begin: Callable[..., Session]) -> None:
    result = begin().executor().execute_blocking("skills_load", {"names": ["pdf"], "other": 1})
    assert result.code == "invalid-arguments"


# --- rules, records, order ------------------------------------------------------------------------------------------


@pytest.mark.covers("ACC-7")
@crossed(
    ("rule", ["skills.run_script", "skills_run", "SKILLS.RUN"]),
    ("name", ["skills.run_script", "skills_run", "skills.run"]),
    one_in=3,
)
def test_a_rule_holds_by_whatever_name_it_and_the_call_have(
    begin: Callable[..., Session], log: MemoryLog, rule: str, name: str
) -> None:
    session = begin(Policy(unsandboxed="allow", deny=rule), skills=["pdf"])
    result = session.executor().execute_blocking(name, {"path": "scripts/show.py"})
    assert (result.success, result.code) == (False, "tool-not-allowed")
    (record,) = [one for one in log.records if one.event == "call"]
    assert record.tool == "skills_run"
    assert json.loads(record.arguments) == {"script": "scripts/show.py"}


@pytest.mark.covers("ACC-7")
@pytest.mark.each("name", ["Bash", "bash", "bash_exec", "BashTool"])
def test_a_pattern_sees_the_command_of_every_name(begin: Callable[..., Session], name: str) -> None:
    executor = begin(Policy(unsandboxed="allow", deny="Bash(touch:*)")).executor(builtin=["Bash"])
    assert executor.execute_blocking(name, {"command": "touch x"}).code == "tool-not-allowed"
    assert executor.execute_blocking(name, {"command": "echo x"}).success


@pytest.mark.covers("ACC-7")
def test_a_tool_that_an_agent_has_under_such_a_name_stays_its_own(begin: Callable[..., Session]) -> None:
    def own(path: str, names: str = "") -> str:
        return f"{path}{names}"

    tools = [FunctionTool(own, name="read_file"), FunctionTool(own, name="skills_run_script")]
    executor = begin().executor(tools, builtin=["Read"])
    for name in ("read_file", "skills_run_script"):
        assert executor.execute_blocking(name, {"path": "a", "names": "b"}).result == "ab"


@pytest.mark.covers("ACC-7")
def test_what_changes_the_active_skills_comes_first_under_every_name(begin: Callable[..., Session]) -> None:
    kit = Kit(begin())
    assert kit.changes("skills.load")
    assert kit.changes("skills.unload")
    assert not kit.changes("skills.read")
    assert kit.owns("skills.run_script")
    assert not kit.owns("skills.none")


# --- agents ---------------------------------------------------------------------------------------------------------

BUILDER = """\
id: builder_agent
name: Extension Builder Agent

agent:
  integration_mode: tool
  model: gpt-5.2-codex
  uses_tools:
    - core_tools
    - web_search
    - skill_registry
  uses_skills:
    - extension-development
  limits:
    max_turns: 20

depends_on:
  - skill_registry
"""


@pytest.mark.covers("ACC-7")
def test_a_manifest_with_a_block_and_underscores_declares_an_agent(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "builder_agent"
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text(BUILDER)
    (folder / "prompt.jinja2").write_text("You build extensions.")
    skill = {"SKILL.md": "---\nname: extension-development\ndescription: E.\n---\nThe contract."}
    agents = Agents.from_folder(tmp_path / "agents", library=Library.from_files(skill))
    assert dict(agents.failures) == {}
    manifest = agents.get("builder_agent")
    assert (manifest.id, manifest.integration_mode, manifest.max_turns) == ("builder_agent", "tool", 20)
    assert manifest.uses_tools == ("Read", "Write", "Edit", "Glob", "Grep", "web_search")
    assert (manifest.uses_skills, manifest.depends_on) == (("extension-development",), ())
    assert manifest.description == "Extension Builder Agent"
    told = agents.instructions(manifest)
    assert told.index("You build extensions.") < told.index("The contract.")


@pytest.mark.covers("ACC-7")
def test_agents_name_each_other_by_ids_with_underscores(tmp_path: Path) -> None:
    (tmp_path / "a_one").mkdir()
    (tmp_path / "a_one" / "agent.yaml").write_text("depends_on: [b_two]\nuses_tools: [b_two]\n")
    (tmp_path / "b_two").mkdir()
    (tmp_path / "b_two" / "agent.yaml").write_text("agent:\n  description: Helps.\n  integration_mode: tool\n")
    agents = Agents.from_folder(tmp_path, library=Library.from_files())
    assert [one.id for one in agents] == ["b_two", "a_one"]
    assert [one.id for one in agents.delegates(agents.get("a_one"))] == ["b_two"]


@pytest.mark.covers("ACC-7")
@pytest.mark.each(
    ("text", "said"),
    [
        ("model: a\nagent:\n  model: b\n", "'model' is given twice"),
        ("agent: clerk\n", "`agent` is text"),
        ("agent: [a]\n", "`agent` is a list"),
        ("agent:\n  agent:\n    model: b\n", "no field 'agent.agent'"),
        ("agent:\n  modle: b\n", "no field 'modle'"),
        ("id: a__b\n", "'a__b' is no id"),
        ("id: _a\n", "'_a' is no id"),
    ],
)
def test_what_is_wrong_with_a_block_or_an_id_is_said(text: str, said: str) -> None:
    with pytest.raises(AgentInvalid) as caught:
        parse_manifest(text, folder="agents/clerk")
    assert said in caught.value.message
    assert caught.value.hint
    assert parse_manifest("model: a\nagent:\n  model: a\n", folder="agents/clerk").model == "a"


@pytest.mark.covers("ACC-7")
def test_a_manifest_of_something_else_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("id: web\nname: A page\nicons: []\n")
    assert read_manifest(tmp_path) is None
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "agent.yaml").write_text("name: Inner\n")
    agents = Agents.from_folder(tmp_path, library=Library.from_files())
    assert [one.id for one in agents] == ["inner"]


# --- context providers ----------------------------------------------------------------------------------------------


class Memory:
    """A provider as another system has it."""

    context_priority = 100

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def get_context(self, prompt: str, turn_context: Any) -> str | None:
        await anyio.sleep(0)
        self.asked.append(turn_context.agent_id)
        return f"Remember {prompt}"


class Broken:
    priority = 1

    async def context(self, prompt: str) -> str:
        raise RuntimeError("the disk is gone")


@pytest.mark.covers("ACC-7")
def test_an_agent_asks_providers_of_another_system_with_the_turn(tmp_path: Path) -> None:
    memory, model = Memory(), ScriptedModel(["Done."])
    manifest = Manifest(id="builder_agent", name="Builder")
    agents = Agents([manifest], Library.from_files())
    agent = Agent(manifest, agents, model=model, context=[memory, Broken()], workspace=tmp_path)
    assert agent.run_blocking("tea").text == "Done."
    assert memory.asked == ["builder_agent"]
    (request,) = model.requests
    assert getattr(request.messages[0].parts[0], "content", "") == "Remember tea\n\n---\n\ntea"


@pytest.mark.covers("ACC-7")
def test_providers_of_all_kinds_are_joined_by_priority(begin: Callable[..., Session]) -> None:
    from metier.dialect import TurnContext, enriched_prompt_async

    session = begin()
    providers: list[Any] = [Memory(), Broken(), SkillContext(session)]
    text = anyio.run(enriched_prompt_async, providers, "tea", TurnContext(agent_id="builder_agent"))
    assert text.split("\n\n---\n\n") == [SkillContext(session).context("tea"), "Remember tea", "tea"]


@pytest.mark.covers("ACC-7", "Y-14")
def test_the_catalog_is_a_provider_for_the_host_of_another_system(begin: Callable[..., Session]) -> None:
    class Turn:
        def __init__(self, agent_id: str) -> None:
            self.agent_id = agent_id

    sessions = {"orchestrator": begin(), "specialist": begin(names=["pdf"])}
    provider = SkillContext(lambda turn: sessions[turn.agent_id])
    assert provider.context_priority == 60

    def shown(agent: str) -> str:
        return str(anyio.run(provider.get_context, "Hello?", Turn(agent)))

    assert "`mail`" in shown("orchestrator")
    assert "`pdf`" in shown("orchestrator")
    assert "`mail`" not in shown("specialist")
    assert "`pdf`" in shown("specialist")


# --- skills ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("ACC-7")
@pytest.mark.each("key", ["depends_on", "depends-on", "dependsOn"])
def test_depends_on_of_a_skill_is_requires(key: str) -> None:
    library = Library.from_files(
        {"SKILL.md": f"---\nname: top\ndescription: T.\n{key}: [base]\n---\nDo."},
        {"SKILL.md": "---\nname: base\ndescription: B.\n---\nDo."},
    )
    session = library.session(guard=Guard(audit=MemoryLog()))
    assert session.load("top").requires == {"top": ("base",)}
    loaded = library.session(guard=Guard(audit=MemoryLog()), dependencies="load").load("top")
    assert [one.name for one in loaded.active] == ["base", "top"]


@pytest.mark.covers("ACC-7")
def test_depends_on_beside_requires_is_said_or_means_something_else() -> None:
    def read(more: str) -> Any:
        return parse(f"---\nname: a\ndescription: A.\n{more}---\nDo.\n".encode())

    both = read("requires: [b]\ndepends_on: [c]\n")
    assert both.skill.requires == ("b",)
    assert "field-twice" in [note.code for note in both.skill.diagnostics]
    assert "field-twice" not in [note.code for note in read("requires: [b]\ndepends_on: [b]\n").skill.diagnostics]
    # What the machine has to have is not what skills build on.
    assert read("requires: {bins: [ffmpeg]}\ndepends_on: [c]\n").skill.requires == ("c",)
