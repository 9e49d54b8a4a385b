"""Writing a skill into the index: its row and its postings, and having its words counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from metier.find.content import Words, postings
from metier.find.lexicon import learn

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence, Set

    from metier.find.content import SkillText, Stems
    from metier.find.counting import Counts


def put_in(connection: sqlite3.Connection, texts: Sequence[tuple[SkillText, Stems]], counts: Counts) -> None:
    """Write skills in place of what was there under their keys."""
    letters = learn(connection, [skill for _, skill in texts])
    for text, skill in texts:
        _put_in(connection, text, Words.spelled(skill, letters), counts)


def _put_in(connection: sqlite3.Connection, text: SkillText, words: Words, counts: Counts) -> None:
    before = _known(connection, text.key)
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
    before = _known(connection, key)
    if before is None:
        return
    _post(connection, before.id, before.posted, set())
    for table in ("skill", "tag", "vector"):
        connection.execute(f"DELETE FROM {table} WHERE id = ?", (before.id,))
    counts.add(before.words, before.about, before.body, before.scope, -1)


class _Known(NamedTuple):
    id: int
    scope: int
    words: Words
    about: Set[str]
    body: Set[str]
    posted: set[str]


def _known(connection: sqlite3.Connection, key: str) -> _Known | None:
    row = connection.execute(
        "SELECT id, scope, name_letters, about, body, about_length, length FROM skill WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    words = Words.unpacked(*row[2:])
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
