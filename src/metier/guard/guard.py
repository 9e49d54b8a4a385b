"""The one decision point. Everything that a skill makes happen passes here, and leaves one record."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from metier._log import logger
from metier.errors import InvalidArgument
from metier.guard.audit.log import Recorder
from metier.guard.audit.redaction import redact
from metier.guard.audited_action import AuditedAction, failure_code
from metier.guard.decision import Actor, Decision
from metier.guard.files.file_access import WorkspaceFiles
from metier.guard.files.file_check import check_files
from metier.guard.policy.allowed_tools import enforcement_of
from metier.guard.policy.program import Policy
from metier.guard.question import Answers, asked, asked_blocking, asked_meanwhile, in_own_thread, source_of
from metier.guard.remedies import BLOCKED, ISOLATE, TRUST, allow_setting, ask_somebody, change_policy
from metier.guard.tool_rules.calls import CallRules
from metier.guard.verdict import STRICTNESS
from metier.hints import invoke_skill, run_script
from metier.skill import shown
from metier.skill.lookalikes import readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.guard.audit.log import AuditLog, AuditRecord
    from metier.guard.decision import Action, Outcome, Subject
    from metier.guard.governance import Governance
    from metier.guard.policy.allowed_tools import Enforcement
    from metier.guard.policy.program import ClosedPolicy
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
        may be async, and returns True or False; without it, whatever has to be asked is refused, unless the caller is
        `asking` somebody. The policy files of this machine, user and project always count, and so do approvals and
        quarantines in the store; `governance` is another set of them. `project` is a folder whose project's policy
        counts too, where that is not the working folder.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise InvalidArgument(f"policy is {type(policy).__name__}.", hint="Write policy=Policy(...).")
        if approve is not None and not callable(approve):
            raise InvalidArgument(
                f"approve is {type(approve).__name__}.", hint="Give a function of an action and a decision."
            )
        self._policy = policy
        self._call_rules: tuple[Policy | None, CallRules] | None = None
        self._governance = governance or default_governance(project)
        self._blocks: frozenset[str] = frozenset()
        self._blocked = frozenset(policy.blocked if policy is not None else ())
        self.approve = approve
        self._version = 0
        self._changing = threading.Lock()
        self._recorder = Recorder(audit, self._governance)

    @property
    def policy(self) -> ClosedPolicy:
        """What is allowed, with what policy files take from it; a new one counts from the next decision on."""
        return self._governance.narrowed(self._policy)

    @policy.setter
    def policy(self, policy: Policy) -> None:
        with self._changing:
            self._policy = policy
            self._blocked = self._blocks | frozenset(policy.blocked)
            self._version += 1

    @functools.cached_property
    def files(self) -> WorkspaceFiles:
        """The files that are closed to tools."""
        return WorkspaceFiles(self._governance, lambda: self._policy, lambda: self.kept_paths)

    def _rules_about_calls(self) -> CallRules:
        policy, cached = self._policy, self._call_rules
        if cached is None or cached[0] is not policy:
            cached = self._call_rules = (policy, CallRules.of(policy or Policy()))
        return cached[1]

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
        """Changes whenever what is allowed may have changed, for whoever belongs to no tenant."""
        return self.version_for(_NOBODY)

    def version_for(self, actor: Actor) -> int:
        """Changes whenever what is allowed for whoever acts may have changed."""
        return self._version + self._governance.version_for(actor)

    def block(self, *skills: str) -> None:
        """Block skills, by name or digest, from the next decision on, in every session."""
        self._set_blocks(lambda blocks: blocks | frozenset(skills))

    def unblock(self, *skills: str) -> None:
        """Take a block back; what the policy blocks stays blocked."""
        self._set_blocks(lambda blocks: blocks - frozenset(skills))

    def _set_blocks(self, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
        with self._changing:
            self._blocks = change(self._blocks)
            by_policy = self._policy.blocked if self._policy is not None else ()
            self._blocked = self._blocks | frozenset(by_policy)
            self._version += 1

    @property
    def blocked(self) -> frozenset[str]:
        """The names and digests that this program has blocked."""
        return self._blocked

    def visibility(
        self, actor: Actor = _NOBODY, *, by: Literal["model", "host"] = "model", has_reserved: bool = True
    ) -> tuple[Callable[[Subject], bool], bool] | None:
        """A predicate for skills that models must not know of, which says whether it needs their digests.

        None where every skill may be known of. For the `host`, what is only kept from models is not barred.
        Where no skill has a name of the enterprise layer's, `has_reserved` may say so, which saves a look at each.
        """
        governing = self._governance.visibility(actor, by=by, has_reserved=has_reserved)
        if not self._blocked:
            return None if governing is None else (governing, governing.looks_inside)
        takes_digest = any(one.startswith("sha256:") for one in self._blocked)
        if governing is None:
            return self._is_blocked, takes_digest
        return (lambda subject: self._is_blocked(subject) or governing(subject)), takes_digest or governing.looks_inside

    def is_barred(self, subject: Subject, actor: Actor = _NOBODY) -> bool:
        """Whether a skill must not be used here at all: blocked, in quarantine, or denied by a policy file."""
        if self._is_blocked(subject):
            return True
        governing = self._governance.visibility(actor, by="host", has_reserved=subject.reserved_by is not None)
        return governing is not None and governing(subject)

    def may_reach(self, subject: Subject, actor: Actor = _NOBODY) -> bool:
        """Whether what a skill runs may reach as much of the network as policy grants: where that takes an approval."""
        return self._governance.may_reach(subject, actor)

    def enforcement_of(self, place: Place, folder: str = "") -> Enforcement:
        """Whether the `allowed-tools` of the skills of a place, or of the one in a folder of it, restrict calls."""
        program = self._policy.allowed_tools if self._policy is not None else {}
        return enforcement_of(place, self._governance.effective, program, folder)

    def _is_blocked(self, subject: Subject) -> bool:
        blocked = self._blocked
        return bool(blocked) and (
            not blocked.isdisjoint(readings(subject.name)) or (bool(subject.digest) and subject.digest in blocked)
        )

    # --- deciding -------------------------------------------------------------------------------------------------

    def decide(self, action: Action, actor: Actor = _NOBODY) -> Decision:
        """What policy, trust and rules say to an action. Asks nobody and records nothing."""
        own = self._decide(action)
        return own if own.outcome == "deny" else self._governance.tightened(own, action, actor)

    def _decide(self, action: Action) -> Decision:
        subject = action.skill
        if subject is not None and action.point != "unload" and self._is_blocked(subject):
            return Decision(
                outcome="deny",
                reason=f"Skill {subject.name!r} is blocked.",
                rule="policy: blocked",
                code="skill-blocked",
                hint=BLOCKED,
            )
        if action.point == "call":
            return check_files(action, self.files) or self._rules_about_calls().decide(action)
        if action.point == "load":
            return self._load(action, subject)
        if action.point == "read":
            return self._read(action, subject)
        if action.point in ("run", "hook", "inject"):
            return self._run(action, subject)
        return _ALLOWED

    def _load(self, action: Action, subject: Subject | None) -> Decision:
        if subject is None:
            return _ALLOWED
        if action.by == "model" and not subject.for_models:
            return Decision(
                outcome="deny",
                reason=f"Skill {subject.name!r} is for people to invoke, not for models.",
                rule=f"{subject.name}: listing mode manual",
                code="not-for-models",
                hint=invoke_skill(subject.name),
            )
        if action.by in ("user", "client") and not subject.for_people:
            return Decision(
                outcome="deny",
                reason=f"Skill {subject.name!r} is for models to load, not for people to invoke.",
                rule=f"{subject.name}: user-invocable",
                code="not-for-people",
                hint="Describe the task, and the agent loads it when it fits.",
            )
        if action.by in ("model", "client") and not subject.trusted:
            return self._untrusted(subject)
        return _ALLOWED

    def _untrusted(self, subject: Subject) -> Decision:
        reason = f"Skill {subject.name!r} comes from a place that nobody vouches for."
        return self._by_policy("untrusted", self.policy.untrusted, reason, "skill-untrusted", TRUST)

    def _read(self, action: Action, subject: Subject | None) -> Decision:
        if not action.command:
            return _ALLOWED
        owner = subject.name if subject is not None else "the skill"
        reason = f"{action.path} is a script of skill {owner!r}: run it instead of reading it."
        hint = run_script(owner, action.path)
        decision = self._by_policy("script_reads", self.policy.script_reads, reason, hint=hint)
        return decision if decision.is_allowed else replace(decision, code="script-read")

    def _run(self, action: Action, subject: Subject | None) -> Decision:
        policy = self.policy
        setting = {"run": "scripts", "hook": "hooks", "inject": "injection"}[action.point]
        found: list[Decision] = []
        if subject is not None and not subject.trusted:
            if action.point != "run":
                reason = f"Skill {subject.name!r} comes from a place that nobody vouches for."
                rule = f"policy: {setting} of untrusted skills"
                return Decision(outcome="deny", reason=reason, rule=rule, code="skill-untrusted", hint=TRUST)
            found.append(self._untrusted(subject))
        outcome: Outcome = getattr(policy, setting)
        allowed = "run only after somebody agreed" if outcome == "ask" else "are not allowed here"
        what = "Scripts and commands" if subject is None else _RUNS[action.point]
        found.append(self._by_policy(setting, outcome, f"{what} {allowed}."))
        if not action.isolated:
            reason = "It would run with nothing between it and this machine."
            found.append(self._by_policy("unsandboxed", policy.unsandboxed, reason, "isolation-missing"))
        return max(found, key=lambda decision: STRICTNESS[decision.outcome])

    def _by_policy(self, setting: str, outcome: Outcome, reason: str, code: str = "", hint: str = "") -> Decision:
        """The decision of a setting of `run`, with the line of the policy file that it comes from, if it does."""
        if outcome == "allow":
            return _ALLOWED
        effective = self._governance.effective
        key = f"run.{setting.replace('_', '-')}"
        is_of_file = effective.mode == "enforce" and getattr(effective.run, setting) == outcome
        origin = effective.origin(key) if is_of_file else None
        if not hint:
            fallback = ISOLATE if setting == "unsandboxed" else allow_setting(setting)
            hint = ask_somebody(origin) if outcome == "ask" else change_policy(origin) if origin else fallback
        return Decision(
            outcome=outcome,
            reason=reason,
            rule=f"policy: {setting} {outcome}" if origin is None else f"{key}: {outcome} ({origin})",
            code="approval-needed" if outcome == "ask" else code or f"{setting}-denied",
            hint=hint,
        )

    # --- passing --------------------------------------------------------------------------------------------------

    def enter(self, action: Action, actor: Actor = _NOBODY, active: tuple[str, ...] = ()) -> AuditedAction:
        """Decide, ask where policy says to, and begin the record; the caller closes the audited action at the end."""
        approve, first = self._who_to_ask(self._decided(action, actor), action, actor)
        decision = first
        if approve is not None:
            with self._asking(action, actor, active):
                decision = asked_blocking(approve, action, first)
        if _has_consequences(first, decision):
            decision = self._governance.settled(action, actor, first, decision, self.record)
            _note_request(action, first, decision)
        return self._begun(action, actor, active, first, decision)

    async def enter_async(
        self, action: Action, actor: Actor = _NOBODY, active: tuple[str, ...] = (), *, asks: bool = True
    ) -> AuditedAction:
        """`enter`, without holding up the event loop while somebody is asked; without `asks`, nobody is."""
        if self._recorder.is_behind or action.has_many_texts:
            first = await self.in_thread(self._decided, action, actor)
        else:
            first = self._decided(action, actor)
        approve, first = self._who_to_ask(first, action, actor) if asks else (None, first)
        decision = first
        if approve is not None:
            with self._asking(action, actor, active):
                decision = await asked(approve, action, first)
        if _has_consequences(first, decision):
            decision = await self.in_thread(self._governance.settled, action, actor, first, decision, self.record)
            _note_request(action, first, decision)
        if not self._governance.has_noted_policy:
            await self.in_thread(self._governance.note_policy, actor, self.record)
        return self._begun(action, actor, active, first, decision)

    def settle(self, action: Action, actor: Actor = _NOBODY) -> Decision:
        """Decide, and ask where policy says to and there is somebody to ask; records nothing."""
        approve, decision = self._who_to_ask(self.decide(action, actor), action, actor)
        return decision if approve is None else asked_blocking(approve, action, decision)

    @property
    def may_ask(self) -> bool:
        """Whether a decision may have to wait for somebody."""
        return self.approve is not None or asked_meanwhile() is not None

    async def in_thread(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call something that takes a while, and passes here, without holding up the event loop.

        Where somebody may be asked, it has a thread of its own: open questions never use up those that all share.
        """
        if self.may_ask:
            return await in_own_thread(function, *args, **options)
        import functools

        import anyio.to_thread

        return await anyio.to_thread.run_sync(functools.partial(function, *args, **options))

    def _decided(self, action: Action, actor: Actor) -> Decision:
        try:
            return self._recorder.unrecorded() or self.decide(action, actor)
        except Exception as error:
            log.exception("nothing could be decided")
            return Decision(
                outcome="deny",
                reason=f"Nothing could be decided about it: {type(error).__name__}.",
                rule="undecided",
                code="not-decided",
                hint="It did not happen; tell the user.",
            )

    def _who_to_ask(self, decision: Decision, action: Action, actor: Actor) -> tuple[Approve | None, Decision]:
        """The callback that may answer, if there is one, and the decision, with the reason where there is none."""
        approve = (self.approve or asked_meanwhile()) if decision.outcome == "ask" else None
        if approve is None:
            return None, decision
        why = self._governance.against_answer(action, actor, decision, source_of(approve))
        if why is None:
            return approve, decision
        # Whoever would answer is not whom policy lets decide: what has to be asked waits for somebody else.
        return None, replace(decision, reason=f"{decision.reason} {why}".strip())

    @contextlib.contextmanager
    def _asking(self, action: Action, actor: Actor, active: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # Whoever was being asked cannot answer any more; that it was wanted is recorded all the same.
            gone = Decision(outcome="deny", reason="It ended while somebody was asked.", rule="cancelled")
            AuditedAction(self.record, action, actor, gone, active).close(code=failure_code(error))
            raise

    def _begun(
        self, action: Action, actor: Actor, active: tuple[str, ...], first: Decision, decision: Decision
    ) -> AuditedAction:
        if not decision.is_allowed:
            what = action.tool or action.command or action.path or (action.skill.name if action.skill else "")
            said = redact(f"{shown(what)}: {decision.reason}")
            log.warning("%s %s (%s)", action.point, said, decision.rule)
        agreed_to = first if first.outcome == "ask" and decision.is_allowed else None
        effective = self._governance.effective
        self._governance.note_policy(actor, self.record)
        return AuditedAction(
            self.record,
            action,
            actor,
            decision,
            active,
            agreed_to=agreed_to,
            policy=effective.digest,
            max_output=effective.audit.max_output,
        )

    def record(self, record: AuditRecord) -> None:
        """Add a record to the trail."""
        self._recorder.record(record)


def default_governance(project: str | os.PathLike[str] | None) -> Governance:
    """The policy files of this machine, user and project, and the store; one for all guards that begin here."""
    from metier.guard.governance import Governance

    return Governance.default(project)


def _has_consequences(first: Decision, decision: Decision) -> bool:
    """Whether something is to be written down beyond the record: a request, an approval, a quarantine."""
    return first.needs_grant or first.is_automatic or decision.code == "integrity-failed"


def _note_request(action: Action, first: Decision, decision: Decision) -> None:
    """Tell whoever keeps questions which request waits for an answer; a no is an answer."""
    answers = asked_meanwhile()
    if isinstance(answers, Answers) and decision.request and decision.outcome == "ask":
        answers.wait_for(action, first, decision.request)


_ALLOWED = Decision(outcome="allow", reason="Nothing is against it.", rule="default")
_RUNS = {"run": "Scripts", "hook": "Hooks", "inject": "Commands inside instructions"}


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
