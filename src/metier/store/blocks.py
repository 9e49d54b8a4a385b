"""Blocked skills, and the evidence that decisions refer to: results of scanners and texts of policy files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.store.rows import Table, now, require_choice, require_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from metier.store.rows import TenantRows
    from metier.store.state import RecordedDecisions

BlockKind: TypeAlias = Literal["name", "digest", "source"]
_SEVERITIES = "SELECT engine, max_severity FROM scans WHERE tenant = ? AND digest = ? ORDER BY engine, number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A blocked name, digest or source."""

    kind: BlockKind
    value: str
    reason: str
    by: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRow:
    """One run of a scanner over one content."""

    digest: str
    engine: str
    engine_version: str = ""
    ruleset: str = ""
    """The digest of its rules."""
    status: str = "ok"
    """`ok`, or `error` for an incomplete run."""
    max_severity: str = ""
    ms: int = 0
    findings: Sequence[Mapping[str, Any]] = field(default_factory=list)
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """The text of a policy file under the digest of the policy that it was part of."""

    digest: str
    layer: str
    path_hash: str
    path: str
    text: str
    loaded_at: str


BLOCKS = Table(name="blocks", record=Block, order=("at", "kind", "value"))
_SCANS = Table(name="scans", record=ScanRow, order=("engine", "number"), json={"findings": list})
_POLICIES = Table(name="policies", record=PolicyText, order=("path",))


class Blocks:
    """The blocks of a tenant."""

    def __init__(self, rows: TenantRows, decisions: Callable[[], RecordedDecisions]) -> None:
        self._rows = rows
        self._decisions = decisions

    def add(self, kind: BlockKind, value: str, *, reason: str, by: str) -> Block:
        """Block it from now on; of several reasons the last one counts."""
        require_choice("kind of block", kind, get_args(BlockKind))
        block = Block(kind=kind, value=require_key(kind, value), reason=reason, by=by, at=now())
        with self._rows.transaction():
            self._rows.replace(BLOCKS, block, key=("kind", "value"))
            self._rows.bump()
        return block

    def remove(self, kind: BlockKind, value: str) -> bool:
        """Remove a block; False when there was none. A recorded quarantine needs a record of its release too."""
        with self._rows.transaction():
            was_blocked = self._rows.delete(BLOCKS, kind=kind, value=value)
            was_blocked = was_blocked or f"{kind} {value}" in self._decisions().blocked
            if was_blocked:
                self._rows.bump()
        return was_blocked

    def all(self) -> list[Block]:
        """Return all blocks, the oldest first; at the end, those that only the audit log still has."""
        found = self._rows.select(BLOCKS)
        known = {(block.kind, block.value) for block in found}
        for what, reason in self._decisions().blocked.items():
            kind, value = split_block(what)
            if (kind, value) not in known:
                found.append(Block(kind=kind, value=value, reason=reason, by="", at=""))  # type: ignore[arg-type]
        return found


def split_block(what: str) -> tuple[str, str]:
    """Return the kind and the value of a block as a record has it: `name miner`."""
    kind, _, value = what.partition(" ")
    return kind, value


class Scans:
    """The scans of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, scan: ScanRow) -> ScanRow:
        """Add the result of a scanner beside its earlier ones."""
        require_key("digest", scan.digest)
        require_key("engine", scan.engine)
        scan = scan if scan.at else replace(scan, at=now())
        with self._rows.transaction():
            number = self._rows.next_number(_SCANS, digest=scan.digest, engine=scan.engine)
            self._rows.insert(_SCANS, scan, number=number)
        return scan

    def severities(self, digest: str) -> dict[str, str]:
        """Return the worst severity that each engine found in its last run over a content: every load asks for it."""
        return dict(self._rows.statement(_SEVERITIES, digest))

    def latest(self, digest: str) -> list[ScanRow]:
        """Return the last run of each engine over a content."""
        return list({scan.engine: scan for scan in self._rows.select(_SCANS, digest=digest)}.values())


class PolicyTexts:
    """The texts of the policy files that were in force for a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def keep(self, digest: str, layer: str, path: str, text: str) -> bool:
        """Keep a policy file under its digest; False when it was kept already."""
        kept = PolicyText(
            digest=require_key("digest", digest),
            layer=layer,
            path_hash=hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest(),
            path=path,
            text=text,
            loaded_at=now(),
        )
        return self._rows.insert(_POLICIES, kept, unless_there=True)

    def texts(self, digest: str) -> dict[str, str]:
        """Return the files that were kept under a digest, by path."""
        return {kept.path: kept.text for kept in self._rows.select(_POLICIES, digest=digest)}
