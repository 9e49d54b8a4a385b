"""What a conversation does with what it has loaded: read, run, tell a model about it, and decide about calls."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metier._log import logger
from metier.errors import MetierError
from metier.find.visibility import Visibility
from metier.guard import Action, failure_code, redact
from metier.session.calls import CallAdmission
from metier.session.content import skill_content
from metier.session.events import Event
from metier.session.files import MAX_BYTES, read_resource
from metier.session.job_sandbox import close_with
from metier.session.prompt import RUNTIME, Prompt
from metier.session.runs import CommandRun, ScriptRun
from metier.session.shell import is_installed
from metier.session.state import MAX_ID, State
from metier.skill import shown
from metier.skill.package import relative_to_root

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.find.results import Result
    from metier.guard import AuditedAction, Decision
    from metier.library import Entry
    from metier.run import Outcome
    from metier.run.job import OutputLine
    from metier.run.virtual import VirtualShell
    from metier.session.active_skills import ActiveSkill
    from metier.session.files import Resource
    from metier.session.prompt import Vocabulary
    from metier.session.state import By
    from metier.skill import FileListing

log = logger("metier.session")


class Use(State):
    """A session without the loading: what can be done with the skills that are active."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._delivered: set[tuple[str, str, str]] = set()
        self._prompting = Prompt()
        self._files_read: set[tuple[str, str]] = set()

    # --- files and scripts --------------------------------------------------------------------------------------

    def files(self, skill: str | None = None) -> FileListing:
        """The files of an active skill."""
        return self.one(skill).listing

    def read(
        self,
        path: str,
        skill: str | None = None,
        *,
        encoding: str = "text",
        start: int | None = None,
        end: int | None = None,
        limit: int = MAX_BYTES,
        by: By = "host",
    ) -> Resource:
        """A file of an active skill; of the most recently loaded one when none is named.

        The path may begin with the root that the model was told.
        """
        one = self.one(skill, by=by)
        path = relative_to_root(path, one.root)
        where = path if isinstance(path, str) else ""
        instead = where if by == "model" and one.listing.is_script(where) else ""
        action = Action(point="read", skill=one.subject, path=where, command=instead, by=by)
        with self.passing(action), self.copies.of(one):
            resource = read_resource(one, path, encoding=encoding, start=start, end=end, limit=limit)
        self._files_read.add((one.name, resource.path))
        self.emit(Event(kind="read", skill=one.name, message=f"Read {shown(path)} of {one.name}."))
        return replace(resource, is_stale=True) if self.is_stale(one) else resource

    @property
    def files_read(self) -> frozenset[tuple[str, str]]:
        """The files that were read, each with the skill it belongs to."""
        return frozenset(self._files_read)

    async def run(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """Run a script of an active skill; options are `env`, `folder`, `seconds`, `stdin`, `by` and `on_output`.

        `on_output` is told each line as it comes, perhaps from another thread.
        """
        from anyio.to_thread import run_sync

        running = await run_sync(self._running, script, args, skill, options)
        with self.passing(running.action, await self.entered(running.action)) as audited:
            outcome = await running.run(audited)
            close_with(audited, outcome)
        return self._ran(running, outcome)

    def run_blocking(self, script: str, args: Sequence[str] = (), skill: str | None = None, **options: Any) -> Outcome:
        """`run`, for programs without an event loop."""
        running = self._running(script, args, skill, options)
        with self.passing(running.action) as audited:
            outcome = running.run_blocking(audited)
            close_with(audited, outcome)
        return self._ran(running, outcome)

    def _running(self, script: object, args: object, skill: str | None, options: Mapping[str, Any]) -> ScriptRun:
        """A script that was asked for; what cannot be run was asked for all the same, and leaves a record."""
        one = self.one(skill, by=options.get("by", "host"))
        try:
            return ScriptRun(self, one, script, args, **options)
        except MetierError as error:
            by, path = options.get("by", "host"), script if isinstance(script, str) else ""
            action = Action(point="run", skill=one.subject, path=path, by=by)
            self.guard.refuse(action, self._actor, "scripts", error.message, code=error.code).close()
            log.warning("refused to run %s of %s: %s", shown(path), one.name, redact(error.message))
            self.emit(Event(kind="refused", skill=one.name, code=error.code, message=error.message))
            raise

    async def execute(
        self,
        command: str,
        *,
        seconds: float | None = None,
        by: By = "host",
        virtual: bool = False,
        words: Vocabulary | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a command of bash in the workspace, or in the virtual shell, where policy allows it.

        `words` are those of the model that it is for: skills that are not loaded say how to load them.
        """
        self.require_open()
        from anyio.to_thread import run_sync

        shell = self._shell if virtual else None
        # Finding out what this machine can do takes a moment, the first time.
        line = await run_sync(lambda: CommandRun(self, command, seconds=seconds, by=by, shell=shell, words=words))
        with self.passing(line.action, await self.entered(line.action)) as passage:
            outcome = await line.run(passage, on_output)
            close_with(passage, outcome)
        message = f"Ran {shown(command)}: exit code {outcome.exit_code}."
        self.emit(Event(kind="ran", message=message, data=_outcome_data(outcome)))
        return outcome

    @property
    def shell(self) -> VirtualShell:
        """Its virtual shell, with the skills mounted; it lasts as long as the session.

        Raises `ShellUnavailable` where what it needs is not installed.
        """
        return self._shell.get()

    @property
    def has_shell(self) -> bool:
        """Whether there is a virtual shell here."""
        return is_installed()

    def mount_path(self, active: ActiveSkill) -> str:
        """Where commands find the files of a skill: in the virtual shell, or else in a copy of what was loaded."""
        return f"{self.options.mount}/{active.name}" if self.has_shell else active.root

    def _ran(self, running: ScriptRun, outcome: Outcome) -> Outcome:
        self.is_stale(running.active)
        message = f"Ran {running.path} of {running.active.name}: exit code {outcome.exit_code}."
        self.emit(Event(kind="ran", skill=running.active.name, message=message, data=_outcome_data(outcome)))
        return outcome

    @property
    def may_take_long(self) -> bool:
        """Whether loading or unloading may take a while: hooks, commands, skills to look into, somebody to be asked."""
        guard = self.guard
        policy = guard.policy
        return policy.hooks != "deny" or policy.injection != "deny" or guard.may_ask or guard.governance.may_take_long

    # --- what a model is told -----------------------------------------------------------------------------------

    def content(self, name: str | None = None, *, words: Vocabulary = RUNTIME) -> str:
        """What a model is given of an active skill, once: the second time it is told where it has it already.

        For a model that has a shell, its files are where the shell has them, and not where they are on disk.
        """
        one = self.one(name)
        if self.options.delivery == "instructions":
            return f"Skill {one.name!r} is active; its instructions are in the top-level instructions."
        key = self._delivery_of(one)
        with self._lock:
            was_delivered = key in self._delivered
            self._delivered.add(key)
        if was_delivered:
            return f"Skill {one.name!r} is active; its instructions stand unchanged earlier in this conversation."
        root = self.mount_path(one) if words.execute else ""
        return skill_content(one, run_tool=words.run, read_tool=words.read, root=root)

    @staticmethod
    def _delivery_of(one: ActiveSkill) -> tuple[str, str, str]:
        # What a model is told may depend on more than files: on arguments, the day, what commands print, and on where
        # its copy is, which a session that goes on in another process may have elsewhere.
        return (one.name, one.digest, hashlib.sha256(f"{one.root}\n{one.body}".encode()).hexdigest())

    def history_was_cut(self) -> None:
        """Say that earlier tool results are gone from the history: content is sent again when it is loaded again."""
        with self._lock:
            self._delivered.clear()

    def composed(self, prompt: str | None = None, *, words: Vocabulary = RUNTIME) -> str:
        """Rules, catalog and active skills as one text; empty when there are no skills.

        `prompt` is what the user asks for: where the library is larger than the catalog, what fits it comes in.
        """
        self.require_open()
        return self._prompting.instructions(self, self.live(), prompt, words)

    def catalog(self, prompt: str | None = None, *, words: Vocabulary = RUNTIME, **options: Any) -> str:
        """The skills that a model may load; empty when there are none.

        It stays within the session's budget together with `around`, the text that will stand around it.
        """
        self.require_open()
        return self._prompting.catalog(self, self.live(), prompt, words, **options)

    @property
    def has_any(self) -> bool:
        """Whether there is any skill that a model may load; cheaper than to list them."""
        self.require_open()
        self.live()
        names = self._prompting.names(self, ())
        listed = Visibility(self.machine, names, self.listings)
        return any(map(listed, self.library.snapshot.view(self.library.caller).active.values()))

    def search(self, query: str, k: int = 10) -> list[Result]:
        """The skills that fit a query and that a model may load."""
        self.require_open()
        self.live()
        names = self._prompting.names(self, ())
        return self.library.search(query, k, names=names, machine=self.machine, listing=self.listings)

    def listed(self, query: str = "", most: int = 200) -> list[Entry]:
        """The skills that a model may load, by name; with a query those that fit it, at most so many, the best first.

        After those that a search finds come those whose name or a tag contains the query.
        """
        self.require_open()
        self.live()
        names = self._prompting.names(self, ())
        best = [result.entry for result in self.search(query, most)] if query.strip() else []
        found = {entry.name for entry in best}
        others = self.library.select(contains=query.strip(), names=names) if len(best) < most else ()
        rest = filter(Visibility(self.machine, None, self.listings), (one for one in others if one.name not in found))
        return [*best, *rest][: most if query.strip() else None]

    # --- tool calls ---------------------------------------------------------------------------------------------

    def admit(self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False) -> CallAdmission:
        """Decide about a tool call: inside what every active skill and the policy allow, or refused."""
        # Before the look at what is active: for what is loaded from now on, there is another look before the call.
        decided_under = self.rules_version
        active = self.live()
        action = self.call_of(tool, arguments, active, is_control=is_control)
        labels = tuple(one.label for one in active)
        audited = self._too_late(action, labels) or self.guard.enter(action, self._actor, labels)
        self._tell_refused(action, audited.decision)
        return CallAdmission(self, audited, action, active, decided_under)

    async def admit_async(
        self, tool: str, arguments: Mapping[str, Any], *, is_control: bool = False, asks: bool = True
    ) -> CallAdmission:
        """`admit`, without holding up the event loop while somebody is asked; without `asks`, nobody is."""
        decided_under = self.rules_version
        try:
            active = await self.current()
        except BaseException as error:
            self._undecided(tool, arguments, error)
            raise
        action = self.call_of(tool, arguments, active, is_control=is_control)
        labels = tuple(one.label for one in active)
        audited = self._too_late(action, labels) or await self.guard.enter_async(action, self._actor, labels, asks=asks)
        if asks or audited.decision.outcome == "deny":
            self._tell_refused(action, audited.decision)
        return CallAdmission(self, audited, action, active, decided_under)

    def _too_late(self, action: Action, labels: tuple[str, ...]) -> AuditedAction | None:
        # Also what comes too late was asked for.
        if not self._is_closed:
            return None
        reason, hint = "The session was closed.", "Begin another one."
        return self.guard.refuse(
            action, self._actor, "closed session", reason, code="session-not-found", hint=hint, active=labels
        )

    def _tell_refused(self, action: Action, decision: Decision) -> None:
        if not decision.is_allowed:
            self.emit(Event(kind="refused", tool=action.tool, code=decision.code, message=decision.reason))

    def _undecided(self, tool: str, arguments: Mapping[str, Any], error: BaseException) -> None:
        """Leave a record of a call about which nothing was decided, as nobody knows what is active."""
        action = self.call_of(tool, arguments, ())
        is_unforeseen = isinstance(error, Exception) and not isinstance(error, MetierError)
        reason = f"What is active could not be found out: {type(error).__name__}."
        code = "not-decided" if is_unforeseen else failure_code(error)
        self.guard.refuse(action, self._actor, "undecided", reason, code=code).close()

    @property
    def rules_version(self) -> tuple[int, int]:
        """Changes with everything that decisions about tool calls depend on."""
        return (self.version, self.guard.version_for(self._actor))

    def may_call(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a tool call would be allowed now, without asking anybody; nothing is recorded."""
        return self.decide_call(tool, arguments).is_allowed

    @property
    def model(self) -> str | None:
        """The model that an active skill asks for, of several the one loaded last; None for the agent's own.

        One that nobody vouches for is not asked: another model is another company that reads the conversation.
        """
        asked = (one.skill.model for one in reversed(self.active) if one.entry.trusted)
        return next((model for model in asked if model and model.lower() != "inherit"), None)

    def answered_by(self, model: str, tokens: int = 0) -> None:
        """Say which model gave the answer that is carried out next, and how many tokens that took, in and out.

        Adapters say it after each answer: records and telemetry tell of it.
        """
        name = shown(model, MAX_ID)
        with self._lock:
            if self._actor.model != name:
                self._actor = replace(self._actor, model=name)
        self.spending.add((one.name for one in self._active), name, tokens)

    @property
    def allowed_tools(self) -> frozenset[str] | None:
        """The tools that every active skill with a list that is enforced names; None when none has one."""
        ceilings = (*self._above, *(one.ceiling for one in self.active))
        allowed = [one.allowed for one in ceilings if one.allowed is not None and not one.advisory]
        lists = [frozenset(rule.tool for rule in rules) for rules in allowed]
        return frozenset.intersection(*lists) if lists else None


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    """What listeners are told of a run."""
    found = {"exit_code": outcome.exit_code, "duration_ms": outcome.duration_ms, "runner": outcome.runner}
    return found | ({"notes": list(outcome.notes)} if outcome.notes else {})
