"""Shipping of the audit log: each chain of this machine goes to its server in order, at least once and without a gap.

The log here is written first, and is the only queue: the position of the server says what comes next, so nothing is
lost whoever is killed. On a new connection the hashes of all records are computed anew and compared with those that
were sent: the server names a log that was changed or cut since.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from metier._json_object import parse_object, value_at
from metier._lazy import dataclass, field
from metier._paths import open_own, write_file
from metier.errors import IntegrityFailed, ServerRefused
from metier.guard.governance import Governance
from metier.library.places import node_folder
from metier.skill import shown
from metier.store.all_tenants import audited_tenants
from metier.store.audit_log import FIRST, chain_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.guard.node.connection import ServerConnection
    from metier.store import Store
    from metier.store.audit_log import AuditTable

_RECORDS, _COMPARE = "/api/v1/nodes/me/records", "/api/v1/nodes/me/compare"
_MAX_RECORDS = 500
_MAX_BYTES = 3_500_000
"""Bytes of the records of one request, less than the server takes."""
_MAX_HASHES = 5_000
_MOST_GAPS = 3
"""Answers in a row that name another record to begin with, after which the server is not believed."""
_COMPARED = "compared.json"
_MAX_FILE = 4 * 1024 * 1024
WHOLE_EVERY = 3_600.0
"""Seconds after which a new connection compares the whole log again, and not its end alone."""
_SECONDS = 60.0


class Shipping:
    """The audit logs of this machine, on their way to its server."""

    def __init__(self, connection: ServerConnection, store: Store | None, folder: str) -> None:
        """Ship the logs of a store, None where there is none (any more), and note in a folder how far they agree."""
        self._connection = connection
        self._store = store
        self._compared = _ComparedFile(os.path.join(folder, _COMPARED))
        self._shipped: dict[str, int] = {}
        self._is_servers_own = False

    @classmethod
    def here(cls, connection: ServerConnection) -> Shipping:
        """The shipping of this machine, whose store is that of every program that names no other."""
        return cls(connection, Governance.default().store(), node_folder())

    @property
    def has_store(self) -> bool:
        """Whether there is a store; the first record makes one."""
        return self._store is not None

    @property
    def _tenants(self) -> list[str]:
        return audited_tenants(self._store.pool) if self._store is not None else []

    def verify(self, *, whole: bool = False) -> None:
        """Compare the logs with what was sent; raises `IntegrityFailed` where the server has other records.

        With `whole`, or after a while, from the first record on; else from where the last comparison ended. A log that
        is the server's own is not sent.
        """
        self._is_servers_own = any(map(self._is_own, self._tenants))
        if self._is_servers_own:
            return
        whole = whole or self._compared.is_old
        ends: dict[str, tuple[int, str]] = {}
        for tenant in dict.fromkeys((*self._tenants, *self._compared.ends)):
            if self._store is None:  # somebody removed it
                differs = self._first_difference(tenant, [], self._last(tenant))
                if differs is not None:
                    raise _changed(tenant, differs)
                continue
            audit = self._store.of(tenant).audit
            start = self._compared.ends.get(tenant, (0, FIRST))
            if whole or not _has(audit, start):
                start = (0, FIRST)
            ends[tenant] = self._verify_chain(audit, start)
        self._compared.write(ends, is_whole=whole)

    def _verify_chain(self, audit: AuditTable, start: tuple[int, str]) -> tuple[int, str]:
        self._shipped[audit.tenant] = last = self._last(audit.tenant)
        sample, end = _sampled(_recomputed(audit, *start), start, last)
        differs = self._first_difference(audit.tenant, sample, last)
        if differs is None:
            return end
        if differs > end[0]:  # it was cut
            raise _changed(audit.tenant, differs)
        # Between the last that is the same and the first that is not: at most a few thousand, unless the log is huge.
        same = max((one for one in sample if one[0] < differs), default=start)
        between = [one for one in _recomputed(audit, *same) if one[0] <= differs]
        closer = self._first_difference(audit.tenant, between[-_MAX_HASHES:], min(last, differs))
        raise _changed(audit.tenant, closer or differs)

    def _first_difference(self, chain: str, hashes: Sequence[tuple[int, str]], known: int) -> int | None:
        """Ask for the first record that the server has otherwise, of those that it had when it was asked before."""
        body = {"chain": chain, "hashes": [list(one) for one in hashes], "known": known}
        found = self._connection.request("POST", _COMPARE, body, seconds=_SECONDS).json.get("differs")
        return found if type(found) is int else None

    def ship(self) -> int:
        """Send all records that the server does not have; returns how many, and raises where it takes them no more."""
        sent, failed = 0, None
        if self._is_servers_own:
            return sent
        for scope in map(self._store.of, self._tenants) if self._store is not None else ():
            try:
                sent += self._ship_chain(scope.audit)
            except (IntegrityFailed, ServerRefused) as error:  # which is no reason to keep the others back
                failed = failed or error
        if failed is not None:
            raise failed
        return sent

    def _ship_chain(self, audit: AuditTable) -> int:
        sent, gaps = 0, 0
        if audit.tenant not in self._shipped:
            self._shipped[audit.tenant] = self._last(audit.tenant)
        while batch := _next_batch(audit, self._shipped[audit.tenant]):
            try:
                answer = self._connection.request(
                    "POST", _RECORDS, {"chain": audit.tenant, "records": batch}, seconds=_SECONDS
                )
                last, gaps = answer.json.get("seq"), 0
            except ServerRefused as error:
                # After a restore the server may have less than it had.
                last, gaps = _expected(error), gaps + 1
                if error.code == "record-conflict":
                    raise _changed(audit.tenant, value_at(error.context, "problem", "seq")) from None
                if last is None or gaps > _MOST_GAPS:
                    raise
            else:
                sent += len(batch)
            if type(last) is not int:
                break
            self._shipped[audit.tenant] = last
        return sent

    def _last(self, chain: str) -> int:
        found = self._receipt(chain).get("seq")
        return found if type(found) is int else 0

    def _is_own(self, chain: str) -> bool:
        """Whether a log here is that of the server itself, as on the machine that serves it."""
        first = next(self._store.of(chain).audit.links(0, 1), None) if self._store is not None else None
        return first is not None and self._receipt(chain, first[3]).get("is_own") is True

    def _receipt(self, chain: str, first: str = "") -> dict[str, Any]:
        query = urlencode({"chain": chain, "first": first})
        return self._connection.request("GET", f"{_RECORDS}?{query}", seconds=_SECONDS).json


def _next_batch(audit: AuditTable, after: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    size = 0
    for seq, text, previous, made in audit.links(after, _MAX_RECORDS):
        record = {"seq": seq, "text": text, "previous": previous, "hash": made}
        size += len(json.dumps(record)) + 2
        if found and (size > _MAX_BYTES or len(found) == _MAX_RECORDS):
            break
        found.append(record)
    return found


def _recomputed(audit: AuditTable, seq: int, last: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the hash of each record behind one, where each hash comes from the contents alone."""
    for number, text, _, _ in audit.links(seq):
        last = chain_hash(last, text)
        yield number, last


def _has(audit: AuditTable, position: tuple[int, str]) -> bool:
    """Return whether a log still has a record that it had; one that was cut has not."""
    seq, _ = position
    found = next(audit.links(seq - 1, 1), None) if seq else None
    return found is not None and (found[0], found[3]) == position


def _sampled(
    hashes: Iterator[tuple[int, str]], start: tuple[int, str], shipped: int
) -> tuple[list[tuple[int, str]], tuple[int, str]]:
    """Return some of the hashes, and the last: all of a short log, and every nth of a long one.

    The last record is always among them, and the last that was shipped.
    """
    sample, known, step, end = list[tuple[int, str]](), list[tuple[int, str]](), 1, start
    for place, one in enumerate(hashes):
        end = one
        if one[0] == shipped:
            known = [one]
        if place % step == 0:
            sample.append(one)
            if len(sample) == _MAX_HASHES:
                sample, step = sample[::2], step * 2
    ends = [end] if end[0] else []
    return sorted({*sample, *known, *ends}), end


def _expected(error: ServerRefused) -> int | None:
    """Return the last record that a server has, by its answer that another one comes next."""
    expected = value_at(error.context, "problem", "expected") if error.code == "record-gap" else None
    return expected - 1 if type(expected) is int else None


def _changed(chain: str, seq: object) -> IntegrityFailed:
    whose = f" of tenant {shown(chain)}" if chain else ""
    return IntegrityFailed(
        f"The audit log{whose} is not the one that was sent to the server: record {seq} differs.",
        hint="Its administrators know by now. They can let the log begin anew.",
        seq=seq,
    )


@dataclass(slots=True)
class _ComparedFile:
    """The ends of the chains as they were compared last, and when all were compared from the first record on."""

    path: str
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    whole_at: float = 0.0

    def __post_init__(self) -> None:
        try:
            with open_own(self.path) as file:
                found = parse_object(file.read(_MAX_FILE + 1), most=_MAX_FILE)
            self.ends = {name: (int(seq), str(made)) for name, (seq, made) in found["ends"].items()}
            self.whole_at = float(found["whole_at"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            self.ends, self.whole_at = {}, 0.0

    @property
    def is_old(self) -> bool:
        """Whether it is time to compare everything; also where the clock was set back."""
        return not 0 <= time.time() - self.whole_at < WHOLE_EVERY

    def write(self, ends: Mapping[str, tuple[int, str]], *, is_whole: bool) -> None:
        """Note a comparison that found nothing."""
        self.ends = dict(ends)
        self.whole_at = time.time() if is_whole else self.whole_at
        content = {"whole_at": self.whole_at, "ends": self.ends}
        write_file(self.path, json.dumps(content).encode(), exact_mode=0o600)
