"""Agents built on skills: declared in files, or run by a program.

This room stands on what the package offers its users, on `dialect` and on the rooms below it. The engine is
`pydantic-ai`; it and the templates of prompts come with `metier[agent]` and are imported where they are used.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.agent.agent import Agent
    from metier.agent.agents import Agents
    from metier.agent.answer import Answer, Usage
    from metier.agent.building import building_tools
    from metier.agent.conversation import Conversation
    from metier.agent.manifest import Manifest, parse_manifest, read_manifest
    from metier.agent.order import AgentFailure, start_order
    from metier.agent.prompt import render_prompt

_NAMES = {
    "Agent": "metier.agent.agent",
    "AgentFailure": "metier.agent.order",
    "Agents": "metier.agent.agents",
    "Answer": "metier.agent.answer",
    "Conversation": "metier.agent.conversation",
    "Manifest": "metier.agent.manifest",
    "Usage": "metier.agent.answer",
    "building_tools": "metier.agent.building",
    "parse_manifest": "metier.agent.manifest",
    "read_manifest": "metier.agent.manifest",
    "render_prompt": "metier.agent.prompt",
    "start_order": "metier.agent.order",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Agent",
    "AgentFailure",
    "Agents",
    "Answer",
    "Conversation",
    "Manifest",
    "Usage",
    "building_tools",
    "parse_manifest",
    "read_manifest",
    "render_prompt",
    "start_order",
]
