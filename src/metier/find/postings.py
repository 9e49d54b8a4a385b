"""Postings: the ids of the skills that have each letter, in segments that are written once and merged later.

A transaction appends a segment for each scope that it touches, and eight segments of about one size become one. So no
list is ever changed in place, whatever the number of skills, and a search reads nothing of scopes that are hidden from
its caller. How many skills have a letter is the length of its lists.
"""

from __future__ import annotations

import heapq
import itertools
import json
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from metier.find.index_database import IndexDamaged, checked_count
from metier.find.lexicon import codes_of
from metier.find.ranking import LEVELS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from metier.find.index_database import IndexDatabase
    from metier.find.indexed_text import CountedStems

Field: TypeAlias = Literal["about", "body"]
FIELDS: tuple[Field, ...] = ("about", "body")
_Ids: TypeAlias = "array[int]"
_ID_SIZE = array("I").itemsize

# The key of a list: the code of the letter, then for each field and level a list of those that came and one of those
# that went. A row of `posting` has the lists of consecutive keys; its id is the segment's number and the first key.
_OF_LETTER, _OF_LEVEL = 16, 2
_SEGMENT = 32  # bits of a key
_ROW_IDS, _ROW_LISTS = 1_024, 256
"""The most ids and lists in a row; a longer list has a row of its own, which is only read when it is needed."""

_FAN = 8
"""The number of segments of about one size, where each size is as many times the one before, that become one."""
_LARGEST_MERGED = 1 << 20
"""Segments with more ids are merged in steps only: at once it would keep other writers waiting for seconds."""
_IDS_OF_STEP, _ROWS_OF_STEP = 1 << 18, 2_000
"""The ids that are merged in one transaction, and the rows that are removed: a fraction of a second."""
_UNFINISHED, _REPLACED = -1, -2
"""Instead of a scope, so that nobody reads them: of a segment that is written in steps, and of one to be removed."""

_LISTS_OF = """
SELECT wanted.value, posting.id & 0xffffffff, keys, counts, CASE WHEN length(ids) <= :longest THEN ids END
FROM json_each(:keys) AS wanted CROSS JOIN segment CROSS JOIN posting
WHERE scope IN (SELECT value FROM json_each(:scopes)) AND posting.id BETWEEN
    max(number << 32, coalesce((SELECT max(id) FROM posting WHERE id <= (number << 32) + wanted.value), 0))
    AND (number << 32) + wanted.value + :span
"""
_UNPOSTED = """
SELECT 1 FROM segment WHERE scope >= 0 AND NOT EXISTS
    (SELECT 1 FROM posting WHERE id BETWEEN number << 32 AND (number << 32) + 0xffffffff)
UNION ALL SELECT 1 FROM scope WHERE about + body > 0 AND NOT EXISTS (SELECT 1 FROM segment WHERE scope = scope.id)
"""


class _Lists(NamedTuple):
    """Lists of ids, as they lie in rows: the key and the length of each, and the ids of all."""

    keys: _Ids
    counts: _Ids
    ids: bytes


class NewPostings:
    """The postings that a transaction adds and takes back."""

    def __init__(self) -> None:
        self._scopes: dict[int, list[defaultdict[int, list[int]]]] = {}
        self._has_gone = False

    def add(self, id_: int, scope: int, skill: CountedStems, *, is_gone: bool) -> None:
        """Post the letters of a skill, or take them back."""
        lists = self._scopes.get(scope)
        if lists is None:
            lists = self._scopes[scope] = [defaultdict(list) for _ in range(_OF_LETTER)]
        for first, counts, levels in zip((0, len(LEVELS)), (skill.about, skill.body), skill.levels(), strict=True):
            of_count = {count: lists[(first + level) * _OF_LEVEL + is_gone] for count, level in levels.items()}
            for code, count in counts.items():
                of_count[count][code].append(id_)
        self._has_gone |= is_gone

    def save(self, connection: sqlite3.Connection) -> None:
        """Append a segment for each scope, and merge those that have become many."""
        for scope, of_places in sorted(self._scopes.items()):
            found = {
                code * _OF_LETTER + place: ids for place, each in enumerate(of_places) for code, ids in each.items()
            }
            keys = sorted(found)
            each = [found[key] for key in keys]
            ids = array("I", itertools.chain.from_iterable(each)).tobytes()
            lists = _Lists(array("I", keys), array("I", map(len, each)), ids)
            if lists.keys and self._has_gone:  # most words of an edited skill came and went
                lists, _ = _merged([iter((lists,))])
            _append(connection, scope, lists)
            _merge_tiers(connection, scope)


def _append(connection: sqlite3.Connection, scope: int, lists: _Lists) -> None:
    number = _next_number(connection)
    if lists.keys:
        connection.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", _rows(number, lists))
        connection.execute("INSERT INTO segment VALUES (?, ?, ?)", (number, scope, len(lists.ids) // _ID_SIZE))


def _next_number(connection: sqlite3.Connection) -> int:
    return 1 + checked_count(connection.execute("SELECT coalesce(max(number), 0) FROM segment").fetchone()[0])


def _rows(number: int, lists: _Lists) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    keys, counts, ids = lists
    ends = list(itertools.accumulate(counts))
    start = used = 0
    while start < len(keys):
        end = min(bisect_right(ends, used + _ROW_IDS, start), start + _ROW_LISTS)
        end = max(end, start + 1)
        some = ids[used * _ID_SIZE : ends[end - 1] * _ID_SIZE]
        yield (number << _SEGMENT) + keys[start], keys[start:end].tobytes(), counts[start:end].tobytes(), some
        start, used = end, ends[end - 1]


def _merge_tiers(connection: sqlite3.Connection, scope: int) -> None:
    while True:
        tiers: dict[int, list[int]] = {}
        for number, size in connection.execute("SELECT number, size FROM segment WHERE scope = ?", (scope,)):
            if checked_count(size) < _LARGEST_MERGED:
                tiers.setdefault((size.bit_length() - 1) // (_FAN.bit_length() - 1), []).append(number)
        full = [numbers for _, numbers in sorted(tiers.items()) if len(numbers) >= _FAN]
        if not full:
            return
        _merge(connection, scope, full[0])


def _merge(connection: sqlite3.Connection, scope: int, numbers: Sequence[int]) -> None:
    merged, size = _next_number(connection), 0
    following: int | None = 0
    while following is not None:  # part by part, as all lists at once would take many times the memory
        lists, following = _merged([_rows_of(connection, number, following) for number in numbers], _IDS_OF_STEP)
        connection.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", _rows(merged, lists))
        size += len(lists.ids) // _ID_SIZE
    if size:
        connection.execute("INSERT INTO segment VALUES (?, ?, ?)", (merged, scope, size))
    for number in numbers:
        connection.execute("DELETE FROM posting WHERE id BETWEEN ? AND ?", _bounds(number))
        connection.execute("DELETE FROM segment WHERE number = ?", (number,))


def merge_in_steps(database: IndexDatabase) -> None:
    """Merge all segments of each scope, so that nothing is left of what was taken back.

    Others can write in between, and nothing is lost by a kill.
    """
    scopes: dict[int, list[int]] = {}
    with database.transaction() as connection:
        connection.execute("UPDATE segment SET scope = ? WHERE scope = ?", (_REPLACED, _UNFINISHED))
        for number, scope in connection.execute("SELECT number, scope FROM segment WHERE scope >= 0 ORDER BY number"):
            scopes.setdefault(scope, []).append(number)
    for scope, numbers in scopes.items():
        if len(numbers) > 1:
            _merge_in_steps(database, scope, numbers)
    while _remove_replaced(database):
        pass


def _merge_in_steps(database: IndexDatabase, scope: int, numbers: Sequence[int]) -> None:
    """Write a segment that nobody reads yet, then put it in the place of the others; give up if somebody was faster."""
    with database.transaction() as connection:
        merged = _next_number(connection)
        connection.execute("INSERT INTO segment VALUES (?, ?, 0)", (merged, _UNFINISHED))
    expected = {merged: _UNFINISHED, **dict.fromkeys(numbers, scope)}
    following: int | None = 0
    while following is not None:
        with database.transaction() as connection:
            found = dict(connection.execute("SELECT number, scope FROM segment"))
            if not found.items() >= expected.items():
                connection.execute("UPDATE segment SET scope = ? WHERE number = ?", (_REPLACED, merged))
                return
            lists, following = _merged([_rows_of(connection, number, following) for number in numbers], _IDS_OF_STEP)
            connection.executemany("INSERT INTO posting VALUES (?, ?, ?, ?)", _rows(merged, lists))
            size = len(lists.ids) // _ID_SIZE
            connection.execute("UPDATE segment SET size = size + ? WHERE number = ?", (size, merged))
            if following is None:
                replaced = [(_REPLACED, number) for number in numbers]
                connection.executemany("UPDATE segment SET scope = ? WHERE number = ?", replaced)
                kept = "UPDATE segment SET scope = CASE WHEN size > 0 THEN ? ELSE ? END WHERE number = ?"
                connection.execute(kept, (scope, _REPLACED, merged))


def _remove_replaced(database: IndexDatabase) -> bool:
    """Remove some rows that nobody reads any more; whether there may be others."""
    with database.transaction() as connection:
        row = connection.execute("SELECT number FROM segment WHERE scope = ?", (_REPLACED,)).fetchone()
        if row is None:
            return False
        some = "SELECT id FROM posting WHERE id BETWEEN ? AND ? LIMIT ?"
        removed = connection.execute(f"DELETE FROM posting WHERE id IN ({some})", (*_bounds(row[0]), _ROWS_OF_STEP))
        if not removed.rowcount:
            connection.execute("DELETE FROM segment WHERE number = ?", row)
        return True


def _bounds(number: int) -> tuple[int, int]:
    """The first and the last id that a row of a segment can have."""
    return number << _SEGMENT, (number + 1 << _SEGMENT) - 1


def _rows_of(connection: sqlite3.Connection, number: int, first: int = 0) -> Iterator[_Lists]:
    """The lists of a segment, from a key on, row by row."""
    low, high = _bounds(number)
    begin = "SELECT coalesce(max(id), ?1) FROM posting WHERE id BETWEEN ?1 AND ?2"
    statement = f"SELECT id & 0xffffffff, keys, counts, ids FROM posting WHERE id BETWEEN ({begin}) AND ?3 ORDER BY id"
    for row in connection.execute(statement, (low, low + first, high)):
        keys, counts, ids = _unpacked(*row)
        if at := bisect_left(keys, first):
            keys, counts, ids = keys[at:], counts[at:], ids[sum(counts[:at]) :]
        if keys:
            yield _Lists(keys, counts, ids.tobytes())


def _unpacked(first: int, *parts: bytes | None) -> tuple[_Ids, _Ids, _Ids]:
    """The keys, the length of each list, and the ids; none where they were too many to read."""
    keys, counts, ids = (array("I", part or b"") for part in parts)
    if not keys or keys[0] != first or len(keys) != len(counts) or (parts[2] is not None and sum(counts) != len(ids)):
        raise IndexDamaged("lists of skills of another length than they should have")
    return keys, counts, ids


def _merged(sources: Sequence[Iterator[_Lists]], most: int = sys.maxsize) -> tuple[_Lists, int | None]:
    """The lists of several segments in one, without what came in one and went in another.

    After about `most` ids the key to go on with is returned too.
    """
    parts: defaultdict[int, list[bytes]] = defaultdict(list)
    size = 0
    least = following = None
    for keys, counts, ids in heapq.merge(*sources, key=lambda row: row.keys[0]):
        first = keys[0] - keys[0] % _OF_LEVEL  # those that came and those that went stay together
        if least is None:
            least = first
        if size >= most and first > least:
            following = first
            break
        start = 0
        for key, count in zip(keys, counts, strict=True):
            end = start + count * _ID_SIZE
            parts[key].append(ids[start:end])
            start = end
        size += len(ids) // _ID_SIZE
    if following is not None:
        for key in [key for key in parts if key >= following]:
            del parts[key]
    for key in [key for key in parts if key % _OF_LEVEL]:
        came, went = b"".join(parts.pop(key - 1, ())), b"".join(parts.pop(key))
        if came != went:  # most words of an edited skill come and go at once
            net = _net(array("I", came), array("I", went))
            parts.update({at: [ids.tobytes()] for at, ids in zip((key - 1, key), net, strict=True) if ids})
    every = array("I", sorted(parts))
    each = [parts[key] for key in every]
    counts = array("I", (sum(map(len, pieces)) // _ID_SIZE for pieces in each))
    return _Lists(every, counts, b"".join(itertools.chain.from_iterable(each))), following


def _net(came: Iterable[int], went: Iterable[int]) -> tuple[_Ids, _Ids]:
    """The ids that came and did not go, and those that went and had come in another segment."""
    left = Counter(came)
    left.subtract(went)
    return array("I", (+left).elements()), array("I", (-left).elements())


def posted_codes(connection: sqlite3.Connection) -> set[int]:
    """The codes of all letters that skills have."""
    found: set[int] = set()
    for (keys,) in connection.execute("SELECT keys FROM posting"):
        found.update(key // _OF_LETTER for key in array("I", keys))
    return found


class Postings:
    """The lists of some letters, of the skills in some scopes."""

    def __init__(self, database: IndexDatabase, letters: Mapping[str, str], scopes: Collection[int]) -> None:
        self._database = database
        self._scopes = json.dumps(list(scopes))
        codes = zip(letters, codes_of(letters.values()), strict=True)
        self._keys = {stem: code * _OF_LETTER for stem, code in codes}
        self._lists: dict[int, _Ids] = {}
        self._sizes: Counter[int] = Counter()
        with database.reading() as connection:
            self._read(connection, list(self._keys.values()), _OF_LETTER - 1, _ROW_IDS)
            counts = {stem: (self._count(stem, "about"), self._count(stem, "body")) for stem in letters}
            self.counts = {stem: count for stem, count in counts.items() if any(count)}
            """The number of skills that have each stem in what they say of themselves, and in the body."""
            if len(self.counts) < len(letters) and connection.execute(_UNPOSTED).fetchone() is not None:
                raise IndexDamaged("skills should have words, and none are listed")

    def _read(self, connection: sqlite3.Connection, keys: Sequence[int], span: int, longest: int) -> None:
        """Read the lists from each key on, except for those that are too long, which are only counted."""
        asked = {"keys": json.dumps(keys), "scopes": self._scopes, "span": span, "longest": longest * 4}
        for low, *row in connection.execute(_LISTS_OF, asked):
            of_row, counts, ids = _unpacked(*row)
            at = bisect_left(of_row, low)
            start = sum(counts[:at])
            for key, count in zip(of_row[at : at + span + 1], counts[at : at + span + 1], strict=True):
                if key > low + span:
                    break
                self._sizes[key] += count
                if ids:
                    self._lists.setdefault(key, array("I")).extend(ids[start : start + count])
                start += count

    def _count(self, stem: str, field: Field) -> int:
        keys = [_key(self._keys[stem], field, level) for level in range(len(LEVELS))]
        return checked_count(sum(self._sizes[key] - self._sizes[key + 1] for key in keys))

    def having(self, field: Field, stem: str, level: int) -> Sequence[int]:
        """The ids of all skills that have a stem in a field, as much as the level says."""
        key = _key(self._keys[stem], field, level)
        if any(self._sizes[one] != len(self._lists.get(one, ())) for one in (key, key + 1)):
            # In one statement, as lists may have been merged since they were counted.
            for one in (key, key + 1):
                self._sizes.pop(one, None)
                self._lists.pop(one, None)
            with self._database.reading() as connection:
                self._read(connection, [key], 1, sys.maxsize // 8)
        came, went = self._lists.get(key, ()), self._lists.get(key + 1)
        if not went:
            return came
        came, went = _net(came, went)
        if went or len(set(came)) < len(came):
            raise IndexDamaged("a skill that came twice, or went and never came")
        return came


def _key(first: int, field: Field, level: int) -> int:
    return first + (level + len(LEVELS) * (field == "body")) * _OF_LEVEL
