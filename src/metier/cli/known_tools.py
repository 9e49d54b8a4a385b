"""What there is to say about the tools that a skill asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.skill import Diagnostic
from metier.skill.tool_rules import unknown_tools

if TYPE_CHECKING:
    from metier.skill import Skill


def about_tools(skill: Skill) -> list[Diagnostic]:
    """A warning where `allowed-tools` names a tool that no agent is known to have."""
    unknown = unknown_tools(skill.allowed_tools)
    return [Diagnostic("tools-unknown", None, (", ".join(unknown),))] if unknown else []
