"""The tier of routing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from metier import Library
from metier.library import Place
from metier.proof.report import TierResult
from metier.proof.routing import run_routing
from metier.proof.subject import subject_of
from metier.proof.suite import RoutingCase, Suite
from metier.source import open_source
from metier.testing import library, skill

NEIGHBOURS = (
    "csv-analyst: Profiles tables of comma separated values. Use when somebody has a table.",
    "pdf-forms: Fills in forms.",
)
PRICES = "unit-prices: Compares prices of packages by the price per kilo."
HERE = library(PRICES, *NEIGHBOURS)


def routed(*cases: RoutingCase, name: str = "unit-prices", among: Library = HERE) -> TierResult:
    with subject_of(among.get(name), Suite(routing=cases)) as subject:
        return run_routing(among, subject)


def wanted(prompt: str, top: int = 3) -> RoutingCase:
    return RoutingCase(prompt=prompt, should_trigger=True, top=top)


def unwanted(prompt: str) -> RoutingCase:
    return RoutingCase(prompt=prompt, should_trigger=False)


def test_a_prompt_in_words_of_the_description_finds_the_skill() -> None:
    (found,) = routed(wanted("Which package is cheaper per kilo?", top=1)).cases
    assert (found.id, found.verdict, found.data["rank"]) == ("Which package is cheaper per kilo?", "passed", 1)
    assert found.data["matched"][0] == {"word": "kilo", "in": "description"}


def test_a_failure_says_which_word_of_which_skill_decided() -> None:
    (found,) = routed(wanted("put the kilo in a table of values", top=1)).cases
    assert found.verdict == "failed"
    assert (found.data["rank"], found.data["confused_with"]) == (2, "csv-analyst")
    assert found.data["margin"] < 0
    assert "'table' is in the description of csv-analyst and not here" in found.reason
    assert "'table'" in found.hint
    assert "csv-analyst" in found.hint


def test_a_skill_without_a_word_of_the_prompt_is_not_found() -> None:
    (found,) = routed(wanted("fill in this form")).cases
    assert found.reason == (
        "Not among the first 50, wanted 3. First is pdf-forms: 'form' is in the name of pdf-forms and not here; "
        "'fill' is in the description of pdf-forms and not here."
    )
    assert found.data["rank"] is None


@pytest.mark.each(
    ("prompt", "reason"),
    [
        ("of the", "The prompt has no word to search for."),
        ("", "The prompt has no word to search for."),
        ("xylophone", "No skill has a word of the prompt."),
    ],
)
def test_a_prompt_that_finds_nothing_fails_in_words(prompt: str, reason: str) -> None:
    (found,) = routed(wanted(prompt)).cases
    assert (found.verdict, found.reason) == ("failed", reason)
    assert found.hint


@pytest.mark.each(
    ("prompt", "verdict"),
    [
        ("Plot the prices in sales.csv", "passed"),  # another is nearly as good
        ("fill in this form", "passed"),
        ("xylophone", "passed"),
        ("Write a long letter to my landlord about the prices of heating and what we agreed last winter", "passed"),
        ("compare packages by kilo", "failed"),
    ],
)
def test_a_prompt_that_should_not_bring_it_up_fails_only_where_the_skill_is_plainly_meant(
    prompt: str, verdict: str
) -> None:
    (found,) = routed(unwanted(prompt)).cases
    assert found.verdict == verdict
    assert (found.reason != "") == (verdict == "failed")


def test_nothing_in_a_prompt_is_a_filter_or_acts_on_a_terminal() -> None:
    (found,) = routed(wanted('tag:none layer:enterprise "no such phrase" price per kilo \x1b[2J')).cases
    assert (found.verdict, found.data["rank"]) == ("passed", 1)
    (found,) = routed(wanted("table \x1b[2J")).cases
    assert "\x1b" not in found.reason + found.hint


def test_a_skill_for_people_only_is_never_brought_up() -> None:
    hidden = library(skill("secret", description="Rotates keys.", disable_model_invocation=True), *NEIGHBOURS)
    result = routed(wanted("rotate the keys"), unwanted("rotate the keys"), name="secret", among=hidden)
    assert [case.verdict for case in result.cases] == ["failed", "passed"]
    assert "disable-model-invocation" in result.cases[0].hint


def test_a_skill_that_is_not_ready_here_is_searched_all_the_same() -> None:
    needy = library(skill("cut", description="Cuts videos.", requires={"bins": ["ffmpeg-of-the-future"]}))
    assert routed(wanted("cut my video"), name="cut", among=needy).verdict == "passed"


def test_a_skill_that_another_shadows_is_searched_in_its_place(tmp_path: Path) -> None:
    library("release: Ships versions.", into=tmp_path / "strong")
    library("release: Bakes bread.", into=tmp_path / "weak")
    both = Library(
        [
            Place(layer="personal", source=open_source(tmp_path / "strong")),
            Place(layer="project", source=open_source(tmp_path / "weak")),
        ],
        cache=False,
    )
    shadowed = next(entry for entry in both.entries(all=True) if entry.layer == "project")
    with subject_of(shadowed, Suite(routing=(wanted("bake bread"),))) as subject:
        assert run_routing(both, subject).verdict == "passed"
    assert both.get("release").description == "Ships versions."


def test_a_skill_outside_of_the_library_is_searched_beside_its_neighbours() -> None:
    alone = library("bread: Bakes bread in an oven.")
    with subject_of(alone.get("bread"), Suite(routing=(wanted("bake bread on a table", top=1),))) as subject:
        (found,) = run_routing(HERE, subject).cases
    assert (found.data["rank"], found.data["next"]) == (1, "csv-analyst")


def test_without_cases_nothing_is_searched() -> None:
    result = routed()
    assert (result.verdict, result.reason) == ("skipped", "The suite has no case of this tier.")


def test_the_search_of_the_library_keeps_its_embedder() -> None:
    class Same:
        name, weight, unrelated = "same", 0.9, 0.0

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return [[1.0, 0.0] for _ in texts]

    here = library(PRICES, *NEIGHBOURS)
    here.embed_with(Same())
    assert routed(wanted("fill in this form"), among=here).cases[0].data["rank"] is None
    assert "similar meaning" in here.search("xylophone")[0].why
