"""An agent of the OpenAI Agents SDK with skills.

python examples/openai_agents_agent.py                     # a model that follows a script, no key needed
python examples/openai_agents_agent.py --model gpt-5
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from metier.dialect.openai_agents import Skills
from metier.guard import MemoryLog

SCRIPT: list[tuple[str, dict[str, Any]] | str] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


def item(number: int, step: tuple[str, dict[str, Any]] | str) -> Any:
    """A step as the SDK's own scripted model takes it."""
    if not isinstance(step, str):
        given = json.dumps(step[1])
        return ResponseFunctionToolCall(call_id=str(number), name=step[0], arguments=given, type="function_call")
    text = ResponseOutputText(text=step, type="output_text", annotations=[])
    return ResponseOutputMessage(id=str(number), content=[text], role="assistant", status="completed", type="message")


@function_tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


async def main(model: str) -> None:
    """Ask the agent something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", audit=log)
    scripted = ScriptedModel([[item(number, step)] for number, step in enumerate(SCRIPT)])
    agent: Agent[None] = Agent(name="assistant", model=scripted if model == "test" else model, tools=[send_mail])
    question = "How many words has 'to be or not to be'? Mail the number to ann@example.com."
    config = RunConfig(tracing_disabled=model == "test")
    answer = await Runner.run(skills.equip(agent, conversation="one"), question, run_config=config)
    print(answer.final_output)
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent of the OpenAI Agents SDK with skills.")
    parser.add_argument("--model", default="test", help="a model of OpenAI; test follows a script")
    asyncio.run(main(parser.parse_args().model))
