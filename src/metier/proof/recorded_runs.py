"""Runs of scripts and of agents, as audit records tell of them, the newest first."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._json_object import text_at
from metier._lazy import dataclass, replace
from metier.store.audit_filters import AuditFilters, skill_ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.store.audit_search import AuditPlace, AuditSearch, FoundRecord

RunKind: TypeAlias = Literal["script", "agent"]
RunOutcome: TypeAlias = Literal["succeeded", "failed", "timed-out", "denied", "asked"]
_MOST_OF_A_RUN = 5_000
"""The records of one run of an agent that are added up."""
_TIMED_OUT = 124


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run of a script, or of an agent from the first record of its session to the last."""

    kind: RunKind
    name: str
    """The path of the script, or the agent."""
    skill: str
    """The skill of the script, as `name@source`."""
    digest: str
    started_at: str
    ended_at: str
    outcome: RunOutcome
    """For an agent that of its last record."""
    reason: str
    exit_code: int | None
    duration_ms: float
    user: str
    agent: str
    session: str
    parent: str
    """The session of the agent that started this one."""
    calls: int
    refusals: int
    failures: int
    tokens_in: int
    tokens_out: int
    node: str
    seq: int
    """The number of its last record."""


def recorded_runs(
    search: AuditSearch, filters: AuditFilters, *, kind: RunKind | None = None, place: AuditPlace | None = None
) -> Iterator[tuple[RecordedRun | None, AuditPlace]]:
    """Yield the runs among the records that fit, each with the place behind it; None for a record of no run.

    A run of an agent stands where the last of its records does that fits and is no run of a script itself.
    """
    wanted = replace(filters, type="script") if kind == "script" else filters
    last: dict[tuple[str, str, str], int] = {}
    for found in search.newest(wanted, place=place):
        record = found.chained.record or {}
        run, agent, session = None, text_at(record, "agent"), text_at(record, "session")
        if _is_script(record):
            run = _script_run(found, record) if kind != "agent" else None
        elif kind != "script" and agent and session:
            key = (found.node, agent, session)
            if key not in last:
                last[key] = _last_of(search, key, wanted)
            run = _agent_run(search, found, key) if last[key] == found.chained.seq else None
        yield run, found.place


def _outcome(record: Mapping[str, Any]) -> RunOutcome:
    decision = record.get("decision", "allow")
    if decision != "allow":
        return "asked" if decision == "ask" else "denied"
    if record.get("exit_code") == _TIMED_OUT:
        return "timed-out"
    return "failed" if record.get("success") is False else "succeeded"


def _script_run(found: FoundRecord, record: Mapping[str, Any]) -> RecordedRun:
    moment, outcome, exit_code = text_at(record, "timestamp"), _outcome(record), record.get("exit_code")
    return RecordedRun(
        kind="script",
        name=text_at(record, "path") or text_at(record, "command"),
        skill=skill_ref(record),
        digest=text_at(record, "digest"),
        started_at=moment,
        ended_at=moment,
        outcome=outcome,
        reason=text_at(record, "reason"),
        exit_code=exit_code if type(exit_code) is int else None,
        duration_ms=_number(record, "duration_ms"),
        user=text_at(record, "user"),
        agent=text_at(record, "agent"),
        session=text_at(record, "session"),
        parent=text_at(record, "parent"),
        calls=0,
        refusals=int(outcome in ("denied", "asked")),
        failures=int(outcome in ("failed", "timed-out")),
        tokens_in=int(_number(record, "tokens_in")),
        tokens_out=int(_number(record, "tokens_out")),
        node=found.node,
        seq=found.chained.seq,
    )


def _is_script(record: Mapping[str, Any]) -> bool:
    return text_at(record, "type").startswith("script.")


def _last_of(search: AuditSearch, key: tuple[str, str, str], filters: AuditFilters) -> int:
    records = _records_of(search, key, filters, batch=10)
    return next((one.chained.seq for one in records if not _is_script(one.chained.record or {})), 0)


def _records_of(
    search: AuditSearch, key: tuple[str, str, str], filters: AuditFilters, *, batch: int = 500
) -> Iterator[FoundRecord]:
    node, agent, session = key
    wanted = replace(filters, agent=agent, session=session)
    return (one for one in search.newest(wanted, node=node or None, batch=batch) if one.node == node)


def _agent_run(search: AuditSearch, last: FoundRecord, key: tuple[str, str, str]) -> RecordedRun:
    records = [
        one.chained.record or {} for one in itertools.islice(_records_of(search, key, AuditFilters()), _MOST_OF_A_RUN)
    ]
    newest, oldest = records[0], records[-1]
    outcomes = [_outcome(record) for record in records]
    started, ended = text_at(oldest, "timestamp"), text_at(newest, "timestamp")
    return RecordedRun(
        kind="agent",
        name=key[1],
        skill=skill_ref(newest),
        digest="",
        started_at=started,
        ended_at=ended,
        outcome=outcomes[0],
        reason=text_at(newest, "reason"),
        exit_code=None,
        duration_ms=_milliseconds(started, ended),
        user=text_at(newest, "user"),
        agent=key[1],
        session=key[2],
        parent=next((text_at(record, "parent") for record in records if record.get("parent")), ""),
        calls=sum(text_at(record, "type") == "tool.called" for record in records),
        refusals=sum(one in ("denied", "asked") for one in outcomes),
        failures=sum(one in ("failed", "timed-out") for one in outcomes),
        tokens_in=sum(int(_number(record, "tokens_in")) for record in records),
        tokens_out=sum(int(_number(record, "tokens_out")) for record in records),
        node=last.node,
        seq=last.chained.seq,
    )


def _number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return value if isinstance(value, int | float) and 0 <= value < 2**53 else 0


def _milliseconds(started: str, ended: str) -> float:
    try:
        return max(0.0, (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds() * 1_000)
    except (ValueError, TypeError):
        return 0.0
