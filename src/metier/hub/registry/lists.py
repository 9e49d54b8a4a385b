"""The lists of a registry for clients: made once for each change of the registry, and given out from memory.

A change is read from the store by its number, so that another process's release is in the next answer too.
"""

from __future__ import annotations

import gzip
import json
import threading
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from packaging.version import Version

from metier._lazy import dataclass
from metier.errors import SkillNotFound
from metier.hub.publish.listing import Listing, index, marketplace, old_index
from metier.hub.sources.http import sha256_of
from metier.skill import shown
from metier.skill.skill_requirement import version_of
from metier.store.registry import PUBLIC

if TYPE_CHECKING:
    from metier.hub.publish.listing import Facts
    from metier.store import TenantScope
    from metier.store.registry import ReleaseSummary

Form: TypeAlias = Literal["index", "old-index", "marketplace"]
_BATCH = 5_000
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
        self._releases: dict[str, list[Facts]] = {}
        """The facts of every release that a list tells, by the name of the skill, the newest first."""
        self._current: dict[str, Facts] = {}
        """All facts of the newest release of each skill that was not yanked."""
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
            releases = {name: self._releases[name]} if name in self._releases else {}
            return _compact(index(self._listing(name), releases))

    def all_current(self, scope: TenantScope) -> dict[str, Facts]:
        """The newest release of each skill, by name, with its namespace, version, description and content."""
        with self._lock:
            self._read_changes(scope)
            return dict(self._current)

    def current(self, scope: TenantScope, name: str) -> tuple[str, str]:
        """The namespace and version of the newest release of a skill; raises `SkillNotFound` where there is none."""
        with self._lock:
            self._read_changes(scope)
            found = self._current.get(name)
        if found is None:
            raise SkillNotFound(f"There is no skill {shown(name)!r}.", hint="Look at the index.")
        return found["namespace"], found["version"]

    def _build(self, form: Form) -> dict[str, Any]:
        listing = self._listing(*sorted(self._current))
        if form == "old-index":
            return old_index(listing)
        if form == "marketplace":
            return marketplace(listing, self._plugin_source)
        return index(listing, self._other_releases())

    def _listing(self, *names: str) -> Listing:
        """The current releases of these skills."""
        return Listing(
            name=self._name,
            url=self._url,
            description="",
            owner={"name": self._name},
            skills={name: [self._current[name]] for name in names if name in self._current},
        )

    def _other_releases(self) -> dict[str, list[Facts]]:
        """The releases beside the current ones: those that were yanked first, then the newest, while there is room."""
        every = self._releases.values()
        yanked = (one for releases in every for one in releases if "yanked" in one)
        rounds = range(max(map(len, every), default=0))
        others = (one for place in rounds for releases in every for one in releases[place : place + 1])
        kept = (one for one in others if "yanked" not in one and not self._is_current(one))
        found: dict[str, list[Facts]] = {}
        for one in islice(chain(yanked, kept), _MAX_LISTED_BYTES // _BYTES_OF_RELEASE):
            found.setdefault(one["name"], []).append(one)
        return found

    def _is_current(self, facts: Facts) -> bool:
        current = self._current.get(facts["name"])
        return current is not None and current["version"] == facts["version"]

    def _plugin_source(self, facts: Facts) -> dict[str, str]:
        url = f"{self._url}/plugins/{facts['url'].rpartition('/')[2]}"
        return {"source": "archive", "url": url, "sha256": facts["plugin"].removeprefix("sha256:")}

    def _read_changes(self, scope: TenantScope) -> None:
        last = scope.releases.last_change()
        if last == self._number:
            return
        if last < self._number:  # the store was restored
            self._number = 0
            self._releases, self._current = {}, {}
        self._documents.clear()
        changed: dict[str, dict[str, Facts]] = {}
        while batch := scope.releases.changed_since(self._number, _BATCH):
            for release in batch:
                if release.status in PUBLIC:
                    changed.setdefault(release.name, {})[release.version] = _facts(release)
            self._number = batch[-1].number
        for name, releases in changed.items():
            earlier = {one["version"]: one for one in self._releases.get(name, ())}
            self._releases[name] = sorted({**earlier, **releases}.values(), key=_order, reverse=True)
            self._choose_current(scope, name)

    def _choose_current(self, scope: TenantScope, name: str) -> None:
        """Read all facts of the newest release that was not yanked."""
        newest = next((one for one in self._releases[name] if "yanked" not in one), None)
        current = self._current.pop(name, None)
        if newest is None:
            return
        if current is None or current["version"] != newest["version"]:
            release = scope.releases.get(newest["namespace"], name, newest["version"])
            if release is None:
                return
            provenance = {"at": release.at, "by": release.by, "namespace": release.namespace}
            more = {"description": release.description, "provenance": provenance}
            current = {**release.facts, **newest, **more}
        self._current[name] = current


def _facts(release: ReleaseSummary) -> Facts:
    facts = {
        "name": release.name,
        "namespace": release.namespace,
        "version": release.version,
        "url": f"{release.name}/{release.name}-{release.version}.zip",
        "digest": release.archive_digest,
        "content": release.digest,
    }
    return {**facts, "yanked": release.reason} if release.status == "yanked" else facts


def _order(facts: Facts) -> Version:
    return version_of(facts["version"]) or _OLDEST


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
