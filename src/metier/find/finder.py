"""Search, catalog and selection over an index of skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.skill.listing import Listings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Literal

    from metier.find.catalog import Catalog
    from metier.find.catalog_format import Format
    from metier.find.results import Result
    from metier.find.search_engine import SearchEngine
    from metier.find.search_index import IndexedSkill
    from metier.find.vectors import Embedder
    from metier.library import Entry, Layer, Machine, SkillIndex
    from metier.skill.listing import ListingMode

_DEFAULT_BUDGET = 4_096


class Finder:
    """Finds the skills of an index that fit a query, and composes the catalog that a model is shown.

    All views of an index (`as_caller`) share one search index, which the first search builds.

    >>> from metier import Library
    >>> library = Library.from_files({"SKILL.md": "---\\nname: pdf-forms\\ndescription: Fill forms.\\n---\\nOpen it."})
    >>> [result.name for result in Finder(library.index).search("fill in a form")]
    ['pdf-forms']
    """

    def __init__(self, index: SkillIndex) -> None:
        self._index = index

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
        from metier.find.query import Query
        from metier.find.search_engine import checked_k, searchable
        from metier.find.visibility import Visibility

        index = self._view(agent)
        listed = Visibility(machine, names, Listings.of(listing))
        return self._engine().search(
            index.snapshot,
            index.caller,
            Query.read(searchable(query)),
            checked_k(k),
            (lambda entry, _: names is None or entry.name in names) if include_unlisted else listed,
        )

    def explain(self, prompt: str, k: int = 10, *, names: Collection[str] | None = None) -> list[Result]:
        """The `k` skills that fit a prompt best, as models would find them, each with what every word gave it.

        By words alone, and whether or not skills are ready here: so the same library has the same answer on every
        machine. Nothing in the prompt is a filter.

        >>> from metier import Library
        >>> library = Library.from_files({"SKILL.md": "---\\nname: forms\\ndescription: Fill PDFs.\\n---\\nOpen."})
        >>> [(word.word, word.field) for word in Finder(library.index).explain("fill in forms")[0].words]
        [('forms', 'name'), ('fill', 'description')]
        """
        from metier.find.query import Query
        from metier.find.search_engine import checked_k, searchable

        def accept(entry: Entry, row: IndexedSkill | None) -> bool:
            hidden = entry.is_hidden_from_models if row is None else row.unlisted
            return not hidden and (names is None or entry.name in names)

        index = self._index
        query = Query.of_prompt(searchable(prompt))
        return self._engine().search(index.snapshot, index.caller, query, checked_k(k), accept, explain=True)

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
        """The catalog that a model is shown, in at most `budget` bytes.

        All skills in full if they fit, else with shortened descriptions; else the pinned ones and those most relevant
        to `query`, which is usually the user's prompt, with the names of all others, or where those have no room, a
        digest of what there is and the tool that finds it. The same input gives the same text, and what depends on the
        query comes last. `listing` gives modes to names and patterns: `{"pdf-*": "pinned", "old": "off"}`. `names`
        restricts it to an agent's own; `search_tool=None` mentions no tool; with `mount`, the folder of that reader's
        skills, each has its place in it.
        """
        from metier.find.build_catalog import build_catalog
        from metier.find.catalog import CatalogWriter
        from metier.find.visibility import Visibility

        index = self._view(agent)
        listed = Visibility(machine, names, Listings.of(listing))
        writer = CatalogWriter(format, budget, search_tool, mount=mount)
        return build_catalog(self._engine, index.snapshot, index.caller, writer, listed, query)

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
        from metier.find.selection import Selection
        from metier.find.visibility import require_several

        require_several(names=names, layers=layers, sources=sources, inserts=inserts, active=active)
        return Selection(
            contains=contains,
            name_prefix=name_prefix,
            location_prefix=location_prefix,
            names=names,
            layers=layers,
            sources=sources,
            inserts=inserts,
            activity=activity,
            active=active,
        ).of(self._index.entries())

    def update_index(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Bring the search index up to date, which a search does by itself; reports progress as it goes."""
        return self._engine().indexes.update(self._index.snapshot, progress)

    def embed_with(self, embedder: Embedder | None) -> None:
        """Search by meaning too; None for words alone. Without a call, `metier[vectors]` is used where installed."""
        self._engine().indexes.use(embedder)

    def _view(self, agent: str | None) -> SkillIndex:
        """The index as an agent sees it."""
        if agent is None:
            return self._index
        caller = self._index.caller
        return self._index.as_caller(agent=agent, tenant=caller.tenant, environment=caller.environment)

    def _engine(self) -> SearchEngine:
        return self._index.attachment("search", self._new_engine)

    def _new_engine(self) -> SearchEngine:
        from metier.find.search_engine import SearchEngine
        from metier.find.vectors import default_embedder

        folder = self._index.cache_folder
        return SearchEngine(folder, default_embedder(folder))
