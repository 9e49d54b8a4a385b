"""The policy that holds for a tenant, the text that its admins write, and all versions of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Header, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from metier.guard.approvals.policy_changes import set_policy
from metier.guard.approvals.requests import MAX_REASON
from metier.guard.policy.reader import MAX_BYTES
from metier.guard.policy.schema import KEYS
from metier.guard.policy.stored import parse_shared_policy
from metier.guard.policy.summary import summarise
from metier.serve.api.answers import ApiAnswer, ApiBody, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import PagingOf, ResultPage, conditional
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store.policy_versions import PolicyVersion

router = new_router(prefix="/api/v1/policy", tag="policy")
_SHOWN = tuple(name for name, key in KEYS.items() if not key.is_of_machine)
"""The keys that callers see: those of the machine name its files, programs and databases."""
_TAG = {"ETag": {"description": "The version, for `If-Match`.", "schema": {"type": "string"}}}


class ProblemAnswer(ApiAnswer):
    """A problem of a policy."""

    path: str
    line: int
    key: str
    severity: Literal["error", "warning"]
    message: str
    hint: str


class PolicyFileAnswer(ApiAnswer):
    """A file or a text that the policy is made of."""

    layer: str
    path: str
    digest: str
    is_broken: bool


class Setting(ApiAnswer):
    """The value of a key, and the lines that set it."""

    value: Any
    set_by: list[str]


class PolicyAnswer(ApiAnswer):
    """The policy that holds: the files of the machine's administrators and the texts in the store, merged."""

    digest: str
    files: list[PolicyFileAnswer]
    values: dict[str, Setting]
    problems: list[ProblemAnswer]


class PolicyVersionSummary(ApiAnswer):
    """A version of the tenant's policy."""

    number: int = Field(description="0 where nobody wrote a policy.")
    digest: str
    by: str
    reason: str
    at: str


class PolicyVersionAnswer(PolicyVersionSummary):
    """A version of the tenant's policy, with its text."""

    text: str
    is_intact: bool = Field(description="False where the store does not have it as it was written.")


class PolicyBody(ApiBody):
    """A text that is to be the policy."""

    text: Annotated[str, Field(max_length=MAX_BYTES)]
    reason: Annotated[str, Field(max_length=MAX_REASON)] = ""
    version: Annotated[int, Field(ge=0, le=2**31)] | None = Field(
        None, description="The version that the change was made of, 0 for none, in place of `If-Match`."
    )


class PolicyDraft(ApiBody):
    """A text that is only to be checked."""

    text: Annotated[str, Field(max_length=MAX_BYTES)]


class CheckAnswer(ApiAnswer):
    """All problems of a text; with an error it cannot be the policy."""

    is_sound: bool
    problems: list[ProblemAnswer]


@router.get("", **require("viewer"), summary="The policy that holds, with the lines that set it")
def get_policy(caller: CallerOf, context: Context) -> PolicyAnswer:
    effective = context.governance(caller.scope.tenant).effective
    hidden = tuple(name for name in KEYS if name not in _SHOWN)
    found = summarise(effective, _SHOWN)
    problems = [one for one in found["problems"] if not one["key"].startswith(hidden)]
    return PolicyAnswer.model_validate(found | {"problems": problems})


@router.get(
    "/text",
    **require("viewer"),
    summary="The text that the tenant's admins wrote",
    response_model=PolicyVersionAnswer,
    responses={200: {"headers": _TAG}, 304: {"description": "Not Modified"}},
)
def get_policy_text(request: Request, caller: CallerOf) -> Response:
    return conditional(request, _answer(caller.scope.policy_versions.last() or PolicyVersion(number=0)))


@router.put(
    "/text",
    **require("admin"),
    summary="Change the policy from the next decision on, by a change of the version that holds now",
    response_model=PolicyVersionAnswer,
    responses={200: {"headers": _TAG}, **documented(409, 412, 428)},
)
def put_policy_text(
    caller: CallerOf, body: PolicyBody, if_match: Annotated[str | None, Header(max_length=200)] = None
) -> Response:
    if if_match is None and body.version is None:
        hint = "Send `version`, or `If-Match` with the ETag, of the text that your change was made of."
        raise ProblemError(428, "precondition-required", "Nobody else's change is to be lost.", hint=hint)
    expected = body.version if if_match is None else _expected(if_match, caller.scope.policy_versions.last())
    version = set_policy(caller.scope, caller.person, body.text, reason=body.reason, expected=expected)
    return _answer(version)


def _expected(if_match: str, last: PolicyVersion | None) -> int:
    """The version that a change was made of; -1 for none that there can be."""
    now = last.number if last is not None else 0
    tags = {tag.strip() for tag in if_match.split(",")}
    return now if _tag(now) in tags or ("*" in tags and now) else -1


def _tag(number: int) -> str:
    return f'"{number}"'


def _answer(version: PolicyVersion) -> JSONResponse:
    content = PolicyVersionAnswer.model_validate(version).model_dump()
    return JSONResponse(content, headers={"ETag": _tag(version.number)})


@router.get("/versions", **require("viewer"), summary="All versions of the tenant's policy, the newest first")
def list_policy_versions(caller: CallerOf, paging: PagingOf) -> ResultPage[PolicyVersionSummary]:
    found = caller.scope.policy_versions.all()
    return sorted_page(PolicyVersionSummary, found, paging, "number", newest_first=True)


@router.get(
    "/versions/{number}", **require("viewer"), summary="A version of the tenant's policy", responses=documented(404)
)
def get_policy_version(caller: CallerOf, number: Annotated[int, Path(ge=1, le=2**31)]) -> PolicyVersionAnswer:
    found = caller.scope.policy_versions.get(number)
    if found is None:
        raise ProblemError(404, "policy-not-found", f"There is no version {number} of the policy.")
    return PolicyVersionAnswer.model_validate(found)


@router.post("/check", **require("viewer"), summary="Say what is wrong with a text; nothing changes")
def check_policy(caller: CallerOf, body: PolicyDraft) -> CheckAnswer:
    file = parse_shared_policy(body.text)
    return CheckAnswer(is_sound=not file.is_broken, problems=list(map(ProblemAnswer.model_validate, file.problems)))
