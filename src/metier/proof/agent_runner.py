"""Trials through our own agent: with a scripted model, or any model by its name."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from metier import Library
from metier._extras import optional
from metier._lazy import dataclass, field
from metier.agent import Agent, Agents, Manifest
from metier.errors import AgentFailed, BudgetExceeded, IntegrityFailed, MetierError
from metier.guard import MemoryLog
from metier.proof.clock import ClockRunner
from metier.proof.mocks import mock_tools
from metier.proof.model_price import FREE, price_of, worst_price
from metier.proof.recordings import Exchange, shown_parts
from metier.proof.subject import test_guard
from metier.proof.trace import ModelCall, count_trace, loaded_digest, traced_calls
from metier.proof.trial import Transcript
from metier.proof.workspace_files import read_workspace
from metier.tools.arguments import Misfit, read_arguments

with optional("Tests of behaviour", "pydantic-ai-slim", extra="agent"):
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.wrapper import WrapperModel

    from metier.agent.models import choose_model
    from metier.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from metier import Session
    from metier.proof.budget import TrialBudget
    from metier.proof.judge import AskModel
    from metier.proof.model_price import ModelPrice
    from metier.proof.suite import BehaviourCase
    from metier.proof.trial import Arm, Trial
    from metier.testing import Step
    from metier.tools import Tool

TOOLS = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")
"""The built-in tools of the agent that is tested."""
MAX_OUTPUT = 8_192
"""The most tokens of one answer, as the worst case of a request must be known."""
INSTRUCTIONS = "You work in a folder with the files of the user. Do what the user asks, and say what came of it."


def unmet_need(case: BehaviourCase) -> str:
    """The reason why our own agent cannot give a case what it needs; empty where it can."""
    return "Variables are for cases of scripts; an agent has none." if case.environment.env else ""


class ScriptedRunner:
    """Trials in which a model does what the case says: they test the suite, the skill's files and its rules."""

    name = "scripted"

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        """The reason why it cannot run a trial: a script has the same end each time, and some cases have none."""
        if number:
            return "A script does the same each time."
        if unmet := unmet_need(case):
            return unmet
        if not (case.steps_without if arm == "without" else case.steps):
            return f"The case has no `{'steps_without' if arm == 'without' else 'steps'}` for a scripted model."
        return ""

    async def run(self, trial: Trial) -> Transcript:
        """Play the steps of the case."""
        steps = trial.case.steps_without if trial.arm == "without" else trial.case.steps
        script: list[Step] = [[*([step.say] if step.say or not step.calls else []), *step.calls] for step in steps]
        return await run_agent(trial, MeteredModel(ScriptedModel(script), trial.budget, FREE, trial))


class ModelRunner:
    """Trials with a model of pydantic-ai, such as `openai:gpt-5`."""

    def __init__(self, model: Model | str, *, price: ModelPrice | None = None) -> None:
        """`price` is what the model costs, where genai-prices does not know that or it is another."""
        self._given = model
        self._price = price
        self.recorded: dict[tuple[str, Arm], dict[int, tuple[Exchange, ...]]] = {}
        """The requests and answers of its trials that came to an end, by case and arm, and by number."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._given if isinstance(self._given, str) else self._given.model_id

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        """The reason why the model cannot be used, or not for this case."""
        try:
            _ = self._model
        except MetierError as error:
            return f"{error.message} `metier test --with PROVIDER:MODEL` names one, its key in the usual variable."
        return unmet_need(case)

    @functools.cached_property
    def _model(self) -> Model:
        return choose_model(self._given)

    async def run(self, trial: Trial) -> Transcript:
        """Run a trial, and keep what was asked and answered."""
        # Its connections are those of one event loop, and end with it.
        async with MeteredModel(self._model, trial.budget, self._price, trial) as model:
            transcript = await run_agent(trial, model)
        if not transcript.error:
            kept = self.recorded.setdefault((trial.case.id, trial.arm), {})
            kept[trial.number] = tuple(model.exchanges)
        return transcript


class MeteredModel(WrapperModel):
    """A model that holds the worst case of each request before it is made, and counts what it came to.

    That of a trial keeps what was asked and answered, and to what the trial may cost.
    """

    def __init__(
        self, wrapped: Model, budget: TrialBudget, price: ModelPrice | None = None, trial: Trial | None = None
    ) -> None:
        super().__init__(wrapped)
        self._budget = budget
        self._price = price
        self._trial = trial
        self.requests = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cost: float | None = 0.0
        """The price so far; None where that of a request is not known."""
        self.exchanges: list[Exchange] = []
        """The requests and answers of a trial so far."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask the model; raises `BudgetExceeded` where that might cost more than is left."""
        settings: ModelSettings = {"max_tokens": MAX_OUTPUT, **(model_settings or {})}
        size = len(ModelMessagesTypeAdapter.dump_json(messages)) + len(repr(model_request_parameters).encode())
        worst = worst_price(self.wrapped, size, settings["max_tokens"], self._price)
        self._require_within(worst)
        parts = shown_parts(messages, model_request_parameters, self._trial) if self._trial is not None else {}
        async with self._budget.hold(worst) as hold:
            try:
                response = await self.wrapped.request(messages, settings, model_request_parameters)
            except ModelHTTPError:
                hold.cost = 0.0
                raise
            hold.cost = price_of(self.wrapped, response.usage, self._price)
        self.requests += 1
        self.input_tokens += response.usage.input_tokens
        self.output_tokens += response.usage.output_tokens
        self.cost = None if self.cost is None or hold.cost is None else self.cost + hold.cost
        if self._trial is not None:
            self.exchanges.append(Exchange.of(parts, response, self._trial))
        return response

    def _require_within(self, worst: float | None) -> None:
        limit = self._trial.max_cost if self._trial is not None else None
        if limit is not None and (worst is None or (self.cost or 0.0) + worst > limit):
            raise BudgetExceeded(
                f"The next call may cost more than a trial may: ${limit:.4f}.", hint="Raise the limit."
            )


def judge_of(model: Model | str, budget: TrialBudget, price: ModelPrice | None = None) -> AskModel:
    """A model to judge by, whose requests count in the budget."""

    async def ask(prompt: str) -> str:
        from pydantic_ai import Agent as Engine

        async with MeteredModel(choose_model(model), budget, price) as metered:
            return (await Engine(metered).run(prompt)).output

    return ask


@dataclass(slots=True, kw_only=True)
class _Course:
    """The state of a trial, which is there whatever ends it."""

    answer: str = ""
    error: str = ""
    session: str = ""
    messages: list[ModelMessage] = field(default_factory=list)


async def run_agent(trial: Trial, model: MeteredModel) -> Transcript:
    """Run a trial through our own agent, under the guard of tests, and collect its traces."""
    log = MemoryLog()
    before = await anyio.to_thread.run_sync(read_workspace, trial.workspace)
    begin = time.monotonic()
    agent = await anyio.to_thread.run_sync(_make_agent, trial, model, log)
    course = _Course()
    try:
        with anyio.fail_after(trial.max_seconds):
            await _work(agent, trial, course)
    except TimeoutError:
        course.error = f"timeout: It came to no end in {trial.max_seconds:g} seconds."
    except MetierError as error:
        course.error = f"{_reason_of(error)}: {error.message}"
    seconds = time.monotonic() - begin
    after = await anyio.to_thread.run_sync(read_workspace, trial.workspace)
    records = log.records
    digest = "" if trial.folder is None else loaded_digest(records, trial.skill)
    return Transcript(
        answer=course.answer,
        calls=traced_calls(records, _model_calls(course.messages), course.session),
        skill_read=bool(digest),
        digest=digest,
        model=model.model_name,
        input_tokens=model.input_tokens,
        output_tokens=model.output_tokens,
        cost=model.cost,
        before=before.files,
        after=after.files,
        left_out=after.left_out,
        seconds=seconds,
        turns=model.requests,
        **count_trace(records),
        error=course.error,
    )


async def _work(agent: Agent, trial: Trial, course: _Course) -> None:
    async with agent.begun() as turn:
        course.session = turn.session.id
        try:
            course.answer = (await turn.answer(trial.case.prompt)).text
        finally:
            course.messages = turn.messages


def _reason_of(error: MetierError) -> str:
    if isinstance(error, BudgetExceeded):
        return "budget"
    if isinstance(error, IntegrityFailed):
        return "stale"
    return "turns" if isinstance(error, AgentFailed) and "limit" in error.context else "model"


class _TestAgent(Agent):
    """An agent whose tools answer from a suite, as far as that has answers."""

    trial: Trial

    def tools(self, session: Session) -> list[Tool]:
        """The built-in tools with the mocks of the case before them, and the tools that only the suite has."""
        registry = session.executor(builtin=TOOLS, is_all=False).registry
        real = [tool for tool in registry if tool.name in TOOLS]
        return mock_tools(self.trial.case.environment, real, sources=self.trial.sources)


def _make_agent(trial: Trial, model: Model, log: MemoryLog) -> Agent:
    folders = [folder for folder in (trial.folder and trial.folder.parent, trial.neighbours) if folder is not None]
    environment = trial.case.environment
    now = environment.now
    clock = trial.workspace.parent / f"{trial.workspace.name}-clock"
    has_mocks = bool(environment.mocks or environment.mcp)
    manifest = Manifest(
        id="tester",
        name="tester",
        uses_tools=() if has_mocks else TOOLS,
        instructions=f"{INSTRUCTIONS} It is {now}." if now else INSTRUCTIONS,
        max_turns=trial.case.max_turns,
        project_instructions="off",
    )
    library = Library.from_folder(*folders, cache=False) if folders else Library.from_files()
    make = _TestAgent if has_mocks else Agent
    agent = make(
        manifest,
        Agents([manifest], library),
        model=model,
        guard=test_guard(trial.workspace, log, environment.network),
        workspace=trial.workspace,
        user="metier-test",
        suspend=False,
        runner=ClockRunner(now, clock) if now else None,
    )
    if isinstance(agent, _TestAgent):
        agent.trial = trial
    return agent


def _model_calls(messages: Iterable[ModelMessage]) -> list[ModelCall]:
    """The calls in messages, each with its result."""
    calls: list[ToolCallPart] = []
    results: dict[str, str] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                calls.append(part)
            elif isinstance(part, ToolReturnPart):
                results[part.tool_call_id] = part.model_response_str()
    return [
        ModelCall(tool=one.tool_name, arguments=_arguments(one), result=results.get(one.tool_call_id, ""))
        for one in calls
    ]


def _arguments(call: ToolCallPart) -> dict[str, Any]:
    found = read_arguments(call.args)
    return {} if isinstance(found, Misfit) else found
