"""Replay of recorded sessions: each of their actions is decided again, by the guard, and nothing happens.

A decision is equal only where all that it rested on is known. What a record does not have, or nobody keeps, is said of
it by a code, and such a decision is never counted as equal, whatever the guard says of it now.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from metier._json_object import object_of, text_at
from metier._lazy import dataclass, field, replace
from metier.errors import MetierError
from metier.guard import Action, Actor, Guard, MemoryLog, Subject
from metier.guard.governance import Governance, InForce
from metier.guard.program_layer import ProgramLayer
from metier.proof.recorded_skills import RecordedSkills, SkillLabel
from metier.session.active_skills import active_skill, subject_of
from metier.store.audit_log import skill_ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metier import Library, Session
    from metier.guard import Decision
    from metier.guard.policy.files import Policies
    from metier.proof.recorded_skills import RecordedSkill
    from metier.session.active_skills import ActiveSkill
    from metier.skill.package import Files
    from metier.store import GovernanceState, TenantScope

ReplayStatus: TypeAlias = Literal["equal", "changed", "other-rule", "unclear"]
"""Equal in outcome, rule and code; another outcome; the same by another rule or code; or not to be replayed exactly."""
UNCLEAR: Mapping[str, str] = {
    "not-by-guard": "Another part than the guard decided, or the record is of a version that does not say on what.",
    "answered": "Somebody was asked, and the answer decided.",
    "arguments-redacted": "A secret was taken out of the arguments.",
    "arguments-shortened": "The record has a part of the arguments; `audit.max-arguments` of a policy keeps more.",
    "arguments-not-json": "The arguments were more than JSON holds.",
    "content-gone": "The content of a skill is neither in the library nor kept in the store.",
    "place-gone": "The place that a skill was in is not here: how binding its allowed-tools were is not known.",
    "program-gone": "The policy of the program is not kept in the store.",
    "workspace-gone": "The workspace is not here, so that nobody can see where its links led.",
    "state-unknown": "The approvals and quarantines of that time are not known.",
    "changed-meanwhile": "Somebody decided about skills while it was under way.",
    "lock-now": "The lock file is as it is now.",
    "installs-now": "The record of what is installed is as it is now.",
    "names-now": "The names of the skills of the enterprise layer are as they are now.",
    "scanners-now": "Other scanners count with what they say now.",
    "failed": "It could not be decided again.",
}
"""Why a decision cannot be replayed exactly, by code."""
_DECIDED = frozenset({"load", "call", "read", "run", "hook", "inject"})
_BY_PRESENT = {
    "lock": "lock-now",
    "integrity": "installs-now",
    "installs": "installs-now",
    "skills.enterprise-names: reserve": "names-now",
}
"""Checks that look at what is there now, with the code of what they make of the past."""
_OF_STATE = frozenset(
    {"skill-quarantined", "integrity-failed", "skill-disabled", "approval-needed", "approval-denied", "name-reserved"}
)
_MOST = 10_000
_NEAR = 1_000
"""Records before one among which others may have been written while it was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """A decision as far as two are compared."""

    outcome: str
    rule: str
    code: str
    would: str = ""
    """The outcome that a policy in the mode `audit` would enforce."""

    def __str__(self) -> str:
        return f"{self.outcome} (would {self.would})" if self.would else self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedDecision:
    """A recorded decision, and the one that is made today."""

    seq: int
    """The number of the record, or its place in a file."""
    session: str
    at: str
    point: str
    skill: str
    """`name@source`; for a tool call the skill loaded last."""
    what: str
    """The tool with its arguments, the path or the command."""
    then: ReplayOutcome
    now: ReplayOutcome | None
    """None where nothing can be decided."""
    codes: tuple[str, ...] = ()
    """Why it is not exact; see `UNCLEAR`."""

    @property
    def status(self) -> ReplayStatus:
        """The result of the comparison."""
        if self.codes or self.now is None:
            return "unclear"
        if (self.now.outcome, self.now.would) != (self.then.outcome, self.then.would):
            return "changed"
        return "equal" if self.now == self.then else "other-rule"


@dataclass(slots=True, kw_only=True)
class ReplayReport:
    """The comparison of many decisions."""

    counts: Counter[str] = field(default_factory=Counter)
    """Decisions by status."""
    by_rule: Counter[str] = field(default_factory=Counter)
    """Changed decisions by the rule that decides now, or where nothing does any more, by the one that did."""
    by_skill: Counter[str] = field(default_factory=Counter)
    """Changed decisions by skill."""
    by_code: Counter[str] = field(default_factory=Counter)
    """Unclear decisions by code; some have several."""
    sessions: set[str] = field(default_factory=set)
    decisions: list[ReplayedDecision] = field(default_factory=list)
    """Those that are not equal, up to 10,000."""

    def add(self, one: ReplayedDecision) -> None:
        """Count a decision."""
        self.sessions.add(one.session)
        self.counts[one.status] += 1
        self.by_code.update(one.codes)
        if one.status == "changed" and one.now is not None:
            decides = one.now if one.now.outcome != "allow" or one.now.would else one.then
            self.by_rule[decides.rule] += 1
            self.by_skill[one.skill] += 1
        if one.status != "equal" and len(self.decisions) < _MOST:
            self.decisions.append(one)


class Replay:
    """Decides recorded actions again: of one log, in the order of its records."""

    def __init__(
        self,
        library: Library,
        scope: TenantScope | None = None,
        *,
        policies: Policies | None = None,
        instead: Mapping[str, Files] | None = None,
        has_past: bool = True,
    ) -> None:
        """Decide about skills of a library and of the store, under the policy in force here or that of `policies`.

        `scope` is where the records come from; for others, which have no past in it, and without it, approvals and
        quarantines of their time are not known.
        """
        self._library = library
        self._scopes = () if scope is None else (scope, *([scope.store.of("")] if scope.tenant else []))
        has_past = has_past and scope is not None
        self.governance = Governance(policies, store=scope.store.url if has_past and scope is not None else None)
        self._skills = RecordedSkills(library, self._scopes, instead or {})
        self._past = [one.past_states() for one in self._scopes if has_past]
        self._sessions: dict[str, Session | None] = {}
        self._active: dict[str, dict[str, SkillLabel]] = {}
        self._last: dict[tuple[str, str], int] = {}

    def run(
        self, records: Iterable[tuple[int, Mapping[str, Any]]], *, session: str | None = None, since: str = ""
    ) -> Iterator[ReplayedDecision]:
        """Yield the decisions of all sessions, or of one, from a time on; all records are needed for what they load."""
        for seq, record in records:
            own, event = text_at(record, "session"), text_at(record, "event")
            if parent := text_at(record, "parent"):
                self._skills.note_parent(own, parent)
            if event in _DECIDED and own:
                if session in (None, own) and text_at(record, "timestamp") >= since:
                    yield self._replayed(seq, record)
                if digest := text_at(record, "digest"):
                    self._last[own, digest] = seq
            if event in ("load", "unload"):
                self._follow(own, record)

    def _follow(self, session: str, record: Mapping[str, Any]) -> None:
        """Take over what a load, or the end of one, says of the session."""
        active, name = self._active.setdefault(session, {}), text_at(record, "skill")
        active.pop(name, None)
        if record.get("event") == "load" and record.get("decision") == "allow" and record.get("success") is not False:
            label = SkillLabel(name, text_at(record, "source"), text_at(record, "digest"))
            active[name] = label
            self._skills.note(session, label, _facts(record).get("copy", ""))
        if not active:
            del self._active[session]

    def _replayed(self, seq: int, record: Mapping[str, Any]) -> ReplayedDecision:
        outcome, rule, code, would = (text_at(record, name) for name in ("decision", "rule", "code", "would"))
        then = ReplayOutcome(outcome=outcome, rule=rule, code=code, would=would)
        asked = _Asked(record=record, facts=_facts(record))
        try:
            decision: Decision | None = self._decide(seq, asked)
        except (MetierError, ValueError, TypeError, KeyError, AttributeError):
            decision = None
            asked.codes.append("failed")
        now = None
        if decision is not None:
            now = _compared(decision, then, has_failed=record.get("success") is False)
            if now != then:
                asked.codes += self._doubts(asked, then, now)
        return ReplayedDecision(
            seq=seq,
            session=text_at(record, "session"),
            at=text_at(record, "timestamp"),
            point=text_at(record, "event"),
            skill=skill_ref(record),
            what=" ".join(filter(None, (text_at(record, name) for name in ("tool", "path", "command", "arguments")))),
            then=then,
            now=now,
            codes=tuple(dict.fromkeys(asked.codes)),
        )

    def _doubts(self, asked: _Asked, then: ReplayOutcome, now: ReplayOutcome) -> Iterator[str]:
        """The codes of a difference that need not be one of policy or content."""
        for rule in (then.rule, now.rule):
            if (check := rule.partition(" (")[0]) in _BY_PRESENT:
                yield _BY_PRESENT[check]
        if not self._past and _OF_STATE & {then.code, now.code}:
            yield "state-unknown"
        if asked.record.get("event") == "load" and self.governance.effective.scan.commands:
            yield "scanners-now"

    def _decide(self, seq: int, asked: _Asked) -> Decision | None:
        record, facts = asked.record, asked.facts
        if not facts:
            asked.codes.append("not-by-guard")
        if record.get("answered_by") or "answered" in facts:
            asked.codes.append("answered")
        session = self._session(facts.get("program", "none"))
        if session is None:
            asked.codes.append("program-gone")
            return None
        actor = _actor_of(record)
        action = self._call(session, asked) if record.get("event") == "call" else self._use(session, asked)
        if action is None:
            return None
        states = self._states(seq, asked)
        effective = self.governance.effective
        in_force = InForce(effective, states, actor.tenant) if states else None
        return session.guard.decide(action, actor, in_force)

    def _states(self, seq: int, asked: _Asked) -> tuple[GovernanceState, ...]:
        """The states of the store when an action began, the installation's first."""
        if not self._past:
            return ()
        record, own = asked.record, self._past[0]
        at, key = text_at(record, "timestamp"), (text_at(record, "session"), text_at(record, "digest"))
        # What it led to, such as an approval by policy, is on record before it is.
        since = own.deciding(self._last.get(key, 0), seq) if key[1] else []
        led_to = tuple(number for number, one in since if (one.get("session"), one.get("digest")) == key)
        began = _milliseconds(record, began=True)
        others = (one for number, one in own.deciding(seq - _NEAR, seq) if number not in led_to)
        if any(_milliseconds(one) >= began + 1 for one in others):
            asked.codes.append("changed-meanwhile")
        common = [past.before(at) for past in self._past[1:]]
        return (*common, own.before(at, seq, without=led_to))

    def _session(self, program: str) -> Session | None:
        """A session in which nothing is loaded, under the policy that a program had; None where nobody kept that."""
        if program not in self._sessions:
            texts = (scope.policies.texts(program).get("") for scope in self._scopes)
            text = "" if program == "none" else next(filter(None, texts), None)
            self._sessions[program] = None
            if text is not None:
                layer = ProgramLayer.of(text)
                guard = Guard(layer.policy, audit=MemoryLog(), governance=self.governance)
                guard.block(*layer.blocks)
                self._sessions[program] = self._library.session(guard=guard, workspace="/")
        return self._sessions[program]

    def _call(self, session: Session, asked: _Asked) -> Action | None:
        """A tool call under the rules of the skills that were active, or of those that the record names instead."""
        record, facts = asked.record, asked.facts
        if lacks := facts.get("arguments"):
            asked.codes.append(f"arguments-{lacks}")
        arguments = object_of(text_at(record, "arguments") or "{}")
        if arguments is None:
            asked.codes.append("arguments-shortened")
            return None
        workspace = facts.get("workspace", "")
        if facts and not os.path.isdir(workspace):
            asked.codes.append("workspace-gone")
        texts = [one for one in record.get("skills") or () if isinstance(one, str)]
        active = [self._loaded(session, asked, SkillLabel.of(text)) for text in texts]
        action = session.calls.action(
            text_at(record, "tool"),
            arguments,
            [one for one in active if one is not None],
            is_control="control" in facts,
        )
        if "under" in facts:
            labels = [SkillLabel.of(one) for one in facts["under"].split("\n") if one]
            above = [self._loaded(session, asked, label) for label in labels]
            action = replace(action, ceilings=tuple(one.ceiling for one in above if one is not None))
        return replace(action, workspace=workspace)

    def _loaded(self, session: Session, asked: _Asked, label: SkillLabel) -> ActiveSkill | None:
        found = self._skills.find(text_at(asked.record, "session"), label)
        if found.code:
            asked.codes.append(found.code)
        if found.entry is None:
            return None
        package, guard = found.entry.package, session.guard
        root = found.root or os.path.dirname(found.entry.location)
        where = {"workspace": asked.facts.get("workspace", ""), "session": text_at(asked.record, "session")}
        active = active_skill(
            found.entry, found.entry.skill, found.digest, package.listing(), guard, root=root, **where
        )
        if found.root or self.governance.effective.allowed_tools:
            return active
        # A protected client has no copies of skills, and holds it to their lists.
        return replace(active, ceiling=replace(active.ceiling, advisory=""))

    def _use(self, session: Session, asked: _Asked) -> Action:
        """A load, a read or a run, of the content that the record names."""
        record, facts = asked.record, asked.facts
        subject = self._subject(asked)
        by = cast("Literal['model', 'user', 'host', 'client']", text_at(record, "by") or "model")
        point = cast("Literal['load', 'read', 'run', 'hook', 'inject']", record["event"])
        action = Action(
            point=point,
            skill=subject,
            tool=text_at(record, "tool"),
            path=text_at(record, "path"),
            command=text_at(record, "command"),
            by=by,
            nested=record.get("trigger") == "nested",
            isolated="unsandboxed" not in facts,
        )
        if point != "load" or subject is None:
            return action
        rivals = frozenset(facts["rivals"].split(",")) if "rivals" in facts else frozenset[str]()
        if not rivals and subject.entry is not None:
            rivals = session.parts.known.load_action(subject.entry, subject.digest, by).rivals
        held = self._active.get(text_at(record, "session"), {})
        others = [self._skills.find("", label) for name, label in held.items() if name != subject.name]
        beside = tuple(subject_of(one.entry, one.digest) for one in others if one.entry is not None)
        return replace(action, rivals=rivals, beside=beside)

    def _subject(self, asked: _Asked) -> Subject | None:
        record, facts = asked.record, asked.facts
        name, source, digest, layer = (text_at(record, key) for key in ("skill", "source", "digest", "layer"))
        if not name:
            return None
        trusted = "untrusted" not in facts
        plain = Subject(
            name=name,
            digest=digest,
            layer=layer,
            source=source,
            trusted=trusted,
            for_models="no-model" not in facts,
            for_people="no-person" not in facts,
        )
        if not digest:
            return plain
        found: RecordedSkill = self._skills.find(
            text_at(record, "session"), SkillLabel(name, source, digest), layer, trusted=trusted
        )
        if found.code == "content-gone":
            asked.codes.append(found.code)
        if found.entry is None:
            return plain
        if found.digest != digest:
            return replace(subject_of(found.entry, found.digest), trusted=trusted, layer=layer)
        return replace(plain, entry=found.entry)


@dataclass(slots=True, kw_only=True)
class _Asked:
    """A record that is decided about again, with what was found against its being exact."""

    record: Mapping[str, Any]
    facts: Mapping[str, str]
    codes: list[str] = field(default_factory=list)


def _facts(record: Mapping[str, Any]) -> dict[str, str]:
    """The facts in a record by their names; one that is there several times has a line for each."""
    found: dict[str, str] = {}
    basis = record.get("basis")
    for text in basis if isinstance(basis, list | tuple) else ():
        name, _, value = str(text).partition(" ")
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def _compared(decision: Decision, then: ReplayOutcome, *, has_failed: bool) -> ReplayOutcome:
    """A decision as its record would have it: one that was allowed and failed has the code of that."""
    code = decision.code
    if decision.is_allowed and has_failed:
        code = then.code if then.outcome == "allow" else code
    elif not decision.is_allowed and then.code == decision.as_error().code:
        code = then.code
    rule = decision.rule
    rule = then.rule if _is_cut(then.rule, rule) else rule
    return ReplayOutcome(outcome=decision.outcome, rule=rule, code=code, would=decision.would or "")


def _is_cut(kept: str, whole: str) -> bool:
    return kept.endswith(" characters)") and whole.startswith(kept.rpartition("… (")[0])


def _actor_of(record: Mapping[str, Any]) -> Actor:
    names = ("agent", "task", "tenant", "environment", "user", "session", "correlation_id", "parent", "model")
    return Actor(**{name: text_at(record, name) or None for name in names})


def _milliseconds(record: Mapping[str, Any], *, began: bool = False) -> float:
    """The time of a record, or of the beginning of what it is about."""
    took = record.get("duration_ms")
    at = datetime.fromisoformat(text_at(record, "timestamp")).timestamp() * 1000
    return at - took if began and isinstance(took, int | float) else at
