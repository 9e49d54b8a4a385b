"""The lexicon: the letter that encodes each stem of an index, and the stems that a mistyped word may mean."""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections import Counter
from typing import TYPE_CHECKING

from metier._lazy import pattern
from metier.find.index_database import IndexDamaged, checked_count
from metier.find.tokenizer import known_stems

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence, Set


_SHORTEST, _LONGEST = 4, 16
_MOST_KEPT = 2_000_000
"""The most bytes of words that a writer keeps from one transaction to the next: some 50 MB with their stems."""


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
_LETTER = pattern(f"[{chr(_LEAD)}-{chr(_TRAILING - 1)}]?[^{chr(_LEAD)}-{chr(_TRAILING - 1)}]", re.DOTALL)
_LEADS = pattern(f"[{chr(_LEAD)}-{chr(_TRAILING - 1)}]")
_NO_SINGLE = pattern(f"[{chr(_LEAD)}-\U0010ffff]")
_UTF_32 = f"utf-32-{sys.byteorder[0]}e"

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
    return _two_letters(number - _SINGLE)


def codes_of(letters: Collection[str]) -> list[int]:
    """A number for each letter, the same for the same letter and in their order.

    >>> codes_of(["Ā", "ō"])
    [256, 333]
    """
    try:
        return list(map(ord, letters))
    except TypeError:
        return [
            ord(letter) if len(letter) == 1 else (ord(letter[0]) - _LEAD) * _PLANE + ord(letter[1])
            for letter in letters
        ]


def _letters_of(code: int) -> str:
    """The letter of a code."""
    return chr(code) if code < _LEAD else _two_letters(code - _TRAILING)


def _two_letters(number: int) -> str:
    lead, trailing = divmod(number, _PLANE)
    return chr(_LEAD + lead) + chr(_TRAILING + trailing)


def checked_letter(text: object) -> str:
    """A text that can be one letter; raises `IndexDamaged` for anything else."""
    if not isinstance(text, str) or not 1 <= len(text) <= 2 or text[0] < chr(_FIRST):
        raise IndexDamaged(f"{text!r} where a letter should be")
    return text


def letters_in(text: str) -> Sequence[str]:
    """The letters of a text, in order."""
    return text if _LEADS.search(text) is None else _LETTER.findall(text)


# A list in one variable: looking up hundreds of stems is then one statement, and always the same.
_KNOWN = "SELECT stem, letter, spelled FROM json_each(?) CROSS JOIN stem ON stem = value"


def letters(connection: sqlite3.Connection, stems: Sequence[str]) -> dict[str, str]:
    """The letters of those stems that are known, in the order of the stems."""
    found = {stem: checked_letter(letter) for stem, letter, _ in connection.execute(_KNOWN, (json.dumps(stems),))}
    return {stem: found[stem] for stem in stems if stem in found}


class _StemCodes(dict[str, int]):
    """The code of the letter of each stem that a writer has met; a stem that is new gets one."""

    def __init__(self) -> None:
        super().__init__()
        self.new: dict[str, str] = {}
        self.spelled: set[str] = set()
        """Stems whose misspellings are in the index."""
        self.numbers = 0
        self.connection: sqlite3.Connection | None = None
        """The index to look into; none where each of its stems is known here."""

    def __missing__(self, stem: str) -> int:
        letter = None if self.connection is None else self._look_up(self.connection, stem)
        if letter is None:
            letter = self.new[stem] = letter_of(self.numbers)
            self.numbers += 1
        code = self[stem] = ord(letter) if len(letter) == 1 else codes_of((letter,))[0]
        return code

    def _look_up(self, connection: sqlite3.Connection, stem: str) -> str | None:
        row = connection.execute("SELECT letter, spelled FROM stem WHERE stem = ?", (stem,)).fetchone()
        if row is None:
            return None
        if row[1]:
            self.spelled.add(stem)
        return checked_letter(row[0])


class Letters(dict[bytes, int]):
    """The codes of the letters of each word that a writer has met, each one object wherever it occurs.

    That of its letter, 0 for a stop word, and for a word with several letters a number that is no code of a letter.

    A letter stands for its stem until that is forgotten. So they are kept from one transaction to the next until this
    writer forgets a stem, anybody else has written, or a transaction was rolled back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._odd: dict[int, tuple[list[int], str, int]] = {}
        """Words that have several letters or a stem that is not ASCII, by their number: the code of each letter, all
        letters, and how many are of such stems, of which two make about one word."""
        self._stems = _StemCodes()
        self._said: set[str] = set()
        self._kept = 0
        """The bytes of all words: of a text without blanks, or of data, one may be as long as a body."""
        self._has_all = False
        """Whether each stem of the index is known here, so that none need be looked for."""
        self._state: tuple[sqlite3.Connection, int, int] | None = None
        self._stems_of = known_stems().learn

    def begin(self, connection: sqlite3.Connection, rollbacks: int) -> None:
        """Begin a transaction with what is known, if nothing has happened since the last one."""
        state = (connection, connection.execute("PRAGMA data_version").fetchone()[0], rollbacks)
        if state != self._state or self._kept > _MOST_KEPT:
            self.clear()
            self._state = state
        # No number is given twice, so that whoever reads meanwhile does not take one stem for another.
        numbers = checked_count(connection.execute("SELECT numbers FROM made_by").fetchone()[0])
        self._has_all |= not numbers
        self._stems.numbers, self._stems.connection = numbers, None if self._has_all else connection
        self._stems_of = known_stems().learn

    def clear(self) -> None:
        """Begin anew."""
        super().clear()
        for known in (self._odd, self._stems, self._stems.new, self._said, self._stems.spelled):
            known.clear()
        self._state, self._has_all, self._kept = None, False, 0

    def __missing__(self, word: bytes) -> int:
        stems = self._stems_of(word)
        self._kept += len(word)
        if len(stems) > 1 or (stems and not stems[0].isascii()):
            # Below, there is a character for it, which is no letter.
            code = (_LEAD if len(self._odd) < _PLANE else _PLANE * _PLANE * 2) + len(self._odd)
            codes = list(map(self._stems.__getitem__, stems))
            letters = "".join(map(_letters_of, codes))
            self._odd[code] = codes, letters, len(stems) - sum(map(str.isascii, stems))
        else:
            code = self._stems[stems[0]] if stems else 0
        self[word] = code
        return code

    def count(self, codes: Iterable[int]) -> tuple[Counter[int], int]:
        """The count of each letter in a text of words, and how many of all are of stems that are not ASCII."""
        counts = Counter(codes)
        counts.pop(0, None)
        unspaced = 0
        several: list[int] = []
        for code in [code for code in counts if code >= _LEAD]:
            if (word := self._odd.get(code)) is not None:
                times = counts.pop(code)
                several += word[0] * times
                unspaced += word[2] * times
        counts.update(several)
        return counts, unspaced

    def text(self, codes: Sequence[int]) -> str:
        """The letters of a text of words."""
        try:
            text = array("I", codes).tobytes().decode(_UTF_32)
        except (OverflowError, UnicodeDecodeError):
            return "".join([self._letters_of(code) for code in codes if code])
        return _NO_SINGLE.sub(lambda found: self._letters_of(ord(found[0])), text.replace("\0", ""))

    def _letters_of(self, code: int) -> str:
        word = self._odd.get(code)
        return _letters_of(code) if word is None else word[1]

    def said(self, stems: Sequence[str]) -> list[int]:
        """The codes of stems that a skill says of itself, which are also found when they are mistyped."""
        self._said.update(stems)
        return list(map(self._stems.__getitem__, stems))

    def save(self, connection: sqlite3.Connection) -> None:
        """Write the stems that are new."""
        stems, said = self._stems, self._said
        if stems.new:
            connection.execute("UPDATE made_by SET numbers = ?", (stems.numbers,))
            for spelled in (0, 1):
                # In one text: thousands of rows come in half the time.
                rows = {stem: letter for stem, letter in stems.new.items() if (stem in said) == spelled}
                statement = f"INSERT INTO stem SELECT key, value, {spelled} FROM json_each(?)"
                connection.execute(statement, (json.dumps(rows, ensure_ascii=False),))
        if unspelled := said - stems.spelled:
            variations = [(variant, stem) for stem in unspelled for variant in variants(stem)]
            connection.executemany("INSERT OR IGNORE INTO spelling VALUES (?, ?)", variations)
            known = [(stem,) for stem in unspelled if stem not in stems.new]
            connection.executemany("UPDATE stem SET spelled = 1 WHERE stem = ?", known)
            stems.spelled.update(unspelled)
        stems.new.clear()
        said.clear()


def forget_all_but(connection: sqlite3.Connection, codes: Set[int]) -> None:
    """Take out the stems that no skill has any more, by the codes of the letters that skills have."""
    rows = connection.execute("SELECT stem, letter, spelled FROM stem").fetchall()
    letters = codes_of([checked_letter(row[1]) for row in rows])
    gone = [(row[0], row[2]) for row, code in zip(rows, letters, strict=True) if code not in codes]
    connection.executemany("DELETE FROM stem WHERE stem = ?", [row[:1] for row in gone])
    connection.executemany(
        "DELETE FROM spelling WHERE variant = ? AND stem = ?",
        [(variant, stem) for stem, spelled in gone if spelled for variant in variants(stem)],
    )


def spelled_like(connection: sqlite3.Connection, stem: str) -> list[str]:
    """Stems of what skills say of themselves, now or once, that one typing mistake makes of this one."""
    asked = sorted(variants(stem))
    marks = ",".join("?" * len(asked))
    rows = connection.execute(f"SELECT DISTINCT stem FROM spelling WHERE variant IN ({marks})", asked)
    return sorted(row[0] for row in rows)
