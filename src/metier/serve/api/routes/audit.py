"""The audit log: search, stream, verification and export."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from fastapi import Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict

from metier._lazy import dataclass
from metier.guard.audit.checkpoints import checkpoints_of, signing_key_file
from metier.guard.audit.export import export_lines
from metier.guard.audit.keys import known_keys
from metier.guard.audit.verification import ChainVerification, verify_store
from metier.guard.policy.durations import moment_of
from metier.serve.api.answers import ApiAnswer
from metier.serve.api.context import Context, ServerContext
from metier.serve.api.credentials import ApiCaller, CallerOf, require
from metier.serve.api.pages import Paging, PagingOf, ResultPage, bad_cursor, cursor_of
from metier.serve.api.routing import new_router
from metier.serve.api.streams import BEAT, SSE, event, watch
from metier.store import TenantScope
from metier.store.audit_filters import AuditFilters
from metier.store.audit_log import ChainedRecord
from metier.store.audit_search import AuditPlace, FoundRecord
from metier.store.node_records import CHECKPOINT

router = new_router(prefix="/api/v1/audit", tag="audit")

_CHUNK = 200
_MOST_AT_ONCE = 500
_LARGEST = 2**62
_JSONL, _CSV = "application/jsonl", "text/csv; charset=utf-8"
_EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"content": {name: {"schema": {"type": "string"}} for name in (_JSONL, "text/csv")}}
}

Name = Annotated[str | None, Query(max_length=300)]
Moment = Annotated[str | None, Query(max_length=40, description="2026-01-31T12:00Z, or how long ago: 90m, 2h, 7d.")]


class RecordAnswer(BaseModel):
    """An audit record with all of its fields; `node` is the node that shipped it, where one did."""

    model_config = ConfigDict(extra="allow")

    seq: int
    """The number in its own chain."""

    @classmethod
    def of(cls, found: FoundRecord) -> RecordAnswer:
        """The answer about a record that was found."""
        record = found.chained.record or {}
        return cls.model_validate({**record, **({"node": found.node} if found.node else {})})


class FaultAnswer(ApiAnswer):
    """The first fault of a chain."""

    seq: int
    kind: str
    message: str


class ChainAnswer(BaseModel):
    """The result of verifying a chain."""

    tenant: str
    node: str
    """The node whose log it is; empty for the log of the server."""
    ok: bool
    records: int
    checkpoints: int
    unsigned: int
    """The records since the last checkpoint."""
    unknown_keys: list[str]
    fault: FaultAnswer | None

    @classmethod
    def of(cls, found: ChainVerification) -> ChainAnswer:
        """The answer about a chain."""
        return cls(ok=found.is_ok, **{name: getattr(found, name) for name in cls.model_fields if name != "ok"})


class VerificationAnswer(BaseModel):
    """Whether all records are as they were written."""

    ok: bool
    chains: list[ChainAnswer]
    damaged_checkpoints: int
    """Lines in the file of checkpoints, and files beside the key, that hold none."""
    unprotected: list[str]
    """Protections of the records that are missing or were changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The records that a request asks for."""

    filters: AuditFilters
    node: str | None


def _wanted(
    skill: Name = None,
    type: Annotated[Name, Query(description="All of it, or its first word.")] = None,  # noqa: A002
    outcome: Literal["allow", "ask", "deny"] | None = None,
    session: Name = None,
    user: Name = None,
    agent: Name = None,
    digest: Name = None,
    since: Moment = None,
    until: Moment = None,
    text: Name = None,
    node: Annotated[Name, Query(description="The id of the node that shipped them.")] = None,
) -> _Wanted:
    filters = AuditFilters(
        skill=skill,
        type=type,
        outcome=outcome,
        session=session,
        user=user,
        agent=agent,
        digest=digest,
        since=moment_of(since),
        until=moment_of(until),
        text=text,
    )
    return _Wanted(filters=filters, node=node)


WantedOf = Annotated[_Wanted, Depends(_wanted)]


@router.get("", **require("viewer"), summary="The records that fit, the newest first, with those of all nodes")
def search(caller: CallerOf, wanted: WantedOf, paging: PagingOf) -> ResultPage[RecordAnswer]:
    found = caller.scope.audit_search.newest(
        wanted.filters, node=wanted.node, place=place_of(paging), batch=paging.limit + 1
    )
    items = list(itertools.islice(found, paging.limit + 1))
    page = items[: paging.limit]
    following = cursor_at(page[-1].place) if len(items) > len(page) else None
    return ResultPage(items=[RecordAnswer.of(one) for one in page], next=following)


def cursor_at(place: AuditPlace) -> str:
    """The cursor behind a record."""
    return cursor_of((place.seq, *place.shipped))


def place_of(paging: Paging) -> AuditPlace | None:
    """The place of a cursor; None for the first page."""
    match paging.after:
        case None:
            return None
        case (int(seq), str(ts), str(node), str(chain), int(epoch), int(number)) if (
            max(map(abs, (seq, epoch, number))) <= _LARGEST
        ):
            return AuditPlace(seq=seq, shipped=(ts, node, chain, epoch, number))
    raise bad_cursor()


@router.get(
    "/stream",
    **require("viewer"),
    summary="Records that fit, as they come",
    response_class=StreamingResponse,
    responses={200: {"content": {SSE: {"schema": {"type": "string"}}}}},
)
async def stream(
    request: Request,
    caller: CallerOf,
    context: Context,
    wanted: WantedOf,
    after: Annotated[int | None, Query(ge=0, le=_LARGEST, description="A number; by default the last one.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=20, pattern="^[0-9]{1,18}$")] = None,
) -> StreamingResponse:
    """Server-sent events of the type `record`, each with the number of its record as id; a client goes on by it."""
    start = int(last_event_id) if last_event_id is not None else after
    return StreamingResponse(_records(request, context, caller, wanted, start), media_type=SSE)


async def _records(
    request: Request, context: ServerContext, caller: ApiCaller, wanted: _Wanted, start: int | None
) -> AsyncIterator[str]:
    audit = caller.scope.audit
    if start is None:
        last = await anyio.to_thread.run_sync(audit.last)
        start = last.seq if last is not None else 0
    place = start

    def read_on() -> list[ChainedRecord]:
        return list(itertools.islice(audit.walk(start=place + 1), _MOST_AT_ONCE))

    async for chained in watch(request, context, read_on):
        if chained is None:
            yield BEAT
            continue
        record = (chained.record if chained.is_whole else None) or {}
        if record.get("type") == CHECKPOINT:
            # Who comes back after a part of them gets all of them again.
            for one in await anyio.to_thread.run_sync(_shipped, caller.scope, record, wanted):
                yield event("record", one, key=str(place))
        place = chained.seq
        if record and wanted.node is None and wanted.filters.selects(record):
            yield event("record", record, key=str(place))


def _shipped(scope: TenantScope, checkpoint: dict[str, Any], wanted: _Wanted) -> list[dict[str, Any]]:
    """The records that a node has shipped with a checkpoint, as far as they are wanted."""
    if wanted.node not in (None, checkpoint["node"]):
        return []
    found = (one.record for one in scope.audit_search.shipped_with(checkpoint) if one.is_whole)
    return [{**one, "node": checkpoint["node"]} for one in found if one is not None and wanted.filters.selects(one)]


@router.get("/verify", **require("viewer"), summary="Whether all records of the tenant are as they were written")
def verify(caller: CallerOf, context: Context) -> VerificationAnswer:
    signing = signing_key_file(context.governance("").effective)
    report = verify_store(known_keys(signing), context.store.url, key_file=signing, tenant=caller.scope.tenant)
    return VerificationAnswer(
        ok=report.is_ok,
        chains=[ChainAnswer.of(one) for one in report.chains],
        damaged_checkpoints=len(report.damaged) + len(report.damaged_marks),
        unprotected=list(report.unprotected),
    )


@router.get(
    "/export",
    **require("viewer"),
    summary="All records, for other programs",
    response_class=StreamingResponse,
    responses=_EXPORT,
)
def export(
    caller: CallerOf,
    form: Annotated[
        Literal["jsonl", "cloudevents", "otlp", "ocsf", "csv"],
        Query(description="`jsonl` can be verified, with its signatures, from the file alone."),
    ] = "jsonl",
) -> StreamingResponse:
    lines = export_lines(caller.scope.audit.walk(), checkpoints_of(caller.scope), form)
    kind = _CSV if form == "csv" else _JSONL
    name = f"audit.{'csv' if form == 'csv' else 'jsonl'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(_chunks(lines), media_type=kind, headers=headers)


def _chunks(lines: Iterator[str]) -> Iterator[str]:
    """Lines in pieces that are worth a change of threads."""
    while batch := list(itertools.islice(lines, _CHUNK)):
        yield "".join(f"{line}\n" for line in batch)
