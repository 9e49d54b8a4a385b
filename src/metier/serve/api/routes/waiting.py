"""Items that wait for somebody to decide."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from metier.guard.approvals.pending import items_for
from metier.serve.api.answers import ApiAnswer, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.routes.approvals import policy_for
from metier.serve.api.routing import new_router

router = new_router(prefix="/api/v1", tag="approvals")
ItemKind = Literal["request", "proposal", "quarantine"]


class WaitingItem(ApiAnswer):
    """An item that waits for a decision, as the caller sees it."""

    kind: ItemKind
    id: str
    skill: str
    by: str
    since: str
    may_decide: bool = Field(description="Whether the caller may decide about it.")
    age: int = Field(description="The seconds for which it has been waiting.")


@router.get("/waiting", **require("viewer"), summary="What waits for the caller to decide, or was asked for by them")
def list_waiting(
    caller: CallerOf, context: Context, paging: PagingOf, kind: Annotated[ItemKind | None, Query()] = None
) -> ResultPage[WaitingItem]:
    found = items_for(caller.scope, policy_for(context, caller), caller.person)
    return sorted_page(WaitingItem, (one for one in found if kind in (None, one.kind)), paging, "since", "kind", "id")
