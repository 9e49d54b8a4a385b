"""Skills for Microsoft's Agent Framework: a context provider with tools, instructions for every call, and a gate."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio.to_thread

from metier._extras import optional

with optional("Skills for Microsoft Agent Framework", "agent-framework-core", extra="agent-framework"):
    from agent_framework import Agent, ChatMiddleware, ChatResponse, ContextProvider, FunctionMiddleware, FunctionTool

from metier.dialect import skills as seam
from metier.dialect.models import Switch
from metier.dialect.providers import as_text
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent_framework import ChatContext, FunctionInvocationContext

    from metier import Session
    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill

Models: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""The models of the agent's client that skills may ask for by name (`model: opus`), or a function that knows them."""


class Skills(ContextProvider):
    """Gives an agent skills: `Agent(client, context_providers=[Skills("skills")])`.

    Every conversation has a session of its own, kept by the id of the framework's `AgentSession`. All tools of the
    agent are under the rules of the active skills.
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        models: Models | None = None,
        spawn: Spawn | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `metier.dialect.Skills`: `policy`, `approve`, `workspace` and more.

        `models` says what models of the same client skills may switch to, without it to none. `spawn` runs skills with
        `context: fork`; by default an agent does that has the client and tools of this one.
        """
        super().__init__("metier")
        self.seam = seam.Skills(library, **options)
        self.switch: Switch[str] = Switch(models)
        self._spawn = spawn

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        """Give a run what its conversation has."""
        run = _Run(agent, self)
        run.kit = await self.seam.guard.in_thread(self.kit, session.session_id, self._spawn or run.spawn)
        run.prompt = context.input_messages[-1].text if context.input_messages else None
        context.extend_tools(self.source_id, [_Tool(tool, run.kit) for tool in run.kit.tools])
        context.extend_middleware(self.source_id, [_Calls(run), _Models(run)])

    def kit(self, conversation: str, spawn: Spawn) -> Kit:
        """Return the tools and texts of an agent in a conversation."""
        return self.seam.kit(conversation, spawn=spawn)


class _Run:
    """Skills in one run."""

    kit: Kit
    prompt: str | None

    def __init__(self, agent: Any, skills: Skills) -> None:
        self.agent = agent
        self.skills = skills
        self.calling: FunctionInvocationContext | None = None

    async def spawn(self, skill: ActiveSkill, task: str, session: Session) -> str:
        """Run a skill in an agent of its own, which has the tools of this one and nothing of its conversation."""
        assert self.calling is not None
        own = ("conversation_id", "instructions", "response_format", "tools")
        options: Any = {name: value for name, value in self.agent.default_options.items() if name not in own}
        child = Agent(
            self.agent.client,
            name=skill.name,
            tools=[tool for tool in self.calling.tools or [] if not isinstance(tool, _Tool)],
            default_options=options,
            context_providers=[_Child(self.skills, session)],
            # What the host forbids or limits holds here too.
            middleware=self.agent.middleware,
        )
        given = {name: value for name, value in self.calling.kwargs.items() if name != "session"}
        return (await child.run(task or seam.BEGIN, function_invocation_kwargs=given)).text


class _Child(Skills):
    """Skills in an agent that runs one skill."""

    def __init__(self, parent: Skills, session: Session) -> None:
        vars(self).update(vars(parent))
        self._session = session

    def kit(self, conversation: str, spawn: Spawn) -> Kit:
        return self.seam.kit_in(self._session, spawn=spawn)


class _Models(ChatMiddleware):
    """Gives every model call the instructions, and the model that an active skill asks for."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        kit = self._run.kit
        kit.set_others(map(_name_of, (context.options or {}).get("tools") or ()))
        instructions = await anyio.to_thread.run_sync(kit.instructions, self._run.prompt)
        # A copy: the same options come again with the next call.
        options = dict(context.options or {})
        options["instructions"] = _with(options.get("instructions"), instructions)
        if model := self._run.skills.switch.find(kit.model):
            options["model"] = model
        options["tools"] = [tool for tool in options.get("tools") or () if _may_use(kit, tool)]
        context.options = options
        offered = {getattr(tool, "name", ""): tool for tool in options["tools"]}

        async def heard(answer: ChatResponse[Any]) -> None:
            used = answer.usage_details or {}
            tokens, output = used.get("total_token_count") or 0, used.get("output_token_count") or 0
            kit.session.calls.answered_by(answer.model or "", tokens, output=output)
            for call in (part for message in answer.messages for part in message.contents):
                name = call.name or call.tool_name or call.type.removesuffix("_tool_call")
                if call.type == "function_call" and _never_comes_back(offered.get(name)):
                    await kit.attempted(name, call.arguments, None if name in offered else seam.NOT_THERE)
                elif call.type.endswith("_tool_call"):
                    await kit.attempted(name, call.arguments)

        if context.stream:
            context.stream_result_hooks.append(heard)
        await call_next()
        if isinstance(context.result, ChatResponse):
            await heard(context.result)


class _Calls(FunctionMiddleware):
    """Lets calls through, or refuses them, whoever the tool comes from."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        self._run.calling = context
        kit, name, given = self._run.kit, context.function.name, context.arguments
        arguments = dict(given) if isinstance(given, Mapping) else given.model_dump(exclude_unset=True)

        async def call() -> Any:
            await call_next()
            return context.result

        if isinstance(context.function, _Tool):
            made: Any = await kit.execute(name, arguments)
        else:
            made = await kit.around(name, arguments, call)
        if isinstance(made, ToolResult):
            context.result = as_text(made)


class _Tool(FunctionTool):
    """A tool of a kit. That it is one says its type: others may have the name of one."""

    def __init__(self, tool: Any, kit: Kit) -> None:
        async def call(**arguments: Any) -> str:
            return as_text(await kit.execute(tool.name, arguments))

        schema = copy.deepcopy(dict(tool.parameters))
        super().__init__(name=tool.name, description=tool.description, input_model=schema, func=call)


def _may_use(kit: Kit, tool: Any) -> bool:
    if isinstance(tool, FunctionTool):
        # Without a function it is the host's to run after the run, where nothing can be refused any more.
        return not tool.declaration_only or kit.may_offer(tool.name)
    return kit.may_offer(_name_of(tool))


def _name_of(tool: Any) -> str:
    if isinstance(tool, FunctionTool):
        return str(tool.name)
    named = tool if isinstance(tool, Mapping) else vars(tool) if hasattr(tool, "__dict__") else {}
    function = named.get("function")  # as OpenAI writes them
    named = function if isinstance(function, Mapping) else named
    return str(named.get("name") or named.get("type") or type(tool).__name__)


def _never_comes_back(tool: Any) -> bool:
    """Whether a call never comes to the function middleware: of a tool that is not there, or that the host runs."""
    return tool is None or (isinstance(tool, FunctionTool) and tool.declaration_only)


def _with(own: Any, text: str) -> Any:
    """The agent's own instructions, whatever form they have, and a text after them."""
    if not text or not own:
        return own or text
    if isinstance(own, str):
        return f"{own}\n\n{text}"
    return [*([own] if isinstance(own, Mapping) else own), text]
