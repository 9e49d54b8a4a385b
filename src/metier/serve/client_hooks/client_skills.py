"""The skills of a library as a client knows them: by names, by folders, and by the files that a call names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier._paths import real_path
from metier.errors import MetierError
from metier.guard.files.file_check import file_targets
from metier.run import skill_variables
from metier.serve.client_hooks.used_skills import UsedSkill
from metier.session.active_skills import fill_rule, script_paths
from metier.skill.names import glob_matches
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier import Session
    from metier.library import Entry
    from metier.serve.client_hooks.commands import CommandReading
    from metier.serve.client_hooks.event import HookEvent

SKILL_TOOLS = frozenset(
    {"skill", "activate_skill", "use_skill", "load_skill", "skills_load", "get_skill", "slashcommand"}
)
"""Tools of clients, and of our own MCP server, that give a model the instructions of skills."""
_NAMING = ("skill", "skills", "name", "skill_name", "command")
_MENTION = pattern(r"(?<!\S)[/$]([\w.:-]{1,200})")
_SKILL_FILE = "skill.md"


class ClientSkills:
    """The skills that a client may use in one conversation."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_folder: tuple[object, dict[str, Entry]] = (None, {})

    def mentioned(self, prompt: str) -> Iterator[Entry]:
        """The skills that a message of the user names as clients have them named: `/name` in front, or `$name`."""
        for found in _MENTION.finditer(prompt):
            if found[0][0] == "$" or not prompt[: found.start()].strip():
                yield from self.named(found[1])

    def loaded_by(self, event: HookEvent, reading: CommandReading | None) -> Iterator[Entry]:
        """The skills whose instructions a call gives to the model."""
        if canonical_tool(event.tool.rpartition("__")[2]) in SKILL_TOOLS:
            # Each argument counts, as another client may have it by the name that this one passes over.
            values = [event.arguments.get(key) for key in _NAMING]
            names = [one for value in values for one in (value if isinstance(value, list) else [value])]
            for words in (name.lstrip("/$ \t\n").split() for name in names if isinstance(name, str)):
                yield from self.named(words[0]) if words else ()
            return
        yield from self.instructions_in(named_paths(event, reading))

    def instructions_in(self, paths: Iterable[str]) -> Iterator[Entry]:
        """The skills whose SKILL.md is among some files."""
        for path in paths:
            folder, name = os.path.split(path)
            if folder in self.entries and glob_matches(name.lower(), _SKILL_FILE):
                yield self.entries[folder]

    def named(self, name: str) -> list[Entry]:
        """The skills that a client may mean by a name: which one of several it takes is for the client to say."""
        plain = name.rpartition(":")[2].lower()
        return [one for folder, one in self.entries.items() if plain in (one.name.lower(), _last_of(folder))]

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The skills of the library by their real folders."""
        index = self._session.context.index
        snapshot = index.snapshot
        if self._by_folder[0] is not snapshot:
            found = [entry for entry in index.entries(all=True) if os.path.isabs(entry.location)]
            self._by_folder = (snapshot, {real_path(os.path.dirname(entry.location)): entry for entry in found})
        return self._by_folder[1]

    def described(self, entry: Entry) -> UsedSkill:
        """A skill as a conversation uses it; raises `MetierError` where it cannot be read."""
        context, folder = self._session.context, os.path.dirname(entry.location)
        index, content = context.index, context.index.content(entry)
        skill = index.document(self._session.parts.known.handle(entry)).skill
        values = skill_variables(workspace=context.workspace, skill_dir=folder, session_id=context.id)

        def filled(rules: Iterable[str]) -> tuple[str, ...]:
            return tuple(fill_rule(rule, values) for rule in rules)

        return UsedSkill(
            name=entry.name,
            source=entry.source,
            layer=entry.layer,
            folder=real_path(folder),
            digest=content.digest,
            allowed=None if skill.allowed_tools is None else filled(skill.allowed_tools),
            disallowed=filled(skill.disallowed_tools),
            scripts=tuple(dict.fromkeys(script_paths(entry, folder, index.listing(entry, content)))),
            is_trusted=entry.trusted,
        )

    def owners(self, paths: Iterable[str]) -> Iterator[Entry]:
        """The skills that files belong to."""
        entries, found = self.entries, {}
        for path in paths:
            while path not in entries and (above := os.path.dirname(path)) != path:
                path = above
            if path in entries:
                found[path] = entries[path]
        yield from found.values()

    def digest(self, entry: Entry) -> str:
        """The digest of a skill; empty where it cannot be read."""
        try:
            return self._session.context.index.digest(entry)
        except MetierError:
            return ""


def _last_of(folder: str) -> str:
    return os.path.basename(folder).lower()


def named_paths(event: HookEvent, reading: CommandReading | None) -> Iterable[str]:
    """The paths that a call names, absolute and with links followed."""
    if reading is not None:
        return reading.paths
    targets = file_targets(event.tool, event.arguments)
    paths = (*targets.read, *targets.written)
    return [absolute_path(path, event.folder) for path in paths if "\0" not in path]


def absolute_path(path: str, folder: str) -> str:
    """A path from a folder, absolute and with links followed."""
    return real_path(os.path.join(folder, os.path.expanduser(path.removeprefix("file://"))))
