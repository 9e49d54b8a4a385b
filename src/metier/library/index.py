"""The index of skills: every skill of a set of places, kept fresh, safe to read from any thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from metier._lazy import logger
from metier._paths import default_cache_folder
from metier._version import __version__
from metier.errors import (
    MetierError,
    SkillChanged,
    SkillNotFound,
    SourceUnavailable,
)
from metier.library.document_cache import DocumentCache, PackageDigest
from metier.library.index_cache import IndexCache
from metier.library.index_rows import IndexRows
from metier.library.places import LAYERS, Caller, admits, checked_order, named_apart
from metier.library.refresh import Change, difference, look_again, read_whole
from metier.library.snapshot import Snapshot
from metier.skill.diagnostic import Diagnostic
from metier.skill.folder import Identity
from metier.source.source import (
    ARCHIVE_SUFFIXES,
    SkillFileError,
    SourceDiagnostic,
)

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Self

    from metier.library.document_cache import CacheKey
    from metier.library.entry import Entry
    from metier.library.index_log import IndexLog
    from metier.library.places import Layer, Place
    from metier.library.watch import Watch
    from metier.skill import Document, Package, PackageListing


_MOST = 16
"""Folders of one place that are looked at between two decisions; a refresh looks at all."""


class DeployedFolders:
    """The folders that skills of the enterprise layer lie in, as they were when they were last looked through.

    A deployment puts a folder in its place in one step, which shows in the time stamps of the folder around it: a
    `stat` of each says that nothing was deployed.
    """

    def __init__(self, all_rows: Iterable[tuple[Place, IndexRows]], begun_ns: int) -> None:
        """Remember the folders of all rows; `begun_ns` is when the look at them began."""
        paths: dict[str, None] = {}
        for place, rows in all_rows:
            if place.layer == "enterprise" and place.source.root is not None:
                paths |= dict.fromkeys((place.source.root, *rows.folders[:_MOST]))
        self._seen = [(path, _identity(path)) for path in paths]
        # What changed since then, or a moment before, may have been missed.
        self._is_settled = all(one is None or one.is_settled(begun_ns) for _, one in self._seen)

    def are_changed(self) -> bool:
        """Whether something may have been deployed or withdrawn."""
        # A miss raises no exception here: every tool call looks, and mostly nothing was ever deployed.
        return not self._is_settled or any(
            os.access(path, os.F_OK) if one is None else _identity(path) != one for path, one in self._seen
        )


def _identity(path: str) -> Identity | None:
    try:
        return Identity.of(os.stat(path))
    except OSError:
        return None


_log = logger("metier.library")

Attached = TypeVar("Attached")


class SkillIndex:
    """The skills of a set of places, as one caller sees them.

    Reading never waits for a refresh: it works on the last complete snapshot. `refresh` costs one `lstat` a skill when
    nothing changed and reads only the changed files; `document` checks the one file it serves, so it is never stale.

    >>> from metier.library import Place
    >>> from metier.source import MemorySource
    >>> source = MemorySource({}).add({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> index = SkillIndex([Place(layer="project", source=source)], cache=False)
    >>> [entry.name for entry in index]
    ['pdf-forms']
    >>> index.document("pdf-forms").body
    'Open it.'
    """

    def __init__(
        self,
        places: Iterable[Place],
        *,
        cache: bool | Path | str = True,
        order: tuple[Layer, ...] = LAYERS,
        findings: Iterable[SourceDiagnostic] = (),
        caller: Caller | None = None,
    ) -> None:
        """Index places, weakest claims last; `cache` may name the folder that keeps the index, or be False."""
        folder = default_cache_folder() if cache is True else cache
        own = named_apart(places)
        self._state = _SharedState(
            own,
            checked_order(order),
            tuple(findings),
            IndexCache(folder, __version__) if folder else None,
            _deployed_beside(own),
        )
        self._caller = caller or Caller()

    def as_caller(self, *, agent: str | None = None, tenant: str | None = None, environment: str | None = None) -> Self:
        """The same index for another caller: skills whose scope excludes the caller are as good as absent."""
        other = object.__new__(type(self))
        other._state = self._state
        other._caller = Caller(agent=agent, tenant=tenant, environment=environment)
        return other

    def __repr__(self) -> str:
        return f"<SkillIndex of {len(self):,} skills from {', '.join(place.name for place in self.places)}>"

    @property
    def snapshot(self) -> Snapshot:
        """The last complete state; it never changes, a refresh replaces it."""
        return self._state.snapshot

    def latest(self) -> Snapshot:
        """The last complete state, with what administrators deployed since: one `stat` when that is nothing."""
        if self._state.deployed_folders.are_changed():
            self._state.refresh(only="enterprise")
        return self._state.snapshot

    @property
    def caller(self) -> Caller:
        """The caller whose view this is."""
        return self._caller

    @property
    def cache_folder(self) -> str | None:
        """The folder that keeps indexes between processes; None when nothing is kept."""
        return None if self._state.cache is None else self._state.cache.folder

    def attachment(self, name: str, make: Callable[[], Attached]) -> Attached:
        """An object that another room attaches to this index and its views for other callers, made on first use."""
        return self._state.attachment(name, make)

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that it indexes, strongest first within a layer."""
        return self._state.places

    def entries(self, *, all: bool = False) -> tuple[Entry, ...]:  # noqa: A002
        """The skills, sorted by name; with `all`, also those that are shadowed, broken or left out."""
        view = self.snapshot.view(self._caller)
        return view.all() if all else tuple(view.active.values())

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries())

    def __len__(self) -> int:
        return len(self.snapshot.view(self._caller).active)

    def __contains__(self, name: object) -> bool:
        try:
            self.get(name)  # type: ignore[arg-type]
        except MetierError:
            return False
        return True

    def get(self, name: str) -> Entry:
        """The skill of a name, a folder, or `name@source`; raises `SkillNotFound` with a suggestion."""
        return self.snapshot.view(self._caller).get(name)

    def findings(self) -> tuple[SourceDiagnostic, ...]:
        """Diagnostics about the places, beside those about the skills in them."""
        found = [*self._state.findings]
        for rows in self.snapshot.rows:
            found.extend(rows.findings)
        cache = self._state.cache
        if cache is not None and cache.problem is not None:
            found.append(SourceDiagnostic(str(cache.folder), Diagnostic("cache-unusable", None, cache.problem)))
        return tuple(found)

    def document(self, name: str) -> Document:
        """The skill and its instructions as they are on disk now; one `lstat` when nothing changed."""
        entry = self.get(name)
        source = entry.place.source
        where = _where(entry)
        kept = self._state.documents.document(where)
        now = source.identity(entry.key)
        if kept is not None and kept[0] == now:
            return self._admitted(entry, kept[1])
        if now is None:
            raise SkillNotFound(
                f"Skill {entry.name!r} is gone: {entry.location} was removed.",
                hint="Refresh the library to see what there is.",
                name=entry.name,
            )
        try:
            data, identity = read_whole(entry)
        except SkillFileError as unreadable:
            if kept is None:
                raise unreadable.error(entry.name, entry.location) from None
            return self._admitted(entry, kept[1])
        from metier.skill.document import parse

        document = parse(data, folder=entry.folder, file=entry.key.rpartition("/")[2])
        document = _still_the_same_skill(entry, document)
        self._state.documents.keep_document(where, identity, document)
        return self._admitted(entry, document)

    def _admitted(self, entry: Entry, document: Document) -> Document:
        """The document, unless its file was given a scope since the last refresh that leaves the caller out."""
        if not admits(document.skill.scope, self._caller):
            raise self.snapshot.view(self._caller).not_found(entry.name)
        return document

    def package(self, name: str) -> Package:
        """The files of a skill."""
        return self.get(name).package

    def files(self, name: str) -> PackageListing:
        """The list of a skill's files, with sizes and kinds."""
        return self.get(name).package.listing()

    def read(self, name: str, path: str) -> bytes:
        """One file of a skill; refuses every path that leaves it."""
        return self.get(name).package.read(path)

    def digest(self, name: str | Entry) -> str:
        """The content digest of a skill's whole package, computed again only when a file may have changed."""
        return self.content(name).digest

    def content(self, name: str | Entry) -> PackageDigest:
        """The digest of a skill's whole package, and the hashes of the texts that are in it.

        While its SKILL.md is not whole, those of the last good version, as far as this process has seen it.
        """
        entry = self.get(name) if isinstance(name, str) else name
        where, package = _where(entry), entry.package
        signature = package.signature()
        known = self._state.documents.contents.get(where)
        if known is not None and known[0] == signature:
            return known[1]
        if entry.is_stale or entry.place.source.identity(entry.key) != entry.identity:
            try:
                read_whole(entry)
            except SkillFileError as unreadable:
                if known is None:
                    raise unreadable.error(entry.name, entry.location) from None
                return known[1]
        content = PackageDigest.of(package.contents())
        self._state.documents.contents[where] = (signature, content)
        return content

    def listing(self, entry: Entry, content: PackageDigest) -> PackageListing:
        """The files of a content that `content` has just returned: as they were kept with it, or as they are now."""
        known = self._state.documents.listings.get(_where(entry))
        return known[1] if known is not None and known[0] is content else entry.package.listing()

    def keep_listing(self, entry: Entry, content: PackageDigest, listing: PackageListing) -> None:
        """Keep the files of a content, which `content` has returned both before and after they were looked at.

        Not where another file was there in between: no later look would tell that it is gone.
        """
        if len(listing.files) == content.count:
            self._state.documents.listings[_where(entry)] = (content, listing)

    def refresh(self) -> Change:
        """Look at every place again; reads only the files that changed, and returns the changes."""
        before, after, read = self._state.refresh()
        return Change(files_read=read) if after is before else difference(before, after, self._caller, read)

    def changes(self, before: Snapshot, after: Snapshot) -> Change:
        """The difference between two snapshots."""
        return Change() if before is after else difference(before, after, self._caller, 0)

    def invalidate(self, name: str | None = None) -> None:
        """Forget what is kept in memory of one skill or of all; nothing depends on it but memory."""
        self._state.documents.forget(None if name is None else _where(self.get(name)))

    def watch(
        self, on_change: Callable[[Change], object], *, interval: float | None = 5.0, events: bool = True
    ) -> Watch:
        """Refresh by itself from now on, and call `on_change` with what changed, until the watch is closed.

        The operating system's events show a change within milliseconds; a look every `interval` seconds finds what
        they miss. With `interval=None` and `events=False` nothing runs.
        """
        from metier.library.watch import Watch

        return Watch(self, on_change, interval=interval, events=events)

    def require_all(self) -> None:
        """Raise unless all places are there: a folder that somebody named must be, default places may be missing."""
        for place in self._state.places:
            root = place.source.root
            if root is not None and not os.path.isdir(root):
                raise _no_folder(root)
            if root is None or place.source.forced_name("") is not None:
                place.source.find_skills()  # what is refused is refused here, and not taken for empty


class _SharedState:
    """The state that an index shares with its views for other callers."""

    def __init__(
        self,
        places: tuple[Place, ...],
        order: tuple[Layer, ...],
        findings: tuple[SourceDiagnostic, ...],
        cache: IndexCache | None,
        deployed: tuple[Place, ...],
    ) -> None:
        """`deployed` are places of administrators whose skills are not in the library, but whose names are reserved."""
        self.places = places
        self.deployed = deployed
        self.order = order
        self.findings = findings
        self.cache = cache
        self._attachments: dict[str, Any] = {}
        self._attaching = threading.Lock()
        self._refreshing = threading.Lock()
        begun = time.time_ns()
        all_rows = [look_again(place, self._from_cache(place), cache)[0] for place in (*places, *deployed)]
        self.snapshot = self._snapshot(all_rows, begun)
        self._write_log(findings)

    def _snapshot(self, all_rows: list[IndexRows], begun_ns: int) -> Snapshot:
        own = len(self.places)
        self.deployed_folders = DeployedFolders(zip((*self.places, *self.deployed), all_rows, strict=True), begun_ns)
        beside = zip(self.deployed, all_rows[own:], strict=True)
        return Snapshot(self.places, tuple(all_rows[:own]), self.order, tuple(beside))

    @cached_property
    def documents(self) -> DocumentCache:
        """The documents and digests that were asked for lately."""
        return DocumentCache()

    @cached_property
    def _index_log(self) -> IndexLog:
        from metier.library.index_log import IndexLog

        return IndexLog()

    def _write_log(self, findings: tuple[SourceDiagnostic, ...]) -> None:
        # To collect the diagnostics of each skill takes longer than to list them all.
        if _has_listeners(_log):
            self._index_log.write(self.snapshot, findings)

    def attachment(self, name: str, make: Callable[[], Attached]) -> Attached:
        """An object that another room attaches to all views of this index, made on first use."""
        with self._attaching:
            if name not in self._attachments:
                self._attachments[name] = make()
            attached: Attached = self._attachments[name]
            return attached

    def _from_cache(self, place: Place) -> IndexRows:
        key = place.source.cache_key()
        rows = self.cache.load(key) if self.cache is not None and key is not None else None
        return rows or IndexRows()

    def refresh(self, only: Layer | None = None) -> tuple[Snapshot, Snapshot, int]:
        """The snapshots before and after, the same one when nothing changed, and how many files were read."""
        with self._refreshing:
            before, begun = self.snapshot, time.time_ns()
            known = [*zip(self.places, before.rows, strict=True), *before.deployed]
            fresh = [
                look_again(place, rows, self.cache) if only in (None, place.layer) else (rows, 0)
                for place, rows in known
            ]
            read = sum(count for _, count in fresh)
            after = self._snapshot([rows for rows, _ in fresh], begun)
            if all(rows is old for (rows, _), (_, old) in zip(fresh, known, strict=True)):
                return before, before, read
            # One assignment: a reader has the old snapshot or the new one.
            self.snapshot = after
        self._write_log(())
        return before, after, read


def _deployed_beside(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The places of the administrators of this machine that a library leaves out."""
    from metier.library.places import enterprise_places

    roots = {place.source.root for place in places} - {None}
    others = [place for place in enterprise_places()[0] if place.source.root not in roots]
    own = {_file_in(place) for place in places} if others else set()
    return tuple(place for place in others if _file_in(place) not in own)


def _file_in(place: Place) -> str:
    """The real path of a file in a place, by which places are told apart."""
    return os.path.realpath(place.source.location("SKILL.md"))


def _no_folder(path: str) -> SourceUnavailable:
    kinds = ", ".join(ARCHIVE_SUFFIXES)
    if not os.path.exists(path):
        return SourceUnavailable(f"There is no folder {path}.", hint="Check the path.", path=path)
    if os.path.basename(path).lower() == "skill.md":
        hint = f"Name its folder, {os.path.dirname(path)}."
    else:
        hint = f"Skills are folders with a SKILL.md, or archives: {kinds}."
    return SourceUnavailable(f"{path} is not a folder.", hint=hint, path=path)


def _where(entry: Entry) -> CacheKey:
    return (id(entry.place), entry.key)


def _still_the_same_skill(entry: Entry, document: Document) -> Document:
    """The document under the name it was asked for; raises when its file holds another skill by now."""
    if entry.place.source.forced_name(entry.key) is not None:
        from metier.skill.document import Document

        return Document(entry.skill, document.body, document.body_line, document.sha256)
    if document.skill.name != entry.name:
        raise SkillChanged(
            f"{entry.location} now holds the skill {document.skill.name!r}, not {entry.name!r}.",
            hint="Refresh the library.",
            name=entry.name,
        )
    return document


class SkillLookup(Protocol):
    """Skills by name, with their documents, files and digests."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def caller(self) -> Caller: ...

    @property
    def places(self) -> tuple[Place, ...]: ...

    def latest(self) -> Snapshot: ...

    def get(self, name: str) -> Entry: ...

    def entries(self, *, all: bool = False) -> tuple[Entry, ...]: ...  # noqa: A002

    def __iter__(self) -> Iterator[Entry]: ...

    def __len__(self) -> int: ...

    def document(self, name: str) -> Document: ...

    def package(self, name: str) -> Package: ...

    def digest(self, name: str | Entry) -> str: ...

    def content(self, name: str | Entry) -> PackageDigest: ...

    def refresh(self) -> Change: ...

    def changes(self, before: Snapshot, after: Snapshot) -> Change: ...


def _has_listeners(log: logging.Logger) -> bool:
    """Whether a handler of the program receives the warnings of a logger."""
    if "logging" not in sys.modules:
        return False
    import logging

    if not log.isEnabledFor(logging.WARNING):
        return False
    at: logging.Logger | None = log
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False
