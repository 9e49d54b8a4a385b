"""A skill's settings for working alone go over the platform's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from metier.session.autonomy import Autonomy, autonomy_of
from metier.skill import Skill, parse

PLATFORM = Autonomy(
    max_iterations=7,
    max_retries_per_tool=2,
    timeout_per_iteration_ms=5_000,
    early_termination=False,
    error_recovery=False,
)


@pytest.mark.covers("O-77")
@pytest.mark.each(
    ("declared", "changed"),
    [
        ({}, {}),
        ({"max_iterations": 20}, {"max_iterations": 20}),
        ({"max_retries_per_tool": 0}, {"max_retries_per_tool": 0}),
        ({"timeout_per_iteration": "10m"}, {"timeout_per_iteration_ms": 600_000}),
        ({"timeout_per_iteration": "500ms"}, {"timeout_per_iteration_ms": 500}),
        ({"timeout_per_iteration": "soon"}, {}),
        ({"timeout_per_iteration": "0s"}, {}),
        ({"early_termination": True}, {"early_termination": True}),
        ({"max_iterations": 0}, {}),
        ({"max_iterations": -3, "max_retries_per_tool": -1}, {}),
    ],
)
def test_what_a_skill_declares_goes_over_the_platform(declared: dict[str, Any], changed: dict[str, Any]) -> None:
    skill = Skill(name="a", description="A.", **declared)
    assert autonomy_of(skill, PLATFORM) == replace(PLATFORM, **changed)


@pytest.mark.covers("O-77")
def test_only_the_platform_says_whether_errors_are_survived() -> None:
    skill = Skill(name="a", description="A.", early_termination=False)
    assert autonomy_of(skill, replace(PLATFORM, error_recovery=True)).error_recovery
    assert not autonomy_of(skill, PLATFORM).error_recovery


@pytest.mark.covers("O-77")
def test_settings_are_read_from_a_file() -> None:
    text = "max-retries-per-tool: 0\ntimeout-per-iteration: 10m\nmax-iterations: 3\nearly-termination: false\n"
    skill = parse(f"---\nname: a\ndescription: A.\n{text}---\nDo.".encode()).skill
    assert autonomy_of(skill) == Autonomy(
        max_iterations=3, max_retries_per_tool=0, timeout_per_iteration_ms=600_000, early_termination=False
    )
