"""The search index of one source: which skill has which words, and how common each word is.

Derived from the skills and always rebuildable. A changed skill is written again; nothing else is touched.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from metier.find import lexicon
from metier.find.index_database import IndexBusy, IndexDamaged, IndexDatabase, checked_count
from metier.find.index_writer import IndexWriter
from metier.find.indexed_text import EncodedStems
from metier.find.postings import Postings, merge_in_steps, posted_codes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from metier.find.indexed_text import IndexedText

_ROWS_AT_ONCE = 50
_COLUMNS = "id, key, name, unlisted, needs, name_letters, about, body, about_length, length"


class IndexedSkill(NamedTuple):
    """A skill as the index knows it."""

    id: int
    key: str
    name: str
    unlisted: int
    needs: str
    packed: Sequence[Any] = ()
    """Its words as they lie in the file, where they were read."""

    @property
    def stems(self) -> EncodedStems:
        """Its words."""
        return EncodedStems.unpacked(*self.packed)


class Totals(NamedTuple):
    """The number of skills for a caller, and their length together."""

    skills: int = 0
    about: int = 0
    body: int = 0


class _Pause:
    """The garbage collector stands still while skills are written: it finds no cycles in all their lists."""

    is_ours = False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        if not gc.isenabled():  # by the program, or by another thread that writes
            yield
            return
        self.is_ours = True
        gc.disable()
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        if self.is_ours:
            self.is_ours = False
            gc.enable()


_pause = _Pause()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pause.end)  # the thread that would end it is not there


class SearchIndex:
    """The index of one source."""

    def __init__(self, path: str | None = None) -> None:
        self.database = IndexDatabase(path)
        self._letters = lexicon.Letters()

    # --- writing -----------------------------------------------------------------------------------------------------

    def stamps(self) -> dict[str, str]:
        """Key to stamp of everything that is indexed."""
        with self.database.reading() as connection:
            return dict(connection.execute("SELECT key, stamp FROM skill"))

    def update(self, texts: Iterable[IndexedText], gone: Iterable[str] = ()) -> None:
        """Put skills in, in place of what was there under their keys, and take out those that are gone."""
        with _pause.hold(), self.database.transaction() as connection:
            self._letters.begin(connection, self.database.rollbacks)
            writer = IndexWriter(connection, self._letters)
            for key in gone:
                writer.take_out(key)
            writer.put_in(list(texts))
            have_many_gone = writer.save()
        if have_many_gone:
            self._clear_up()

    def _clear_up(self) -> None:
        """Leave nothing of skills that have gone: neither postings nor stems that nobody else has."""
        self.merge()
        with contextlib.suppress(IndexBusy), self.database.transaction() as connection:
            lexicon.forget_all_but(connection, posted_codes(connection))
            connection.execute("UPDATE made_by SET gone = 0")
            self._letters.clear()

    def merge(self) -> None:
        """Merge the postings that many updates have left in pieces: a search then looks for each word in one place."""
        with contextlib.suppress(IndexBusy):  # somebody else writes, and nothing is missing without it
            merge_in_steps(self.database)

    # --- reading -----------------------------------------------------------------------------------------------------

    def scopes(self) -> dict[int, str]:
        """The scopes that skills have here."""
        with self.database.reading() as connection:
            return dict(connection.execute("SELECT id, value FROM scope"))

    def totals(self, scopes: Collection[int]) -> Totals:
        """The size of what a caller of these scopes may see."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT id, skills, about, body FROM scope").fetchall()
        mine = [tuple(map(checked_count, row[1:])) for row in rows if row[0] in scopes]
        return Totals(*map(sum, zip(*mine, strict=True))) if mine else Totals()

    def letters(self, stems: Sequence[str]) -> dict[str, str]:
        """The letters that stems are written with here, for those that are known."""
        with self.database.reading() as connection:
            return lexicon.letters(connection, stems)

    def postings(self, letters: Mapping[str, str], scopes: Collection[int]) -> Postings:
        """The lists of the skills in these scopes that have each stem, whose letter is given."""
        return Postings(self.database, letters, scopes)

    def tagged(self, tag: str) -> set[int]:
        """The ids of all skills with a tag."""
        with self.database.reading() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM tag WHERE tag = ?", (tag.casefold(),))}

    def named(self, names: Collection[str]) -> list[int]:
        """The ids of all skills with one of these names."""
        with self.database.reading() as connection:
            marks = ",".join("?" * len(names))
            return [row[0] for row in connection.execute(f"SELECT id FROM skill WHERE name IN ({marks})", [*names])]

    def rows(self, ids: Iterable[int], known: dict[int, IndexedSkill] | None = None) -> Iterator[IndexedSkill]:
        """The rows of skills with their words, in the order of the ids, read as they are asked for, unless known."""
        rest, found = iter(ids), {} if known is None else known
        while some := list(itertools.islice(rest, _ROWS_AT_ONCE)):
            if new := [id_ for id_ in some if id_ not in found]:
                marks = ",".join("?" * len(new))
                statement = f"SELECT {_COLUMNS} FROM skill WHERE id IN ({marks})"
                with self.database.reading() as connection:
                    for id_, key, name, unlisted, needs, *packed in connection.execute(statement, new):
                        if not type(key) is type(name) is type(needs) is str:
                            raise IndexDamaged("a skill whose name is no text")
                        found[id_] = IndexedSkill(id_, key, name, unlisted, needs, packed)
            yield from (found[id_] for id_ in some if id_ in found)

    def ids(self, scopes: Collection[int]) -> list[int]:
        """The ids of all skills in some scopes, by name."""
        with self.database.reading() as connection:
            statement = "SELECT id FROM skill WHERE scope IN (SELECT value FROM json_each(?)) ORDER BY name"
            return [row[0] for row in connection.execute(statement, (json.dumps(list(scopes)),))]

    def special_rows(self) -> list[IndexedSkill]:
        """The few skills that are not for models, or that need something."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT id, key, name, unlisted, needs FROM skill WHERE unlisted = 1 OR needs <> ''"
            )
            return [IndexedSkill(*row) for row in rows]

    def tags(self) -> list[tuple[str, str, str]]:
        """Each tag with the name and key of each skill that has it."""
        with self.database.reading() as connection:
            return list(connection.execute("SELECT tag.tag, skill.name, skill.key FROM tag JOIN skill USING (id)"))

    def spelled_like(self, stem: str) -> list[str]:
        """Stems of what skills say of themselves, now or once, that one typing mistake makes of this one."""
        with self.database.reading() as connection:
            return lexicon.spelled_like(connection, stem)

    # --- vectors -----------------------------------------------------------------------------------------------------

    def without_vector(self, model: str) -> list[str]:
        """The keys of skills that have no vector of a model yet."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT key FROM skill WHERE id NOT IN (SELECT id FROM vector WHERE model = ?)", (model,)
            )
            return [row[0] for row in rows]

    def put_vectors(self, model: str, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep vectors by the keys of their skills."""
        with self.database.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM skill WHERE key = ?",
                [(model, data, key) for key, data in vectors],
            )

    def vectors(self, model: str) -> tuple[list[int], list[int], bytes]:
        """The ids of skills, the numbers of their scopes, and their vectors, one after the other."""
        with self.database.reading() as connection:
            rows = connection.execute(
                "SELECT id, scope, data FROM vector JOIN skill USING (id) WHERE model = ? ORDER BY id", (model,)
            ).fetchall()
        sizes = {len(row[2]) for row in rows}
        if len(sizes) > 1 or any(size == 0 or size % 2 for size in sizes):
            raise IndexDamaged("vectors of different or odd sizes")
        return [row[0] for row in rows], [row[1] for row in rows], b"".join(row[2] for row in rows)
