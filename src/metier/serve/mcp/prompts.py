"""Skills as prompts: one for each skill that people may invoke, with the arguments that it declares."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING

import anyio.to_thread
from mcp_types import GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, TextContent

from metier.errors import InvalidArgument, SkillNotFound
from metier.guard.question import consent_from_any
from metier.serve.mcp.connection import conversation_of, kit_of
from metier.serve.mcp.pages import page_of, place_of
from metier.serve.mcp.tools import naming
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_types import GetPromptRequestParams, InputRequiredResult, PaginatedRequestParams

    from metier import Session
    from metier.dialect import Kit
    from metier.guard.question import Answers
    from metier.library import Entry
    from metier.serve.mcp.connection import Context
    from metier.serve.mcp.conversations import Conversations
    from metier.serve.mcp.elicitation import Questions

ARGS = "args"


class Prompts:
    """The skills that a person may invoke by name."""

    def __init__(self, conversations: Conversations, questions: Questions) -> None:
        self._conversations = conversations
        self._questions = questions

    async def list(self, ctx: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        """The skills that are for people."""

        def listed() -> ListPromptsResult:
            after = place_of(params.cursor if params is not None else None)
            prompts, cursor = page_of((entry.name, self._prompt(entry)) for entry in self._for_people(after))
            return ListPromptsResult(prompts=prompts, next_cursor=cursor)

        return await anyio.to_thread.run_sync(listed)

    def _prompt(self, entry: Entry) -> Prompt:
        """The prompt of a skill for clients, who may show it to a model: its name alone where policy says so."""
        told = self._conversations.window.session.parts.known.description(entry)
        return Prompt(name=entry.name, description=told or None, arguments=_arguments(entry))

    def _for_people(self, after: str) -> Iterator[Entry]:
        for entry in self._conversations.entries(after, by="host"):
            if entry.skill.user_invocable:
                yield entry

    async def get(self, ctx: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult:
        """The messages of an invoked skill; it is loaded beside those that are active."""
        about = [conversation_of(ctx), params.name, params.arguments]

        async def attempt(answers: Answers | None) -> GetPromptResult:
            arguments = params.arguments or {}
            kit = await kit_of(ctx)
            if kit is not None:
                return await self._invoked(kit, params.name, arguments, answers)
            async with self._conversations.beginning() as begun:
                result = await self._invoked(begun.kit, params.name, arguments, answers, begun.key)
                begun.goes_on = bool(begun.kit.session.active)
                return result

        return await self._questions.settle(ctx, params, about, attempt)

    async def _invoked(
        self, kit: Kit, name: str, arguments: Mapping[str, str], answers: Answers | None, key: str = ""
    ) -> GetPromptResult:
        session = kit.session

        def invoke() -> GetPromptResult:
            entry = _entry(session, name)
            # The client keeps the history and says nothing when it drops some of it, so content is always sent whole.
            session.prompt.forget_delivered()
            made = session.invoke(
                # Nobody can unload at a prompt, so what was loaded longest ago makes room.
                f"/{name} {_line(entry, arguments)}",
                words=self._conversations.dialect.words,
                make_room=True,
                by="client",
            )
            assert made is not None
            text = f"{made.text}\n\n{naming(key)}" if key and session.active else made.text
            message = PromptMessage(role="user", content=TextContent(text=text))
            return GetPromptResult(description=session.parts.known.description(entry) or None, messages=[message])

        with consent_from_any(answers):
            return await self._conversations.guard.in_thread(invoke)


def _entry(session: Session, name: str) -> Entry:
    # A prompt has one name, where a skill may have several.
    with contextlib.suppress(SkillNotFound):
        entry = session.parts.known.find(name)
        if entry.name == name:
            return entry
    raise SkillNotFound(f"There is no prompt {shown(name)!r}.", hint="prompts/list has all that there are.")


def _arguments(entry: Entry) -> list[PromptArgument]:
    skill = entry.skill
    return [
        PromptArgument(name=one.name, description=one.description or None, required=one.required)
        for one in skill.arguments
    ] or [PromptArgument(name=ARGS, description=skill.argument_hint or "What it is to work on.", required=False)]


def _line(entry: Entry, given: Mapping[str, str]) -> str:
    """Arguments by name as the line that a person would type."""
    declared = entry.skill.arguments
    names = [one.name for one in declared] or [ARGS]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidArgument(
            f"Prompt {entry.name!r} has no argument {shown(unknown[0])!r}.", hint=f"It has {', '.join(names)}."
        )
    missing = [one.name for one in declared if one.required and not given.get(one.name)]
    if missing:
        raise InvalidArgument(f"Prompt {entry.name!r} needs {missing[0]!r}.", hint="Give it a value.")
    if not declared:
        return given.get(ARGS, "")
    # Positions count, so whatever stands before the last one that is given has a place too.
    last = max((at for at, name in enumerate(names) if name in given), default=-1)
    return shlex.join(given.get(one.name, one.default or "") for one in declared[: last + 1])
