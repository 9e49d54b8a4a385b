"""The stems that an index knows: which letter each is written with, and which a mistyped word may mean."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from metier.find.database import checked_count
from metier.find.letters import checked_letter, letter_of
from metier.find.spelling import variants

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from metier.find.content import Stems


# A list in one variable: looking up hundreds of stems is then one statement, and always the same.
_KNOWN = "SELECT stem, letter, spelled FROM json_each(?) CROSS JOIN stem ON stem = value"


def letters(connection: sqlite3.Connection, stems: Sequence[str]) -> dict[str, str]:
    """The letters of those stems that are known, in the order of the stems."""
    found = {stem: checked_letter(letter) for stem, letter, _ in connection.execute(_KNOWN, (json.dumps(stems),))}
    return {stem: found[stem] for stem in stems if stem in found}


def learn(connection: sqlite3.Connection, skills: Sequence[Stems]) -> dict[str, str]:
    """The letters of all stems of some skills, with new ones for those that are new."""
    every: set[str] = set()
    said: set[str] = set()
    for skill in skills:
        every.update(skill.name, skill.about, skill.body)
        said.update(skill.name, skill.about)
    rows = connection.execute(_KNOWN, (json.dumps(sorted(every)),)).fetchall()
    known = {row[0]: checked_letter(row[1]) for row in rows}
    new = every.difference(known)
    if new:
        counts = Counter(stem for skill in skills for stem in skill.body if stem in new)
        known.update(_lettered(connection, sorted(new, key=lambda stem: (-counts[stem], stem))))
    unspelled = sorted(said.difference([row[0] for row in rows if row[2]]))
    if unspelled:
        variations = [(variant, stem) for stem in unspelled for variant in variants(stem)]
        connection.executemany("INSERT OR IGNORE INTO spelling VALUES (?, ?)", variations)
        connection.executemany("UPDATE stem SET spelled = 1 WHERE stem = ?", [(stem,) for stem in unspelled])
    return known


def _lettered(connection: sqlite3.Connection, new: Sequence[str]) -> dict[str, str]:
    """Letters for new stems; those of the first are the shortest."""
    # No number is given twice, so that whoever reads meanwhile does not take one stem for another.
    first = checked_count(connection.execute("SELECT numbers FROM made_by").fetchone()[0])
    connection.execute("UPDATE made_by SET numbers = ?", (first + len(new),))
    given = {stem: letter_of(number) for number, stem in enumerate(new, first)}
    connection.executemany("INSERT INTO stem VALUES (?, ?, 0)", sorted(given.items()))
    return given


def forget(connection: sqlite3.Connection, letters: Iterable[str]) -> None:
    """Take out those stems that no skill has any more."""
    for letter in letters:
        row = connection.execute(
            "SELECT stem, spelled FROM stem WHERE letter = ?1"
            " AND NOT EXISTS (SELECT 1 FROM spread WHERE spread.letter = ?1)",
            (letter,),
        ).fetchone()
        if row is not None:
            connection.execute("DELETE FROM stem WHERE stem = ?", row[:1])
            if row[1]:
                variations = [(variant, row[0]) for variant in variants(row[0])]
                connection.executemany("DELETE FROM spelling WHERE variant = ? AND stem = ?", variations)


def spelled_like(connection: sqlite3.Connection, stem: str) -> list[str]:
    """Stems of what skills say of themselves, now or once, that one typing mistake makes of this one."""
    asked = sorted(variants(stem))
    marks = ",".join("?" * len(asked))
    rows = connection.execute(f"SELECT DISTINCT stem FROM spelling WHERE variant IN ({marks})", asked)
    return sorted(row[0] for row in rows)
