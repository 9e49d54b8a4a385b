"""Lasting data: approvals, revisions, proposals, people and the audit log, in SQLite or PostgreSQL.

`TenantScope` has all queries: a tenant sees its own data alone. This room imports `skill`.

>>> import tempfile
>>> from metier.store import Store
>>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
...     block = store.of("acme").blocks.add("name", "miner", reason="It mines coins.", by="ada")
...     sorted(store.of("acme").state().blocked), sorted(store.of("other").state().blocked)
([('name', 'miner')], [])
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # true for type checkers
if TYPE_CHECKING:
    from metier.store.approvals import Approval as Approval
    from metier.store.approvals import ApprovalRequest as ApprovalRequest
    from metier.store.blocks import Block as Block
    from metier.store.blocks import ScanRow as ScanRow
    from metier.store.feedback import Feedback as Feedback
    from metier.store.location import data_folder as data_folder
    from metier.store.location import default_store as default_store
    from metier.store.people import AccessToken as AccessToken
    from metier.store.people import Person as Person
    from metier.store.proposals import Proposal as Proposal
    from metier.store.registry import Deployment as Deployment
    from metier.store.registry import RegistryNamespace as RegistryNamespace
    from metier.store.registry import RegistryRelease as RegistryRelease
    from metier.store.revisions import Install as Install
    from metier.store.revisions import Revision as Revision
    from metier.store.revisions import RevisionFile as RevisionFile
    from metier.store.revisions import Version as Version
    from metier.store.revisions import revision_files as revision_files
    from metier.store.state import GovernanceState as GovernanceState
    from metier.store.store import Store as Store
    from metier.store.store import TenantScope as TenantScope
    from metier.store.tier_runs import TierRun as TierRun
    from metier.store.webhooks import Delivery as Delivery
    from metier.store.webhooks import Webhook as Webhook

__getattr__, __dir__, __all__ = lazy_names(__name__)
