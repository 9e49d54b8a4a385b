"""Operations of dialects on a session, with results that say how much was left out and what must be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from metier.errors import ActivationFailed, InvalidArgument, SkillNotFound
from metier.find.catalog import MAX_DESCRIPTION
from metier.find.catalog_format import one_line, shortened
from metier.session import MARKER, escape_tags, escape_tags_in
from metier.skill import estimate_tokens, shown
from metier.tools import ToolResult
from metier.tools.thread_handoff import ThreadHandoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from metier import Session
    from metier.find import Result
    from metier.library import Entry
    from metier.run import Outcome
    from metier.session import ActiveSkill, Receipt, Resource, Vocabulary

Spawn: TypeAlias = "Callable[[ActiveSkill, str, Session], Awaitable[str]]"
"""A function that runs a skill in an agent of its own: the skill, its task, and the session of that agent."""
T = TypeVar("T")

MAX_FOUND = 200
"""Skills that fit a query which are counted, and can be turned to page by page."""


class Operations:
    """One session as a model uses it. All decisions are the session's and the guard's."""

    def __init__(self, session: Session, words: Vocabulary, spawn: Spawn | None = None) -> None:
        self.session = session
        self.words = words
        self._spawn = spawn

    async def load(self, names: Sequence[str], mode: Literal["replace", "add"], args: str = "") -> Loaded:
        """Load skills; one with `context: fork` is run in an agent of its own where the host can start one."""
        session = self.session
        forked = [name for name in names if self._is_forked(name)] if self._spawn is not None else []
        if self._spawn is not None and forked:
            if len(names) > 1:
                raise InvalidArgument(
                    f"Skill {shown(forked[0])!r} runs in an agent of its own, and not beside others.",
                    hint="Load it in a call of its own.",
                )
            return await self._forked(self._spawn, names[0], args)
        # Where a model cannot unload, it must not get stuck either.
        make_room = self.words.unload is None
        return await self._delivered(session.load, names, mode, args=args, by="model", make_room=make_room)

    async def activate(self, name: str, args: str = "") -> Loaded:
        """Load a skill on the stack; one that is active already is an error, on the stack or not."""
        session = self.session

        def activate() -> Receipt:
            entry, before = session.parts.known.find(name, by="model"), {one.name for one in session.loaded.live()}
            if entry.name in before:
                raise ActivationFailed(
                    f"Skill {entry.name!r} is already active.",
                    hint="Follow its instructions, which you have; or deactivate it first, to begin again.",
                    name=entry.name,
                )
            session.parts.loader.activate(name, args=args, by="model")
            return session.parts.loader.receipt(tuple(one.name for one in session.active if one.name not in before))

        if self._spawn is not None and self._is_forked(name):
            return await self.load([name], "add", args)
        return await self._delivered(activate)

    async def deactivate(self, name: str) -> str:
        """Unload the skill that is on top of the stack, where none is on it the one that was loaded last; its name."""
        session = self.session

        def deactivate() -> str:
            active = [one.name for one in session.loaded.live()]
            wanted = name if name in active else session.parts.known.find(name, by="model").name
            if wanted in session.parts.loader.activations or wanted not in active:
                session.parts.loader.deactivate(wanted, by="model")
            elif active[-1] != wanted:
                raise ActivationFailed(
                    f"Skill {wanted!r} is not at top of stack: {' -> '.join(active)}.",
                    hint=f"Deactivate {active[-1]} first.",
                    name=wanted,
                )
            else:
                session.unload([wanted], by="model")
            if any(one.name == wanted for one in session.loaded.live()):
                raise ActivationFailed(
                    f"Skill {wanted!r} is part of this agent and stays active.", hint="Go on with it.", name=wanted
                )
            return wanted

        return await self._in_thread_if(session.parts.loader.may_take_long, deactivate)

    async def _delivered(self, load: Callable[..., Receipt], *args: Any, **options: Any) -> Loaded:
        """Load by a function, with the text of each skill that is loaded by it."""
        session = self.session
        receipt = await self._in_thread_if(session.parts.loader.may_take_long, load, *args, **options)
        texts = {
            name: await self._in_thread_if(
                self.words.execute is not None, session.prompt.content, name, words=self.words
            )
            for name in receipt.changed
        }
        return Loaded(receipt, texts, session)

    async def unload(self, names: Sequence[str], all_of_them: bool) -> Receipt:
        """Unload skills."""
        session = self.session
        if not names and not all_of_them:
            raise InvalidArgument("Nothing was named to unload.", hint="Name skills, or say all.")
        return await self._in_thread_if(
            session.parts.loader.may_take_long, session.unload, tuple(names), all=all_of_them, by="model"
        )

    async def read(self, path: str, skill: str | None, **options: Any) -> Resource:
        """Read a file of a loaded skill."""
        session = self.session
        return await self._in_thread_if(session.guard.may_ask, session.read, path, skill or None, by="model", **options)

    async def run(self, script: str, args: Sequence[str], skill: str | None, **options: Any) -> Outcome:
        """Run a script of a loaded skill."""
        return await self.session.run(script, args, skill or None, by="model", **options)

    async def execute(self, command: str, **options: Any) -> Outcome:
        """Run a shell command where the skills' files are: in the virtual shell, or where there is none in bash."""
        session = self.session
        return await session.runs.command(
            command, by="model", virtual=session.runs.has_shell, words=self.words, **options
        )

    def search(self, query: str, k: int = 10) -> list[Result]:
        """The skills that fit."""
        return self.session.prompt.search(query, k)

    def found(self, query: str) -> list[Entry]:
        """The skills that fit a query, the best first: as many as can be turned to, and one more where there are."""
        return [result.entry for result in self.search(query, MAX_FOUND + 1)]

    def listed(self, query: str) -> list[Entry]:
        """The same with those whose name or a tag contains the query; without a query all skills, by name."""
        return self.session.prompt.matching(query, MAX_FOUND + 1)

    def page(
        self,
        entries: list[Entry],
        number: int,
        *,
        size: int = 10,
        key: str = "name",
        asks: str = "page=",
        is_all: bool = False,
    ) -> ToolResult:
        """A page of skills, how many there are, and what gets the next page.

        `key` is what the dialect calls a skill's name, and `asks` how its tool takes the number of a page. A list
        `is_all` skills where no query has made a choice.
        """
        is_cut = not is_all and len(entries) > MAX_FOUND
        entries = entries[:MAX_FOUND] if is_cut else entries
        pages = max(1, -(-len(entries) // size))
        if number > pages:
            raise InvalidArgument(f"There is no page {number:,}.", hint=f"The last one is {pages:,}.")
        first = (number - 1) * size
        here = entries[first : first + size]
        listed = [{key: one.name, "description": self.described(one, is_listed=is_all)} for one in here]
        found: dict[str, Any] = {"skills": listed, "total": len(entries)}
        if pages > 1:
            found |= {"page": number, "pages": pages}
        hints = []
        if number < pages:
            more = len(entries) - first - len(listed)
            hints.append(f"{more:,} more are on further pages: {asks}{number + 1} gets the next one.")
        if is_cut:
            found["at_least"] = True
            hints.append("More skills have these words than are counted: use rarer ones.")
        if hints:
            found["hint"] = " ".join(hints)
        data = {} if is_all else {"found": len(entries)}
        return ToolResult(success=True, result=found, truncated=number < pages or is_cut, data=data)

    def _is_forked(self, name: str) -> bool:
        try:
            return self.session.parts.known.find(name, by="model").skill.context == "fork"
        except SkillNotFound:
            return False  # loading it says so, and leaves a record

    async def _forked(self, spawn: Spawn, name: str, args: str) -> Loaded:
        session = self.session
        child = await self._begun(name, args)
        try:
            output = await spawn(child.loaded.one(), args, child)
        finally:
            import anyio

            with anyio.CancelScope(shield=True):
                await self._in_thread_if(session.parts.loader.may_take_long, child.close)
        return Loaded(session.parts.loader.receipt(), {}, session, output=str(output))

    async def _begun(self, name: str, args: str) -> Session:
        session = self.session
        if not session.parts.loader.may_take_long:
            return session.fork(name, args=args, by="model")
        # Nobody but whoever waits for it would ever close it.
        begun: ThreadHandoff[Session] = ThreadHandoff(lambda child: child.close(), session.guard.in_thread)
        return await begun.fetch(lambda: session.fork(name, args=args, by="model"))

    async def _in_thread_if(self, needed: bool, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call what may take a while, or ask somebody, without holding up the event loop; anything else at once."""
        if not needed:
            return function(*args, **options)
        return await self.session.guard.in_thread(function, *args, **options)

    def described(self, entry: Entry, *, is_listed: bool = False) -> str:
        """The description of a skill on one line, no longer than in a catalog.

        A list that nobody narrowed (`is_listed`) has names alone of skills whose listing mode says so.
        """
        text = self.session.parts.known.description(entry) if is_listed else entry.description
        return escape_tags(shortened(one_line(text), MAX_DESCRIPTION, len))


class Loaded:
    """The result of a load: the receipt, and for each skill the text that a model is to read."""

    def __init__(self, receipt: Receipt, texts: Mapping[str, str], session: Session, output: str | None = None) -> None:
        self.receipt = receipt
        self.texts = texts
        self.output = output
        """The output of a skill that was run in an agent of its own."""
        self._session = session

    @property
    def content(self) -> str:
        """The text for a model, also of skills that were loaded because another one requires them."""
        return "\n\n".join(self.texts.values())

    def one(self) -> ActiveSkill:
        """The skill that was loaded last."""
        return self._session.loaded.one(self.receipt.changed[-1])

    def result(self, value: Any, active: str = "") -> ToolResult:
        """A result that hosts should keep whole when they compact a history, where it has skill content.

        After the value that the dialect shows, it says what the load did besides, and in a text what is `active` now.
        """
        notes = escape_tags_in(list(self.receipt.notes))
        if isinstance(value, str):
            value = "\n\n".join(filter(None, (value, *notes, active)))
        elif notes:
            value = {**value, "notes": notes}
        return ToolResult(
            success=True,
            result=value,
            keep=any(text.startswith(MARKER) for text in self.texts.values()),
            tokens_used=estimate_tokens(value if isinstance(value, str) else self.content or self.output or ""),
            data={"receipt": self.receipt.as_dict()},
        )


def resource_result(resource: Resource, value: str | None = None) -> ToolResult:
    """The result of reading a file: as a dialect shows it, or all that there is to say of it."""
    result = escape_tags_in(resource.as_dict()) if value is None else value
    return ToolResult(success=True, result=result, truncated=resource.truncated, data=resource.as_dict())


def outcome_result(outcome: Outcome, value: Any = None, *, path: str = "") -> ToolResult:
    """The result of running something: a failure when it did not end well, with what it wrote in either case.

    Programs are told the `path` of a script besides; whoever called it knows that.
    """
    found = {
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "truncated": outcome.is_truncated,
        "timed_out": outcome.timed_out,
        "runner": outcome.runner,
        "duration_ms": round(outcome.duration_ms, 1),
    }
    if outcome.notes:
        found["notes"] = list(outcome.notes)
    result = escape_tags_in(found if value is None else value)
    data = {"path": path, **found} if path else found
    if outcome.is_success:
        return ToolResult(success=True, result=result, truncated=outcome.is_truncated, data=data)
    reason = "It timed out." if outcome.timed_out else f"It failed with exit code {outcome.exit_code}."
    return ToolResult(
        success=False,
        result=result,
        error=reason,
        code="timed-out" if outcome.timed_out else "exit-code",
        hint="Read what it wrote, and correct the call.",
        truncated=outcome.is_truncated,
        data=data,
    )
