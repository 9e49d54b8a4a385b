"""The lock files: the core is a part of everything, and each package is known by hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
HASHES = r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
PIN = re.compile(rf"^([a-z0-9.-]+)(?:\[[a-z0-9,-]+\])?==(\S+)[^\n]*\\\n{HASHES}", re.MULTILINE)


def pins(name: str) -> set[tuple[str, str]]:
    """The packages of a lock file that have hashes, with their versions: some have one for each version of Python."""
    text = (ROOT / name).read_text("utf-8")
    found = {(match[1], match[2]) for match in PIN.finditer(text)}
    assert len(found) == sum(1 for line in text.splitlines() if line and line[0] not in " #"), "a line has no hash"
    return found


def test_the_core_is_locked_to_the_same_versions_as_everything() -> None:
    assert pins("requirements-core.lock") <= pins("requirements.lock")


def test_the_core_is_what_the_package_needs_and_nothing_that_only_tests_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["build"]]
    locked = dict(pins("requirements-core.lock"))
    for requirement in map(Requirement, wanted):
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier
    assert len(locked) < 2 * len(wanted) and not {"pytest", "mypy", "openai", "mcp"} & locked.keys()
