"""Agents that other agents have as tools: each in a session of its own, under whatever restricts the one around it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument
from metier.session import escape_tags
from metier.session.lineage import Lineage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.agent.manifest import Manifest
    from metier.agent.turn import Turn

_PREFIX = "agent_"
_MAX_NAME = 64
_TASK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "description": "What it is to do, with all that it needs to know: it sees nothing of this conversation.",
        }
    },
    "required": ["task"],
    "additionalProperties": False,
}


def tool_name(id: str) -> str:  # noqa: A002
    """The name of the tool that stands for an agent.

    >>> tool_name("skill-builder")
    'agent_skill-builder'
    """
    name = f"{_PREFIX}{id}"
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(id.encode()).hexdigest()[:8]}"


def lineage_name(manifest: Manifest) -> str:
    """The name of an agent in a lineage, which no skill can have."""
    return f"agent:{manifest.id}"


def root_lineage(manifest: Manifest, max_depth: int) -> Lineage:
    """The lineage of an agent that no other agent started."""
    return Lineage(chain=(lineage_name(manifest),), max_depth=max_depth)


def delegate_tools(turn: Turn) -> list[AgentTool]:
    """The agents that an agent has as tools, during a turn."""
    return [AgentTool(turn, manifest) for manifest in turn.agent.agents.delegates(turn.agent.manifest)]


class AgentTool:
    """An agent as a tool of another."""

    parameters = _TASK
    timeout = None
    is_control = False

    def __init__(self, turn: Turn, manifest: Manifest) -> None:
        self._turn = turn
        self._manifest = manifest
        self.name = tool_name(manifest.id)
        self.description = manifest.description or f"Asks the agent {manifest.name}."

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Run the agent on a task, and give its answer."""
        if not arguments["task"].strip():
            raise InvalidArgument("Nothing was asked.", hint=f"Say in `task` what {self._manifest.name} is to do.")
        agent = self._turn.agent.other(self._manifest)
        async with agent.begun(under=self._turn) as turn:
            answer = await turn.answer(arguments["task"])
        # It may have read anything, and must not be taken for what stands around it.
        return escape_tags(answer.text)
