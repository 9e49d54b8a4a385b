"""`metier.Library`: an index of skills with search, catalog and sessions."""

from __future__ import annotations

import functools
import os
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from metier.errors import InvalidArgument
from metier.find.finder import Finder
from metier.guard.policy.files import machine_environment
from metier.library.index import SkillIndex
from metier.library.places import LAYERS, Caller, Place, default_places, is_node
from metier.source.source import absolute, expanded, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Self

    from metier._session import Session
    from metier.library import Entry, Layer, OnMissingDescription
    from metier.library.snapshot import Snapshot
    from metier.session import SessionPool
    from metier.skill import MemoryFile
    from metier.source import SourceDiagnostic

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")


class _method_of(Generic[Parameters, Value]):  # noqa: N801  (it is written like `property`)
    """A method of a part that the library has too, with the signature and the docstring of the part's."""

    def __init__(self, part: str, method: Callable[Concatenate[Any, Parameters], Value]) -> None:
        self._part = part
        self.method = method

    def __get__(self, library: Library, owner: type[Library]) -> Callable[Parameters, Value]:
        if library is None:
            return self.method  # type: ignore[unreachable]
        return MethodType(self.method, getattr(library, self._part))


def _keep_node_current() -> None:
    """Keep a node current while this process lasts; a machine that is none pays one look at the disk."""
    if is_node():
        from metier.hub.node.sync import keep_current

        keep_current()


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
        here = Caller(environment=machine_environment(None))
        self.index = SkillIndex(places, cache=cache, order=order, findings=findings, caller=here)

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
        if not folders or not all(folders) or not all(str(folder).strip() for folder in folders):
            raise InvalidArgument("No folder was named.", hint="Name one, or use Library.discover().")
        # One folder under two names is still one folder.
        once = {os.path.realpath(absolute(expanded(folder))): folder for folder in reversed(folders)}
        places = [
            Place(
                layer=layer,
                source=open_source(folder, skill_name=skill_name),
                on_missing_description=on_missing_description,
            )
            for folder in reversed(once.values())
        ]
        library = cls(places, cache=cache)
        library.index.require_all()
        return library

    @classmethod
    def from_files(
        cls, *skills: Mapping[str, MemoryFile | bytes | str], layer: Layer = "project", name: str = "memory"
    ) -> Self:
        """A library of skills in memory, each a mapping of paths to contents."""
        from metier.source.memory import MemorySource

        source = MemorySource({}, name=name)
        for files in skills:
            source.add(files)
        return cls([Place(layer=layer, source=source)], cache=False)

    @classmethod
    def discover(cls, start: Path | str | None = None, *, cache: bool | Path | str = True) -> Self:
        """The skills of this machine, this user, this project (from `start` upwards) and installed packages."""
        _keep_node_current()
        places, findings = default_places(None if start is None else absolute(start))
        return cls(places, cache=cache, findings=findings)

    def as_caller(self, *, agent: str | None = None, tenant: str | None = None, environment: str | None = None) -> Self:
        """The same library for another caller: skills whose scope excludes the caller are as good as absent.

        Raises `Refused` for another environment than the one that administrators say this machine is in.
        """
        environment = machine_environment(environment)
        other = object.__new__(type(self))
        other.index = self.index.as_caller(agent=agent, tenant=tenant, environment=environment)
        return other

    @functools.cached_property
    def _finder(self) -> Finder:
        return Finder(self.index)

    def __repr__(self) -> str:
        return f"<Library of {len(self):,} skills from {', '.join(place.name for place in self.places)}>"

    @property
    def snapshot(self) -> Snapshot:
        """The last complete state; it never changes, a refresh replaces it."""
        return self.index.snapshot

    @property
    def caller(self) -> Caller:
        """The caller whose view this is."""
        return self.index.caller

    @property
    def places(self) -> tuple[Place, ...]:
        """The places that it indexes, strongest first within a layer."""
        return self.index.places

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    latest = _method_of("index", SkillIndex.latest)
    entries = _method_of("index", SkillIndex.entries)
    get = _method_of("index", SkillIndex.get)
    findings = _method_of("index", SkillIndex.findings)
    document = _method_of("index", SkillIndex.document)
    package = _method_of("index", SkillIndex.package)
    files = _method_of("index", SkillIndex.files)
    read = _method_of("index", SkillIndex.read)
    digest = _method_of("index", SkillIndex.digest)
    content = _method_of("index", SkillIndex.content)
    refresh = _method_of("index", SkillIndex.refresh)
    changes = _method_of("index", SkillIndex.changes)
    invalidate = _method_of("index", SkillIndex.invalidate)
    watch = _method_of("index", SkillIndex.watch)

    search = _method_of("_finder", Finder.search)
    catalog = _method_of("_finder", Finder.catalog)
    select = _method_of("_finder", Finder.select)
    update_index = _method_of("_finder", Finder.update_index)
    embed_with = _method_of("_finder", Finder.embed_with)

    def session(self, **options: Any) -> Session:
        """A session: what one conversation has loaded. Options are those of `Session`."""
        _keep_node_current()
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
