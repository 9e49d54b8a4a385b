"""How many skills have a word is the same number however and in whatever portions they came and went."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find import index_writer, postings
from metier.find.indexed_text import IndexedText
from metier.find.ranking import LEVELS
from metier.find.search_index import SearchIndex

WORDS = ("fruit", "knife", "oven", "spoon", "plate")
SCOPES = ("", '[["x"],null,null]')

texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
skills = st.builds(
    lambda key, about, body, scope: IndexedText(key=f"k{key}", stamp="", name="x", about=about, body=body, scope=scope),
    st.integers(0, 5), texts, texts, st.sampled_from(SCOPES),
)  # fmt: skip
steps = st.lists(st.tuples(st.lists(skills, max_size=4), st.lists(st.integers(0, 5), max_size=2)), max_size=8)


def counted(index: SearchIndex, scopes: set[int]) -> dict[str, tuple[int, int]]:
    return index.postings(index.letters(WORDS), scopes).counts


def expected(there: dict[str, IndexedText], scopes: set[str]) -> dict[str, tuple[int, int]]:
    about: Counter[str] = Counter()
    body: Counter[str] = Counter()
    for skill in there.values():
        if skill.scope in scopes:
            about.update(set(skill.about.split()))
            body.update(set(skill.body.split()))
    return {word: (about[word], body[word]) for word in WORDS if about[word] or body[word]}


@pytest.mark.parametrize(
    ("fan", "gone", "row"),
    [(2, 1_000, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((2, 0, 1_024), (3, 2, 1)))],
)
@given(steps)
def test_counts_and_lists_are_those_of_the_skills_that_are_there(
    fan: int, gone: int, row: int, steps: list[tuple[list[IndexedText], list[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_FAN", fan)
        patch.setattr(postings, "_ROW_IDS", row)
        patch.setattr(postings, "_IDS_OF_STEP", 1)
        patch.setattr(index_writer, "_MOST_GONE", gone)
        index = SearchIndex()
        there: dict[str, IndexedText] = {}
        for number, (come, went) in enumerate(steps):
            for one in went:
                there.pop(f"k{one}", None)
            stamped = [skill._replace(stamp=f"{number}.{place}") for place, skill in enumerate(come)]
            there.update({skill.key: skill for skill in stamped})
            index.update(stamped, [f"k{one}" for one in went])
            if number % 3 == 2:
                index.merge()
        scopes = index.scopes()
        for some in ({""}, {SCOPES[1]}, set(SCOPES), set[str]()):
            numbers = {number for number, value in scopes.items() if value in some}
            assert counted(index, numbers) == expected(there, some)
            mine = [skill for skill in there.values() if skill.scope in some]
            assert index.totals(numbers).skills == len(mine)
            found = index.postings(index.letters(WORDS), numbers)
            keys = {row.id: row.key for row in index.rows(range(100))}
            for word in found.counts:
                listed = [keys[id_] for level in range(len(LEVELS)) for id_ in found.having("body", word, level)]
                assert sorted(listed) == sorted(skill.key for skill in mine if word in skill.body.split())


def segments(index: SearchIndex) -> list[int]:
    return [row[0] for row in index.database.reader().execute("SELECT size FROM segment")]


def test_segments_of_one_size_become_one() -> None:
    index = SearchIndex()
    for number in range(1, 200):
        index.update([IndexedText(key=str(number), stamp="1", name="x", body="fruit")])
        assert sum(segments(index)) == 2 * number
        assert len(segments(index)) <= 3 * postings._FAN
    assert counted(index, set(index.scopes())) == {"fruit": (0, 199)}


def test_segments_that_are_large_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_LARGEST_MERGED", 1)
    index = SearchIndex()
    for number in range(3 * postings._FAN):
        index.update([IndexedText(key=str(number), stamp="1", name="x", body="fruit")])
    assert len(segments(index)) == 3 * postings._FAN
    assert counted(index, set(index.scopes())) == {"fruit": (0, 3 * postings._FAN)}


def test_large_segments_are_merged_once_as_many_skills_have_gone_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "_LARGEST_MERGED", 1)
    monkeypatch.setattr(index_writer, "_MOST_GONE", 5)
    index = SearchIndex()
    sizes = []
    for number in range(40):
        body = WORDS[number % len(WORDS)]
        index.update([IndexedText(key="a", stamp=str(number), name="x", body=body)])
        sizes.append(sum(segments(index)))
        assert counted(index, set(index.scopes())) == {body: (0, 1)}
    assert max(sizes[20:]) == max(sizes[:20])


def large_segments(path: Path, monkeypatch: pytest.MonkeyPatch) -> SearchIndex:
    """An index whose segments are merged in steps alone, a list at a time."""
    monkeypatch.setattr(postings, "_LARGEST_MERGED", 1)
    monkeypatch.setattr(postings, "_IDS_OF_STEP", 1)
    monkeypatch.setattr(postings, "_ROWS_OF_STEP", 1)
    monkeypatch.setattr(postings, "_ROW_LISTS", 1)
    index = SearchIndex(str(path / "search.db"))
    for number in range(4):
        index.update([IndexedText(key=str(number), stamp="1", name="x", body="fruit oven spoon")])
    return index


class Interrupted(Exception):
    """Somebody ended the process."""


@pytest.mark.parametrize("step", range(1, 12))
def test_a_merge_that_ends_in_the_middle_loses_nothing_and_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    index = large_segments(tmp_path, monkeypatch)
    transaction, steps = index.database.transaction, itertools.count(1)

    def interrupted() -> AbstractContextManager[sqlite3.Connection]:
        if next(steps) > step:
            raise Interrupted
        return transaction()

    with monkeypatch.context() as patch:
        patch.setattr(index.database, "transaction", interrupted)
        with pytest.raises(Interrupted):
            index.merge()
    whole = {"fruit": (0, 4), "oven": (0, 4), "spoon": (0, 4)}
    assert counted(index, set(index.scopes())) == whole
    index.update([IndexedText(key="4", stamp="1", name="x", body="fruit")])
    index.merge()
    assert counted(index, set(index.scopes())) == {**whole, "fruit": (0, 5)}
    assert segments(index) == [18]


def test_two_that_merge_and_one_that_writes_at_once_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = large_segments(tmp_path, monkeypatch)
    other = SearchIndex(index.database.path)
    transaction, steps = index.database.transaction, itertools.count(1)

    def meanwhile() -> AbstractContextManager[sqlite3.Connection]:
        step = next(steps)
        if step == 4:
            other.merge()
        elif step == 3:
            other.update([IndexedText(key="0", stamp="2", name="x", body="oven knife")])
        return transaction()

    monkeypatch.setattr(index.database, "transaction", meanwhile)
    index.merge()
    assert next(steps) > 5
    assert counted(index, set(index.scopes())) == {
        "fruit": (0, 3), "knife": (0, 1), "oven": (0, 4), "spoon": (0, 3),
    }  # fmt: skip
    assert len(segments(index)) == 1


@pytest.mark.parametrize("table", ["stem", "segment", "posting", "spelling"])
def test_nothing_is_left_of_skills_that_have_gone(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer, "_MOST_GONE", 0)
    index = SearchIndex()
    connection = index.database.reader()

    def rows() -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    index.update([IndexedText(key="a", stamp="1", name="apple", about="orange", body="banana")])
    before = rows()
    index.update([IndexedText(key="b", stamp="1", name="apple", about="cherry orange", body="melon" * 3)])
    assert rows() > before
    index.update([], ["b"])
    index.update([IndexedText(key="a", stamp="2", name="apple", about="orange", body="banana")])
    assert rows() == before
    index.update([], ["a"])
    assert rows() == 0


def test_a_number_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer, "_MOST_GONE", 0)
    index = SearchIndex()
    index.update([IndexedText(key="a", stamp="1", name="x", body="fruit")])
    first = index.letters(["fruit"])["fruit"]
    index.update([IndexedText(key="a", stamp="0", name="x", body="knife")])
    index.update([], ["a"])
    assert index.letters(["fruit"]) == {}
    index.update([IndexedText(key="a", stamp="2", name="x", body="oven fruit")])
    assert first not in index.letters(["oven", "fruit"]).values()
