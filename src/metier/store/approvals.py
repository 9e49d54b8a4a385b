"""Approvals, and the requests for them: who agreed to which content, to do what, until when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.errors import InvalidArgument
from metier.store.audit_log import AuditTable
from metier.store.codec import from_row, new_id, now, require_choice, require_key, to_row
from metier.store.ledger import terms_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from metier.store.ledger import RecordedDecisions
    from metier.store.rows import TenantRows

RequestStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "superseded"]
_STATUSES = ("pending", "approved", "denied", "expired", "superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """That somebody asks for an approval."""

    id: str = ""
    """Given by the store."""
    digest: str
    skill: str
    """`name@source`."""
    location: str = ""
    """The folder that it is in: two projects may have a skill of one name."""
    layer: str = ""
    environment: str = ""
    capabilities: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    """Those that the last approved content of the skill did not have."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of each script, by path."""
    requested_by: str = ""
    reason: str = ""
    status: RequestStatus = "pending"
    created_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """That somebody agreed, or did not."""

    id: str = ""
    """Given by the store."""
    request: str = ""
    digest: str
    skill: str
    """`name@source`."""
    location: str = ""
    """The folder that it was in; it counts for its content wherever that is."""
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
    """The digest of the policy that it was decided under."""
    rule: str = ""
    """The rule that decided, where nobody was asked."""
    decided_at: str = ""
    expires_at: str = ""
    """"" for never."""
    revoked_at: str = ""
    revoked_by: str = ""
    revoked_reason: str = ""
    fell_to: str = ""
    """The content that took the place of the approved one; it counts again when that comes back."""


_REQUEST_JSON: Mapping[str, Callable[[Any], Any]] = {"capabilities": tuple, "new": tuple, "scripts": dict}
APPROVAL_JSON: Mapping[str, Callable[[Any], Any]] = {"grants": tuple, "tools": tuple}


_AFTERWARDS = ("revoked_at", "revoked_by", "revoked_reason", "fell_to")
"""What is said of an approval after it was given, and only takes something from it."""


def approval_terms(approval: Approval) -> str:
    """A digest of all that an approval says, which the record of it has."""
    return terms_of(*(value for name, value in to_row(approval).items() if name not in _AFTERWARDS))


def approval_of(row: Mapping[str, Any], ledger: RecordedDecisions) -> Approval | None:
    """The approval in a row, as far as the audit trail bears it out; None for one that has no record of it."""
    found = from_row(Approval, row, APPROVAL_JSON)
    against = ledger.against.get(found.id)
    if against is not None and ("revoked_at" not in against) is bool(found.revoked_at):
        # It was refused or revoked, and the row says otherwise.
        return _recorded(found.id, against)
    if found.decision == "approved" and not found.revoked_at:
        if ledger.granted.get(found.id) == approval_terms(found):
            return found
        return None if against is None else _recorded(found.id, against)
    return found


def missing(ids: Collection[str], ledger: RecordedDecisions) -> list[Approval]:
    """Refusals and revoked approvals that the audit trail has and no row."""
    return [_recorded(one, against) for one, against in ledger.against.items() if one not in ids]


def _recorded(id: str, against: Mapping[str, str]) -> Approval:  # noqa: A002
    return Approval(id=id, **against)  # type: ignore[arg-type]


class Approvals:
    """The approvals of a tenant, and the requests for them."""

    def __init__(self, rows: TenantRows, ledger: Callable[[], RecordedDecisions]) -> None:
        self._rows = rows
        self._ledger = ledger
        self._trail = AuditTable(rows)

    def request(self, request: ApprovalRequest) -> ApprovalRequest:
        """Ask for an approval; the pending request for the same content and environment, where there is one."""
        require_key("digest", request.digest)
        require_choice("status of a request", request.status, _STATUSES)
        asked = replace(request, id=request.id or new_id("r"), created_at=request.created_at or now())
        with self._rows.transaction():
            if self._rows.insert_next("approval_requests", to_row(asked), "ignore"):
                return asked
            where = {"digest": asked.digest, "environment": asked.environment, "status": "pending"}
            found = self._rows.select("approval_requests", where)
            if not found:
                raise InvalidArgument(f"There is a request {asked.id!r} already.", hint="Leave the id to the store.")
            return from_row(ApprovalRequest, found[0], _REQUEST_JSON)

    def get_request(self, id: str) -> ApprovalRequest | None:  # noqa: A002
        """The request of this id."""
        found = self._rows.select("approval_requests", {"id": id})
        return from_row(ApprovalRequest, found[0], _REQUEST_JSON) if found else None

    def requests(self, status: RequestStatus | None = None, *, skill: str | None = None) -> list[ApprovalRequest]:
        """All requests, or those of a status or of a skill; the oldest first."""
        where: dict[str, Any] = {} if status is None else {"status": status}
        if skill is not None:
            where["skill"] = skill
        found = self._rows.select("approval_requests", where, ("created_at", "number", "id"))
        return [from_row(ApprovalRequest, row, _REQUEST_JSON) for row in found]

    def set_request(self, id: str, status: RequestStatus, *, expected: RequestStatus) -> bool:  # noqa: A002
        """Move a request on, if it is where it is expected to be; False if it is not."""
        require_choice("status of a request", status, _STATUSES)
        return self._rows.update("approval_requests", {"status": status}, {"id": id, "status": expected}) > 0

    def add(self, approval: Approval, record: Mapping[str, Any] | None = None) -> Approval:
        """Note what was decided, from the next decision on, with the record that it counts by.

        `record` is what the audit trail says of it, by default what the approval says.
        """
        require_key("digest", approval.digest)
        require_choice("decision", approval.decision, ("approved", "denied"))
        added = replace(approval, id=approval.id or new_id("a"), decided_at=approval.decided_at or now())
        with self._rows.transaction():
            self._rows.insert_next("approvals", to_row(added))
            self._rows.bump()
            kind = "denied" if added.decision == "denied" else "automatic" if added.rule else "granted"
            said = record or self._record(kind, added, added.decided_by)
            self._trail.append({**said, "terms": approval_terms(added)})
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
        """The approval of this id."""
        return next(iter(self._recorded_only({"id": id})), None)

    def of(self, digest: str) -> list[Approval]:
        """What was decided about a content, the oldest first."""
        return self._recorded_only({"digest": digest})

    def of_skill(self, skill: str, location: str) -> list[Approval]:
        """What was decided about the contents of a skill in a folder and was not revoked, the oldest first."""
        return [one for one in self._recorded_only({"skill": skill, "location": location}) if not one.revoked_at]

    def all(self, active_only: bool = False) -> list[Approval]:
        """Everything that was decided, the oldest first; or only what was not revoked."""
        return [one for one in self._recorded_only({}) if not active_only or not one.revoked_at]

    def _recorded_only(self, where: dict[str, Any]) -> list[Approval]:
        """The approvals that the audit trail bears out, and those it has alone; a row without a record is nothing."""
        with self._rows.snapshot():
            ledger = self._ledger()
            rows = self._rows.select("approvals", where, ("decided_at", "number", "id"))
        found = [one for row in rows if (one := approval_of(row, ledger)) is not None]
        known = {row["id"] for row in rows}
        alone = (one for one in missing(known, ledger) if all(getattr(one, name) == where[name] for name in where))
        return [*found, *alone]

    def revoke(self, id: str, by: str, reason: str, record: Mapping[str, Any] | None = None) -> bool:  # noqa: A002
        """Take an approval back, from the next decision on; False when there is none to take back.

        `record` is what the audit trail says of it, by default no more than that.
        """
        revoked = {"revoked_at": now(), "revoked_by": by, "revoked_reason": reason}
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.revoked_at:
                return False
            self._rows.update("approvals", revoked, {"id": id})
            self._rows.bump()
            self._trail.append(record or {**self._record("revoked", found, by), "reason": reason})
        return True

    def fell(self, id: str, new_digest: str) -> bool:  # noqa: A002
        """Note which content took the place of the approved one; False when that is known already."""
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.fell_to == new_digest:
                return False
            self._rows.update("approvals", {"fell_to": new_digest}, {"id": id})
            self._rows.bump()
        return True
