"""The parts that all routes share: the store, the settings, and the guard of each tenant."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from metier._cache import BoundedCache
from metier.guard import Guard
from metier.guard.governance import Governance
from metier.guard.policy.stored import StoredPolicies
from metier.hub.registry.lists import RegistryLists
from metier.serve.api.metrics import RequestMetrics
from metier.serve.api.oidc import OidcProvider
from metier.serve.api.settings import ServerSettings
from metier.store import Store, TenantScope

if TYPE_CHECKING:
    from metier.hub.registry.library import ReleasedLibrary
    from metier.serve.api.node_state import NodeStates

_MAX_TENANTS = 1_000
_MAX_REGISTRIES = 100
_MAX_LIBRARIES = 50


class ServerContext:
    """The store and the settings of a server, and the guards by which it decides."""

    def __init__(self, store: Store, settings: ServerSettings) -> None:
        self.store = store
        self.settings = settings
        self.stopping = threading.Event()
        self.provider = OidcProvider(settings.oidc) if settings.oidc is not None else None
        self.metrics = RequestMetrics()
        self._guards: BoundedCache[str, Guard] = BoundedCache(_MAX_TENANTS)
        self._lists: BoundedCache[str, RegistryLists] = BoundedCache(_MAX_REGISTRIES)
        self._released: BoundedCache[str, ReleasedLibrary] = BoundedCache(_MAX_LIBRARIES)

    def stop(self) -> None:
        """Let open streams end: the server is about to stop."""
        self.stopping.set()

    def guard(self, tenant: str) -> Guard:
        """The guard of a tenant: it decides under the policy files of this machine and the policy of the tenant."""
        found = self._guards.get(tenant)
        if found is None:
            policies = StoredPolicies(self.store, tenant)
            found = self._guards[tenant] = Guard(governance=Governance(policies, store=self.store.url))
        return found

    @cached_property
    def node_states(self) -> NodeStates:
        """The states that nodes get."""
        from metier.serve.api.node_state import NodeStates

        return NodeStates(self)

    def registry_lists(self, tenant: str) -> RegistryLists:
        """The lists of a tenant's registry."""
        found = self._lists.get(tenant)
        if found is None:
            found = self._lists[tenant] = RegistryLists(tenant, self.settings.url)
        return found

    def released(self, scope: TenantScope) -> ReleasedLibrary:
        """The released skills of a tenant, to be searched."""
        from metier.hub.registry.library import ReleasedLibrary

        found = self._released.get(scope.tenant)
        if found is None:
            found = self._released[scope.tenant] = ReleasedLibrary(scope, self.registry_lists(scope.tenant))
        return found

    def governance(self, tenant: str) -> Governance:
        """The policy and the state of a tenant."""
        return self.guard(tenant).governance


def _context_of(request: Request) -> ServerContext:
    found: ServerContext = request.app.state.context
    return found


Context = Annotated[ServerContext, Depends(_context_of)]
