"""The policy of a tenant on a server: the files of its machine's administrators, and the texts in the store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier.guard.policy.files import VARIABLE, Policies, system_policy

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.store import Store


class StoredPolicies(Policies):
    """The policy files of administrators, merged with the policy of the installation and of a tenant in a store."""

    def __init__(self, store: Store, tenant: str) -> None:
        super().__init__()
        self.places = Policies.of_administrators(system_policy(), os.environ.get(VARIABLE, "")).places
        self._scopes = [store.of(one) for one in dict.fromkeys(("", tenant))]
        self._digests: tuple[str, ...] = ()

    def current(self) -> EffectivePolicy:
        """The effective policy now."""
        self._renew()
        return super().current()

    def found(self) -> EffectivePolicy | None:
        """The effective policy now; None where there is neither a file nor a text."""
        self._renew()
        return super().found()

    def _renew(self) -> None:
        """Take the texts over where one of them is another than before."""
        versions = [one for one in (scope.policy_versions.last() for scope in self._scopes) if one is not None]
        digests = tuple(one.digest for one in versions)
        if digests != self._digests:
            self.replace_texts([("enterprise", one.text) for one in versions])
            self._digests = digests
