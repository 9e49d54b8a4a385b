"""One conversation in a client: the skills that it uses, and the decisions about its tool calls.

A skill is used from the moment its client gives the model its instructions: by its own tool for skills, by a message of
the user that names it, or as a tool reads its SKILL.md. Its rules hold from then on. Its instructions stay before the
model, so a conversation that used a skill which is blocked by now gets no further call.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier import Library
from metier._lazy import pattern, replace
from metier._paths import is_inside, real_path, short_digest
from metier.errors import MetierError
from metier.guard import Action, Guard
from metier.guard.decision import refuse, written
from metier.guard.files.file_access import protection_hint, protection_reason
from metier.guard.files.file_check import file_targets
from metier.guard.question import AnswerPending
from metier.guard.remedies import BLOCKED
from metier.hints import WITHOUT_IT, for_model, for_people, for_person
from metier.library.clients import CLIENTS
from metier.library.places import project_root
from metier.run import skill_variables
from metier.serve.client_hooks.commands import CommandReading, closed_path, command_folder, command_line
from metier.serve.client_hooks.event import NO_OBJECTION, HookAnswer
from metier.serve.client_hooks.protocols import PROTOCOLS
from metier.serve.client_hooks.used_skills import (
    MAX_USED,
    UsedSkill,
    read_state,
    remove_old_states,
    state_file,
    write_state,
)
from metier.session.active_skills import script_paths, subject_of
from metier.session.load_transaction import fill_rule
from metier.session.resource_grants import skill_folders
from metier.skill import shown
from metier.skill.names import glob_matches
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier.guard import Actor, Decision
    from metier.guard.decision import Ceiling
    from metier.guard.files.file_access import FileAccess
    from metier.guard.policy.effective import EffectivePolicy
    from metier.library import Entry
    from metier.serve.client_hooks.event import HookEvent
    from metier.session.context import By

_SKILL_TOOLS = frozenset({"skill", "activate_skill", "use_skill", "load_skill", "skills_load", "get_skill"})
"""Tools of clients, and of our own MCP server, that give a model the instructions of skills."""
_OUR_SERVER = "mcp__metier__"
_NAMING = ("skill", "skills", "name", "skill_name", "command")
_TALK = frozenset({
    "ask_user", "ask_user_question", "askuserquestion", "enter_plan_mode", "enterplanmode", "exit_plan_mode",
    "exitplanmode", "question", "taskcreate", "taskget", "tasklist", "taskupdate", "think", "todoread", "todowrite",
    "toolsearch", "update_plan",
})  # fmt: skip
"""Tools that change nothing but the conversation, which no skill can forbid."""
_MENTION = pattern(r"(?<!\S)[/$]([\w.:-]{1,200})")
_ATTACHED = pattern(r'(?<!\S)@(?:"?)([^\s"\0]{1,1000})')
_MAX_ASKED = 100
_MAX_PROMPT = 100_000
_SKILL_FILE = "skill.md"
_PATCH = pattern(r"(?s)\*\*\* Begin Patch.*\*\*\* End Patch")


class ClientConversation:
    """One conversation: safe to use by one thread at a time."""

    def __init__(self, client: str, conversation: str, folder: str) -> None:
        """Go on with a conversation of a client, or begin it, in the project that a folder lies in."""
        self._client = CLIENTS[client]
        self._file = state_file(client, conversation)
        self._state, self._seen = read_state(self._file), _identity(self._file)
        # It stays in the project that it began in, whatever folder its commands go to.
        self._project = self._state.project = self._state.project or str(project_root(Path(folder)))
        library = Library.discover(self._project)
        question = _ClientQuestion(self._client.title) if PROTOCOLS[client].can_ask else None
        guard = Guard(approve=question, project=self._project)
        self._guard = guard
        self._session = library.session(id=f"{client}:{conversation}"[:200], guard=guard, workspace=self._project)
        context = self._session.context
        context.actor = replace(context.actor, agent=context.actor.agent or client)
        self._by_folder: tuple[object, dict[str, Entry]] = (None, {})
        self._rules: tuple[object, tuple[Ceiling, ...], Decision | None] = (None, (), None)
        if self._seen is None:
            self._save()

    def answer(self, event: HookEvent) -> HookAnswer:
        """Decide about an event, and write down what it changes."""
        seen = _identity(self._file)
        if seen != self._seen:  # another process went on with it
            self._state, self._seen = read_state(self._file), seen
        if event.kind == "prompt":
            return self._prompt(event)
        if event.kind == "call":
            return self._call(event)
        if event.kind == "result":
            self._result(event)
        elif event.kind == "start":
            remove_old_states()
        return NO_OBJECTION

    # --- events -------------------------------------------------------------------------------------------------------

    def _prompt(self, event: HookEvent) -> HookAnswer:
        ends = event.is_from_user and self._effective.protect_skills == "prompt"
        if ends and any(not one.is_over for one in self._state.used.values()):
            self._state.used = {folder: replace(one, is_over=True) for folder, one in self._state.used.items()}
            self._save()
        # A file that a message names by `@` goes to the model without any further hook.
        paths = [_absolute(found[1], event.folder) for found in _ATTACHED.finditer(event.prompt[:_MAX_PROMPT])]
        against = self._rules_now()[1] or self._against_reading(paths)
        for entry in () if against is not None else (*self._mentioned(event.prompt), *self._instructions_in(paths)):
            against = against or self._use(entry, "user" if event.is_from_user else "model")
        return NO_OBJECTION if against is None else _refusal(against)

    def _call(self, event: HookEvent) -> HookAnswer:
        ceilings, against = self._rules_now()
        reading = _reading_of(event)
        given: Mapping[str, Any] | None = None
        waiting: list[UsedSkill] = []
        loaded = () if against is not None else tuple(self._loaded_by(event, reading))
        for entry in loaded:
            against = against or self._use(entry, "model", waiting)
        plain = canonical_tool(event.tool.removeprefix(_OUR_SERVER))
        is_talk = plain in _TALK or (bool(loaded) and plain in _SKILL_TOOLS)
        is_free = is_talk or self._reads_used_skill(event, reading)
        if against is None:
            against = self._against_files(event, reading)
        if against is None and reading is not None:
            against, given = self._against_scripts(event, reading)
            against = against or self._against_patch(event, reading, ceilings)
        action = replace(
            self._session.calls.action(event.tool, event.arguments, (), *ceilings, is_control=is_free),
            workspace=event.folder,
        )
        labels = tuple(one.label for one in self._state.used.values())
        if against is None:
            audited = self._guard.enter(action, self._actor, labels)
        else:
            audited = self._guard.audit(action, self._actor, against, labels)
        decision = audited.decision
        audited.close()
        if decision.is_allowed:
            return NO_OBJECTION if given is None else HookAnswer(arguments=given)
        if decision.code != "approval-pending":
            return _refusal(decision)
        self._state.asked[_call_key(event)] = waiting
        while len(self._state.asked) > _MAX_ASKED:
            del self._state.asked[next(iter(self._state.asked))]
        self._save()
        return HookAnswer(outcome="ask", reason=f"Métier: {decision.reason}", arguments=given)

    def _result(self, event: HookEvent) -> None:
        """A call that somebody was asked about was made: they said yes."""
        waiting = self._state.asked.pop(_call_key(event), None)
        if waiting is None:
            return
        self._state.used |= {one.folder: one for one in waiting}
        self._save()
        action = self._session.calls.action(event.tool, event.arguments, ())
        said = self._guard.observe(action, self._actor, "answer", f"Somebody said yes in {self._client.title}.")
        said.close(success=event.succeeded)

    # --- the skills that are used -------------------------------------------------------------------------------------

    def _mentioned(self, prompt: str) -> Iterator[Entry]:
        """The skills that a message of the user names as clients have them named: `/name` in front, or `$name`."""
        for found in _MENTION.finditer(prompt[:_MAX_PROMPT]):
            if found[0][0] == "$" or not prompt[: found.start()].strip():
                yield from self._skills_named(found[1])

    def _loaded_by(self, event: HookEvent, reading: CommandReading | None) -> Iterator[Entry]:
        """The skills whose instructions a call gives to the model."""
        if canonical_tool(event.tool.rpartition("__")[2]) in _SKILL_TOOLS:
            given = next((one for key in _NAMING if (one := event.arguments.get(key))), ())
            names = (given,) if isinstance(given, str) else given if isinstance(given, list) else ()
            plain = (name.lstrip("/$").partition(" ")[0] for name in names if isinstance(name, str))
            for name in plain:
                yield from self._skills_named(name)
            return
        yield from self._instructions_in(_named_paths(event, reading))

    def _instructions_in(self, paths: Iterable[str]) -> Iterator[Entry]:
        """The skills whose SKILL.md is among some files."""
        for path in paths:
            folder, name = os.path.split(path)
            if folder in self._entries and glob_matches(name.lower(), _SKILL_FILE):
                yield self._entries[folder]

    def _skills_named(self, name: str) -> list[Entry]:
        """The skills that a client may mean by a name: which one of several it takes is for the client to say."""
        plain = name.rpartition(":")[2].lower()
        return [one for folder, one in self._entries.items() if plain in (one.name.lower(), _last_of(folder))]

    @property
    def _entries(self) -> Mapping[str, Entry]:
        """The skills of the library by their real folders."""
        index = self._session.context.index
        snapshot = index.snapshot
        if self._by_folder[0] is not snapshot:
            found = [entry for entry in index.entries(all=True) if os.path.isabs(entry.location)]
            self._by_folder = (snapshot, {real_path(os.path.dirname(entry.location)): entry for entry in found})
        return self._by_folder[1]

    def _use(self, entry: Entry, by: By, waiting: list[UsedSkill] | None = None) -> Decision | None:
        """Decide whether a skill may be used, and note it; a decision where it may not, or not yet.

        One that somebody has to be asked about is `waiting`, and used once they said yes.
        """
        try:
            skill = self._described(entry)
        except MetierError as error:
            return refuse("unreadable", error.message, code=error.code, hint=error.hint)
        before = self._state.used.get(skill.folder)
        if before is None or replace(before, is_over=False) != skill:
            action = self._session.parts.known.load_action(entry, skill.digest, by)
            with self._guard.enter(action, self._actor) as audited:
                decision = audited.decision
            if not decision.is_allowed:
                if waiting is not None and decision.code == "approval-pending":
                    waiting.append(skill)
                return decision
            if len(self._state.used) >= MAX_USED:
                return refuse("too many skills", "This conversation uses too many skills.", code="invalid-argument")
        if before != skill:
            self._state.used[skill.folder] = skill
            self._save()
        return None

    def _described(self, entry: Entry) -> UsedSkill:
        index, folder = self._session.context.index, os.path.dirname(entry.location)
        content = index.content(entry)
        skill = index.document(self._session.parts.known.handle(entry)).skill
        values = skill_variables(workspace=self._project, skill_dir=folder, session_id=self._session.id)

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

    def _rules_now(self) -> tuple[tuple[Ceiling, ...], Decision | None]:
        """The rules of the skills that are used, and a refusal where one of them is blocked by now."""
        used = tuple(self._state.used.values())
        seen = (self._guard.version_for(self._actor), self._session.context.index.snapshot, used)
        if self._rules[0] != seen:
            ceilings, against = [], None
            for one in used:
                entry = self._entries.get(one.folder)
                if self._guard.is_excluded(replace(one.subject, entry=entry), self._actor):
                    against = against or refuse(
                        "blocked skill",
                        f"This conversation has the instructions of skill {one.name!r}, which is blocked by now.",
                        code="skill-blocked",
                        hint=for_people("Begin a new conversation.", model="Stop, and tell the user to begin another."),
                    )
                if not one.is_over:
                    ceilings.append(self._ceiling(one, entry))
            self._rules = (seen, tuple(ceilings), against)
        return self._rules[1:]

    def _ceiling(self, one: UsedSkill, entry: Entry | None) -> Ceiling:
        """The rules of a skill: whoever protects a client wants them to hold there, unless a policy says otherwise."""
        if entry is None or not self._effective.allowed_tools:
            return one.ceiling
        return one.ceiling.under(self._guard.enforcement_of(entry.place, entry.folder))

    def _reads_used_skill(self, event: HookEvent, reading: CommandReading | None) -> bool:
        """Whether a call only reads files of skills that are used: their own rules do not keep them from that."""
        is_reading = canonical_tool(event.tool) == "read" if reading is None else reading.is_reading
        if not self._state.used or not is_reading:
            return False
        paths = [path for path in _named_paths(event, reading) if reading is None or os.path.isfile(path)]
        return bool(paths) and all(any(is_inside(path, folder) for folder in self._state.used) for path in paths)

    # --- files and scripts --------------------------------------------------------------------------------------------

    def _against_files(self, event: HookEvent, reading: CommandReading | None) -> Decision | None:
        """The refusal of a call that names a file of a blocked skill, or by a command a place that is closed to it."""
        if reading is None:
            return self._against_blocked(_named_paths(event, reading))
        against = self._against_reading(reading.paths)
        if against is not None or reading.is_reading:
            return against
        if "client_hooks" in reading.text:
            return refuse(
                "client hooks", "No tool speaks for its own client.", code="tool-not-allowed", hint=WITHOUT_IT
            )
        if reading.is_interactive and PROTOCOLS[event.client].types_unseen:
            reason = f"What {self._client.title} types into a running program, nobody can check."
            return refuse(
                "client hooks", reason, code="tool-not-allowed", hint="Give the program its commands at once."
            )
        # A script of a skill that is only started is not written by that.
        started = {path for path, _ in reading.started if any(self._owners([path]))}
        found = closed_path([path for path in reading.paths if path not in started], self._access)
        if found is None:
            return None
        return refuse(
            "protected files", protection_reason(*found), code="protected-place", hint=protection_hint(found[1])
        )

    def _against_reading(self, paths: Iterable[str]) -> Decision | None:
        """The refusal of reading files: of a blocked skill, or with keys and passwords."""
        access = self._access
        hidden = next((path for path in paths if access.hides(path)), None)
        if hidden is not None:
            return refuse("protected files", f"{shown(hidden, 300)!r} is closed to tools.", code="file-refused")
        return self._against_blocked(paths)

    def _against_blocked(self, paths: Iterable[str]) -> Decision | None:
        for entry in self._owners(paths):
            if self._guard.is_excluded(subject_of(entry, self._digest(entry)), self._actor):
                return refuse("blocked skill", f"Skill {entry.name!r} is blocked.", code="skill-blocked", hint=BLOCKED)
        return None

    def _against_scripts(
        self, event: HookEvent, reading: CommandReading
    ) -> tuple[Decision | None, Mapping[str, Any] | None]:
        """The refusal of a command that runs a script of a skill, or the arguments by which it runs in a sandbox."""
        if reading.is_reading:
            return None, None
        wanted, effective = self._effective.protect_scripts, self._effective
        started = dict(reading.started)
        for entry in self._owners(reading.paths):
            # A script that a client runs is not isolated; that counts where policy says something about it.
            isolated = wanted != "allow" or effective.run.unsandboxed is None
            subject = subject_of(entry, self._digest(entry))
            run = Action(point="run", skill=subject, command=shown(reading.text, 2_000), isolated=isolated)
            decision = self._guard.settle(run, self._actor)
            if not decision.is_allowed:
                return decision, None
            if wanted == "allow":
                continue
            folder = real_path(os.path.dirname(entry.location))
            script = next((path for path in started if is_inside(path, folder)), None)
            name = self._session.parts.known.handle(entry)
            path = os.path.relpath(script, folder) if script else "SCRIPT"
            words, command = started.get(script or "") or (), event.arguments.get("command")
            instead = shlex.join([*_program(), "run", name, path, "--", *words])
            can_rewrite = script is not None and started[script] is not None and isinstance(command, str)
            if wanted == "sandbox" and can_rewrite and PROTOCOLS[event.client].can_rewrite:
                return None, {**event.arguments, "command": instead}
            return refuse(
                f"protect.scripts: {wanted}",
                f"Scripts of skill {entry.name!r} run in a sandbox only.",
                code="isolation-missing",
                hint=for_people(f"Run `{instead}`.", model=f"Run `{_braced(instead)}` instead."),
                origin=effective.origin("protect.scripts"),
            ), None
        return None, None

    def _against_patch(self, event: HookEvent, reading: CommandReading, ceilings: Iterable[Ceiling]) -> Decision | None:
        """The refusal of a command with a patch: Codex takes it out of that, and changes the files itself."""
        patch = _PATCH.search(reading.text)
        if patch is None:
            return None
        action = self._session.calls.action("apply_patch", {"command": patch[0]}, (), *ceilings)
        decision = self._guard.settle(replace(action, workspace=event.folder), self._actor)
        return None if decision.is_allowed else decision

    def _owners(self, paths: Iterable[str]) -> Iterator[Entry]:
        """The skills that files belong to."""
        entries, found = self._entries, {}
        for path in paths:
            while path not in entries and (above := os.path.dirname(path)) != path:
                path = above
            if path in entries:
                found[path] = entries[path]
        yield from found.values()

    def _digest(self, entry: Entry) -> str:
        try:
            return self._session.context.index.digest(entry)
        except MetierError:
            return ""

    # --- what the rest needs ------------------------------------------------------------------------------------------

    @property
    def _access(self) -> FileAccess:
        return self._guard.files.access(self._project, skill_folders(self._session.context.index))

    @property
    def _actor(self) -> Actor:
        return self._session.context.actor

    @property
    def _effective(self) -> EffectivePolicy:
        return self._guard.governance.effective

    def _save(self) -> None:
        write_state(self._file, self._state)
        self._seen = _identity(self._file)


class _ClientQuestion:
    """A question to the person at the client, who answers the client and not us."""

    def __init__(self, title: str) -> None:
        self.source = f"client:{title}"

    def __call__(self, action: Action, decision: Decision) -> bool:
        raise AnswerPending


def _last_of(folder: str) -> str:
    return os.path.basename(folder).lower()


def _reading_of(event: HookEvent) -> CommandReading | None:
    command = command_line(event.tool, event.arguments)
    return None if command is None else CommandReading(command, command_folder(event.arguments, event.folder))


def _named_paths(event: HookEvent, reading: CommandReading | None) -> Iterable[str]:
    """The paths that a call names, absolute and with links followed."""
    if reading is not None:
        return reading.paths
    targets = file_targets(event.tool, event.arguments)
    paths = (*targets.read, *targets.written)
    return [_absolute(path, event.folder) for path in paths if "\0" not in path]


def _absolute(path: str, folder: str) -> str:
    return real_path(os.path.join(folder, os.path.expanduser(path)))


def _call_key(event: HookEvent) -> str:
    """The name of a call: the client's id, or where it has none the call itself."""
    return event.call or short_digest(f"{event.tool}\0{written(event.arguments)}".encode(errors="surrogatepass"), 32)


def _refusal(decision: Decision) -> HookAnswer:
    hint = for_model(decision.hint, {}) if decision.hint else ""
    if decision.code == "approval-needed":
        # A person reads the refusal, too, and it is theirs to do something about it.
        hint = f"This client cannot ask the user, so tell them: {for_person(decision.hint)}"
    return HookAnswer(outcome="deny", reason=f"Métier: {decision.reason} {hint}".strip())


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _program() -> list[str]:
    """The words that start this program, whatever is on the PATH of a client."""
    return [sys.executable, "-I", "-m", "metier"]


def _braced(text: str) -> str:
    """A text that is part of a template."""
    return text.replace("{", "{{").replace("}", "}}")
