"""The one decision point. Everything that a skill makes happen passes here, and leaves one record."""

from __future__ import annotations

import contextlib
import getpass
import os
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from metier._log import logger
from metier.errors import InvalidArgument, MetierError
from metier.guard.approval import asked, asked_blocking, asked_meanwhile
from metier.guard.audit import FileLog, default_audit_file
from metier.guard.calls import Calls
from metier.guard.decision import Actor, Decision
from metier.guard.measuring import tell
from metier.guard.passage import Passage, failure_code
from metier.guard.policy import Policy
from metier.guard.redaction import redact
from metier.guard.waiting import in_own_thread
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from metier.guard.approval import Approve
    from metier.guard.audit import AuditLog, AuditRecord
    from metier.guard.decision import Action, Outcome, Subject

log = logger("metier.guard")

P = ParamSpec("P")
T = TypeVar("T")

_STRICTNESS: dict[Outcome, int] = {"allow": 0, "ask": 1, "deny": 2}
_MAX_UNKEPT = 1_000
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
    ) -> None:
        """Decide by `policy`; record in `audit`, a log or the path of one; ask `approve` where policy says to ask.

        Without `audit`, records go to the user's own log where that can be written. `approve` gets the action and the
        decision, may be async, and returns True or False; without it, whatever has to be asked is refused, unless the
        caller is `asking` somebody.
        """
        if policy is not None and not isinstance(policy, Policy):
            raise InvalidArgument(f"policy is {type(policy).__name__}.", hint="Write policy=Policy(...).")
        if approve is not None and not callable(approve):
            raise InvalidArgument(
                f"approve is {type(approve).__name__}.", hint="Give a function of an action and a decision."
            )
        self._policy = policy or Policy()
        self._calls = Calls(self._policy)
        self._blocks: frozenset[str] = frozenset()
        self._blocked = frozenset(self._policy.blocked)
        self.approve = approve
        self._version = 0
        self._changing = threading.Lock()
        self._audit, self._must_record = _log_of(audit)
        self._unkept: list[AuditRecord] = []
        self._is_ready = False
        self._keeping = threading.Lock()

    @property
    def policy(self) -> Policy:
        """What is allowed; a new one counts from the next decision on, in every session."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        calls = Calls(policy)
        with self._changing:
            self._calls, self._policy = calls, policy
            self._blocked = self._blocks | frozenset(policy.blocked)
            self._version += 1

    @property
    def audit_file(self) -> str | None:
        """Where records go, if that is a file."""
        return os.path.abspath(self._audit.path) if isinstance(self._audit, FileLog) else None

    @property
    def version(self) -> int:
        """Changes whenever what is allowed may have changed."""
        return self._version

    def block(self, *skills: str) -> None:
        """Block skills, by name or digest, from the next decision on, in every session."""
        self._set_blocks(lambda blocks: blocks | frozenset(skills))

    def unblock(self, *skills: str) -> None:
        """Take a block back; what the policy blocks stays blocked."""
        self._set_blocks(lambda blocks: blocks - frozenset(skills))

    def _set_blocks(self, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
        with self._changing:
            self._blocks = change(self._blocks)
            self._blocked = self._blocks | frozenset(self._policy.blocked)
            self._version += 1

    @property
    def blocked(self) -> frozenset[str]:
        """The names and digests that are blocked."""
        return self._blocked

    def is_blocked(self, name: str, digest: str = "") -> bool:
        """Whether a skill is blocked, by its name or by its content."""
        return bool(self._blocked) and (name in self._blocked or (bool(digest) and digest in self._blocked))

    # --- deciding -------------------------------------------------------------------------------------------------

    def decide(self, action: Action) -> Decision:
        """What policy, trust and rules say to an action. Asks nobody and records nothing."""
        subject = action.skill
        if subject is not None and action.point != "unload" and self.is_blocked(subject.name, subject.digest):
            return Decision(
                outcome="deny",
                reason=f"Skill {subject.name!r} is blocked.",
                rule="policy: blocked",
                code="skill-blocked",
                hint="Do the task without it, or ask an administrator.",
            )
        if action.point == "call":
            return self._calls.decide(action)
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
                rule=f"{subject.name}: disable-model-invocation",
                code="not-for-models",
                hint=f"Ask the user to type /{subject.name}.",
            )
        if action.by == "user" and not subject.for_people:
            return Decision(
                outcome="deny",
                reason=f"Skill {subject.name!r} is for models to load, not for people to invoke.",
                rule=f"{subject.name}: user-invocable",
                code="not-for-people",
                hint="Describe the task, and the agent loads it when it fits.",
            )
        if action.by == "model" and not subject.trusted:
            return self._untrusted(subject)
        return _ALLOWED

    def _untrusted(self, subject: Subject) -> Decision:
        outcome = self._policy.untrusted
        if outcome == "allow":
            return _ALLOWED
        return Decision(
            outcome=outcome,
            reason=f"Skill {subject.name!r} comes from a place that nobody vouches for.",
            rule=f"policy: untrusted {outcome}",
            code="approval-needed" if outcome == "ask" else "skill-untrusted",
            hint=_TRUST,
        )

    def _read(self, action: Action, subject: Subject | None) -> Decision:
        outcome = self._policy.script_reads
        if not action.command or outcome == "allow":
            return _ALLOWED
        owner = subject.name if subject is not None else "the skill"
        return Decision(
            outcome=outcome,
            reason=f"{action.path} is a script of skill {owner!r}: run it instead of reading it.",
            rule=f"policy: script_reads {outcome}",
            code="script-read",
            hint=f"Run it: {action.command}",
        )

    def _run(self, action: Action, subject: Subject | None) -> Decision:
        policy = self._policy
        setting = {"run": "scripts", "hook": "hooks", "inject": "injection"}[action.point]
        found: list[Decision] = []
        if subject is not None and not subject.trusted:
            if action.point != "run":
                reason = f"Skill {subject.name!r} comes from a place that nobody vouches for."
                hint = _TRUST
                rule = f"policy: {setting} of untrusted skills"
                return Decision(outcome="deny", reason=reason, rule=rule, code="skill-untrusted", hint=hint)
            found.append(self._untrusted(subject))
        outcome: Outcome = getattr(policy, setting)
        allowed = "run only after somebody agreed" if outcome == "ask" else "are not allowed here"
        found.append(_by_policy(setting, outcome, f"{_RUNS[action.point]} {allowed}."))
        if not action.isolated:
            reason = "It would run with nothing between it and this machine."
            hint = _ISOLATE
            found.append(_by_policy("unsandboxed", policy.unsandboxed, reason, "isolation-missing", hint))
        return max(found, key=lambda decision: _STRICTNESS[decision.outcome])

    # --- passing --------------------------------------------------------------------------------------------------

    def enter(self, action: Action, actor: Actor = _NOBODY, active: tuple[str, ...] = ()) -> Passage:
        """Decide, ask where policy says to, and begin the record; the caller closes the passage at the end."""
        first = decision = self._decided(action)
        approve = self._who_to_ask(first)
        if approve is not None:
            with self._asking(action, actor, active):
                decision = asked_blocking(approve, action, first)
        return self._begun(action, actor, active, first, decision)

    async def entered(
        self, action: Action, actor: Actor = _NOBODY, active: tuple[str, ...] = (), *, asks: bool = True
    ) -> Passage:
        """`enter`, without holding up the event loop while somebody is asked; without `asks`, nobody is."""
        first = decision = self._decided(action)
        approve = self._who_to_ask(first) if asks else None
        if approve is not None:
            with self._asking(action, actor, active):
                decision = await asked(approve, action, first)
        return self._begun(action, actor, active, first, decision)

    def settle(self, action: Action) -> Decision:
        """Decide, and ask where policy says to and there is somebody to ask; records nothing."""
        decision = self.decide(action)
        approve = self._who_to_ask(decision)
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

    def _decided(self, action: Action) -> Decision:
        try:
            return self._unrecorded() or self.decide(action)
        except Exception as error:
            log.exception("nothing could be decided")
            return Decision(
                outcome="deny",
                reason=f"Nothing could be decided about it: {type(error).__name__}.",
                rule="undecided",
                code="not-decided",
                hint="It did not happen; tell the user.",
            )

    def _who_to_ask(self, decision: Decision) -> Approve | None:
        return (self.approve or asked_meanwhile()) if decision.outcome == "ask" else None

    @contextlib.contextmanager
    def _asking(self, action: Action, actor: Actor, active: tuple[str, ...]) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            # Whoever was being asked cannot answer any more; that it was wanted is recorded all the same.
            gone = Decision(outcome="deny", reason="It ended while somebody was asked.", rule="cancelled")
            Passage(self.keep, action, actor, gone, active).close(code=failure_code(error))
            raise

    def _begun(
        self, action: Action, actor: Actor, active: tuple[str, ...], first: Decision, decision: Decision
    ) -> Passage:
        if not decision.is_allowed:
            what = action.tool or action.command or action.path or (action.skill.name if action.skill else "")
            said = redact(f"{shown(what)}: {decision.reason}")
            log.warning("%s %s (%s)", action.point, said, decision.rule)
        agreed_to = first if first.outcome == "ask" and decision.is_allowed else None
        return Passage(self.keep, action, actor, decision, active, agreed_to=agreed_to)

    def keep(self, record: AuditRecord) -> None:
        """Add a record to the trail."""
        tell(record)
        if self._audit is None:
            return
        try:
            self._audit.append(record)
        except Exception as error:
            with self._keeping:
                if not self._unkept:
                    hint = error.hint if isinstance(error, MetierError) else "Nothing is recorded until it works again."
                    log.warning("A record could not be kept. %s %s", error, hint)
                # A refusal for want of a log is not worth keeping without end.
                if not self._unkept or (self._must_record and len(self._unkept) < _MAX_UNKEPT):
                    self._unkept.append(record)

    def _unrecorded(self) -> Decision | None:
        """Nothing more happens while the log that somebody asked for cannot be written."""
        if self._audit is None or not self._must_record or (self._is_ready and not self._unkept):
            return None
        with self._keeping, contextlib.suppress(Exception):
            if not self._is_ready and isinstance(self._audit, FileLog):
                self._audit.prepare()
            self._is_ready = True
            while self._unkept:
                self._audit.append(self._unkept[0])
                del self._unkept[0]
            return None
        return Decision(
            outcome="deny",
            reason="The audit log cannot be written, and nothing may happen unrecorded.",
            rule="audit",
            code="audit-unavailable",
            hint="Check the disk and the permissions of the audit log.",
        )


_ALLOWED = Decision(outcome="allow", reason="Nothing is against it.", rule="default")
# Not the command that does it: a model that may run commands might trust a project by itself.
_TRUST = "Ask the user to look at it, and to trust the project that it comes from."
_ISOLATE = (
    "Install what isolates: on Linux bubblewrap, or `pip install 'metier[shell]'` for shell scripts; `metier doctor` "
    "shows what this machine can enforce. A policy with unsandboxed='allow' does without."
)
_RUNS = {"run": "Scripts", "hook": "Hooks", "inject": "Commands inside instructions"}


def _by_policy(setting: str, outcome: Outcome, reason: str, code: str = "", hint: str = "") -> Decision:
    if outcome == "allow":
        return _ALLOWED
    if outcome == "ask":
        code = "approval-needed"
    return Decision(
        outcome=outcome,
        reason=reason,
        rule=f"policy: {setting} {outcome}",
        code=code or f"{setting}-denied",
        hint=hint or f"A policy with {setting}='allow' would allow it.",
    )


def _log_of(audit: AuditLog | str | None) -> tuple[AuditLog | None, bool]:
    """The log, and whether it was asked for: a record that cannot be kept there must not be lost in silence."""
    if audit is None:
        chosen = default_audit_file()
        return (None, False) if chosen is None else (FileLog(chosen), bool(os.environ.get("METIER_AUDIT")))
    if isinstance(audit, str | os.PathLike):
        return FileLog(audit), True
    if not callable(getattr(audit, "append", None)):
        raise InvalidArgument(
            f"audit is {type(audit).__name__}.", hint="Give the path of a file, or a log such as MemoryLog()."
        )
    return audit, True


def current_user() -> str | None:
    """The name of the user that this process runs as."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
