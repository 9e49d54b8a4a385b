"""One action on its way through the guard, and the record that it leaves."""

from __future__ import annotations

import functools
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field
from metier.errors import MetierError
from metier.guard.audit.log import AuditRecord, actor_fields
from metier.guard.audit.redaction import redact
from metier.guard.decision import amend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from metier.guard.decision import Action, Actor, Decision

_MAX_TEXT = 2_000


@dataclass(slots=True, eq=False)
class AuditedAction:
    """One action on its way: the decision about it, and the audit record that it leaves when it ends."""

    _keep: Callable[[AuditRecord], None]
    _action: Action
    _actor: Actor
    decision: Decision
    _active: tuple[str, ...] = ()
    """The active skills, each as `name@source#digest`; whoever knows no more than a name gives that."""
    agreed_to: Decision | None = None
    """The question that somebody said yes to; None where nobody was asked."""
    policy: str = ""
    """The digest of the policy that is in force."""
    max_output: int = 0
    """The characters of the output that go into the record."""
    max_arguments: int = _MAX_TEXT
    """The characters of the arguments that go into the record."""
    basis: tuple[str, ...] = ()
    """The facts that the guard decided on; empty where it was not the guard that decided."""
    hide: Callable[[str], str] = redact
    """The function that keeps secrets out of the record."""
    _is_closed: bool = field(default=False, init=False)
    _started: float = field(default_factory=time.perf_counter, init=False)
    _terms: dict[str, Any] = field(default_factory=dict, init=False)

    def require(self) -> None:
        """Raise `Refused` unless it was allowed."""
        if not self.decision.is_allowed:
            raise self.decision.as_error()

    def revoke(self, against: Decision) -> None:
        """Refuse what was allowed, for a reason that was found before it happened."""
        agreed = "" if self.agreed_to is None else f"{self.decision.reason} "
        self.decision = amend(against, reason=f"{agreed}{against.reason}")
        self.basis = ()

    def note_copy(self, root: str) -> None:
        """Note the folder of the verified copy of the skill: what is decided from then on may name files in it."""
        self.basis = (*self.basis, f"copy {root}") if self.basis else ()

    def runs_with(self, *, network: str = "", secrets: Sequence[str] = (), notes: Sequence[str] = ()) -> None:
        """Note the network, secrets and notes of a run, for the record."""
        self._terms = {"network": network, "secrets": tuple(secrets), "notes": tuple(notes)}

    def close(
        self,
        *,
        success: bool | None = None,
        code: str = "",
        exit_code: int | None = None,
        duration_ms: float | None = None,
        runner: str = "",
        contacts: Sequence[str] = (),
        output: str = "",
        output_digest: str = "",
        active: tuple[str, ...] | None = None,
        **more: Any,
    ) -> None:
        """Write the record; a second time does nothing. The duration is that of the audited action unless given.

        `active` are the skills that are active at its end, where it has changed that; `more` are fields of the record.
        """
        if self._is_closed:
            return
        self._is_closed = True
        took = (time.perf_counter() - self._started) * 1000
        action, decision = self._action, self.decision
        active = self._active if active is None else active
        subject, basis = action.skill, self.basis
        arguments, lacks = ("", "") if action.point != "call" else _arguments(action, self.max_arguments)
        self._keep(
            AuditRecord(
                timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
                event=action.point,
                decision=decision.outcome,
                reason=_shortened(self.hide(decision.reason)),
                rule=_shortened(decision.rule),
                would=decision.would or "",
                policy=self.policy,
                code=code or decision.code,
                skill=subject.name if subject is not None else "",
                digest=subject.digest if subject is not None else "",
                layer=subject.layer if subject is not None else "",
                source=subject.source if subject is not None else action.source,
                trigger="nested" if action.nested else action.by,
                output=_shortened(self.hide(output), self.max_output) if output else "",
                output_digest=output_digest,
                request=decision.request,
                active=_names_of(active),
                skills=active,
                tool=_shortened(action.tool),
                path=_shortened(action.path),
                command=_shortened(self.hide(action.command)) if action.command else "",
                arguments=arguments,
                basis=(*basis, f"arguments {lacks}") if basis and lacks else basis,
                by=action.by,
                answered_by=decision.answered_by,
                success=success if decision.is_allowed else False,
                exit_code=exit_code,
                duration_ms=round(took if duration_ms is None else duration_ms, 3),
                runner=runner,
                contacts=tuple(contacts),
                **actor_fields(self._actor),
                **self._terms,
                **more,
            )
        )

    def __enter__(self) -> AuditedAction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(success=error is None, code=failure_code(error))


@functools.lru_cache(64)
def _names_of(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The names of skills that are given as `name@source#digest`; a conversation has the same ones for long."""
    return tuple(label.partition("@")[0] for label in labels)


def failure_code(error: BaseException | None) -> str:
    """The code of a record for the error that an action ended in."""
    if error is None:
        return ""
    if isinstance(error, MetierError):
        return error.code
    return "failed" if isinstance(error, Exception) else "cancelled"


def _arguments(action: Action, most: int) -> tuple[str, str]:
    """The arguments as JSON, and what makes them other than they were: `redacted`, `shortened` or `not-json`."""
    values = dict(action.arguments)
    try:
        whole, lacks = _ENCODE(values), ""
    except (TypeError, ValueError, RecursionError):
        try:
            whole, lacks = _ENCODE_ANYTHING(values), "not-json"
        except (TypeError, ValueError, RecursionError):
            return "(not JSON)", "not-json"
    hidden = redact(whole)
    lacks = lacks or ("redacted" if hidden != whole else "shortened" if len(hidden) > most else "")
    return _shortened(hidden, most), lacks


def basis_of(
    action: Action, active: Sequence[str], program: str, first: Decision, decision: Decision
) -> tuple[str, ...]:
    """The facts that a decision rests on and no other field of its record has, from which it can be made again.

    `first` is the decision before anybody was asked.
    """
    subject, flags = action.skill, list[str]()
    if first.outcome == "ask" and (decision.outcome != "ask" or decision.code == "approval-pending"):
        flags.append("answered")
    if subject is not None:
        held = (("untrusted", subject.trusted), ("no-model", subject.for_models), ("no-person", subject.for_people))
        flags += [word for word, holds in held if not holds]
    if not action.isolated:
        flags.append("unsandboxed")
    if action.is_control:
        flags.append("control")
    elif len(action.ceilings) != len(active):  # not those of the active skills alone
        flags += ["under", *(f"under {one.owner}#{one.digest[7:19]}" for one in action.ceilings)]
    if action.rivals:
        flags.append(f"rivals {','.join(sorted(action.rivals))}")
    return _basis(program, action.workspace, tuple(flags))


@functools.lru_cache(256)
def _basis(program: str, workspace: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    return (f"program {program or 'none'}", *([f"workspace {workspace}"] if workspace else []), *flags)


def _type_name(value: Any) -> str:
    return f"({type(value).__name__})"


_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_ENCODE_ANYTHING = json.JSONEncoder(default=_type_name, ensure_ascii=False).encode


def _shortened(text: str, most: int = _MAX_TEXT) -> str:
    if len(text) <= most or not most:
        return text if most else ""
    return f"{text[:most]}… ({len(text):,} characters)"
