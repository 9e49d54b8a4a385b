"""A conversation with an agent: turn after turn in one session, kept, and gone on with later."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from metier.agent.agent import answer_event
from metier.agent.answer import Answer
from metier.agent.streaming import stream_events
from metier.agent.subagents import subagent_spawner
from metier.agent.turn import NOT_MADE, Turn, complete_calls, message_pair
from metier.errors import InvalidArgument
from metier.session.loader import parse_invocation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
    from typing import Self

    from pydantic_ai.messages import ModelMessage

    from metier import Event
    from metier.agent.agent import Agent
    from metier.guard import Question
    from metier.session.events import View


class Conversation:
    """A conversation of a person and an agent; skills stay loaded from one turn to the next.

    >>> from metier import Library
    >>> from metier.agent import Agent, Agents
    >>> agents = Agents.discover(Library.from_files())
    >>> conversation = Agent(agents.get("reviewer"), agents, model="test").conversation()
    >>> import anyio
    >>> async def main():
    ...     return [event.kind async for event in conversation.send("Hello!") if event.kind != "text"]
    >>> anyio.run(main)
    ['iteration', 'answer']
    >>> conversation.close()
    """

    def __init__(self, agent: Agent, state: Mapping[str, Any] | str | bytes | None = None) -> None:
        from metier.agent.serialisation import SavedConversation

        self.agent = agent
        saved = None if state is None else SavedConversation(state, agent.manifest.id)
        self.session = agent.session(state=None if saved is None else saved.session)
        """The session, with the skills that are loaded."""
        self._history: tuple[ModelMessage, ...] = () if saved is None else saved.history
        self.questions: tuple[Question, ...] = () if saved is None else saved.waiting
        """The questions that somebody has to answer before `resume` goes on; none where nothing waits."""
        if saved is not None and saved.is_cut(self.session.loaded.bound):
            self.session.prompt.forget_delivered()
        active = {one.name for one in self.session.active}
        before = () if saved is None else (one["name"] for one in saved.session["active"])
        self.left_out = tuple(name for name in before if name not in active)
        """Skills that it had loaded when it was saved, and that are gone or refused by now."""
        self._is_busy = False

    @property
    def history(self) -> tuple[ModelMessage, ...]:
        """The messages of the conversation, as pydantic-ai has them; it only ever gets longer."""
        return self._history

    def send(self, text: str, *, view: View = "full") -> AsyncGenerator[Event]:
        """Say something, and be told what happens: text as it comes, skills, tool calls, and last the answer.

        `/name arguments` uses a skill by name. Whoever stops iterating ends the turn. Calls that wait for somebody to
        agree are given up by that.
        """
        return self._run(lambda turn, pace: self._answered(turn, text, pace), view)

    def resume(self, answers: Mapping[str, bool] | None = None, *, view: View = "full") -> AsyncGenerator[Event]:
        """Go on with a turn that was suspended: make the calls again that wait, and be told what happens.

        `answers` are by the ids of `questions`; what an approver has granted meanwhile needs none.
        """
        self._require_questions()
        return self._run(lambda turn, pace: self._resumed(turn, answers, pace), view)

    async def resumed(self, answers: Mapping[str, bool] | None = None) -> Answer:
        """`resume`, for whoever only wants to know what came of it."""
        self._require_questions()
        with self._busy():
            return await self._resumed(Turn(self.agent, self.session, model=self.agent.model), answers, None)

    def _require_questions(self) -> None:
        if not self.questions:
            raise InvalidArgument("Nothing waits for an answer here.", hint="Say something to the agent instead.")

    async def _run(self, work: Callable[[Turn, Any], Awaitable[Answer]], view: View) -> AsyncGenerator[Event]:
        with self._busy():
            await anyio.to_thread.run_sync(self.session.library.refresh)
            turn = Turn(self.agent, self.session, model=self.agent.model)

            async def worked(pace: Any) -> None:
                self.session.context.emit(answer_event(await work(turn, pace)))

            async with contextlib.aclosing(stream_events(self.session, worked, view)) as events:
                async for event in events:
                    yield event

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        if self._is_busy:
            raise InvalidArgument("The agent has not answered yet.", hint="Wait for its answer, or end the turn.")
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    async def _resumed(self, turn: Turn, answers: Mapping[str, bool] | None, pace: Any) -> Answer:
        return await self._record_answer(turn, turn.resume(self._history, answers, pace=pace))

    async def _record_answer(self, turn: Turn, answering: Awaitable[Answer]) -> Answer:
        """The answer, with all that was said on the way to it kept."""
        self.questions = ()
        try:
            answer = await answering
        finally:
            # Also what came to no answer was said, and what it loaded stands in it.
            if turn.messages:
                self._history = tuple(turn.messages)
        self.questions = answer.questions
        return answer

    async def _answered(self, turn: Turn, text: str, pace: Any) -> Answer:
        if self.questions:
            self.questions, self._history = (), tuple(complete_calls(self._history, NOT_MADE))
        invoked = parse_invocation(text)
        if invoked is not None and self.session.parts.known.find(invoked[0]).skill.context == "fork":
            return await self._forked(turn, text, *invoked)
        prompt = text if invoked is None else await self.agent.guard.in_thread(self._invoked, text)
        prompt = await self.agent.enriched(self.session, prompt)
        return await self._record_answer(turn, turn.answer(prompt, self._history, pace=pace))

    def _invoked(self, text: str) -> str:
        """The text for the model of a skill that was used by name."""
        invocation = self.session.invoke(text, words=self.agent.dialect.words, make_room=True)
        if invocation is None or invocation.is_user_message:
            return invocation.text if invocation else text
        return f"{text}\n\n{invocation.text}"

    async def _forked(self, turn: Turn, text: str, name: str, arguments: str) -> Answer:
        """The output of a skill with an agent of its own; all that this conversation keeps of it."""
        child = await self.agent.guard.in_thread(self.session.fork, name, args=arguments, by="user")
        try:
            output = await subagent_spawner(turn)(child.loaded.one(), arguments, child)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(child.close)
        self._history = (*self._history, *message_pair(text, output))
        return Answer(text=output, agent=self.agent.manifest.id, turns=0, usage=turn.spent, session=self.session.id)

    def save(self) -> dict[str, Any]:
        """Its state as JSON holds it, for `Agent.conversation`."""
        from metier.agent.serialisation import save_conversation

        if self._is_busy:
            raise InvalidArgument("The agent has not answered yet.", hint="Save it between two turns.")
        return save_conversation(self.agent.manifest.id, self.session, self._history, self.questions)

    def close(self) -> None:
        """Unload everything and end."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
