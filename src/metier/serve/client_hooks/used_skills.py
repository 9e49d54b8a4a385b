"""The skills that a conversation in a client uses, as data that any process can go on with."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from metier._json_object import read_object
from metier._lazy import dataclass, fields, replace
from metier._paths import locked_folder, short_digest, write_file
from metier.guard import Subject
from metier.guard.decision import Ceiling
from metier.skill.package import is_digest
from metier.skill.tool_rules import parse_rules
from metier.store.location import data_folder, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_USED = 200
_MAX_ASKED = 100
_MAX_BYTES = 4_000_000
_KEPT_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedSkill:
    """A skill whose instructions a client has given to its model, as they were then."""

    name: str
    source: str
    layer: str
    folder: str
    digest: str
    allowed: tuple[str, ...] | None = None
    disallowed: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    is_trusted: bool = True
    is_over: bool = False
    """Whether its rules hold no longer, as policy lets them end with a message of the user."""

    @property
    def label(self) -> str:
        """The skill in audit records."""
        return f"{self.name}@{self.source}#{self.digest.removeprefix('sha256:')[:12]}"

    @property
    def subject(self) -> Subject:
        """The skill as the guard sees it."""
        return Subject(
            name=self.name, digest=self.digest, layer=self.layer, source=self.source, trusted=self.is_trusted
        )

    @property
    def ceiling(self) -> Ceiling:
        """Its tool rules, enforced."""
        return Ceiling(
            owner=self.name,
            digest=self.digest,
            layer=self.layer,
            allowed=None if self.allowed is None else parse_rules(self.allowed),
            disallowed=parse_rules(self.disallowed),
            scripts=self.scripts,
        )


@dataclass(slots=True, eq=False)
class ConversationState:
    """The lasting part of a conversation: where it began, its skills, and the calls that a person is asked about."""

    project: str
    used: dict[str, UsedSkill]
    """By their folders."""
    asked: dict[str, list[UsedSkill]]
    """The ids of calls, each with the skills that are used once somebody said yes."""

    def use(self, *skills: UsedSkill) -> None:
        """Note skills as used."""
        self.used |= {one.folder: one for one in skills}

    def end_rules(self) -> None:
        """Let the rules of all skills hold no longer."""
        self.used = {folder: replace(one, is_over=True) for folder, one in self.used.items()}

    def ask(self, call: str, skills: list[UsedSkill]) -> None:
        """Note a call that a person is asked about; those asked longest ago are forgotten where there are many."""
        self.asked = dict([*self.asked.items(), (call, skills)][-_MAX_ASKED:])


def state_file(client: str, conversation: str) -> str:
    """The file of a conversation, in the folder of the store, which no tool writes."""
    name = short_digest(f"{client}\0{conversation}".encode(errors="surrogatepass"), 32)
    return os.path.join(data_folder(), "conversations", f"{name}.json")


def read_state(path: str) -> ConversationState:
    """The state in a file; a new one where there is none. Raises `ValueError` for one that cannot be used."""
    data = read_object(path, most=_MAX_BYTES)
    if data is None:
        return ConversationState("", {}, {})
    project, asked = data.get("project"), data.get("asked")
    if not isinstance(project, str) or not isinstance(asked, dict):
        raise ValueError("it is no state of a conversation")
    used = [_skill(one) for one in _list(data.get("used"))]
    waiting = {call: [_skill(one) for one in _list(given)] for call, given in asked.items()}
    return ConversationState(project, {one.folder: one for one in used}, waiting)


def changed_state(path: str, project: str, change: Callable[[ConversationState], None]) -> ConversationState:
    """Change the state in a file, whole or not at all, and beside whatever another process changes in it meanwhile."""
    folder = os.path.dirname(path)
    make_folder(folder)
    with locked_folder(folder):
        state = read_state(path)
        state.project = state.project or project
        change(state)
        _write_state(path, state)
    return state


def _write_state(path: str, state: ConversationState) -> None:
    data = {
        "project": state.project,
        "used": [_data(one) for one in state.used.values()],
        "asked": {call: [_data(one) for one in skills] for call, skills in state.asked.items()},
    }
    write_file(path, json.dumps(data).encode(), sync=True)


def remove_old_states() -> None:
    """Remove the files of conversations that nobody went on with for a month."""
    oldest = time.time() - _KEPT_SECONDS
    with contextlib.suppress(OSError), os.scandir(os.path.dirname(state_file("", ""))) as files:
        for file in files:
            if file.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(file.path)


def _data(one: UsedSkill) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(UsedSkill)}


def _skill(data: Any) -> UsedSkill:
    if not isinstance(data, dict) or set(data) != {field.name for field in fields(UsedSkill)}:
        raise ValueError("a skill in it is none")
    texts = {name: data[name] for name in ("name", "source", "layer", "folder", "digest")}
    if not all(isinstance(text, str) for text in texts.values()) or not is_digest(texts["digest"]):
        raise ValueError("a skill in it is none")
    return UsedSkill(
        **texts,
        allowed=None if data["allowed"] is None else _texts(data, "allowed"),
        disallowed=_texts(data, "disallowed"),
        scripts=_texts(data, "scripts"),
        is_trusted=data["is_trusted"] is True,
        is_over=data["is_over"] is True,
    )


def _texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = _list(data[name])
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"its {name} are no texts")
    return tuple(found)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("a list in it is none")
    return value
