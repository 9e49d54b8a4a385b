"""The search index of one source: which skill has which words, and how common each word is.

Derived from the skills and always rebuildable. A changed skill is taken out and put in again; nothing else is touched.
"""

from __future__ import annotations

import itertools
import sqlite3
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier.find.database import Damaged, Database, told
from metier.find.spelling import variants
from metier.find.words import split_stems, stems

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

Field: TypeAlias = Literal["about", "body"]

MAX_TEXT = 64 * 1024
"""How much of a body is indexed; 99 in 100 are shorter than half of it."""
NAME_WEIGHT = 3
"""A word of the name counts like as many in the description."""
MOST_COUNTED = 8
"""How often a word of a body counts at most; more often says no more."""
ABOUT_LENGTH_MATTERS, BODY_LENGTH_MATTERS = 0.3, 0.75
K1 = 1.2
_USUAL_ABOUT, _USUAL_BODY = 60, 650
"""How many words there usually are; the true means are not known while they are being counted."""
_ROWS_AT_ONCE = 32
_AT_ONCE = 500  # of the variables that older SQLite allows in one statement


class Level(NamedTuple):
    """How much a skill has of a word. Each word is posted once for each field, with the mark of its level.

    Marks are letters that no word contains once it is folded, and that the tokenizer takes for a part of one.
    """

    about: str
    body: str
    at_least: float
    weight: float


LEVELS = (
    Level("\u00bd", "\u00b3", 1.4, 1.7),
    Level("\u00bc", "\u00b2", 0.9, 1.1),
    Level("\u00b9", "", 0.0, 0.6),
)


class SkillText(NamedTuple):
    """What is indexed of a skill."""

    key: str
    stamp: str
    """Differs when the content does."""
    name: str
    about: str = ""
    """Its description, when to use it, tags and triggers."""
    body: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    """Who may see it, as text; "" for anyone. Words are counted apart for each, so that what is hidden counts not."""
    unlisted: bool = False
    """Whether it is not for models to find."""
    needs: str = ""
    """What it requires of the machine, as text."""


class Row(NamedTuple):
    """A skill as the index knows it."""

    id: int
    key: str
    name: str
    unlisted: int
    needs: str


def length_norm(length: float, matters: float) -> float:
    """How much a word must occur to be half of what it can be worth; more in a text longer than the mean."""
    return K1 * (1 - matters + matters * length)


def saturated(count: int, norm: float) -> float:
    """What a count is worth: each further occurrence less than the one before (BM25)."""
    return count * (K1 + 1) / (count + norm)


def word_count(stems: Sequence[str]) -> int:
    """How many words there are, where a script without blanks gives two stems for what is about one word."""
    plain = sum(map(str.isascii, stems))
    return plain + (len(stems) - plain + 1) // 2


class Words(NamedTuple):
    """The stems of one skill, but for the order of its body."""

    name: list[str]
    about: list[str]
    tally: list[str]
    """The stems of the body that occur once, those that occur twice ..., each group in one text."""
    length: int
    """How many words the body has."""

    @property
    def about_length(self) -> int:
        """How long what a skill says of itself is."""
        return NAME_WEIGHT * word_count(self.name) + word_count(self.about)

    @property
    def every_about(self) -> set[str]:
        """Each stem of what it says of itself."""
        return {*self.name, *self.about}

    @property
    def every_body(self) -> set[str]:
        """Each stem of the body."""
        return {stem for group in self.tally for stem in group.split()}


class Totals(NamedTuple):
    """How many skills there are for a caller, and how long they are together."""

    skills: int = 0
    about: int = 0
    body: int = 0


class Index:
    """The index of one source."""

    def __init__(self, path: str | None = None) -> None:
        self.database = Database(path)

    # --- writing -----------------------------------------------------------------------------------------------------

    def stamps(self) -> dict[str, str]:
        """Key to stamp of everything that is indexed."""
        with self._reading() as connection:
            return dict(connection.execute("SELECT key, stamp FROM skill"))

    def update(self, texts: Iterable[SkillText], gone: Iterable[str] = ()) -> None:
        """Put skills in, in place of what was there under their keys, and take out those that are gone."""
        prepared = [(text, *_words_of(text)) for text in texts]
        try:
            with self.database.transaction() as connection:
                counts = _Counts()
                for key in gone:
                    _take_out(connection, key, counts)
                for text, words, body in prepared:
                    known = connection.execute("SELECT stamp FROM skill WHERE key = ?", (text.key,)).fetchone()
                    if known != (text.stamp,):  # else another process was faster
                        _put_in(connection, text, words, body, counts)
                counts.save(connection)
        except sqlite3.Error as error:
            raise told(error) from None

    # --- reading -----------------------------------------------------------------------------------------------------

    def scopes(self) -> dict[int, str]:
        """The scopes that skills have here."""
        with self._reading() as connection:
            return dict(connection.execute("SELECT id, value FROM scope"))

    def totals(self, scopes: Collection[int]) -> Totals:
        """The size of what a caller of these scopes may see."""
        with self._reading() as connection:
            rows = connection.execute("SELECT id, skills, about, body FROM scope").fetchall()
        mine = [row[1:] for row in rows if row[0] in scopes]
        return Totals(*map(sum, zip(*mine, strict=True))) if mine else Totals()

    def counts(self, wanted: Sequence[str], scopes: Collection[int]) -> dict[str, tuple[int, int]]:
        """How many of the skills in these scopes have each stem in what they say of themselves, and in the body."""
        found: dict[str, tuple[int, int]] = {}
        with self._reading() as connection:
            for some in _portions(wanted):
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT stem, scope, about, body FROM stem WHERE stem IN ({marks})", some)
                for stem, scope, about, body in rows:
                    if scope in scopes:
                        before = found.get(stem, (0, 0))
                        found[stem] = (before[0] + about, before[1] + body)
        return found

    def having(self, field: Field, stem: str, level: int | None = None) -> list[int]:
        """The ids of all skills that have a stem in a field, as much as the level says, or at all."""
        levels = LEVELS if level is None else LEVELS[level : level + 1]
        wanted = " OR ".join(f'"{stem}{getattr(one, field)}"' for one in levels)
        with self._reading() as connection:
            rows = connection.execute("SELECT rowid FROM posting WHERE posting MATCH ?", (wanted,))
            return [row[0] for row in rows]

    def tagged(self, tag: str) -> set[int]:
        """The ids of all skills with a tag."""
        with self._reading() as connection:
            return {row[0] for row in connection.execute("SELECT id FROM tag WHERE tag = ?", (tag.casefold(),))}

    def named(self, names: Collection[str]) -> list[int]:
        """The ids of all skills with one of these names."""
        with self._reading() as connection:
            marks = ",".join("?" * len(names))
            return [row[0] for row in connection.execute(f"SELECT id FROM skill WHERE name IN ({marks})", [*names])]

    def rows(self, ids: Iterable[int]) -> Iterator[Row]:
        """What is known of skills, in the order of the ids, read as they are asked for."""
        rest = iter(ids)
        while some := list(itertools.islice(rest, _ROWS_AT_ONCE)):
            marks = ",".join("?" * len(some))
            with self._reading() as connection:
                rows = connection.execute(
                    f"SELECT id, key, name, unlisted, needs FROM skill WHERE id IN ({marks})", some
                ).fetchall()
            found = {row[0]: row for row in rows}
            yield from (Row(*found[id_]) for id_ in some if id_ in found)

    def ids(self, most: int) -> list[int]:
        """The ids of the first skills by name."""
        with self._reading() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM skill ORDER BY name LIMIT ?", (most,))]

    def special_rows(self) -> list[Row]:
        """The few skills that are not for models, or that need something."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, key, name, unlisted, needs FROM skill WHERE unlisted = 1 OR needs <> ''"
            )
            return [Row(*row) for row in rows]

    def tags(self) -> list[tuple[str, str, str]]:
        """Each tag with the name and key of each skill that has it."""
        with self._reading() as connection:
            return list(connection.execute("SELECT tag.tag, skill.name, skill.key FROM tag JOIN skill USING (id)"))

    def words(self, ids: Sequence[int]) -> dict[int, Words]:
        """The stems of skills."""
        found = {}
        with self._reading() as connection:
            for some in _portions(ids):
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT id, about, tally, length FROM skill WHERE id IN ({marks})", some)
                for id_, about, tally, length in rows:
                    found[id_] = _unpacked(about, tally, length)
        return found

    def bodies(self, ids: Sequence[int]) -> dict[int, str]:
        """The stems of bodies in order, each between blanks of its own."""
        found = {}
        with self._reading() as connection:
            for some in _portions(ids):
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT id, body FROM skill WHERE id IN ({marks})", some)
                for id_, packed in rows:
                    found[id_] = _inflated(packed)
        return found

    def spelled_like(self, stem: str) -> list[str]:
        """Stems of what skills say of themselves, now or once, that one typing mistake makes of this one."""
        asked = sorted(variants(stem))
        with self._reading() as connection:
            marks = ",".join("?" * len(asked))
            rows = connection.execute(f"SELECT DISTINCT stem FROM spelling WHERE variant IN ({marks})", asked)
            return sorted(row[0] for row in rows)

    # --- vectors -----------------------------------------------------------------------------------------------------

    def without_vector(self, model: str) -> list[str]:
        """The keys of skills that have no vector of a model yet."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT key FROM skill WHERE id NOT IN (SELECT id FROM vector WHERE model = ?)", (model,)
            )
            return [row[0] for row in rows]

    def put_vectors(self, model: str, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep vectors by the keys of their skills."""
        try:
            with self.database.transaction() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO vector SELECT id, ?, ? FROM skill WHERE key = ?",
                    [(model, data, key) for key, data in vectors],
                )
        except sqlite3.Error as error:
            raise told(error) from None

    def vectors(self, model: str) -> tuple[list[int], list[int], bytes]:
        """The ids of skills, the numbers of their scopes, and their vectors, one after the other."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, scope, data FROM vector JOIN skill USING (id) WHERE model = ? ORDER BY id", (model,)
            ).fetchall()
        sizes = {len(row[2]) for row in rows}
        if len(sizes) > 1 or any(size == 0 or size % 2 for size in sizes):
            raise Damaged("vectors of different or odd sizes")
        return [row[0] for row in rows], [row[1] for row in rows], b"".join(row[2] for row in rows)

    def _reading(self) -> _Reading:
        return _Reading(self.database)


class _Reading:
    """The reading connection for as long as a block lasts, with SQLite's errors told in our words."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        self._database.lock.acquire()
        try:
            return self._database.reader()
        except BaseException:
            self._database.lock.release()
            raise

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._database.lock.release()
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            raise told(error) from None


class _Counts:
    """What a transaction changes in the counts of stems and skills, written once at its end."""

    def __init__(self) -> None:
        self._about: dict[int, Counter[str]] = {}
        self._body: dict[int, Counter[str]] = {}
        self._totals: dict[int, list[int]] = {}

    def add(self, words: Words, scope: int, sign: int) -> None:
        about, body = (counts.setdefault(scope, Counter()) for counts in (self._about, self._body))
        if sign > 0:
            about.update(words.every_about)
            body.update(words.every_body)
        else:
            about.subtract(words.every_about)
            body.subtract(words.every_body)
        totals = self._totals.setdefault(scope, [0, 0, 0])
        for place, amount in enumerate((1, words.about_length, words.length)):
            totals[place] += sign * amount

    def save(self, connection: sqlite3.Connection) -> None:
        for scope, totals in self._totals.items():
            about, body = self._about[scope], self._body[scope]
            of_about, of_body = about.get, body.get
            changed = [
                (stem, scope, in_about, in_body)
                for stem in sorted(about.keys() | body.keys())
                if (in_about := of_about(stem, 0)) | (in_body := of_body(stem, 0))
            ]
            connection.executemany(
                "INSERT INTO stem VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET about = about + excluded.about, body = body + excluded.body",
                changed,
            )
            connection.executemany(
                "DELETE FROM stem WHERE stem = ? AND scope = ? AND about <= 0 AND body <= 0",
                [row[:2] for row in changed if row[2] < 0 or row[3] < 0],
            )
            self._learn_spelling(connection, [row[0] for row in changed if row[2] > 0])
            connection.execute(
                "UPDATE scope SET skills = skills + ?, about = about + ?, body = body + ? WHERE id = ?",
                (*totals, scope),
            )

    @staticmethod
    def _learn_spelling(connection: sqlite3.Connection, stems: Sequence[str]) -> None:
        for stem in stems:
            # A stem is a variant of itself.
            if not connection.execute("SELECT 1 FROM spelling WHERE variant = ? AND stem = ?", (stem, stem)).fetchone():
                rows = [(one, stem) for one in variants(stem)]
                connection.executemany("INSERT OR IGNORE INTO spelling VALUES (?, ?)", rows)


def _words_of(text: SkillText) -> tuple[Words, list[str]]:
    body = stems(text.body[:MAX_TEXT])
    groups: list[list[str]] = [[] for _ in range(MOST_COUNTED)]
    for stem, count in Counter(body).items():
        groups[count - 1 if count < MOST_COUNTED else -1].append(stem)
    tally = [" ".join(group) for group in groups]
    return Words(split_stems(text.name), split_stems(text.about[:MAX_TEXT]), tally, word_count(body)), body


def _put_in(connection: sqlite3.Connection, text: SkillText, words: Words, body: list[str], counts: _Counts) -> None:
    """Write a skill in place of what was there under its key; of the postings only what differs."""
    before = _known(connection, text.key)
    scope = _scope_number(connection, text.scope)
    about, tally = "\n".join((" ".join(words.name), " ".join(words.about))), "\n".join(words.tally)
    # Two blanks between words: each has its own on both sides, so that pairs can be counted as text.
    packed = (tally, words.length, _deflated(f" {'  '.join(body)} "))
    row = (text.stamp, text.name, scope, int(text.unlisted), text.needs, about, *packed, text.key)
    if before is None:
        columns = "stamp, name, scope, unlisted, needs, about, tally, length, body, key"
        cursor = connection.execute(f"INSERT INTO skill ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        id_ = int(cursor.lastrowid or 0)
        _post(connection, id_, set(), set(_postings(words)))
    else:
        id_ = before.id
        connection.execute(
            "UPDATE skill SET stamp = ?, name = ?, scope = ?, unlisted = ?, needs = ?, about = ?, tally = ?,"
            " length = ?, body = ? WHERE key = ?",
            row,
        )
        for table in ("tag", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (id_,))
        _post(connection, id_, set(_postings(before.words)), set(_postings(words)))
        counts.add(before.words, before.scope, -1)
    tags = {tag.casefold() for tag in text.tags}
    connection.executemany("INSERT INTO tag VALUES (?, ?)", [(tag, id_) for tag in tags])
    counts.add(words, scope, 1)


def _take_out(connection: sqlite3.Connection, key: str, counts: _Counts) -> None:
    before = _known(connection, key)
    if before is None:
        return
    _post(connection, before.id, set(_postings(before.words)), set())
    for table in ("skill", "tag", "vector"):
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (before.id,))
    counts.add(before.words, before.scope, -1)


class _Known(NamedTuple):
    id: int
    scope: int
    words: Words


def _known(connection: sqlite3.Connection, key: str) -> _Known | None:
    row = connection.execute("SELECT id, scope, about, tally, length FROM skill WHERE key = ?", (key,)).fetchone()
    return None if row is None else _Known(row[0], row[1], _unpacked(*row[2:]))


def _post(connection: sqlite3.Connection, id_: int, before: set[str], after: set[str]) -> None:
    """Post what is new of a skill and take back what is gone; a table without content must be told what to forget."""
    if before:
        gone = " ".join(before - after)
        connection.execute("INSERT INTO posting (posting, rowid, stems) VALUES ('delete', ?, ?)", (id_, gone))
    if after:
        connection.execute("INSERT INTO posting (rowid, stems) VALUES (?, ?)", (id_, " ".join(after - before)))


def _postings(words: Words) -> list[str]:
    """The stems of a skill, each marked with its field and how much the skill has of it."""
    counts = Counter(words.about)
    for stem in words.name:
        counts[stem] += NAME_WEIGHT
    norm = length_norm(words.about_length / _USUAL_ABOUT, ABOUT_LENGTH_MATTERS)
    marked = [stem + _level(count, norm).about for stem, count in counts.items()]
    norm = length_norm(words.length / _USUAL_BODY, BODY_LENGTH_MATTERS)
    for times, group in enumerate(words.tally, 1):
        mark = _level(times, norm).body
        marked.extend([stem + mark for stem in group.split()])
    return marked


def _level(count: int, norm: float) -> Level:
    much = saturated(count, norm)
    return next(level for level in LEVELS if much >= level.at_least)


def _scope_number(connection: sqlite3.Connection, value: str) -> int:
    row = connection.execute("SELECT id FROM scope WHERE value = ?", (value,)).fetchone()
    if row is not None:
        return int(row[0])
    cursor = connection.execute("INSERT INTO scope (value, skills, about, body) VALUES (?, 0, 0, 0)", (value,))
    return int(cursor.lastrowid or 0)


def _portions(items: Sequence[str] | Sequence[int]) -> Iterator[Sequence[str] | Sequence[int]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _deflated(text: str) -> bytes:
    return zlib.compress(text.encode(), 1)


def _inflated(packed: bytes) -> str:
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, ValueError, TypeError) as error:
        raise Damaged(str(error)) from None


def _unpacked(about: str, tally: str, length: int) -> Words:
    try:
        name, rest = about.split("\n")
        return Words(name.split(), rest.split(), tally.split("\n"), int(length))
    except (ValueError, AttributeError) as error:
        raise Damaged(str(error)) from None
