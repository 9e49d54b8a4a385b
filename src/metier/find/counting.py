"""How many skills have each stem: in what they say of themselves and in their bodies, apart for each scope.

A skill has hundreds of stems, so counting each on its own would be most of the work of writing one. The last few skills
that came or went are kept as they are, and counted in when there are enough of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from metier.find.database import Damaged, portions
from metier.find.letters import letters_in
from metier.find.lexicon import forget

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping

    from metier.find.content import Words

_MOST_RECENT = 32
"""How many skills that came or went are not counted in yet, at most: each search looks at them."""


class _Change(NamedTuple):
    """A skill that came or went, and each letter that it has; of one that was edited, each that came or went."""

    scope: int
    sign: int
    about: str
    body: str


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
            _count_in(connection, [*_recent(connection), *self._changes])
            connection.execute("DELETE FROM recent")
        else:
            rows = [(scope, sign, about.encode(), body.encode()) for scope, sign, about, body in self._changes]
            connection.executemany("INSERT INTO recent VALUES (?, ?, ?, ?)", rows)


def counts(
    connection: sqlite3.Connection, letters: Mapping[str, str], scopes: Collection[int]
) -> dict[str, tuple[int, int]]:
    """How many of the skills in these scopes have each stem, whose letter is given."""
    found = dict.fromkeys(letters, (0, 0))
    stems = {letter: stem for stem, letter in letters.items()}
    for some in portions(list(stems)):
        marks = ",".join("?" * len(some))
        rows = connection.execute(f"SELECT letter, scope, about, body FROM spread WHERE letter IN ({marks})", some)
        for letter, scope, about, body in rows:
            if scope in scopes:
                before = found[stems[letter]]
                found[stems[letter]] = (before[0] + about, before[1] + body)
    for change in _recent(connection):
        if change.scope in scopes:
            for stem, letter in letters.items():
                before = found[stem]
                about, body = letter in change.about, letter in change.body
                if about or body:
                    found[stem] = (before[0] + change.sign * about, before[1] + change.sign * body)
    return {stem: count for stem, count in found.items() if count[0] > 0 or count[1] > 0}


def _recent(connection: sqlite3.Connection) -> Iterator[_Change]:
    for scope, sign, about, body in connection.execute("SELECT scope, sign, about, body FROM recent"):
        try:
            yield _Change(scope, int(sign), about.decode(), body.decode())
        except (ValueError, AttributeError, TypeError) as error:
            raise Damaged(str(error)) from None


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
