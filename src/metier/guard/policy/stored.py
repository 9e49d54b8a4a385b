"""The policy of a tenant on a server: the files of its machine's administrators, and the texts in the store."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from metier.errors import NotPermitted, PolicyInvalid, PolicyStale
from metier.guard.approvals.decisions import require_intact_audit_log
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, event_record
from metier.guard.policy.files import VARIABLE, Policies, system_policy
from metier.guard.policy.reader import parse_policy, unreadable
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.effective import EffectivePolicy
    from metier.guard.policy.file import PolicyFile
    from metier.store import Person, Store, TenantScope
    from metier.store.policy_versions import PolicyVersion

_FEW = 20


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


def set_policy(
    scope: TenantScope, person: Person, text: str, *, reason: str = "", expected: int | None = None
) -> PolicyVersion:
    """Let a text be the policy of a tenant from the next decision on; takes the role admin.

    Raises `PolicyInvalid` for a text with errors, and `PolicyStale` where the version that counts is not the
    `expected` one, 0 for none: then somebody else changed it meanwhile.
    """
    with recording_refusals(scope, person, "policy"):
        if person.kind == "agent":
            raise NotPermitted(
                f"{shown(person.name)!r} is an agent, and only people change the policy.", hint="Ask a person to do it."
            )
        require_role(person, "admin", "change the policy")
        _require_sound(parse_shared_policy(text))
        require_intact_audit_log(scope, "The policy cannot be changed")
        last = scope.policy_versions.last()
        number = last.number if last is not None else 0
        if expected is not None and expected != number:
            raise PolicyStale(
                f"The policy has version {number} by now.",
                hint="Look at it, and make your change of that.",
                found=number,
            )
        record = event_record(scope, "policy.changed", actor_of(person, scope))
        return scope.policy_versions.add(text, by=person.name, reason=reason.strip(), record=record)


def _require_sound(file: PolicyFile) -> None:
    errors = [one for one in file.problems if one.severity == "error"]
    if errors:
        raise PolicyInvalid(
            f"The policy has an error in line {errors[0].line}: {errors[0].message}",
            hint=errors[0].hint,
            line=errors[0].line,
            problems=tuple(f"line {one.line}: {one.message} {one.hint}" for one in errors[:_FEW]),
        )
