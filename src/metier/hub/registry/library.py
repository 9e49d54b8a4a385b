"""Libraries of a registry: the released skills, which people search, and the deployed ones, which sessions load.

Their files are read from the store when somebody asks for them, and not before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier.errors import FileMissing
from metier.find import Finder
from metier.hub.skill_files import package_of
from metier.library import SkillIndex
from metier.library.places import Place
from metier.skill import Identity
from metier.source.memory import PackageSource
from metier.source.source import FoundSkills

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from metier.hub.registry.lists import RegistryLists
    from metier.skill import IdentityRow, MemoryPackage
    from metier.store import Deployment, TenantScope

_SKILL = "SKILL.md"
_MAX_PACKAGES = 200
_MAX_HASHES = 50_000


class StoredSkills(PackageSource):
    """Skills whose contents are in a store; `contents` says which ones now: the digest of each by `folder/name`."""

    def __init__(self, scope: TenantScope, name: str, contents: Callable[[], Mapping[str, str]]) -> None:
        self.name = name
        self._scope = scope
        self._contents = contents
        self._now: Mapping[str, str] = {}
        self._packages: BoundedCache[str, MemoryPackage] = BoundedCache(_MAX_PACKAGES)
        self._hashes: BoundedCache[str, str] = BoundedCache(_MAX_HASHES)
        """The hash of the SKILL.md by the digest of its skill: an index asks for it several times."""

    def packages(self) -> Mapping[str, MemoryPackage]:
        """All packages, each read from the store."""
        return {key: self.package(key) for key in self.find_skills().found}

    def find_skills(self) -> FoundSkills:
        """The skills, by their digests alone."""
        self._now = {f"{ref}/{_SKILL}": digest for ref, digest in self._contents().items()}
        return FoundSkills({key: _identity(digest) for key, digest in self._now.items()})

    def identity(self, key: str) -> IdentityRow | None:
        """An identity that is made of the digest."""
        digest = self._now.get(key)
        return None if digest is None else _identity(digest)

    def read(self, key: str) -> tuple[bytes, Identity]:
        """The bytes of one SKILL.md."""
        digest = self._digest(key)
        sha256 = self._hashes.get(digest)
        if sha256 is None:
            file = self._scope.revisions.file(digest, _SKILL)
            if file is None:
                raise self.missing(key)
            sha256 = self._hashes[digest] = file.sha256
        return self._scope.store.blobs.get(sha256), _identity(digest)

    def package(self, key: str) -> MemoryPackage:
        """The files of one skill."""
        digest = self._digest(key)
        found = self._packages.get(digest)
        if found is None:
            try:
                found = self._packages[digest] = package_of(self._scope.revisions.files(digest))
            except FileMissing:
                raise self.missing(key) from None
        return found

    def _digest(self, key: str) -> str:
        digest = self._now.get(key)
        if digest is None:
            raise self.missing(key)
        return digest

    def location(self, key: str) -> str:
        """The place of the skill in approvals and histories."""
        return f"{self.name}/{key.removesuffix(f'/{_SKILL}')}"


def _identity(digest: str) -> Identity:
    return Identity(0, 0, 0, int(digest.removeprefix("sha256:")[:14], 16))


class ReleasedLibrary:
    """The newest releases of a tenant's skills, to be searched."""

    def __init__(self, scope: TenantScope, lists: RegistryLists) -> None:
        self._scope = scope
        self._lists = lists
        self._number = -1
        self._lock = threading.Lock()
        source = StoredSkills(scope, "registry", self._contents)
        self._index = SkillIndex([Place(layer="enterprise", source=source)], cache=False)
        self._finder = Finder(self._index)

    def _contents(self) -> Mapping[str, str]:
        return {name: facts["content"] for name, facts in self._lists.all_current(self._scope).items()}

    def search(self, query: str, most: int) -> list[str]:
        """The names of the skills that fit a query, the best first."""
        number = self._scope.releases.last_change()
        with self._lock:  # one thread looks at what is new, and the others wait for it
            if number != self._number:
                self._index.refresh()
                self._number = number
        return [one.name for one in self._finder.search(query, most, include_unlisted=True)]


def deployed_namespaces(scope: TenantScope) -> frozenset[tuple[str, str]]:
    """The tenants and namespaces that deployed skills come from: a library has a place for each."""
    return frozenset((one.tenant, deployment.namespace) for one, deployment in _deployed(scope))


def deployed_places(scope: TenantScope) -> list[Place]:
    """The deployed skills of a tenant, and those of the installation whose names it has none of."""
    return [_place(scope, *one) for one in sorted(deployed_namespaces(scope))]


def _place(scope: TenantScope, tenant: str, namespace: str) -> Place:
    def contents() -> dict[str, str]:
        return {
            deployment.name: deployment.digest
            for one, deployment in _deployed(scope)
            if (one.tenant, deployment.namespace) == (tenant, namespace)
        }

    source = StoredSkills(scope.store.of(tenant), f"registry:{namespace}", contents)
    return Place(layer="enterprise", source=source)


def _deployed(scope: TenantScope) -> Iterator[tuple[TenantScope, Deployment]]:
    own = {one.name: one for one in scope.deployments.all()}
    yield from ((scope, one) for one in own.values())
    if scope.tenant:
        installation = scope.store.of()
        yield from ((installation, one) for one in installation.deployments.all() if one.name not in own)
