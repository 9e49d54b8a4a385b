"""One record as the audit trail keeps it: what it says, what it is searched by, and what ties it to the others."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metier.store.canonical_json import canonical_or_none, chain_hash, is_canonical, is_readable, parse_strict

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS = {
    "ts": "timestamp",
    "event_type": "type",
    "env": "environment",
    "session": "session",
    "trace_id": "correlation_id",
    "digest": "digest",
    "layer": "layer",
    "point": "event",
    "outcome": "decision",
    "rule_id": "rule",
    "policy_digest": "policy",
}
"""The columns that are a field of the record."""
COLUMNS = (*_FIELDS, "actor_kind", "actor_id", "skill_ref")
# The canonical form of a record has no spaces, and no text inside of it has a quote that is not escaped.
_DECISION = re.compile(
    r'"type":"(?:approval\.(?:granted|automatic|denied|revoked)|skill\.(?:quarantined|released)'
    r'|person\.(?:added|removed)|token\.(?:made|revoked))"'
)
_ACTORS = {"model": "agent", "user": "user", "host": "host", "client": "host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """What a record was given when it was kept: its place in the chain, and its hash."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedRecord:
    """One record as the trail keeps it, and what ties it to the one before."""

    tenant: str
    seq: int
    record: dict[str, Any] | None
    """What it says; None if that cannot be read, which nothing that was appended is."""
    text: str
    """The same in the form that its hash was taken of."""
    previous: str
    hash: str
    columns: Mapping[str, str] | None = None
    """What is kept beside it to search by; None where it does not come from a database."""

    @property
    def is_whole(self) -> bool:
        """Whether it fits itself: its number, its tenant, its columns and its hash are those of what it says."""
        if type(self.seq) is not int or self.seq < 1 or self.record is None:
            return False
        if (self.record.get("seq"), self.record.get("tenant")) != (self.seq, self.tenant):
            return False
        if self.columns is not None and columns_of(self.record) != self.columns:
            return False
        return chain_hash(self.previous, self.text) == self.hash


def columns_of(record: Mapping[str, Any]) -> dict[str, str]:
    """What is kept beside a record to search by."""
    found = {column: _column(record.get(name)) for column, name in _FIELDS.items()}
    by, user, agent = record.get("by"), _column(record.get("user")), _column(record.get("agent"))
    kind = _ACTORS.get(by, "") if isinstance(by, str) else ""
    if not kind:
        kind = "user" if user else "agent" if agent else ""
    found["actor_kind"] = kind
    found["actor_id"] = user if kind == "user" else agent or user if kind == "host" else agent
    found["skill_ref"] = skill_ref(record)
    return found


def skill_ref(record: Mapping[str, Any]) -> str:
    """The skill that a record is about, as `name@source`; for a tool call the one that was loaded last.

    >>> skill_ref({"skill": "pdf", "source": "acme"}), skill_ref({"active": ["notes", "pdf"]})
    ('pdf@acme', 'pdf')
    """
    skill, source, active = _column(record.get("skill")), _column(record.get("source")), record.get("active")
    if skill:
        return f"{skill}@{source}" if source and "@" not in skill else skill
    return _column(active[-1]) if isinstance(active, list | tuple) and active else ""


def _column(value: Any) -> str:
    return value if isinstance(value, str) else ""


def is_decision(text: str) -> bool:
    """Whether a record is one that decisions depend on."""
    return _DECISION.search(text) is not None


def record_of(text: str) -> dict[str, Any] | None:
    """The record in a text; None where the text is not in the one form that the trail writes.

    >>> record_of('{"seq":1}'), record_of('{"seq":1,"seq":2}'), record_of('{"seq": 1}')
    ({'seq': 1}, None, None)
    """
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not is_readable(found):
        return None
    if is_canonical(found, text):
        return found
    found = parse_strict(text)  # whole numbers that only a float can hold are written like integers
    return found if found is not None and canonical_or_none(found) == text else None
