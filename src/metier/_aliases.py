"""Names and shapes of the systems that people come from, each with the one that it stands for here: one table.

An alias is read where a tool call, the manifest of an agent, a context provider or the frontmatter of a skill enters,
and nowhere else. Whatever decides, records or runs has the canonical name alone, so that no alias is a second way round
a rule. An alias beside its canonical name must say the same.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "skills.load": "skills_load",
        "skills.unload": "skills_unload",
        "skills.read": "skills_read",
        "skills.run": "skills_run",
        "skills.run_script": "skills_run",
        "skills_run_script": "skills_run",
        "skills.search": "skills_search",
        "Skill": "skill",
        "SkillTool": "skill",
        "GetSkill": "get_skill",
        "bash": "Bash",
        "bash_exec": "Bash",
        "BashTool": "Bash",
        "read": "Read",
        "read_file": "Read",
        "file_read": "Read",
        "ReadTool": "Read",
        "write": "Write",
        "WriteTool": "Write",
        "glob": "Glob",
        "grep": "Grep",
        "edit": "Edit",
    }
)
"""Names of tools. One that an agent has itself under such a name stays that."""


def _as_pairs(value: Any) -> Any:
    """Variables as a list of `NAME=value`, of an object or of one text."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        return value
    # A name with an equals sign in it would become another name and another value.
    return value if any("=" in name for name in value) else [f"{name}={one}" for name, one in value.items()]


def _as_seconds(value: Any) -> Any:
    """Milliseconds as seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value / 1000 if is_number else value


ARGUMENTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "skills_load": {"names": "skills"},
        "skills_unload": {"names": "skills"},
        "skills_read": {"skill_id": "skill", "skill_name": "skill"},
        "skills_run": {
            "path": "script",
            "workdir": "folder",
            "workDir": "folder",
            "skill_id": "skill",
            "skill_name": "skill",
        },
        "read_skill": {"skill": "skill_id", "skill_name": "skill_id"},
        "read_skill_resource": {"skill": "skill_id", "skill_name": "skill_id"},
        "skill": {"skill": "skill_name", "skill_id": "skill_name"},
        "get_skill": {"skillName": "skill_name", "skill": "skill_name", "skill_id": "skill_name"},
        "propose_skill_update": {"skill_id": "skill", "skill_name": "skill"},
        "Bash": {"timeout_ms": "timeout", "workdir": "cwd"},
        "Read": {"path": "file_path"},
    }
)
"""Names of arguments, by the tool that takes them."""

SHAPES: Mapping[tuple[str, str], Callable[[Any], Any]] = MappingProxyType(
    {("skills_run", "env"): _as_pairs, ("Bash", "timeout_ms"): _as_seconds}
)
"""Values of arguments, by tool and the name that was given: a function that gives them in the shape of the tool."""

SKILL_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "user-invokable": "user-invocable",
        "userinvokable": "user-invocable",
        "args": "arguments",
        "trigger": "triggers",
        "scopes": "scope",
        "keywords": "triggers",
        "whentouse": "when_to_use",
        "when-to-use": "when_to_use",
        "depends-on": "requires",
    }
)
"""Fields of a SKILL.md, with hyphens between words."""

AGENT_FILE = "manifest.yaml"
"""The file that declares an agent, where it has a block of that name and there is no `agent.yaml`."""
AGENT_BLOCK = "agent"
"""A block whose fields are those of the agent, beside `id`, `name` and `depends_on`."""
AGENT_TOOLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"core_tools": ("Read", "Write", "Edit", "Glob", "Grep"), "skill_registry": ()}
)
"""In `uses_tools`: sets of tools. The tools for skills need no name, as every agent has them."""
ALWAYS_THERE = frozenset({"skill_registry"})
"""In `depends_on`: what is part of Métier and always there."""

PROVIDER_MEMBERS: Mapping[str, str] = MappingProxyType({"get_context": "context", "context_priority": "priority"})
"""Members of a context provider."""


class Contradiction(ValueError):
    """An alias and its canonical name that were both given, and say different things."""

    def __init__(self, alias: str, name: str) -> None:
        super().__init__(f"{alias!r} is another name for {name!r}, and both were given with different values.")
        self.alias = alias
        self.name = name


def canonical_arguments(tool: str, known: Mapping[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call under their canonical names; raises `Contradiction`.

    `known` are those that the tool takes: what it takes itself under the name of an alias stays that.

    >>> canonical_arguments("skills_load", {"skills": {}}, {"names": ["pdf"]})
    {'skills': ['pdf']}
    """
    aliases = ARGUMENTS.get(tool)
    if aliases is None:
        return given
    found: dict[str, Any] = {}
    # Canonical names first, so that it is always the alias that contradicts.
    for name in sorted(given, key=lambda name: name not in known):
        shape = SHAPES.get((tool, name))
        value = given[name] if shape is None else shape(given[name])
        target = aliases.get(name, name)
        if name in known or target not in known:
            target = name
        if target in found and found[target] != value:
            raise Contradiction(name, target)
        found[target] = value
    return found
