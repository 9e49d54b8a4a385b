"""What may happen: an action that somebody wants to take, and the decision about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.ceiling import Ceiling

Point: TypeAlias = Literal["discover", "load", "unload", "call", "read", "run", "hook", "inject", "install", "write"]
Outcome: TypeAlias = Literal["allow", "ask", "deny"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts: it goes into every audit record."""

    agent: str | None = None
    task: str | None = None
    tenant: str | None = None
    user: str | None = None
    session: str | None = None
    correlation_id: str | None = None
    parent: str | None = None
    """The session that started this one, for an agent that another one started."""
    model: str | None = None
    """The model that gave the last answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The skill that an action is about, as it is right now."""

    name: str
    digest: str = ""
    layer: str = ""
    source: str = ""
    trusted: bool = True
    for_models: bool = True
    """False: only people may load it (`disable-model-invocation`)."""
    for_people: bool = True
    """False: only models may load it (`user-invocable: false`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What somebody wants to do.

    >>> action = Action(point="call", tool="Bash", arguments={"command": "git status"})
    >>> action.point
    'call'
    """

    point: Point
    skill: Subject | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    ceilings: tuple[Ceiling, ...] = ()
    """What the active skills declare for tool calls; a call must be inside each of them."""
    by: Literal["model", "user", "host"] = "model"
    """Who asked for it: a model, a person, or the program around both."""
    workspace: str = ""
    """The folder that relative paths in the arguments start from."""
    command: str = ""
    """What would be run, for scripts, hooks and injected commands."""
    path: str = ""
    """The file of the skill that would be read or run."""
    is_control: bool = False
    """A call of a tool that controls skills themselves, which no skill can forbid."""
    isolated: bool = True
    """Whether what runs is kept from this machine. A runner that isolates nothing does not, and a skill may ask to run
    without a sandbox, where policy lets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to an action, with the rule that gave it.

    >>> Decision(outcome="deny", reason="The skill is blocked.", rule="policy: block", code="skill-blocked").is_allowed
    False
    """

    outcome: Outcome
    reason: str
    rule: str = ""
    """Which rule decided, and whose it is: `deploy: Bash(git:*)`, `policy: deny WebFetch`."""
    code: str = ""
    """A stable code for what is not allowed."""
    hint: str = ""

    @property
    def is_allowed(self) -> bool:
        """Whether it may happen now, without asking anybody."""
        return self.outcome == "allow"
