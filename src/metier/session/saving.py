"""A session as data: saved, and resumed later or elsewhere.

What is saved is what the session had loaded, texts and rules included: a skill that changed meanwhile is resumed as it
was and flagged stale, and one that is gone or blocked is left out.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument, MetierError
from metier.guard import Action, Ceiling, parse_rules
from metier.session.active import ActiveSkill, script_paths, subject_of
from metier.session.events import Event
from metier.session.loading import ceiling_of
from metier.session.stack import MAX_NESTING
from metier.session.state import MAX_ID
from metier.skill import MAX_SKILL_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.library import Entry
    from metier.session.session import Session
    from metier.session.stack import Frame
    from metier.skill import Listing

FORMAT = 1
MAX_SKILLS = 1_000
MAX_RULES = 10_000
MAX_DELIVERED = 100_000

_is_digest = re.compile(r"sha256:[0-9a-f]{64}").fullmatch


def saved(
    session: Session,
    active: tuple[ActiveSkill, ...],
    frames: tuple[Frame, ...],
    delivered: set[tuple[str, str, str]],
) -> dict[str, Any]:
    """The state of a session as JSON holds it."""
    return {
        "format": FORMAT,
        "id": session.id,
        "task": session.actor.task,
        "active": [_saved_skill(one) for one in active],
        "stack": [list(frame) for frame in frames],
        "delivered": sorted(list(key) for key in delivered),
    }


def _saved_skill(one: ActiveSkill) -> dict[str, Any]:
    ceiling = one.ceiling
    return {
        "name": one.name,
        "source": one.entry.source,
        "key": one.entry.key,
        "digest": one.digest,
        "arguments": one.arguments,
        "body": one.body,
        "allowed": None if ceiling.allowed is None else [rule.text for rule in ceiling.allowed],
        "disallowed": [rule.text for rule in ceiling.disallowed],
    }


class Saved:
    """What `saved` made, checked: it may come from anywhere."""

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

    def active_in(self, session: Session) -> tuple[ActiveSkill, ...]:
        """The skills that are still there and still allowed, as they were."""
        found = []
        for item in self.skills:
            one = _resumed(session, item)
            if one is not None:
                found.append(one)
        return tuple(found[-session.options.max_active :])


def _resumed(session: Session, item: Mapping[str, Any]) -> ActiveSkill | None:
    try:
        entry = _found(session, item)
        if entry is None:
            return None
        digest = session.library.digest(entry)
        document = session.library.document(session.handle(entry))
        listing = entry.package.listing()
    except MetierError:
        return None
    subject = subject_of(entry, item["digest"])
    passage = session.guard.enter(Action(point="load", skill=subject, by="host"), session.actor)
    passage.close(success=passage.decision.is_allowed)
    if not passage.decision.is_allowed:
        reason = passage.decision.reason
        session.emit(Event(kind="refused", skill=entry.name, code=passage.decision.code, message=reason))
        return None
    is_stale = digest != item["digest"]
    return ActiveSkill(
        skill=document.skill,
        entry=entry,
        digest=item["digest"],
        body=item["body"],
        arguments=item["arguments"],
        # Rules that can still be had from the skill itself are not taken from anywhere else.
        ceiling=_saved_ceiling(item, entry, listing)
        if is_stale
        else ceiling_of(session, document.skill, entry, listing),
        listing=listing,
        hooks_run=session.guard.policy.hooks != "deny",
        is_stale=is_stale,
    )


def _found(session: Session, item: Mapping[str, Any]) -> Entry | None:
    """The skill at the very place that was saved, also where another answers to its name by now."""

    def is_it(entry: Entry) -> bool:
        return (entry.name, entry.source, entry.key) == (item["name"], item["source"], item["key"])

    entry: Entry | None = session.find(item["name"])
    if entry is not None and not is_it(entry):
        entry = next(filter(is_it, session.library.entries(all=True)), None)
    if entry is None or entry.is_broken or entry.is_skipped or entry.skill.insert == "user-message":
        return None
    return entry


def _saved_ceiling(item: Mapping[str, Any], entry: Entry, listing: Listing) -> Ceiling:
    return Ceiling(
        owner=entry.name,
        allowed=None if item["allowed"] is None else parse_rules(item["allowed"]),
        disallowed=parse_rules(item["disallowed"]),
        scripts=script_paths(entry, listing),
    )


def _checked_skill(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _unusable("a skill in it is no object")
    texts = {key: _text(item, key) for key in ("name", "source", "key", "digest", "arguments", "body")}
    if not _is_digest(texts["digest"]):
        raise _unusable("a digest in it is none")
    allowed = None if item.get("allowed", ()) is None else _list(item, "allowed", MAX_RULES)
    disallowed = _list(item, "disallowed", MAX_RULES)
    if not all(isinstance(rule, str) for rule in (*(allowed or ()), *disallowed)):
        raise _unusable("its tool rules are no texts")
    return texts | {"allowed": allowed, "disallowed": disallowed}


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
