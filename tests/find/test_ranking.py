"""What makes one skill fit a query better than another."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Library
from metier.find import Query
from metier.find.indexed_text import EncodedStems
from metier.find.lexicon import letter_of
from metier.find.ranking import Fit, Ranking, Rarity
from metier.find.search_index import Totals

TOTALS = Totals(skills=100, about=3_000, body=50_000)


KNOWN = "fill form tax pdf other deploy ship it server tool kit cart shoppingcart syntax"
LETTERS = {word: letter_of(number) for number, word in enumerate(KNOWN.split())}


def words(name: str = "", about: str = "", body: str = "", length: int = 500) -> EncodedStems:
    """The words of a skill as the index gives them; `a*3` occurs three times."""

    def spelled(text: str) -> str:
        parts = (word.partition("*") for word in text.split())
        return "".join(LETTERS[stem] * int(times or 1) for stem, _, times in parts)

    about_length = 3 * len(name.split()) + len(about.split())
    return EncodedStems(spelled(name), spelled(about), spelled(body), about_length, length)


def ranking(query: str, **counts: int) -> Ranking:
    """Ranks for a query among 100 skills, of which so many have each word."""
    asked = Query.read(query)
    return Ranking(asked, Rarity({stem: (counts.get(stem, 10),) * 2 for stem in asked.stems}, TOTALS))


def fitted(query: str, skill: EncodedStems, **counts: int) -> Fit:
    ranks = ranking(query, **counts)
    return ranks.by_words(skill, ranks.asked(LETTERS))


def score(query: str, skill: EncodedStems, **counts: int) -> float:
    return fitted(query, skill, **counts).score


def ordered(query: str, skill: EncodedStems) -> Fit:
    ranks = ranking(query)
    asked = ranks.asked(LETTERS)
    fit = ranks.by_words(skill, asked)
    ranks.by_order([(fit, skill, asked), (Fit(length=500), words(body="other"), asked)])
    return fit


@pytest.mark.each(
    ("better", "worse"),
    [
        (words(name="form"), words(about="form")),
        (words(about="form form"), words(about="form")),
        (words(about="form"), words(about="form" + " other" * 200)),
        (words(body="form*3"), words(body="form")),
        (words(body="form", length=100), words(body="form", length=5_000)),
        (words(about="fill form"), words(about="form form")),
        (words(name="form"), words(name="form tool kit")),
        (words(about="form", body="form"), words(about="form")),
    ],
)
def test_the_better_of_two_skills_scores_higher(better: EncodedStems, worse: EncodedStems) -> None:
    assert score("fill forms", better) > score("fill forms", worse) > 0


def test_a_rare_word_says_more_than_a_common_one() -> None:
    fill, form = words(about="fill"), words(about="form")
    assert score("fill forms", fill, fill=2, form=80) > score("fill forms", form, fill=2, form=80)


def test_each_further_occurrence_says_less() -> None:
    one, two, three = (score("form", words(body=f"form*{times}")) for times in (1, 2, 3))
    assert 0 < three - two < two - one


def test_a_skill_without_any_of_the_words_scores_nothing() -> None:
    fit = fitted("fill forms", words("deploy", "ship it", "server*4"))
    assert fit.score == 0
    assert fit.in_name | fit.in_about | fit.in_body == set()


def test_each_word_is_told_where_it_was_found() -> None:
    fit = fitted("fill tax forms", words("form tool", "fill form", "tax fill*2"))
    assert fit.in_name == {"form"}
    assert fit.in_about == {"fill"}
    assert fit.in_body == {"tax", "fill"}


def test_half_of_an_identifier_counts_in_a_description_but_not_in_a_body() -> None:
    assert score("ShoppingCart", words(about="cart")) > 0
    assert score("ShoppingCart", words(body="cart*8")) == 0
    assert score("ShoppingCart", words(body="shoppingcart")) > 0


def test_words_that_stand_together_in_the_body_count_more() -> None:
    apart = ordered("tax forms", words(body="tax other form"))
    together = ordered("tax forms", words(body="other tax form"))
    assert together.score > apart.score


@pytest.mark.each(
    ("skill", "found"),
    [
        (words(body="other tax form"), True),
        (words(name="tax form"), True),
        (words(about="fill tax form"), True),
        (words(about="form tax"), False),
        (words(about="tax other form"), False),
        (words(about="tax", body="form"), False),
        (words(body="syntax form"), False),
    ],
)
def test_a_phrase_is_found_where_its_words_stand_together(skill: EncodedStems, found: bool) -> None:
    fit = ordered('"tax forms"', skill)
    assert fit.phrases == ([("tax", "form")] if found else [])
    assert not found or fit.score > score('"tax forms"', skill)


def test_a_word_that_the_index_does_not_know_is_left_out() -> None:
    ranks = ranking('"tax elephants" fill')
    asked = ranks.asked({"tax": "a", "fill": "b"})
    assert [stem for stem, *_ in asked.body] == ["tax", "fill"]
    assert asked.pairs == asked.phrases == []


def test_an_empty_library_ranks_nothing_without_an_error() -> None:
    rank = Ranking(Query.read("fill forms"), Rarity({}, Totals()))
    assert rank.by_words(words("fill form", "fill form", "fill form"), rank.asked(LETTERS)).score >= 0
    rank.by_order([])


stems = st.lists(st.sampled_from(["fill", "form", "tax", "pdf", "other"]), max_size=6).map(" ".join)


@given(stems, stems, stems, st.integers(0, 100_000), st.integers(0, 100))
def test_a_score_is_a_number_and_never_below_nothing(name: str, about: str, body: str, length: int, count: int) -> None:
    skill = words(name, about, body, length)
    found = score("fill tax forms", skill, fill=count, form=count, tax=count)
    assert math.isfinite(found)
    assert found >= 0


@given(stems, stems)
def test_the_order_of_the_words_asked_for_does_not_matter(about: str, body: str) -> None:
    skill = words(about=about, body=body)
    assert score("fill tax forms", skill) == pytest.approx(score("forms tax fill", skill))


def files(name: str, description: str, body: str = "Do it.") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"}


@pytest.mark.each(
    ("query", "expected"),
    [
        ("fill pdf forms", "pdf-forms"),
        ("filling in a PDF form", "pdf-forms"),
        ("pdfForms", "pdf-forms"),
        ("how do I deploy the server", "deploy-server"),
        ("kubernetes rollout", "deploy-server"),
        ("table of numbers", "csv-report"),
        ("/csv-report of my pdf forms", "csv-report"),
    ],
)
def test_the_skill_that_was_meant_comes_first(query: str, expected: str) -> None:
    library = Library.from_files(
        files("pdf-forms", "Fill in the fields of PDF documents.", "Open the document and fill in its form."),
        files("deploy-server", "Ship a release to production.", "Start a Kubernetes rollout, then watch it."),
        files("csv-report", "Make a report of a table.", "Read the numbers of the table and fill in the report."),
    )
    assert library.search(query)[0].name == expected


def test_equal_skills_come_by_name() -> None:
    library = Library.from_files(*(files(f"skill-{letter}", "Fills tax forms.") for letter in "4231"))
    assert [found.name for found in library.search("tax forms")] == ["skill-1", "skill-2", "skill-3", "skill-4"]


def test_scores_fall_from_the_first_to_the_last() -> None:
    library = Library.from_files(*(files(f"skill-{n}", "Fills forms. " * (n + 1), "form " * n) for n in range(9)))
    scores = [found.score for found in library.search("forms")]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < value <= 1 for value in scores)
