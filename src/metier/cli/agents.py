"""`metier agents`, and the agent that another command works with."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from metier.cli.library import library_of
from metier.cli.output import Style, plural, print_json, table

if TYPE_CHECKING:
    import argparse

    from metier.agent import Agent
    from metier.guard.approval import Approve

DEFAULT = "orchestrator"
"""The agent that is asked where none is named."""


def run(options: argparse.Namespace) -> int:
    from metier.agent import Agents

    agents = Agents.discover(library_of(options))
    if options.json:
        shape: dict[str, Any] = {
            "agents": [
                {
                    "id": one.id,
                    "name": one.name,
                    "description": one.description,
                    "model": one.model,
                    "uses_skills": list(one.uses_skills),
                    "uses_tools": list(one.uses_tools),
                    "integration_mode": one.integration_mode,
                    "folder": one.folder,
                }
                for one in agents
            ],
            "failures": [
                {"id": one.id, "message": one.message, "hint": one.hint, "folder": one.folder}
                for one in agents.failures.values()
            ],
        }
        print_json(shape)
        return int(bool(agents.failures))
    style = Style(sys.stdout)
    rows = [(one.id, one.model or "", ", ".join(one.uses_skills), one.description) for one in agents]
    print(table(style, ("ID", "MODEL", "SKILLS", "DESCRIPTION"), rows, paint={0: style.strong}))
    print(f"{plural(len(agents), 'agent')}. `metier ask --agent ID TASK` asks one.")
    for failure in agents.failures.values():
        print(f"{style.bad('✗')} {Style.text(failure.message, 1_000)}")
        print(f"  {style.dim('→ ' + Style.text(failure.hint, 1_000))}")
    return int(bool(agents.failures))


def agent_of(options: argparse.Namespace, approve: Approve) -> Agent:
    """The agent that was asked for, on the model that was asked for; raises `ModelMissing` before it does anything."""
    from metier._exporting import configure_from_environment
    from metier.agent import Agent, Agents

    _have_the_terminal()
    configure_from_environment()
    agents = Agents.discover(library_of(options))
    agent = Agent(
        agents.get(options.agent or DEFAULT),
        agents,
        model=options.model,
        approve=approve,
        **({} if options.workspace is None else {"workspace": options.workspace}),
    )
    agent.model  # noqa: B018  # found out now, and not after the person has typed
    return agent


def _have_the_terminal() -> None:
    """What a person sees here is what the agent says: pydantic-ai tells nothing of itself."""
    import pydantic_ai

    pydantic_ai.BANNER_ENABLED = False
