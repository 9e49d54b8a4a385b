"""Skills for LangChain and LangGraph: a middleware with tools, instructions for every model call, and a gate."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NotRequired
from weakref import WeakKeyDictionary

import anyio.to_thread

from metier._extras import optional

with optional("Skills for LangChain", "langchain", extra="langchain"):
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, AgentState
    from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langgraph.channels import UntrackedValue
    from langgraph.constants import TAG_NOSTREAM
    from langgraph.errors import GraphInterrupt
    from langgraph.types import Command, interrupt

from metier.dialect import skills as seam
from metier.dialect.langchain_models import LangChainModelSwitch, Models
from metier.dialect.langchain_order import TurnOrder
from metier.dialect.langchain_threads import Run, Threads, newest
from metier.dialect.providers import as_text, definitions
from metier.errors import InvalidArgument
from metier.guard import Answers
from metier.guard.question import consent_from
from metier.skill import shown
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from metier import Session
    from metier.dialect.langchain_threads import Thread
    from metier.dialect.operations import Spawn
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill

__all__ = ["Models", "Skills"]


_UNKNOWN = "skills-unknown"
_NOT_MADE_HERE = ToolResult.failure(
    _UNKNOWN,
    "An earlier call in the same answer changes which skills are active, and was made before a restart.",
    hint="Make this call again.",
)


class _State(AgentState[Any]):
    # Never part of a checkpoint: it stands for a run in this process.
    metier_run: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]
    metier_saved: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, newest]]


class Skills(AgentMiddleware[Any, Any, Any]):
    """Gives an agent skills: `create_agent(model, tools, middleware=[Skills("skills")])`. Put it last in the list.

    Every thread has a session of its own, kept by LangGraph's `thread_id` and in its checkpoints, so that what skills
    restrict holds wherever the thread goes on; a run without one has a session that ends with it. All tools of the
    agent are under the rules of the active skills.
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
        `defer`, a call that somebody must agree to interrupts the graph, and `Command(resume=ids)` agrees to the `ids`
        in the interrupt's value; `True` agrees too, in the process that has asked. `spawn` runs skills with
        `context: fork`; by default an agent does that has the model and tools of this one, and `middleware`: LangChain
        does not tell what else the agent has, so name there what must hold in such agents too.
        """
        super().__init__()
        self.seam = seam.Skills(library, **options)
        self._switch = LangChainModelSwitch(models)
        self._defer = defer
        self._spawn = spawn
        self._others = tuple(middleware)
        self._session: Session | None = None
        self._threads = Threads(self.seam)
        self._turns = TurnOrder()
        self._asked: WeakKeyDictionary[Session, dict[str, list[list[str]]]] = WeakKeyDictionary()
        self._agents: WeakKeyDictionary[Session, tuple[BaseChatModel, list[Any]]] = WeakKeyDictionary()

    # --- conversations ------------------------------------------------------------------------------------------

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Begin a run: what its conversation has loaded is what its checkpoint says."""
        run = Run(uuid.uuid4().hex)
        thread, session = self._place(state, runtime, run)
        return self._news(thread, session, state, runtime, run)

    def after_agent(self, state: Any, runtime: Any) -> None:
        """End a run, and its conversation where that is the run's alone."""
        if self._session is None:
            run = state.get("metier_run")
            name, is_whole = _conversation(runtime, run)
            self._threads.over(name, run, is_whole=is_whole)

    def _place(self, state: Any, runtime: Any, run: Run | None = None) -> tuple[Thread | None, Session]:
        """The conversation that a run belongs to, which an agent that runs one skill has not, and its session."""
        if self._session is not None:
            return None, self._session
        name, _ = _conversation(runtime, run or state.get("metier_run"))
        return self._threads.open(name, state.get("metier_saved"), runtime.execution_info.checkpoint_id)

    def _news(
        self, thread: Thread | None, session: Session, state: Any, runtime: Any, run: Run | None = None
    ) -> dict[str, Any] | None:
        """Return the update of the graph's state between two steps."""
        if thread is None:
            return None
        news: dict[str, Any] = {}
        if state.get("metier_run") is None or run is not None:
            # It begins, or goes on after an interrupt.
            news["metier_run"] = run = run or Run(uuid.uuid4().hex)
            self._threads.began(thread, run, is_whole=_conversation(runtime, run)[1])
        saved = thread.update(session, runtime.execution_info.checkpoint_id, state.get("metier_saved"))
        if saved is not None:
            news["metier_saved"] = saved
        return news or None

    def _kit(self, session: Session, runtime: Any, in_loop: bool) -> Kit:
        async def spawn(skill: ActiveSkill, task: str, session: Session) -> str:
            return await self._spawned(kit, runtime.context, in_loop, skill, task, session)

        kit = self.seam.kit_in(session, spawn=self._spawn or spawn)
        return kit

    # --- model calls --------------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Give the model the tools, the instructions, and the place of another model that an active skill asks for."""
        prepared, kit, thread = self._prepared(request, in_loop=False)
        response = handler(prepared)
        for name, arguments in _answered(kit, response):
            # In a thread, as this one may be that of an event loop further out.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(contextvars.copy_context().run, asyncio.run, kit.attempted(name, arguments)).result()
        return self._with_news(thread, kit, request, response)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The same, asynchronously."""
        prepared, kit, thread = await anyio.to_thread.run_sync(lambda: self._prepared(request, in_loop=True))
        response = await handler(prepared)
        for name, arguments in _answered(kit, response):
            await kit.attempted(name, arguments)
        return self._with_news(thread, kit, request, response)

    def _prepared(self, request: ModelRequest[Any], in_loop: bool) -> tuple[ModelRequest[Any], Kit, Thread | None]:
        if self._session is None:
            self.seam.library.refresh()
        thread, session = self._place(request.state, request.runtime)
        kit = self._kit(session, request.runtime, in_loop)
        self._agents[kit.session] = (request.model, request.tools)
        kit.set_others(map(_name_of, request.tools))
        asked = [message.text for message in request.messages if isinstance(message, HumanMessage)]
        is_known = thread is None or not thread.lost
        others = [
            tool for tool in request.tools if not isinstance(tool, dict) or (is_known and kit.may_offer(_name_of(tool)))
        ]
        prepared = request.override(
            model=self._switch.find(kit.model, request.model) or request.model,
            tools=[*others, *definitions(kit.tools, "openai")],
            system_message=_with(request.system_message, kit.instructions(asked[-1] if asked else None)),
        )
        return prepared, kit, thread

    def _with_news(
        self, thread: Thread | None, kit: Kit, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        news = self._news(thread, kit.session, request.state, request.runtime)
        return response if news is None else ExtendedModelResponse(response, Command(update=news))

    # --- tool calls ---------------------------------------------------------------------------------------------

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Let a call through, or refuse it, whoever the tool comes from."""

        async def call() -> ToolMessage | Command[Any]:
            return await anyio.to_thread.run_sync(handler, request)

        thread, kit = self._opened(request, in_loop=False)
        # Not `anyio.run`, which takes this thread for that of an event loop further out.
        return asyncio.run(self._passed(thread, kit, request, call))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The same, asynchronously."""
        thread, kit = await anyio.to_thread.run_sync(lambda: self._opened(request, in_loop=True))
        return await self._passed(thread, kit, request, lambda: handler(request))

    def _opened(self, request: ToolCallRequest, in_loop: bool) -> tuple[Thread | None, Kit]:
        thread, session = self._place(request.state, request.runtime)
        return thread, self._kit(session, request.runtime, in_loop)

    async def _passed(
        self,
        thread: Thread | None,
        kit: Kit,
        request: ToolCallRequest,
        call: Callable[[], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        name, arguments, id_ = request.tool_call["name"], request.tool_call["args"], request.tool_call["id"]
        # Ours are no tools of the graph: one that is has only the name of one of ours.
        is_own = request.tool is None and kit.owns(name)
        is_change = is_own and kit.changes(name)
        async with self._turns.turn(kit, request) as is_all_made_here:
            problem = _problem(thread, request.state, is_change, is_all_made_here)
            made: Any
            if problem is not None:
                made = await kit.attempted(name, arguments, problem) or problem
            else:
                made = await self._make_call(thread, kit, request, None if is_own else call)
        if not isinstance(made, ToolResult):
            return made  # type: ignore[no-any-return]
        status: Any = "success" if made.success else "error"
        message = ToolMessage(as_text(made), name=name, tool_call_id=id_, status=status)
        if thread is None:
            return message
        if is_change and made.success:
            # It was told that they are lost, and has said what is to be active now.
            thread.lost = ()
        execution: Any = request.runtime.execution_info
        saved = thread.update(kit.session, execution.checkpoint_id, is_call=True)
        return message if saved is None else Command(update={"messages": [message], "metier_saved": saved})

    async def _make_call(
        self,
        thread: Thread | None,
        kit: Kit,
        request: ToolCallRequest,
        call: Callable[[], Awaitable[ToolMessage | Command[Any]]] | None,
    ) -> Any:
        """The result of a call; where somebody must agree first, the graph is interrupted."""
        name, arguments, id_ = request.tool_call["name"], request.tool_call["args"], str(request.tool_call["id"])
        given: dict[str, bool] = {}
        asked = self._asked.setdefault(kit.session, {}).setdefault(id_, [])
        for time in itertools.count():
            answers = Answers(given) if self._defer else None
            if call is None:
                made: Any = await kit.execute(name, arguments, answers=answers)
            else:
                made = await self._around(kit, request, call, answers)
            if answers is None or not answers.open:
                break
            ids = [one.id for one in answers.open]
            try:
                # Raises until the graph is resumed, and then gives the answer.
                answer = interrupt({"tool": name, "questions": [one.text for one in answers.open], "ids": ids})
            except GraphInterrupt:
                asked[time:] = [ids]
                self._threads.waits(thread, request.state)
                raise
            given |= _parse_answers(answer, ids, was_asked=asked[time : time + 1] == [ids])
            # What has no answer now is not what was agreed to, and is asked next.
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

    async def _spawned(
        self, parent: Kit, context: Any, in_loop: bool, skill: ActiveSkill, task: str, session: Session
    ) -> str:
        """Run a skill in an agent of its own, which has the tools of this one and nothing of its conversation."""
        if parent.session not in self._agents:
            raise InvalidArgument("No model was called yet that the skill could run with.", hint="Load it again.")
        model, tools = self._agents[parent.session]
        child = create_agent(model, tools, middleware=[*self._others, self._inside(session)], checkpointer=False)
        asked: Any = {"messages": [HumanMessage(task or seam.BEGIN)]}
        # Its words are no part of what the parent says.
        config: Any = {"tags": [TAG_NOSTREAM]}
        # Nobody can be waited for inside a call of the parent: what has to be asked is asked now, or refused.
        with consent_from(None):
            if in_loop:
                done = await child.ainvoke(asked, config, context=context)
            else:
                done = await anyio.to_thread.run_sync(lambda: child.invoke(asked, config, context=context))
        return str(done["messages"][-1].text)

    def _inside(self, session: Session) -> Skills:
        """The same for an agent that runs one skill."""
        child = copy.copy(self)
        # Whoever would have to be asked waits for the parent's call, which cannot be interrupted in the middle.
        child._defer = False
        child._session = session
        return child


class _ToolFailed(Exception):
    """A tool that says of itself that it failed, so that its record says so too."""

    def __init__(self, message: Any) -> None:
        super().__init__(str(getattr(message, "content", "")))
        self.message = message


def _conversation(runtime: Any, run: Run | None) -> tuple[str, bool]:
    """The conversation that a run belongs to, and whether it is the run's alone."""
    where = runtime.execution_info
    # The last part of the name space is this node's; what stands before it is the agent's inside a larger graph.
    inside = where.checkpoint_ns.rpartition("|")[0]
    if not where.thread_id:
        return str(run), True
    # With the id of a task in it, it is another one whenever the larger graph comes there.
    return f"{where.thread_id}|{inside}" if inside else where.thread_id, ":" in inside


def _problem(thread: Thread | None, state: Any, is_change: bool, is_all_made_here: bool) -> ToolResult | None:
    """The error for a conversation whose skills are unknown."""
    if thread is None:
        return None
    if not is_all_made_here and state.get("metier_run") is None:
        return _NOT_MADE_HERE
    if thread.lost and not is_change:
        return ToolResult.failure(
            _UNKNOWN,
            f"This conversation had loaded skills that are not there now: {shown(', '.join(thread.lost), 1_000)}.",
            hint="Load them again, or say what is to be active instead: load another skill, or unload all.",
        )
    return None


def _parse_answers(answer: Any, ids: list[str], *, was_asked: bool) -> dict[str, bool]:
    """The answers of a resumed graph: True agrees to what was asked here, a list to exactly what it names."""
    if isinstance(answer, list) and answer:
        return {id_: True for id_ in ids if id_ in answer}
    if answer is True:
        return dict.fromkeys(ids, True) if was_asked else {}
    return dict.fromkeys(ids, False)


def _answered(kit: Kit, response: ModelResponse[Any]) -> list[tuple[str, Any]]:
    """Note who has answered; gives the calls that the provider made on its own side."""
    made: list[tuple[str, Any]] = []
    for message in response.result:
        if isinstance(message, AIMessage):
            used = message.usage_metadata
            name = message.response_metadata.get("model_name", "")
            tokens, output = (used["total_tokens"], used["output_tokens"]) if used else (0, 0)
            kit.session.calls.answered_by(str(name), tokens, output=output)
            blocks: list[Any] = message.content_blocks if isinstance(message.content, list) else []
            calls = (one for one in blocks if isinstance(one, dict) and one.get("type") == "server_tool_call")
            made += [(str(one.get("name")), one.get("args")) for one in calls]
    return made


def _name_of(tool: BaseTool | dict[str, Any]) -> str:
    if not isinstance(tool, dict):
        return str(tool.name)
    function = tool.get("function")
    named = function if isinstance(function, dict) else tool
    return str(named.get("name") or tool.get("type"))


def _with(message: SystemMessage | None, text: str) -> SystemMessage | None:
    """The agent's own system message, and a text after it."""
    if not text or message is None:
        return SystemMessage(text) if text else message
    if isinstance(message.content, str):
        return SystemMessage(f"{message.content}\n\n{text}")
    return SystemMessage([*message.content, {"type": "text", "text": text}])
