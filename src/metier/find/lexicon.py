"""The lexicon: the letter that encodes each stem of an index, and the stems that a mistyped word may mean."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from metier.find.index_database import IndexDamaged, checked_count

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from metier.find.indexed_text import Stems


_SHORTEST, _LONGEST = 4, 16


def variants(word: str) -> set[str]:
    """The word and what is left of it without any one of its letters; nothing for a word too short to guess at.

    >>> sorted(variants("from") & variants("form"))
    ['fom', 'frm']
    """
    if not _SHORTEST <= len(word) <= _LONGEST:
        return set()
    return {word, *(word[:i] + word[i + 1 :] for i in range(len(word)))}


def is_one_slip(a: str, b: str) -> bool:
    """Whether two words differ by one letter more, less or other, or by two neighbours changing places."""
    if a == b or abs(len(a) - len(b)) > 1:
        return a == b
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest, other = a[start:], b[start:]
    if len(rest) == len(other):
        return rest[1:] == other[1:] or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    longer, shorter = (rest, other) if len(rest) > len(other) else (other, rest)
    return longer[1:] == shorter


# Frequent stems have low numbers, so their letters are two bytes long. Surrogates are no letters.
_FIRST, _GAP, _GAP_SIZE = 0x100, 0xD800, 0x800
_LEAD, _TRAILING = 0xF0000, 0x100000
_PLANE = 0x10000
_SINGLE = _LEAD - _GAP_SIZE - _FIRST
"""The number of stems with one letter, nearly a million. The rest have two, of kinds of their own."""
_LETTER = re.compile(f"[{chr(_LEAD)}-{chr(_TRAILING - 1)}]?[^{chr(_LEAD)}-{chr(_TRAILING - 1)}]", re.DOTALL)

MOST = _SINGLE + _PLANE * _PLANE
"""The number of stems that can be told apart."""


def letter_of(number: int) -> str:
    """The letter of the stem with a number.

    >>> letter_of(0), letter_of(77)
    ('Ā', 'ō')
    """
    if not 0 <= number < MOST:
        raise IndexDamaged(f"a stem has the number {number}")
    if number < _SINGLE:
        point = number + _FIRST
        return chr(point if point < _GAP else point + _GAP_SIZE)
    lead, trailing = divmod(number - _SINGLE, _PLANE)
    return chr(_LEAD + lead) + chr(_TRAILING + trailing)


def checked_letter(text: object) -> str:
    """A text that can be one letter; raises `IndexDamaged` for anything else."""
    if not isinstance(text, str) or not 1 <= len(text) <= 2 or text[0] < chr(_FIRST):
        raise IndexDamaged(f"{text!r} where a letter should be")
    return text


def letters_in(text: str) -> list[str]:
    """The letters of a text, in order."""
    return list(text) if not text or max(text) < chr(_LEAD) else _LETTER.findall(text)


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
