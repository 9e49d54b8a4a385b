"""The caller of a request: who it is, for which tenant, and in which role, from the credential alone.

Boundary: no handler under `/api/v1` runs before `require` has found the caller and their role, and no handler reads a
tenant from anything but the caller's scope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from metier._lazy import dataclass
from metier.guard.approvals.roles import has_role
from metier.serve.api.browser_session import COOKIE, read_cookie, require_own_page
from metier.serve.api.context import Context
from metier.serve.api.problems import ProblemError
from metier.serve.api.settings import ServerSettings
from metier.store import Person, TenantScope

Role = Literal["viewer", "author", "reviewer", "admin", "node"]
_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token that `metier user token` made.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCaller:
    """The person or node that sent a request, within the tenant of their credential."""

    scope: TenantScope
    person: Person
    by_cookie: bool = False
    """Whether a browser sent it by itself, so that a page of somebody else may be behind it."""

    @property
    def is_node(self) -> bool:
        """Whether it is a machine and no person."""
        return self.person.kind == "node"


def no_credential() -> ProblemError:
    """The problem of a request that nobody known has sent."""
    return ProblemError(
        401,
        "unauthorized",
        "No valid credential came with the request.",
        hint="Send the header `Authorization: Bearer TOKEN`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def secret_of(request: Request) -> str:
    """The token that came with a request, in its header or else in a cookie of either name; empty for none."""
    return bearer_of(request) or request.cookies.get(f"__Host-{COOKIE}") or request.cookies.get(COOKIE, "")


def bearer_of(request: Request) -> str:
    """The token in the header of a request; empty for none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _caller(
    request: Request,
    context: Context,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> ApiCaller:
    secret, by_cookie = (
        (bearer.credentials, False) if bearer is not None else (read_cookie(request, context.settings, COOKIE), True)
    )
    found = context.store.by_token(secret) if secret else None
    if found is None:
        raise no_credential()
    if by_cookie:
        require_own_page(request, context.settings, secret)
    caller = ApiCaller(scope=found[0], person=found[1], by_cookie=by_cookie)
    request.state.caller = caller
    return caller


def require(role: Role, *, nodes: bool = False) -> dict[str, Any]:
    """The options of a route that takes a role; with `nodes`, machines may call it too.

    The role stands in the OpenAPI document as `x-role`, from which the table of who may call what is made.
    """
    return {"dependencies": [Depends(_demand(role, nodes))], "openapi_extra": {"x-role": role, "x-nodes": nodes}}


def _demand(role: Role, nodes: bool) -> Callable[[ApiCaller], None]:
    def check(caller: CallerOf) -> None:
        may = nodes or role == "node" if caller.is_node else role != "node" and has_role(caller.person, role)
        if not may:
            raise ProblemError(
                403,
                "not-permitted",
                f"This takes {'a node' if role == 'node' else f'the role {role}'}.",
                hint="Ask an admin of your organisation.",
            )

    return check


CallerOf = Annotated[ApiCaller, Depends(_caller)]


def _scope_where(is_open: Callable[[ServerSettings], bool]) -> Callable[..., TenantScope]:
    """The scope of a viewer or a node; where it `is_open`, that of the installation for whoever has no credential."""

    def scope(
        request: Request,
        context: Context,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    ) -> TenantScope:
        if bearer is None and not read_cookie(request, context.settings, COOKIE) and is_open(context.settings):
            return context.store.of()
        caller = _caller(request, context, bearer)
        _demand("viewer", nodes=True)(caller)
        return caller.scope

    return scope


ReaderOf = Annotated[TenantScope, Depends(_scope_where(lambda settings: settings.has_open_registry))]
"""The scope whose registry a request may read: that of its credential, or where anybody may, of the installation."""
ObserverOf = Annotated[TenantScope, Depends(_scope_where(lambda settings: settings.has_open_metrics))]
"""The scope that a request may observe: that of its credential, or on this machine alone, of the installation."""
