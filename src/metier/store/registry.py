"""The registry of a tenant: namespaces, the releases in them, and the releases that are deployed to all nodes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.store.rows import Table, given, now, require_choice, require_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.store.rows import TenantRows

ReleaseStatus: TypeAlias = Literal["submitted", "rejected", "withdrawn", "published", "yanked"]
PUBLIC: tuple[ReleaseStatus, ...] = ("published", "yanked")
"""The statuses of releases that were given to others: from then on nothing of them changes but the status."""
_KEY = ("namespace", "name", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryNamespace:
    """A part of the registry, and the people who may publish in it."""

    name: str
    owners: tuple[str, ...] = ()
    """`user:ada` or `role:reviewer`, as approvers of a policy are called."""
    criteria: tuple[str, ...] = ()
    """The statements that a reviewer of a submission has to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryRelease:
    """A version of a skill in the registry, or one that waits to be."""

    namespace: str
    name: str
    version: str
    digest: str
    """The digest of its content, which is a kept revision."""
    archive_digest: str = ""
    """The digest of the zip archive that clients fetch."""
    archive_size: int = 0
    description: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The other facts that an index tells of it, such as its license and its capabilities."""
    status: ReleaseStatus = "published"
    by: str = ""
    at: str = ""
    decided_by: str = ""
    """The person who reviewed or yanked it."""
    decided_at: str = ""
    reason: str = ""
    """The feedback of the review, or the reason to yank it."""
    criteria: Mapping[str, bool] = field(default_factory=dict)
    """The answers of the review."""
    number: int = 0
    """The number of its last change; set by the store."""

    @property
    def ref(self) -> str:
        """The full name: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ReleaseSummary(NamedTuple):
    """A release without what only the newest one of a skill tells, as there may be very many."""

    namespace: str
    name: str
    version: str
    digest: str
    archive_digest: str
    status: ReleaseStatus
    reason: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A release that every node of the tenant has."""

    name: str
    namespace: str
    version: str
    digest: str
    by: str = ""
    reason: str = ""
    at: str = ""


_NAMESPACES = Table(
    name="namespaces", record=RegistryNamespace, order=("name",), json={"owners": tuple, "criteria": tuple}
)
_RELEASES = Table(
    name="releases",
    record=RegistryRelease,
    order=("namespace", "name", "number"),
    json={"facts": dict, "criteria": dict},
)
_KEYS = f"SELECT {', '.join(_KEY)} FROM releases WHERE tenant = ?"
_CHANGED = (
    f"SELECT {', '.join(ReleaseSummary._fields)} FROM releases WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?"
)
_DEPLOYMENTS = Table(name="deployments", record=Deployment, order=("name",))


class Namespaces:
    """The namespaces of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, namespace: RegistryNamespace) -> RegistryNamespace:
        """Add a namespace, or change its owners and criteria."""
        require_key("namespace", namespace.name)
        self._rows.replace(_NAMESPACES, namespace, key=("name",))
        return namespace

    def get(self, name: str) -> RegistryNamespace | None:
        """Return the namespace of this name."""
        return self._rows.first(_NAMESPACES, name=name)

    def all(self) -> list[RegistryNamespace]:
        """Return all namespaces, by name."""
        return self._rows.select(_NAMESPACES)


class Releases:
    """The releases of a tenant, in whatever status."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, release: RegistryRelease) -> RegistryRelease:
        """Add a release, or change the status of one, inside of a transaction that has looked at the one before."""
        for part in _KEY:
            require_key(part, getattr(release, part))
        require_choice("status of a release", release.status, get_args(ReleaseStatus))
        put = replace(release, at=release.at or now(), number=self._rows.next_number(_RELEASES))
        self._rows.replace(_RELEASES, put, key=_KEY)
        return put

    def get(self, namespace: str, name: str, version: str) -> RegistryRelease | None:
        """Return the release of this version, as it was spelled when it was published."""
        return self._rows.first(_RELEASES, namespace=namespace, name=name, version=version)

    def all(
        self, *, namespace: str | None = None, name: str | None = None, status: ReleaseStatus | None = None
    ) -> list[RegistryRelease]:
        """Return releases by namespace and name, those that changed first before others."""
        where = given(namespace=namespace, name=name, status=status)
        if namespace is not None or not where:
            return self._rows.select(_RELEASES, **where)
        # For whole rows, SQLite would pass by the indexes and look at all releases of the tenant.
        condition = "".join(f" AND {column} = ?" for column in where)
        keys = self._rows.statement(f"{_KEYS}{condition}", *where.values())
        found = [one for one in (self.get(*key) for key in keys) if one is not None]
        return sorted(found, key=attrgetter(*_RELEASES.order))

    def changed_since(self, number: int, limit: int = 1_000) -> list[ReleaseSummary]:
        """Return the first releases that are new or have another status since a change, in the order of changes."""
        rows = self._rows.statement(_CHANGED, number, limit)
        return [ReleaseSummary(*row) for row in rows]

    def last_change(self) -> int:
        """Return the number of the last change: what was made of all releases is current as long as it is the same."""
        return self._rows.next_number(_RELEASES) - 1


class Deployments:
    """The deployments of a tenant, one for each name of a skill."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, deployment: Deployment) -> Deployment:
        """Deploy a release in place of the one of the same name."""
        require_key("name", deployment.name)
        deployment = deployment if deployment.at else replace(deployment, at=now())
        with self._rows.transaction():
            self._rows.replace(_DEPLOYMENTS, deployment, key=("name",))
            self._rows.bump()
        return deployment

    def get(self, name: str) -> Deployment | None:
        """Return the deployment of a skill."""
        return self._rows.first(_DEPLOYMENTS, name=name)

    def all(self) -> list[Deployment]:
        """Return all deployments, by name."""
        return self._rows.select(_DEPLOYMENTS)

    def remove(self, name: str) -> bool:
        """Take a skill from all nodes; False where it was on none."""
        with self._rows.transaction():
            was_there = self._rows.delete(_DEPLOYMENTS, name=name)
            if was_there:
                self._rows.bump()
        return was_there
