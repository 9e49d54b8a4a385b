"""Skills with OpenAI's own client: chat completions, and a loop of one's own.

python examples/raw_openai.py                              # answers from a script, no key needed
python examples/raw_openai.py --model gpt-5
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import httpx2
from openai import OpenAI

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
        message: dict[str, Any] = {"role": "assistant", "content": step}
        if not isinstance(step, str):
            call = {"name": step[0], "arguments": json.dumps(step[1])}
            message = {"role": "assistant", "tool_calls": [{"id": step[0], "type": "function", "function": call}]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return httpx2.Response(
            200, json={"id": "1", "object": "chat.completion", "created": 0, "model": "test", "choices": [choice]}
        )

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def loop(client: OpenAI, model: str, chat: ProviderConversation, task: str) -> str:
    """Call the model until it calls no more tools."""
    messages: list[Any] = [{"role": "user", "content": task}]
    tools: Any = chat.tools
    while True:
        system: Any = {"role": "system", "content": chat.instructions(task)}
        response = client.chat.completions.create(model=model, messages=[system, *messages], tools=tools)
        messages.append(response.choices[0].message)
        results = chat.answer_blocking(response)
        if not results:
            return response.choices[0].message.content or ""
        messages += results


def main(model: str) -> None:
    """Ask the model something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", provider="openai", tools=[send_mail], audit=log)
    task = "How many words has 'to be or not to be'? Mail the number to ann@example.com."
    client = OpenAI(api_key="none", http_client=scripted()) if model == "test" else OpenAI()
    with client, skills.conversation() as chat:
        print(loop(client, model, chat, task))
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Skills with OpenAI's own client.")
    parser.add_argument("--model", default="test", help="a model of OpenAI; test answers from a script")
    main(parser.parse_args().model)
