"""How a model sees skills: four sets of tools and texts over the same session, in the shape of each provider's API.

A dialect translates and never decides. This room imports everything below it, up to `session`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.dialect.context import (
        ContextProvider,
        SkillContext,
        TurnContext,
        TurnContextProvider,
        enriched_prompt,
        enriched_prompt_async,
        joined_context,
        joined_context_async,
    )
    from metier.dialect.dialects import CONTROL_TOOLS, Dialect, DialectName, dialect
    from metier.dialect.operations import Spawn
    from metier.dialect.proposing import proposal_tools
    from metier.dialect.providers import PROVIDERS, Provider, answer, as_text, definitions
    from metier.dialect.registry import RegistryDialect
    from metier.dialect.runtime import RuntimeDialect
    from metier.dialect.sandbox import SandboxDialect
    from metier.dialect.skill_tool import SkillTool
    from metier.dialect.skills import Kit, Skills
    from metier.dialect.tool import ToolDialect

_NAMES = {
    "CONTROL_TOOLS": "metier.dialect.dialects",
    "ContextProvider": "metier.dialect.context",
    "Dialect": "metier.dialect.dialects",
    "DialectName": "metier.dialect.dialects",
    "Kit": "metier.dialect.skills",
    "PROVIDERS": "metier.dialect.providers",
    "Provider": "metier.dialect.providers",
    "RegistryDialect": "metier.dialect.registry",
    "RuntimeDialect": "metier.dialect.runtime",
    "SandboxDialect": "metier.dialect.sandbox",
    "SkillContext": "metier.dialect.context",
    "SkillTool": "metier.dialect.skill_tool",
    "Skills": "metier.dialect.skills",
    "Spawn": "metier.dialect.operations",
    "ToolDialect": "metier.dialect.tool",
    "TurnContext": "metier.dialect.context",
    "TurnContextProvider": "metier.dialect.context",
    "answer": "metier.dialect.providers",
    "as_text": "metier.dialect.providers",
    "definitions": "metier.dialect.providers",
    "dialect": "metier.dialect.dialects",
    "enriched_prompt": "metier.dialect.context",
    "enriched_prompt_async": "metier.dialect.context",
    "joined_context": "metier.dialect.context",
    "joined_context_async": "metier.dialect.context",
    "proposal_tools": "metier.dialect.proposing",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "CONTROL_TOOLS",
    "PROVIDERS",
    "ContextProvider",
    "Dialect",
    "DialectName",
    "Kit",
    "Provider",
    "RegistryDialect",
    "RuntimeDialect",
    "SandboxDialect",
    "SkillContext",
    "SkillTool",
    "Skills",
    "Spawn",
    "ToolDialect",
    "TurnContext",
    "TurnContextProvider",
    "answer",
    "as_text",
    "definitions",
    "dialect",
    "enriched_prompt",
    "enriched_prompt_async",
    "joined_context",
    "joined_context_async",
    "proposal_tools",
]
