"""Skills with Anthropic's own client, and a loop of one's own.

python examples/raw_anthropic.py                           # answers from a script, no key needed
python examples/raw_anthropic.py --model claude-sonnet-5
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import httpx2
from anthropic import Anthropic

from metier.dialect.raw import ProviderConversation, Skills
from metier.guard import MemoryLog

SCRIPT: list[tuple[str, dict[str, Any]] | str] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


def scripted() -> httpx2.Client:
    """A connection on which the script answers."""
    steps = iter(SCRIPT)

    def answer(request: httpx2.Request) -> httpx2.Response:
        step = next(steps)
        block: dict[str, Any] = {"type": "text", "text": step}
        if not isinstance(step, str):
            block = {"type": "tool_use", "id": step[0], "name": step[0], "input": step[1]}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "1", "type": "message", "role": "assistant", "model": "test", "content": [block]}
        return httpx2.Response(200, json={**message, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage})

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def loop(client: Anthropic, model: str, chat: ProviderConversation, task: str) -> str:
    """Call the model until it calls no more tools."""
    messages: list[Any] = [{"role": "user", "content": task}]
    tools: Any = chat.tools
    while True:
        response = client.messages.create(
            model=model, max_tokens=4096, system=chat.instructions(task), messages=messages, tools=tools
        )
        messages.append({"role": "assistant", "content": response.content})
        results = chat.answer_blocking(response)
        if not results:
            return "".join(block.text for block in response.content if block.type == "text")
        messages += results


def main(model: str) -> None:
    """Ask the model something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", provider="anthropic", tools=[send_mail], audit=log)
    task = "How many words has 'to be or not to be'? Mail the number to ann@example.com."
    client = Anthropic(api_key="none", http_client=scripted()) if model == "test" else Anthropic()
    with client, skills.conversation() as chat:
        print(loop(client, model, chat, task))
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Skills with Anthropic's own client.")
    parser.add_argument("--model", default="test", help="a model of Anthropic; test answers from a script")
    main(parser.parse_args().model)
