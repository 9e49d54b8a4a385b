"""The seam that every framework's adapter stands on: skills for an agent, and a kit for each of its conversations."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from metier._aliases import TOOLS
from metier.dialect.call_order import Order
from metier.dialect.cancellation import ended_with_its_threads
from metier.dialect.dialects import PROPOSAL_TOOLS
from metier.dialect.dialects import dialect as dialect_of
from metier.errors import InvalidArgument, SessionNotFound
from metier.guard import Guard
from metier.guard.question import consent_from_any
from metier.session import Lineage
from metier.session.context import MAX_ID
from metier.tools import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from metier import Library, Session
    from metier.dialect.dialects import Dialect, DialectName
    from metier.dialect.operations import Spawn
    from metier.guard import AuditLog, Policy
    from metier.guard.question import Answers, Approve
    from metier.tools import Executor, Tool

    Where: TypeAlias = Library | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """A library, a folder of skills, or several."""

T = TypeVar("T")

NOT_THERE = ToolResult.failure("tool-not-found", "There is no such tool in this run.", hint="Call one that is there.")
"""The result of a call of an unknown tool."""
BEGIN = "Follow the instructions of your skill."
"""The prompt of an agent that has a skill and nothing else."""

_LOADED = ("skills", "bound")
MAX_FORKS = 5
"""The depth of agents, each started by a skill of the one before."""


class Skills:
    """Skills for an agent of any framework: one library and one guard, and for each conversation a kit of its own.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> kit = Skills(library).kit("conversation-1")
    >>> [tool.name for tool in kit.tools][:2]
    ['skills_load', 'skills_unload']
    """

    def __init__(
        self,
        library: Where | None = None,
        *,
        dialect: DialectName | Dialect = "runtime",
        builtin: Sequence[str] = (),
        policy: Policy | None = None,
        guard: Guard | None = None,
        audit: AuditLog | str | None = None,
        approve: Approve | None = None,
        **options: Any,
    ) -> None:
        """Skills of a library or of folders, by default all that `Library.discover` finds.

        What they may do is decided by `guard`, or by one that is made of `policy`, `audit` and `approve`. `builtin`
        names tools of Métier that the agent gets too, such as Read or Bash; `options` are those of every session.
        """
        if guard is not None and not (policy is None and audit is None and approve is None):
            raise InvalidArgument(
                "A guard has a policy, a log and somebody to ask of its own.", hint="Give a guard, or what makes one."
            )
        self.library = library_of(library)
        self.guard = guard or Guard(policy, audit=audit, approve=approve, project=options.get("workspace"))
        self.dialect = dialect_of(dialect)
        self._builtin = tuple(builtin)
        options.setdefault("lineage", Lineage(max_depth=MAX_FORKS))
        # What is wrong with an option is said here, and not in the first conversation.
        self.library.session(
            guard=self.guard, **{name: given for name, given in options.items() if name not in _LOADED}
        ).close()
        self._sessions = self.library.sessions(guard=self.guard, remembers=True, **options)
        self._orders: WeakKeyDictionary[Session, Order] = WeakKeyDictionary()

    def kit(
        self,
        conversation: str | None = None,
        *,
        spawn: Spawn | None = None,
        tools: Sequence[Tool] = (),
        is_turn: bool = True,
    ) -> Kit:
        """Return the kit of the agent in a conversation, for its next turn; without an id, in a new conversation.

        Skills that were added or changed on disk are there from now on. Looking for them takes a moment: call this in a
        worker thread where an event loop must not wait. `spawn` runs skills with `context: fork`; without it they are
        loaded like any other; `tools` are the agent's own. In the middle of a turn, `is_turn=False` looks for nothing.
        """
        if is_turn:
            self.library.refresh()
        return self.kit_in(self.session(conversation), spawn=spawn, tools=tools)

    def kit_in(self, session: Session, *, spawn: Spawn | None = None, tools: Sequence[Tool] = ()) -> Kit:
        """The same in a session that the caller has, such as that of a skill with `context: fork`."""
        order = self._orders.setdefault(session, Order())
        return Kit(session, self.dialect, spawn=spawn, builtin=self._builtin, tools=tools, order=order)

    def session(self, conversation: str | None = None) -> Session:
        """The session of a conversation, which begins with it; without an id, that of a new conversation."""
        return self._sessions.begin() if conversation is None else self._sessions.open(_as_id(conversation))

    def known(self, conversation: str) -> Session | None:
        """The session of a conversation that has begun here and not ended."""
        try:
            return self._sessions.get(_as_id(conversation))
        except SessionNotFound:
            return None

    def resume(self, conversation: str, state: Mapping[str, Any]) -> Session:
        """Go on with what `Session.save` gave, in place of the session that the conversation has here, if any.

        The id in it is not believed: what was saved may be a copy, and that is another conversation.
        """
        self.end(conversation)
        return self._sessions.resume(state, id=_as_id(conversation), skills=())

    def end(self, conversation: str) -> None:
        """End a conversation: what it has loaded is unloaded. One that is not there has ended already."""
        self._sessions.end(_as_id(conversation))


class Kit:
    """The kit of an agent in one conversation: tools, a text for its instructions, and the only way to call a tool.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> kit = Kit(library.session())
    >>> import anyio
    >>> anyio.run(kit.execute, "skills_load", {"skills": ["greet"]}).success
    True
    """

    def __init__(
        self,
        session: Session,
        dialect: DialectName | Dialect = "runtime",
        *,
        spawn: Spawn | None = None,
        builtin: Sequence[str] = (),
        tools: Sequence[Tool] = (),
        order: Order | None = None,
    ) -> None:
        """`builtin` names tools of Métier that the agent gets too; `tools` are its own, under the same rules.

        `order` is that of the calls in this session, where it has several kits.
        """
        self.session = session
        self._dialect = dialect_of(dialect)
        self._spawn = spawn
        self._builtin = tuple(builtin)
        self._own = tuple(tools)
        self._order = order or Order()
        self._made: Executor | None = None

    @property
    def executor(self) -> Executor:
        """The executor of its tools."""
        # Made again while there are no skills, so that the first one that is added finds its tools.
        options = self.session.context.options
        others = len(self._builtin) + len(self._own) + len(PROPOSAL_TOOLS) * options.proposals + options.feedback
        if self._made is None or len(self._made.registry) <= others:
            self._made = self.session.executor(
                self._own, dialect=self._dialect, builtin=self._builtin, spawn=self._spawn, is_all=False
            )
        return self._made

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The definitions to show a model: name, description and JSON schema, the same whatever is loaded."""
        return tuple(self.executor.registry)

    def set_others(self, names: Iterable[str]) -> None:
        """Name all tools that the agent has beside these: skills that require others still are not shown."""
        self.session.parts.known.set_tools([*(tool.name for tool in self.tools), *names])

    def owns(self, tool: str) -> bool:
        """Whether a tool is one of these, and not one that the agent has from elsewhere."""
        return tool in self.executor.registry

    def changes(self, tool: str) -> bool:
        """Whether a tool changes which skills are active; calls that come later wait for it."""
        words, named = self._dialect.words, TOOLS.get(tool, tool)
        return any(named == word.partition(" ")[0] for word in (words.load, words.unload) if word)

    def may_offer(self, tool: str) -> bool:
        """Whether a tool that the provider runs on its own side may be in a request, as it cannot be refused later."""
        # The provider's search for tools only finds them: without it, others could not be called at all.
        return tool.startswith("tool_search") or self.session.may_call(tool, {})

    def instructions(self, prompt: str | None = None) -> str:
        """The text for the next model call; `prompt` is what the user asks for."""
        return self.session.instructions(prompt, dialect=self._dialect)

    @property
    def model(self) -> str | None:
        """The model that an active skill asks for; None for the agent's own."""
        return self.session.calls.requested_model

    async def execute(
        self, tool: str, arguments: Any = None, *, answers: Answers | None = None, is_scoped: bool = False
    ) -> ToolResult:
        """Call one of its tools. With `answers`, what has to be asked waits there instead of being refused.

        `is_scoped` says that whoever gives the call up does so by a cancel scope of anyio's.
        """

        async def call() -> ToolResult:
            with consent_from_any(answers):
                return await self.executor.execute(tool, arguments)

        changes = self.changes(tool)
        async with self._order.place(changes=changes):
            if is_scoped or (not changes and not self.session.guard.may_ask and answers is None):
                return await call()
            # Nobody may be asked any more, and nothing loaded, for a call that was given up.
            return await ended_with_its_threads(call)

    async def around(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | None,
        call: Callable[[], Awaitable[T]],
        *,
        answers: Answers | None = None,
    ) -> T | ToolResult:
        """Make a call of a tool that the agent has from elsewhere, if the active skills and the policy allow it.

        Gives what `call` gives, or a failed result where it must not be made.
        """
        async with self._order.place(changes=False):
            with consent_from_any(answers):
                return await self.executor.around(tool, arguments, call)

    async def attempted(self, tool: str, arguments: Any, problem: ToolResult | None = None) -> ToolResult | None:
        """Leave a record of a call that is not made here: the provider makes it, or nobody can, for a `problem`.

        Nobody is asked. Gives the refusal where it would have been refused, and else None.
        """
        async with self._order.place(changes=False):
            return await self.executor.record_attempt(tool, arguments, problem)


def library_of(where: Where | None) -> Library:
    """A library of whatever somebody names as one; None is all that this machine, user and project have."""
    from metier import Library

    if where is None:
        return Library.discover()
    if isinstance(where, Library):
        return where
    folders = [where] if isinstance(where, str | os.PathLike) else list(cast("Sequence[str]", where))
    return Library.from_folder(*(os.fspath(folder) for folder in folders))


def _as_id(conversation: str) -> str:
    """The id of a conversation as that of a session; what cannot be one is stood for by its digest."""
    if isinstance(conversation, str) and conversation.isprintable() and 0 < len(conversation) <= MAX_ID:
        return conversation
    return hashlib.sha256(repr(conversation).encode()).hexdigest()
