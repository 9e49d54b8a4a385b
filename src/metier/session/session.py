"""A session: what one conversation has loaded, and what it may do with it."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import uuid
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._log import logger
from metier.errors import InvalidArgument
from metier.guard import Guard
from metier.library.clients import PROJECT_FOLDERS
from metier.session.active_skills import is_same_load
from metier.session.events import SKILL_EVENTS, Event
from metier.session.invocation import Invocation, checked_arguments, parse_invocation
from metier.session.load_transaction import LoadTransaction, too_many
from metier.session.prompt import RUNTIME
from metier.session.stack import Stack
from metier.session.state import Options
from metier.session.use import Use
from metier.skill import shown
from metier.source import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from metier.find.library import SkillLibrary
    from metier.guard import Policy
    from metier.run import Runner
    from metier.session.active_skills import ActiveSkill, Receipt
    from metier.session.events import Listener
    from metier.session.lineage import Lineage
    from metier.session.prompt import Vocabulary
    from metier.session.secrets import SecretProvider
    from metier.session.state import By

log = logger("metier.session")

Mode: TypeAlias = Literal["replace", "add"]

MAX_NAMES = 1_000


class Session(Use):
    """What one conversation has loaded. Safe to use from several threads; never share one between conversations.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: greet\\ndescription: Greets.\\n---\\nSay hello."})
    >>> session = library.session()
    >>> session.load("greet").active[0].name
    'greet'
    >>> session.unload(all=True).active
    ()
    """

    def __init__(
        self,
        library: SkillLibrary,
        *,
        skills: Sequence[str] = (),
        bound: Sequence[str] = (),
        id: str | None = None,  # noqa: A002
        guard: Guard | None = None,
        policy: Policy | None = None,
        runner: Runner | None = None,
        secrets: SecretProvider | None = None,
        workspace: Path | str | None = None,
        user: str | None = None,
        correlation_id: str | None = None,
        lineage: Lineage | None = None,
        on_event: Listener | None = None,
        **options: Any,
    ) -> None:
        """Begin a conversation with `skills` loaded; `options` are the fields of `Options`.

        Skills in `bound` are part of what the agent is: their text stands in its own instructions, they stay loaded to
        the end whatever anybody unloads, beside as many others as may be active, and what they restrict stays so.
        What it may do is decided by `guard`, which several sessions can share, or by a guard of its own with `policy`.
        Scripts run by `runner`, by default in the strongest sandbox that this machine has; `secrets` is where those
        come from that policy grants them. `workspace` is the folder that they work in, by default the current one;
        `user` and `correlation_id` go into every audit record. `on_event` is told each event from the first on, as by
        `listen`.
        """
        super().__init__(
            library,
            _guard(guard, policy, workspace if workspace is not None else _project_of(library)),
            _options(options),
            id=id,
            runner=runner,
            secrets=secrets,
            workspace=os.path.abspath(workspace if workspace is not None else os.getcwd()),
            user=user,
            correlation_id=correlation_id,
            lineage=lineage,
        )
        if on_event is not None:
            self.listen(on_event)
        if isinstance(bound, str) or bound:
            self.bind(bound)
        if isinstance(skills, str) or skills:
            names = _several(skills)
            if len(names) != len(skills) and not isinstance(skills, str):
                raise InvalidArgument("A skill is named twice.", hint="Name each skill once.")
            self.load(names)

    def bind(self, names: Sequence[str]) -> None:
        """Make skills part of what the agent is, as `bound` does; one that is active already stays so to the end."""
        self.require_open()
        wanted = _several(names)
        active = {one.name: one for one in self.live()}
        loading = LoadTransaction(self, "host", "")
        missing = [name for name in wanted if name not in active]
        loaded = loading.prepare(missing, is_bound=True) if missing else []
        with loading.committed(), self._lock:
            loading.require_unchanged(loaded)
            # Before the others: what was loaded for a task is what was loaded last.
            self._set(tuple({one.name: one for one in (*loaded, *self._active)}.values()))
        bound = [*loaded, *(active[name] for name in wanted if name in active)]
        self._bound |= {one.name for one in bound}
        self._fix(bound)
        self._delivered.update(self._delivery_of(one) for one in bound)

    def _fix(self, skills: Sequence[ActiveSkill]) -> None:
        """Keep skills loaded to the end."""
        self._fixed |= {one.name for one in skills}
        # What they restrict holds also when one is blocked or gone: what it said still stands before the model.
        self._above = (*self._above, *(one.ceiling for one in skills))

    def __repr__(self) -> str:
        return f"<Session {self.id[:8]} with {', '.join(one.name for one in self._active) or 'nothing loaded'}>"

    # --- loading ------------------------------------------------------------------------------------------------

    def load(
        self,
        names: str | Sequence[str],
        mode: Mode | Literal[""] = "replace",
        *,
        args: str = "",
        by: By = "host",
        make_room: bool = False,
    ) -> Receipt:
        """Load skills: instead of those that are active, or in addition to them. A load that fails changes nothing.

        A skill that is loaded already moves to the end. `args` are the arguments that its instructions ask for. Where
        there would be too many, it is an error, or with `make_room` those go that were loaded longest ago.
        """
        self.require_open()
        wanted = _several(names)
        if mode not in ("", "replace", "add"):
            raise InvalidArgument(f"There is no mode {shown(str(mode), 40)!r}.", hint="Modes are replace and add.")
        loading = LoadTransaction(self, by, checked_arguments(args))
        loaded = loading.prepare(wanted)
        with loading.committed():
            self.live()
            with self._lock:
                self.require_open()
                before = self._active
                now = self._after_loading(before, loaded, "add" if mode == "add" else "replace")
                room = self.options.max_active + sum(one.name in self._fixed for one in now)
                removed: list[ActiveSkill] = []
                if make_room and len(loaded) <= room:
                    removed = [one for one in now if one.name not in self._fixed][: -self.options.max_active]
                    now = tuple(one for one in now if one not in removed)
                if len(now) > room:
                    raise too_many(len(now), room)
                loading.require_unchanged(loaded)
                self._set(now)
            if removed:
                loading.note(f"Removed to make room: {', '.join(one.name for one in removed)}.")
        gone = [one for one in before if not any(is_same_load(one, other) for other in now)]
        self._ended([one for one in gone if one not in removed], by, "replaced")
        self._ended_for_room(removed, by, f" for {', '.join(one.name for one in loaded)}")
        self._shell.follow()
        for one in loaded:
            log.info("activated %s (%s)", one.name, one.digest)
            self.emit(Event(kind="loaded", skill=one.name, message=f"Loaded {one.name}.", data={"digest": one.digest}))
        return self.receipt(tuple(one.name for one in loaded), gone)

    def _ended_for_room(self, removed: Sequence[ActiveSkill], by: By, whom: str = "") -> None:
        most = self.options.max_active
        self._ended(removed, by, f"removed to make room{whom}, as {most} skills are the most", rule="max_active")

    def unload(self, names: str | Sequence[str] = (), *, all: bool = False, by: By = "host") -> Receipt:  # noqa: A002
        """Unload some skills, or all; one that is not loaded does not matter."""
        self.require_open()
        wanted = () if all else _several(names)
        known = {one.name for one in self.live()}
        chosen = {name if name in known else self.find(name, by=by).name for name in wanted}
        with self._lock:
            gone = [one for one in self._active if (all or one.name in chosen) and one.name not in self._fixed]
            self._set(tuple(one for one in self._active if one not in gone))
        self._ended(gone, by, "unloaded")
        return self.receipt(tuple(one.name for one in gone), gone)

    def close(self) -> None:
        """Unload everything and end; nothing can be done with it afterwards."""
        with self._lock:
            if self._is_released:
                return
            gone, self._active = self._active, ()
            self._is_closed = self._is_released = True
        self._stack.clear()
        try:
            self._ended(gone, "host", "closed")
        finally:
            self._shell.close()
            self.copies.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_loading(
        self, before: tuple[ActiveSkill, ...], loaded: Sequence[ActiveSkill], mode: Mode
    ) -> tuple[ActiveSkill, ...]:
        """Who is active after a load: the loaded ones last, in the order they were asked for."""
        names = {one.name for one in loaded}
        kept = (one for one in before if mode == "add" or one.name in self._fixed)
        return (*(one for one in kept if one.name not in names), *loaded)

    # --- invoking -----------------------------------------------------------------------------------------------

    def invoke(
        self, text: str, *, words: Vocabulary = RUNTIME, make_room: bool = False, by: By = "user"
    ) -> Invocation | None:
        """Invoke the skill that a person asks for by `/name arguments`; None when the text is no such thing.

        Whoever types a name agrees by that to a skill that nobody vouches for. Where a program says that somebody did,
        it is `by="client"`, and is asked about.

        The skill is loaded beside those that are active, with `make_room` as by `load`. One whose `insert` is
        `user-message` is not loaded: it is the text of a message that the user need not type.
        """
        self.require_open()
        found = parse_invocation(text)
        if found is None:
            return None
        name, arguments = found[0], checked_arguments(found[1])
        entry = self.find(name)
        if entry.skill.insert == "user-message":
            digest = self.library.digest(entry)
            with self.passing(self.load_action(entry, digest, by)):
                message = LoadTransaction(self, by, arguments).render(entry, digest)
            return Invocation(name=entry.name, arguments=arguments, text=message, is_user_message=True)
        receipt = self.load([self.handle(entry)], "add", args=arguments, by=by, make_room=make_room)
        content = self.content(entry.name, words=words)
        text = "\n\n".join((content, *receipt.notes))
        return Invocation(name=entry.name, arguments=arguments, text=text, receipt=receipt)

    # --- nesting and tasks --------------------------------------------------------------------------------------

    @property
    def stack(self) -> tuple[str, ...]:
        """The skills that are activated inside one another, the innermost last."""
        return self._stack.names

    def activate(self, name: str, *, args: str = "", by: By = "host") -> ActiveSkill:
        """Activate a skill inside those that are on the stack; `deactivate` ends it, the innermost first."""
        entry = self.find(name, by=by)
        frame = self._stack.push(entry.name, was_loaded=any(one.name == entry.name for one in self.active))
        try:
            self.load([self.handle(entry)], "add", args=args, by=by)
        except BaseException:
            self._stack.drop(frame)
            raise
        return self.one(entry.name)

    def deactivate(self, name: str, *, by: By = "host") -> None:
        """End the innermost activation, which must be this skill's."""
        self.require_open()
        _, was_loaded = self._stack.pop(name)
        if not was_loaded and any(one.name == name for one in self.live()):
            self.unload([name], by=by)

    @contextlib.contextmanager
    def activation(self, name: str, *, args: str = "", by: By = "host") -> Iterator[ActiveSkill]:
        """`activate` and, whatever happens, `deactivate`."""
        active = self.activate(name, args=args, by=by)
        try:
            yield active
        finally:
            # Whatever was activated inside and not ended ends with it.
            while active.name in self.stack and not self._is_closed:
                self.deactivate(self.stack[-1])

    @contextlib.contextmanager
    def task(self, id: str | None = None) -> Iterator[Self]:  # noqa: A002
        """One task: at its end everything is unloaded, also when it fails or is cancelled."""
        self.require_open()
        before = self._actor
        self._actor = replace(before, task=id or uuid.uuid4().hex)
        try:
            yield self
        finally:
            try:
                if not self._is_closed:
                    self._stack.clear()
                    self.unload(all=True)
            finally:
                self._actor = before

    def child(self, name: str, library: SkillLibrary | None = None, **options: Any) -> Self:
        """A session for an agent that this conversation starts; `name` stands for it in the lineage.

        It has nothing of this conversation, and whatever restricts this one restricts it too. `library` is that of
        another caller; other options are those of a session, by default as they are here.
        """
        self.require_open()
        given = {field.name: getattr(self.options, field.name) for field in fields(Options)} | options
        child = type(self)(
            self.library if library is None else library,
            guard=self.guard,
            runner=self._runner,
            secrets=self.cage.provider,
            workspace=self.workspace,
            user=self._actor.user,
            correlation_id=self._actor.correlation_id or self.id,
            lineage=self.lineage.child(name),
            **given,
        )
        child._above = (*self._above, *(one.ceiling for one in self.live()), *child._above)
        child._actor = replace(child._actor, parent=self.id, model=self._actor.model)
        # Whoever listens here is told what the agent does that this conversation starts, and not what it says.
        child.listen(lambda event: self._listeners.tell(event) if event.kind in SKILL_EVENTS else None)
        return child

    def fork(self, name: str, *, args: str = "", by: By = "host") -> Self:
        """A session for a sub-agent that has this one skill and nothing else of this conversation."""
        self.require_open()
        entry = self.find(name, by=by)
        # It is there from the first call on, before any tool could have told the sub-agent of it.
        child = self.child(entry.name, delivery="instructions")
        child.forked_for = entry.name
        try:
            child.load([child.handle(entry)], args=args, by=by)
            # That agent is there for this skill alone: nothing that it reads may talk it out of what the skill
            # restricts.
            child._fix([child.one()])
        except BaseException:
            child.close()
            raise
        return child

    # --- saving -------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Its state as JSON holds it, for `resume`."""
        from metier.session.saved_state import saved

        active = self.active
        with self._lock:
            return saved(self, active, self._stack.frames, self._delivered)

    def seal(self) -> dict[str, Any]:
        """Its state as `save` gives it, and from now on nothing can be done with it; `close` is still due.

        Whatever happens meanwhile is in the state or is refused: nothing is lost in between.
        """
        from metier.session.saved_state import saved

        with self._lock:
            self.require_open()
            self._is_closed = True
            return saved(self, self._active, self._stack.frames, self._delivered)

    @classmethod
    def resume(cls, library: SkillLibrary, state: Mapping[str, Any] | str | bytes, **options: Any) -> Self:
        """Go on with a saved session; skills that are gone or blocked by now are left out."""
        from metier.session.saved_state import SavedState

        if options.get("skills"):
            raise InvalidArgument("A resumed session has its own skills.", hint="Load others once it is resumed.")
        found = SavedState(state)
        session = cls(library, **({"id": found.id} | options))
        session._actor = replace(session._actor, task=found.task)
        resumed = found.active_in(session)
        saved = resumed[-session.options.max_active :]
        names = {one.name for one in saved}
        session._set((*(one for one in session._active if one.name not in names), *saved))
        names = {one.name for one in session._active}
        session._stack = Stack(frame for frame in found.frames if frame[0] in names)
        session._delivered = found.delivered
        session._ended_for_room(resumed[: -session.options.max_active], "host")
        return session


def _project_of(library: SkillLibrary) -> str | None:
    """The folder of the project that a library was discovered in, which may not be the working folder."""
    for place in library.places:
        if place.layer == "project" and isinstance(place.source, FolderSource):
            root = os.fspath(place.source.root).replace(os.sep, "/")
            found = next((name for name in PROJECT_FOLDERS if root.endswith(f"/{name}")), None)
            if found is not None:
                return root.removesuffix(f"/{found}")
    return None


def _guard(guard: Guard | None, policy: Policy | None, workspace: str | os.PathLike[str] | None) -> Guard:
    if guard is not None and policy is not None:
        raise InvalidArgument("A guard has a policy of its own.", hint="Give a guard or a policy.")
    if guard is not None and not isinstance(guard, Guard):
        raise InvalidArgument(
            f"guard is {type(guard).__name__}.", hint="Write guard=Guard(...), or policy=Policy(...)."
        )
    return guard or Guard(policy, project=workspace)


def _options(given: Mapping[str, Any]) -> Options:
    known = {field.name for field in fields(Options)}
    unknown = [name for name in given if name not in known]
    if unknown:
        accepted = sorted(known | {*inspect.signature(Session).parameters} - {"library", "options"})
        meant = difflib.get_close_matches(unknown[0][:100], accepted, n=1, cutoff=0.6)
        raise InvalidArgument(
            f"A session has no option {unknown[0]!r}.",
            hint=(f"Did you mean {meant[0]}? " if meant else "") + f"Options are {', '.join(accepted)}.",
        )
    several = {}
    for name in ("names", "script_folders"):
        value = given.get(name)
        if isinstance(value, str):
            raise InvalidArgument(f"`{name}` is a list, not text.", hint=f"Write {name}=[{value!r}].")
        if value is not None:
            several[name] = frozenset(value) if name == "names" else tuple(value)
    return Options(**{**given, **several})


def _several(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("Skills are named by a list of texts.", hint='Write ["name"].')
    if not names:
        raise InvalidArgument("No skill was named.", hint="Name at least one.")
    if len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names):,} skills were named at once.", hint=f"Name at most {MAX_NAMES}.")
    return tuple(dict.fromkeys(name.strip() for name in names))
