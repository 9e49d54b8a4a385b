"""The collision map of a library."""

from __future__ import annotations

import importlib.util
import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from metier import Library
from metier.cli.collisions import print_collisions
from metier.proof.collisions import SkillCollisions, collision_map, derived_prompts
from metier.testing import library, skill

ROOT = Path(__file__).resolve().parents[2]
TWINS = (
    "csv: Profiles tables of comma separated values, and plots them.",
    "csv-analyst: Profiles tables of comma separated values. Use when somebody has a table.",
)
OTHERS = ("unit-prices: Compares prices of packages by the price per kilo.", "pdf-forms: Fills in forms.")


def standings(here: Library) -> dict[str, SkillCollisions]:
    return {one.skill: one for one in collision_map(here, list(here))}


def test_skills_that_say_the_same_collide_and_others_do_not() -> None:
    found = standings(library(*TWINS, *OTHERS))
    assert [one.other for one in found["csv"].collisions] == ["csv-analyst"]
    assert found["csv"].warning
    assert found["unit-prices"].collisions == ()
    assert found["unit-prices"].warning == ""


def test_a_collision_says_what_both_have_and_what_only_the_first_has() -> None:
    (collision,) = standings(library(*TWINS, *OTHERS))["csv"].collisions
    assert {"tables", "comma", "profiles"} <= set(collision.common)
    assert "plots" in collision.apart
    assert not set(collision.common) & set(collision.apart)
    assert 0 < collision.share <= 1


def test_a_name_of_words_that_others_say_weighs_less() -> None:
    sayers = (f"helper-{number}: Helps to launch things of kind {number}." for number in range(20))
    found = standings(library("launch: Plans it.", "zeppelin: Plans it.", *sayers))
    assert found["launch"].weight < found["zeppelin"].weight


def test_the_prompts_of_a_suite_count_instead_of_the_description() -> None:
    suite = "version: 1\nrouting:\n" + "".join(
        f"  - {{prompt: {prompt}, should_trigger: {wanted}}}\n"
        for prompt, wanted in (("fill in a form", "true"), ("compare prices", "true"), ("plot values", "false"))
    )
    files = skill("unit-prices", description="Compares prices.", files={"evals/suite.yaml": suite})
    found = standings(library(files, *TWINS, "pdf-forms: Fills in forms."))["unit-prices"]
    assert (found.from_suite, found.prompts, found.first) == (True, 2, 0.5)
    assert found.warning == "Another skill comes first for 50% of the prompts of its suite."
    assert [(one.other, one.above) for one in found.collisions] == [("pdf-forms", 0.5)]


def test_prompts_come_from_the_name_the_description_when_to_use_it_and_triggers() -> None:
    files = skill(
        "tax-forms",
        description="Fills in tax forms. Checks sums.",
        when_to_use="When the year ends.",
        triggers=["file my taxes"],
    )
    assert derived_prompts(library(files).get("tax-forms")) == [
        "tax forms",
        "Fills in tax forms. Checks sums.",
        "file my taxes",
        "Fills in tax forms.",
        "Checks sums.",
        "When the year ends.",
    ]


def test_skills_for_people_only_are_no_part_of_it() -> None:
    hidden = skill(
        "csv-secret", description="Profiles tables of comma separated values.", disable_model_invocation=True
    )
    found = standings(library(*TWINS, *OTHERS, hidden))
    assert "csv-secret" not in found
    assert [one.other for one in found["csv"].collisions] == ["csv-analyst"]


def test_progress_is_told_and_the_same_library_has_the_same_map() -> None:
    here, steps = library(*TWINS, *OTHERS), []
    first = list(collision_map(here, list(here), lambda done, total: steps.append((done, total))))
    assert steps == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert first == list(collision_map(library(*TWINS, *OTHERS), list(here)))


def test_a_large_library_has_fewer_prompts_for_each_skill() -> None:
    here = library(*TWINS, *OTHERS)
    assert next(collision_map(here, [here.get("csv-analyst")] * 4_000)).prompts == 2


def test_the_command_prints_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    here = library(*TWINS, *OTHERS)
    assert print_collisions(Namespace(names=[], json=False, full=False), here, list(here)) == 0
    text = capsys.readouterr().out
    assert "csv-analyst: near it for" in text
    assert "only csv has" in text
    assert "2 of 4 skills likely to be taken for another." in text


def test_the_command_prints_json_of_the_skills_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    here = library(*TWINS, *OTHERS)
    assert print_collisions(Namespace(names=["csv"], json=True, full=False), here, [here.get("csv")]) == 0
    (one,) = json.loads(capsys.readouterr().out)["skills"]
    assert (one["skill"], one["collisions"][0]["other"]) == ("csv", "csv-analyst")


def test_names_of_strangers_do_not_act_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    here = library(*(f"{text} \x1b[2J" for text in TWINS))
    print_collisions(Namespace(names=[], json=False, full=True), here, list(here))
    assert "\x1b" not in capsys.readouterr().out


# --- on real queries -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def benchmark_module() -> Any:
    before = sys.path[:]
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("routing_benchmark", ROOT / "benchmarks" / "routing.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    if not (module.DATA / "corpus.jsonl.gz").exists():
        pytest.skip("the collection of real skills and queries is not here")
    return module


@pytest.fixture(scope="module")
def collection(benchmark_module: Any) -> Any:
    folder = benchmark_module.DATA
    return benchmark_module.read(folder, folder / "dev-queries.jsonl", folder / "dev-qrels.tsv")


@pytest.fixture(scope="module")
def judged(benchmark_module: Any, collection: Any) -> Any:
    return benchmark_module.Judged(collection)


@pytest.mark.slow
def test_the_warning_comes_true_on_skills_that_were_held_out(benchmark_module: Any, judged: Any) -> None:
    row = next(
        row
        for row in benchmark_module.warning_table(judged)
        if row[0].startswith("skills of 3") and row[1] == "held out"
    )
    assert min(float(row[-2]), float(row[-1])) >= 0.7


@pytest.mark.slow
def test_rewritten_descriptions_raise_ten_skills_on_queries_that_were_not_read(
    benchmark_module: Any, collection: Any, judged: Any
) -> None:
    table = benchmark_module.description_table(collection, judged)
    assert sum(float(row[-1]) > float(row[-2]) for row in table) >= 10
