"""What decisions depend on, read once and kept until something of it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier.store.approvals import Approval, approval_of, missing
from metier.store.blocks import split_block
from metier.store.installs import Install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.store.ledger import DecisionReader, RecordedDecisions
    from metier.store.rows import Position, TenantRows

_APPROVAL = tuple(field.name for field in fields(Approval))
_ID, _DIGEST, _SKILL, _LOCATION, _DECISION, _REVOKED = map(
    _APPROVAL.index, ("id", "digest", "skill", "location", "decision", "revoked_at")
)
_INSTALL = tuple(field.name for field in fields(Install))
_BLOCKS = 'SELECT kind, value, "by" FROM blocks WHERE tenant = ?'
_APPROVALS = f"SELECT {', '.join(_APPROVAL)} FROM approvals WHERE tenant = ? ORDER BY decided_at, number, id"
_INSTALLS = f"SELECT {', '.join(_INSTALL)} FROM installs WHERE tenant = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernanceState:
    """Blocks, approvals and installs at some moment."""

    is_readable: bool = True
    """False where the store cannot be used: nothing can be told then."""
    blocked: frozenset[tuple[str, str]] = frozenset()
    """`("digest", "sha256:..."), ("name", "x"), ("source", "y")`."""
    blocked_by: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))
    """The people who blocked them, as far as that is known."""
    approvals: Mapping[str, tuple[Approval, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By digest, the oldest first; without those that were revoked."""
    digests: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The contents that something was decided about, by `name@source` and folder of the skill, the oldest first."""
    has_refusals: bool = False
    """Whether somebody decided against some content."""
    installs: Mapping[str, Install] = field(default_factory=lambda: MappingProxyType({}))
    """By the folder of the skill."""


class _Approvals(Mapping[str, tuple[Approval, ...]]):
    """Approvals by digest; each is made when it is first asked for, because few of many are."""

    def __init__(self, rows: list[tuple[Any, ...]], ledger: RecordedDecisions) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._made: dict[str, tuple[Approval, ...]] = {}
        self._ledger = ledger
        for row in rows:
            self._rows.setdefault(row[_DIGEST], []).append(row)
        self._missing: dict[str, list[Approval]] = {}
        for one in missing({row[_ID] for row in rows}, ledger):
            if not one.revoked_at:
                self._missing.setdefault(one.digest, []).append(one)
                self._rows.setdefault(one.digest, [])

    def __getitem__(self, digest: str) -> tuple[Approval, ...]:
        made = self._made.get(digest)
        if made is None:
            rows = (dict(zip(_APPROVAL, row, strict=True)) for row in self._rows[digest])
            found = [approval_of(row, self._ledger) for row in rows]
            counting = (one for one in (*found, *self._missing.get(digest, ())) if one is not None)
            made = self._made[digest] = tuple(one for one in counting if not one.revoked_at)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<approvals of {len(self)} contents>"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedState:
    """A state, and up to where it was seen to be what decisions depend on."""

    state: GovernanceState
    position: Position
    ledger: RecordedDecisions

    def moved(self, position: Position, ledger: RecordedDecisions) -> CachedState | None:
        """The same at a later position, if nobody decided anything in between; None if somebody did."""
        if position[0] != self.position[0] or not ledger.decides_as(self.ledger):
            return None
        return CachedState(state=self.state, position=position, ledger=ledger)


def read_state(rows: TenantRows, ledgers: DecisionReader) -> CachedState:
    """The state at this moment: what the rows say, as far as the audit trail bears it out."""
    with rows.snapshot():
        position = rows.position()
        ledger = ledgers.of(rows)
        blocks = rows.statement(_BLOCKS)
        approvals = rows.statement(_APPROVALS)
        installs = [Install(**dict(zip(_INSTALL, row, strict=True))) for row in rows.statement(_INSTALLS)]
    refused = any(one["decision"] == "denied" and "revoked_at" not in one for one in ledger.against.values())
    has_refusals = refused or any(row[_DECISION] != "approved" and not row[_REVOKED] for row in approvals)
    digests: dict[tuple[str, str], dict[str, None]] = {}
    for row in approvals:
        if not row[_REVOKED]:
            digests.setdefault((row[_SKILL], row[_LOCATION]), {})[row[_DIGEST]] = None
    state = GovernanceState(
        blocked=frozenset(
            (*((kind, value) for kind, value, _ in blocks), *(split_block(what) for what in ledger.blocked))
        ),
        blocked_by=MappingProxyType({(kind, value): by for kind, value, by in blocks}),
        approvals=_Approvals([row for row in approvals if not _is_settled(row, ledger)], ledger),
        digests=MappingProxyType({skill: tuple(found) for skill, found in digests.items()}),
        has_refusals=has_refusals,
        installs=MappingProxyType({install.location: install for install in installs}),
    )
    return CachedState(state=state, position=position, ledger=ledger)


def _is_settled(row: tuple[Any, ...], ledger: RecordedDecisions) -> bool:
    """Whether an approval was revoked, and no record says that it was a refusal which stands."""
    against = ledger.against.get(row[_ID])
    return bool(row[_REVOKED]) and (against is None or "revoked_at" in against)
