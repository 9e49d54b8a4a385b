"""The same conversation through pydantic-ai, with its own classes for each provider and our capability."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from tests.wire.clients import MODELS, WireName, web_lookup

from metier.dialect.pydantic_ai import Skills


def model(wire: WireName, client: Any) -> Model:
    """pydantic-ai's model over a provider's own client."""
    name = MODELS[wire]
    if wire == "openai":
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
    if wire == "openai-responses":
        return OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client))
    if wire == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(name, provider=GoogleProvider(client=client))


async def converse(
    chosen: Model,
    skills: Skills,
    system: str,
    task: str | None,
    *,
    streamed: bool,
    conversation: str | None = None,
    history: Sequence[ModelMessage] | None = None,
) -> str:
    """Run a task to its end."""
    # Without a limit, Anthropic's models are always asked for a stream.
    settings = ModelSettings(max_tokens=1024)
    agent = Agent(
        chosen, instructions=system, capabilities=[skills], tools=[web_lookup], model_settings=settings, retries=0
    )
    answer = await agent.run(
        task,
        conversation_id=conversation,
        message_history=history,
        event_stream_handler=_listen if streamed else None,
    )
    return answer.output


async def _listen(ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
    """What makes pydantic-ai ask for a stream."""
    async for _ in events:
        pass
