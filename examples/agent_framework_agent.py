"""An agent of Microsoft's Agent Framework with skills.

python examples/agent_framework_agent.py                   # a client that follows a script, no key needed
python examples/agent_framework_agent.py --model gpt-5 # needs agent-framework-openai
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from metier.dialect.agent_framework import Skills
from metier.guard import MemoryLog

SCRIPT: list[tuple[str, dict[str, Any]] | str] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A client that follows the script."""

    def __init__(self) -> None:
        super().__init__()
        self._steps = iter(enumerate(SCRIPT))

    async def _inner_get_response(self, **request: Any) -> ChatResponse:
        number, step = next(self._steps)
        if isinstance(step, str):
            content = Content.from_text(step)
        else:
            content = Content.from_function_call(str(number), step[0], arguments=step[1])
        return ChatResponse(messages=[Message("assistant", [content])])


def client_of(model: str) -> Any:
    """The client that the agent talks to its model by."""
    if model == "test":
        return ScriptedClient()
    from agent_framework.openai import OpenAIChatClient

    return OpenAIChatClient(model=model)


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def main(model: str) -> None:
    """Ask the agent something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", audit=log)
    agent: Any = Agent(client_of(model), tools=[send_mail], context_providers=[skills])
    answer = await agent.run("How many words has 'to be or not to be'? Mail the number to ann@example.com.")
    print(answer.text)
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent of Microsoft's Agent Framework with skills.")
    parser.add_argument("--model", default="test", help="a model of OpenAI; test follows a script")
    asyncio.run(main(parser.parse_args().model))
