"""Sign-in with an OpenID provider, by a browser and by the command line, and the session that it gives."""

from __future__ import annotations

import hmac
import time
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, Field

from metier.guard.approvals.status import timestamp
from metier.serve.api.answers import ApiBody
from metier.serve.api.browser_session import (
    ATTEMPT,
    COOKIE,
    SESSION_SECONDS,
    base_url,
    clear_cookie,
    csrf_token,
    read_cookie,
    require_private,
    set_cookie,
)
from metier.serve.api.context import Context, ServerContext
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.oidc import OidcProvider, refused
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routes.people import Me, PersonAnswer
from metier.serve.api.routing import new_router
from metier.serve.api.sign_in import ATTEMPT_SECONDS, Attempt, admit, end_session, spend
from metier.skill import shown

router = new_router(prefix="/api/v1", tag="sign-in")

_CALLBACK = "/api/v1/sign-in/callback"


class OidcMethod(BaseModel):
    """The OpenID provider, as a command line needs it for the device flow (RFC 8628)."""

    issuer: str
    client_id: str = Field(description="The client for command lines; empty where only browsers can sign in.")
    scope: str
    device_authorization_endpoint: str = Field(description="Empty where the provider has no device flow.")
    token_endpoint: str


class SignInMethods(BaseModel):
    """The ways to sign in."""

    methods: list[Literal["token", "oidc"]]
    oidc: OidcMethod | None


class SignInProof(ApiBody):
    """The proof that the provider gave a command line."""

    id_token: Annotated[str, Field(min_length=1, max_length=32_768)]
    access_token: Annotated[str, Field(max_length=32_768)] = ""
    """For the claims that the provider gives only when asked."""


class SignInToken(Me):
    """A token for the person who signed in."""

    token: str
    expires_at: str


class BrowserSession(Me):
    """The caller, and what their browser has to send beside the cookie."""

    csrf_token: str = Field(description="Empty for a caller who is known by a header.")


@router.get("/sign-in", responses=documented(502), summary="How people may sign in")
def list_methods(context: Context) -> SignInMethods:
    if context.settings.oidc is None:
        return SignInMethods(methods=["token"], oidc=None)
    provider = _provider(context)
    client = provider.settings.device_client
    oidc = OidcMethod(
        issuer=provider.issuer,
        client_id=client,
        scope=" ".join(provider.settings.scopes),
        device_authorization_endpoint=provider.endpoint("device_authorization_endpoint", is_required=False),
        token_endpoint=provider.endpoint("token_endpoint"),
    )
    return SignInMethods(methods=["token", "oidc"], oidc=oidc)


@router.get(
    "/sign-in/oidc",
    status_code=303,
    response_class=RedirectResponse,
    responses=documented(403, 404, 502),
    summary="Begin to sign in with a browser",
)
def begin_sign_in(
    request: Request,
    context: Context,
    # A path of our own: `//host` and `/\host` are other hosts for a browser.
    return_to: Annotated[str, Query(max_length=2000, pattern=r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$")] = "/",
) -> RedirectResponse:
    provider = _provider(context)
    require_private(request, context.settings)
    attempt = Attempt.begin(base_url(request, context.settings) + _CALLBACK, return_to)
    url = provider.authorization_url(
        attempt.redirect_uri, state=attempt.state, nonce=attempt.nonce, verifier=attempt.verifier
    )
    response = RedirectResponse(url, 303)
    set_cookie(response, context.settings, ATTEMPT, attempt.seal(context), ATTEMPT_SECONDS)
    return response


@router.get(
    "/sign-in/callback",
    status_code=303,
    response_class=RedirectResponse,
    responses=documented(403, 404, 502),
    summary="Come back from the provider",
)
def finish_sign_in(
    request: Request,
    context: Context,
    state: Annotated[str, Query(max_length=500)] = "",
    code: Annotated[str, Query(max_length=8000)] = "",
    iss: Annotated[str, Query(max_length=2000)] = "",
    error: Annotated[str, Query(max_length=500)] = "",
) -> RedirectResponse:
    provider = _provider(context)
    require_private(request, context.settings)
    attempt = _attempt_of(request, context, state)
    if error:
        raise refused(f"the provider answered {shown(error, 100)}")
    if iss != provider.issuer and (iss or provider.metadata.get("authorization_response_iss_parameter_supported")):
        raise refused("another provider answered")  # RFC 9207
    claims = provider.redeem(code, attempt.redirect_uri, nonce=attempt.nonce, verifier=attempt.verifier)
    signed_in = admit(context.store, provider, claims, label="browser")
    # The session that the browser had before, be it planted there or not, is worth nothing from now on.
    before = context.store.by_token(read_cookie(request, context.settings, COOKIE))
    if before is not None:
        end_session(*before)
    response = RedirectResponse(base_url(request, context.settings) + attempt.return_to, 303)
    set_cookie(response, context.settings, COOKIE, signed_in.secret, SESSION_SECONDS)
    clear_cookie(response, context.settings, ATTEMPT)
    return response


def _attempt_of(request: Request, context: ServerContext, state: str) -> Attempt:
    """The attempt that this browser began, which counts once."""
    attempt = Attempt.unseal(read_cookie(request, context.settings, ATTEMPT), context)
    if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
        raise refused("this browser did not begin that sign-in, or too long ago")
    until = timestamp(time.time() + ATTEMPT_SECONDS)
    if not context.store.of().used_once.take(f"sign-in {state}", expires_at=until):
        raise refused("that sign-in was finished already")
    return attempt


@router.post(
    "/sign-in/exchange",
    status_code=201,
    responses=documented(403, 404, 502),
    summary="Exchange an ID token of the device flow for a token",
)
def exchange(request: Request, context: Context, body: SignInProof) -> SignInToken:
    provider = _provider(context)
    require_private(request, context.settings)
    if not provider.settings.device_client:
        raise refused("there is no client for command lines; set `oidc.device_client_id`")
    claims = provider.verify(body.id_token, access_token=body.access_token, client_id=provider.settings.device_client)
    spend(context.store, body.id_token, claims)
    signed_in = admit(context.store, provider, claims, label="command line")
    return SignInToken(
        **PersonAnswer.of(signed_in.person).model_dump(),
        tenant=signed_in.scope.tenant,
        token=signed_in.secret,
        expires_at=signed_in.token.expires_at,
    )


@router.get("/session", **require("viewer"), summary="The session of a browser, and the token that protects it")
def session(request: Request, context: Context, caller: CallerOf) -> BrowserSession:
    token = csrf_token(read_cookie(request, context.settings, COOKIE)) if caller.by_cookie else ""
    return BrowserSession(**PersonAnswer.of(caller.person).model_dump(), tenant=caller.scope.tenant, csrf_token=token)


@router.delete("/session", **require("viewer"), status_code=204, summary="Sign out: the credential counts no longer")
def sign_out(context: Context, caller: CallerOf) -> Response:
    end_session(caller.scope, caller.person)
    response = Response(status_code=204)
    clear_cookie(response, context.settings, COOKIE)
    return response


def _provider(context: ServerContext) -> OidcProvider:
    if context.provider is None:
        raise ProblemError(404, "no-provider", "No OpenID provider is configured.", hint="Use a token.")
    return context.provider
