"""Verification of the audit log: every record, their order, and the signed checkpoints."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.store.audit_log import FIRST, chain_hash, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.guard.audit.checkpoints import Checkpoint
    from metier.store import Store
    from metier.store.audit_log import ChainedRecord
    from metier.store.location import StoreAddress

_ChainFault: TypeAlias = Literal["edited", "deleted", "inserted", "swapped", "rewritten", "truncated", "gone"]
FaultKind: TypeAlias = _ChainFault | Literal["forged", "unknown-key", "checkpoint-missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFault:
    """The first fault of a chain."""

    seq: int
    """The number of the record that was changed or moved."""
    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """The result of verifying the chain of one tenant."""

    tenant: str
    records: int
    """The number of verified records."""
    checkpoints: int
    """The number of valid signatures."""
    signed: int
    """The last record that a checkpoint signs."""
    fault: ChainFault | None
    unknown_keys: tuple[str, ...] = ()
    """Keys that signed checkpoints and are not known here."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None

    @property
    def unsigned(self) -> int:
        """The number of records that no checkpoint signs yet: their removal could not be detected."""
        return max(0, self.records - self.signed)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """The result of verifying a store."""

    chains: tuple[ChainVerification, ...]
    """One for each tenant."""
    damaged: tuple[int, ...] = ()
    """Lines in the file of checkpoints that hold none."""
    damaged_marks: tuple[str, ...] = ()
    """Files beside the key that should hold the last checkpoint of a log, and hold none."""
    unprotected: tuple[str, ...] = ()
    """Protections of the records that are missing or were changed: more may be wrong than was found."""

    @property
    def is_ok(self) -> bool:
        """Whether all chains, checkpoints and protections are intact."""
        is_proved = not self.damaged and not self.damaged_marks
        return all(chain.is_ok for chain in self.chains) and is_proved and not self.unprotected


def verify_store(
    keys: Mapping[str, Ed25519PublicKey], url: str | None = None, *, key_file: Path | str | None = None
) -> VerificationReport:
    """Verify the chain of every tenant of a store, against the checkpoints in it, beside it and beside the key.

    `key_file` is the key that signs here, by default the user's own.
    """
    from metier.store import Store
    from metier.store.location import parse_address

    store = Store.peek(url)
    with store or contextlib.nullcontext():
        return verify_opened(store, parse_address(url), keys, key_file=key_file)


def verify_opened(
    store: Store | None,
    address: StoreAddress,
    keys: Mapping[str, Ed25519PublicKey],
    *,
    key_file: Path | str | None = None,
) -> VerificationReport:
    """Verify an open store, in the transaction that is under way if there is one; None stands for no store."""
    from metier.guard.audit.checkpoints import CheckpointFile, checkpoints_of, default_key_file, last_checkpoints
    from metier.store.all_tenants import stray_tenants
    from metier.store.checks import missing_protection

    # In this order, because others may be signing: a checkpoint goes beside the key, then to the file, then to the
    # database.
    before = {name: checkpoints_of(store.of(name)) for name in ["", *store.tenants()]} if store is not None else {}
    outside, damaged = CheckpointFile.beside(address.folder).read()
    beside_key, wrong = last_checkpoints(key_file or default_key_file(), str(address))
    ours = _by_tenant(outside)
    last = {one.tenant: one for one in beside_key}
    if store is None:
        names = sorted(ours.keys() | last.keys())
        chains = [verify(name, (), [*ours.get(name, ()), *_one(last.get(name))], keys) for name in names]
    else:
        chains = [_stray(tenant) for tenant in stray_tenants(store.pool)]
        chains += _verify_tenants(store, before, ours, last, keys)
    return VerificationReport(
        chains=tuple(chains),
        damaged=tuple(damaged),
        damaged_marks=tuple(map(str, wrong)),
        unprotected=tuple(problem.message for problem in missing_protection(store)) if store is not None else (),
    )


def _verify_tenants(
    store: Store,
    before: Mapping[str, Sequence[Checkpoint]],
    ours: Mapping[str, Sequence[Checkpoint]],
    last: Mapping[str, Checkpoint],
    keys: Mapping[str, Ed25519PublicKey],
) -> Iterator[ChainVerification]:
    """Verify each chain of a store against the checkpoints of its tenant: `before` in it, `ours` beside it, `last`."""
    from metier.guard.audit.checkpoints import checkpoints_of

    names = {store.of(tenant).audit.tenant for tenant in before}
    # Two tenants may have the same name in records, where lone surrogates are escaped: each has a chain.
    for tenant in sorted({*ours, *last, *before}):
        scope = store.of(tenant)
        name = scope.audit.tenant
        if name and name not in ours and name not in last and scope.audit.last() is None:
            continue
        if tenant not in before and name in names:
            continue
        places = _CheckpointPlaces(
            before=before.get(scope.tenant, []),
            outside=ours.get(name, []),
            last=last.get(name),
            inside=checkpoints_of(scope),
            is_shared=store.kind != "sqlite",
        )
        found = verify(name, scope.audit.walk(), [*places.outside, *_one(places.last), *places.inside], keys)
        yield found if found.fault is not None else replace(found, fault=places.difference())


def _stray(tenant: str) -> ChainVerification:
    message = f"There are records of {tenant:.100}, which is no tenant: they were put there."
    return _faulty_verdict(tenant, ChainFault(seq=0, kind="inserted", message=message))


def _by_tenant(checkpoints: Iterable[Checkpoint]) -> dict[str, list[Checkpoint]]:
    found: dict[str, list[Checkpoint]] = {}
    for one in checkpoints:
        found.setdefault(one.tenant, []).append(one)
    return found


def _one(last: Checkpoint | None) -> tuple[Checkpoint, ...]:
    return () if last is None else (last,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckpointPlaces:
    """The checkpoints of one tenant in all places where they are kept."""

    before: Sequence[Checkpoint]
    """The checkpoints in the database, read before the file."""
    outside: Sequence[Checkpoint]
    """The checkpoints in the file."""
    last: Checkpoint | None
    """The last one, beside the key."""
    inside: Sequence[Checkpoint]
    """The checkpoints in the database, read after the file."""
    is_shared: bool
    """Whether other machines sign too, each in a file of its own."""

    def difference(self) -> ChainFault | None:
        """Return the first checkpoint that is in one place and missing in another without an interrupted write."""
        last = None if self.last is None else _identity(self.last)
        inside, outside = set(map(_identity, self.inside)), set(map(_identity, self.outside))
        for one in self.before:
            if _identity(one) not in outside and (not self.is_shared or _identity(one) == last):
                return _missing(one.seq, "the database", "audit/checkpoints.jsonl")
        for one in self.outside:
            if _identity(one) not in inside and _identity(one) != last:
                return _missing(one.seq, "audit/checkpoints.jsonl", "the database")
        return None


def _identity(checkpoint: Checkpoint) -> tuple[int, str, str]:
    # Without the time: two processes that sign at once may differ in it.
    return checkpoint.seq, checkpoint.hash, checkpoint.key_id


def _missing(seq: int, there: str, not_there: str) -> ChainFault:
    message = f"The checkpoint at record {seq:,} is in {there} and not in {not_there}: one of them was changed."
    return ChainFault(seq=seq, kind="checkpoint-missing", message=message)


def verify_export(path: Path, keys: Mapping[str, Ed25519PublicKey]) -> ChainVerification:
    """Verify an export in JSON lines from the file alone."""
    from metier.guard.audit.export import checkpoints_in, records_in

    first = next(iter(records_in(path)), None)
    tenant = first.tenant if first is not None else ""
    return verify(tenant, records_in(path), checkpoints_in(path), keys)


def verify(
    tenant: str,
    records: Iterable[ChainedRecord],
    checkpoints: Sequence[Checkpoint],
    keys: Mapping[str, Ed25519PublicKey],
) -> ChainVerification:
    """Verify a chain from its first record on, against its checkpoints.

    A checkpoint of an unknown key proves nothing, and is a fault: anybody can make a key.
    """
    signed: dict[int, list[Checkpoint]] = {}
    unknown: dict[str, ChainFault] = {}
    held = 0
    for one in dict.fromkeys(checkpoints):
        key = keys.get(one.key_id)
        if key is None:
            message = _UNKNOWN.format(one.seq, one.key_id)
            unknown.setdefault(one.key_id, ChainFault(seq=one.seq, kind="unknown-key", message=message))
        elif one.is_signed_by(key):
            held += 1
            signed.setdefault(one.seq, []).append(one)
        else:
            return _faulty_verdict(
                tenant, ChainFault(seq=one.seq, kind="forged", message=_FORGED.format(one.seq, one.key_id))
            )
    chain = _Chain(tenant, signed)
    fault = chain.follow(iter(records))
    return ChainVerification(
        tenant=tenant,
        records=chain.length,
        checkpoints=held,
        signed=max((seq for seq in signed if seq <= chain.length), default=0),
        fault=fault or next(iter(unknown.values()), None),
        unknown_keys=tuple(sorted(unknown)),
    )


_FORGED = "The checkpoint at record {} is not signed by the key {} that it names."
_UNKNOWN = "The checkpoint at record {} is signed by the key {}, which is not known here; --key names its public half."


def _faulty_verdict(tenant: str, fault: ChainFault) -> ChainVerification:
    return ChainVerification(tenant=tenant, records=0, checkpoints=0, signed=0, fault=fault)


class _Chain:
    """One pass along a chain."""

    def __init__(self, tenant: str, signed: Mapping[int, Sequence[Checkpoint]]) -> None:
        self._tenant = tenant
        self._signed = signed
        self._hash = FIRST
        self.length = 0

    def follow(self, records: Iterator[ChainedRecord]) -> ChainFault | None:
        """Return the first fault."""
        for row in records:
            fault = self._misplaced(row, records) or self._altered(row) or self._rewritten(row)
            if fault is not None:
                return fault
            self._hash = row.hash
            self.length = row.seq
        last = max(self._signed, default=0)
        if last <= self.length:
            return None
        if not self.length:
            return ChainFault(
                seq=1, kind="gone", message=f"All records are gone; a checkpoint stands for {last:,} of them."
            )
        message = f"The last records are gone: a checkpoint stands for {last:,}, and {self.length:,} are here."
        return ChainFault(seq=self.length + 1, kind="truncated", message=message)

    def _misplaced(self, row: ChainedRecord, rest: Iterator[ChainedRecord]) -> ChainFault | None:
        place = self.length + 1
        record = row.record
        if record is None:
            return ChainFault(
                seq=place, kind="edited", message=f"Record {place:,} is not JSON as the audit log writes it."
            )
        own = record.get("seq")
        if type(row.seq) is not int or row.seq < 1:
            message = f"A row has {row.seq!r:.40} where its number should be, which no record has: it was put there."
            return ChainFault(seq=place, kind="inserted", message=message)
        if row.seq == place == own and record.get("tenant") == self._tenant:
            return None
        if row.seq == own == place and record.get("tenant") != self._tenant:
            return ChainFault(seq=place, kind="inserted", message=f"Record {place:,} is of another tenant.")
        if type(own) is not int or own < place:
            message = f"Where record {place:,} should be, there is one that says it is {own}: it was put there."
            return ChainFault(seq=place, kind="inserted", message=message)
        if any(other.record is not None and other.record.get("seq") == place for other in rest):
            message = f"Where record {place:,} should be, there is record {own:,}: they changed places."
            return ChainFault(seq=place, kind="swapped", message=message)
        return ChainFault(
            seq=place, kind="deleted", message=f"Record {place:,} is missing; the next one here is {own:,}."
        )

    def _altered(self, row: ChainedRecord) -> ChainFault | None:
        if chain_hash(row.previous, row.text) != row.hash:
            return _edited(row.seq, f"The content of record {row.seq:,} does not fit its hash.")
        if row.previous != self._hash:
            if row.seq == 1:
                return _edited(1, "Record 1 is tied to one before it, and there is none.")
            message = f"Record {row.seq - 1:,} is not the one that record {row.seq:,} was written after."
            return _edited(row.seq - 1, message)
        if row.columns is not None and (expected := columns_of(row.record or {})) != row.columns:
            wrong = next(name for name, value in expected.items() if row.columns.get(name) != value)
            return _edited(row.seq, f"The column {wrong} of record {row.seq:,} is not what its content says.")
        return None

    def _rewritten(self, row: ChainedRecord) -> ChainFault | None:
        if all(one.hash == row.hash for one in self._signed.get(row.seq, ())):
            return None
        message = f"Record {row.seq:,} is not the one that was signed: it, or one before it, was written anew."
        return ChainFault(seq=row.seq, kind="rewritten", message=message)


def _edited(seq: int, message: str) -> ChainFault:
    return ChainFault(seq=seq, kind="edited", message=message)
