"""Approvals, and the requests for them: who agreed to which content, to do what, until when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.errors import InvalidArgument
from metier.store.codec import checked_choice, checked_key, new_id, now, packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.store.rows import Rows

RequestStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "superseded"]
_STATUSES = ("pending", "approved", "denied", "expired", "superseded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
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


class Approvals:
    """The approvals of a tenant, and the requests for them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def request(self, request: Request) -> Request:
        """Ask for an approval; the pending request for the same content and environment, where there is one."""
        checked_key("digest", request.digest)
        checked_choice("status of a request", request.status, _STATUSES)
        asked = replace(request, id=request.id or new_id("r"), created_at=request.created_at or now())
        with self._rows.transaction():
            if self._rows.insert("approval_requests", packed(asked), "ignore"):
                return asked
            where = {"digest": asked.digest, "environment": asked.environment, "status": "pending"}
            found = self._rows.select("approval_requests", where)
            if not found:
                raise InvalidArgument(f"There is a request {asked.id!r} already.", hint="Leave the id to the store.")
            return unpacked(Request, found[0], _REQUEST_JSON)

    def get_request(self, id: str) -> Request | None:  # noqa: A002
        """The request of this id."""
        found = self._rows.select("approval_requests", {"id": id})
        return unpacked(Request, found[0], _REQUEST_JSON) if found else None

    def requests(self, status: RequestStatus | None = None, *, skill: str | None = None) -> list[Request]:
        """All requests, or those of a status or of a skill; the oldest first."""
        where: dict[str, Any] = {} if status is None else {"status": status}
        if skill is not None:
            where["skill"] = skill
        found = self._rows.select("approval_requests", where, ("created_at", "id"))
        return [unpacked(Request, row, _REQUEST_JSON) for row in found]

    def set_request(self, id: str, status: RequestStatus, *, expected: RequestStatus) -> bool:  # noqa: A002
        """Move a request on, if it is where it is expected to be; False if it is not."""
        checked_choice("status of a request", status, _STATUSES)
        return self._rows.update("approval_requests", {"status": status}, {"id": id, "status": expected}) > 0

    def add(self, approval: Approval) -> Approval:
        """Note what was decided, from the next decision on."""
        checked_key("digest", approval.digest)
        checked_choice("decision", approval.decision, ("approved", "denied"))
        added = replace(approval, id=approval.id or new_id("a"), decided_at=approval.decided_at or now())
        with self._rows.transaction():
            self._rows.insert("approvals", packed(added))
            self._rows.bump()
        return added

    def get(self, id: str) -> Approval | None:  # noqa: A002
        """The approval of this id."""
        found = self._rows.select("approvals", {"id": id})
        return unpacked(Approval, found[0], APPROVAL_JSON) if found else None

    def of(self, digest: str) -> list[Approval]:
        """What was decided about a content, the oldest first."""
        found = self._rows.select("approvals", {"digest": digest}, ("decided_at", "id"))
        return [unpacked(Approval, row, APPROVAL_JSON) for row in found]

    def of_skill(self, skill: str, location: str) -> list[Approval]:
        """What was decided about the contents of a skill in a folder and was not revoked, the oldest first."""
        where = {"skill": skill, "location": location, "revoked_at": ""}
        found = self._rows.select("approvals", where, ("decided_at", "id"))
        return [unpacked(Approval, row, APPROVAL_JSON) for row in found]

    def all(self, active_only: bool = False) -> list[Approval]:
        """Everything that was decided, the oldest first; or only what was not revoked."""
        where = {"revoked_at": ""} if active_only else {}
        found = self._rows.select("approvals", where, ("decided_at", "id"))
        return [unpacked(Approval, row, APPROVAL_JSON) for row in found]

    def revoke(self, id: str, by: str, reason: str) -> bool:  # noqa: A002
        """Take an approval back, from the next decision on; False when there is none to take back."""
        revoked = {"revoked_at": now(), "revoked_by": by, "revoked_reason": reason}
        with self._rows.transaction():
            was_active = self._rows.update("approvals", revoked, {"id": id, "revoked_at": ""}) > 0
            if was_active:
                self._rows.bump()
        return was_active

    def fell(self, id: str, new_digest: str) -> bool:  # noqa: A002
        """Note which content took the place of the approved one; False when that is known already."""
        with self._rows.transaction():
            found = self.get(id)
            if found is None or found.fell_to == new_digest:
                return False
            self._rows.update("approvals", {"fell_to": new_digest}, {"id": id})
            self._rows.bump()
        return True
