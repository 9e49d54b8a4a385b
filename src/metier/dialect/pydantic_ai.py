"""Skills for pydantic-ai: a capability with tools, instructions for every step, and a gate before all tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import anyio.to_thread
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed, UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from metier._log import logger
from metier.dialect import skills as seam
from metier.dialect.providers import as_text
from metier.errors import InvalidArgument
from metier.guard import Answers
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import ModelSelector, WrapToolExecuteHandler
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models import ModelRequestContext, ModelSelectionContext

    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill, Session

log = logger("metier.dialect")

Models: TypeAlias = Mapping[str, Model | str] | Callable[[str], Model | str | None]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""

_ANY = SchemaValidator(schema=core_schema.any_schema())


class Skills(AbstractCapability[Any]):
    """Gives an agent skills: `Agent(model, capabilities=[Skills("skills")])`.

    Every conversation has a session of its own, kept by pydantic-ai's `conversation_id`. All tools of the agent are
    under the rules of the active skills: a call that they do not allow is refused and recorded.
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

        `models` says what models skills may switch to; by default any that pydantic-ai knows. With `defer`, a call that
        somebody must agree to ends the run with `DeferredToolRequests`, and is refused without. `spawn` runs skills
        with `context: fork`; by default an agent does that has the tools of this one.
        """
        self.seam = seam.Skills(library, **options)
        self._models = models
        self._defer = defer
        self._spawn = spawn
        self._asked: WeakKeyDictionary[Session, dict[str, list[str]]] = WeakKeyDictionary()

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """The capability of one run, in the session of its conversation."""
        spawn = self._spawn or _spawner(self, ctx)
        kit = await anyio.to_thread.run_sync(lambda: self.seam.kit(ctx.conversation_id, spawn=spawn))
        return self.in_run(kit)

    def in_run(self, kit: Kit) -> AbstractCapability[Any]:
        """The capability of one run, with a kit that the caller has."""
        return _Run(kit, self._models, self._asked.setdefault(kit.session, {}) if self._defer else None)


class _Run(AbstractCapability[Any]):
    """Skills in one run."""

    def __init__(self, kit: Kit, models: Models | None, asked: dict[str, list[str]] | None) -> None:
        """`asked` keeps what somebody is asked, by the id of the call; None where nobody is."""
        self._kit = kit
        self._models = models
        self._asked = asked
        self._own_model: Model | None = None

    def get_toolset(self) -> AbstractToolset[Any]:
        return _Toolset(self._kit, self._settled)

    def get_instructions(self) -> Callable[[RunContext[Any]], str]:
        return lambda ctx: self._kit.instructions(ctx.prompt if isinstance(ctx.prompt, str) else None)

    def get_model(self) -> ModelSelector[Any]:
        def select(ctx: ModelSelectionContext[Any]) -> Model | str:
            # Later steps are told the model of the step before, so the agent's own is kept from the first.
            if self._own_model is None:
                self._own_model = ctx.model
            wanted = self._kit.model
            found = None if wanted is None else resolved(wanted, self._models)
            chosen = found or self._own_model
            if chosen is None:
                raise UserError("The agent has no model; give it one, as skills only switch between models.")
            return chosen

        return select

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        parameters = request_context.model_request_parameters
        allowed = [tool for tool in parameters.native_tools if self._kit.may_offer(tool.kind)]
        if len(allowed) == len(parameters.native_tools):
            return request_context
        return replace(request_context, model_request_parameters=replace(parameters, native_tools=allowed))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        self._kit.session.answered_by(request_context.model.model_name, response.usage.total_tokens)
        return response

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
        if self._kit.owns(call.tool_name):
            return await handler(args)
        return await self._settled(ctx, partial(self._kit.around, call.tool_name, args, lambda: handler(args)))

    async def _settled(self, ctx: RunContext[Any], make: Callable[..., Awaitable[Any]]) -> Any:
        """What a call gave, in the way of pydantic-ai; where somebody must agree first, the call is deferred."""
        answers = None
        if self._asked is not None:
            call_id = ctx.tool_call_id or ""
            told = ctx.tool_call_metadata or {}
            # An approval agrees to what was asked about this call, and to nothing that comes up besides.
            agreed = [*told.get("questions", ()), *self._asked.pop(call_id, ())] if ctx.tool_call_approved else ()
            answers = Answers(dict.fromkeys(agreed, True))
        made = await make(answers=answers)
        if self._asked is not None and answers is not None and answers.open:
            questions = [*agreed, *(one.id for one in answers.open)]
            self._asked[call_id] = questions
            raise ApprovalRequired({"questions": questions, "text": [one.text for one in answers.open]})
        if not isinstance(made, ToolResult):
            return made
        if not made.success:
            raise ToolFailed(as_text(made))
        return as_text(made)


class _Toolset(AbstractToolset[Any]):
    """The tools of a kit."""

    def __init__(self, kit: Kit, settled: Callable[..., Awaitable[Any]]) -> None:
        self._kit = kit
        self._settled = settled

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


async def _nothing() -> None:
    return None


def resolved(name: str, models: Models | None) -> Model | None:
    """The model that a skill asks for; None, with a warning, where there is no such model here."""
    try:
        known = models(name) if callable(models) else name if models is None else models.get(name)
        return infer_model(known) if known is not None else None
    except (UserError, ValueError, ImportError) as error:
        log.warning("the model %r that a skill asks for is not available: %s", name, error)
        return None


def _spawner(skills: Skills, ctx: RunContext[Any]) -> Spawn:
    """Runs a skill in an agent of its own, which has the tools of this one and nothing of its conversation."""

    async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
        if ctx.agent is None:
            raise InvalidArgument("There is no agent to run the skill in.", hint="Run it inside an agent.")
        run = skills.in_run(skills.seam.kit_in(session, spawn=spawn))
        if not isinstance(ctx.model, Model):
            raise InvalidArgument("The agent has no model that another could use.", hint="Give `spawn=` to Skills.")
        traced = [one for one in ctx.capabilities.values() if isinstance(one, Instrumentation)]
        child: Agent[Any, str] = Agent(
            ctx.model, toolsets=ctx.agent.toolsets, capabilities=[*traced, run], name=skill.name
        )
        answer = await child.run(task or seam.BEGIN, deps=ctx.deps, usage=ctx.usage, usage_limits=ctx.usage_limits)
        return answer.output

    return spawn
