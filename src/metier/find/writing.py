"""Writing a skill into the index: its row, its postings, and the counts of its words, in one transaction."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.content import deflated, postings, unpacked
from metier.find.spelling import variants

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from metier.find.content import SkillText, Words


_SPELLED_OF_EACH = 100
"""How many words of what a skill says of itself can be meant by a mistyped one."""


class Counts:
    """What a transaction changes in the counts of stems and skills, written once at its end."""

    def __init__(self) -> None:
        self._about: dict[int, Counter[str]] = {}
        self._body: dict[int, Counter[str]] = {}
        self._totals: dict[int, list[int]] = {}
        self._spelled: set[str] = set()

    def add(self, words: Words, scope: int, sign: int) -> None:
        """Count a skill in, or out with a negative sign."""
        about, body = (counts.setdefault(scope, Counter()) for counts in (self._about, self._body))
        if sign > 0:
            about.update(words.every_about)
            body.update(words.every_body)
            self._spelled.update(words.name, words.about[:_SPELLED_OF_EACH])
        else:
            about.subtract(words.every_about)
            body.subtract(words.every_body)
        totals = self._totals.setdefault(scope, [0, 0, 0])
        for place, amount in enumerate((1, words.about_length, words.length)):
            totals[place] += sign * amount

    def save(self, connection: sqlite3.Connection) -> None:
        """Write what changed."""
        self._learn_spelling(connection, sorted(self._spelled))
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


def put_in(connection: sqlite3.Connection, text: SkillText, words: Words, body: list[str], counts: Counts) -> None:
    """Write a skill in place of what was there under its key; of the postings only what differs."""
    before = _known(connection, text.key)
    scope = _scope_number(connection, text.scope)
    about, tally = "\n".join((" ".join(words.name), " ".join(words.about))), "\n".join(words.tally)
    # Two blanks between words: each has its own on both sides, so that pairs can be counted as text.
    packed = (tally, words.length, deflated(f" {'  '.join(body)} "))
    row = (text.stamp, text.name, scope, int(text.unlisted), text.needs, about, *packed, text.key)
    if before is None:
        columns = "stamp, name, scope, unlisted, needs, about, tally, length, body, key"
        cursor = connection.execute(f"INSERT INTO skill ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        id_ = int(cursor.lastrowid or 0)
        _post(connection, id_, set(), set(postings(words)))
    else:
        id_ = before.id
        connection.execute(
            "UPDATE skill SET stamp = ?, name = ?, scope = ?, unlisted = ?, needs = ?, about = ?, tally = ?,"
            " length = ?, body = ? WHERE key = ?",
            row,
        )
        for table in ("tag", "vector"):
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (id_,))
        _post(connection, id_, set(postings(before.words)), set(postings(words)))
        counts.add(before.words, before.scope, -1)
    tags = {tag.casefold() for tag in text.tags}
    connection.executemany("INSERT INTO tag VALUES (?, ?)", [(tag, id_) for tag in tags])
    counts.add(words, scope, 1)


def take_out(connection: sqlite3.Connection, key: str, counts: Counts) -> None:
    """Take a skill out, if it is there."""
    before = _known(connection, key)
    if before is None:
        return
    _post(connection, before.id, set(postings(before.words)), set())
    for table in ("skill", "tag", "vector"):
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (before.id,))
    counts.add(before.words, before.scope, -1)


class _Known(NamedTuple):
    id: int
    scope: int
    words: Words


def _known(connection: sqlite3.Connection, key: str) -> _Known | None:
    row = connection.execute("SELECT id, scope, about, tally, length FROM skill WHERE key = ?", (key,)).fetchone()
    return None if row is None else _Known(row[0], row[1], unpacked(*row[2:]))


def _post(connection: sqlite3.Connection, id_: int, before: set[str], after: set[str]) -> None:
    """Post what is new of a skill and take back what is gone; a table without content must be told what to forget."""
    if before:
        gone = " ".join(before - after)
        connection.execute("INSERT INTO posting (posting, rowid, stems) VALUES ('delete', ?, ?)", (id_, gone))
    if after:
        connection.execute("INSERT INTO posting (rowid, stems) VALUES (?, ?)", (id_, " ".join(after - before)))


def _scope_number(connection: sqlite3.Connection, value: str) -> int:
    row = connection.execute("SELECT id FROM scope WHERE value = ?", (value,)).fetchone()
    if row is not None:
        return int(row[0])
    cursor = connection.execute("INSERT INTO scope (value, skills, about, body) VALUES (?, 0, 0, 0)", (value,))
    return int(cursor.lastrowid or 0)
