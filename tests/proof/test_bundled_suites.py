"""The skills that come with the package pass the tests that they bring, and the README has their scores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from metier import Library
from metier.proof.report import TIERS, Report
from metier.proof.runner import TestSettings, test_skills
from metier.proof.score import score_of

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "src" / "metier" / "bundled"
NAMES = ("csv-analyst", "log-triage", "release-notes", "secret-check", "skill-writer")


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.from_folder(BUNDLED, cache=False)


@pytest.fixture(scope="module")
def report(library: Library) -> Report:
    return test_skills(library, [library.get(name) for name in NAMES], TestSettings())


@pytest.mark.parametrize("name", NAMES)
def test_each_tier_passes(report: Report, name: str) -> None:
    skill = report.skills[NAMES.index(name)]
    assert skill.notes == ()
    # One of them has no script.
    wanted = [tier for tier in TIERS if (name, tier) != ("skill-writer", "scripts")]
    failures = {
        f"{tier.tier} {case.id}": case.reason
        for tier in skill.tiers
        for case in tier.cases
        if case.verdict == "failed" or (case.verdict == "skipped" and tier.tier != "behaviour")
    }
    assert failures == {}
    assert [tier.tier for tier in skill.tiers if tier.verdict == "passed"] == wanted


def test_the_readme_has_their_scores(report: Report, library: Library) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    rows = {name: int(score) for name, score in re.findall(r"^\| `([\w-]+)` \| (\d+) \|", text, re.MULTILINE)}
    found = {skill.name: score_of(library.get(skill.name), skill).score for skill in report.skills}
    assert rows == found, json.dumps(found)
