"""Skills as tools: those of a dialect, called through the guard, in the session of the conversation."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from metier.dialect import as_text
from metier.errors import InvalidArgument, MetierError
from metier.guard.question import consent_from_any
from metier.serve.mcp.concurrency import ServerBusy
from metier.serve.mcp.connection import conversation_of, is_stateless, kit_of
from metier.serve.mcp.progress import with_progress
from metier.tools import ToolResult
from metier.tools.arguments import Misfit, arguments_for
from metier.tools.tool import failure_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_types import CallToolRequestParams, InputRequiredResult, PaginatedRequestParams

    from metier.dialect import Kit
    from metier.guard.question import Answers
    from metier.serve.mcp.connection import ClientConnection, Context
    from metier.serve.mcp.conversations import Conversations
    from metier.serve.mcp.elicitation import Questions
    from metier.tools import Tool as AnyTool

CONVERSATION = {
    "type": "string",
    "description": "The conversation, as named by the result that loaded a skill; left out to begin a new one.",
}
READ_ONLY = frozenset(["skills_read", "skills_search", "list_skills", "read_skill_resource", "Read", "Glob", "Grep"])
_SKILL_ARGUMENTS = ("skill", "skill_name", "skill_id")
_MAX_KEY = 200
_NO_CONVERSATION = ToolResult.failure(
    InvalidArgument.code,
    "This tool works inside of a conversation, and none was named.",
    hint="Load a skill; the result names the conversation to pass on.",
)
_BUSY = ToolResult.failure(
    "busy",
    "Too many scripts are running, so this one was not started.",
    hint="Try again when others have ended.",
)


class ServedTools:
    """The tools as clients see them, and their calls."""

    def __init__(self, conversations: Conversations, questions: Questions) -> None:
        self._conversations = conversations
        self._questions = questions

    async def list(self, ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools of the dialect, the same whatever is loaded."""
        stateless = is_stateless(ctx)
        tools = await anyio.to_thread.run_sync(lambda: self._conversations.window.tools)
        return ListToolsResult(tools=[_definition(tool, stateless) for tool in tools])

    async def call(self, ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """Make a call; a failure and a refusal are results too."""
        arguments = dict(params.arguments or {})
        about = [conversation_of(ctx), params.name, params.arguments]
        key = arguments.pop("conversation", None) if is_stateless(ctx) else None

        async def attempt(answers: Answers | None) -> CallToolResult:
            try:
                kit = await kit_of(ctx) if key is None else await self._conversation_kit(key)
            except MetierError as error:
                problem = failure_of(params.name, error, self._conversations.dialect.words.tools)
                return _result(await _refused(self._conversations.window, params.name, arguments, problem))
            if kit is None:
                return await self._alone(ctx, params.name, arguments, answers)
            turn = key if isinstance(key, str) else conversation_of(ctx) or ""
            return _result(await _executed(ctx, kit, params.name, arguments, answers, turn))

        return await self._questions.settle(ctx, params, about, attempt)

    async def _conversation_kit(self, key: object) -> Kit:
        if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
            raise InvalidArgument(
                "conversation is no name of a conversation.", hint="Write it as the result that loaded a skill has it."
            )
        return await self._conversations.guard.in_thread(self._conversations.get, key)

    async def _alone(
        self, ctx: Context, name: str, arguments: Mapping[str, Any], answers: Answers | None
    ) -> CallToolResult:
        """A call outside of any conversation: it has the skill that it names, and begins one if it loads a skill."""
        async with self._conversations.beginning() as begun:
            tool = begun.kit.executor.registry.get(name)
            if tool is not None:
                name, read = tool.name, arguments_for(tool, arguments)
                arguments = arguments if isinstance(read, Misfit) else read
            if tool is not None and not tool.is_control:
                # What active skills forbid must not be had by not saying which conversation they are active in.
                return _result(await _refused(begun.kit, name, arguments, _NO_CONVERSATION))
            needed = _needed_skill(self._conversations.dialect.words.load, name, arguments)
            failure = None if needed is None else await self._loaded(begun.kit, needed, answers)
            if failure is not None:
                return _result(failure)
            result = await _executed(ctx, begun.kit, name, arguments, answers)
            begun.goes_on = needed is None and result.success and bool(begun.kit.session.active)
            return _result(result, begun.key if begun.goes_on else "")

    async def _loaded(self, kit: Kit, skill: str, answers: Answers | None) -> ToolResult | None:
        """Load a skill as a model does; a failure, or None."""
        with consent_from_any(answers):
            try:
                await kit.session.guard.in_thread(kit.session.load, [skill], by="model")
            except MetierError as error:
                return failure_of(skill, error, self._conversations.dialect.words.tools)
        return None


def _definition(tool: AnyTool, stateless: bool) -> Tool:
    # A copy: arguments are checked against the original.
    schema = copy.deepcopy(dict(tool.parameters))
    if stateless:
        schema["properties"] = {**schema.get("properties", {}), "conversation": CONVERSATION}
    hints = ToolAnnotations(read_only_hint=True) if tool.name in READ_ONLY else None
    return Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=hints)


async def _executed(
    ctx: Context, kit: Kit, name: str, arguments: Mapping[str, Any], answers: Answers | None, turn: str = ""
) -> ToolResult:
    # The client keeps the history and says nothing when it drops some of it, so content is always sent whole.
    kit.session.prompt.forget_delivered()
    # The SDK gives a request up by the scope that it runs in.
    execute = functools.partial(kit.execute, name, dict(arguments), answers=answers, is_scoped=True)
    tool = kit.executor.registry.get(name)
    if tool is None or "exec" not in getattr(tool, "tags", ()):
        return await execute()
    line: ClientConnection = ctx.lifespan_context
    try:
        async with line.turns.of(turn):
            return await with_progress(ctx.session, execute)
    except ServerBusy:
        return await _refused(kit, name, arguments, _BUSY)


async def _refused(kit: Kit, name: str, arguments: Mapping[str, Any], problem: ToolResult) -> ToolResult:
    """The answer to a call that cannot be made; it is recorded like any other."""
    return await kit.attempted(name, dict(arguments), problem) or problem


def _needed_skill(load: str, name: str, arguments: Mapping[str, Any]) -> str | None:
    """The skill whose file or script a call is about, where the call does not load it itself."""
    if name == load and arguments.get("action", "load") not in ("read", "run"):
        return None
    return next((value for key in _SKILL_ARGUMENTS if isinstance(value := arguments.get(key), str) and value), None)


def naming(conversation: str) -> str:
    """The sentence that tells a model which conversation it is in."""
    return f'Pass conversation="{conversation}" to further calls of these tools.'


def _result(result: ToolResult, conversation: str = "") -> CallToolResult:
    text = as_text(result)
    if conversation:
        text = f"{text}\n\n{naming(conversation)}"
    return CallToolResult(content=[TextContent(text=text)], is_error=not result.success)
