"""The same loop over each provider's own library: ask, make the calls, answer them, until the model calls nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from openai import AsyncOpenAI
from openai import DefaultAsyncHttpxClient as OpenAiHttp

from metier.dialect.raw import ProviderConversation

# Large, and imported where they are used: whoever only collects the tests does not pay for them.
if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from google import genai
    from google.genai import types as gemini

WireName = Literal["openai", "openai-responses", "anthropic", "gemini"]
WIRES: tuple[WireName, ...] = get_args(WireName)
API_KEY = "sk-this-key-belongs-into-a-header"
MODELS: dict[WireName, str] = {
    "openai": "gpt-5",
    "openai-responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-2.5-pro",
}


def web_lookup(query: str) -> str:
    """Look something up on the web.

    Args:
        query: What to look up.
    """
    raise AssertionError(f"{query!r} was looked up")


class RawClient(ABC):
    """A provider's own library, used by hand."""

    provider: WireName

    @abstractmethod
    async def ask(self, system: str, history: list[Any], tools: list[Any], *, streamed: bool) -> Turn:
        """Send one request."""

    def question(self, text: str) -> Any:
        """What a user says."""
        return {"role": "user", "content": text}

    async def converse(self, chat: ProviderConversation, system: str, task: str, *, streamed: bool) -> str:
        """Run a task to its end."""
        history = [self.question(task)]
        while True:
            turn = await self.ask(f"{system}\n\n{chat.instructions()}", history, chat.tools, streamed=streamed)
            history += turn.history
            answers = await chat.answer(turn.response)
            if not answers:
                return turn.text
            history += answers


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model said: as it was returned, as it goes into the history, and as text."""

    response: Any
    history: list[Any]
    text: str


class OpenAiChat(RawClient):
    """OpenAI's Chat Completions."""

    provider = "openai"

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, system: str, history: list[Any], tools: list[Any], *, streamed: bool) -> Turn:
        messages = [{"role": "system", "content": system}, *history]
        asked: dict[str, Any] = {"model": MODELS["openai"], "messages": messages, "tools": tools}
        if streamed:
            async with self._client.chat.completions.stream(**asked) as stream:
                completion: Any = await stream.get_final_completion()
        else:
            completion = await self._client.chat.completions.create(**asked)
        message = completion.choices[0].message
        said: dict[str, Any] = {"role": "assistant", "content": message.content}
        if message.tool_calls:
            said["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ]
        return Turn(completion, [said], message.content or "")


class OpenAiResponses(RawClient):
    """OpenAI's Responses, with the history kept here."""

    provider = "openai-responses"

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    async def ask(self, system: str, history: list[Any], tools: list[Any], *, streamed: bool) -> Turn:
        asked: dict[str, Any] = {
            "model": MODELS["openai-responses"],
            "instructions": system,
            "input": history,
            "tools": tools,
            "store": False,
        }
        if streamed:
            async with self._client.responses.stream(**asked) as stream:
                response: Any = await stream.get_final_response()
        else:
            response = await self._client.responses.create(**asked)
        # What a streamed item was parsed into is for readers of it, and no part of what can be sent.
        said = [
            item.model_dump(mode="json", exclude_none=True, exclude={"parsed_arguments"}) for item in response.output
        ]
        return Turn(response, said, response.output_text)


class Anthropic(RawClient):
    """Anthropic's Messages."""

    provider = "anthropic"

    def __init__(self, client: AsyncAnthropic) -> None:
        self._client = client

    async def ask(self, system: str, history: list[Any], tools: list[Any], *, streamed: bool) -> Turn:
        asked: dict[str, Any] = {
            "model": MODELS["anthropic"],
            "max_tokens": 1024,
            "system": system,
            "messages": history,
            "tools": tools,
        }
        if streamed:
            async with self._client.messages.stream(**asked) as stream:
                message: Any = await stream.get_final_message()
        else:
            message = await self._client.messages.create(**asked)
        text = "".join(block.text for block in message.content if block.type == "text")
        said = [block.model_dump(mode="json", exclude_none=True) for block in message.content]
        return Turn(message, [{"role": "assistant", "content": said}], text)


class Gemini(RawClient):
    """Google's generateContent."""

    provider = "gemini"

    def __init__(self, client: genai.Client) -> None:
        self._models = client.aio.models

    def question(self, text: str) -> Any:
        return {"role": "user", "parts": [{"text": text}]}

    async def ask(self, system: str, history: list[Any], tools: list[Any], *, streamed: bool) -> Turn:
        from google.genai import types as gemini

        config = gemini.GenerateContentConfig(
            system_instruction=system,
            tools=[gemini.Tool.model_validate(tool) for tool in tools],
            automatic_function_calling=gemini.AutomaticFunctionCallingConfig(disable=True),
        )
        asked: dict[str, Any] = {"model": MODELS["gemini"], "contents": history, "config": config}
        if streamed:
            chunks = [chunk async for chunk in await self._models.generate_content_stream(**asked)]
        else:
            chunks = [await self._models.generate_content(**asked)]
        parts = [part for chunk in chunks for part in _parts(chunk)]
        said = gemini.Content(role="model", parts=parts)
        return Turn(said, [said], "".join(part.text or "" for part in parts))


def _parts(response: gemini.GenerateContentResponse) -> Sequence[gemini.Part]:
    content = response.candidates[0].content if response.candidates else None
    return (content.parts or ()) if content else ()


@asynccontextmanager
async def library(wire: WireName, url: str) -> AsyncIterator[Any]:
    """A provider's own client, that sends to the wire and tries nothing twice."""
    # Nothing is encrypted on the way to this server, and reading certificates takes longer than the conversation.
    if wire == "anthropic":
        from anthropic import AsyncAnthropic
        from anthropic import DefaultAsyncHttpxClient as AnthropicHttp

        async with AsyncAnthropic(
            base_url=url, api_key=API_KEY, max_retries=0, http_client=AnthropicHttp(verify=False)
        ) as anthropic:
            yield anthropic
    elif wire == "gemini":
        from google import genai
        from google.genai import types as gemini

        options = gemini.HttpOptions(
            base_url=url,
            api_version="v1beta",
            retry_options=gemini.HttpRetryOptions(attempts=1),
            client_args={"verify": False},
            async_client_args={"verify": False, "ssl": False},
        )
        client = genai.Client(api_key=API_KEY, http_options=options)
        try:
            yield client
        finally:
            await client.aio.aclose()
            client.close()
    else:
        async with AsyncOpenAI(
            base_url=f"{url}/v1", api_key=API_KEY, max_retries=0, http_client=OpenAiHttp(verify=False)
        ) as openai:
            yield openai


def raw_client(wire: WireName, client: Any) -> RawClient:
    """The loop over a provider's own client."""
    kinds: dict[WireName, Any] = {
        "openai": OpenAiChat,
        "openai-responses": OpenAiResponses,
        "anthropic": Anthropic,
        "gemini": Gemini,
    }
    made: RawClient = kinds[wire](client)
    return made
