"""The registry as clients of others read it: discovery 0.2.0 and 0.1.0, marketplaces of plugins, and APM's HTTP API.

Nothing here needs to know Métier: `npx skills add`, Claude Code and `apm install` fetch from it. What they get has the
digest that a list announced, and never changes.
"""

from __future__ import annotations

import mimetypes
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel

from metier.errors import FileMissing, SkillNotFound
from metier.hub.publish.listing import INDEX, OLD_INDEX
from metier.hub.registry.archives import archive_of, files_of_upload
from metier.hub.registry.lists import Form
from metier.hub.registry.publication import find_release, find_releases, publish_release
from metier.serve.api.answers import UploadOf
from metier.serve.api.context import Context
from metier.serve.api.credentials import CallerOf, ReaderOf, require
from metier.serve.api.pages import conditional
from metier.serve.api.problems import documented
from metier.serve.api.routing import new_router
from metier.skill import shown
from metier.store import RegistryRelease, TenantScope
from metier.store.registry import PUBLIC

router = new_router(tag="registry")
SkillName = Annotated[str, Path(max_length=64, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
VersionName = Annotated[str, Path(max_length=64, pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]*$")]
ArchiveName = Annotated[str, Path(max_length=140, pattern=r"^[a-z0-9-]+-[0-9A-Za-z.+-]+\.zip$")]
FilePath = Annotated[str, Path(max_length=1_024)]
_READ: dict[str, Any] = {"openapi_extra": {"x-role": "viewer", "x-nodes": True, "x-anonymous": True}}
_ZIP = "application/zip"
_FOREVER = "private, max-age=31536000, immutable"
_JSON = {200: {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
_LIST: dict[str, Any] = {
    **_READ,
    "response_class": Response,
    "responses": {**_JSON, 304: {"description": "Not Modified"}},
}


def _binary(media_type: str) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    answers = {200: {"description": "OK", "content": content}, 304: {"description": "Not Modified"}}
    return {**_READ, "response_class": Response, "responses": {**answers, **documented(404)}}


@router.get(f"/{INDEX}/index.json", **_LIST, summary="The index of skills (discovery 0.2.0)")
def index(
    request: Request,
    scope: ReaderOf,
    context: Context,
    skill: Annotated[str | None, Query(max_length=64, description="Only this one, with all of its releases.")] = None,
) -> Response:
    if skill is None:
        return _list(request, scope, context, "index")
    data = context.registry_lists(scope.tenant).index_of(scope, skill)
    return conditional(request, Response(data, media_type="application/json"))


@router.get(f"/{OLD_INDEX}/index.json", **_LIST, summary="The index of skills (discovery 0.1.0)")
def old_index(request: Request, scope: ReaderOf, context: Context) -> Response:
    return _list(request, scope, context, "old-index")


@router.get("/marketplace.json", **_LIST, summary="The marketplace of plugins, one for each skill")
def marketplace(request: Request, scope: ReaderOf, context: Context) -> Response:
    return _list(request, scope, context, "marketplace")


@router.get(f"/{INDEX}/{{name}}/{{file}}", **_binary(_ZIP), summary="The archive of a release")
def get_archive(request: Request, scope: ReaderOf, name: SkillName, file: ArchiveName) -> Response:
    return _archive(request, scope, _labelled(scope, file, name))


@router.get("/plugins/{file}", **_binary(_ZIP), summary="The archive of a release as a plugin")
def get_plugin(request: Request, scope: ReaderOf, file: ArchiveName) -> Response:
    return _archive(request, scope, _labelled(scope, file), as_plugin=True)


@router.get(
    f"/{OLD_INDEX}/{{name}}/{{path:path}}",
    **_binary("*/*"),
    summary="A file of the newest release",
)
def get_file(request: Request, scope: ReaderOf, context: Context, name: SkillName, path: FilePath) -> Response:
    namespace, version = context.registry_lists(scope.tenant).current(scope, name)
    digest = find_release(scope, namespace, name, version).digest
    found = scope.revisions.files(digest).get(path)
    if found is None:
        raise FileMissing(f"There is no file {shown(path)!r} in {shown(name)}.", hint="Look at the index.")
    # Whatever a skill has in it must be no page of this server.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    kind = "text/markdown; charset=utf-8" if path.endswith(".md") else mimetypes.guess_type(path)[0]
    safe = kind if kind and kind.startswith(("text/markdown", "text/plain", "application/json")) else None
    return conditional(request, Response(found[1], media_type=safe or "application/octet-stream", headers=headers))


class PackageVersion(BaseModel):
    """A version of a package, as APM lists it."""

    version: str
    digest: str
    published_at: str
    size_bytes: int
    yanked: str | None = None

    @classmethod
    def of(cls, release: RegistryRelease) -> PackageVersion:
        """The entry of a release."""
        return cls(
            version=release.version,
            digest=release.archive_digest,
            published_at=release.at,
            size_bytes=release.archive_size,
            yanked=release.reason if release.status == "yanked" else None,
        )


class PackageVersions(BaseModel):
    """The versions of a package, the newest first."""

    package: str
    versions: list[PackageVersion]


class PublishedVersion(PackageVersion):
    """A version that was just published."""

    package: str


@router.get(
    "/v1/packages/{owner}/{name}/versions",
    **_READ,
    response_model_exclude_none=True,
    summary="The versions of a package (APM)",
    responses=documented(404),
)
def list_versions(scope: ReaderOf, owner: SkillName, name: SkillName) -> PackageVersions:
    newest_first = sorted(find_releases(scope, owner, name), key=lambda one: one.at, reverse=True)
    # What was yanked is left out: clients of this API know no word for it, and would choose it.
    usable = [PackageVersion.of(one) for one in newest_first if one.status == "published"]
    return PackageVersions(package=f"{owner}/{name}", versions=usable)


@router.get(
    "/v1/packages/{owner}/{name}/versions/{version}/download",
    **_binary(_ZIP),
    summary="The archive of a version (APM)",
)
def download(request: Request, scope: ReaderOf, owner: SkillName, name: SkillName, version: VersionName) -> Response:
    return _archive(request, scope, find_release(scope, owner, name, version))


@router.put(
    "/v1/packages/{owner}/{name}/versions/{version}",
    status_code=201,
    **require("author"),
    response_model_exclude_none=True,
    summary="Publish a version (APM)",
    responses=documented(400, 404, 409, 415),
)
def publish_version(
    caller: CallerOf, context: Context, owner: SkillName, name: SkillName, version: VersionName, body: UploadOf
) -> PublishedVersion:
    done = publish_release(
        caller.scope,
        caller.person,
        owner,
        files_of_upload(body),
        guard=context.guard(caller.scope.tenant),
        name=name,
        version=version,
    )
    return PublishedVersion(package=done.ref, **PackageVersion.of(done).model_dump())


def _list(request: Request, scope: TenantScope, context: Context, form: Form) -> Response:
    document = context.registry_lists(scope.tenant).document(scope, form)
    is_compressed = "gzip" in request.headers.get("Accept-Encoding", "")
    headers = {"ETag": f'"{document.digest[7:39]}{"-gzip" if is_compressed else ""}"', "Vary": "Accept-Encoding"}
    headers |= {"Content-Encoding": "gzip"} if is_compressed else {}
    data = document.compressed if is_compressed else document.data
    return conditional(request, Response(data, media_type="application/json", headers=headers))


def _archive(request: Request, scope: TenantScope, release: RegistryRelease, *, as_plugin: bool = False) -> Response:
    digest = str(release.facts["plugin"]) if as_plugin else release.archive_digest
    headers = {"ETag": f'"{digest}"', "Cache-Control": _FOREVER, "X-Content-Type-Options": "nosniff"}
    data = archive_of(scope, release, as_plugin=as_plugin)
    return conditional(request, Response(data, media_type=_ZIP, headers=headers))


def _labelled(scope: TenantScope, file: str, name: str = "") -> RegistryRelease:
    """The release whose archive has a name; its skill may have hyphens, and so may its version."""
    label = file.removesuffix(".zip")
    hyphens = [place for place, letter in enumerate(label) if letter == "-"]
    for place in hyphens:
        if name in ("", label[:place]):
            for release in scope.releases.all(name=label[:place]):
                if release.version == label[place + 1 :] and release.status in PUBLIC:
                    return release
    raise SkillNotFound(f"There is no archive {shown(file)!r}.", hint="Look at the index.")
