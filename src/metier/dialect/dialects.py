"""The seam: a dialect is a set of tools and a text, over one session."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from metier.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from metier import Session
    from metier.dialect.operations import Spawn
    from metier.session import Vocabulary


DialectName: TypeAlias = Literal["registry", "tool", "runtime", "sandbox"]

PROPOSAL_TOOLS = frozenset({"propose_skill", "propose_skill_update"})
"""The tools by which a model proposes changes to skills."""
FEEDBACK_TOOL = "skills_feedback"
"""The tool by which a model says whether a skill helped."""
CONTROL_TOOLS = frozenset(
    [
        *("skills_load", "skills_unload", "skills_read", "skills_run", "skills_search"),
        *("list_skills", "read_skill", "read_skill_resource", "skill", "get_skill"),
        *(*PROPOSAL_TOOLS, FEEDBACK_TOOL),
    ]
)
"""The tools of all dialects that control skills themselves: no skill can forbid them."""


class Dialect(Protocol):
    """A set of tools and a text by which a model sees the skills of a session."""

    @property
    def name(self) -> str:
        """The name of the dialect."""
        ...

    @property
    def words(self) -> Vocabulary:
        """The names of its tools, by what they do."""
        ...

    def tools(self, session: Session, spawn: Spawn | None = None) -> list[SkillTool]:
        """Its tools; none where there are no skills."""
        ...

    def instructions(self, session: Session, prompt: str | None = None) -> str:
        """Its text for the next model call; empty where there is nothing to say."""
        ...


_CLASSES = {
    "registry": "RegistryDialect",
    "tool": "ToolDialect",
    "runtime": "RuntimeDialect",
    "sandbox": "SandboxDialect",
}
"""The class of each dialect, in the module of its name."""


def dialect(chosen: str | Dialect) -> Dialect:
    """The dialect of a name; one that is given itself stays as it is.

    >>> dialect("runtime").words.load
    'skills_load'
    """
    if not isinstance(chosen, str):
        return chosen
    if chosen not in _CLASSES:
        raise InvalidArgument(
            f"There is no dialect {chosen!r}.", hint="Dialects are registry, tool, runtime and sandbox."
        )
    found: Dialect = getattr(importlib.import_module(f"metier.dialect.{chosen}"), _CLASSES[chosen])()
    return found


def has_skills(session: Session) -> bool:
    """Whether there is anything that a model could load."""
    return bool(session.active) or session.prompt.has_skills


class SkillTool:
    """One tool of a dialect. What it does is the session's; what it says and how it answers is the dialect's."""

    def __init__(
        self,
        name: str,
        about: str | Callable[[], str],
        parameters: Mapping[str, Any],
        call: Callable[[Mapping[str, Any]], Awaitable[Any]],
        *,
        timeout: float | None = None,
        is_control: bool = True,
        tags: tuple[str, ...] = (),
    ) -> None:
        self._about = about
        self._call = call
        self.name = name
        self.parameters = parameters
        self.timeout = timeout
        self.is_control = is_control
        self.tags = tags
        """Tags of the tool: `exec` for one that runs something."""

    def __repr__(self) -> str:
        return f"<SkillTool {self.name}>"

    @property
    def description(self) -> str:
        """The description for a model; a catalog in it is always the current one."""
        return self._about if isinstance(self._about, str) else self._about()

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Do it."""
        return await self._call(arguments)


def schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of a flat object, which every provider takes.

    >>> schema(("path",), path=text("A path."))["required"]
    ['path']
    """
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def text(description: str, **more: Any) -> dict[str, Any]:
    """The schema of a text."""
    return {"type": "string", "description": description, **more}


def choice(description: str, *values: str) -> dict[str, Any]:
    """The schema of one of a few texts."""
    return {"type": "string", "enum": list(values), "description": description}


def texts(description: str) -> dict[str, Any]:
    """The schema of a list of texts."""
    return {"type": "array", "items": {"type": "string"}, "description": description}


def number(description: str) -> dict[str, Any]:
    """The schema of a whole number from 1."""
    return {"type": "integer", "minimum": 1, "description": description}


def flag(description: str) -> dict[str, Any]:
    """The schema of yes or no."""
    return {"type": "boolean", "description": description}
