"""One conversation in a client: the skills that it uses, and the decisions about its tool calls.

A skill is used from the moment its client gives the model its instructions: by its own tool for skills, by a message of
the user that names it, or as a tool reads its SKILL.md. Its rules hold from then on. Its instructions stay before the
model, so a conversation that used a skill which is blocked by now gets no further call.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metier import Library
from metier._lazy import pattern, replace
from metier._paths import is_inside, short_digest
from metier.errors import MetierError
from metier.guard import Guard
from metier.guard.decision import refuse, written
from metier.guard.question import AnswerPending
from metier.hints import for_model, for_people, for_person
from metier.library.clients import CLIENTS
from metier.library.places import project_root
from metier.serve.client_hooks.call_checks import CallChecks
from metier.serve.client_hooks.client_skills import SKILL_TOOLS, ClientSkills, absolute_path, named_paths
from metier.serve.client_hooks.commands import CommandReading, command_folder, command_line
from metier.serve.client_hooks.event import NO_OBJECTION, HookAnswer
from metier.serve.client_hooks.project_variables import project_variable
from metier.serve.client_hooks.protocols import PROTOCOLS
from metier.serve.client_hooks.used_skills import (
    MAX_USED,
    ConversationState,
    changed_state,
    read_state,
    remove_old_states,
    state_file,
)
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.guard import Action, Actor, Decision
    from metier.guard.decision import Ceiling
    from metier.guard.policy.effective import EffectivePolicy
    from metier.library import Entry
    from metier.serve.client_hooks.event import HookEvent
    from metier.serve.client_hooks.used_skills import UsedSkill
    from metier.session.context import By

_OUR_SERVER = "mcp__metier__"
_TALK = frozenset({
    "ask_user", "ask_user_question", "askuserquestion", "enter_plan_mode", "enterplanmode", "exit_plan_mode",
    "exitplanmode", "question", "taskcreate", "taskget", "tasklist", "taskupdate", "think", "todoread", "todowrite",
    "toolsearch", "update_plan",
})  # fmt: skip
"""Tools that change nothing but the conversation, which no skill can forbid."""
_ATTACHED = pattern(r'(?<!\S)@(?:"?)([^\s"\0]{1,1000})')
_MAX_PROMPT = 100_000


class ClientConversation:
    """One conversation: safe to use by one thread at a time."""

    def __init__(self, client: str, conversation: str, folder: str) -> None:
        """Go on with a conversation of a client, or begin it, in the project that a folder lies in."""
        self._client = CLIENTS[client]
        self._file = state_file(client, conversation)
        self._state, self._seen = read_state(self._file), _identity(self._file)
        # It stays in the project that it began in, whatever folder its commands go to.
        self._project = self._state.project or str(project_root(Path(folder)))
        library = Library.discover(self._project)
        question = _ClientQuestion(self._client.title) if PROTOCOLS[client].can_ask else None
        guard = Guard(approve=question, project=self._project)
        self._guard = guard
        self._session = library.session(id=f"{client}:{conversation}"[:200], guard=guard, workspace=self._project)
        context = self._session.context
        context.actor = replace(context.actor, agent=context.actor.agent or client)
        self._skills = ClientSkills(self._session)
        self._checks = CallChecks(self._session, self._skills)
        self._set_by_project = project_variable(client, (folder, self._project), os.environ)
        self._rules: tuple[object, tuple[Ceiling, ...], Decision | None] = (None, (), None)
        if self._seen is None:
            self._change(lambda _: None)

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
            self._change(ConversationState.end_rules)
        text = event.prompt[:_MAX_PROMPT]
        # A file that a message names by `@` goes to the model without any further hook.
        paths = [absolute_path(found[1], event.folder) for found in _ATTACHED.finditer(text)]
        against = self._rules_now()[1] or self._checks.against_reading(paths)
        named = () if against is not None else (*self._skills.mentioned(text), *self._skills.instructions_in(paths))
        for entry in named:
            against = against or self._use(entry, "user" if event.is_from_user else "model")
        return NO_OBJECTION if against is None else _refusal(against)

    def _call(self, event: HookEvent) -> HookAnswer:
        ceilings, against = self._rules_now()
        against = against or self._checks.against_broken_policy()
        reading = _reading_of(event)
        given: Mapping[str, Any] | None = None
        waiting: list[UsedSkill] = []
        loaded = () if against is not None else tuple(self._skills.loaded_by(event, reading))
        for entry in loaded:
            against = _stricter(against, self._use(entry, "model", waiting))
        gives_skill = canonical_tool(event.tool.removeprefix(_OUR_SERVER)) in SKILL_TOOLS
        is_talk = canonical_tool(event.tool) in _TALK or (bool(loaded) and gives_skill)
        is_free = is_talk or self._reads_used_skill(event, reading)
        # A yes to a question lifts nothing that something else is against.
        if _may_be_made(against):
            against = _stricter(against, self._checks.against_files(event, reading))
        if _may_be_made(against) and reading is not None:
            found, given = self._checks.against_scripts(event, reading)
            against = _stricter(against, found)
            against = _stricter(against, self._checks.against_patch(event, reading, ceilings))
        action = replace(
            self._session.calls.action(event.tool, event.arguments, (), *ceilings, is_control=is_free),
            workspace=event.folder,
        )
        if against is not None and _may_be_made(against):
            by_rules = self._guard.decide(action, self._actor)
            against = by_rules if by_rules.outcome == "deny" else against
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
        self._change(lambda state: state.ask(_call_key(event), waiting))
        return HookAnswer(permission="ask", reason=f"Métier: {decision.reason}", arguments=given)

    def _result(self, event: HookEvent) -> None:
        """A call that somebody was asked about was made: they said yes."""
        if _call_key(event) not in self._state.asked:
            return
        self._change(lambda state: state.use(*state.asked.pop(_call_key(event), ())))
        action = replace(self._session.calls.action(event.tool, event.arguments, ()), point="answer")
        said = self._guard.observe(action, self._actor, "answer", f"Somebody said yes in {self._client.title}.")
        said.close(success=event.succeeded)

    # --- the skills that are used -------------------------------------------------------------------------------------

    def _use(self, entry: Entry, by: By, waiting: list[UsedSkill] | None = None) -> Decision | None:
        """Decide whether a skill may be used, and note it; a decision where it may not, or not yet.

        One that somebody has to be asked about is `waiting`, and used once they said yes.
        """
        try:
            skill = self._skills.described(entry)
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
            self._change(lambda state: state.use(skill))
        return None

    def _rules_now(self) -> tuple[tuple[Ceiling, ...], Decision | None]:
        """The rules of the skills that are used, and a refusal where one of them is blocked by now."""
        if self._set_by_project is not None:
            name, file = self._set_by_project
            reason = f"{shown(file, 300)} sets {shown(name)}, by which the project would decide about itself."
            hint = for_people(
                "Take it out, and start the client again.", model="Stop, and tell the user to take it out."
            )
            return (), refuse("project variables", reason, code="tool-not-allowed", hint=hint)
        used = tuple(self._state.used.values())
        seen = (self._guard.version_for(self._actor), self._session.context.index.snapshot, used)
        if self._rules[0] != seen:
            ceilings, against = [], None
            for one in used:
                entry = self._skills.entries.get(one.folder)
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
        tool = canonical_tool(event.tool)
        is_reading = tool == "read" if reading is None else tool == "bash" and reading.is_reading
        if not self._state.used or not is_reading:
            return False
        paths = [path for path in named_paths(event, reading) if reading is None or os.path.isfile(path)]
        return bool(paths) and all(any(is_inside(path, folder) for folder in self._state.used) for path in paths)

    # --- what the rest needs ------------------------------------------------------------------------------------------

    @property
    def _actor(self) -> Actor:
        return self._session.context.actor

    @property
    def _effective(self) -> EffectivePolicy:
        return self._guard.governance.effective

    def _change(self, change: Callable[[ConversationState], None]) -> None:
        self._state = changed_state(self._file, self._project, change)
        self._seen = _identity(self._file)


class _ClientQuestion:
    """A question to the person at the client, who answers the client and not us."""

    def __init__(self, title: str) -> None:
        self.source = f"client:{title}"

    def __call__(self, action: Action, decision: Decision) -> bool:
        raise AnswerPending


def _reading_of(event: HookEvent) -> CommandReading | None:
    command = command_line(event.tool, event.arguments)
    return None if command is None else CommandReading(command, command_folder(event.arguments, event.folder))


def _may_be_made(against: Decision | None) -> bool:
    """Whether a call is made if nothing else is against it, and somebody says yes where they are asked."""
    return against is None or against.code == "approval-pending"


def _stricter(one: Decision | None, other: Decision | None) -> Decision | None:
    """The first of two decisions against a call, unless only the other refuses it."""
    return other if one is None or (_may_be_made(one) and not _may_be_made(other)) else one


def _call_key(event: HookEvent) -> str:
    """The name of a call: the client's id, or where it has none the call itself."""
    return event.call or short_digest(f"{event.tool}\0{written(event.arguments)}".encode(errors="surrogatepass"), 32)


def _refusal(decision: Decision) -> HookAnswer:
    hint = for_model(decision.hint, {}) if decision.hint else ""
    if decision.code == "approval-needed":
        # A person reads the refusal, too, and it is theirs to do something about it.
        hint = f"It cannot be settled in this client, so tell the user: {for_person(decision.hint)}"
    return HookAnswer(permission="deny", reason=f"Métier: {decision.reason} {hint}".strip())


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
