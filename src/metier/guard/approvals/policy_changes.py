"""Changes of the policy of a tenant on a server, by its admins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import NotPermitted, PolicyInvalid, PolicyStale
from metier.guard.approvals.decisions import require_intact_audit_log
from metier.guard.approvals.roles import recording_refusals, require_role
from metier.guard.audit.governance_events import actor_of, event_record
from metier.guard.policy.stored import parse_shared_policy
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.policy.file import PolicyFile
    from metier.store import Person, TenantScope
    from metier.store.policy_versions import PolicyVersion

_FEW = 20


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
