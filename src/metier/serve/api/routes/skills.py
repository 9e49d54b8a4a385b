"""Skills of the registry: listed, searched, and read file by file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field

from metier.errors import FileMissing, SkillNotFound
from metier.hub.diff import difference
from metier.hub.publish.listing import Facts
from metier.hub.registry.publication import find_release
from metier.serve.api.answers import ApiAnswer, sorted_page
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, require
from metier.serve.api.pages import Paging, PagingOf, ResultPage, bad_cursor, conditional, cursor_of, page_of
from metier.serve.api.problems import documented
from metier.serve.api.registry import SkillName, VersionName
from metier.serve.api.routing import new_router
from metier.skill import shown
from metier.skill.package import Files
from metier.store import Deployment, RegistryRelease, TenantScope
from metier.store.registry import PUBLIC

router = new_router(prefix="/api/v1/skills", tag="skills")

_MOST_FOUND = 1_000
_PLAIN = "text/plain; charset=utf-8"
_BINARY = "application/octet-stream"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
VersionQuery = Annotated[str, Query(max_length=64, pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]*$")]


class SkillAnswer(BaseModel):
    """A skill with its newest release."""

    namespace: str
    name: str
    version: str
    description: str
    digest: str
    by: str = Field(description="Who published this version.")
    at: str
    deployed: str | None = Field(description="The version that every node has; null where it is on none.")

    @classmethod
    def of(cls, facts: Facts, deployed: Deployment | None) -> SkillAnswer:
        """The answer about the newest release."""
        return cls(
            namespace=facts["namespace"],
            name=facts["name"],
            version=facts["version"],
            description=facts["description"],
            digest=facts["content"],
            by=facts["provenance"]["by"],
            at=facts["provenance"]["at"],
            deployed=None if deployed is None else deployed.version,
        )


class SkillFile(ApiAnswer):
    """A file of a skill."""

    path: str
    size: int
    sha256: str
    mode: Literal["file", "exec", "link"]
    kind: str


class SkillDetails(SkillAnswer):
    """A skill with what its newest release has in it."""

    license: str | None
    frontmatter: dict[str, Any]
    capabilities: dict[str, Any] = Field(description="What it may do, as the scanner found it.")
    files: list[SkillFile]
    versions: int
    is_quarantined: bool


class SkillVersionAnswer(BaseModel):
    """A version of a skill."""

    version: str
    digest: str
    status: Literal["published", "yanked"]
    reason: str = Field(description="Why it was yanked.")
    by: str
    at: str
    is_deployed: bool


@router.get("", **require("viewer"), summary="The released skills, or those that fit a search, the best first")
def list_skills(
    caller: CallerOf,
    context: Context,
    paging: PagingOf,
    q: Annotated[str | None, Query(max_length=1_000, description='Words, "a phrase", tag:NAME.')] = None,
    namespace: Annotated[str | None, Query(max_length=64)] = None,
    deployed: Annotated[bool | None, Query(description="Only those that are deployed, or that are not.")] = None,
) -> ResultPage[SkillAnswer]:
    scope = caller.scope
    lists = context.registry_lists(scope.tenant)
    current, on_nodes = lists.all_current(scope), {one.name: one for one in scope.deployments.all()}
    # A filter needs all that is found, as it may leave little of it.
    is_filtered = namespace is not None or deployed is not None
    most = _MOST_FOUND if q is None or is_filtered else min(_start(paging) + paging.limit + 1, _MOST_FOUND)
    names = sorted(current) if q is None else context.released(scope).search(q, most)
    wanted = [
        current[name]
        for name in names
        if name in current and namespace in (None, current[name]["namespace"]) and deployed in (None, name in on_nodes)
    ]
    part, following = page_of(wanted, paging, lambda one: (one["name"],)) if q is None else _ranked(wanted, paging)
    return ResultPage(items=[SkillAnswer.of(one, on_nodes.get(one["name"])) for one in part], next=following)


def _ranked(found: list[Facts], paging: Paging) -> tuple[list[Facts], str | None]:
    """A page of what a search found, which is in the order of its ranks."""
    start = _start(paging)
    end = start + paging.limit
    return found[start:end], cursor_of((end,)) if end < len(found) else None


def _start(paging: Paging) -> int:
    match paging.after or (0,):
        case (int(start),) if 0 <= start <= _MOST_FOUND:
            return start
    raise bad_cursor()


@router.get("/{namespace}/{name}", **require("viewer"), summary="A skill", responses=documented(404))
def get_skill(caller: CallerOf, context: Context, namespace: SkillName, name: SkillName) -> SkillDetails:
    scope = caller.scope
    facts = context.registry_lists(scope.tenant).all_current(scope).get(name)
    if facts is None or facts["namespace"] != namespace:
        raise _no_skill(namespace, name)
    revision = scope.revisions.get(facts["content"])
    if revision is None:
        raise _no_skill(namespace, name)
    answer = SkillAnswer.of(facts, _deployment(scope, namespace, name))
    blocked = scope.state().blocked | scope.store.of().state().blocked
    return SkillDetails(
        **answer.model_dump(),
        license=facts.get("license"),
        frontmatter=dict(revision.frontmatter),
        capabilities=dict(revision.capabilities),
        files=_files(scope, revision.digest),
        versions=len(_versions(scope, namespace, name)),
        is_quarantined=not blocked.isdisjoint({("name", name), ("digest", revision.digest)}),
    )


@router.get(
    "/{namespace}/{name}/versions",
    **require("viewer"),
    summary="The versions of a skill, the newest first",
    responses=documented(404),
)
def list_versions(
    caller: CallerOf, namespace: SkillName, name: SkillName, paging: PagingOf
) -> ResultPage[SkillVersionAnswer]:
    deployed = _deployment(caller.scope, namespace, name)
    found = sorted(_versions(caller.scope, namespace, name), key=_order, reverse=True)
    items, following = page_of(found, paging, _order, newest_first=True)
    return ResultPage(
        items=[
            SkillVersionAnswer(
                version=one.version,
                digest=one.digest,
                status="yanked" if one.status == "yanked" else "published",
                reason=one.reason if one.status == "yanked" else "",
                by=one.by,
                at=one.at,
                is_deployed=deployed is not None and deployed.version == one.version,
            )
            for one in items
        ],
        next=following,
    )


def _order(release: RegistryRelease) -> tuple[str, str]:
    return release.at, release.version


def _versions(scope: TenantScope, namespace: str, name: str) -> list[RegistryRelease]:
    found = [one for one in scope.releases.all(namespace=namespace, name=name) if one.status in PUBLIC]
    if not found:
        raise _no_skill(namespace, name)
    return found


def _no_skill(namespace: str, name: str) -> SkillNotFound:
    return SkillNotFound(f"There is no skill {namespace}/{name}.", hint="Look at the list of skills.")


def _deployment(scope: TenantScope, namespace: str, name: str) -> Deployment | None:
    found = scope.deployments.get(name)
    return found if found is not None and found.namespace == namespace else None


@router.get(
    "/{namespace}/{name}/versions/{version}/files",
    **require("viewer"),
    summary="The files of a version",
    responses=documented(404),
)
def list_files(
    caller: CallerOf, namespace: SkillName, name: SkillName, version: VersionName, paging: PagingOf
) -> ResultPage[SkillFile]:
    release = find_release(caller.scope, namespace, name, version)
    return sorted_page(SkillFile, _files(caller.scope, release.digest), paging, "path")


def _files(scope: TenantScope, digest: str) -> list[SkillFile]:
    revision = scope.revisions.get(digest)
    found = revision.files if revision is not None else ()
    return [SkillFile.model_validate(one) for one in sorted(found, key=lambda file: file.path)]


@router.get(
    "/{namespace}/{name}/versions/{version}/files/{path:path}",
    **require("viewer"),
    summary="One file of a version, as text where it is text",
    response_class=Response,
    responses={
        200: {
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                _BINARY: {"schema": {"type": "string", "format": "binary"}},
            }
        },
        304: {"description": "Not Modified"},
        **documented(404),
    },
)
def get_file(
    request: Request,
    caller: CallerOf,
    namespace: SkillName,
    name: SkillName,
    version: VersionName,
    path: Annotated[str, Path(max_length=1_024)],
) -> Response:
    release = find_release(caller.scope, namespace, name, version)
    found = caller.scope.revisions.file(release.digest, path)
    if found is None or found.mode == "link":
        raise FileMissing(f"There is no file {shown(path)!r} in {namespace}/{name}.", hint="Look at its files.")
    data = caller.scope.store.blobs.get(found.sha256)
    # Whatever a skill has in it must be no page of this server.
    kind = _PLAIN if _is_text(data) else _BINARY
    return conditional(request, Response(data, media_type=kind, headers=_HEADERS | {"ETag": f'"{found.sha256}"'}))


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


@router.get(
    "/{namespace}/{name}/diff",
    **require("viewer"),
    summary="The difference between two versions, as a unified diff",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        304: {"description": "Not Modified"},
        **documented(404),
    },
)
def get_difference(
    request: Request,
    caller: CallerOf,
    namespace: SkillName,
    name: SkillName,
    before: Annotated[VersionQuery, Query(alias="from")],
    after: Annotated[VersionQuery, Query(alias="to")],
) -> Response:
    def files_of(version: str) -> Files:
        return caller.scope.revisions.files(find_release(caller.scope, namespace, name, version).digest)

    text = difference(files_of(before), files_of(after))
    return conditional(request, Response(text, media_type=_PLAIN, headers=_HEADERS))
