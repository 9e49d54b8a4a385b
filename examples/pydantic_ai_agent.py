"""An agent of pydantic-ai with skills.

python examples/pydantic_ai_agent.py                                  # a model that follows a script, no key needed
python examples/pydantic_ai_agent.py --model anthropic:claude-sonnet-5
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from pydantic_ai import Agent

from metier.dialect.pydantic_ai import Skills
from metier.guard import MemoryLog
from metier.testing import ScriptedModel

SCRIPT: list[Any] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def main(model: str) -> None:
    """Ask the agent something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", audit=log)
    agent: Agent[None, str] = Agent(
        ScriptedModel(SCRIPT) if model == "test" else model, tools=[send_mail], capabilities=[skills]
    )
    answer = await agent.run("How many words has 'to be or not to be'? Mail the number to ann@example.com.")
    print(answer.output)
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent of pydantic-ai with skills.")
    parser.add_argument("--model", default="test", help="any model of pydantic-ai; test follows a script")
    asyncio.run(main(parser.parse_args().model))
