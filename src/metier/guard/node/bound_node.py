"""The node as decisions see it: the policies and states of its server, as long as they hold.

Its files are looked at by each decision, and read when one of them changed. A machine that is no node has none.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from metier._lazy import logger, replace
from metier.errors import MetierError
from metier.guard.node.binding import BINDING, read_binding
from metier.guard.node.faults import LEASE_ENDED, STATE_INVALID
from metier.guard.node.lease import LEASE, read_lease
from metier.guard.node.state import file_version, read_state
from metier.library.places import node_folder, node_skills_folder
from metier.store import GovernanceState

if TYPE_CHECKING:
    from metier.guard.node.binding import Binding
    from metier.guard.node.lease import Lease
    from metier.guard.node.state import NodeState
    from metier.guard.policy.file import PolicyFile

log = logger("metier.guard")


class BoundNode:
    """The binding of this machine and the state that its server sent, both as they were at one moment."""

    def __init__(self, folder: str, before: BoundNode | None = None) -> None:
        self._folder = folder
        self._paths = tuple(os.path.join(folder, name) for name in (BINDING, "state.json"))
        self._lease_path = os.path.join(folder, LEASE)
        self._versions = tuple(map(file_version, self._paths))
        self.binding: Binding | None = None
        self.state: NodeState | None = None
        self._lease: tuple[object, Lease | None] = (None, None)
        self._latest = 0.0
        self._faulty: dict[str, tuple[GovernanceState, ...]] = {}
        try:
            self.binding = read_binding()
            if self.binding is not None:
                self.state = read_state(folder, self.binding)
        except MetierError as error:
            log.warning("this node allows nothing: %s", error)
        if self.state is None:
            self._states: tuple[GovernanceState, ...] = (GovernanceState(managed=node_skills_folder()),)
            self.files: tuple[PolicyFile, ...] = ()
        elif before is not None and before.state is not None and before.state.digest == self.state.digest:
            self._states, self._faulty, self.files = before._states, before._faulty, before.files
            self.state = before.state
        else:
            self._states = self.state.states
            self.files = self._policy_files(self.state)

    @property
    def is_gone(self) -> bool:
        """Whether this machine is no node any more."""
        return self._versions[0] is None

    def is_changed(self) -> bool:
        """Whether its files may have changed since they were read."""
        first, second = self._paths
        return (file_version(first), file_version(second)) != self._versions

    def states(self, most: int | None = None) -> tuple[GovernanceState, ...]:
        """The states that count now; the last says so if none of them may be relied on any more.

        `most` is the longest lease that policy allows, in seconds.
        """
        fault = self._fault(most)
        return self.faulty(fault) if fault else self._states

    def faulty(self, fault: str) -> tuple[GovernanceState, ...]:
        """The states with the reason why they may not be relied on."""
        found = self._faulty.get(fault)
        if found is None:
            found = self._faulty[fault] = (*self._states[:-1], replace(self._states[-1], fault=fault))
        return found

    def _fault(self, most: int | None) -> str:
        if self.state is None:
            return STATE_INVALID
        version = file_version(self._lease_path)
        if version != self._lease[0] or version is None:
            self._lease, self._latest = (version, self._read_lease()), 0.0
        lease, now = self._lease[1], time.time()
        if lease is None:
            return LEASE_ENDED
        if lease.number > self.state.number:
            return STATE_INVALID  # the server has sent a later one: somebody brought an earlier one back
        self._latest = max(self._latest, now, lease.seen)
        return LEASE_ENDED if lease.is_over(now, seen=self._latest, most=most) else ""

    def _read_lease(self) -> Lease | None:
        try:
            return read_lease(self._folder, self.binding) if self.binding is not None else None
        except MetierError as error:
            log.warning("the lease of this node is over: %s", error)
            return None

    def _policy_files(self, state: NodeState) -> tuple[PolicyFile, ...]:
        from metier.guard.policy.reader import parse_policy

        url = self.binding.url if self.binding is not None else ""
        names = ((f"{url}/policy/{name}", text) for name, text in state.policies)
        return tuple(parse_policy(text, name, "enterprise", is_shared=True) for name, text in names)


def find_node(before: BoundNode | None = None) -> BoundNode | None:
    """The node that this machine is; None where it is none."""
    node = BoundNode(node_folder(), before)
    return None if node.is_gone else node
