"""Writing a skill into the index: its row and its postings, and having its words counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.index_database import IndexDamaged, checked_count
from metier.find.indexed_text import MAX_TEXT, EncodedStems, encoded, postings
from metier.find.lexicon import forget, letters_in
from metier.find.tokenizer import words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set

    from metier.find.indexed_text import SkillText
    from metier.find.lexicon import Letters

_SAMPLE = 100
"""The skills that tell which words are frequent."""


def put_in(connection: sqlite3.Connection, texts: Sequence[SkillText], counts: Counts, letters: Letters) -> None:
    """Write skills in place of what was there under their keys, unless another process was faster."""
    known = "SELECT stamp FROM skill WHERE key = ?"
    new = [text for text in texts if connection.execute(known, (text.key,)).fetchone() != (text.stamp,)]
    if not letters:
        _learn_frequent(new[:_SAMPLE], letters)
    for text in new:
        _put_in(connection, text, *encoded(text, letters), counts)
    letters.save(connection)


def _learn_frequent(texts: Iterable[SkillText], letters: Letters) -> None:
    """Meet the most frequent words of some bodies first, as the first letters are the shortest."""
    counts = Counter(word for text in texts for word in words(text.body[:MAX_TEXT]))
    for word, _ in counts.most_common():
        letters[word]  # it is learned by being looked up


def _put_in(
    connection: sqlite3.Connection,
    text: SkillText,
    stems: EncodedStems,
    about: Counter[str],
    body: Counter[str],
    counts: Counts,
) -> None:
    before = _read_known(connection, text.key)
    scope = _scope_number(connection, text.scope)
    posted = postings(stems, about, body)
    more_about: Set[str] = about.keys()
    more_body: Set[str] = body.keys()
    row = (text.stamp, text.name, scope, int(text.unlisted), text.needs, *stems.packed(), text.key)
    if before is None:
        columns = "stamp, name, scope, unlisted, needs, name_letters, about, body, about_length, length, key"
        cursor = connection.execute(f"INSERT INTO skill ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        id_ = int(cursor.lastrowid or 0)
        _post(connection, id_, posted)
    else:
        id_ = before.id
        connection.execute(
            "UPDATE skill SET stamp = ?, name = ?, scope = ?, unlisted = ?, needs = ?, name_letters = ?, about = ?,"
            " body = ?, about_length = ?, length = ? WHERE key = ?",
            row,
        )
        for table in ("tag", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (id_,))
        gone = set(before.posted).difference(posted)
        _forget_posted(connection, id_, gone)
        _post(connection, id_, set(posted).difference(before.posted))
        less_about, less_body = before.about, before.body
        if before.scope == scope:
            less_about, more_about = less_about - more_about, more_about - less_about
            less_body, more_body = less_body - more_body, more_body - less_body
        counts.add(before.words, less_about, less_body, before.scope, -1)
    tags = {tag.casefold() for tag in text.tags}
    connection.executemany("INSERT INTO tag VALUES (?, ?)", [(tag, id_) for tag in tags])
    counts.add(stems, more_about, more_body, scope, 1)


def take_out(connection: sqlite3.Connection, key: str, counts: Counts) -> None:
    """Take a skill out, if it is there."""
    before = _read_known(connection, key)
    if before is None:
        return
    _forget_posted(connection, before.id, before.posted)
    for table in ("skill", "tag", "vector"):
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (before.id,))
    counts.add(before.words, before.about, before.body, before.scope, -1)


class _Known(NamedTuple):
    id: int
    scope: int
    words: EncodedStems
    about: Set[str]
    body: Set[str]
    posted: list[str]


def _read_known(connection: sqlite3.Connection, key: str) -> _Known | None:
    row = connection.execute(
        "SELECT id, scope, name_letters, about, body, about_length, length FROM skill WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    words = EncodedStems.unpacked(*row[2:])
    about, body = words.counted()
    return _Known(row[0], row[1], words, about.keys(), body.keys(), postings(words, about, body))


def _post(connection: sqlite3.Connection, id_: int, letters: Iterable[str]) -> None:
    connection.execute("INSERT INTO posting (rowid, letters) VALUES (?, ?)", (id_, " ".join(letters)))


def _forget_posted(connection: sqlite3.Connection, id_: int, letters: Iterable[str]) -> None:
    """A table without content must be told what to forget."""
    connection.execute(
        "INSERT INTO posting (posting, rowid, letters) VALUES ('delete', ?, ?)", (id_, " ".join(letters))
    )


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
    about: Collection[str]
    body: Collection[str]

    @classmethod
    def read(cls, scope: int, sign: int, about: bytes, body: bytes) -> _Change:
        """A change as it lies in the file."""
        if type(scope) is not int or sign not in (-1, 1):
            raise IndexDamaged(f"{sign!r} in scope {scope!r} is no change")
        return cls(scope, sign, letters_in(about.decode()), letters_in(body.decode()))


class Counts:
    """The changes of a transaction to the counts of stems and skills, written once at its end."""

    def __init__(self) -> None:
        self._few: list[_Change] = []
        self._summed = _Sums()
        self._totals: dict[int, list[int]] = {}

    def add(self, words: EncodedStems, about: Collection[str], body: Collection[str], scope: int, sign: int) -> None:
        """Count a skill and these letters in, or out with a negative sign."""
        self._few.append(_Change(scope, sign, about, body))
        if len(self._few) > _MOST_RECENT:
            self._summed.add(self._few)
            self._few.clear()
        totals = self._totals.setdefault(scope, [0, 0, 0])
        for place, amount in enumerate((1, words.about_length, words.length)):
            totals[place] += sign * amount

    def save(self, connection: sqlite3.Connection) -> bool:
        """Write what changed; whether stems were forgotten because no skill has them any more."""
        connection.executemany(
            "UPDATE scope SET skills = skills + ?, about = about + ?, body = body + ? WHERE id = ?",
            [(*totals, scope) for scope, totals in self._totals.items()],
        )
        waiting = connection.execute("SELECT count(*) FROM recent").fetchone()[0]
        if self._summed.scopes or waiting + len(self._few) > _MOST_RECENT:
            rows = connection.execute("SELECT scope, sign, about, body FROM recent")
            self._summed.add([*(_Change.read(*row) for row in rows), *self._few])
            connection.execute("DELETE FROM recent")
            return self._summed.save(connection)
        packed = [
            (each.scope, each.sign, "".join(each.about).encode(), "".join(each.body).encode()) for each in self._few
        ]
        connection.executemany("INSERT INTO recent VALUES (?, ?, ?, ?)", packed)
        return False


class _Sums:
    """Changes of many skills, summed up for each scope."""

    def __init__(self) -> None:
        self.scopes: dict[int, tuple[Counter[str], Counter[str]]] = {}
        self._is_less = False

    def add(self, changes: Iterable[_Change]) -> None:
        for change in changes:
            self._is_less |= change.sign < 0
            sums = self.scopes.setdefault(change.scope, (Counter(), Counter()))
            for counter, letters in zip(sums, (change.about, change.body), strict=True):
                (counter.update if change.sign > 0 else counter.subtract)(letters)

    def save(self, connection: sqlite3.Connection) -> bool:
        """Count skills in and out, and forget the stems that no skill has any more; whether there were such stems."""
        fewer: set[str] = set()
        for scope, (about, body) in sorted(self.scopes.items()):
            net = [
                (letter, scope, about.get(letter, 0), body.get(letter, 0))
                for letter in sorted(about.keys() | body.keys())
            ]
            connection.executemany(
                "INSERT INTO spread VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET about = about + excluded.about, body = body + excluded.body",
                [row for row in net if row[2] or row[3]] if self._is_less else net,
            )
            if self._is_less:
                connection.executemany(
                    "DELETE FROM spread WHERE letter = ? AND scope = ? AND about <= 0 AND body <= 0",
                    [row[:2] for row in net if row[2] < 0 or row[3] < 0],
                )
                # What came and went in the meantime was never written, and must be forgotten too.
                fewer.update(row[0] for row in net if row[2] <= 0 and row[3] <= 0)
        return forget(connection, sorted(fewer))


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
