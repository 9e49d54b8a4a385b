"""How many skills have a word is the same number however and in whatever portions they came and went."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.find import index_writer
from metier.find.indexed_text import SkillText
from metier.find.search_index import SearchIndex

WORDS = ("fruit", "knife", "oven", "spoon", "plate")
SCOPES = ("", '[["x"],null,null]')

texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
skills = st.builds(
    lambda key, about, body, scope: SkillText(key=f"k{key}", stamp="", name="x", about=about, body=body, scope=scope),
    st.integers(0, 5), texts, texts, st.sampled_from(SCOPES),
)  # fmt: skip
steps = st.lists(st.tuples(st.lists(skills, max_size=4), st.lists(st.integers(0, 5), max_size=2)), max_size=8)


def counted(index: SearchIndex, scopes: set[int]) -> dict[str, tuple[int, int]]:
    return index.counts(index.letters(WORDS), scopes)


def expected(there: dict[str, SkillText], scopes: set[str]) -> dict[str, tuple[int, int]]:
    about: Counter[str] = Counter()
    body: Counter[str] = Counter()
    for skill in there.values():
        if skill.scope in scopes:
            about.update(set(skill.about.split()))
            body.update(set(skill.body.split()))
    return {word: (about[word], body[word]) for word in WORDS if about[word] or body[word]}


@pytest.mark.parametrize("most", [3, *(pytest.param(most, marks=pytest.mark.slow) for most in (0, 32))])
@given(steps)
def test_counts_are_those_of_the_skills_that_are_there(
    most: int, steps: list[tuple[list[SkillText], list[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_writer, "_MOST_RECENT", most)
        index = SearchIndex()
        there: dict[str, SkillText] = {}
        for number, (come, gone) in enumerate(steps):
            for one in gone:
                there.pop(f"k{one}", None)
            stamped = [skill._replace(stamp=f"{number}.{place}") for place, skill in enumerate(come)]
            there.update({skill.key: skill for skill in stamped})
            index.update(stamped, [f"k{one}" for one in gone])
        scopes = index.scopes()
        for some in ({""}, {SCOPES[1]}, set(SCOPES), set[str]()):
            numbers = {number for number, value in scopes.items() if value in some}
            assert counted(index, numbers) == expected(there, some)
            mine = [skill for skill in there.values() if skill.scope in some]
            assert index.totals(numbers).skills == len(mine)


def test_the_last_few_skills_wait_and_then_all_are_counted_in() -> None:
    index = SearchIndex()
    connection = index.database.reader()

    def waiting() -> int:
        return int(connection.execute("SELECT count(*) FROM recent").fetchone()[0])

    for number in range(index_writer._MOST_RECENT):
        index.update([SkillText(key=str(number), stamp="1", name="x", body="fruit")])
    assert waiting() == index_writer._MOST_RECENT
    assert counted(index, set(index.scopes())) == {"fruit": (0, index_writer._MOST_RECENT)}
    index.update([SkillText(key="last", stamp="1", name="x", body="fruit")])
    assert waiting() == 0
    assert counted(index, set(index.scopes())) == {"fruit": (0, index_writer._MOST_RECENT + 1)}


@pytest.mark.parametrize("table", ["stem", "spread", "spelling"])
def test_stems_that_nobody_has_any_more_are_forgotten(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_writer, "_MOST_RECENT", 0)
    index = SearchIndex()
    connection = index.database.reader()

    def rows() -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    index.update([SkillText(key="a", stamp="1", name="apple", about="orange", body="banana")])
    before = rows()
    index.update([SkillText(key="b", stamp="1", name="apple", about="cherry orange", body="melon" * 3)])
    assert rows() > before
    index.update([], ["b"])
    assert rows() == before
    index.update([], ["a"])
    assert rows() == 0


def test_a_number_is_not_given_twice() -> None:
    index = SearchIndex()
    index.update([SkillText(key="a", stamp="1", name="x", body="fruit")])
    first = index.letters(["fruit"])["fruit"]
    for number in range(index_writer._MOST_RECENT):
        index.update([SkillText(key="a", stamp=str(number), name="x", body="knife")])
        index.update([], ["a"])
    assert index.letters(["fruit"]) == {}
    index.update([SkillText(key="a", stamp="2", name="x", body="oven fruit")])
    assert first not in index.letters(["oven", "fruit"]).values()
