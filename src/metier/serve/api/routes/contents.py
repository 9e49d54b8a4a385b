"""The contents of skills by digest, as nodes and people fetch them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import BaseModel

from metier._cache import BoundedCache
from metier.hub.publish.pack import pack
from metier.hub.registry.archives import keep_upload
from metier.hub.skill_files import without_links
from metier.serve.api.answers import UploadOf
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import conditional
from metier.serve.api.problems import ProblemError, documented
from metier.serve.api.routing import new_router
from metier.store import TenantScope

router = new_router(prefix="/api/v1/contents", tag="contents")
ContentDigest = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{64}$")]
MEDIA_TYPE = "application/gzip"
_MAX_CACHED, _MAX_CACHED_BYTES = 32, 2 * 1024 * 1024
_archives: BoundedCache[tuple[str, str], bytes] = BoundedCache(_MAX_CACHED)
"""The archives of small contents by store and digest: all nodes ask for the same one at the same time."""


class ContentAnswer(BaseModel):
    """A content that is kept."""

    digest: str


@router.get(
    "/{digest}",
    **require("viewer", nodes=True),
    summary="A content as tar.gz",
    response_class=Response,
    responses={
        200: {"description": "OK", "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
        304: {"description": "Not Modified"},
        **documented(404, 422),
    },
)
def get_content(request: Request, caller: CallerOf, context: Context, digest: ContentDigest) -> Response:
    scope = _scope_with(caller.scope, digest)
    if scope is None:
        raise ProblemError(404, "content-not-found", "There is no such content.", hint="Send it first by PUT.")
    key = (str(scope.store), digest)
    data = _archives.get(key)
    if data is None:
        data = pack(without_links(scope.revisions.files(digest)), "tar.gz")
        if len(data) <= _MAX_CACHED_BYTES:
            _archives[key] = data
    return conditional(request, Response(data, media_type=MEDIA_TYPE, headers={"ETag": f'"{digest}"'}))


@router.put(
    "/{digest}",
    status_code=201,
    **require("author", nodes=True),
    summary="Keep the content of an archive, which is verified by its digest",
    responses={200: {"description": "It was kept already."}, **documented(409, 415, 422)},
)
def put_content(
    caller: CallerOf, context: Context, digest: ContentDigest, body: UploadOf, response: Response
) -> ContentAnswer:
    effective = context.governance(caller.scope.tenant).effective
    if not keep_upload(caller.scope, effective, digest, body):
        response.status_code = 200
    return ContentAnswer(digest=digest)


def _scope_with(scope: TenantScope, digest: str) -> TenantScope | None:
    """The scope that has a content: the caller's, or that of the installation for a skill deployed to everybody."""
    if scope.revisions.has(digest):
        return scope
    common = scope.store.of()
    is_common = any(one.digest == digest for one in common.deployments.all())
    return common if is_common and common.revisions.has(digest) else None
