"""The behaviour cases of a suite as a dataset of pydantic-evals, which needs neither that package nor its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import asdict
from metier.proof.suite import TextMatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.proof.suite import Assertion, BehaviourCase, Suite


def pydantic_evals_yaml(suite: Suite, name: str) -> str:
    """The dataset file, as YAML: what its own evaluators cannot check is in the metadata of each case.

    >>> from metier.proof.suite import BehaviourCase, Suite
    >>> print(pydantic_evals_yaml(Suite(behaviour=(BehaviourCase(id="1", prompt="Count the rows."),)), "csv"), end="")
    name: csv
    cases:
    - name: '1'
      inputs: Count the rows.
    """
    import yaml

    dataset = {"name": name, "cases": [_export_case(case) for case in suite.behaviour]}
    return str(yaml.safe_dump(dataset, sort_keys=False, allow_unicode=True, width=120))


def _export_case(case: BehaviourCase) -> dict[str, Any]:
    evaluators: list[Any] = []
    others: list[dict[str, Any]] = []
    for assertion in case.assertions:
        found = list(_evaluators(assertion))
        evaluators += found
        if not found:
            others.append(_without_empty(assertion))
    metadata = {"files": sorted(case.environment.files), "assertions": others}
    parts = {
        "expected_output": case.expected_output,
        "metadata": {key: value for key, value in metadata.items() if value},
        "evaluators": evaluators,
    }
    return {"name": case.id, "inputs": case.prompt, **{key: value for key, value in parts.items() if value}}


def _evaluators(assertion: Assertion) -> Iterator[dict[str, Any]]:
    """The evaluators of that package that check an assertion wholly; none where there are none."""
    match = assertion.match
    if assertion.kind == "judge":
        yield {"LLMJudge": {"rubric": assertion.target, "include_input": True}}
    elif assertion.kind == "seconds" and assertion.value is not None:
        yield {"MaxDuration": assertion.value}
    elif assertion.kind == "answer" and match == TextMatch(contains=match.contains if match else ()):
        yield from ({"Contains": text} for text in match.contains)


def _without_empty(value: Any) -> Any:
    """A value without its empty parts, as YAML has it."""
    if isinstance(value, tuple | list):
        return [_without_empty(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_empty(one) for key, one in value.items() if one not in (None, "", (), {})}
    return value if isinstance(value, str | int | float | bool) else _without_empty(asdict(value))
