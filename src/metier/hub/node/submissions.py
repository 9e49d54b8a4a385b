"""The requests and proposals of a node that wait for people: sent to its server, and their answers brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from metier._json_object import text_at
from metier._lazy import asdict, logger
from metier._paths import is_inside
from metier.errors import FileMissing, ServerRefused
from metier.guard.governance import Governance
from metier.hub.publish.pack import pack
from metier.library.places import node_skills_folder
from metier.store.approvals import RequestStatus
from metier.store.proposals import ProposalStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.guard.node.connection import ServerConnection
    from metier.guard.node.exchange import NodeExchange
    from metier.store import ApprovalRequest, Proposal, TenantScope

log = logger("metier.hub")

_REQUESTS, _PROPOSALS = "/api/v1/nodes/me/requests", "/api/v1/nodes/me/proposals"
_OF_REQUEST = (
    *("id", "digest", "skill", "location", "layer", "environment", "capabilities", "new", "scripts"),
    *("requested_by", "reason", "status", "created_at"),
)
_OF_PROPOSAL = (
    *("id", "kind", "skill", "base_digest", "proposed_digest", "justification", "evidence", "author_kind", "author"),
)
_SECONDS = 60.0


class Submissions:
    """Requests and proposals of this machine, each sent once by a process; the server knows those that it has."""

    def __init__(self, exchange: NodeExchange) -> None:
        self._exchange = exchange
        self._sent: set[str] = set()

    def submit(self) -> None:
        """Bring back what was decided, and send what waits and was not sent yet."""
        for scope in _scopes():
            self._bring_back(scope)
            for request in scope.approvals.requests("pending"):
                self._send(scope, request)
            for proposal in scope.proposals.all("open"):
                if is_inside(proposal.location, node_skills_folder()):
                    self._send(scope, proposal)

    def _send(self, scope: TenantScope, item: ApprovalRequest | Proposal) -> None:
        if item.id in self._sent:
            return
        path, names, digests = _submission(item)
        try:
            for digest in filter(scope.revisions.has, digests):  # the server has what it deployed itself
                _upload(self._exchange.connection, scope, digest)
            found = asdict(item)
            self._exchange.connection.request("POST", path, {name: found[name] for name in names}, seconds=_SECONDS)
        except (ServerRefused, FileMissing) as error:
            log.warning("%s could not be sent to the server of this node: %s", item.id, error)
        self._sent.add(item.id)

    def _bring_back(self, scope: TenantScope) -> None:
        """Let what was decided at the server no longer wait here."""
        state = self._exchange.state
        if state is None:
            return
        answers = {text_at(one, "digest"): one for one in state.requests}
        for request in scope.approvals.requests("pending") if answers else ():
            status = _status(answers.get(request.digest, {}))
            if status in get_args(RequestStatus) and status != "pending":
                scope.approvals.set_request(request.id, status, expected="pending")  # type: ignore[arg-type]
        decided = {text_at(one, "id"): one for one in state.proposals}
        for proposal in scope.proposals.all("open") if decided else ():
            answer = decided.get(proposal.id, {})
            status = _status(answer)
            if status in get_args(ProposalStatus) and status != "open":
                comment = text_at(answer, "comment")
                scope.proposals.move(proposal.id, expected="open", to=status, comment=comment)  # type: ignore[arg-type]


def _status(answer: Mapping[str, object]) -> str:
    return text_at(answer, "status")


def _scopes() -> Iterator[TenantScope]:
    store = Governance.default().store()
    if store is not None:
        yield from map(store.of, dict.fromkeys(("", *store.tenants())))


def _submission(item: ApprovalRequest | Proposal) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The path of the API, the fields that it takes, and the contents that it is about."""
    from metier.store import Proposal

    if isinstance(item, Proposal):
        return _PROPOSALS, _OF_PROPOSAL, tuple(filter(None, (item.base_digest, item.proposed_digest)))
    return _REQUESTS, _OF_REQUEST, (item.digest,)


def _upload(connection: ServerConnection, scope: TenantScope, digest: str) -> None:
    data = pack(scope.revisions.files(digest), "tar.gz")
    connection.request("PUT", f"/api/v1/contents/{digest}", data=data, seconds=_SECONDS)
