"""The budget of requests to models for one task, shared by all the agents that work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import AgentFailed

if TYPE_CHECKING:
    from metier.agent.manifest import Manifest

TEAM = 10
"""All agents together may take this many times the turns of the agent that was asked."""


class Budget:
    """The requests that an agent may make for one task, together with all agents that it starts.

    Each agent keeps to its own `limits.max_turns`; this bounds what they start among themselves.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._agent = manifest.id
        self.limit = TEAM * manifest.max_turns
        """The number of requests that are allowed."""
        self.left = self.limit
        """The number of requests that are left."""

    def take(self) -> None:
        """One more request; raises `AgentFailed` where there may be none."""
        if self.left <= 0:
            raise AgentFailed(
                f"Agent {self._agent!r} and the agents it started came to no answer in {self.limit} turns together "
                f"({TEAM} times its limits.max_turns).",
                hint="Ask for less at a time, or raise `limits.max_turns` in its agent.yaml.",
                agent=self._agent,
                limit="team",
            )
        self.left -= 1
