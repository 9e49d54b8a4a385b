"""A session as data: saved, and resumed later or elsewhere.

What is saved says which skills were loaded, and never what they say: instructions and rules are read from the skills
again, since what was saved may come from anywhere. For the same reason it is decided again whether each may be loaded:
by whoever loaded it, where the skill is trusted, else as if a model had asked for it. A skill that changed meanwhile is
resumed as it is now and flagged stale; one that is gone or blocked is left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier.errors import InvalidArgument, MetierError
from metier.session.active_skills import MAX_NESTING
from metier.session.context import MAX_ID
from metier.session.events import Event
from metier.session.load_transaction import LoadTransaction
from metier.skill import MAX_SKILL_BYTES
from metier.skill.package import is_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.library import Entry, SkillIndex
    from metier.session.active_skills import ActiveSkill, Frame
    from metier.session.context import By, SessionContext, SessionParts
    from metier.session.known_skills import KnownSkills

FORMAT = 1
MAX_SKILLS = 1_000
MAX_DELIVERED = 100_000
BY: tuple[By, ...] = ("model", "user", "host", "client")


def saved(
    context: SessionContext,
    active: tuple[ActiveSkill, ...],
    frames: tuple[Frame, ...],
    delivered: Iterable[tuple[str, str, str]],
) -> dict[str, Any]:
    """The state of a session as JSON holds it."""
    return {
        "format": FORMAT,
        "id": context.id,
        "task": context.actor.task,
        "active": [_saved_skill(one) for one in active],
        "stack": [list(frame) for frame in frames],
        "delivered": sorted(list(key) for key in delivered),
    }


def _saved_skill(one: ActiveSkill) -> dict[str, Any]:
    return {
        "name": one.name,
        "source": one.entry.source,
        "key": one.entry.key,
        "digest": one.digest,
        "arguments": one.arguments,
        "by": one.by,
    }


class SavedState:
    """The checked result of `saved`, which may come from anywhere."""

    def __init__(self, data: Mapping[str, Any] | str | bytes) -> None:
        if isinstance(data, str | bytes):
            try:
                data = json.loads(data)
            except (ValueError, RecursionError):
                raise _unusable("it is no JSON") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise _unusable(f"its format is not {FORMAT}")
        self.id = _text(data, "id")
        self.task = None if data.get("task") is None else _text(data, "task")[:MAX_ID]
        self.skills = [_checked_skill(item) for item in _list(data, "active", MAX_SKILLS)]
        if len({item["name"] for item in self.skills}) < len(self.skills):
            raise _unusable("a skill is in it twice")
        frames: list[Frame] = [
            (frame[0], frame[1])
            for frame in _list(data, "stack", MAX_NESTING)
            if isinstance(frame, list) and len(frame) == 2 and isinstance(frame[0], str) and isinstance(frame[1], bool)
        ]
        self.frames = tuple({frame[0]: frame for frame in frames}.values())
        self.delivered = {
            (key[0], key[1], key[2])
            for key in _list(data, "delivered", MAX_DELIVERED)
            if isinstance(key, list) and len(key) == 3 and all(isinstance(part, str) for part in key)
        }

    def resume(self, parts: SessionParts) -> tuple[ActiveSkill, ...]:
        """The skills that are still there and still allowed, as they were; there may be more than may be active."""
        found = []
        inner = {name for name, _ in self.frames[1:]}
        for item in self.skills:
            # What is part of the agent is there already, as it is now.
            nested = item["name"] in inner
            one = None if item["name"] in parts.loaded.bound else _resumed(parts, item, nested=nested)
            if one is not None:
                found.append(one)
        return tuple(found)


def _resumed(parts: SessionParts, item: Mapping[str, Any], *, nested: bool) -> ActiveSkill | None:
    context = parts.context
    try:
        entry = _saved_entry(parts.known, context.index, item)
        if entry is None:
            return None
        digest = context.index.digest(entry)
    except MetierError:
        return None
    by = _by(item) if entry.trusted else "model"
    audited = context.guard.enter(parts.known.load_action(entry, digest, by, nested=nested), context.actor)
    with audited:
        if not audited.decision.is_allowed:
            decision = audited.decision
            context.emit(Event(kind="refused", skill=entry.name, code=decision.code, message=decision.reason))
            return None
        try:
            one = LoadTransaction(parts, by, item["arguments"]).again(entry, digest)
            audited.note_copy(one.root)
        except MetierError as error:
            audited.close(success=False, code=error.code)
            context.emit(Event(kind="refused", skill=entry.name, code=error.code, message=str(error)))
            return None
    return replace(one, is_stale=one.digest != item["digest"])


def _saved_entry(known: KnownSkills, index: SkillIndex, item: Mapping[str, Any]) -> Entry | None:
    """The skill at the very place that was saved, also where another answers to its name by now."""

    def is_it(entry: Entry) -> bool:
        return (entry.name, entry.source, entry.key) == (item["name"], item["source"], item["key"])

    entry: Entry | None = known.find(item["name"])
    if entry is not None and not is_it(entry):
        entry = next(filter(is_it, index.entries(all=True)), None)
    if entry is None or entry.is_broken or entry.is_skipped or entry.skill.insert == "user-message":
        return None
    return entry


def _by(item: Mapping[str, Any]) -> By:
    """The origin of a load, as far as it was saved."""
    return next((by for by in BY if by == item["by"]), "model")


def _checked_skill(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _unusable("a skill in it is no object")
    texts = {key: _text(item, key) for key in ("name", "source", "key", "digest", "arguments")}
    if not is_digest(texts["digest"]):
        raise _unusable("a digest in it is none")
    return texts | {"by": item.get("by")}


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or len(value) > MAX_SKILL_BYTES:
        raise _unusable(f"its {key} is no text, or too long")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _unusable(f"its {key} is no valid text")
    return value


def _list(data: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise _unusable(f"its {key} is no list, or too long")
    return value


def _unusable(why: str) -> InvalidArgument:
    return InvalidArgument(f"The saved session cannot be resumed: {why}.", hint="Begin a new one.")
