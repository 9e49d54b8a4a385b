"""Approvals of contents, and the requests for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.errors import InvalidArgument
from metier.store.audit_log import AuditTable
from metier.store.rows import Table, given, new_id, now, require_choice, require_key, terms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.store.rows import TenantRows
    from metier.store.state import RecordedDecisions

RequestStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "superseded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request for an approval."""

    id: str = ""
    """Set by the store."""
    digest: str
    skill: str
    """`name@source`."""
    location: str = ""
    """The folder of the skill: two projects may have a skill of one name."""
    layer: str = ""
    environment: str = ""
    capabilities: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    """The capabilities that the last approved content did not have."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of each script, by path."""
    requested_by: str = ""
    reason: str = ""
    status: RequestStatus = "pending"
    created_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A decision for or against a content."""

    id: str = ""
    """Set by the store."""
    request: str = ""
    digest: str
    skill: str
    """`name@source`."""
    location: str = ""
    """The folder of the skill; the approval counts for its content in every folder."""
    layer: str = ""
    """The one layer that it counts in; "" for any."""
    environment: str = ""
    """The one environment that it counts in; "" for any."""
    grants: tuple[str, ...] = ()
    """The capabilities that it grants."""
    tools: tuple[str, ...] = ()
    """The tool calls that it grants, as rules."""
    decision: Literal["approved", "denied"] = "approved"
    decided_by: str
    reason: str = ""
    policy: str = ""
    """The digest of the policy in force."""
    rule: str = ""
    """The rule of an automatic decision."""
    decided_at: str = ""
    expires_at: str = ""
    """"" for never."""
    revoked_at: str = ""
    revoked_by: str = ""
    revoked_reason: str = ""
    fell_to: str = ""
    """The content that replaced the approved one; the approval counts again when that comes back."""


_REQUESTS = Table(
    name="approval_requests",
    record=ApprovalRequest,
    order=("created_at", "number", "id"),
    json={"capabilities": tuple, "new": tuple, "scripts": dict},
)
APPROVALS = Table(
    name="approvals", record=Approval, order=("decided_at", "number", "id"), json={"grants": tuple, "tools": tuple}
)
AFTERWARDS = ("revoked_at", "revoked_by", "revoked_reason", "fell_to")
"""The fields that are set after an approval was given, and only take something from it."""

_STATUSES = (
    "SELECT id, digest, status FROM approval_requests WHERE tenant = ? AND (created_at >= ? OR status = 'pending') "
    "ORDER BY created_at, number"
)


def approval_terms(approval: Approval) -> str:
    """Return the digest of all terms of an approval, which its record has."""
    return terms_of(*(value for name, value in APPROVALS.to_row(approval).items() if name not in AFTERWARDS))


class Approvals:
    """The approvals of a tenant, and the requests for them."""

    def __init__(self, rows: TenantRows, decisions: Callable[[], RecordedDecisions]) -> None:
        self._rows = rows
        self._decisions = decisions
        self._log = AuditTable(rows)

    def request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Add a request, or return the pending one for the same content and environment."""
        require_key("digest", request.digest)
        require_choice("status of a request", request.status, get_args(RequestStatus))
        asked = replace(request, id=request.id or new_id("r"), created_at=request.created_at or now())
        with self._rows.transaction():
            if self._rows.append(_REQUESTS, asked, unless_there=True):
                return asked
            found = self._rows.first(_REQUESTS, digest=asked.digest, environment=asked.environment, status="pending")
            if found is None:
                raise InvalidArgument(f"There is a request {asked.id!r} already.", hint="Leave the id to the store.")
            return found

    def get_request(self, id: str) -> ApprovalRequest | None:  # noqa: A002
        """Return the request of this id."""
        return self._rows.first(_REQUESTS, id=id)

    def requests(self, status: RequestStatus | None = None, *, skill: str | None = None) -> list[ApprovalRequest]:
        """Return all requests, or those of a status or a skill, the oldest first."""
        return self._rows.select(_REQUESTS, **given(status=status, skill=skill))

    def request_statuses(self, since: str) -> list[tuple[str, str, str]]:
        """Return id, digest and status of the requests that are pending or were made since a time."""
        return [(one[0], one[1], one[2]) for one in self._rows.statement(_STATUSES, since)]

    def set_request(self, id: str, status: RequestStatus, *, expected: RequestStatus) -> bool:  # noqa: A002
        """Change the status of a request that has the expected one; False if it has another."""
        require_choice("status of a request", status, get_args(RequestStatus))
        return self._rows.update(_REQUESTS, {"status": status}, id=id, status=expected)

    def add(self, approval: Approval, record: Mapping[str, Any] | None = None) -> Approval:
        """Add a decision, which counts from now on, together with its audit record.

        `record` is the audit record, by default one made from the approval.
        """
        require_key("digest", approval.digest)
        require_choice("decision", approval.decision, ("approved", "denied"))
        added = replace(approval, id=approval.id or new_id("a"), decided_at=approval.decided_at or now())
        with self._rows.transaction():
            self._rows.append(APPROVALS, added)
            self._rows.bump()
            kind = "denied" if added.decision == "denied" else "automatic" if added.rule else "granted"
            content = record or self._record(kind, added, added.decided_by)
            self._log.append({**content, "terms": approval_terms(added)})
        return added

    @staticmethod
    def _record(kind: str, approval: Approval, by: str) -> dict[str, Any]:
        name, _, source = approval.skill.partition("@")
        return {
            "timestamp": now(),
            "event": "approval",
            "type": f"approval.{kind}",
            "decision": "deny" if kind == "denied" else "allow",
            "approval": approval.id,
            "request": approval.request,
            "skill": name,
            "source": source,
            "digest": approval.digest,
            "layer": approval.layer,
            "environment": approval.environment,
            "user": by,
        }

    def get(self, id: str) -> Approval | None:  # noqa: A002
        """Return the approval of this id."""
        return next(iter(self._confirmed(id=id)), None)

    def of(self, digest: str) -> list[Approval]:
        """Return the decisions about a content, the oldest first."""
        return self._confirmed(digest=digest)

    def of_skill(self, skill: str, location: str) -> list[Approval]:
        """Return the decisions about a skill in a folder that were not revoked, the oldest first."""
        return [one for one in self._confirmed(skill=skill, location=location) if not one.revoked_at]

    def all(self, active_only: bool = False) -> list[Approval]:
        """Return all decisions, or only those that were not revoked, the oldest first."""
        return [one for one in self._confirmed() if not active_only or not one.revoked_at]

    def _confirmed(self, **where: str) -> list[Approval]:
        """Return the approvals that the audit log confirms, and those it has alone; a row without a record is void."""
        with self._rows.snapshot():
            decisions = self._decisions()
            stored = self._rows.select(APPROVALS, **where)
        alone = decisions.without_row({one.id for one in stored})
        matching = (one for one in alone if all(getattr(one, name) == value for name, value in where.items()))
        return [*filter(None, map(decisions.confirm, stored)), *matching]

    def revoke(self, id: str, by: str, reason: str, record: Mapping[str, Any] | None = None) -> bool:  # noqa: A002
        """Revoke an approval from now on; False when there is none to revoke.

        `record` is the audit record, by default one made from the approval.
        """
        revoked = {"revoked_at": now(), "revoked_by": by, "revoked_reason": reason}
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.revoked_at:
                return False
            self._rows.update(APPROVALS, revoked, id=id)
            self._rows.bump()
            self._log.append(record or {**self._record("revoked", found, by), "reason": reason})
        return True

    def fell(self, id: str, new_digest: str) -> bool:  # noqa: A002
        """Note the content that replaced the approved one; False when that is known already."""
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.fell_to == new_digest:
                return False
            self._rows.update(APPROVALS, {"fell_to": new_digest}, id=id)
            self._rows.bump()
        return True
