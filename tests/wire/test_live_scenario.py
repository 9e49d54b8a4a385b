"""What is measured of real models, tried with a model that follows a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.live.scenario import Measured, measure, tasks

from metier.proof.model_table import table_of
from metier.testing import ScriptedModel

LOAD = ("skills_load", {"skills": ["order-forms"]})
CHECK = ("skills_run", {"script": "scripts/check.py", "args": ["customer=M", "article=417", "amount=2", "country=AT"]})


def read(path: str) -> tuple[str, dict[str, Any]]:
    """The call that reads a file."""
    return "skills_read", {"path": path}


def measured(folder: Path, *steps: Any, count: int = 1) -> Measured:
    """What is measured of a model that does these things."""
    return anyio.run(measure, ScriptedModel(list(steps)), tasks(count), folder)


def test_a_model_that_does_everything_right(tmp_path: Path) -> None:
    paths = ["references/fields.md", "references/codes/countries.md", "assets/articles.csv"]
    found = measured(tmp_path, LOAD, [read(path) for path in paths], CHECK, "accepted as AT-417-2")
    assert found.as_dict() == {
        "model": found.model,
        "tasks": 1,
        "done": 1,
        "loaded": 1,
        "paths": 4,
        "path_errors": 0,
        "script_reads": 0,
        "refused": 0,
        "tokens": found.tokens,
        "failures": (),
        "share": 0.0,
        "target": 0.05,
    }


def test_what_is_measured_is_a_row_beside_other_models(tmp_path: Path) -> None:
    found = measured(tmp_path, LOAD, read("scripts/check.py"), "I give up.")
    assert found.row.tokens > 0
    assert table_of([found.row]).verdicts[found.model] == {"path errors": True, "script reads": False, "tokens": None}


@pytest.mark.parametrize("path", ["references/countries.md", "../codes/countries.md", "fields.md"])
def test_a_wrong_path_is_counted_once(tmp_path: Path, path: str) -> None:
    found = measured(tmp_path, LOAD, read("references/fields.md"), read(path), "I give up.")
    assert (found.paths, found.path_errors, found.share) == (2, 1, 0.5)
    assert found.done == 0


def test_a_script_at_a_wrong_path_is_counted(tmp_path: Path) -> None:
    found = measured(tmp_path, LOAD, ("skills_run", {"script": "check.py"}), CHECK, "accepted as AT-417-2")
    assert (found.paths, found.path_errors) == (2, 1)


def test_reading_a_script_and_calling_what_is_forbidden_are_counted_apart(tmp_path: Path) -> None:
    found = measured(tmp_path, LOAD, read("scripts/check.py"), ("web_lookup", {"query": "Austria"}), "I give up.")
    assert (found.script_reads, found.refused, found.path_errors) == (1, 1, 0)


def test_a_model_that_answers_without_the_skill(tmp_path: Path) -> None:
    found = measured(tmp_path, "accepted.", "accepted.", count=2)
    assert (found.tasks, found.loaded, found.done, found.paths, found.share) == (2, 0, 0, 0, 0.0)


def test_a_model_that_never_ends_breaks_off(tmp_path: Path) -> None:
    found = measured(tmp_path, *[LOAD] * 21)
    assert [failure.partition(":")[0] for failure in found.failures] == ["UsageLimitExceeded"]
