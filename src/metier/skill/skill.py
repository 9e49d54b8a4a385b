"""The Skill: the typed fields of a SKILL.md."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill.diagnostic import Diagnostic

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The callers that may see a skill. None means anyone; a list means these and nobody else."""

    agents: tuple[str, ...] | None = None
    tenants: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The execution settings that a skill asks for. They can only narrow what policy grants."""

    sandbox: bool | None = None
    """False asks to run without one, which policy may let it."""
    allowed_paths: tuple[str, ...] = ()
    """Files and folders beside the workspace; with `:ro` behind one it asks to read only."""
    network: Literal["none", "restricted", "host"] | None = None
    hosts: tuple[str, ...] | None = None
    """The only hosts that they need, in place of all that policy has on its list; None says nothing about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A named argument of a skill that a person invokes."""

    name: str
    description: str = ""
    default: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A command that a skill asks to run; never run unless policy allows it."""

    command: str
    once: bool = False
    timeout: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookGroup:
    """Hooks for the tool calls that `matcher` names."""

    matcher: str | None = None
    hooks: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of a skill, by event (`PreToolUse`, `PostToolUse` ...), with the old `pre` and `post` as written."""

    pre: str | None = None
    post: str | None = None
    events: Mapping[str, tuple[HookGroup, ...]] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as its SKILL.md describes it, without its instructions.

    >>> from metier.skill import parse
    >>> skill = parse(b"---\\nname: pdf-forms\\ndescription: Fill PDF forms.\\ntags: [pdf]\\n---\\nDo it.").skill
    >>> skill.name, skill.description, skill.tags
    ('pdf-forms', 'Fill PDF forms.', ('pdf',))
    """

    name: str
    """The name here: `a-z0-9` and hyphens (letters of other scripts are kept)."""
    description: str
    """The purpose of the skill and when to use it, without outer blank space."""
    declared_name: str | None = None
    """The `name` as written, valid or not."""
    display_name: str = ""
    """The name for people: the name as written when it is no valid name, else the first heading."""
    description_source: Literal["own", "field", "derived"] = "own"
    """Whether the description is its own, was found in another field, or was derived from the body."""

    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    allowed_tools: tuple[str, ...] | None = None
    """Tool rules as written; None means that the skill declares none, `()` that it allows nothing."""
    disallowed_tools: tuple[str, ...] = ()

    version: str | None = None
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Names of skills that this one builds on."""
    triggers: tuple[str, ...] = ()
    when_to_use: str | None = None
    model: str | None = None
    context: Literal["inherit", "fork"] = "inherit"
    agent: str | None = None
    hooks: Hooks | None = None
    priority: int = 0
    """Acts inside a layer only."""
    scope: Scope | None = None
    execution: Execution | None = None
    arguments: tuple[Argument, ...] = ()
    argument_hint: str | None = None
    user_invocable: bool = True
    disable_model_invocation: bool = False
    insert: Literal["instructions", "user-message"] = "instructions"
    execution_mode: str = "autonomous"
    max_iterations: int | None = None
    max_retries_per_tool: int | None = None
    timeout_per_iteration: str | None = None
    early_termination: bool | None = None
    legacy_large_file: bool = False

    extra: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """Every other field, as written."""
    frontmatter: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    """The whole frontmatter as it was read, every scalar a string."""
    body_lines: int = 0
    body_tokens: int = 0
    """About how many tokens the instructions cost."""
    diagnostics: tuple[Diagnostic, ...] = ()
