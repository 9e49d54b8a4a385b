"""Suites as datasets of pydantic-evals."""

from __future__ import annotations

import yaml

from metier.proof.suite_export import pydantic_evals_yaml
from metier.proof.suite_reader import read_suite
from metier.skill import MemoryPackage

SUITE = """
evals:
- id: rows
  prompt: How many rows?
  expected_output: Twelve.
  files: {a.csv: "x"}
  assertions:
  - answer: [twelve, 12]
  - answer: {contains: a, excludes: b}
  - judge: It is short.
  - seconds: 30
  - called: {tool: Bash, arguments: {command: {regex: peek}}}
  - It is kind.
"""


def test_checks_that_the_other_package_has_are_its_evaluators_and_others_are_metadata() -> None:
    suite = read_suite(MemoryPackage({"evals/suite.yaml": SUITE}))
    assert yaml.safe_load(pydantic_evals_yaml(suite, "csv")) == {
        "name": "csv",
        "cases": [
            {
                "name": "rows",
                "inputs": "How many rows?",
                "expected_output": "Twelve.",
                "metadata": {
                    "files": ["a.csv"],
                    "assertions": [
                        {"kind": "answer", "match": {"contains": ["a"], "excludes": ["b"]}},
                        {"kind": "called", "target": "Bash", "arguments": {"command": {"regex": ["peek"]}}},
                        {"kind": "text", "target": "It is kind."},
                    ],
                },
                "evaluators": [
                    {"Contains": "twelve"},
                    {"Contains": "12"},
                    {"LLMJudge": {"rubric": "It is short.", "include_input": True}},
                    {"MaxDuration": 30},
                ],
            }
        ],
    }
