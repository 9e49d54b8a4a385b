"""The lists of a registry for clients: made once for each change of the registry, and given out from memory.

A change is read from the store by its number, so that another process's release is in the next answer too.
"""

from __future__ import annotations

import functools
import gzip
import json
import threading
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from packaging.version import Version

from metier._cache import BoundedCache
from metier._lazy import dataclass
from metier.errors import SkillNotFound
from metier.hub.publish.listing import RELEASE, Listing, index, marketplace, old_index, select
from metier.hub.sources.http import sha256_of
from metier.hub.sources.well_known import EXTENSION
from metier.skill import shown
from metier.skill.skill_requirement import version_of
from metier.store.registry import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.hub.publish.listing import Facts
    from metier.store import RegistryRelease, TenantScope

Form: TypeAlias = Literal["index", "old-index", "marketplace"]
_BATCH = 5_000
_MAX_TENANTS = 100
_MAX_LISTED_BYTES = 1_500_000
"""The most bytes of earlier releases in the index of all skills: clients read indexes of a few megabytes only."""
_BYTES_OF_RELEASE = 300
_OLDEST = Version("0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListDocument:
    """A list as bytes."""

    data: bytes
    compressed: bytes
    digest: str


class RegistryLists:
    """The lists of one tenant's registry."""

    def __init__(self, tenant: str, url: str) -> None:
        self._name, self._url = tenant or "metier", url
        self._lock = threading.Lock()
        self._number = 0
        self._releases: dict[str, dict[str, Facts]] = {}
        """What the lists say of every release, by name and version."""
        self._current: dict[str, tuple[str, Facts]] = {}
        """The newest version of each skill that was not yanked, with all of its facts."""
        self._documents: dict[Form, ListDocument] = {}

    def document(self, scope: TenantScope, form: Form) -> ListDocument:
        """A list as it is now."""
        with self._lock:
            self._read_changes(scope)
            found = self._documents.get(form)
            if found is None:
                data = _compact(self._build(form))
                compressed = gzip.compress(data, 1, mtime=0)
                found = self._documents[form] = ListDocument(data=data, compressed=compressed, digest=sha256_of(data))
            return found

    def index_of(self, scope: TenantScope, name: str) -> bytes:
        """The index of one skill alone, with all of its releases."""
        with self._lock:
            self._read_changes(scope)
            return _compact(index(self._listing([name] if name in self._releases else [])))

    def all_current(self, scope: TenantScope) -> dict[str, Facts]:
        """The newest release of each skill, by name, with its namespace, version, description and content."""
        with self._lock:
            self._read_changes(scope)
            return {name: facts for name, (_, facts) in self._current.items()}

    def current(self, scope: TenantScope, name: str) -> tuple[str, str]:
        """The namespace and version of the newest release of a skill; raises `SkillNotFound` where there is none."""
        with self._lock:
            self._read_changes(scope)
            version, facts = self._current.get(name, ("", {}))
        if not version:
            raise SkillNotFound(f"There is no skill {shown(name)!r}.", hint="Look at the index.")
        return str(facts["namespace"]), version

    def _build(self, form: Form) -> dict[str, Any]:
        listing = self._listing(sorted(self._releases))
        if form == "old-index":
            return old_index(listing)
        if form == "marketplace":
            return marketplace(listing, self._plugin_source)
        found = index(listing)
        found["extensions"][EXTENSION]["releases"] = _within_budget(listing)
        return found

    def _listing(self, names: Iterable[str]) -> Listing:
        return Listing(
            name=self._name,
            url=self._url,
            description="",
            owner={"name": self._name},
            skills={name: self._of_skill(name) for name in names},
        )

    def _of_skill(self, name: str) -> list[Facts]:
        """The releases of a skill, the newest first, of which the current one has all facts."""
        version, facts = self._current.get(name, ("", {}))
        found = {**self._releases[name], **({version: facts} if version else {})}
        return [found[one] for one in sorted(found, key=_order, reverse=True)]

    def _plugin_source(self, facts: Facts) -> dict[str, str]:
        label = f"{facts['name']}-{facts['version']}"
        return {
            "source": "archive",
            "url": f"{self._url}/plugins/{label}.zip",
            "sha256": facts["plugin"][len("sha256:") :],
        }

    def _read_changes(self, scope: TenantScope) -> None:
        last = scope.releases.last_change()
        if last == self._number:
            return
        if last < self._number:  # the store was restored
            self._number = 0
            self._releases, self._current = {}, {}
        self._documents.clear()
        changed: set[str] = set()
        while batch := scope.releases.changed_since(self._number, _BATCH):
            for release in batch:
                self._take(release)
                changed.add(release.name)
            self._number = batch[-1].number
        for name in changed:
            self._choose_current(scope, name)

    def _take(self, release: RegistryRelease) -> None:
        if release.status not in PUBLIC:
            return
        facts = {"name": release.name, "namespace": release.namespace, "version": release.version}
        facts |= {"url": release.facts["url"], "digest": release.archive_digest, "content": release.digest}
        facts |= {"yanked": release.reason} if release.status == "yanked" else {}
        self._releases.setdefault(release.name, {})[release.version] = facts
        held = self._current.get(release.name)
        if release.status == "published" and (held is None or _order(release.version) >= _order(held[0])):
            self._current[release.name] = (release.version, {**release.facts, **facts, **_provenance(release)})

    def _choose_current(self, scope: TenantScope, name: str) -> None:
        """Read all facts of the newest release again where that one was yanked which was current."""
        releases = self._releases.get(name, {})
        usable = [version for version, facts in releases.items() if "yanked" not in facts]
        newest = max(usable, key=_order, default="")
        if newest and self._current.get(name, ("",))[0] == newest:
            return
        self._current.pop(name, None)
        found = scope.releases.get(releases[newest]["namespace"], name, newest) if newest else None
        if found is not None and found.status == "published":
            self._current[name] = (newest, {**found.facts, **releases[newest], **_provenance(found)})


class AllRegistryLists:
    """The lists of each tenant of a server that has an address."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lists: BoundedCache[str, RegistryLists] = BoundedCache(_MAX_TENANTS)

    def of(self, tenant: str) -> RegistryLists:
        """The lists of a tenant."""
        found = self._lists.get(tenant)
        if found is None:
            found = self._lists[tenant] = RegistryLists(tenant, self._url)
        return found


def _provenance(release: RegistryRelease) -> dict[str, Any]:
    return {
        "description": release.description,
        "provenance": {"at": release.at, "by": release.by, "namespace": release.namespace},
    }


def _within_budget(listing: Listing) -> dict[str, list[dict[str, Any]]]:
    """The releases beside the current ones: those that were yanked first, then the newest, as far as there is room."""
    found: list[tuple[bool, int, Facts]] = []
    for releases in listing.skills.values():
        others = [one for one in releases if "provenance" not in one]
        found += [("yanked" not in one, depth, one) for depth, one in enumerate(others)]
    found.sort(key=itemgetter(0, 1))
    chosen: dict[str, list[dict[str, Any]]] = {}
    for _, _, one in found[: _MAX_LISTED_BYTES // _BYTES_OF_RELEASE]:
        chosen.setdefault(one["name"], []).append(select(one, RELEASE))
    return chosen


@functools.lru_cache(maxsize=200_000)
def _order(version: str) -> Version:
    return version_of(version) or _OLDEST


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
