"""Telemetry of an audit record: metrics, and attributes on the span of its tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier import _telemetry
from metier._telemetry import OTHER

if TYPE_CHECKING:
    from metier._telemetry import ToolCall
    from metier.guard.audit.log import AuditRecord

_PATHS = frozenset({"file-missing", "file-refused"})
_NO_RULES = frozenset({"script-read", "file-missing", "session-not-found", "audit-unavailable"})
"""Refusals that are counted elsewhere, or that break no rule."""


def measure_record(record: AuditRecord) -> None:
    """Count a record in the metrics, and describe it on the current span."""
    call = _telemetry.current_call()
    if _telemetry.is_measuring():
        _count(record, call)
    if call is not None:
        _describe(record, call)


def _count(record: AuditRecord, call: ToolCall | None) -> None:
    event, code, model = record.event, record.code, record.model
    outcome = "ok" if record.success else code or ("failed" if record.decision == "allow" else record.decision)
    # Only names that exist: invented names would make the set of labels unbounded.
    skill = (record.skill if record.layer else OTHER) if record.skill else _owner(record)
    tool = OTHER if code == "tool-not-found" else record.tool or (call.name if call is not None else "")
    if event == "call":
        seconds = record.duration_ms / 1_000
        _telemetry.measure("tool.duration", seconds, tool=tool, outcome=outcome, model=model)
    elif event == "load":
        _telemetry.measure("skill.activations", skill=skill, outcome=outcome, model=model)
    elif event == "run" and record.skill and record.decision == "allow":
        _telemetry.measure("script.executions", skill=skill, outcome=outcome, model=model)
    found = mistake_of(record)
    # A call of a tool that reads leaves two records of the same failure: the read and the call.
    if found and (call is None or call.is_first(found)):
        _telemetry.measure(found, skill=skill, tool=tool, outcome=outcome, model=model)
    if breaks_rule(record):
        _telemetry.measure("rule.violations", skill=skill, tool=tool, outcome=outcome, model=model)


def mistake_of(record: AuditRecord) -> str:
    """The metric of a model's mistake that a record tells of: a wrong path, or a script that it reads; empty for none.

    A call of a tool that reads leaves two records of the same mistake: the read and the call.
    """
    if record.event not in ("call", "read", "run"):
        return ""
    if record.code in _PATHS:
        return "path.failures"
    return "script.read_attempts" if record.code == "script-read" or (record.event == "read" and record.command) else ""


def breaks_rule(record: AuditRecord) -> bool:
    """Whether a record is of something that a rule refused."""
    return record.code not in _NO_RULES and (record.decision == "deny" or record.code == "tool-not-allowed")


def _describe(record: AuditRecord, call: ToolCall) -> None:
    if record.event == "call":
        call.describe(
            gen_ai__conversation__id=record.session,
            gen_ai__agent__name=record.agent,
            gen_ai__request__model=record.model,
            metier__skill__active=record.active,
            metier__skill__fork__parent=record.parent,
        )
    elif record.layer and record.event in ("load", "unload", "read", "run"):
        is_first = call.is_first("gen_ai.skill.name")
        # A replaced skill is unloaded after the new one was loaded, and is not the subject of the call.
        if is_first or record.event != "unload":
            call.describe(
                gen_ai__skill__name=record.skill,
                gen_ai__skill__resource__name=record.path if record.success else "",
                metier__skill__digest=record.digest,
                metier__skill__layer=record.layer,
            )
    if record.decision != "allow":
        call.describe(metier__skill__denied_by=record.rule)


def _owner(record: AuditRecord) -> str | None:
    """The active skill whose rule decided about a call."""
    owner = record.rule.partition(": ")[0]
    return owner if owner in record.active else None
