"""Skills for programs that talk to OpenAI, Anthropic or Gemini themselves: definitions, and answers to tool calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread

from metier.dialect import skills as seam
from metier.dialect.models import Switch
from metier.dialect.providers import answer, definitions
from metier.dialect.responses import READERS, calls_of, origin_of
from metier.errors import InvalidArgument
from metier.tools import FunctionTool, Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import Self

    from metier import Session
    from metier.dialect.providers import Provider
    from metier.dialect.skills import Kit, Where
    from metier.session import ActiveSkill

Loop: TypeAlias = Callable[["ProviderConversation", str], "str | Awaitable[str]"]
"""A program's own loop: calls a model until it is done with a task, and gives its last text."""

Models: TypeAlias = Mapping[str, str] | Callable[[str], str | None]
"""The models that skills may ask for by name (`model: opus`), or a function that knows them."""


class Skills:
    """Gives a program of your own skills: definitions for its requests, and answers to the tool calls in responses.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> chat = Skills(library, provider="anthropic").conversation()
    >>> chat.tools[0]["name"]
    'skills_load'
    >>> use = {"type": "tool_use", "id": "1", "name": "skills_load", "input": {"skills": ["greet"]}}
    >>> [answer] = chat.answer_blocking({"role": "assistant", "content": [use]})
    >>> answer["content"][0]["is_error"]
    False
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        provider: Provider = "openai",
        tools: Sequence[Tool | Callable[..., Any]] = (),
        loop: Loop | None = None,
        models: Models | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of `metier.dialect.Skills`: `policy`, `approve`, `workspace` and more.

        `provider` is openai (chat completions), openai-responses, anthropic or gemini. `tools` are the program's own,
        as functions or `metier.tools.Tool`: they are under the rules of the active skills too. `loop` is called to run
        a skill with `context: fork`; without it such a skill is loaded like any other.
        """
        if provider not in READERS:
            raise InvalidArgument(f"There is no provider {provider!r}.", hint=f"Providers are {', '.join(READERS)}.")
        self.seam = seam.Skills(library, **options)
        self.provider = provider
        self._tools = [tool if isinstance(tool, Tool) else FunctionTool(tool) for tool in tools]
        self._loop = loop
        self.switch: Switch[str] = Switch(models)

    def conversation(self, id: str | None = None) -> ProviderConversation:  # noqa: A002
        """A conversation: the one of that id, or a new one."""
        kit = self.seam.kit(id, spawn=self._loop and self._spawn, tools=self._tools)
        kit.set_others(())
        return ProviderConversation(self, kit)

    async def _spawn(self, skill: ActiveSkill, task: str, session: Session) -> str:
        assert self._loop is not None
        child = ProviderConversation(self, self.seam.kit_in(session, spawn=self._spawn, tools=self._tools))
        if inspect.iscoroutinefunction(self._loop):
            return str(await self._loop(child, task or seam.BEGIN))
        # A blocking loop answers by `answer_blocking`, which needs a thread without an event loop.
        found = await anyio.to_thread.run_sync(self._loop, child, task or seam.BEGIN)
        return str(await found if inspect.isawaitable(found) else found)


class ProviderConversation:
    """One conversation with a model, never shared between users."""

    def __init__(self, skills: Skills, kit: Kit) -> None:
        self._skills = skills
        self._kit = kit

    @property
    def session(self) -> Session:
        """The session of the conversation."""
        return self._kit.session

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions for a request's `tools`, the same whatever is loaded."""
        return definitions(self._kit.tools, self._skills.provider)

    def instructions(self, prompt: str | None = None) -> str:
        """The system text for the next request; `prompt` is what the user asks for."""
        self._skills.seam.library.refresh()
        return self._kit.instructions(prompt)

    def model(self, own: str) -> str:
        """The model for the next request: the one that an active skill asks for, or the program's own."""
        return self._skills.switch.find(self._kit.model) or own

    async def answer(self, response: Any) -> list[dict[str, Any]]:
        """Return the messages to append after the model's own: the results of its tool calls; nothing without any.

        `response` is what the provider's client returned, or the message in it, as object or as JSON.
        """
        provider = self._skills.provider
        calls = calls_of(response, provider)
        model, tokens, output = origin_of(response)
        self._kit.session.calls.answered_by(model, tokens, output=output)
        made = []
        for call in calls:
            if call.is_made:
                await self._kit.attempted(call.name, call.arguments)
                continue
            result = await self._kit.execute(call.name, call.arguments)
            made.append(answer(result, provider, call.id, call.name))
        if not made or provider in ("openai", "openai-responses"):
            return made
        return [{"role": "user", "content" if provider == "anthropic" else "parts": made}]

    def answer_blocking(self, response: Any) -> list[dict[str, Any]]:
        """The same for programs without an event loop."""
        try:
            anyio.lowlevel.current_token()
        except RuntimeError:
            return anyio.run(self.answer, response)
        raise InvalidArgument("An event loop is running in this thread.", hint="Use `await chat.answer(response)`.")

    def close(self) -> None:
        """End it: everything is unloaded."""
        self._skills.seam.end(self.session.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
