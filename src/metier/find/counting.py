"""How many skills have each stem: in what they say of themselves and in their bodies, apart for each scope.

A skill has hundreds of stems, so counting each on its own would be most of the work of writing one. The last few skills
that came or went are kept as they are, and counted in when there are enough of them.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.database import Damaged, checked_count
from metier.find.letters import letters_in
from metier.find.lexicon import forget

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

    from metier.find.content import Words

_MOST_RECENT = 32
"""How many skills that came or went are not counted in yet, at most: each search looks at them."""


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
            raise Damaged(f"{sign!r} in scope {scope!r} is no change")
        return cls(scope, sign, about.decode(), body.decode())


class Counts:
    """What a transaction changes in the counts of stems and skills, written once at its end."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._totals: dict[int, list[int]] = {}

    def add(self, words: Words, about: Collection[str], body: Collection[str], scope: int, sign: int) -> None:
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
    """How many of the skills in these scopes have each stem, whose letter is given."""
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
            raise Damaged(f"{scope!r} where a scope should be")
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
        raise Damaged("fewer than no skills have a stem")
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
