"""What OpenTelemetry is told: one span for each tool call, the skill on it, and metrics by model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from metier import FunctionTool, Guard, Library, Policy, Session
from metier._otel_setup import agent_instrumentation
from metier.dialect.pydantic_ai import Skills
from metier.run import PlainRunner
from metier.testing import AuditProbe, ScriptedModel, Step, library, skill
from metier.tools import Executor, ToolRegistry


class Telemetry:
    """Providers that keep everything in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        """What ended, the innermost first."""
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def says(self, name: str) -> dict[str, Any]:
        """What the only span of a name says of skills."""
        attributes = self.span(name).attributes or {}
        return {key: value for key, value in attributes.items() if ".skill." in key}

    def of_a_framework(self) -> Instrumentation:
        """What pydantic-ai makes its spans with."""
        return Instrumentation(InstrumentationSettings(tracer_provider=self.tracers, meter_provider=self.meters))

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        """A metric by its labels, in the order of their names: a count, or the sum of a histogram."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[str, ...], float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for one in scope.metrics:
                    for point in one.data.data_points if one.name == name else ():
                        assert isinstance(point, HistogramDataPoint | NumberDataPoint)
                        labels = tuple(str(value) for _, value in sorted((point.attributes or {}).items()))
                        found[labels] = point.sum if isinstance(point, HistogramDataPoint) else point.value
        return found


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    """Telemetry that is on, as the providers of the process, which can be set only once otherwise."""
    made = Telemetry()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", made.tracers)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", made.meters)
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


@pytest.fixture
def forms() -> Library:
    """A skill with a script and a reference, one that forbids things, and one that forks."""
    return library(
        skill(
            "forms",
            description="Fills forms.",
            files={"scripts/fill.py": "print('filled')\n", "references/fields.md": "name, date\n"},
        ),
        skill("strict", allowed_tools="Read"),
        skill("research", context="fork"),
    )


@pytest.fixture
def begin(forms: Library) -> Callable[..., Session]:
    def begin(policy: Policy | None = None, **options: Any) -> Session:
        guard = Guard(policy or Policy(unsandboxed="allow"), audit=AuditProbe())
        return forms.session(guard=guard, runner=PlainRunner(), **options)

    return begin


def call(executor: Executor, name: str, **arguments: Any) -> None:
    executor.execute_blocking(name, arguments)


# --- spans ----------------------------------------------------------------------------------------------------------


def test_a_tool_call_has_one_span_with_the_skill_on_it(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin(id="one")
    call(session.executor(), "skills_load", skills=["forms"])
    span = telemetry.span("execute_tool skills_load")
    assert span.attributes is not None
    assert span.attributes["gen_ai.operation.name"] == "execute_tool"
    assert span.attributes["gen_ai.tool.name"] == "skills_load"
    assert span.attributes["gen_ai.conversation.id"] == "one"
    assert telemetry.says(span.name) == {
        "gen_ai.skill.name": "forms",
        "gen_ai.skill.description": "Fills forms.",
        "gen_ai.skill.source.uri": "memory:forms/SKILL.md",
        "metier.skill.digest": session.active[0].digest,
        "metier.skill.layer": "project",
    }
    assert len(telemetry.spans) == 1


def test_a_file_of_a_skill_is_named_by_its_uri_and_path(
    telemetry: Telemetry, tmp_path: Any, begin: Callable[..., Session]
) -> None:
    session = library(skill("a", files={"references/x.md": "x"}), into=tmp_path).session(skills=["a"])
    call(session.executor(), "skills_read", path="references/x.md")
    said = telemetry.says("execute_tool skills_read")
    assert said["gen_ai.skill.source.uri"] == (tmp_path / "a" / "SKILL.md").as_uri()
    assert said["gen_ai.skill.resource.name"] == "references/x.md"
    assert said["metier.skill.active"] == ("a",)


def test_a_refused_call_says_by_what(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin(skills=["strict"])
    call(session.executor([FunctionTool(lambda: "page", name="web", description="Reads.")]), "web")
    span = telemetry.span("execute_tool web")
    assert telemetry.says(span.name) == {
        "metier.skill.active": ("strict",),
        "metier.skill.denied_by": "strict: allowed-tools",
    }
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "tool-not-allowed"


def test_a_skill_that_does_not_exist_is_not_named(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    call(begin().executor(), "skills_load", skills=["no-such-skill"])
    assert telemetry.says("execute_tool skills_load") == {}


def test_a_tool_that_does_not_exist_is_not_named(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    call(begin().executor(), "made-up")
    assert "gen_ai.tool.name" not in (telemetry.span("execute_tool").attributes or {})


def test_what_replaces_a_skill_is_what_a_load_is_about(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin(skills=["strict"])
    call(session.executor(), "skills_load", skills=["forms"])
    assert telemetry.says("execute_tool skills_load")["gen_ai.skill.name"] == "forms"


def test_an_executor_without_a_session_has_spans_too(telemetry: Telemetry) -> None:
    def fail() -> str:
        """Fails."""
        raise RuntimeError("the password is hunter2")

    call(Executor(ToolRegistry([FunctionTool(fail)])), "fail")
    span = telemetry.span("execute_tool fail")
    assert span.status.status_code is StatusCode.ERROR
    assert "hunter2" not in span.to_json()


def test_a_tool_from_elsewhere_that_raises_leaves_a_span_without_what_it_said(telemetry: Telemetry) -> None:
    async def fail() -> None:
        raise LookupError("the password is hunter2")

    async def around() -> None:
        await Executor(ToolRegistry()).around("web", {}, fail)

    with pytest.raises(LookupError):
        anyio.run(around)
    span = telemetry.span("execute_tool web")
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert "hunter2" not in span.to_json()


def test_text_from_strangers_is_bounded_on_a_span(telemetry: Telemetry) -> None:
    wide = library(skill("wide", description="d" * 1_000))
    call(wide.session().executor(), "skills_load", skills=["wide"])
    assert len(telemetry.says("execute_tool skills_load")["gen_ai.skill.description"]) == 200


# --- frameworks that have spans of their own ------------------------------------------------------------------------


def run(agent: Agent[None, str], task: str = "Go.") -> str:
    return anyio.run(agent.run, task).output


def test_the_span_that_pydantic_ai_makes_is_the_one_that_says_it(telemetry: Telemetry, forms: Library) -> None:
    model = ScriptedModel([("skills_load", {"skills": ["forms"]}), ("web", {}), "done"])
    agent = Agent(model, capabilities=[telemetry.of_a_framework(), Skills(forms, audit=AuditProbe())])

    @agent.tool_plain
    def web() -> str:
        return "page"

    assert run(agent) == "done"
    names = [span.name for span in telemetry.spans]
    assert [name for name in names if name.startswith("execute_tool")] == [
        "execute_tool skills_load",
        "execute_tool web",
    ]
    assert telemetry.says("execute_tool skills_load")["gen_ai.skill.name"] == "forms"
    assert telemetry.says("execute_tool web") == {"metier.skill.active": ("forms",)}
    scopes = {span.instrumentation_scope.name for span in telemetry.spans if span.instrumentation_scope}
    assert scopes == {"pydantic-ai"}


def test_a_provider_that_only_the_framework_knows_is_told_too(forms: Library) -> None:
    own = Telemetry()
    model = ScriptedModel([("skills_load", {"skills": ["forms"]}), "done"])
    run(Agent(model, capabilities=[own.of_a_framework(), Skills(forms, audit=AuditProbe())]))
    assert own.says("execute_tool skills_load")["gen_ai.skill.name"] == "forms"
    own.tracers.shutdown()
    own.meters.shutdown()


@pytest.mark.parametrize("instrumented", [True, False])
def test_the_calls_of_a_fork_stand_below_the_call_that_started_it(
    telemetry: Telemetry, forms: Library, instrumented: bool
) -> None:
    steps: list[Step] = [
        ("skills_load", {"skills": ["research"]}),
        ("skills_load", {"skills": ["forms"]}),
        "found",
        "done",
    ]
    probe = AuditProbe()
    capabilities = [*([telemetry.of_a_framework()] if instrumented else []), Skills(forms, audit=probe)]
    agent = Agent(ScriptedModel(steps), capabilities=capabilities)
    assert run(agent) == "done"
    inner, outer = (span for span in telemetry.spans if span.name == "execute_tool skills_load")
    assert (outer.attributes or {})["gen_ai.skill.name"] == "research"
    assert (inner.attributes or {})["gen_ai.skill.name"] == "forms"
    parent = probe.find(event="call", tool="skills_load")[-1].session
    assert (inner.attributes or {})["metier.skill.fork.parent"] == parent
    assert "metier.skill.fork.parent" not in (outer.attributes or {})
    by_id = {span.context.span_id: span for span in telemetry.spans}
    above = inner
    while above.parent is not None and above is not outer:
        above = by_id[above.parent.span_id]
    assert above is outer


def test_an_mcp_server_says_it_on_its_span_of_the_call(
    telemetry: Telemetry, begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    import mcp.shared._otel
    from mcp import Client
    from mcp.server import MCPServer

    monkeypatch.setattr(mcp.shared._otel, "_tracer", telemetry.tracers.get_tracer("mcp-python-sdk"))
    session = begin()
    server = MCPServer("skills")

    @server.tool()
    async def skills_load(name: str) -> str:
        return str((await session.executor().execute("skills_load", {"skills": [name]})).success)

    async def drive() -> None:
        async with Client(server) as client:
            await client.call_tool("skills_load", {"name": "forms"})

    anyio.run(drive)
    (span,) = (one for one in telemetry.spans if (one.attributes or {}).get("gen_ai.skill.name"))
    assert (span.name, (span.attributes or {})["gen_ai.skill.name"]) == ("tools/call skills_load", "forms")


def test_agents_of_ours_are_instrumented_where_telemetry_is_on(telemetry: Telemetry) -> None:
    (without,) = agent_instrumentation({})
    (given,) = agent_instrumentation({"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"})
    assert (without.settings.include_content, given.settings.include_content) == (False, True)


def test_agents_of_ours_are_not_instrumented_where_it_is_off() -> None:
    assert agent_instrumentation() == []


# --- metrics --------------------------------------------------------------------------------------------------------


def test_activations_are_counted_by_skill_and_outcome(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin()
    session.calls.answered_by("small")
    executor = session.executor()
    for name in ("forms", "forms", "no-such-skill"):
        call(executor, "skills_load", skills=[name])
    assert telemetry.metric("metier.skill.activations") == {
        ("small", "forms", "ok"): 2,
        ("small", "other", "skill-not-found"): 1,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("skills_read", {"path": "references/none.md"}, "file-missing"),
        ("skills_read", {"path": "../../etc/passwd"}, "file-refused"),
        ("skills_run", {"script": "scripts/none.py"}, "file-missing"),
        ("Read", {"file_path": "none.md"}, "file-missing"),
        ("Read", {"file_path": "/etc/passwd"}, "file-refused"),
    ],
)
def test_a_path_that_leads_nowhere_is_counted_once(
    telemetry: Telemetry, begin: Callable[..., Session], tool: str, arguments: dict[str, str], code: str
) -> None:
    session = begin(skills=["forms"])
    session.calls.answered_by("small")
    call(session.executor(builtin=["Read"]), tool, **arguments)
    (labels, count), *others = telemetry.metric("metier.path.failures").items()
    assert (labels[0], labels[-2:], count, others) == ("small", (tool, code), 1, [])
    if code == "file-missing":
        assert telemetry.metric("metier.rule.violations") == {}


@pytest.mark.parametrize("script_reads", ["deny", "allow"])
def test_an_attempt_to_read_a_script_is_counted_once_whatever_policy_says(
    telemetry: Telemetry, begin: Callable[..., Session], script_reads: Any
) -> None:
    session = begin(Policy(script_reads=script_reads), skills=["forms"])
    session.calls.answered_by("small")
    call(session.executor(), "skills_read", path="scripts/fill.py")
    outcome = "ok" if script_reads == "allow" else "script-read"
    assert telemetry.metric("metier.script.read_attempts") == {("small", "forms", "skills_read", outcome): 1}
    assert telemetry.metric("metier.rule.violations") == {}


def test_what_breaks_a_rule_is_counted_with_the_skill_whose_rule_it_is(
    telemetry: Telemetry, begin: Callable[..., Session]
) -> None:
    session = begin(Policy(deny="Grep"), skills=["forms", "strict"])
    session.calls.answered_by("small")
    executor = session.executor(builtin=["Write", "Grep", "Read"])
    call(executor, "Write", file_path="x", content="y")
    call(executor, "Grep", pattern="x")
    call(executor, "Read", file_path="x")
    assert telemetry.metric("metier.rule.violations") == {
        ("small", "strict", "Write", "tool-not-allowed"): 1,
        ("small", "Grep", "tool-not-allowed"): 1,
    }


def test_a_call_after_the_end_breaks_no_rule(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin()
    executor = session.executor()
    session.close()
    call(executor, "skills_load", skills=["forms"])
    assert telemetry.metric("metier.rule.violations") == {}


def test_scripts_that_ran_are_counted(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    session = begin(skills=["forms"])
    call(session.executor(), "skills_run", script="scripts/fill.py")
    assert telemetry.metric("metier.script.executions") == {("forms", "ok"): 1}
    assert telemetry.says("execute_tool skills_run")["gen_ai.skill.resource.name"] == "scripts/fill.py"


def test_tokens_are_counted_for_a_run_of_a_skill_and_each_model(
    telemetry: Telemetry, begin: Callable[..., Session]
) -> None:
    session = begin()
    session.calls.answered_by("small", 7)  # before anything is loaded
    session.load("forms")
    for model, tokens in (("small", 100), ("small", 20), ("large", 3)):
        session.calls.answered_by(model, tokens)
    assert telemetry.metric("metier.skill.run.tokens") == {}
    session.close()
    assert telemetry.metric("metier.skill.run.tokens") == {("small", "forms"): 120, ("large", "forms"): 3}


def test_an_agent_says_which_model_it_was_and_what_it_took(telemetry: Telemetry, forms: Library) -> None:
    probe = AuditProbe()
    steps: list[Step] = [("skills_load", {"skills": ["forms"]}), ("skills_unload", {"all": True}), "done"]
    run(Agent(ScriptedModel(steps, name="small"), capabilities=[Skills(forms, audit=probe)]))
    assert {record.model for record in probe.records} == {"small"}
    ((labels, tokens),) = telemetry.metric("metier.skill.run.tokens").items()
    assert labels == ("small", "forms")
    assert tokens > 0


def test_only_so_many_names_become_labels(telemetry: Telemetry) -> None:
    tools = [FunctionTool(lambda: "", name=f"tool_{number}", description="Does.") for number in range(220)]
    session = library("greet").session(guard=Guard(audit=AuditProbe()))
    executor = session.executor(tools)
    for tool in tools:
        call(executor, tool.name)
    for number in range(5):
        call(executor, f"made-up-{number}")
    labels = telemetry.metric("metier.tool.duration")
    assert len(labels) <= 203
    assert ("other", "ok") in labels
    assert ("other", "tool-not-found") in labels


def test_a_provider_that_fails_costs_no_call(
    telemetry: Telemetry, begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no telemetry today")

    monkeypatch.setattr(trace, "get_tracer_provider", broken)
    monkeypatch.setattr(metrics, "get_meter_provider", broken)
    assert begin().executor().execute_blocking("skills_load", {"skills": ["forms"]}).success


def test_metrics_need_no_spans(
    telemetry: Telemetry, begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    session = begin(skills=["forms"])
    call(session.executor(), "skills_read", path="references/none.md")
    assert telemetry.metric("metier.path.failures") == {("forms", "skills_read", "file-missing"): 1}
    assert telemetry.spans == []


def test_calls_at_the_same_time_have_a_span_each(telemetry: Telemetry, begin: Callable[..., Session]) -> None:
    sessions = {name: begin(id=name).executor() for name in ("forms", "strict")}

    async def at_once() -> None:
        async with anyio.create_task_group() as group:
            for name, executor in sessions.items():
                group.start_soon(executor.execute, "skills_load", {"skills": [name]})

    anyio.run(at_once)
    said = {
        (span.attributes or {})["gen_ai.conversation.id"]: (span.attributes or {})["gen_ai.skill.name"]
        for span in telemetry.spans
    }
    assert said == {"forms": "forms", "strict": "strict"}


# --- off ------------------------------------------------------------------------------------------------------------


def test_nothing_of_opentelemetry_is_imported_for_a_session() -> None:
    statement = (
        "from metier.testing import library; import sys\n"
        "executor = library('greet').session().executor()\n"
        "assert executor.execute_blocking('skills_load', {'skills': ['greet']}).success\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", statement], check=True, timeout=60)


def test_without_a_provider_no_span_is_begun(begin: Callable[..., Session]) -> None:
    seen: list[bool] = []
    tool = FunctionTool(
        lambda: seen.append(trace.get_current_span().get_span_context().is_valid), name="look", description="Looks."
    )
    call(begin().executor([tool]), "look")
    assert seen == [False]
