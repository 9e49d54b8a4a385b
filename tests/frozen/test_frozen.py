"""Skills and policies of every release are read as that release read them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.frozen.snapshot import HERE, ROOT, SNAPSHOT, differences, policies_of, read_part, releases

PARTS = [(folder, part) for folder in releases() for part in ("skills", *policies_of(folder))]


@pytest.mark.parametrize(("folder", "part"), PARTS, ids=[f"{folder.name}-{part}" for folder, part in PARTS])
def test_what_a_release_read_is_read_the_same_way(folder: Path, part: str) -> None:
    then = json.loads((folder / SNAPSHOT).read_text("utf-8"))[part]
    accepted = tomllib.loads((HERE / "differences.toml").read_text("utf-8")).get(folder.name, {})
    found = [
        line for line in differences(then, read_part(folder, part), part) if line.partition(": ")[0] not in accepted
    ]
    assert found == [], "see `Frozen releases` in CONTRIBUTING.md\n" + "\n".join(found)


def test_the_version_that_this_is_and_each_released_one_are_frozen() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = [
        line.split()[1] for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line[:3] == "## "
    ]
    assert {version, *headings} == {folder.name for folder in releases()}


def test_a_value_that_is_gone_is_a_difference_and_a_new_one_is_none() -> None:
    then = {"skills": {"a": {"name": "a", "tags": ["x"]}}}
    assert list(differences(then, {"skills": {"a": {"name": "a", "tags": ["x"], "new": 1}, "b": {}}})) == []
    assert list(differences(then, {"skills": {"a": {"name": "a"}}})) == ['skills/a/tags: ["x"] became null']
    assert list(differences(then, {"skills": {}})) == ['skills/a: {"name": "a", "tags": ["x"]} became null']
