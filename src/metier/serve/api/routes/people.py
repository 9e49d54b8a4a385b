"""People, and the tokens by which they are known."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import Path, Response
from pydantic import Field

from metier.errors import PersonNotFound
from metier.guard.approvals.people import (
    TokenState,
    add_person,
    make_token,
    remove_person,
    revoke_token,
    token_state,
    visible_tokens,
)
from metier.guard.approvals.status import timestamp
from metier.guard.policy.durations import seconds_of
from metier.serve.api.answers import ApiAnswer, ApiBody, Duration, sorted_page
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.serve.api.settings import Role
from metier.skill import shown
from metier.store import AccessToken, Person, TenantScope

router = new_router(prefix="/api/v1", tag="people")
_MAX_NAME = 64
PersonName = Annotated[str, Path(min_length=1, max_length=_MAX_NAME)]
TokenId = Annotated[str, Path(max_length=64, pattern="^t-[0-9a-z]+$")]


class PersonAnswer(ApiAnswer):
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


class PersonBody(ApiBody):
    """The roles of a person."""

    roles: list[Role] = Field(min_length=1, max_length=4)
    kind: Literal["user", "agent", "service"] = "user"


class TokenAnswer(ApiAnswer):
    """A token, without its secret."""

    id: str
    person: str
    label: str
    created_at: str
    expires_at: str = Field(description="Empty for never.")
    revoked_at: str
    state: TokenState

    @classmethod
    def of(cls, token: AccessToken) -> TokenAnswer:
        """The answer about a token, with its state now."""
        fields = {name: getattr(token, name) for name in cls.model_fields if name != "state"}
        return cls(**fields, state=token_state(token, timestamp(time.time())))


class NewToken(TokenAnswer):
    """A token with its secret, which nobody can show again."""

    secret: str


class TokenBody(ApiBody):
    """A token that is wanted."""

    person: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = Field(
        None, description="For whom; null for the caller. For somebody else it takes the role admin."
    )
    label: Annotated[str, Field(max_length=200)] = ""
    expires: Duration | None = None


class RevokedTokens(ApiAnswer):
    """A token that counts no longer, and those that were made with it."""

    revoked: list[TokenAnswer]


@router.get("/me", **require("viewer", nodes=True), summary="Who the credential stands for")
def me(caller: CallerOf) -> Me:
    return Me(**PersonAnswer.of(caller.person).model_dump(), tenant=caller.scope.tenant)


@router.get("/people", **require("viewer"), summary="Who is known")
def list_people(caller: CallerOf, paging: PagingOf) -> ResultPage[PersonAnswer]:
    return sorted_page(PersonAnswer, map(PersonAnswer.of, caller.scope.people.all()), paging, "name")


@router.get("/people/{name}", **require("viewer"), summary="A person", responses=documented(404))
def get_person(caller: CallerOf, name: PersonName) -> PersonAnswer:
    return PersonAnswer.of(_find(caller.scope, name))


@router.put(
    "/people/{name}",
    **require("admin"),
    summary="Add somebody, or give them other roles",
    responses={201: {"model": PersonAnswer, "description": "Created"}, **documented(409)},
)
def put_person(caller: CallerOf, name: PersonName, body: PersonBody, response: Response) -> PersonAnswer:
    known = caller.scope.people.get(name)
    if known is not None:
        _require_no_node(known)
    added = add_person(caller.scope, caller.person, name, body.roles, kind=body.kind)
    response.status_code = 201 if known is None else 200
    return PersonAnswer.of(added)


@router.delete(
    "/people/{name}",
    **require("admin"),
    status_code=204,
    summary="Remove somebody, and all of their tokens; their approvals stay",
    responses=documented(404, 409),
)
def delete_person(caller: CallerOf, name: PersonName) -> None:
    _require_no_node(_find(caller.scope, name))
    remove_person(caller.scope, caller.person, name)


@router.get("/tokens", **require("viewer"), summary="The caller's tokens; admins see all")
def list_tokens(caller: CallerOf, paging: PagingOf) -> ResultPage[TokenAnswer]:
    found = map(TokenAnswer.of, visible_tokens(caller.scope, caller.person))
    return sorted_page(TokenAnswer, found, paging, "created_at", "id", newest_first=True)


@router.post(
    "/tokens",
    **require("viewer"),
    status_code=201,
    summary="Make a token, which ends with the one that it is made with; its secret is shown once",
    responses=documented(404, 409),
)
def post_token(caller: CallerOf, body: TokenBody, response: Response) -> NewToken:
    name = caller.person.name if body.person is None else body.person
    known = caller.scope.people.get(name)
    if known is not None:
        _require_no_node(known)
    expires = None if body.expires is None else seconds_of(body.expires) or 0
    token, secret = make_token(caller.scope, caller.person, name, label=body.label, expires=expires)
    response.headers["Cache-Control"] = "no-store"
    return NewToken(**TokenAnswer.of(token).model_dump(), secret=secret)


@router.delete(
    "/tokens/{id}",
    **require("viewer"),
    summary="Accept a token no longer, and none that was made with it",
    responses=documented(404),
)
def delete_token(caller: CallerOf, id: TokenId) -> RevokedTokens:  # noqa: A002
    revoked = {one.id for one in revoke_token(caller.scope, caller.person, id)}
    found = [one for one in caller.scope.people.tokens() if one.id in revoked]
    return RevokedTokens(revoked=list(map(TokenAnswer.of, found)))


def _find(scope: TenantScope, name: str) -> Person:
    found = scope.people.get(name)
    if found is None:
        raise PersonNotFound(f"Nobody is called {shown(name)!r} here.", hint="List the people.")
    return found


def _require_no_node(person: Person) -> None:
    """Raise a problem for a node: it has no roles, and its token is made and revoked with it."""
    if person.kind == "node":
        raise ProblemError(409, "is-node", f"{shown(person.name)!r} is a node.", hint="Use the routes of nodes.")
