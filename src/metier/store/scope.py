"""What one tenant may see and change: the only thing that has queries."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from metier.store.rows import TenantRows
from metier.store.state import read_state

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from metier.store.approvals import Approvals
    from metier.store.audit_log import AuditTable
    from metier.store.blocks import Blocks
    from metier.store.installs import Installs
    from metier.store.ledger import RecordedDecisions
    from metier.store.people import People
    from metier.store.policies import PolicyTexts
    from metier.store.proposals import Proposals
    from metier.store.revisions import Revisions
    from metier.store.scans import Scans
    from metier.store.state import GovernanceState
    from metier.store.store import Store
    from metier.store.versions import Versions


class TenantScope:
    """All that a store keeps for one tenant.

    >>> import tempfile
    >>> from metier.store import Store
    >>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
    ...     scope = store.of("acme")
    ...     block = scope.blocks.add("name", "miner", reason="mines coins", by="ada")
    ...     scope.state().blocked, store.of("other").state().blocked
    (frozenset({('name', 'miner')}), frozenset())
    """

    def __init__(self, store: Store, tenant: str) -> None:
        self.store = store
        self.tenant = tenant
        self._rows = TenantRows(store.driver, tenant)

    def __repr__(self) -> str:
        return f"TenantScope({str(self.store)!r}, tenant={self.tenant!r})"

    def transaction(self) -> AbstractContextManager[None]:
        """All that is done inside happens together or not at all; of one tenant, one transaction after the other.

        Inside of another one, it takes back only its own part when it fails.
        """
        return self._rows.transaction()

    def state(self) -> GovernanceState:
        """What decisions depend on; the same object until something of it changes."""
        if self.store.driver.is_in_transaction:
            # What is not committed yet may be taken back, and its number be given to something else.
            return read_state(self._rows, self.store.ledgers).state
        kept, position = self.store.states.get(self.tenant), self._rows.position()
        if kept is None or kept.position != position:
            # Most records decide nothing: then only they are read.
            kept = (kept and kept.moved(position, self.ledger())) or read_state(self._rows, self.store.ledgers)
            self.store.keep_state(self.tenant, kept)
        return kept.state

    def ledger(self) -> RecordedDecisions:
        """The decisions that its audit trail has."""
        return self.store.ledgers.of(self._rows)

    @cached_property
    def revisions(self) -> Revisions:
        """What skills consisted of."""
        from metier.store.revisions import Revisions

        return Revisions(self._rows, self.store.blobs)

    @cached_property
    def versions(self) -> Versions:
        """The history of skills in their places."""
        from metier.store.versions import Versions

        return Versions(self._rows)

    @cached_property
    def installs(self) -> Installs:
        """Which content belongs in which folder."""
        from metier.store.installs import Installs

        return Installs(self._rows)

    @cached_property
    def approvals(self) -> Approvals:
        """Approvals, and the requests for them."""
        from metier.store.approvals import Approvals

        return Approvals(self._rows, self.ledger)

    @cached_property
    def blocks(self) -> Blocks:
        """What nobody may use."""
        from metier.store.blocks import Blocks

        return Blocks(self._rows, self.ledger)

    @cached_property
    def people(self) -> People:
        """Who may decide."""
        from metier.store.people import People

        return People(self._rows, self.store.ledgers)

    @cached_property
    def scans(self) -> Scans:
        """What scanners found."""
        from metier.store.scans import Scans

        return Scans(self._rows)

    @cached_property
    def proposals(self) -> Proposals:
        """Changes that wait for somebody to decide."""
        from metier.store.proposals import Proposals

        return Proposals(self._rows)

    @cached_property
    def policies(self) -> PolicyTexts:
        """The policy files that decisions were made under."""
        from metier.store.policies import PolicyTexts

        return PolicyTexts(self._rows)

    @cached_property
    def audit(self) -> AuditTable:
        """The audit trail."""
        from metier.store.audit_log import AuditTable

        return AuditTable(self._rows, partial(self.store.follow, self.tenant))
