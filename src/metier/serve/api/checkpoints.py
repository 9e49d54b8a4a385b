"""Checkpoints of the server's audit logs: what people decide over HTTP is signed while it serves, and when it stops."""

from __future__ import annotations

import threading
import time

from metier._lazy import logger
from metier.errors import MetierError
from metier.guard.audit.store_log import StoreLog
from metier.serve.api.context import ServerContext
from metier.store.all_tenants import audited_tenants

log = logger("metier.serve")

_LOOK_SECONDS = 2.0
_LONGEST_SECONDS = 60.0
"""The longest time for which a record is without a signature."""


class CheckpointWorker:
    """The part of a process that signs audit logs."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._signed: dict[str, tuple[int, float]] = {}
        """The last signed record of each tenant, and when it was signed."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metier-checkpoints", daemon=True)

    def start(self) -> None:
        """Begin to sign."""
        self._thread.start()

    def stop(self) -> None:
        """End, once everything is signed."""
        self._stopping.set()
        self._thread.join()
        self._sign(is_last=True)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self._sign()

    def _sign(self, *, is_last: bool = False) -> None:
        try:
            governance = self._context.governance("")
            signer, every = governance.log, governance.effective.audit.checkpoint_every
            if not isinstance(signer, StoreLog):
                return
            for tenant in audited_tenants(self._context.store.pool):
                last = self._context.store.of(tenant).audit.last()
                seq, at = self._signed.get(tenant, (0, 0.0))
                is_due = is_last or time.monotonic() - at > _LONGEST_SECONDS
                if last is not None and last.seq > seq and (is_due or last.seq - seq >= every):
                    signer.checkpoint(tenant)
                    self._signed[tenant] = (last.seq, time.monotonic())
        except MetierError as error:
            log.warning("the audit log was not signed: %s", error)
        except Exception:
            log.exception("the audit log was not signed")
