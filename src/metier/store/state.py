"""What decisions depend on, read once and kept until something of it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from metier.store.approvals import APPROVAL_JSON, Approval
from metier.store.codec import unpacked
from metier.store.installs import Install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.store.rows import Rows

_APPROVAL = tuple(field.name for field in fields(Approval))
_DIGEST, _SKILL, _LOCATION, _DECISION = map(_APPROVAL.index, ("digest", "skill", "location", "decision"))
_INSTALL = tuple(field.name for field in fields(Install))
_BLOCKS = "SELECT kind, value FROM blocks WHERE tenant = ?"
_APPROVALS = (
    f"SELECT {', '.join(_APPROVAL)} FROM approvals WHERE tenant = ? AND revoked_at = '' ORDER BY decided_at, id"
)
_INSTALLS = f"SELECT {', '.join(_INSTALL)} FROM installs WHERE tenant = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Blocks, approvals and installs at some moment."""

    generation: int = 0
    blocked: frozenset[tuple[str, str]] = frozenset()
    """`("digest", "sha256:..."), ("name", "x"), ("source", "y")`."""
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

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._made: dict[str, tuple[Approval, ...]] = {}
        for row in rows:
            self._rows.setdefault(row[_DIGEST], []).append(row)

    def __getitem__(self, digest: str) -> tuple[Approval, ...]:
        made = self._made.get(digest)
        if made is None:
            rows = (dict(zip(_APPROVAL, row, strict=True)) for row in self._rows[digest])
            made = self._made[digest] = tuple(unpacked(Approval, row, APPROVAL_JSON) for row in rows)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<approvals of {len(self)} contents>"


def read_state(rows: Rows) -> State:
    """The state at this moment."""
    with rows.snapshot():
        generation = rows.generation()
        blocks = rows.statement(_BLOCKS)
        approvals = rows.statement(_APPROVALS)
        installs = [Install(**dict(zip(_INSTALL, row, strict=True))) for row in rows.statement(_INSTALLS)]
    has_refusals = any(row[_DECISION] != "approved" for row in approvals)
    digests: dict[tuple[str, str], dict[str, None]] = {}
    for row in approvals:
        digests.setdefault((row[_SKILL], row[_LOCATION]), {})[row[_DIGEST]] = None
    return State(
        generation=generation,
        blocked=frozenset((kind, value) for kind, value in blocks),
        approvals=_Approvals(approvals),
        digests=MappingProxyType({skill: tuple(found) for skill, found in digests.items()}),
        has_refusals=has_refusals,
        installs=MappingProxyType({install.location: install for install in installs}),
    )
