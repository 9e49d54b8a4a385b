"""The trace of a trial: calls, refusals and mistakes, by the audit records that it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from metier._json_object import object_of
from metier._lazy import dataclass
from metier.guard.audit.telemetry import breaks_rule, mistake_of
from metier.proof.trial import TracedCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.guard import AuditRecord

_FILE_TOOLS = ("Read", "Edit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A tool call as the model made it, with all of its arguments and its result."""

    tool: str
    arguments: Mapping[str, Any]
    result: str = ""


class TraceCounts(TypedDict):
    """The numbers that models are compared by; a mistake that leaves two records counts once."""

    paths: int
    path_errors: int
    script_reads: int
    violations: int


def loaded_digest(records: Iterable[AuditRecord], skill: str) -> str:
    """The digest of a skill's content that reached the model; empty where none did."""
    for record in records:
        is_read = record.event == "load" or (record.event == "read" and record.path == "SKILL.md")
        if is_read and record.skill == skill and record.decision == "allow" and record.success:
            return record.digest
    return ""


def traced_calls(records: Iterable[AuditRecord], made: Sequence[ModelCall], session: str) -> tuple[TracedCall, ...]:
    """The tool calls of a trial in their order, each by its record.

    Records shorten arguments, so these and the results are those of `made`, the calls of the session's own model. Of
    calls in other sessions, which skills with agents of their own make, the record is all there is.
    """
    left = list(made)
    found = []
    for record in records:
        if record.event != "call":
            continue
        own = None
        if record.session == session:
            place = next((place for place, call in enumerate(left) if call.tool == record.tool), None)
            if place is not None:
                own = left[place]
                del left[: place + 1]
        found.append(
            TracedCall(
                tool=record.tool,
                arguments=(object_of(record.arguments) or {}) if own is None else own.arguments,
                is_whole=own is not None or has_whole_arguments(record),
                outcome=_outcome(record),
                code=record.code,
                result="" if own is None else own.result,
            )
        )
    return tuple(found)


def _outcome(record: AuditRecord) -> Literal["ok", "failed", "refused"]:
    # No rule has to say that a tool which is not there cannot be called.
    if record.code != "tool-not-found" and (record.decision != "allow" or breaks_rule(record)):
        return "refused"
    return "ok" if record.success else "failed"


def has_whole_arguments(record: AuditRecord) -> bool:
    """Whether a record has the arguments of its call as they were."""
    return not any(fact.startswith("arguments ") for fact in record.basis)


def count_trace(records: Iterable[AuditRecord]) -> TraceCounts:
    """The counts of paths and mistakes, as the metrics of telemetry have them."""
    paths = violations = 0
    mistakes = {"path.failures": 0, "script.read_attempts": 0}
    seen: set[str] = set()
    for record in records:
        mistake = mistake_of(record)
        if mistake and mistake not in seen:
            mistakes[mistake] += 1
        violations += breaks_rule(record)
        if record.event in ("read", "run"):
            paths += 1
            seen.add(mistake)
        elif record.event == "call":
            # The read that a call led to was counted already.
            paths += record.tool in _FILE_TOOLS or (mistake == "path.failures" and mistake not in seen)
            seen.clear()
    return TraceCounts(
        paths=paths,
        path_errors=mistakes["path.failures"],
        script_reads=mistakes["script.read_attempts"],
        violations=violations,
    )
