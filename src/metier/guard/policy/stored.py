"""The policy of a tenant on a server: the files of its machine's administrators, and the texts in the store."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from metier.guard.policy.files import VARIABLE, Policies, system_policy
from metier.guard.policy.reader import parse_policy, unreadable
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import PolicyFile
    from metier.store import Store
    from metier.store.policy_versions import PolicyVersion


class StoredPolicies(Policies):
    """The policy files of administrators, merged with the policy of the installation and of a tenant in a store."""

    def __init__(self, store: Store, tenant: str) -> None:
        super().__init__()
        self.places = Policies.of_administrators(system_policy(), os.environ.get(VARIABLE, "")).places
        self._scopes = [store.of(one) for one in dict.fromkeys(("", tenant))]
        self._versions: list[PolicyVersion | None] = []
        self._renewing = threading.Lock()

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
        # Looking and replacing are one step: else a thread that looked before could bring an earlier text back.
        with self._renewing:
            versions = [scope.state().policy for scope in self._scopes]
            if versions == self._versions:
                return
            pairs = zip(self._scopes, versions, strict=True)
            self.replace_texts([file_of_version(scope.tenant, one) for scope, one in pairs if one is not None])
            self._versions = versions


def file_of_version(tenant: str, version: PolicyVersion) -> PolicyFile:
    """A version as a policy file; one that is not as it was written is a file that cannot be read."""
    name = f"<policy {version.number}{f' of {shown(tenant, 100)}' if tenant else ''}>"
    if version.is_intact:
        return parse_shared_policy(version.text, name)
    hint = "Write the policy anew, or bring back a backup of the store."
    return unreadable(name, "enterprise", "the store does not have it as it was written", hint)


def parse_shared_policy(text: str, name: str = "<policy>") -> PolicyFile:
    """Parse the policy of a tenant, which counts on its server and on all of its nodes."""
    return parse_policy(text, name, "enterprise", is_shared=True)
