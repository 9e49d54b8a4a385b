"""The exchange with nodes: their state and leases, their audit records and inventory, their requests and proposals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from metier._lazy import asdict, dataclass
from metier.guard import Actor
from metier.guard.audit.governance_events import governance_record
from metier.hints import for_people
from metier.hub.node_submissions import receive_proposal, receive_request
from metier.serve.api.answers import ApiAnswer, ApiBody
from metier.serve.api.context import Context, ServerContext
from metier.serve.api.credentials import CallerOf, bearer_of, require
from metier.serve.api.node_watch import NodeWatch
from metier.serve.api.pages import conditional, etag_of
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store import ApprovalRequest, Proposal, TenantScope
from metier.store.node_records import NodeChain, SentRecord
from metier.store.nodes import ManagedNode

router = new_router(prefix="/api/v1/nodes/me", tag="nodes")

_LEASE_EVERY = 15.0
_SEEN_EVERY = timedelta(seconds=60)
_MAX_RECORDS, _MAX_RECORD = 500, 300_000
_MAX_HASHES = 10_000
_DIGEST = r"^sha256:[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, Field(pattern=_DIGEST)]
Seq = Annotated[int, Field(ge=1, le=2**53)]
Short = Annotated[str, Field(max_length=1_000)]
Text = Annotated[str, Field(max_length=20_000)]
Chain = Annotated[str, Field(max_length=2_000, description="The tenant of the log on the node.")]


class SignedAnswer(ApiAnswer):
    """A text that the server signed."""

    payload: str = Field(description="JSON, as it was signed.")
    key_id: str
    signature: str = Field(description="Ed25519, in Base64.")


class NodeRecord(ApiBody):
    """A record of the node's audit log, as it is there."""

    seq: Seq
    text: Annotated[str, Field(max_length=_MAX_RECORD)]
    previous: Sha256
    hash: Sha256


class RecordBatch(ApiBody):
    """Records of one audit log of the node."""

    chain: Chain = ""
    records: Annotated[list[NodeRecord], Field(min_length=1, max_length=_MAX_RECORDS)]


class RecordReceipt(BaseModel):
    """The last record that the server has."""

    chain: str
    seq: int
    hash: str
    is_own: Annotated[
        bool, Field(description="Whether that log is the server's own, so that there is nothing to send.")
    ] = False


class ChainHashes(ApiBody):
    """Hashes of one audit log of the node, computed anew from its content; the last is that of its end."""

    chain: Chain = ""
    hashes: Annotated[list[tuple[Seq, Sha256]], Field(max_length=_MAX_HASHES)]
    known: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None, description="The last record that the server had before the node read its log."
    )


class ChainComparison(BaseModel):
    """The first record that is another one than the server has."""

    differs: int | None


class InventorySkill(ApiBody):
    """A skill in a folder of a client."""

    name: Short
    path: Short
    digest: Annotated[str, Field(max_length=100)] = ""
    layer: Annotated[str, Field(max_length=100)] = ""


class InventoryPlugin(ApiBody):
    """A plugin of a client."""

    name: Short
    version: Annotated[str, Field(max_length=200)] = ""
    path: Short = ""


class InventoryClient(ApiBody):
    """A client, and the skills and plugins that it has."""

    client: Annotated[str, Field(max_length=100)]
    skills: list[InventorySkill] = Field([], max_length=2_000)
    plugins: list[InventoryPlugin] = Field([], max_length=500)


class Inventory(ApiBody):
    """The skills and plugins of all clients of a node, without their contents."""

    clients: Annotated[list[InventoryClient], Field(max_length=100)]


class NodeRequest(ApiBody):
    """A request for an approval that a user of the node has made."""

    id: Annotated[str, Field(pattern=r"^r-[0-9a-z]{1,32}$")]
    digest: Digest
    skill: Annotated[str, Field(min_length=1, max_length=300)]
    location: Short = ""
    layer: Annotated[str, Field(max_length=100)] = ""
    environment: Annotated[str, Field(max_length=100)] = ""
    capabilities: list[Short] = Field([], max_length=200)
    new: list[Short] = Field([], max_length=200)
    scripts: dict[Short, Short] = Field({}, max_length=2_000)
    requested_by: Short = ""
    reason: Text = ""
    status: Literal["pending"] = "pending"
    created_at: Annotated[str, Field(max_length=40)] = ""


class RequestReceipt(ApiAnswer):
    """The request as the server has it: another id means that it waited for an answer already."""

    id: str
    digest: str
    status: str


class NodeProposal(ApiBody):
    """A change of a deployed skill that a user of the node, or an agent of theirs, proposes."""

    id: Annotated[str, Field(pattern=r"^p-[0-9a-z]{1,32}$")]
    kind: Literal["update", "new"] = "update"
    skill: Annotated[str, Field(min_length=1, max_length=300)]
    base_digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    proposed_digest: Digest
    justification: Annotated[str, Field(min_length=1, max_length=20_000)]
    evidence: list[Text] = Field([], max_length=50)
    author_kind: Literal["agent", "user"] = "user"
    author: Annotated[str, Field(max_length=200)] = ""


class ProposalReceipt(ApiAnswer):
    """The proposal as the server has it: another id means that the same change waited already."""

    id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCaller:
    """The node that sent a request."""

    scope: TenantScope
    node: ManagedNode

    def event(self) -> dict[str, Any]:
        """The fields of a record about the node's audit log."""
        actor = Actor(user=self.node.id, tenant=self.scope.tenant or None)
        return governance_record("node.checkpoint", actor=actor, by="host").as_dict()


def _node_of(caller: CallerOf) -> NodeCaller:
    node = caller.scope.nodes.get(caller.person.name)
    if node is None:
        raise ProblemError(
            404,
            "node-not-found",
            "The credential is that of no machine.",
            hint=for_people("Enrol it: `metier login URL`."),
        )
    _note_seen(caller.scope, node)
    return NodeCaller(scope=caller.scope, node=node)


def _note_seen(scope: TenantScope, node: ManagedNode) -> None:
    seen = datetime.fromisoformat(node.last_seen_at) if node.last_seen_at else None
    if seen is None or datetime.now(UTC) - seen > _SEEN_EVERY:
        scope.nodes.note_seen(node.id)


NodeOf = Annotated[NodeCaller, Depends(_node_of)]


@router.get(
    "/state",
    **require("node"),
    summary="Policy, decisions and deployed skills, signed",
    response_model=SignedAnswer,
    responses={304: {"description": "Not Modified"}, **documented(404)},
)
def get_state(request: Request, caller: NodeOf, context: Context) -> Response:
    states = context.node_states
    payload = states.current(caller.scope.tenant).payload(caller.node.id)
    answer = JSONResponse(asdict(states.sign(payload)), headers={"ETag": etag_of(payload)})
    return conditional(request, answer)


@router.post("/lease", **require("node"), summary="A lease of the present state, signed", responses=documented(404))
def get_lease(caller: NodeOf, context: Context) -> SignedAnswer:
    return SignedAnswer.model_validate(context.node_states.lease(caller.scope.tenant, caller.node.id))


@router.get(
    "/events",
    **require("node"),
    summary="A stream of leases: at once, on every change, and every 15 seconds",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **documented(404),
    },
)
async def follow(request: Request, caller: NodeOf, context: Context) -> StreamingResponse:
    events = _leases(context, caller, bearer_of(request))
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _leases(context: ServerContext, caller: NodeCaller, secret: str) -> AsyncIterator[str]:
    watch = NodeWatch.of(context)
    async with watch.following(caller.scope.tenant) as feed:
        while not context.stopping.is_set():
            changed = feed.changed
            event = await run_in_threadpool(_next_event, context, caller, secret)
            if event is None:
                return
            yield event
            await watch.wait(changed, _LEASE_EVERY)


def _next_event(context: ServerContext, caller: NodeCaller, secret: str) -> str | None:
    """The next event for a node; None where its token counts no longer."""
    node = caller.scope.nodes.get(caller.node.id)
    if node is None or context.store.by_token(secret) is None:
        return None
    _note_seen(caller.scope, node)
    lease = context.node_states.lease(caller.scope.tenant, node.id)
    return f"event: lease\ndata: {SignedAnswer.model_validate(lease).model_dump_json()}\n\n"


@router.post(
    "/records", **require("node"), summary="The next records of the node's audit log", responses=documented(404, 409)
)
def send_records(caller: NodeOf, body: RecordBatch) -> RecordReceipt:
    records = [SentRecord(**one.model_dump()) for one in body.records]
    receipt = caller.scope.node_records.accept(caller.node, body.chain, records, caller.event())
    if receipt.conflict:
        raise ProblemError(
            409,
            "record-conflict",
            f"Record {receipt.conflict:,} is not the one that was sent before, or does not follow it.",
            hint="Its audit log was changed. An admin can let it begin anew.",
            seq=receipt.conflict,
        )
    if receipt.has_gap:
        expected = receipt.last.seq + 1
        raise ProblemError(409, "record-gap", f"Record {expected:,} comes next.", hint="Send it.", expected=expected)
    return RecordReceipt(chain=body.chain, seq=receipt.last.seq, hash=receipt.last.hash)


@router.get("/records", **require("node"), summary="The last record that the server has", responses=documented(404))
def get_last_record(
    caller: NodeOf,
    chain: Annotated[str, Query(max_length=2_000)] = "",
    first: Annotated[
        str, Query(max_length=64, pattern="^[0-9a-f]*$", description="The hash of the first record of the log.")
    ] = "",
) -> RecordReceipt:
    where = NodeChain(node=caller.node.id, chain=chain, epoch=caller.node.epoch)
    last = caller.scope.node_records.last(where)
    # On the machine of the server itself, each record that is accepted would be one more to send.
    own = next(caller.scope.audit.links(0, 1), None) if first else None
    is_own = own is not None and own[3] == first
    return RecordReceipt(chain=chain, seq=last.seq, hash=last.hash, is_own=is_own)


@router.post(
    "/compare", **require("node"), summary="Whether the node still has what it has sent", responses=documented(404)
)
def compare(caller: NodeOf, body: ChainHashes) -> ChainComparison:
    records = caller.scope.node_records
    differs = records.compare(caller.node, body.chain, body.hashes, caller.event(), known=body.known)
    return ChainComparison(differs=differs)


@router.put(
    "/inventory", status_code=204, **require("node"), summary="Its skills and plugins", responses=documented(404)
)
def put_inventory(caller: NodeOf, body: Inventory) -> Response:
    caller.scope.nodes.put_inventory(caller.node.id, body.model_dump_json(exclude_defaults=True))
    return Response(status_code=204)


@router.post(
    "/requests", status_code=201, **require("node"), summary="Request an approval", responses=documented(404, 409)
)
def send_request(caller: NodeOf, context: Context, body: NodeRequest) -> RequestReceipt:
    given = body.model_dump(exclude={"requested_by", "created_at", "capabilities", "new"})
    asked = ApprovalRequest(**given, capabilities=tuple(body.capabilities), new=tuple(body.new))
    agent = body.requested_by.partition("agent:")[2][:200]
    made = receive_request(caller.scope, context.guard(caller.scope.tenant), caller.node, asked, agent=agent)
    return RequestReceipt.model_validate(made)


@router.post(
    "/proposals",
    status_code=201,
    **require("node"),
    summary="Propose a change of a deployed skill",
    responses=documented(403, 404, 409),
)
def send_proposal(caller: NodeOf, context: Context, body: NodeProposal) -> ProposalReceipt:
    made = receive_proposal(
        caller.scope, context.guard(caller.scope.tenant), caller.node, Proposal(**body.model_dump())
    )
    return ProposalReceipt.model_validate(made)
