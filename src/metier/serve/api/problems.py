"""Problems: every answer that is no success, in the form of RFC 9457, with the codes that the rest of Métier has."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from metier import errors
from metier._lazy import logger
from metier.errors import MetierError
from metier.hints import for_person
from metier.skill import shown

log = logger("metier.serve")

MEDIA_TYPE = "application/problem+json"
_STATUS: dict[type[MetierError], int] = {
    errors.SkillNotFound: 404,
    errors.FileMissing: 404,
    errors.RequestNotFound: 404,
    errors.ProposalNotFound: 404,
    errors.PersonNotFound: 404,
    errors.SessionNotFound: 404,
    errors.NotPermitted: 403,
    errors.Refused: 403,
    errors.SkillExists: 409,
    errors.ProposalStale: 409,
    errors.PolicyStale: 412,
    errors.IntegrityFailed: 409,
    errors.RequirementsConflict: 409,
    errors.FileTooLarge: 413,
    errors.PackageTooLarge: 413,
    errors.StoreUnavailable: 503,
    errors.AuditUnavailable: 503,
    errors.PartMissing: 501,
}
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_OTHERWISE = 422
"""The status of every other error: the request was understood, and asks for what cannot be."""


class Problem(BaseModel):
    """The answer to a request that failed, and what to do about it; some have members of their own beside these."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`urn:metier:problem:` and the code.")
    title: str = Field(description="The status in words.")
    status: int
    detail: str = Field(description="What happened, and to what.")
    code: str = Field(description="The stable code of the error.")
    hint: str = Field(default="", description="What to do next.")
    errors: list[str] = Field(default_factory=list, description="What is wrong with the request, one by one.")


class ProblemError(Exception):
    """A problem that a handler answers with."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        **more: int,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.hint, self.headers = status, code, detail, hint, headers
        self.more = more

    def answer(self) -> JSONResponse:
        """The answer with it."""
        return problem(
            self.status, self.code, self.detail, hint=for_person(self.hint), headers=self.headers, more=self.more
        )


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str = "",
    errors: list[str] | None = None,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, int] | None = None,
) -> JSONResponse:
    """An answer with a problem, and `more` members of that problem alone."""
    content = Problem(
        type=f"urn:metier:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        errors=errors or [],
        **(more or {}),
    )
    return JSONResponse(
        content.model_dump(exclude_defaults=True),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def status_of(error: MetierError) -> int:
    """The status of an error: that of its class, or of the nearest above it."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), _OTHERWISE)


def answer_problems(app: FastAPI) -> None:
    """Let an app answer every error that was foreseen with a problem; `entrance.py` answers all others."""

    @app.exception_handler(MetierError)
    async def ours(request: Request, error: MetierError) -> JSONResponse:
        if status_of(error) == HTTPStatus.SERVICE_UNAVAILABLE:
            # It names the database, or a file of this machine.
            log.error("a request failed: %s %s: %s", request.method, shown(request.url.path, 300), error.message)
            return problem(503, error.code, "The store cannot be used now; the log of the server says why.")
        listed = error.context.get("problems", ())
        wrong = [str(one) for one in listed] if isinstance(listed, tuple) else None
        return problem(status_of(error), error.code, error.message, hint=for_person(error.hint), errors=wrong)

    @app.exception_handler(ProblemError)
    async def own(request: Request, error: ProblemError) -> JSONResponse:
        return error.answer()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:20]]
        return problem(422, "invalid-request", "The request is not what the API describes.", errors=wrong)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not-found", 405: "method-not-allowed", 413: "request-too-large"}
        code = codes.get(error.status_code, "bad-request")
        allow = {"Allow": _methods_of(request)} if code == "method-not-allowed" else None
        return problem(error.status_code, code, str(error.detail), headers=allow or error.headers)


def _methods_of(request: Request) -> str:
    """The methods of a path: each is a route of its own, so that none of them knows the others."""
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    routes = request.app.routes
    return ", ".join(one for one in _METHODS if any(route.matches(scopes[one])[0] is Match.FULL for route in routes))


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for its description."""
    return {status: {"description": HTTPStatus(status).phrase, "model": Problem} for status in statuses}
