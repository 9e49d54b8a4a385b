"""What must last: approvals, revisions, proposals, people and the audit trail, in SQLite or PostgreSQL.

Everything is asked of a `Scope`, which is all that one tenant may see. This room imports `skill`, and SQLAlchemy only
where a statement is made that not every decision needs.

>>> import tempfile
>>> from metier.store import Store
>>> with Store.open(f"sqlite:///{tempfile.mkdtemp()}/metier.db") as store:
...     block = store.of("acme").blocks.add("name", "miner", reason="It mines coins.", by="ada")
...     sorted(store.of("acme").state().blocked), sorted(store.of("other").state().blocked)
([('name', 'miner')], [])
"""

from __future__ import annotations

from metier._lazy import lazy_names

TYPE_CHECKING = False  # what type checkers take for true, without importing `typing` for it
if TYPE_CHECKING:
    from metier.store.approvals import Approval, Request
    from metier.store.blocks import Block
    from metier.store.installs import Install
    from metier.store.people import Person, Token
    from metier.store.proposals import Proposal
    from metier.store.revisions import Revision, RevisionFile, revision_files
    from metier.store.scans import ScanRow
    from metier.store.scope import Scope
    from metier.store.state import State
    from metier.store.store import Store
    from metier.store.url import data_folder, default_store
    from metier.store.versions import Version

_NAMES = {
    "Approval": "metier.store.approvals",
    "Block": "metier.store.blocks",
    "Install": "metier.store.installs",
    "Person": "metier.store.people",
    "Proposal": "metier.store.proposals",
    "Request": "metier.store.approvals",
    "Revision": "metier.store.revisions",
    "RevisionFile": "metier.store.revisions",
    "ScanRow": "metier.store.scans",
    "Scope": "metier.store.scope",
    "State": "metier.store.state",
    "Store": "metier.store.store",
    "Token": "metier.store.people",
    "Version": "metier.store.versions",
    "data_folder": "metier.store.url",
    "default_store": "metier.store.url",
    "revision_files": "metier.store.revisions",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)

__all__ = [
    "Approval",
    "Block",
    "Install",
    "Person",
    "Proposal",
    "Request",
    "Revision",
    "RevisionFile",
    "ScanRow",
    "Scope",
    "State",
    "Store",
    "Token",
    "Version",
    "data_folder",
    "default_store",
    "revision_files",
]
