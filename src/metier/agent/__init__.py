"""Agents built on skills: declared in files, or run by a program.

This room stands on what the package offers its users, on `dialect` and on the rooms below it. The engine is
`pydantic-ai`; it and the templates of prompts come with `metier[agent]` and are imported where they are used.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.agent.agent import Agent as Agent
    from metier.agent.agents import Agents as Agents
    from metier.agent.answer import Answer as Answer
    from metier.agent.answer import ModelUsage as ModelUsage
    from metier.agent.authoring_tools import skill_authoring_tools as skill_authoring_tools
    from metier.agent.conversation import Conversation as Conversation
    from metier.agent.dependencies import AgentFailure as AgentFailure
    from metier.agent.dependencies import start_order as start_order
    from metier.agent.manifest import Manifest as Manifest
    from metier.agent.manifest import parse_manifest as parse_manifest
    from metier.agent.manifest import read_manifest as read_manifest
    from metier.agent.prompt import render_prompt as render_prompt

__getattr__, __dir__, __all__ = lazy_names(__name__)
