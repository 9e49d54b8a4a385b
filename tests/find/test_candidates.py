"""Which skills are looked at: enough of them that the right one is, however many there are besides."""

from __future__ import annotations

import functools

import pytest

from metier import Library

CROWD = 300


def skill(name: str, description: str = "Does it.", body: str = "Do it.", more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"}


def crowd(description: str = "Common words.", body: str = "Common body.", more: str = "") -> list[dict[str, str]]:
    return [skill(f"crowd-{number:03d}", description, body, more) for number in range(CROWD)]


def names(library: Library, query: str, k: int = 10) -> list[str]:
    return [result.name for result in library.search(query, k)]


def test_a_rare_word_finds_its_skill_among_many_that_share_the_common_ones() -> None:
    targets = {
        "zebra": skill("target-1", "Common words about zebras."),
        "yak": skill("target-2", body="Common body of a yak."),
        "heron": skill("target-3", more="tags: [heron]\n"),
        "tapir": skill("target-4", more="triggers: [see a tapir]\n"),
        "lemur": skill("lemur-target-5"),
    }
    library = Library.from_files(*crowd(), *targets.values(), *[skill("last", "Common words.")])
    found = [names(library, f"common words {rare} body")[0] for rare in targets]
    assert found == ["target-1", "target-2", "target-3", "target-4", "lemur-target-5"]


def test_a_skill_that_has_all_the_common_words_comes_before_those_that_have_some() -> None:
    library = Library.from_files(*crowd(), skill("target", "Common words.", "Common words in the body."))
    assert names(library, "common words")[0] == "target"


@functools.cache
def one_seen_of_many(unseen: str) -> Library:
    """A library of many skills that are not seen for what their frontmatter says, and of one that is."""
    more = "tags: [crowd]\n"
    hidden = crowd(body="Common common body body.", more=f"{more}{unseen}\n")
    seen = skill("zz-seen", "Long ago these common words, and others, were said.", "The body at last.", more)
    return Library.from_files(*hidden, seen)


@pytest.mark.each("query", ["common words", "common", "tag:crowd common", '"common words"', "body"])
def test_a_crowd_that_may_not_be_seen_hides_nobody(query: str) -> None:
    assert names(one_seen_of_many("scope: {agents: [x]}"), query) == ["zz-seen"]


@pytest.mark.each("query", ["common words", "common", "tag:crowd common", '"common words"', "body"])
def test_a_crowd_that_is_not_for_models_hides_nobody(query: str) -> None:
    assert names(one_seen_of_many("disable-model-invocation: true"), query) == ["zz-seen"]


def test_a_tag_finds_its_skill_among_many_that_fit_better() -> None:
    target = skill("target", "Hardly common.", "Long body. " * 100, "tags: [rare]\n")
    assert names(Library.from_files(*crowd(), target), "common words tag:rare") == ["target"]


def test_a_tag_alone_finds_all_of_its_skills() -> None:
    library = Library.from_files(*crowd(more="tags: [crowd]\n"))
    assert names(library, "tag:crowd", 1_000) == [f"crowd-{number:03d}" for number in range(CROWD)]


def test_a_name_is_found_however_badly_its_words_fit() -> None:
    library = Library.from_files(*crowd("common-words common words.", "Common words " * 5), skill("common-words"))
    assert names(library, "common words")[0] == "common-words"
    assert names(library, "/common-words")[0] == "common-words"


def test_a_phrase_finds_its_skill_among_many_that_have_its_words_apart() -> None:
    apart = crowd("Nothing.", "words stand first, common ones second, words third")
    target = skill("target", body="common words " + "and many others besides to make it longer " * 200)
    assert names(Library.from_files(*apart, target), '"common words"') == ["target"]


def test_a_phrase_alone_finds_all_skills_that_contain_it() -> None:
    assert len(names(Library.from_files(*crowd()), '"common words"', 1_000)) == CROWD


def test_a_word_that_everything_has_still_finds_as_many_as_were_asked_for() -> None:
    assert len(names(Library.from_files(*crowd()), "common", 20)) == 20


def test_more_words_than_sqlite_takes_in_one_statement_can_be_searched_for() -> None:
    text = " ".join(f"word{number}" for number in range(3_000))
    library = Library.from_files(*crowd(), skill("target", body="About word17."))
    assert names(library, text) == ["target"]
