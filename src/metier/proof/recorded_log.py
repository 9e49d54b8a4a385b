"""The audit records that a replay reads: of a store or a file, and only where they are as they were written."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.errors import IntegrityFailed, InvalidArgument
from metier.guard.audit.checkpoints import default_key_file
from metier.guard.audit.export import records_in
from metier.guard.audit.keys import known_keys
from metier.guard.audit.verification import verify_export, verify_store
from metier.hints import for_people
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from metier.guard.audit.verification import ChainVerification
    from metier.store import TenantScope
    from metier.store.audit_log import ChainedRecord


class RecordedLog(NamedTuple):
    """The records of one log, in their order, each with its number."""

    records: Iterator[tuple[int, Mapping[str, Any]]]
    total: int
    is_verified: bool
    """Whether a chain of hashes shows that they are as they were written."""


def log_of_store(scope: TenantScope, key_file: Path | str | None = None) -> RecordedLog:
    """The records of a tenant; raises `IntegrityFailed` where they are not as they were written."""
    signing = key_file or default_key_file()
    report = verify_store(known_keys(signing), scope.store.url, key_file=signing)
    _require_whole(one for one in report.chains if one.tenant in ("", scope.audit.tenant))
    total = sum(one.records for one in report.chains if one.tenant == scope.audit.tenant)
    # Whatever came after it was verified is not read.
    rows = ((row.seq, row.record or {}) for row in islice(scope.audit.walk(), total))
    return RecordedLog(rows, total, is_verified=True)


def log_of_file(path: Path, key_file: Path | str | None = None) -> RecordedLog:
    """The records of a file of JSON lines: an export, which has the hashes of the chain, or what a program recorded."""
    first = next(iter(records_in(path)), None)
    is_chained = first is not None and bool(first.hash)
    if is_chained:
        verification = verify_export(path, known_keys(key_file or default_key_file()))
        _require_whole([verification])
    total = sum(1 for _ in records_in(path))
    return RecordedLog(_numbered(records_in(path), path), total, is_chained)


def _numbered(rows: Iterable[ChainedRecord], path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, row in enumerate(rows, start=1):
        if row.record is None:
            raise InvalidArgument(f"Line {line:,} of {shown(str(path), 300)} is no audit record.", hint="Take it out.")
        yield row.seq or line, row.record


def _require_whole(chains: Iterable[ChainVerification]) -> None:
    # What another machine signed, a key from there would tell; the chain itself is whole.
    faults = (one.fault for one in chains if one.fault is not None and one.fault.kind != "unknown-key")
    for fault in islice(faults, 1):
        hint = for_people("`metier audit verify` says more. Find out who could write there.")
        raise IntegrityFailed(f"The records are not as they were written. {fault.message}", hint=hint)
