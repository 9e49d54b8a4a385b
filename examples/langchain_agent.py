"""An agent of LangChain with skills.

python examples/langchain_agent.py                                    # a model that follows a script, no key needed
python examples/langchain_agent.py --model anthropic:claude-sonnet-5  # needs langchain-anthropic
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from metier.dialect.langchain import Skills
from metier.guard import MemoryLog

SCRIPT: list[tuple[str, dict[str, Any]] | str] = [
    ("skills_load", {"skills": ["word-count"]}),
    ("skills_run", {"script": "scripts/count.py", "args": ["to be or not to be"]}),
    ("send_mail", {"to": "ann@example.com", "text": "6 words"}),
    "It has 6 words. I was not allowed to send a mail.",
]


class ScriptedChat(GenericFakeChatModel):
    """LangChain's own fake model, which takes no tools by itself."""

    def bind_tools(self, tools: Any, **options: Any) -> ScriptedChat:
        """Take the tools: the script knows them."""
        return self


def scripted() -> ScriptedChat:
    """A model that follows the script."""
    steps = [
        AIMessage(step)
        if isinstance(step, str)
        else AIMessage("", tool_calls=[{"name": step[0], "args": step[1], "id": str(number)}])
        for number, step in enumerate(SCRIPT)
    ]
    return ScriptedChat(messages=iter(steps))


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


def main(model: str) -> None:
    """Ask the agent something, and show what it did."""
    log = MemoryLog()
    skills = Skills(Path(__file__).parent / "skills", audit=log)
    agent: Any = create_agent(scripted() if model == "test" else model, [send_mail], middleware=[skills])
    question = "How many words has 'to be or not to be'? Mail the number to ann@example.com."
    answer = agent.invoke({"messages": [{"role": "user", "content": question}]})
    print(answer["messages"][-1].text)
    for record in log.records:
        print(f"  {record.event:6} {record.tool or record.skill:12} {record.decision:6} {record.code}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent of LangChain with skills.")
    parser.add_argument("--model", default="test", help="any model of `init_chat_model`; test follows a script")
    main(parser.parse_args().model)
