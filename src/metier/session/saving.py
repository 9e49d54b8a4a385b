"""A session as data: saved, and resumed later or elsewhere.

What is saved is what the session had loaded, texts and rules included: a skill that changed meanwhile is resumed as it
was and flagged stale, and one that is gone or blocked is left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metier.errors import InvalidArgument, MetierError
from metier.guard import Action, Ceiling, parse_rules
from metier.session.active import ActiveSkill, script_paths, subject_of
from metier.session.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.session.session import Session

FORMAT = 1


def saved(
    session: Session, frames: tuple[tuple[str, bool], ...], delivered: set[tuple[str, str, str]]
) -> dict[str, Any]:
    """The state of a session as JSON holds it."""
    return {
        "format": FORMAT,
        "id": session.id,
        "task": session.actor.task,
        "active": [_saved_skill(one) for one in session.active],
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
        self.task = data.get("task") if isinstance(data.get("task"), str) else None
        self.skills = [_checked_skill(item) for item in _list(data, "active")]
        self.frames = tuple(
            (frame[0], frame[1])
            for frame in _list(data, "stack")
            if isinstance(frame, list) and len(frame) == 2 and isinstance(frame[0], str) and isinstance(frame[1], bool)
        )
        self.delivered = {
            (key[0], key[1], key[2])
            for key in _list(data, "delivered")
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
        entry = session.find(f"{item['name']}@{item['source']}")
        if entry.key != item["key"]:
            return None
        digest = session.library.digest(entry)
        document = session.library.document(f"{entry.name}@{entry.source}")
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
    return ActiveSkill(
        skill=document.skill,
        entry=entry,
        digest=item["digest"],
        body=item["body"],
        arguments=item["arguments"],
        ceiling=Ceiling(
            owner=entry.name,
            allowed=None if item["allowed"] is None else parse_rules(item["allowed"]),
            disallowed=parse_rules(item["disallowed"]),
            scripts=script_paths(entry, listing),
        ),
        listing=listing,
        is_stale=digest != item["digest"],
    )


def _checked_skill(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise _unusable("a skill in it is no object")
    texts = {key: _text(item, key) for key in ("name", "source", "key", "digest", "arguments", "body")}
    allowed = item.get("allowed", ())
    rules = [rule for rule in (*(allowed or ()), *_list(item, "disallowed")) if not isinstance(rule, str)]
    if rules or not (allowed is None or isinstance(allowed, list)):
        raise _unusable("its tool rules are no texts")
    return texts | {"allowed": allowed, "disallowed": item["disallowed"]}


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise _unusable(f"its {key} is no text")
    return value


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise _unusable(f"its {key} is no list")
    return value


def _unusable(why: str) -> InvalidArgument:
    return InvalidArgument(f"The saved session cannot be resumed: {why}.", hint="Begin a new one.")
