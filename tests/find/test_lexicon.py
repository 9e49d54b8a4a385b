"""Stems as letters: any number has one, and in a text of them each is found where it stands and nowhere else."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

import metier.find.index_database
import metier.find.lexicon
from metier import Library
from metier.find.index_database import IndexDamaged
from metier.find.indexed_text import IndexedText
from metier.find.lexicon import MOST, letter_of, letters_in
from metier.find.search_index import SearchIndex

EDGES = (0, 1, 0x6FF, 0x700, 0xD6FF, 0xD700, 0xFEFF, 0xFF00, 980_000, 980_735, 980_736, 1_046_271, 1_046_272, MOST - 1)

numbers = st.one_of(
    st.sampled_from(EDGES), st.integers(0, 200), st.integers(979_000, 982_000), st.integers(0, MOST - 1)
)


@given(numbers)
def test_a_letter_can_be_written_and_stays_one(number: int) -> None:
    letter = letter_of(number)
    assert letter.encode().decode() == letter
    assert list(letters_in(letter)) == [letter]
    assert not letter.isascii()


@given(numbers, numbers)
def test_two_numbers_have_letters_in_their_order(one: int, other: int) -> None:
    assert (letter_of(one) < letter_of(other)) == (one < other)
    assert (letter_of(one) == letter_of(other)) == (one == other)


@given(st.lists(numbers, max_size=20), st.lists(numbers, min_size=1, max_size=3))
def test_counting_letters_is_counting_stems(text: list[int], wanted: list[int]) -> None:
    spelled = "".join(map(letter_of, text))
    assert list(letters_in(spelled)) == [letter_of(number) for number in text]
    assert spelled.count(letter_of(wanted[0])) == text.count(wanted[0])
    stands = any(text[i : i + len(wanted)] == wanted for i in range(len(text)))
    assert ("".join(map(letter_of, wanted)) in spelled) == stands


def test_frequent_stems_have_short_letters() -> None:
    assert [len(letter_of(number).encode()) for number in (0, 1_791, 1_792, 60_000, 100_000, 2_000_000)] == [
        2, 2, 3, 3, 4, 8,
    ]  # fmt: skip


@pytest.mark.each("number", [-1, MOST, 1 << 62])
def test_a_number_that_was_never_given_means_damage(number: int) -> None:
    with pytest.raises(IndexDamaged):
        letter_of(number)


SKILLS = [
    {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"}
    for name, description, body in (
        ("pdf-forms", "Fill in the fields of PDF documents.", "Open the document and fill in its form."),
        ("deploy-server", "Ship a release to production.", "Start a Kubernetes rollout, then watch it."),
        ("csv-report", "Make a report of a table.", "Read the numbers of the table and fill in the report."),
    )
]
QUERIES = ("fill forms", '"fill in"', "pdfForms", "kubernets", "the report of a table", "/csv-report", "nothing of it")


@pytest.mark.parametrize("already", [1_780, 55_030, 980_710, 1_046_260])
def test_the_same_is_found_whatever_letters_the_words_have(already: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> list[list[tuple[str, float, str]]]:
        library = Library.from_files(*SKILLS)
        return [[(one.name, one.score, one.why) for one in library.search(query)] for query in QUERIES]

    expected = found()
    prepare = metier.find.index_database._prepare

    def with_many_stems(connection: sqlite3.Connection) -> None:
        prepare(connection)
        connection.execute("UPDATE made_by SET numbers = ?", (already,))

    monkeypatch.setattr(metier.find.index_database, "_prepare", with_many_stems)
    assert found() == expected


def test_a_writer_keeps_no_more_than_so_many_bytes_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metier.find.lexicon, "_MOST_KEPT", 50_000)
    index = SearchIndex()
    for number in range(6):
        body = f"knife {'x' * 60_000}{number} {'字' * 5_000}{number}"
        index.update([IndexedText(key=f"{number}.{place}", stamp="1", name="x", body=body) for place in range(9)])
    kept = sum(map(len, index._letters))
    assert kept < 2 * 80_000
    found = index.postings(index.letters(["knife"]), set(index.scopes()))
    assert found.counts == {"knife": (0, 54)}
