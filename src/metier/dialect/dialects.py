"""The seam: a dialect is a set of tools and a text, over one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from metier.dialect.operations import Spawn
    from metier.dialect.skill_tool import SkillTool
    from metier.session import Session, Vocabulary

DialectName: TypeAlias = Literal["registry", "tool", "runtime", "sandbox"]

PROPOSAL_TOOLS = frozenset({"propose_skill", "propose_skill_update"})
"""The tools by which a model proposes changes to skills."""
CONTROL_TOOLS = frozenset(
    [
        *("skills_load", "skills_unload", "skills_read", "skills_run", "skills_search"),
        *("list_skills", "read_skill", "read_skill_resource", "skill", "get_skill"),
        *PROPOSAL_TOOLS,
    ]
)
"""The tools of all dialects that control skills themselves: no skill can forbid them."""


class Dialect(Protocol):
    """How a model sees the skills of a session."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def words(self) -> Vocabulary:
        """What its tools are called, by what they do."""
        ...

    def tools(self, session: Session, spawn: Spawn | None = None) -> list[SkillTool]:
        """Its tools; none where there are no skills."""
        ...

    def instructions(self, session: Session, prompt: str | None = None) -> str:
        """Its text for the next model call; empty where there is nothing to say."""
        ...


def dialect(name: str) -> Dialect:
    """The dialect of a name.

    >>> dialect("runtime").words.load
    'skills_load'
    """
    if name == "registry":
        from metier.dialect.registry import RegistryDialect

        return RegistryDialect()
    if name == "tool":
        from metier.dialect.tool import ToolDialect

        return ToolDialect()
    if name == "runtime":
        from metier.dialect.runtime import RuntimeDialect

        return RuntimeDialect()
    if name == "sandbox":
        from metier.dialect.sandbox import SandboxDialect

        return SandboxDialect()
    raise InvalidArgument(f"There is no dialect {name!r}.", hint="Dialects are registry, tool, runtime and sandbox.")


def has_skills(session: Session) -> bool:
    """Whether there is anything that a model could load."""
    return bool(session.active) or session.has_any
