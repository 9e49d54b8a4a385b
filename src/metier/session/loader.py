"""The loader of a session: loads, unloads and invokes skills, and activates them inside one another."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field, logger, replace
from metier._telemetry import describe_skill
from metier.errors import InvalidArgument
from metier.session.active_skills import is_same_load
from metier.session.events import Event
from metier.session.load_transaction import LoadTransaction, too_many
from metier.session.prompt import RUNTIME, delivery_key
from metier.skill import shown
from metier.skill.skill_requirement import required_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.session.active_skills import ActiveSkill
    from metier.session.context import By, SessionParts
    from metier.session.prompt import Vocabulary

log = logger("metier.session")

LoadMode: TypeAlias = Literal["replace", "add"]

MAX_NAMES = 1_000
MAX_ARGUMENTS = 64 * 1024


class Loader:
    """Loads and unloads the skills of one session. A load that fails changes nothing."""

    def __init__(self, parts: SessionParts) -> None:
        """Make a loader of all parts, as few loads need more than a few of them, which are then made."""
        self._parts = parts
        self._context = parts.context
        self._known = parts.known
        self._loaded = parts.loaded
        self._max_active = parts.context.options.max_active
        parts.loaded.on_end += [self._run_post_hook, lambda one: self.forget_copies([one])]

    def load(
        self,
        names: str | Sequence[str],
        mode: LoadMode | Literal[""] = "replace",
        *,
        args: str = "",
        by: By = "host",
        make_room: bool = False,
    ) -> Receipt:
        """Load skills, as `Session.load` says."""
        context, loaded = self._context, self._loaded
        context.require_open()
        wanted = checked_names(names)
        if mode not in ("", "replace", "add"):
            raise InvalidArgument(f"There is no mode {shown(str(mode), 40)!r}.", hint="Modes are replace and add.")
        transaction = LoadTransaction(self._parts, by, checked_arguments(args))
        new = transaction.prepare(wanted)
        with transaction.committed():
            loaded.live()
            with loaded.lock:
                context.require_open()
                before = loaded.held
                now = self._after_loading(before, new, "add" if mode == "add" else "replace")
                room = self._max_active + sum(one.name in loaded.fixed for one in now)
                removed: list[ActiveSkill] = []
                if make_room and len(new) <= room:
                    removed = [one for one in now if one.name not in loaded.fixed][: -self._max_active]
                    now = tuple(one for one in now if one not in removed)
                if len(now) > room:
                    raise too_many(len(now), room)
                transaction.require_unchanged(new)
                loaded.set(now)
            if removed:
                transaction.note(f"Removed to make room: {', '.join(one.name for one in removed)}.")
        gone = [one for one in before if not any(is_same_load(one, other) for other in now)]
        loaded.end([one for one in gone if one not in removed], by, "replaced")
        self._end_for_room(removed, by, f" for {', '.join(one.name for one in new)}")
        for follow in loaded.on_change:
            follow()
        for one in new:
            log.info("activated %s (%s)", one.name, one.digest)
            describe_skill(one.entry.description, one.entry.location)
            message, data = f"Loaded {one.name}.", {"digest": one.digest}
            context.emit(Event(kind="loaded", skill=one.name, message=message, data=data))
        receipt = self.receipt(tuple(one.name for one in new), gone)
        return replace(receipt, together=tuple(transaction.together))

    def unload(self, names: str | Sequence[str] = (), *, all: bool = False, by: By = "host") -> Receipt:  # noqa: A002
        """Unload skills, as `Session.unload` says."""
        self._context.require_open()
        loaded = self._loaded
        wanted = () if all else checked_names(names)
        known = {one.name for one in loaded.live()}
        chosen = {name if name in known else self._known.find(name, by=by).name for name in wanted}
        with loaded.lock:
            gone = [one for one in loaded.held if (all or one.name in chosen) and one.name not in loaded.fixed]
            loaded.set(tuple(one for one in loaded.held if one not in gone))
        loaded.end(gone, by, "unloaded")
        return self.receipt(tuple(one.name for one in gone), gone)

    def bind(self, names: Sequence[str]) -> None:
        """Make skills part of the agent's own instructions; they stay loaded to the end."""
        self._context.require_open()
        loaded = self._loaded
        wanted = checked_names(names)
        active = {one.name: one for one in loaded.live()}
        transaction = LoadTransaction(self._parts, "host", "")
        missing = [name for name in wanted if name not in active]
        new = transaction.prepare(missing, is_bound=True) if missing else []
        with transaction.committed(), loaded.lock:
            transaction.require_unchanged(new)
            # Before the others: what was loaded for a task is what was loaded last.
            loaded.set(tuple({one.name: one for one in (*new, *loaded.held)}.values()))
        bound = [*new, *(active[name] for name in wanted if name in active)]
        loaded.bound |= {one.name for one in bound}
        loaded.fix(bound)
        self._parts.prompt.delivered.update(delivery_key(one) for one in bound)

    def restore(self, skills: tuple[ActiveSkill, ...], delivered: set[tuple[str, str, str]]) -> None:
        """Put the skills of a saved session beside those that are bound, the last ones where there are too many."""
        loaded = self._loaded
        last = skills[-self._max_active :]
        names = {one.name for one in last}
        loaded.set((*(one for one in loaded.held if one.name not in names), *last))
        self._parts.prompt.delivered = delivered
        self._end_for_room(skills[: -self._max_active], "host")

    def receipt(self, changed: tuple[str, ...] = (), gone: Sequence[ActiveSkill] = ()) -> Receipt:
        """Return the skills that are loaded, after a change by which some are `gone`."""
        active = self._loaded.open
        names = {one.name for one in active}
        missing = {
            one.name: needed
            for one in active
            if one.name in changed
            and (needed := tuple(text for text in one.skill.requires if required_name(text) not in names))
        }
        return Receipt(
            active=tuple(receipt_item(one) for one in active),
            changed=changed,
            requires=missing,
            unloaded=tuple(one.name for one in gone if one.name not in names),
            inline=tuple(one.name for one in active if one.name in changed and self._loaded.is_inline(one.entry)),
        )

    def invoke(
        self, text: str, *, words: Vocabulary = RUNTIME, make_room: bool = False, by: By = "user"
    ) -> Invocation | None:
        """Invoke the skill that a person asks for, as `Session.invoke` says."""
        context = self._context
        context.require_open()
        found = parse_invocation(text)
        if found is None:
            return None
        name, arguments = found[0], checked_arguments(found[1])
        entry = self._known.find(name)
        if entry.skill.insert == "user-message":
            digest = context.index.digest(entry)
            with context.audited(self._known.load_action(entry, digest, by, nested=self._loaded.is_nested)):
                message = LoadTransaction(self._parts, by, arguments).render(entry, digest)
            return Invocation(name=entry.name, arguments=arguments, text=message, is_user_message=True)
        receipt = self.load([self._known.handle(entry)], "add", args=arguments, by=by, make_room=make_room)
        content = self._parts.prompt.content(entry.name, words=words)
        text = "\n\n".join((content, *receipt.notes))
        return Invocation(name=entry.name, arguments=arguments, text=text, receipt=receipt)

    @property
    def activations(self) -> tuple[str, ...]:
        """The skills that are activated inside one another, the innermost last."""
        return self._loaded.stack.names

    def activate(self, name: str, *, args: str = "", by: By = "host") -> ActiveSkill:
        """Activate a skill inside those that are activated; `deactivate` ends it, the innermost first."""
        entry, loaded = self._known.find(name, by=by), self._loaded
        frame = loaded.stack.push(entry.name, was_loaded=any(one.name == entry.name for one in loaded.open))
        try:
            self.load([self._known.handle(entry)], "add", args=args, by=by)
        except BaseException:
            loaded.stack.drop(frame)
            raise
        return loaded.one(entry.name)

    def deactivate(self, name: str, *, by: By = "host") -> None:
        """End the innermost activation, which must be this skill's."""
        self._context.require_open()
        _, was_loaded = self._loaded.stack.pop(name)
        if not was_loaded and any(one.name == name for one in self._loaded.live()):
            self.unload([name], by=by)

    @contextlib.contextmanager
    def activation(self, name: str, *, args: str = "", by: By = "host") -> Iterator[ActiveSkill]:
        """`activate` and, whatever happens, `deactivate`."""
        active = self.activate(name, args=args, by=by)
        try:
            yield active
        finally:
            # Whatever was activated inside and not ended ends with it.
            while active.name in self.activations and not self._context.is_closed:
                self.deactivate(self.activations[-1])

    @property
    def may_take_long(self) -> bool:
        """Whether loading or unloading may take a while: hooks, commands, skills to scan, somebody to be asked."""
        guard = self._context.guard
        policy = guard.policy
        return policy.hooks != "deny" or policy.injection != "deny" or guard.may_ask or guard.governance.may_take_long

    def forget_copies(self, gone: Sequence[ActiveSkill]) -> None:
        """Remove the copies of skills, but for what is active still or again, perhaps from elsewhere."""
        used = {(one.name, one.digest) for one in self._loaded.held}
        for one in gone:
            if (one.name, one.digest) not in used:
                self._parts.copies.forget(one)

    def _after_loading(
        self, before: tuple[ActiveSkill, ...], new: Sequence[ActiveSkill], mode: LoadMode
    ) -> tuple[ActiveSkill, ...]:
        """The active skills after a load: the loaded ones last, in the order they were asked for."""
        names = {one.name for one in new}
        staying = (one for one in before if mode == "add" or one.name in self._loaded.fixed)
        return (*(one for one in staying if one.name not in names), *new)

    def _end_for_room(self, removed: Sequence[ActiveSkill], by: By, whom: str = "") -> None:
        why = f"removed to make room{whom}, as {self._max_active} skills are the most"
        self._loaded.end(removed, by, why, rule="max_active")

    def _run_post_hook(self, one: ActiveSkill) -> None:
        if one.skill.hooks is not None:
            self._parts.hooks.after_unload(one, self._context.actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptItem:
    """One active skill on a receipt."""

    name: str
    location: str
    """The path of its SKILL.md in the verified copy."""
    root_dir: str
    digest: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Its frontmatter, without name and description."""
    is_stale: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The item as JSON holds it."""
        found = {
            "name": self.name,
            "location": self.location,
            "root_dir": self.root_dir,
            "digest": self.digest,
            "properties": dict(self.properties),
        }
        return found | ({"stale": True} if self.is_stale else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The loaded skills after a change, the most recent last."""

    active: tuple[ReceiptItem, ...] = ()
    changed: tuple[str, ...] = ()
    """The skills that were loaded or unloaded by it."""
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Skills that the loaded ones build on and that are not loaded."""
    unloaded: tuple[str, ...] = ()
    """The skills that are no longer active because of it: unloaded, replaced, or removed to make room."""
    together: tuple[str, ...] = ()
    """What the loaded skills do with others that are active and none does alone."""
    inline: tuple[str, ...] = ()
    """The loaded skills that ask for an agent of their own (`context: fork`) and are part of this conversation here."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a model about what a load did beside what was asked for."""
        found = []
        if self.unloaded:
            names = ", ".join(self.unloaded)
            found.append(f"No longer active: {names}. What they say counts no more, until you ask for them again.")
        found += [
            f"Skill {name!r} asks for an agent of its own, and none can be started here: it was loaded into this "
            "conversation. Do what it says as a step of its own, and go on with what comes of it."
            for name in self.inline
        ]
        return tuple(found)

    def as_dict(self) -> dict[str, Any]:
        """The receipt as JSON holds it."""
        found: dict[str, Any] = {"active": [item.as_dict() for item in self.active]}
        if self.requires:
            found["requires"] = {name: list(needed) for name, needed in self.requires.items()}
        if self.unloaded:
            found["unloaded"] = list(self.unloaded)
        if self.inline:
            found["inline"] = list(self.inline)
        if self.together:
            found["together"] = list(self.together)
        return found


def receipt_item(active: ActiveSkill) -> ReceiptItem:
    """Return the item of an active skill on a receipt."""
    properties = {
        key: value for key, value in active.skill.frontmatter.items() if key.lower() not in ("name", "description")
    }
    return ReceiptItem(
        name=active.name,
        location=os.path.join(active.root, os.path.basename(active.entry.location)),
        root_dir=active.root,
        digest=active.digest,
        properties=properties,
        is_stale=active.is_stale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The result of an invocation: text for the conversation, and a receipt where a skill was loaded."""

    name: str
    arguments: str
    text: str
    """The text for the model: the skill's content, or the message that the skill is."""
    is_user_message: bool = False
    """Whether the text is to be said as the user (`insert: user-message`); nothing is loaded then."""
    receipt: Receipt | None = None


def parse_invocation(text: str) -> tuple[str, str] | None:
    """The name and the arguments of `/name arguments`; None when the text is no invocation.

    >>> parse_invocation("/deploy staging now")
    ('deploy', 'staging now')
    >>> parse_invocation("What is /etc for?") is None
    True
    """
    if not isinstance(text, str) or not text.startswith("/"):
        return None
    name, _, arguments = text[1:].partition(" ") if " " in text.split("\n", 1)[0] else text[1:].partition("\n")
    name = name.strip()
    if not name or "/" in name:
        return None
    return name, arguments.strip()


def checked_arguments(arguments: object) -> str:
    """Arguments as text; raises for anything else, and for more than anybody would type."""
    if arguments is None:
        return ""
    if not isinstance(arguments, str):
        raise InvalidArgument(f"Arguments are text, not {type(arguments).__name__}.", hint="Pass them as one string.")
    if len(arguments) > MAX_ARGUMENTS:
        raise InvalidArgument(
            f"The arguments have {len(arguments):,} characters; {MAX_ARGUMENTS:,} are the most.",
            hint=f"Put them into a file and pass its path. They begin with {shown(arguments, 40)!r}.",
        )
    try:
        arguments.encode()
    except UnicodeEncodeError:
        raise InvalidArgument("The arguments have half a character in them.", hint="Send whole characters.") from None
    return arguments


def checked_names(names: object) -> tuple[str, ...]:
    """Return the names of skills, each once; raises `InvalidArgument`."""
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument("Skills are named by a list of texts.", hint='Write ["name"].')
    if not names:
        raise InvalidArgument("No skill was named.", hint="Name at least one.")
    if len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names):,} skills were named at once.", hint=f"Name at most {MAX_NAMES}.")
    return tuple(dict.fromkeys(name.strip() for name in names))
