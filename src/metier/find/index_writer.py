"""Writing a skill into the index: its row, its tags, its postings, and its part in what its scope has together."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from metier.find.index_database import checked_count, portions
from metier.find.indexed_text import MAX_TEXT, EncodedStems, encoded
from metier.find.postings import NewPostings
from metier.find.tokenizer import words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from metier.find.indexed_text import CountedStems, IndexedText
    from metier.find.lexicon import Letters

_SAMPLE = 100
"""The skills that tell which words are frequent."""
_AT_ONCE = 100
"""The skills that are taken apart at once."""
_MOST_GONE = 1_000
"""The skills that may come and go before the index is looked through for what they left, or as many as there are."""


class IndexWriter:
    """Puts skills in and takes them out, in one transaction."""

    def __init__(self, connection: sqlite3.Connection, letters: Letters) -> None:
        self._connection = connection
        self._letters = letters
        self._postings = NewPostings()
        self._scopes: dict[str, int] = dict(connection.execute("SELECT value, id FROM scope").fetchall())
        self._totals: dict[int, list[int]] = {}
        self._next = 1 + checked_count(connection.execute("SELECT coalesce(max(id), 0) FROM skill").fetchone()[0])
        self._gone = 0

    def put_in(self, texts: Sequence[IndexedText]) -> None:
        """Write skills in place of what was there under their keys, unless another process was faster."""
        keys = json.dumps([text.key for text in texts])
        statement = "SELECT skill.key, stamp FROM json_each(?) CROSS JOIN skill ON skill.key = value"
        known = dict(self._connection.execute(statement, (keys,)))
        new = {text.key: text for text in texts if known.get(text.key) != text.stamp}
        if not self._letters:
            self._learn_frequent(list(new.values())[:_SAMPLE])
        for some in portions(list(new.values()), _AT_ONCE):
            ids = [self.take_out(text.key) if text.key in known else None for text in some]
            self._put_in(some, encoded(some, self._letters), ids)

    def _learn_frequent(self, texts: Iterable[IndexedText]) -> None:
        """Meet the most frequent words of some bodies first, as the first letters are the shortest."""
        counts = Counter(word for text in texts for word in words(text.body[:MAX_TEXT]))
        for word, _ in counts.most_common():
            self._letters[word]  # it is learned by being looked up

    def _put_in(self, texts: Sequence[IndexedText], skills: Sequence[CountedStems], ids: Sequence[int | None]) -> None:
        rows = []
        tags: list[tuple[str, int]] = []
        for text, skill, known in zip(texts, skills, ids, strict=True):
            id_ = self._next if known is None else known
            self._next += known is None
            scope = self._scope_number(text.scope)
            row = (id_, text.key, text.stamp, text.name, scope, int(text.unlisted), text.needs, *skill.stems.packed())
            rows.append(row)
            tags.extend((tag, id_) for tag in {tag.casefold() for tag in text.tags})
        self._connection.executemany("INSERT INTO skill VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT INTO tag VALUES (?, ?)", tags)
        for row, skill in zip(rows, skills, strict=True):
            self._count(row[0], row[4], skill, is_gone=False)

    def take_out(self, key: str) -> int | None:
        """Take a skill out; its id, if it was there."""
        row = self._connection.execute(
            "SELECT id, scope, name_letters, about, body, about_length, length FROM skill WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        id_, scope, *packed = row
        for table in ("skill", "tag", "vector"):
            self._connection.execute(f"DELETE FROM {table} WHERE id = ?", (id_,))
        self._count(id_, scope, EncodedStems.unpacked(*packed).counted(), is_gone=True)
        self._gone += 1
        return checked_count(id_)

    def _scope_number(self, value: str) -> int:
        number = self._scopes.get(value)
        if number is None:
            cursor = self._connection.execute(
                "INSERT INTO scope (value, skills, about, body) VALUES (?, 0, 0, 0)", (value,)
            )
            number = self._scopes[value] = int(cursor.lastrowid or 0)
        return number

    def _count(self, id_: int, scope: int, skill: CountedStems, *, is_gone: bool) -> None:
        self._postings.add(id_, scope, skill, is_gone=is_gone)
        totals = self._totals.setdefault(scope, [0, 0, 0])
        sign = -1 if is_gone else 1
        for place, amount in enumerate((1, skill.stems.about_length, skill.stems.length)):
            totals[place] += sign * amount

    def save(self) -> bool:
        """Write what the skills of this transaction have together; whether so many have gone that it shows."""
        connection = self._connection
        self._letters.save(connection)
        self._postings.save(connection)
        connection.executemany(
            "UPDATE scope SET skills = skills + ?, about = about + ?, body = body + ? WHERE id = ?",
            [(*totals, scope) for scope, totals in self._totals.items()],
        )
        if not self._gone:
            return False
        connection.execute("UPDATE made_by SET gone = gone + ?", (self._gone,))
        (gone, skills) = connection.execute("SELECT gone, (SELECT sum(skills) FROM scope) FROM made_by").fetchone()
        return checked_count(gone) > max(_MOST_GONE, checked_count(skills))
