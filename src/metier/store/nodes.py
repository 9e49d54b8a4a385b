"""The machines of a tenant: each with a credential of its own, a status and an inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import dataclass
from metier.store.rows import Table, now, require_key

if TYPE_CHECKING:
    from metier.store.connection_pool import Value
    from metier.store.rows import TenantRows

NodeStatus: TypeAlias = Literal["active", "tampered", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNode:
    """A machine that takes its policy and its skills from this server."""

    id: str
    """Also the name of the person that its token belongs to."""
    name: str
    person: str
    """The person who made it one."""
    platform: str = ""
    registered_at: str = ""
    last_seen_at: str = ""
    status: NodeStatus = "active"
    fault: str = ""
    """The proof that its audit log was changed; empty where there is none."""
    fault_at: int = 0
    """The first record of it that is known to differ; 0 for none."""
    epoch: int = 0
    """The number of times that its audit log began anew because an admin said so."""
    inventory: str = ""
    """The skills and plugins of its clients, as JSON."""
    inventory_at: str = ""


_NODES = Table(name="nodes", record=ManagedNode, order=("registered_at", "number", "id"))


class Nodes:
    """The machines of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, node: ManagedNode) -> None:
        """Add a machine."""
        require_key("id", node.id)
        self._rows.append(_NODES, node)

    def get(self, id: str) -> ManagedNode | None:  # noqa: A002
        """Return the machine of an id."""
        return self._rows.first(_NODES, id=id)

    def all(self) -> list[ManagedNode]:
        """Return all machines, the oldest first."""
        return self._rows.select(_NODES)

    def set_status(self, id: str, status: NodeStatus, fault: str = "", at: int = 0) -> None:  # noqa: A002
        """Change the status of a machine, with the fault in its audit log and the record that it begins at."""
        self._rows.update(_NODES, {"status": status, "fault": fault, "fault_at": at}, id=id)

    def begin_anew(self, node: ManagedNode) -> None:
        """Accept the audit log of a machine from its first record on once more, beside the one before."""
        fresh: dict[str, Value] = {"status": "active", "fault": "", "fault_at": 0, "epoch": node.epoch + 1}
        self._rows.update(_NODES, fresh, id=node.id)

    def note_seen(self, id: str) -> None:  # noqa: A002
        """Note that a machine was heard of now."""
        self._rows.update(_NODES, {"last_seen_at": now()}, id=id)

    def put_inventory(self, id: str, inventory: str) -> None:  # noqa: A002
        """Replace the inventory of a machine."""
        self._rows.update(_NODES, {"inventory": inventory, "inventory_at": now()}, id=id)
