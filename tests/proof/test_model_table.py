"""Models beside each other, and their limits."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.usage import RequestUsage
from tests.proof.trials import FILL, LOAD, behaviour_of, does_as_told, model_of

from metier.proof.agent_runner import ModelRunner
from metier.proof.model_price import ModelPrice
from metier.proof.model_table import ModelRow, model_table, table_of

PRICE = ModelPrice(input=1.0, output=1.0)
GOOD = {"trials": 20, "passed": 20, "paths": 100, "path_errors": 4, "script_reads": 0, "violations": 0, "cost": 0.1}


def row(model: str = "one", **values: Any) -> ModelRow:
    """The row of a model that keeps to the limits, but for these values."""
    return ModelRow(model=model, **{**GOOD, "tokens": 1_000.0, **values})


@pytest.mark.parametrize(
    ("values", "limit", "kept"),
    [
        ({"path_errors": 4}, "path errors", True),
        ({"path_errors": 5}, "path errors", False),
        ({"paths": 0, "path_errors": 0}, "path errors", None),
        ({"script_reads": 0}, "script reads", True),
        ({"script_reads": 1}, "script reads", False),
        ({"tokens": 1_200.0}, "tokens", True),
        ({"tokens": 1_201.0}, "tokens", False),
    ],
)
def test_each_limit_has_a_verdict_for_each_model(values: dict[str, Any], limit: Any, kept: bool | None) -> None:
    table = table_of([row("other"), row(**values)])
    assert table.verdicts["one"][limit] is kept
    assert table.is_within_limits is (kept is not False)


def test_the_tokens_of_one_model_alone_are_compared_with_nothing() -> None:
    assert table_of([row()]).verdicts["one"]["tokens"] is None
    assert table_of([]).is_within_limits


def test_the_table_is_made_of_trials_with_the_skill_only() -> None:
    def wrong(prompt: str, has_skill: bool, turn: int) -> Any:
        calls = [LOAD, ("skills_read", {"path": "nowhere.md"}), ("skills_read", {"path": "scripts/check.py"})]
        return [calls[turn]] if turn < 3 else ["Done."]

    usage = RequestUsage(input_tokens=900, output_tokens=100)
    runners = tuple(
        ModelRunner(model_of(act, name=name, usage=usage), price=PRICE)
        for act, name in ((does_as_told, "good"), (wrong, "bad"))
    )
    table = model_table([behaviour_of(FILL, runners=runners, repeats=2) for _ in range(2)])
    good, bad = table.rows
    assert (good.model, good.trials, good.passed, good.paths) == ("function:good", 4, 4, 4)
    assert (good.tokens, table.fewest_tokens) == (3_000, 3_000)
    assert good.cost == pytest.approx(0.012)
    assert (bad.path_error_rate, bad.script_reads, bad.passed) == (0.5, 4, 0)
    assert table.verdicts["function:good"] == {"path errors": True, "script reads": True, "tokens": True}
    assert table.verdicts["function:bad"] == {"path errors": False, "script reads": False, "tokens": False}


def test_what_exceeds_a_limit_is_marked_and_names_cannot_break_the_table() -> None:
    text = table_of([row("a|b\n"), row("two", tokens=2_000.0)]).as_markdown()
    lines = text.splitlines()
    assert len(lines) == 4
    assert "a\\|b" in lines[2]
    assert "2,000 (+100 %) !" in lines[3]
    assert "!" not in lines[2]
