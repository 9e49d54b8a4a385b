"""Verification of the audit log: every record, their order, and the signed checkpoints."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass, replace
from metier.store.audit_log import FIRST, chain_hash, columns_of
from metier.store.canonical_json import escape_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from metier.guard.audit.checkpoints import Checkpoint
    from metier.store import Store
    from metier.store.audit_log import ChainedRecord, ChainPosition

_ChainFault: TypeAlias = Literal["edited", "deleted", "inserted", "swapped", "rewritten", "truncated", "gone"]
FaultKind: TypeAlias = _ChainFault | Literal["forged", "unknown-key", "checkpoint-missing", "tampered"]


@dataclass(frozen=True, slots=True)
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
    node: str = ""
    """The node whose log it is, as its server has it; empty for the log of the store itself."""
    records: int = 0
    """The number of verified records."""
    checkpoints: int = 0
    """The number of valid signatures."""
    signed: int = 0
    """The last record that a checkpoint signs."""
    fault: ChainFault | None = None
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
    keys: Mapping[str, Ed25519PublicKey],
    url: str | None = None,
    *,
    key_file: Path | str | None = None,
    tenant: str | None = None,
) -> VerificationReport:
    """Verify the chain of every tenant of a store, against the checkpoints in it, beside it and beside the key.

    `key_file` is the key that signs here, by default the user's own. With `tenant`, only that chain is verified.
    """
    from metier.guard.audit.checkpoints import CheckpointFile, checkpoints_of, default_key_file, last_checkpoints
    from metier.store import Store
    from metier.store.checks import missing_protection
    from metier.store.location import parse_address

    store, address = Store.peek(url), parse_address(url)
    with store or contextlib.nullcontext():
        # In this order, because others may be signing: a checkpoint goes beside the key, then to the file, then to the
        # database.
        wanted = () if store is None else ["", *store.tenants()] if tenant is None else [tenant]
        before = {name: checkpoints_of(store.of(name)) for name in wanted} if store is not None else {}
        in_file, damaged = CheckpointFile(address.folder).read()
        beside_key, wrong = last_checkpoints(key_file or default_key_file(), str(address))
        name = None if tenant is None else escape_surrogates(tenant)
        outside, last = _by_tenant(in_file, name), _by_tenant(beside_key, name)
        if store is None:
            names = sorted(outside.keys() | last.keys())
            chains = [verify(name, (), [*outside[name], *last[name]], keys) for name in names]
        else:
            strays = _verify_strays(store) if tenant is None else ()
            chains = [*strays, *_verify_tenants(store, before, outside, last, keys)]
        unprotected = missing_protection(store) if store is not None else ()
    return VerificationReport(
        chains=tuple(chains),
        damaged=tuple(damaged),
        damaged_marks=tuple(map(str, wrong)),
        unprotected=tuple(problem.message for problem in unprotected),
    )


def _verify_tenants(
    store: Store,
    before: Mapping[str, Sequence[Checkpoint]],
    outside: Mapping[str, Sequence[Checkpoint]],
    last: Mapping[str, Sequence[Checkpoint]],
    keys: Mapping[str, Ed25519PublicKey],
) -> Iterator[ChainVerification]:
    """Verify each chain of a store against the checkpoints of its tenant.

    `before` are those in the database, read before those `outside` in the file; `last` is the one beside the key.
    """
    from metier.guard.audit.checkpoints import checkpoints_of
    from metier.guard.audit.node_verification import verify_nodes

    names = {store.of(tenant).audit.tenant for tenant in before}
    # Two tenants may have the same name in records, where lone surrogates are escaped: each has a chain.
    for tenant in sorted({*outside, *last, *before}):
        scope = store.of(tenant)
        name = scope.audit.tenant
        if name and name not in outside and name not in last and scope.audit.last() is None:
            continue
        if tenant not in before and name in names:
            continue
        in_file, beside_key, inside = outside.get(name, ()), last.get(name, ()), checkpoints_of(scope)
        found = verify(name, scope.audit.walk(), [*in_file, *beside_key, *inside], keys)
        if found.fault is None:
            earlier, is_shared = before.get(scope.tenant, ()), store.kind != "sqlite"
            fault = _missing_checkpoint(earlier, in_file, beside_key, inside, is_shared=is_shared)
            found = replace(found, fault=fault)
        yield found
        yield from verify_nodes(scope)


def _verify_strays(store: Store) -> Iterator[ChainVerification]:
    from metier.store.all_tenants import stray_tenants

    for tenant in stray_tenants(store.pool):
        message = f"There are records of {tenant:.100}, which is no tenant: they were put there."
        yield ChainVerification(tenant=tenant, fault=ChainFault(0, "inserted", message))


def _by_tenant(checkpoints: Iterable[Checkpoint], only: str | None) -> defaultdict[str, list[Checkpoint]]:
    found = defaultdict(list)
    for one in checkpoints:
        if only is None or one.tenant == only:
            found[one.tenant].append(one)
    return found


def _missing_checkpoint(
    before: Sequence[Checkpoint],
    outside: Sequence[Checkpoint],
    last: Sequence[Checkpoint],
    after: Sequence[Checkpoint],
    *,
    is_shared: bool,
) -> ChainFault | None:
    """Return the first checkpoint that is in one place and missing in another without an interrupted write.

    `before` and `after` are those of the database, read before and after those `outside` in the file. A database that
    `is_shared` has checkpoints of other machines too, each of which has a file of its own.
    """
    in_database, in_file, unfinished = ({_identity(one) for one in ones} for ones in (after, outside, last))
    for one in before:
        if _identity(one) not in in_file and (not is_shared or _identity(one) in unfinished):
            return _missing(one.seq, "the database", "audit/checkpoints.jsonl")
    for one in outside:
        if _identity(one) not in in_database and _identity(one) not in unfinished:
            return _missing(one.seq, "audit/checkpoints.jsonl", "the database")
    return None


def _identity(checkpoint: Checkpoint) -> tuple[int, str, str]:
    # Without the time: two processes that sign at once may differ in it.
    return checkpoint.seq, checkpoint.hash, checkpoint.key_id


def _missing(seq: int, there: str, not_there: str) -> ChainFault:
    message = f"The checkpoint at record {seq:,} is in {there} and not in {not_there}: one of them was changed."
    return ChainFault(seq, "checkpoint-missing", message)


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
    signed: defaultdict[int, list[Checkpoint]] = defaultdict(list)
    unknown: dict[str, ChainFault] = {}
    for one in dict.fromkeys(checkpoints):
        key = keys.get(one.key_id)
        if key is None:
            unknown.setdefault(one.key_id, ChainFault(one.seq, "unknown-key", _UNKNOWN.format(one.seq, one.key_id)))
        elif one.is_signed_by(key):
            signed[one.seq].append(one)
        else:
            fault = ChainFault(one.seq, "forged", _FORGED.format(one.seq, one.key_id))
            return ChainVerification(tenant=tenant, fault=fault)
    length, found = follow_chain(tenant, iter(records), signed)
    return ChainVerification(
        tenant=tenant,
        records=length,
        checkpoints=sum(map(len, signed.values())),
        signed=max((seq for seq in signed if seq <= length), default=0),
        fault=found or next(iter(unknown.values()), None),
        unknown_keys=tuple(sorted(unknown)),
    )


_FORGED = "The checkpoint at record {} is not signed by the key {} that it names."
_UNKNOWN = "The checkpoint at record {} is signed by the key {}, which is not known here; --key names its public half."


def follow_chain(
    tenant: str, records: Iterator[ChainedRecord], signed: Mapping[int, Sequence[Checkpoint | ChainPosition]]
) -> tuple[int, ChainFault | None]:
    """Pass along a chain; return the number of verified records, and the first fault."""
    length, last_hash = 0, FIRST
    for row in records:
        fault = _misplaced(row, length + 1, tenant, records) or _altered(row, last_hash)
        if fault is None and any(one.hash != row.hash for one in signed.get(row.seq, ())):
            message = f"Record {row.seq:,} is not the one that was signed: it, or one before it, was written anew."
            fault = ChainFault(row.seq, "rewritten", message)
        if fault is not None:
            return length, fault
        length, last_hash = row.seq, row.hash
    last = max(signed, default=0)
    if last <= length:
        return length, None
    if not length:
        return 0, ChainFault(1, "gone", f"All records are gone; a checkpoint stands for {last:,} of them.")
    message = f"The last records are gone: a checkpoint stands for {last:,}, and {length:,} are here."
    return length, ChainFault(length + 1, "truncated", message)


def _misplaced(row: ChainedRecord, place: int, tenant: str, rest: Iterator[ChainedRecord]) -> ChainFault | None:
    if row.record is None:
        return ChainFault(place, "edited", f"Record {place:,} is not JSON as the audit log writes it.")
    own = row.record.get("seq")
    if type(row.seq) is not int or row.seq < 1:
        message = f"A row has {row.seq!r:.40} where its number should be, which no record has: it was put there."
        return ChainFault(place, "inserted", message)
    if row.seq == place == own:
        is_ours = row.record.get("tenant") == tenant
        return None if is_ours else ChainFault(place, "inserted", f"Record {place:,} is of another tenant.")
    if type(own) is not int or own < place:
        message = f"Where record {place:,} should be, there is one that says it is {own}: it was put there."
        return ChainFault(place, "inserted", message)
    if any(other.record is not None and other.record.get("seq") == place for other in rest):
        message = f"Where record {place:,} should be, there is record {own:,}: they changed places."
        return ChainFault(place, "swapped", message)
    return ChainFault(place, "deleted", f"Record {place:,} is missing; the next one here is {own:,}.")


def _altered(row: ChainedRecord, last_hash: str) -> ChainFault | None:
    seq = row.seq
    if chain_hash(row.previous, row.text) != row.hash:
        return ChainFault(seq, "edited", f"The content of record {seq:,} does not fit its hash.")
    if row.previous != last_hash:
        if seq == 1:
            return ChainFault(1, "edited", "Record 1 is tied to one before it, and there is none.")
        message = f"Record {seq - 1:,} is not the one that record {seq:,} was written after."
        return ChainFault(seq - 1, "edited", message)
    if row.columns is not None and (expected := columns_of(row.record or {})) != row.columns:
        wrong = next(name for name, value in expected.items() if row.columns.get(name) != value)
        return ChainFault(seq, "edited", f"The column {wrong} of record {seq:,} is not what its content says.")
    return None
