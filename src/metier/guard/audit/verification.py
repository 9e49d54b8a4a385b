"""Whether the audit trail is what was written: every record, their order, and what was signed of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.store.canonical_json import FIRST, chain_hash
from metier.store.link import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.guard.audit.checkpoints import Checkpoint
    from metier.store import Store
    from metier.store.link import ChainedRecord
    from metier.store.location import StoreAddress

_ChainFault: TypeAlias = Literal["edited", "deleted", "inserted", "swapped", "rewritten", "truncated", "gone"]
FaultKind: TypeAlias = _ChainFault | Literal["forged", "unknown-key", "checkpoint-missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFault:
    """The first thing that is wrong with a chain."""

    seq: int
    """The record that is not what, or not where, it was."""
    kind: FaultKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """What became of verifying the chain of one tenant."""

    tenant: str
    records: int
    """How many were looked at."""
    checkpoints: int
    """How many signatures hold."""
    signed: int
    """The last record that a checkpoint stands for."""
    fault: ChainFault | None
    unknown_keys: tuple[str, ...] = ()
    """Keys that signed checkpoints and are not known here."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None

    @property
    def unsigned(self) -> int:
        """How many records no checkpoint stands for yet: that the last of them are missing could not be told."""
        return max(0, self.records - self.signed)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What became of verifying a store."""

    chains: tuple[ChainVerification, ...]
    """One for each tenant."""
    damaged: tuple[int, ...] = ()
    """Lines in the file of checkpoints that hold none."""
    damaged_marks: tuple[str, ...] = ()
    """Files beside the key that should hold the last checkpoint of a trail, and hold none."""
    unprotected: tuple[str, ...] = ()
    """What closed the records to changes and is gone, or is not what it was: whatever is found, more was possible."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing is wrong with any chain, nor with what proves and protects it."""
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
    """The same for a store that is open, inside of the transaction that is under way if there is one; None for none."""
    from metier.guard.audit.checkpoints import CheckpointFile, checkpoints_of, marks_of
    from metier.guard.audit.keys import default_key_file
    from metier.store.checks import missing_protection
    from metier.store.rows import stray_tenants

    # In this order, because others may be signing: the mark is written first, then the file, then the database.
    before = {name: checkpoints_of(store.of(name)) for name in ["", *store.tenants()]} if store is not None else {}
    outside, damaged = CheckpointFile.beside(address.folder).read()
    marks, wrong = marks_of(key_file or default_key_file(), str(address))
    ours = _by_tenant(outside)
    last = {one.tenant: one for one in marks}
    if store is None:
        names = sorted(ours.keys() | last.keys())
        chains = [verify(name, (), [*ours.get(name, ()), *_one(last.get(name))], keys) for name in names]
    else:
        chains = [_stray(tenant) for tenant in stray_tenants(store.driver)]
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
    # Two tenants may be called the same in records, where a name has what no text can: each has a chain.
    for tenant in sorted({*ours, *last, *before}):
        scope = store.of(tenant)
        name = scope.audit.tenant
        if name and name not in ours and name not in last and scope.audit.last() is None:
            continue
        if tenant not in before and name in names:
            continue
        places = _Places(
            before=before.get(scope.tenant, []),
            outside=ours.get(name, []),
            mark=last.get(name),
            inside=checkpoints_of(scope),
            is_shared=store.kind != "sqlite",
        )
        found = verify(name, scope.audit.walk(), [*places.outside, *_one(places.mark), *places.inside], keys)
        yield found if found.fault is not None else replace(found, fault=places.difference())


def _stray(tenant: str) -> ChainVerification:
    message = f"There are records of {tenant:.100}, which is no tenant: they were put there."
    return _faulty_verdict(tenant, ChainFault(seq=0, kind="inserted", message=message))


def _by_tenant(checkpoints: Iterable[Checkpoint]) -> dict[str, list[Checkpoint]]:
    found: dict[str, list[Checkpoint]] = {}
    for one in checkpoints:
        found.setdefault(one.tenant, []).append(one)
    return found


def _one(mark: Checkpoint | None) -> tuple[Checkpoint, ...]:
    return () if mark is None else (mark,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """The checkpoints of one tenant in all places where they are kept."""

    before: Sequence[Checkpoint]
    """Those in the database, read before the file."""
    outside: Sequence[Checkpoint]
    """Those in the file."""
    mark: Checkpoint | None
    """The last one, beside the key."""
    inside: Sequence[Checkpoint]
    """Those in the database, read after the file."""
    is_shared: bool
    """Whether other machines sign too, each in a file of its own."""

    def difference(self) -> ChainFault | None:
        """The first checkpoint that is in one place and not in another, though nobody was interrupted."""
        mark = None if self.mark is None else _named(self.mark)
        inside, outside = set(map(_named, self.inside)), set(map(_named, self.outside))
        for one in self.before:
            if _named(one) not in outside and (not self.is_shared or _named(one) == mark):
                return _missing(one.seq, "the database", "audit/checkpoints.jsonl")
        for one in self.outside:
            if _named(one) not in inside and _named(one) != mark:
                return _missing(one.seq, "audit/checkpoints.jsonl", "the database")
        return None


def _named(checkpoint: Checkpoint) -> tuple[int, str, str]:
    # Two that sign at the same moment may say different moments of the same.
    return checkpoint.seq, checkpoint.hash, checkpoint.key_id


def _missing(seq: int, there: str, not_there: str) -> ChainFault:
    message = f"The checkpoint at record {seq:,} is in {there} and not in {not_there}: one of them was changed."
    return ChainFault(seq=seq, kind="checkpoint-missing", message=message)


def verify_export(path: Path, keys: Mapping[str, Ed25519PublicKey]) -> ChainVerification:
    """Verify an export as JSON lines, from the file alone."""
    from metier.guard.audit.exported import checkpoints_in, links_in

    first = next(iter(links_in(path)), None)
    tenant = first.tenant if first is not None else ""
    return verify(tenant, links_in(path), checkpoints_in(path), keys)


def verify(
    tenant: str,
    links: Iterable[ChainedRecord],
    checkpoints: Sequence[Checkpoint],
    keys: Mapping[str, Ed25519PublicKey],
) -> ChainVerification:
    """Verify a chain from its first record on, against the checkpoints that are there.

    One that an unknown key has signed stands for nothing, and is a fault: anybody can make a key.
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
    fault = chain.follow(iter(links))
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
    """One walk along a chain."""

    def __init__(self, tenant: str, signed: Mapping[int, Sequence[Checkpoint]]) -> None:
        self._tenant = tenant
        self._signed = signed
        self._hash = FIRST
        self.length = 0

    def follow(self, links: Iterator[ChainedRecord]) -> ChainFault | None:
        """The first fault."""
        for link in links:
            fault = self._misplaced(link, links) or self._altered(link) or self._rewritten(link)
            if fault is not None:
                return fault
            self._hash = link.hash
            self.length = link.seq
        last = max(self._signed, default=0)
        if last <= self.length:
            return None
        if not self.length:
            return ChainFault(
                seq=1, kind="gone", message=f"All records are gone; a checkpoint stands for {last:,} of them."
            )
        message = f"The last records are gone: a checkpoint stands for {last:,}, and {self.length:,} are here."
        return ChainFault(seq=self.length + 1, kind="truncated", message=message)

    def _misplaced(self, link: ChainedRecord, rest: Iterator[ChainedRecord]) -> ChainFault | None:
        place = self.length + 1
        record = link.record
        if record is None:
            return ChainFault(seq=place, kind="edited", message=f"Record {place:,} is not JSON as the trail writes it.")
        own = record.get("seq")
        if type(link.seq) is not int or link.seq < 1:
            message = f"A row has {link.seq!r:.40} where its number should be, which no record has: it was put there."
            return ChainFault(seq=place, kind="inserted", message=message)
        if link.seq == place == own and record.get("tenant") == self._tenant:
            return None
        if link.seq == own == place and record.get("tenant") != self._tenant:
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

    def _altered(self, link: ChainedRecord) -> ChainFault | None:
        if chain_hash(link.previous, link.text) != link.hash:
            return _edited(link.seq, f"The content of record {link.seq:,} does not fit its hash.")
        if link.previous != self._hash:
            if link.seq == 1:
                return _edited(1, "Record 1 is tied to one before it, and there is none.")
            said = f"Record {link.seq - 1:,} is not the one that record {link.seq:,} was written after."
            return _edited(link.seq - 1, said)
        if link.columns is not None and (expected := columns_of(link.record or {})) != link.columns:
            wrong = next(name for name, value in expected.items() if link.columns.get(name) != value)
            return _edited(link.seq, f"The column {wrong} of record {link.seq:,} is not what its content says.")
        return None

    def _rewritten(self, link: ChainedRecord) -> ChainFault | None:
        if all(one.hash == link.hash for one in self._signed.get(link.seq, ())):
            return None
        message = f"Record {link.seq:,} is not the one that was signed: it, or one before it, was written anew."
        return ChainFault(seq=link.seq, kind="rewritten", message=message)


def _edited(seq: int, message: str) -> ChainFault:
    return ChainFault(seq=seq, kind="edited", message=message)
