"""Skills for pydantic-ai: a capability with tools, instructions for every step, and a gate before all tools."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import anyio.to_thread

from metier._extras import optional
from metier._lazy import replace

with optional("Skills for pydantic-ai", "pydantic-ai-slim", extra="agent"):
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, SkipToolValidation, ToolFailed, UserError
    from pydantic_ai.messages import NativeToolCallPart, ToolCallPart
    from pydantic_ai.models import Model
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema, to_jsonable_python

from metier.dialect import skills as seam
from metier.dialect.providers import as_text
from metier.dialect.pydantic_ai_models import Models, switch
from metier.errors import InvalidArgument
from metier.guard import Answers
from metier.guard.question import consent_from
from metier.tools import ToolResult
from metier.tools.arguments import Misfit, read_arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import (
        ModelSelector,
        WrapOutputProcessHandler,
        WrapToolExecuteHandler,
        WrapToolValidateHandler,
    )
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import ModelRequestContext, ModelSelectionContext
    from pydantic_ai.output import OutputContext

    from metier import Session
    from metier.dialect.models import Switch
    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.guard import Question
    from metier.session import ActiveSkill

__all__ = ["Models", "Skills"]

_ANY = SchemaValidator(schema=core_schema.any_schema())
_OURS = "metier"


class Skills(AbstractCapability[Any]):
    """Gives an agent skills: `Agent(model, capabilities=[Skills("skills")])`.

    Every conversation has a session of its own, kept by pydantic-ai's `conversation_id`. All tools of the agent are
    under the rules of the active skills: a call that they do not allow is refused and recorded. So are functions that
    take the agent's output.
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        models: Models | None = None,
        defer: bool = False,
        spawn: Spawn | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `metier.dialect.Skills`: `policy`, `dialect`, `workspace` and more.

        `models` says what models skills may switch to; by default those of the provider of the agent's own. With
        `defer`, a call that somebody must agree to ends the run with `DeferredToolRequests`, and is refused without.
        `spawn` runs skills with `context: fork`; by default an agent does that has the tools and the other capabilities
        of this one.
        """
        self.seam = seam.Skills(library, **options)
        self._switch = switch(models)
        self._defer = defer
        self._spawn = spawn
        self._asked: WeakKeyDictionary[Session, dict[str, _Asked]] = WeakKeyDictionary()

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """The capability of one run, in the session of its conversation."""
        spawn = self._spawn or _spawner(self, ctx)
        kit = await self.seam.guard.in_thread(self.seam.kit, ctx.conversation_id, spawn=spawn)
        return self.in_run(kit, may_defer=self._defer)

    def in_run(
        self, kit: Kit, *, may_defer: bool = False, suspension: Suspension | None = None
    ) -> AbstractCapability[Any]:
        """The capability of one run, with a kit that the caller has; with a `suspension`, its calls may wait there."""
        asked = self._asked.setdefault(kit.session, {}) if may_defer else None
        return _Run(kit, self._switch, asked, suspension)


class Suspension:
    """The questions that the calls of one run wait for; calls that come after one that waits wait for their turn."""

    def __init__(self, given: Mapping[str, bool] | None = None, calls: Collection[str] = ()) -> None:
        """`given` are answers by the id of their question; they count for `calls`, which waited, and for no others."""
        self._given = dict(given or {})
        self._calls = frozenset(calls)
        self.open: list[Question] = []
        """The questions to be answered before the run goes on."""

    async def made(self, call: str, make: Callable[..., Awaitable[Any]]) -> Any:
        """Return the result of a call; it does not count while a question is open."""
        if self.open:
            return None
        answers = Answers(self._given if call in self._calls else None)
        made = await make(answers=answers)
        # What was done must not be done again: only a call that was refused can wait.
        if isinstance(made, ToolResult) and not made.success:
            self.open = [*answers.open, *answers.waiting]
        return made


class _Asked(NamedTuple):
    """The question about a call, and its number."""

    time: str
    questions: tuple[str, ...]


class _Run(AbstractCapability[Any]):
    """Skills in one run."""

    def __init__(
        self, kit: Kit, switch: Switch[Model], asked: dict[str, _Asked] | None, suspension: Suspension | None = None
    ) -> None:
        """`asked` keeps what somebody is asked, by the id of the call; None where nobody is."""
        self._kit = kit
        self._suspension = suspension
        self._switch = switch
        self._asked = asked
        self._own_model: Model | None = None
        self._native: list[str] = []
        # A name says nothing of whose a tool is: others may take one of ours while there are no skills.
        self._mark = secrets.token_hex(16)
        self._unvalidated: set[str] = set()
        self._validating: set[str] = set()

    def get_toolset(self) -> AbstractToolset[Any]:
        return _Toolset(self._kit, self._settled, {_OURS: self._mark})

    def get_instructions(self) -> Callable[[RunContext[Any]], Awaitable[str]]:
        async def instructions(ctx: RunContext[Any]) -> str:
            prompt = ctx.prompt if isinstance(ctx.prompt, str) else None
            if ctx.tool_manager is not None and ctx.tool_manager.tools is not None:
                self._kit.set_others([*ctx.tool_manager.tools, *self._native])
            return await anyio.to_thread.run_sync(self._kit.instructions, prompt)

        return instructions

    def get_model(self) -> ModelSelector[Any]:
        def select(ctx: ModelSelectionContext[Any]) -> Model | str:
            # Later steps are told the model of the step before, so the agent's own is kept from the first.
            if self._own_model is None:
                self._own_model = ctx.model
            if self._own_model is None:
                raise UserError("The agent has no model; give it one, as skills only switch between models.")
            return self._switch.find(self._kit.model, self._own_model) or self._own_model

        return select

    # --- model calls --------------------------------------------------------------------------------------------

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        parameters = request_context.model_request_parameters
        self._native = [tool.kind for tool in parameters.native_tools]
        allowed = [tool for tool in parameters.native_tools if self._kit.may_offer(tool.kind)]
        if len(allowed) == len(parameters.native_tools):
            return request_context
        return replace(request_context, model_request_parameters=replace(parameters, native_tools=allowed))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        used = response.usage
        calls = self._kit.session.calls
        calls.answered_by(request_context.model.model_name, used.total_tokens, output=used.output_tokens)
        manager = ctx.tool_manager
        for call in response.parts:
            if isinstance(call, ToolCallPart) and manager is not None and manager.get_tool_def(call.tool_name) is None:
                # pydantic-ai answers such a call itself, and tells nobody.
                await self._kit.attempted(call.tool_name, call.args, seam.NOT_THERE)
            elif isinstance(call, NativeToolCallPart):
                await self._kit.attempted(call.tool_name, call.args)
        return response

    # --- tool calls ---------------------------------------------------------------------------------------------

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: WrapToolValidateHandler,
    ) -> dict[str, Any]:
        given = read_arguments(args)
        if (
            tool_def.kind == "function"
            and not self._is_ours(tool_def)
            and call.tool_call_id not in self._validating
            and not isinstance(given, Misfit)
            and self._kit.session.calls.decide(call.tool_name, given).outcome == "deny"
        ):
            # Whoever validates may be a program that does things: not for a call that will be refused. It is refused
            # in its turn, as a call before it may end what forbids it.
            self._unvalidated.add(call.tool_call_id)
            raise SkipToolValidation(given)
        return await handler(args)

    async def on_tool_validate_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        error: ValidationError | ModelRetry,
    ) -> dict[str, Any]:
        if call.tool_call_id in self._validating:
            raise error
        if self._is_ours(tool_def):
            given = read_arguments(args)
            if not isinstance(given, Misfit):
                return given
            raise ToolFailed(as_text(await self._kit.execute(call.tool_name, args)))
        unfit = ToolResult.failure("invalid-arguments", "The arguments do not fit the tool.")
        refused = await self._kit.attempted(call.tool_name, args, unfit)
        if refused is not None:
            raise ToolFailed(as_text(refused))
        raise error

    async def after_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        # A tool that the host runs after the run never comes to `wrap_tool_execute`.
        if tool_def.kind == "external":
            await self._settled(ctx, partial(self._kit.around, call.tool_name, args, _nothing))
        return args

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        if self._is_ours(tool_def):
            return await handler(args)

        async def made() -> Any:
            if call.tool_call_id not in self._unvalidated:
                return await handler(args)
            return await handler(await self._validated(ctx, call))

        try:
            return await self._settled(ctx, partial(self._kit.around, call.tool_name, args, made))
        finally:
            self._unvalidated.discard(call.tool_call_id)

    async def _validated(self, ctx: RunContext[Any], call: ToolCallPart) -> dict[str, Any]:
        """The arguments of a call that was forbidden when its turn to be validated came, and is not any more."""
        assert ctx.tool_manager is not None
        self._validating.add(call.tool_call_id)
        try:
            found = await ctx.tool_manager.validate_tool_call(
                call,
                approved=ctx.tool_call_approved,
                metadata=ctx.tool_call_metadata,
                wrap_validation_errors=False,
            )
        finally:
            self._validating.discard(call.tool_call_id)
        if found.deferral is not None:
            raise found.deferral
        return found.validated_args or {}

    def _is_ours(self, tool_def: ToolDefinition) -> bool:
        return (tool_def.metadata or {}).get(_OURS) == self._mark

    # --- output -------------------------------------------------------------------------------------------------

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any, handler: WrapOutputProcessHandler
    ) -> Any:
        if not output_context.has_function:
            # That is the model's answer, and nothing is done with it.
            return await handler(output)
        call = output_context.tool_call
        name = output_context.function_name or (call.tool_name if call is not None else "final_result")
        args = {"output": to_jsonable_python(output, fallback=repr)} if call is None else call.args_as_dict()
        made = await self._kit.around(name, args, lambda: handler(output))
        if isinstance(made, ToolResult):
            raise ModelRetry(as_text(made))
        return made

    # --- asking -------------------------------------------------------------------------------------------------

    async def _settled(self, ctx: RunContext[Any], make: Callable[..., Awaitable[Any]]) -> Any:
        """The result of a call, in the way of pydantic-ai; where somebody must agree first, the call is deferred."""
        call_id = ctx.tool_call_id or ""
        if self._suspension is not None:
            found = await self._suspension.made(call_id, make)
            if self._suspension.open:
                raise ApprovalRequired
            return _in_its_way(found)
        answers: Answers | None = None
        agreed: tuple[str, ...] = ()
        if self._asked is not None:
            # An approval agrees, once, to what was asked here about this call. What comes back with it is from outside:
            # it can say that the approval is for another time, and nothing more.
            known = self._asked.pop(call_id, None)
            told = ctx.tool_call_metadata.get("asked") if isinstance(ctx.tool_call_metadata, dict) else None
            if known is not None and ctx.tool_call_approved and told in (None, known.time):
                agreed = known.questions
            answers = Answers(dict.fromkeys(agreed, True))
        made = await make(answers=answers)
        if self._asked is not None and answers is not None and answers.open:
            asked = _Asked(secrets.token_hex(8), (*agreed, *(one.id for one in answers.open)))
            self._asked[call_id] = asked
            raise ApprovalRequired({"asked": asked.time, "text": [one.text for one in answers.open]})
        return _in_its_way(made)


class _Toolset(AbstractToolset[Any]):
    """The tools of a kit."""

    def __init__(self, kit: Kit, settled: Callable[..., Awaitable[Any]], mark: dict[str, Any]) -> None:
        self._kit = kit
        self._settled = settled
        self._mark = mark

    @property
    def id(self) -> str:
        return "metier"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=dict(tool.parameters),
                    # What is called beside it waits, and is under what it loads.
                    sequential=self._kit.changes(tool.name),
                    metadata=dict(self._mark),
                ),
                max_retries=1,
                args_validator=_ANY,
            )
            for tool in self._kit.tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        return await self._settled(ctx, partial(self._kit.execute, name, tool_args))


def _in_its_way(made: Any) -> Any:
    """The result of a call, as pydantic-ai has it."""
    if not isinstance(made, ToolResult):
        return made
    if not made.success:
        raise ToolFailed(as_text(made))
    return as_text(made)


async def _nothing() -> None:
    return None


def _spawner(skills: Skills, ctx: RunContext[Any]) -> Spawn:
    """Runs a skill in an agent of its own: the tools and capabilities of this one, nothing of its conversation."""

    async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
        if ctx.agent is None:
            raise InvalidArgument("There is no agent to run the skill in.", hint="Run it inside an agent.")
        if not isinstance(ctx.model, Model):
            raise InvalidArgument("The agent has no model that another could use.", hint="Give `spawn=` to Skills.")
        run = skills.in_run(skills.seam.kit_in(session, spawn=spawn))
        child: Agent[Any, str] = Agent(
            ctx.model,
            toolsets=[one for one in ctx.agent.toolsets if not _is_of_capabilities(one)],
            capabilities=_with(run, ctx),
            model_settings=getattr(ctx.agent, "model_settings", None),
            name=skill.name,
        )
        # Nobody can be waited for inside a call of the parent: what has to be asked is asked now, or refused.
        with consent_from(None):
            answer = await child.run(task or seam.BEGIN, deps=ctx.deps, usage=ctx.usage, usage_limits=ctx.usage_limits)
        return answer.output

    return spawn


def _with(run: AbstractCapability[Any], ctx: RunContext[Any]) -> Sequence[AbstractCapability[Any]]:
    """The capabilities of a run, as what the host forbids or limits holds in a child too; skills are its own."""
    root = ctx.root_capability
    same = root and root.visit_and_replace(lambda one: run if isinstance(one, Skills | _Run) else one)
    return [run] if same is None else [same] if same is not root else [same, run]


def _is_of_capabilities(toolset: AbstractToolset[Any]) -> bool:
    """Whether capabilities brought those tools, and bring them again."""
    return isinstance(toolset, CombinedToolset) and all(hasattr(one, "capability") for one in toolset.toolsets)
