"""`metier agents`, and the agent that another command works with."""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING, Any

from metier.cli.identity import user_name
from metier.cli.library import library_of
from metier.cli.output import Style, plural, print_json, table
from metier.cli.shapes import error_shape
from metier.errors import AgentInvalid, MetierError
from metier.hints import for_person

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from metier.agent import Agent, AgentFailure, Agents, Manifest
    from metier.guard.question import Approve

DEFAULT = "orchestrator"
"""The agent that is asked where none is named."""


def run(options: argparse.Namespace) -> int:
    from metier.agent import Agents

    agents = Agents.discover(library_of(options))
    problems = problems_of(agents)
    code = int(bool(agents.failures or agents_in_need(agents, problems)))
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
                    "problem": _shape(problems.get(one.id)),
                }
                for one in agents
            ],
            "failures": [
                {"id": one.id, "message": one.message, "hint": for_person(one.hint), "folder": one.folder}
                for one in agents.failures.values()
            ],
        }
        print_json(shape)
        return code
    style = Style(sys.stdout)
    rows = [(one.id, one.model or "", ", ".join(one.uses_skills), one.description) for one in agents]
    print(table(style, ("ID", "MODEL", "SKILLS", "DESCRIPTION"), rows, paint={0: style.strong}, most_lines=3))
    print(f"{plural(len(agents), 'agent')}. `metier ask --agent ID TASK` asks one.")
    wrongs: list[AgentFailure | MetierError] = [*agents.failures.values(), *problems.values()]
    for wrong in wrongs:
        mark = style.warn("!") if isinstance(wrong, _HostTool) else style.bad("✗")
        print(f"{mark} {Style.text(wrong.message, 1_000)}")
        print(f"  {style.dim('→ ' + Style.text(for_person(wrong.hint), 1_000))}")
    return code


class _HostTool(AgentInvalid):
    """A tool that a program may well have, and this command does not."""


def agents_in_need(agents: Agents, problems: Mapping[str, MetierError] | None = None) -> set[str]:
    """The ids of agents that are declared well, and still can work nowhere."""
    found = problems_of(agents) if problems is None else problems
    return {name for name, error in found.items() if not isinstance(error, _HostTool)}


def problems_of(agents: Agents) -> dict[str, MetierError]:
    """What is wrong with agents that are declared well, by id: what they use is not here, a prompt is wrong."""
    found: dict[str, MetierError] = {}
    for manifest in agents:
        try:
            _check(agents, manifest)
        except MetierError as error:
            found[manifest.id] = error
    return found


def _check(agents: Agents, manifest: Manifest) -> None:
    from metier.agent.manifest import BUILDING, BUILT_IN

    agents.instructions(manifest, workspace=os.getcwd())
    known = (*BUILT_IN, *BUILDING)
    missing = [name for name in agents.tools_for(manifest) if name not in known]
    if missing:
        meant = difflib.get_close_matches(missing[0], [*known, *(one.id for one in agents)], n=1, cutoff=0.7)
        guess = f" Did you mean {meant[0]!r}?" if meant else ""
        raise _HostTool(
            f"Agent {manifest.id!r} uses tool {Style.text(missing[0])!r}, which is not here.{guess}",
            hint="A program gives it with `Agent(..., tools=[...])`; `metier ask` and `metier chat` cannot run it.",
        )


def _shape(error: MetierError | None) -> Any:
    return None if error is None else error_shape(error)["error"]


def require_engine() -> None:
    """Raise `PartMissing` where what runs agents is not installed, or too old."""
    from metier._parts import optional

    with optional("Agents", "pydantic-ai-slim", extra="agent"):
        import pydantic_ai

        import metier.agent.agent  # noqa: F401
    # What a person sees here is what the agent says: pydantic-ai tells nothing of itself.
    pydantic_ai.BANNER_ENABLED = False


def agent_of(options: argparse.Namespace, approve: Approve | None) -> Agent:
    """The agent that was asked for, on the model that was asked for; raises `ModelMissing` before it does anything.

    What `approve` may not agree to, or nobody where there is none, suspends it.
    """
    require_engine()
    from metier._exporting import configure_from_environment
    from metier.agent import Agent, Agents

    configure_from_environment()
    agents = Agents.discover(library_of(options))
    agent = Agent(
        agents.get(DEFAULT if options.agent is None else options.agent),
        agents,
        model=options.model,
        approve=approve,
        suspend=True,
        user=user_name(),
        **({} if options.workspace is None else {"workspace": options.workspace}),
    )
    agent.model  # noqa: B018  # found out now, and not after the person has typed
    return agent
