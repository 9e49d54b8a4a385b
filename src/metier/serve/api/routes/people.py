"""People, and the tokens by which they are known."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import Page, PagingOf, page_of
from metier.store import Person

router = APIRouter(prefix="/api/v1", tags=["people"])


class PersonAnswer(BaseModel):
    """A person, program or node that is known."""

    name: str
    kind: Literal["user", "agent", "service", "node"]
    roles: list[str]

    @classmethod
    def of(cls, person: Person) -> PersonAnswer:
        """The answer about a person."""
        return cls(name=person.name, kind=person.kind, roles=sorted(person.roles))


class Me(PersonAnswer):
    """The caller."""

    tenant: str


@router.get("/me", **require("viewer", nodes=True), summary="Who the credential stands for")
def me(caller: CallerOf) -> Me:
    return Me(**PersonAnswer.of(caller.person).model_dump(), tenant=caller.scope.tenant)


@router.get("/people", **require("viewer"), summary="Who is known")
def list_people(caller: CallerOf, paging: PagingOf) -> Page[PersonAnswer]:
    items, following = page_of(caller.scope.people.all(), paging, lambda one: (one.name,))
    return Page(items=[PersonAnswer.of(one) for one in items], next=following)
