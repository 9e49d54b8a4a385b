"""A session from the inside: its settings, its context (who acts, where, under which guard), and its parts."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from metier._lazy import dataclass, field, replace
from metier.errors import InvalidArgument, SessionNotFound
from metier.hints import Hint
from metier.session.active_skills import ActiveSkills
from metier.session.events import Event, Listeners
from metier.session.known_skills import KnownSkills
from metier.session.prompt import Prompt
from metier.skill.listing import Listings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.guard import Action, Actor, Guard
    from metier.guard.audited_action import AuditedAction
    from metier.guard.governance import InForce
    from metier.library import SkillIndex
    from metier.run import Runner
    from metier.session.calls import Calls
    from metier.session.copies import Copies
    from metier.session.files import SkillFiles
    from metier.session.hooks import HookRunner
    from metier.session.job_sandbox import JobSandbox
    from metier.session.lineage import Lineage
    from metier.session.loader import Loader
    from metier.session.prompt import Delivery
    from metier.session.runs import Runs
    from metier.session.secrets import SecretProvider
    from metier.session.shell import SessionShell
    from metier.skill.listing import ListingMode

By: TypeAlias = Literal["model", "user", "host", "client"]
"""The origin of a request: the model, a person, the program itself, or a client that speaks for a person."""
MAX_ID = 200
MAX_ACTIVE = 8
DEFAULT_BUDGET = 5_120
LEAST_BUDGET = 512
"""Bytes that hold the shortest rules of every dialect, the counts of any library and a way to search it."""

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a session. All of them are given to `Library.session`."""

    max_active: int = MAX_ACTIVE
    """The number of skills that may be active at once; 1 gives one skill at a time."""
    delivery: Delivery = "result"
    """The way of a skill's instructions to a model: in the result of the call that loads it, or at the top level."""
    budget: int = DEFAULT_BUDGET
    """Bytes of the catalog together with the text that stands around it, at least 512."""
    listing: Mapping[str, ListingMode] = field(default_factory=dict)
    """Listing modes by name or pattern: `{"pdf-*": "pinned"}`; what policy files keep from models stays so."""
    names: frozenset[str] | None = None
    """The only skills that this session may know of."""
    dependencies: Literal["hint", "load"] = "hint"
    """Whether the skills that one requires are named to the model, or loaded before it."""
    script_folders: tuple[str, ...] = ("scripts",)
    """The folders of a skill whose files may be run."""
    mount: str = "/.sandbox/skills"
    """The folder of the virtual shell that has the files of skills, each in a folder of its name."""
    proposals: bool = False
    """Whether a model gets the tools by which it proposes changed and new skills, for others to decide about."""
    feedback: bool = False
    """Whether a model gets the tool by which it says that a skill helped, or did not."""

    def __post_init__(self) -> None:
        if not isinstance(self.budget, int) or self.budget < LEAST_BUDGET:
            raise InvalidArgument(
                f"A budget of {self.budget!r:.40} bytes is too small for a catalog and how to use it.",
                hint=f"Give at least {LEAST_BUDGET}; {DEFAULT_BUDGET:,} is the default.",
            )
        Listings.of(self.listing)
        if self.max_active < 1:
            raise InvalidArgument(f"max_active is {self.max_active}.", hint="At least one skill can be active.")
        if self.delivery not in ("result", "instructions"):
            raise InvalidArgument(f"There is no delivery {self.delivery!r}.", hint="Use result or instructions.")
        if self.dependencies not in ("hint", "load"):
            raise InvalidArgument(f"dependencies is {self.dependencies!r}.", hint="Use hint or load.")
        if not isinstance(self.mount, str) or not _is_mount(self.mount):
            raise InvalidArgument(
                f"mount is {self.mount!r:.80}.", hint="Give an absolute path inside the virtual shell, such as /skills."
            )


@dataclass(slots=True, kw_only=True, eq=False)
class SessionContext:
    """Data that all parts of one session share."""

    id: str
    workspace: str
    index: SkillIndex
    guard: Guard
    actor: Actor
    """The actor of audit records; it changes with the task and with the model that answers."""
    options: Options
    listeners: Listeners = field(default_factory=Listeners)
    is_closed: bool = False
    given_lineage: Lineage | None = None

    @property
    def lineage(self) -> Lineage:
        """The agents that started one another on the way to this session."""
        if self.given_lineage is None:
            from metier.session.lineage import Lineage

            self.given_lineage = Lineage()
        return self.given_lineage

    def require_open(self) -> None:
        """Raise `SessionNotFound` once the session was closed."""
        if self.is_closed:
            raise SessionNotFound(
                f"Session {self.id} was closed.",
                hint=Hint("Begin another with library.session().", person="Begin another one.", model="Tell the user."),
            )

    def emit(self, event: Event) -> None:
        """Tell the listeners of an event."""
        if self.listeners.registered:
            self.listeners.tell(event if event.session else replace(event, session=self.id))

    @contextlib.contextmanager
    def audited(
        self, action: Action, audited: AuditedAction | None = None, in_force: InForce | None = None
    ) -> Iterator[AuditedAction]:
        """Let the guard decide about an action and record it; raises `Refused` when it is not allowed.

        `audited` is the action as `enter_async` has returned it, `in_force` what `Guard.look` has just seen.
        """
        with audited or self.guard.enter(action, self.actor, in_force=in_force) as audited:
            if not audited.decision.is_allowed:
                decision = audited.decision
                name = action.skill.name if action.skill is not None else ""
                self.emit(Event(kind="refused", skill=name, code=decision.code, message=decision.reason))
                raise decision.as_error()
            yield audited

    async def enter_async(self, action: Action) -> AuditedAction:
        """Let the guard decide without blocking the event loop while a person is asked."""
        return await self.guard.enter_async(action, self.actor)


class _part(Generic[Part]):  # noqa: N801  (it is written like `property`)
    """A part of a session that is made when it is first used, once, whatever threads use it."""

    def __init__(self, make: Callable[[SessionParts], Part]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, parts: SessionParts, owner: type) -> Part:
        with parts.loaded.lock:
            made = vars(parts)
            if self._name not in made:
                made[self._name] = self._make(parts)
            part: Part = made[self._name]
            return part


class SessionParts:
    """The parts that a session is composed of. Adapters and tools use them; programs use `Session`."""

    def __init__(self, context: SessionContext, runner: Runner | None, secrets: SecretProvider | None) -> None:
        self.context = context
        """The actor, the workspace, the guard, the settings and the listeners."""
        self.known = KnownSkills(context)
        """The skills that it may know of, and how its model sees each."""
        self.loaded = ActiveSkills(context, self.known)
        """The skills that are active, kept true to the library and the guard."""
        self.runner = runner
        """The runner that the program gave it, if any."""
        self.secrets = secrets
        """The source of secrets for scripts."""

    @_part
    def prompt(self) -> Prompt:
        """The texts for its model: rules, catalog, contents of skills."""
        return Prompt(self.context, self.known, self.loaded)

    @_part
    def loader(self) -> Loader:
        """The loader of its skills, with nested activations."""
        from metier.session.loader import Loader

        return Loader(self)

    @_part
    def calls(self) -> Calls:
        """The admission of tool calls: the gate of its executors."""
        from metier.session.calls import Calls

        return Calls(self.context, self.loaded, self.hooks)

    @_part
    def files(self) -> SkillFiles:
        """The files of its active skills."""
        from metier.session.files import SkillFiles

        return SkillFiles(self.context, self.loaded, self.copies)

    @_part
    def runs(self) -> Runs:
        """Runs of scripts and commands, and the virtual shell."""
        from metier.session.runs import Runs

        return Runs(self.context, self.loaded, self.copies, self.sandbox, lambda: self.shell)

    @_part
    def copies(self) -> Copies:
        """The verified copies of its active skills."""
        from metier.session.copies import Copies

        return Copies()

    @_part
    def sandbox(self) -> JobSandbox:
        """The sandbox that scripts, hooks and commands run in."""
        from metier.session.job_sandbox import JobSandbox

        return JobSandbox(self.context, self.loaded, self.copies, self.runner, self.secrets)

    @_part
    def hooks(self) -> HookRunner:
        """The hooks of active skills, which run around loads and calls."""
        from metier.session.hooks import HookRunner

        return HookRunner(self.context, self.copies, self.sandbox)

    @_part
    def shell(self) -> SessionShell:
        """The virtual shell, which is started when a command first needs it."""
        from metier.session.shell import SessionShell

        return SessionShell(self)

    def close(self) -> None:
        """Close the parts that were made and hold something."""
        if "calls" in vars(self):
            self.calls.usage.record()
        for name in ("shell", "copies"):
            part: Any = vars(self).get(name)
            if part is not None:
                part.close()


def checked_id(id: object) -> str:  # noqa: A002
    """Return an id that can stand in records and in the environment of a script; raises `InvalidArgument`."""
    if not isinstance(id, str) or not id.isprintable() or len(id) > MAX_ID:
        raise InvalidArgument(
            f"{id!r:.80} is no id of a session.", hint=f"Use printable text of at most {MAX_ID} characters."
        )
    return id


def _is_mount(path: str) -> bool:
    return path.startswith("/") and path.isprintable() and os.path.normpath(path) == path and path.strip("/") != ""
