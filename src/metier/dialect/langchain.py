"""Skills for LangChain and LangGraph: a middleware with tools, instructions for every model call, and a gate."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import TYPE_CHECKING, Annotated, Any, NotRequired
from weakref import WeakKeyDictionary

import anyio.to_thread
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.constants import TAG_NOSTREAM
from langgraph.types import interrupt

from metier.dialect import skills as seam
from metier.dialect.langchain_models import Models, Switch
from metier.dialect.langchain_order import Turns
from metier.dialect.providers import as_text, definitions
from metier.errors import InvalidArgument
from metier.guard import Answers
from metier.guard.approval import asking
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.language_models import BaseChatModel
    from langgraph.types import Command

    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill, Session

__all__ = ["Models", "Skills"]


class _State(AgentState[Any]):
    metier_conversation: NotRequired[Annotated[str, PrivateStateAttr]]


class Skills(AgentMiddleware[Any, Any, Any]):
    """Gives an agent skills: `create_agent(model, tools, middleware=[Skills("skills")])`. Put it last in the list.

    Every thread has a session of its own, kept by LangGraph's `thread_id`; a run without one has a session that ends
    with it. All tools of the agent are under the rules of the active skills.
    """

    state_schema = _State

    def __init__(
        self,
        library: Where | None = None,
        *,
        models: Models | None = None,
        defer: bool = False,
        spawn: Spawn | None = None,
        middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
        **options: Any,
    ) -> None:
        """`options` are those of `metier.dialect.Skills`: `policy`, `dialect`, `workspace` and more.

        `models` says what models skills may switch to; by default those of the provider of the agent's own. With
        `defer`, a call that somebody must agree to interrupts the graph, and `Command(resume=True)` agrees. `spawn`
        runs skills with `context: fork`; by default an agent does that has the model and tools of this one, and
        `middleware`: LangChain does not tell what else the agent has, so name there what must hold in such agents too.
        """
        super().__init__()
        self.seam = seam.Skills(library, **options)
        self._switch = Switch(models)
        self._defer = defer
        self._spawn = spawn
        self._others = tuple(middleware)
        self._turns = Turns()
        self._asked: WeakKeyDictionary[Session, dict[str, list[set[str]]]] = WeakKeyDictionary()
        self._agents: WeakKeyDictionary[Session, tuple[BaseChatModel, list[Any], Any]] = WeakKeyDictionary()

    # --- conversations ------------------------------------------------------------------------------------------

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Begin a conversation for a run that belongs to no thread."""
        return None if runtime.execution_info.thread_id else {"metier_conversation": uuid.uuid4().hex}

    def after_agent(self, state: Any, runtime: Any) -> None:
        """End the conversation of a run that belongs to no thread."""
        if not runtime.execution_info.thread_id:
            self.seam.end(state["metier_conversation"])

    def _kit(self, request: ModelRequest[Any] | ToolCallRequest, in_loop: bool, *, is_turn: bool = True) -> Kit:
        async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
            return await self._spawned(kit, in_loop, skill, task, session)

        where: Any = request.runtime
        state: Any = request.state
        # The last part of the name space is this node's; what stands before it is the agent's inside a larger graph.
        inside = where.execution_info.checkpoint_ns.rpartition("|")[0]
        thread = where.execution_info.thread_id
        conversation = f"{thread}|{inside}" if inside else thread
        named = conversation if thread else state["metier_conversation"]
        kit = self.seam.kit(named, spawn=self._spawn or spawn, is_turn=is_turn)
        return kit

    # --- model calls --------------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Give the model the tools, the instructions, and the place of another model that an active skill asks for."""
        prepared, kit = self._prepared(request, in_loop=False)
        response = handler(prepared)
        _answered(kit, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same, asynchronously."""
        prepared, kit = await anyio.to_thread.run_sync(lambda: self._prepared(request, in_loop=True))
        response = await handler(prepared)
        _answered(kit, response)
        return response

    def _prepared(self, request: ModelRequest[Any], in_loop: bool) -> tuple[ModelRequest[Any], Kit]:
        kit = self._kit(request, in_loop)
        self._agents[kit.session] = (request.model, request.tools, request.runtime.context)
        asked = [message.text for message in request.messages if isinstance(message, HumanMessage)]
        others = [tool for tool in request.tools if not isinstance(tool, dict) or _may_use(kit, tool)]
        prepared = request.override(
            model=(self._switch.find(kit.model, request.model) if kit.model else None) or request.model,
            tools=[*others, *definitions(kit.tools, "openai")],
            system_message=_with(request.system_message, kit.instructions(asked[-1] if asked else None)),
        )
        return prepared, kit

    # --- tool calls ---------------------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Let a call through, or refuse it, whoever the tool comes from."""

        async def call() -> ToolMessage | Command[Any]:
            return await anyio.to_thread.run_sync(handler, request)

        # Not `anyio.run`, which takes this thread for that of an event loop further out.
        return asyncio.run(self._passed(request, call, False))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The same, asynchronously."""
        return await self._passed(request, lambda: handler(request), True)

    async def _passed(
        self, request: ToolCallRequest, call: Callable[[], Awaitable[ToolMessage | Command[Any]]], in_loop: bool
    ) -> ToolMessage | Command[Any]:
        kit = self._kit(request, in_loop, is_turn=False)
        async with self._turns.turn(kit, request):
            made = await self._made(kit, request, call)
        if not isinstance(made, ToolResult):
            return made  # type: ignore[no-any-return]
        status: Any = "success" if made.success else "error"
        name, id_ = request.tool_call["name"], request.tool_call["id"]
        return ToolMessage(as_text(made), name=name, tool_call_id=id_, status=status)

    async def _made(
        self, kit: Kit, request: ToolCallRequest, call: Callable[[], Awaitable[ToolMessage | Command[Any]]]
    ) -> Any:
        """What a call gave; where somebody must agree first, the graph is interrupted."""
        name, arguments, id_ = request.tool_call["name"], request.tool_call["args"], str(request.tool_call["id"])
        given: dict[str, bool] = {}
        asked = self._asked.setdefault(kit.session, {}).setdefault(id_, [])
        for time in itertools.count():
            answers = Answers(given) if self._defer else None
            # Ours are no tools of the graph: one that is has only the name of one of ours.
            if request.tool is None and kit.owns(name):
                made: Any = await kit.execute(name, arguments, answers=answers)
            else:
                made = await self._around(kit, request, call, answers)
            if answers is None or not answers.open:
                break
            questions = {one.id for one in answers.open}
            if time == len(asked):
                asked.append(questions)
            # Raises until the graph is resumed, and then gives the answer.
            agreed = interrupt({"tool": name, "questions": [one.text for one in answers.open]})
            if asked[time] == questions:
                given |= dict.fromkeys(questions, agreed is True)
            # Otherwise what was agreed to is not what would happen now, and that is asked next.
        self._asked[kit.session].pop(id_, None)
        return made

    @staticmethod
    async def _around(
        kit: Kit, request: ToolCallRequest, call: Callable[[], Awaitable[Any]], answers: Answers | None
    ) -> Any:
        async def made() -> Any:
            message = await call()
            if getattr(message, "status", None) == "error":
                raise _ToolFailed(message)
            return message

        try:
            return await kit.around(request.tool_call["name"], request.tool_call["args"], made, answers=answers)
        except _ToolFailed as failed:
            return failed.message

    # --- skills that run in an agent of their own ---------------------------------------------------------------

    async def _spawned(self, parent: Kit, in_loop: bool, skill: ActiveSkill, task: str, session: Session) -> str:
        """Run a skill in an agent of its own, which has the tools of this one and nothing of its conversation."""
        if parent.session not in self._agents:
            raise InvalidArgument("No model was called yet that the skill could run with.", hint="Load it again.")
        model, tools, context = self._agents[parent.session]
        child = create_agent(model, tools, middleware=[*self._others, _Child(self, session)], checkpointer=False)
        asked: Any = {"messages": [HumanMessage(task or seam.BEGIN)]}
        # Its words are no part of what the parent says.
        config: Any = {"tags": [TAG_NOSTREAM]}
        # Nobody can be waited for inside a call of the parent: what has to be asked is asked now, or refused.
        with asking(None):
            if in_loop:
                done = await child.ainvoke(asked, config, context=context)
            else:
                done = await anyio.to_thread.run_sync(lambda: child.invoke(asked, config, context=context))
        return str(done["messages"][-1].text)


class _ToolFailed(Exception):
    """A tool that says of itself that it failed, so that its record says so too."""

    def __init__(self, message: Any) -> None:
        super().__init__(str(getattr(message, "content", "")))
        self.message = message


class _Child(Skills):
    """Skills in an agent that runs one skill."""

    def __init__(self, parent: Skills, session: Session) -> None:
        vars(self).update(vars(parent))
        # Whoever would have to be asked waits for the parent's call, which cannot be interrupted in the middle.
        self._defer = False
        self._session = session

    def _kit(self, request: ModelRequest[Any] | ToolCallRequest, in_loop: bool, *, is_turn: bool = True) -> Kit:
        async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
            return await self._spawned(kit, in_loop, skill, task, session)

        kit = self.seam.kit_in(self._session, spawn=self._spawn or spawn)
        return kit


def _answered(kit: Kit, response: ModelResponse[Any]) -> None:
    for message in response.result:
        if isinstance(message, AIMessage):
            used = message.usage_metadata
            name = message.response_metadata.get("model_name", "")
            kit.session.answered_by(str(name), used["total_tokens"] if used else 0)


def _may_use(kit: Kit, tool: dict[str, Any]) -> bool:
    return kit.may_offer(str(tool.get("name") or tool.get("type")))


def _with(message: SystemMessage | None, text: str) -> SystemMessage | None:
    """The agent's own system message, and a text after it."""
    if not text or message is None:
        return SystemMessage(text) if text else message
    if isinstance(message.content, str):
        return SystemMessage(f"{message.content}\n\n{text}")
    return SystemMessage([*message.content, {"type": "text", "text": text}])
