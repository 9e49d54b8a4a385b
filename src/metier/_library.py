"""`metier.Library`: an index of skills with search, catalog and sessions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from metier.find.finder import Finder
from metier.guard.policy.files import machine_environment
from metier.library.index import SkillIndex
from metier.library.places import LAYERS, Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Literal, Self

    from metier._session import Session
    from metier.find import Catalog, Embedder, Format, Result
    from metier.library import Change, Entry, Layer, Machine, OnMissingDescription, Place
    from metier.library.document_cache import PackageDigest
    from metier.library.snapshot import Snapshot
    from metier.library.watch import Watch
    from metier.session import SessionPool
    from metier.skill import Document, MemoryFile, Package, PackageListing
    from metier.skill.listing import ListingMode, Listings
    from metier.source import SourceDiagnostic

_DEFAULT_BUDGET = 4_096


class Library:
    """All skills that exist here: searched, shown, and loaded into sessions.

    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> [result.name for result in library.search("fill in a form")]
    ['pdf-forms']
    >>> print(library.catalog(budget=1024))
    <available_skills>
    <skill><name>pdf-forms</name><description>Fill forms.</description></skill>
    </available_skills>
    >>> session = library.session()
    >>> session.load("pdf-forms").changed
    ('pdf-forms',)
    """

    index: SkillIndex
    """The index of its skills, which helpers of other rooms work on."""

    def __init__(
        self,
        places: Iterable[Place],
        *,
        cache: bool | Path | str = True,
        order: tuple[Layer, ...] = LAYERS,
        findings: Iterable[SourceDiagnostic] = (),
    ) -> None:
        """Make a library of places, weakest claims last; `cache` may name the folder for the index, or be False.

        Its caller acts in the environment that administrators say this machine is in.
        """
        self._hold(SkillIndex(places, cache=cache, order=order, findings=findings, caller=_caller_here()))

    @classmethod
    def _of(cls, index: SkillIndex) -> Self:
        library = object.__new__(cls)
        library._hold(index)
        return library

    def _hold(self, index: SkillIndex) -> None:
        self.index = index

    @classmethod
    def from_folder(
        cls,
        *folders: Path | str,
        layer: Layer = "project",
        cache: bool | Path | str = True,
        on_missing_description: OnMissingDescription = "derive",
        skill_name: str | None = None,
    ) -> Self:
        """A library of just these folders (or archives), in the order of their strength.

        For a folder that is one skill, `skill_name` replaces the name in its frontmatter.

        A folder that a program names is trusted; folders that merely happen to lie in a repository are not, see
        `discover`.
        """
        return cls._of(
            SkillIndex.from_folder(
                *folders,
                layer=layer,
                cache=cache,
                on_missing_description=on_missing_description,
                skill_name=skill_name,
                caller=_caller_here(),
            )
        )

    @classmethod
    def from_files(
        cls, *skills: Mapping[str, MemoryFile | bytes | str], layer: Layer = "project", name: str = "memory"
    ) -> Self:
        """A library of skills in memory, each a mapping of paths to contents."""
        return cls._of(SkillIndex.from_files(*skills, layer=layer, name=name, caller=_caller_here()))

    @classmethod
    def discover(cls, start: Path | str | None = None, *, cache: bool | Path | str = True) -> Self:
        """The skills of this machine, this user, this project (from `start` upwards) and installed packages."""
        return cls._of(SkillIndex.discover(start, cache=cache, caller=_caller_here()))

    def as_caller(self, *, agent: str | None = None, tenant: str | None = None, environment: str | None = None) -> Self:
        """The same library for another caller: skills whose scope excludes the caller are as good as absent.

        Raises `Refused` for another environment than the one that administrators say this machine is in.
        """
        environment = machine_environment(environment)
        return self._of(self.index.as_caller(agent=agent, tenant=tenant, environment=environment))

    @functools.cached_property
    def finder(self) -> Finder:
        """Search, catalog and selection over the index."""
        return Finder(self.index)

    def __repr__(self) -> str:
        return f"<Library of {len(self):,} skills from {', '.join(place.name for place in self.places)}>"

    @property
    def snapshot(self) -> Snapshot:
        """The last complete state; it never changes, a refresh replaces it."""
        return self.index.snapshot

    def latest(self) -> Snapshot:
        """The last complete state, with what administrators deployed since: one `stat` when that is nothing."""
        return self.index.latest()

    @property
    def caller(self) -> Caller:
        """The caller whose view this is."""
        return self.index.caller

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that it indexes, strongest first within a layer."""
        return self.index.places

    def entries(self, *, all: bool = False) -> tuple[Entry, ...]:  # noqa: A002
        """The skills, sorted by name; with `all`, also those that are shadowed, broken or left out."""
        return self.index.entries(all=all)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def get(self, name: str) -> Entry:
        """The skill of a name, a folder, or `name@source`; raises `SkillNotFound` with a suggestion."""
        return self.index.get(name)

    def findings(self) -> tuple[SourceDiagnostic, ...]:
        """Diagnostics about the places, beside those about the skills in them."""
        return self.index.findings()

    def document(self, name: str) -> Document:
        """The skill and its instructions as they are on disk now; one `lstat` when nothing changed."""
        return self.index.document(name)

    def package(self, name: str) -> Package:
        """The files of a skill."""
        return self.index.package(name)

    def files(self, name: str) -> PackageListing:
        """The list of a skill's files, with sizes and kinds."""
        return self.index.files(name)

    def read(self, name: str, path: str) -> bytes:
        """One file of a skill; refuses every path that leaves it."""
        return self.index.read(name, path)

    def digest(self, name: str | Entry) -> str:
        """The content digest of a skill's whole package, computed again only when a file may have changed."""
        return self.index.digest(name)

    def content(self, name: str | Entry) -> PackageDigest:
        """The digest of a skill's whole package, and the hashes of the texts in it."""
        return self.index.content(name)

    def refresh(self) -> Change:
        """Look at every place again; reads only the files that changed, and returns the changes."""
        return self.index.refresh()

    def changes(self, before: Snapshot, after: Snapshot) -> Change:
        """The difference between two snapshots."""
        return self.index.changes(before, after)

    def invalidate(self, name: str | None = None) -> None:
        """Forget what is kept in memory of one skill or of all; nothing depends on it but memory."""
        self.index.invalidate(name)

    def watch(
        self, on_change: Callable[[Change], object], *, interval: float | None = 5.0, events: bool = True
    ) -> Watch:
        """Refresh by itself from now on, and call `on_change` with what changed, until the watch is closed.

        The operating system's events show a change within milliseconds; a look every `interval` seconds finds what
        they miss. With `interval=None` and `events=False` nothing runs.
        """
        return self.index.watch(on_change, interval=interval, events=events)

    def search(
        self,
        query: str,
        k: int = 10,
        agent: str | None = None,
        *,
        include_unlisted: bool = False,
        names: Collection[str] | None = None,
        machine: Machine | None = None,
        listing: Mapping[str, ListingMode] | Listings | None = None,
    ) -> list[Result]:
        """The `k` skills that fit a query best, the best first, each with a score and why.

        Words are stemmed and matched in names, descriptions, tags, triggers and bodies; `"a phrase"`, `tag:pdf` and
        `layer:project` narrow it; `/name` and exact names come first. Skills that are out of scope for the caller are
        as good as absent. Skills that are not for models, or cannot work here, are found only with
        `include_unlisted`; `listing` gives modes to names and patterns, as for `catalog`. The first search of a
        library indexes it.
        """
        return self.finder.search(
            query, k, agent, include_unlisted=include_unlisted, names=names, machine=machine, listing=listing
        )

    def catalog(
        self,
        budget: int = _DEFAULT_BUDGET,
        *,
        query: str | None = None,
        listing: Mapping[str, ListingMode] | Listings | None = None,
        agent: str | None = None,
        names: Collection[str] | None = None,
        format: Format = "xml",  # noqa: A002
        search_tool: str | None = "skills_search",
        machine: Machine | None = None,
        mount: str = "",
    ) -> Catalog:
        """The catalog that a model is shown of the library, in at most `budget` bytes.

        All skills in full if they fit, else with shortened descriptions; else the pinned ones and those most relevant
        to `query`, which is usually the user's prompt, with the names of all others, or where those have no room, a
        digest of what there is and the tool that finds it. The same input gives the same text, and what depends on the
        query comes last. `listing` gives modes to names and patterns: `{"pdf-*": "pinned", "old": "off"}`. `names`
        restricts it to an agent's own; `search_tool=None` mentions no tool; with `mount`, the folder of that reader's
        skills, each has its place in it.
        """
        return self.finder.catalog(
            budget,
            query=query,
            listing=listing,
            agent=agent,
            names=names,
            format=format,
            search_tool=search_tool,
            machine=machine,
            mount=mount,
        )

    def select(
        self,
        *,
        contains: str = "",
        name_prefix: str = "",
        location_prefix: str = "",
        names: Collection[str] | None = None,
        layers: Collection[Layer] = (),
        sources: Collection[str] = (),
        inserts: Collection[Literal["instructions", "user-message"]] = (),
        activity: Literal["any", "active", "inactive"] = "any",
        active: Collection[str] | None = None,
    ) -> tuple[Entry, ...]:
        """The skills of certain names, tags, places or kinds, by name and then location."""
        return self.finder.select(
            contains=contains,
            name_prefix=name_prefix,
            location_prefix=location_prefix,
            names=names,
            layers=layers,
            sources=sources,
            inserts=inserts,
            activity=activity,
            active=active,
        )

    def update_index(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Bring the search index up to date, which a search does by itself; reports progress as it goes."""
        return self.finder.update_index(progress)

    def embed_with(self, embedder: Embedder | None) -> None:
        """Search by meaning too; None for words alone. Without a call, `metier[vectors]` is used where installed."""
        self.finder.embed_with(embedder)

    def session(self, **options: Any) -> Session:
        """A session: what one conversation has loaded. Options are those of `Session`."""
        from metier._session import Session

        return Session(self, **options)

    def sessions(self, **options: Any) -> SessionPool[Session]:
        """The sessions of a program that has many conversations, each kept for as long as it is used."""
        from metier.session import SessionPool

        return SessionPool(self.session, self.resume, **options)

    def resume(self, state: Mapping[str, Any] | str | bytes, **options: Any) -> Session:
        """Go on with a session that was saved by `Session.save`."""
        from metier._session import Session

        return Session.resume(self, state, **options)


def _caller_here() -> Caller:
    return Caller(environment=machine_environment(None))
