"""Writing a skill into the index: its row and its postings, and having its words counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.index_database import IndexDamaged, checked_count
from metier.find.indexed_text import EncodedStems, postings
from metier.find.lexicon import forget, learn, letters_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence, Set

    from metier.find.indexed_text import SkillText, Stems


def put_in(connection: sqlite3.Connection, texts: Sequence[tuple[SkillText, Stems]], counts: Counts) -> None:
    """Write skills in place of what was there under their keys."""
    letters = learn(connection, [skill for _, skill in texts])
    for text, skill in texts:
        _put_in(connection, text, EncodedStems.spelled(skill, letters), counts)


def _put_in(connection: sqlite3.Connection, text: SkillText, words: EncodedStems, counts: Counts) -> None:
    before = _read_known(connection, text.key)
    scope = _scope_number(connection, text.scope)
    about, body = words.counted()
    posted = postings(words, about, body)
    more_about: Set[str] = about.keys()
    more_body: Set[str] = body.keys()
    row = (text.stamp, text.name, scope, int(text.unlisted), text.needs, *words.packed(), text.key)
    if before is None:
        columns = "stamp, name, scope, unlisted, needs, name_letters, about, body, about_length, length, key"
        cursor = connection.execute(f"INSERT INTO skill ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        id_ = int(cursor.lastrowid or 0)
        _post(connection, id_, set(), posted)
    else:
        id_ = before.id
        connection.execute(
            "UPDATE skill SET stamp = ?, name = ?, scope = ?, unlisted = ?, needs = ?, name_letters = ?, about = ?,"
            " body = ?, about_length = ?, length = ? WHERE key = ?",
            row,
        )
        for table in ("tag", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (id_,))
        _post(connection, id_, before.posted, posted)
        less_about, less_body = before.about, before.body
        if before.scope == scope:
            less_about, more_about = less_about - more_about, more_about - less_about
            less_body, more_body = less_body - more_body, more_body - less_body
        counts.add(before.words, less_about, less_body, before.scope, -1)
    tags = {tag.casefold() for tag in text.tags}
    connection.executemany("INSERT INTO tag VALUES (?, ?)", [(tag, id_) for tag in tags])
    counts.add(words, more_about, more_body, scope, 1)


def take_out(connection: sqlite3.Connection, key: str, counts: Counts) -> None:
    """Take a skill out, if it is there."""
    before = _read_known(connection, key)
    if before is None:
        return
    _post(connection, before.id, before.posted, set())
    for table in ("skill", "tag", "vector"):
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (before.id,))
    counts.add(before.words, before.about, before.body, before.scope, -1)


class _Known(NamedTuple):
    id: int
    scope: int
    words: EncodedStems
    about: Set[str]
    body: Set[str]
    posted: set[str]


def _read_known(connection: sqlite3.Connection, key: str) -> _Known | None:
    row = connection.execute(
        "SELECT id, scope, name_letters, about, body, about_length, length FROM skill WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    words = EncodedStems.unpacked(*row[2:])
    about, body = words.counted()
    return _Known(row[0], row[1], words, about.keys(), body.keys(), postings(words, about, body))


def _post(connection: sqlite3.Connection, id_: int, before: set[str], after: set[str]) -> None:
    """Post what is new of a skill and take back what is gone; a table without content must be told what to forget."""
    if before:
        gone = " ".join(before - after)
        connection.execute("INSERT INTO posting (posting, rowid, letters) VALUES ('delete', ?, ?)", (id_, gone))
    if after:
        connection.execute("INSERT INTO posting (rowid, letters) VALUES (?, ?)", (id_, " ".join(after - before)))


def _scope_number(connection: sqlite3.Connection, value: str) -> int:
    row = connection.execute("SELECT id FROM scope WHERE value = ?", (value,)).fetchone()
    if row is not None:
        return int(row[0])
    cursor = connection.execute("INSERT INTO scope (value, skills, about, body) VALUES (?, 0, 0, 0)", (value,))
    return int(cursor.lastrowid or 0)


_MOST_RECENT = 32
"""The most skills that came or went and are not counted in yet: each search looks at them."""


class _Change(NamedTuple):
    """A skill that came or went, and each letter that it has; of one that was edited, each that came or went."""

    scope: int
    sign: int
    about: str
    body: str

    @classmethod
    def read(cls, scope: int, sign: int, about: bytes, body: bytes) -> _Change:
        """A change as it lies in the file."""
        if type(scope) is not int or sign not in (-1, 1):
            raise IndexDamaged(f"{sign!r} in scope {scope!r} is no change")
        return cls(scope, sign, about.decode(), body.decode())


class Counts:
    """The changes of a transaction to the counts of stems and skills, written once at its end."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._totals: dict[int, list[int]] = {}

    def add(self, words: EncodedStems, about: Collection[str], body: Collection[str], scope: int, sign: int) -> None:
        """Count a skill and these letters in, or out with a negative sign."""
        self._changes.append(_Change(scope, sign, "".join(about), "".join(body)))
        totals = self._totals.setdefault(scope, [0, 0, 0])
        for place, amount in enumerate((1, words.about_length, words.length)):
            totals[place] += sign * amount

    def save(self, connection: sqlite3.Connection) -> None:
        """Write what changed."""
        connection.executemany(
            "UPDATE scope SET skills = skills + ?, about = about + ?, body = body + ? WHERE id = ?",
            [(*totals, scope) for scope, totals in self._totals.items()],
        )
        waiting = connection.execute("SELECT count(*) FROM recent").fetchone()[0]
        if waiting + len(self._changes) > _MOST_RECENT:
            rows = connection.execute("SELECT scope, sign, about, body FROM recent")
            _count_in(connection, [*(_Change.read(*row) for row in rows), *self._changes])
            connection.execute("DELETE FROM recent")
        else:
            packed = [(scope, sign, about.encode(), body.encode()) for scope, sign, about, body in self._changes]
            connection.executemany("INSERT INTO recent VALUES (?, ?, ?, ?)", packed)


def counts(
    connection: sqlite3.Connection, letters: Mapping[str, str], scopes: Collection[int]
) -> dict[str, tuple[int, int]]:
    """The number of skills in these scopes that have each stem, whose letter is given."""
    found = dict.fromkeys(letters, (0, 0))
    stems = {letter: stem for stem, letter in letters.items()}
    # One statement, because between two of them what is recent may be counted in.
    rows = connection.execute(
        "SELECT letter, scope, 0, about, body FROM json_each(?) CROSS JOIN spread ON letter = value"
        " UNION ALL SELECT NULL, scope, sign, about, body FROM recent",
        (json.dumps(list(stems)),),
    )
    for letter, scope, sign, about, body in rows:
        if type(scope) is not int:
            raise IndexDamaged(f"{scope!r} where a scope should be")
        if scope not in scopes:
            continue
        if letter is not None:
            before = found[stems[letter]]
            found[stems[letter]] = (before[0] + checked_count(about), before[1] + checked_count(body))
            continue
        change = _Change.read(scope, sign, about, body)
        for stem, one in letters.items():
            before = found[stem]
            in_about, in_body = one in change.about, one in change.body
            if in_about or in_body:
                found[stem] = (before[0] + change.sign * in_about, before[1] + change.sign * in_body)
    if any(min(count) < 0 for count in found.values()):
        raise IndexDamaged("fewer than no skills have a stem")
    return {stem: count for stem, count in found.items() if any(count)}


def _count_in(connection: sqlite3.Connection, changes: Collection[_Change]) -> None:
    """Count skills in and out, and forget the stems that no skill has any more."""
    fewer: set[str] = set()
    for scope in sorted({change.scope for change in changes}):
        about: Counter[str] = Counter()
        body: Counter[str] = Counter()
        for change in changes:
            if change.scope == scope:
                for counter, text in ((about, change.about), (body, change.body)):
                    count = counter.update if change.sign > 0 else counter.subtract
                    count(letters_in(text))
        net = sorted((letter, scope, about[letter], body[letter]) for letter in about.keys() | body.keys())
        connection.executemany(
            "INSERT INTO spread VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET about = about + excluded.about, body = body + excluded.body",
            [row for row in net if row[2] or row[3]],
        )
        connection.executemany(
            "DELETE FROM spread WHERE letter = ? AND scope = ? AND about <= 0 AND body <= 0",
            [row[:2] for row in net if row[2] < 0 or row[3] < 0],
        )
        # What came and went in the meantime was never written, and must be forgotten too.
        fewer.update(row[0] for row in net if row[2] <= 0 and row[3] <= 0)
    forget(connection, sorted(fewer))
