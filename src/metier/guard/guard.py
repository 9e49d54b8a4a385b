"""The one decision point: every action of a skill is decided here, and leaves one record."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from metier._cache import cached_property
from metier._lazy import logger, replace
from metier.errors import InvalidArgument, MetierError
from metier.guard.decision import STRICTNESS, Action, Actor, allow, amend, no_objection, refuse
from metier.guard.governance import Governance
from metier.guard.program_layer import ProgramLayer
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Literal

    from metier.guard.audit.log import AuditLog, AuditRecord, Recorder
    from metier.guard.audited_action import AuditedAction
    from metier.guard.decision import Decision, Enforcement, Subject
    from metier.guard.decision_context import DecisionContext
    from metier.guard.excluded_skills import ExcludedSkills
    from metier.guard.files.file_access import WorkspaceFiles
    from metier.guard.governance import InForce
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.program import ClosedPolicy, Policy
    from metier.guard.question import Approve
    from metier.library import Place

log = logger("metier.guard")

P = ParamSpec("P")
T = TypeVar("T")

_NOBODY = Actor()


class Guard:
    """Decides what may happen, by policy, trust and the rules of the active skills, and records it.

    >>> from metier.guard import Action, Guard, MemoryLog, Policy
    >>> guard = Guard(Policy(deny="Bash(curl:*)"), audit=MemoryLog())
    >>> decision = guard.decide(Action(point="call", tool="Bash", arguments={"command": "curl example.com"}))
    >>> decision.outcome, decision.rule
    ('deny', 'policy: deny Bash(curl:*)')
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        audit: AuditLog | str | None = None,
        approve: Approve | None = None,
        governance: Governance | None = None,
        project: str | os.PathLike[str] | None = None,
    ) -> None:
        """Decide by `policy`; record in `audit`, a log or the path of one; ask `approve` where policy says to ask.

        Without `audit`, records go to the store where that can be written. `approve` gets the action and the decision,
        may be async, and returns True or False; without it, whatever has to be asked is refused, unless the caller
        named somebody by `consent_from`. The policy files of this machine, user and project always count, and so do
        approvals and quarantines in the store; `governance` is another set of them. `project` is a folder whose
        project's policy counts too, where that is not the working folder.
        """
        if policy is not None:
            from metier.guard.policy.program import Policy

            if not isinstance(policy, Policy):
                raise InvalidArgument(f"policy is {type(policy).__name__}.", hint="Write policy=Policy(...).")
        if approve is not None and not callable(approve):
            raise InvalidArgument(
                f"approve is {type(approve).__name__}.", hint="Give a function of an action and a decision."
            )
        self._program = ProgramLayer(policy=policy)
        self._governance = governance or Governance.default(project)
        self.approve = approve
        self._version = 0
        self._changing = threading.Lock()
        self._audit = audit
        if audit is not None or os.environ.get("METIER_AUDIT"):
            _ = self._recorder  # which refuses whatever is no log

    @cached_property
    def _recorder(self) -> Recorder:
        from metier.guard.audit.log import Recorder

        return Recorder(self._audit, self._governance)

    @cached_property
    def files(self) -> WorkspaceFiles:
        """The files that are closed to tools."""
        from metier.guard.files.file_access import WorkspaceFiles

        return WorkspaceFiles(self._governance, lambda: self._program.policy, lambda: self.kept_paths)

    @property
    def policy(self) -> ClosedPolicy:
        """The program's policy within what policy files allow; a new one counts from the next decision on."""
        return self._governance.narrowed(self._program.policy)

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._change(lambda before: replace(before, policy=policy))

    @property
    def governance(self) -> Governance:
        """The policy files, approvals and quarantines that count."""
        return self._governance

    @property
    def kept_paths(self) -> tuple[str, ...]:
        """The files and folders that decide or record what happens: nothing that runs may change them."""
        file = self._recorder.file
        return self._governance.paths if file is None else (file, *self._governance.paths)

    @property
    def version(self) -> int:
        """A number that changes whenever what is allowed may have changed, for an actor without a tenant."""
        return self.version_for(_NOBODY)

    def version_for(self, actor: Actor) -> int:
        """A number that changes whenever what is allowed for an actor may have changed."""
        return self._version + self._governance.version_for(actor)

    def look(self, actor: Actor) -> tuple[int, InForce]:
        """`version_for`, and what is in force for an actor at that moment, for decisions that follow at once."""
        own = self._version
        version, in_force = self._governance.look(actor)
        return own + version, in_force

    def block(self, *skills: str) -> None:
        """Block skills, by name or digest, from the next decision on, in every session."""
        self._change(lambda before: replace(before, blocks=before.blocks | frozenset(skills)))

    def unblock(self, *skills: str) -> None:
        """Take a block back; what the policy blocks stays blocked."""
        self._change(lambda before: replace(before, blocks=before.blocks - frozenset(skills)))

    def _change(self, change: Callable[[ProgramLayer], ProgramLayer]) -> None:
        with self._changing:
            self._program = change(self._program)
            self._version += 1

    @property
    def blocked(self) -> frozenset[str]:
        """The names and digests that this program has blocked."""
        return self._program.blocked

    def excluded_skills(
        self, actor: Actor = _NOBODY, *, by: Literal["model", "host"] = "model", has_reserved: bool = True
    ) -> ExcludedSkills | None:
        """A predicate for the skills that models must not know of; None where every skill may be known of.

        For the `host`, skills that are only kept from models are not among them. Where no skill has a name of the
        enterprise layer's, `has_reserved` may say so, which saves a look at each.
        """
        in_force = self._governance.in_force_for_lists(actor, has_reserved=has_reserved)
        if in_force is None and not self._program.blocked:
            return None
        from metier.guard.excluded_skills import ExcludedSkills

        return ExcludedSkills(self._governance, actor, in_force, blocked=self._program.blocked, by=by)

    def is_excluded(self, subject: Subject, actor: Actor = _NOBODY) -> bool:
        """Whether a skill must not be used here at all: blocked, in quarantine, or denied by a policy file."""
        barred = self.excluded_skills(actor, by="host", has_reserved=subject.reserved_by is not None)
        return barred is not None and barred(subject)

    def may_reach(self, subject: Subject, actor: Actor = _NOBODY) -> bool:
        """Whether a skill needs no approval for the network, or has it."""
        action = Action(point="run", skill=subject)
        in_force = self._governance.in_force_for(action, actor)
        if in_force is None:
            return True
        context = self.context(action, actor)
        context.bind(in_force)
        is_wanted = "network-tools" in context.required and context.effective.mode == "enforce"
        return not is_wanted or "network-tools" in context.approval_status.grants

    def enforcement_of(self, place: Place, folder: str = "") -> Enforcement:
        """The effect of `allowed-tools` for the skills of a place, or for the one in a folder of it."""
        from metier.guard.policy.program import enforcement_of

        program = self._program.policy.allowed_tools if self._program.policy is not None else {}
        return enforcement_of(place, self._governance.effective, program, folder)

    def context(self, action: Action, actor: Actor = _NOBODY) -> DecisionContext:
        """An action with everything that checks may have to know about it."""
        make = _context_type()
        return make(action=action, actor=actor, governance=self._governance, program=self._program)

    def decide(self, action: Action, actor: Actor = _NOBODY, in_force: InForce | None = None) -> Decision:
        """The decision of policy, trust and rules about an action. Asks nobody and records nothing.

        `in_force` is what a caller has just seen to be in force by `look`.
        """
        context = self.context(action, actor)
        own = self._decide_by_program(context)
        return own if own.outcome == "deny" else self.tighten(own, context, in_force)

    def _decide_by_program(self, context: DecisionContext) -> Decision:
        """The decision of the program's own layer: the strictest of its checks, and of several the first."""
        own = None
        for check in self._program_checks(context.action):
            for decision in check(context):
                if decision.outcome == "deny":
                    return decision
                if own is None or STRICTNESS[decision.outcome] > STRICTNESS[own.outcome]:
                    own = decision
        return own or no_objection()

    def _program_checks(self, action: Action) -> tuple[Callable[[DecisionContext], Iterable[Decision]], ...]:
        if action.point != "call":
            return _checks_of_program(action.point)
        return (self._check_call,) if action.skill is None else (*_checks_of_program("call"), self._check_call)

    def _check_call(self, context: DecisionContext) -> tuple[Decision]:
        """The closed files, the tool rules of the program's policy and those of the active skills."""
        action, closed = context.action, None
        if action.shell_command is None:
            from metier.guard.files.file_check import check_files

            closed = check_files(action, self.files)
        return (closed or context.program.call_rules.decide(action),)

    def tighten(self, own: Decision, context: DecisionContext, in_force: InForce | None = None) -> Decision:
        """A decision of the program's layer, or a stricter one by policy files, quarantines and approvals."""
        in_force = self._governance.in_force_for(context.action, context.actor, in_force)
        if in_force is None:
            return own
        from metier.guard.checks import combine, consider

        context.bind(in_force)
        return combine(own, consider(context), in_force.effective.mode)

    def consider(self, context: DecisionContext) -> list[Decision]:
        """The decisions of all checks that have something to say about an action, the program's own first."""
        from metier.guard.checks import consider

        found = consider(context)
        own = self._decide_by_program(context)
        return found if own is no_objection() else [own, *found]

    def refuse(
        self,
        action: Action,
        actor: Actor,
        check: str,
        reason: str,
        *,
        code: str,
        hint: str = "",
        active: tuple[str, ...] = (),
    ) -> AuditedAction:
        """A refusal that another room found, as an audited action; the caller closes it, which writes the record."""
        return self.audit(action, actor, refuse(check, reason, code=code, hint=hint), active)

    def audit(self, action: Action, actor: Actor, decision: Decision, active: tuple[str, ...] = ()) -> AuditedAction:
        """An audited action for a decision that was made already; the caller closes it, which writes the record."""
        from metier.guard.audited_action import AuditedAction

        return AuditedAction(self.record, action, actor, decision, active)

    def observe(self, action: Action, actor: Actor, check: str, reason: str) -> AuditedAction:
        """An audited action for something that happens without being asked for, such as the end of a skill's use."""
        return self.audit(action, actor, allow(check, reason))

    def enter(
        self,
        action: Action,
        actor: Actor = _NOBODY,
        active: tuple[str, ...] = (),
        *,
        in_force: InForce | None = None,
    ) -> AuditedAction:
        """Decide, ask where policy says to, and begin the record; the caller closes the audited action at the end.

        `in_force` is what a caller has just seen to be in force by `look`.
        """
        if in_force is not None:  # much may change while records are written
            in_force = None if self._recorder.is_behind else in_force.for_actor(actor)
        approve, first = self._who_to_ask(self._decide_or_refuse(action, actor, in_force), action, actor)
        decision = first
        if approve is not None:
            from metier.guard.question import ask

            in_force = None
            with self._recording_cancellation(action, actor, active):
                decision = ask(approve, action, first)
        if _has_side_effects(first, decision):
            decision = self.follow_up(action, actor, first, decision)
            _note_request(action, first, decision)
        effective = self._governance.effective if in_force is None else in_force.effective
        return self._begin(action, actor, active, first, decision, effective)

    async def enter_async(
        self,
        action: Action,
        actor: Actor = _NOBODY,
        active: tuple[str, ...] = (),
        *,
        asks: bool = True,
        in_force: InForce | None = None,
    ) -> AuditedAction:
        """`enter`, without holding up the event loop while somebody is asked; without `asks`, nobody is."""
        in_force = in_force and in_force.for_actor(actor)
        if self._recorder.is_behind or action.has_many_texts or self._governance.asks_server(action):
            in_force = None
            first = await self.in_thread(self._decide_or_refuse, action, actor)
        else:
            first = self._decide_or_refuse(action, actor, in_force)
        approve, first = self._who_to_ask(first, action, actor) if asks else (None, first)
        decision = first
        if approve is not None:
            from metier.guard.question import ask_async

            in_force = None
            with self._recording_cancellation(action, actor, active):
                decision = await ask_async(approve, action, first)
        if _has_side_effects(first, decision):
            decision = await self.in_thread(self.follow_up, action, actor, first, decision)
            _note_request(action, first, decision)
        effective = self._governance.effective if in_force is None else in_force.effective
        if not self._governance.has_noted(effective, self._program, actor):
            await self.in_thread(self._governance.note_policy, effective, self._program, actor, self.record)
        return self._begin(action, actor, active, first, decision, effective)

    async def finish_records(self) -> None:
        """Wait, off the event loop, for the records that it has queued because others were writing."""
        if self._recorder.has_queued:
            await self.in_thread(self._recorder.catch_up)

    def follow_up(self, action: Action, actor: Actor, first: Decision, decision: Decision) -> Decision:
        """The decision once its side effects are written down: a request, an approval, a quarantine."""
        from metier.guard.notify import notifying
        from metier.guard.side_effects import apply_side_effects

        try:
            with notifying(self._governance.effective):
                return apply_side_effects(self, self.context(action, actor), first, decision)
        except MetierError as error:
            log.warning("the side effects of a decision could not be written down: %s", error)
            if not decision.is_allowed:
                return decision
            reason = f"{decision.reason} It could not be written down: {error.message}"
            return refuse(decision.check, reason, code=error.code, hint=error.hint, origin=decision.origin)

    def settle(self, action: Action, actor: Actor = _NOBODY) -> Decision:
        """Decide, and ask where policy says to and there is somebody to ask; records nothing."""
        approve, decision = self._who_to_ask(self.decide(action, actor), action, actor)
        if approve is None:
            return decision
        from metier.guard.question import ask

        return ask(approve, action, decision)

    @property
    def may_ask(self) -> bool:
        """Whether a decision may have to wait for somebody."""
        return self._approve is not None

    @property
    def _approve(self) -> Approve | None:
        """The callback to ask: the guard's own, or else the one that the caller named by `consent_from`."""
        if self.approve is not None:
            return self.approve
        from metier.guard.question import ASKING

        return ASKING.get()

    async def in_thread(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function that takes a while, and decides here, without holding up the event loop.

        Where somebody may be asked, it has a thread of its own: open questions never use up those that all share.
        """
        if self.may_ask:
            from metier.guard.question import in_own_thread

            return await in_own_thread(function, *args, **options)
        import anyio.to_thread

        return await anyio.to_thread.run_sync(functools.partial(function, *args, **options))

    def _decide_or_refuse(self, action: Action, actor: Actor, in_force: InForce | None = None) -> Decision:
        try:
            return self._recorder.unrecorded() or self.decide(action, actor, in_force)
        except Exception as error:
            log.exception("nothing could be decided")
            reason = f"Nothing could be decided about it: {type(error).__name__}."
            return refuse("undecided", reason, code="not-decided", hint="It did not happen; tell the user.")

    def _who_to_ask(self, decision: Decision, action: Action, actor: Actor) -> tuple[Approve | None, Decision]:
        """The callback that may answer, if there is one, and the decision, with the reason where there is none."""
        approve = self._approve if decision.outcome == "ask" else None
        if approve is None:
            return None, decision
        from metier.guard.question import source_of
        from metier.guard.side_effects import reason_against_answer

        why = reason_against_answer(self, self.context(action, actor), decision, source_of(approve))
        if why is None:
            return approve, decision
        # Whoever would answer is not whom policy lets decide: what has to be asked waits for somebody else.
        return None, amend(decision, reason=f"{decision.reason} {why}".strip())

    @contextlib.contextmanager
    def _recording_cancellation(self, action: Action, actor: Actor, active: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # Whoever was being asked cannot answer any more; that it was wanted is recorded all the same.
            from metier.guard.audited_action import failure_code

            gone = refuse("cancelled", "It ended while somebody was asked.")
            self.audit(action, actor, gone, active).close(code=failure_code(error))
            raise

    def _begin(
        self,
        action: Action,
        actor: Actor,
        active: tuple[str, ...],
        first: Decision,
        decision: Decision,
        effective: EffectivePolicy,
    ) -> AuditedAction:
        from metier.guard.audited_action import AuditedAction, basis_of

        if not decision.is_allowed:
            from metier.guard.audit.redaction import redact

            what = action.tool or action.command or action.path or (action.skill.name if action.skill else "")
            log.warning("%s %s (%s)", action.point, redact(f"{shown(what)}: {decision.reason}"), decision.rule)
        agreed_to = first if first.outcome == "ask" and decision.is_allowed else None
        self._governance.note_policy(effective, self._program, actor, self.record)
        return AuditedAction(
            self.record,
            action,
            actor,
            decision,
            active,
            agreed_to=agreed_to,
            policy=effective.digest,
            max_output=effective.audit.max_output,
            max_arguments=effective.audit.max_arguments,
            basis=basis_of(action, active, self._program.digest, first, decision),
        )

    def record(self, record: AuditRecord) -> None:
        """Add a record to the audit log."""
        self._recorder.record(record)


@functools.cache
def _context_type() -> type[DecisionContext]:
    from metier.guard.decision_context import DecisionContext

    return DecisionContext


@functools.cache
def _checks_of_program(point: str) -> tuple[Callable[[DecisionContext], Iterable[Decision]], ...]:
    """The checks of the program's own layer at a point of decision."""
    from metier.guard.run_checks import PROGRAM_CHECKS, blocked

    return PROGRAM_CHECKS.get(point, (blocked,))


def _has_side_effects(first: Decision, decision: Decision) -> bool:
    """Whether something is to be written down beyond the record: a request, an approval, a quarantine."""
    return first.needs_grant or first.is_automatic or decision.code == "integrity-failed"


def _note_request(action: Action, first: Decision, decision: Decision) -> None:
    """Note the request that waits for an answer in the `Answers` of the caller; a no is an answer."""
    from metier.guard.question import ASKING, Answers

    answers = ASKING.get()
    if isinstance(answers, Answers) and decision.request and decision.outcome == "ask":
        answers.wait_for(action, first, decision.request)


def current_user() -> str | None:
    """The user that this process runs as, whatever its environment variables say."""
    if hasattr(os, "getuid"):
        import pwd

        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return f"uid-{os.getuid()}"  # a number that has no name, as in many containers
    try:
        return os.getlogin()
    except OSError:
        return None
