"""Skills with Google's own client, and a loop of one's own.

python examples/raw_gemini.py                              # answers from a script, no key needed
python examples/raw_gemini.py --model gemini-3-pro
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import httpx2
from google import genai

from metier.dialect.raw import ProviderConversation, Skills
from metier.guard import MemoryLog

SCRIPT: list[tuple[str, dict[str, Any]] | str] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


def scripted() -> httpx2.AsyncClient:
    """A connection on which the script answers."""
    steps = iter(SCRIPT)

    def answer(request: httpx2.Request) -> httpx2.Response:
        step = next(steps)
        part: dict[str, Any] = {"text": step}
        if not isinstance(step, str):
            part = {"functionCall": {"name": step[0], "args": step[1]}}
        content = {"role": "model", "parts": [part]}
        return httpx2.Response(200, json={"candidates": [{"content": content, "finishReason": "STOP"}]})

    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def loop(client: genai.Client, model: str, chat: ProviderConversation, task: str) -> str:
    """Call the model until it calls no more tools."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": task}]}]
    while True:
        config: Any = {"system_instruction": chat.instructions(task), "tools": chat.tools}
        response = await client.aio.models.generate_content(model=model, contents=contents, config=config)
        contents += [one.content for one in response.candidates or ()][:1]
        results = await chat.answer(response)
        if not results:
            return response.text or ""
        contents += results


async def main(model: str) -> None:
    """Ask the model something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", provider="gemini", tools=[send_mail], audit=log)
    task = "How many words has 'to be or not to be'? Mail the number to ann@example.com."
    if model == "test":
        client = genai.Client(api_key="none", http_options=genai.types.HttpOptions(httpx_async_client=scripted()))
    else:
        client = genai.Client()
    async with client.aio:
        with skills.conversation() as chat:
            print(await loop(client, model, chat, task))
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Skills with Google's own client.")
    parser.add_argument("--model", default="test", help="a model of Google; test answers from a script")
    asyncio.run(main(parser.parse_args().model))
