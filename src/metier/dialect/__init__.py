"""Dialects: four sets of tools and texts over the same session, in the shape of each provider's API.

A dialect translates and never decides. This room imports everything below it, up to `session`.
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.dialect.context import ContextProvider as ContextProvider
    from metier.dialect.context import SkillContext as SkillContext
    from metier.dialect.context import TurnContext as TurnContext
    from metier.dialect.context import TurnContextProvider as TurnContextProvider
    from metier.dialect.context import enriched_prompt as enriched_prompt
    from metier.dialect.context import enriched_prompt_async as enriched_prompt_async
    from metier.dialect.context import joined_context as joined_context
    from metier.dialect.context import joined_context_async as joined_context_async
    from metier.dialect.dialects import CONTROL_TOOLS as CONTROL_TOOLS
    from metier.dialect.dialects import Dialect as Dialect
    from metier.dialect.dialects import DialectName as DialectName
    from metier.dialect.dialects import SkillTool as SkillTool
    from metier.dialect.dialects import dialect as dialect
    from metier.dialect.operations import Spawn as Spawn
    from metier.dialect.providers import PROVIDERS as PROVIDERS
    from metier.dialect.providers import Provider as Provider
    from metier.dialect.providers import answer as answer
    from metier.dialect.providers import as_text as as_text
    from metier.dialect.providers import definitions as definitions
    from metier.dialect.registry import RegistryDialect as RegistryDialect
    from metier.dialect.runtime import RuntimeDialect as RuntimeDialect
    from metier.dialect.sandbox import SandboxDialect as SandboxDialect
    from metier.dialect.skill_proposals import proposal_tools as proposal_tools
    from metier.dialect.skills import Kit as Kit
    from metier.dialect.skills import Skills as Skills
    from metier.dialect.tool import ToolDialect as ToolDialect

__getattr__, __dir__, __all__ = lazy_names(__name__)
