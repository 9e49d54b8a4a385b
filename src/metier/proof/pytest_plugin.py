"""A plugin for pytest: `pytest --metier skills/` has each tier of each skill there as a test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from metier._paths import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from metier import Entry, Library
    from metier.proof.report import SkillReport, Tier


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--metier` and `--metier-tier`."""
    group = parser.getgroup("metier", "skills for AI agents")
    group.addoption("--metier", action="append", default=[], metavar="DIR", help="test the skills in this folder")
    group.addoption(
        "--metier-tier",
        action="append",
        default=[],
        metavar="TIER",
        choices=["form", "routing", "scripts", "rules", "behaviour"],
        help="only this tier (repeatable)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep `conftest.py` and the test modules of skills out: pytest would run them here, with nothing around them."""
    own = os.path.realpath(config.invocation_params.dir)
    paths = {os.path.abspath(collection_path), os.path.realpath(collection_path)}
    for folder in config.getoption("--metier"):
        named = os.path.join(config.invocation_params.dir, folder)
        for top in {os.path.abspath(named), os.path.realpath(named)}:
            if any(is_inside(path, top) and _is_of_skill(path, top, own) for path in paths):
                return True
    return None


def _is_of_skill(path: str, top: str, own: str) -> bool:
    """Whether a path in a folder of skills is theirs: all of it, or where the tests run in that folder, each skill."""
    if not is_inside(own, top):
        return True
    while is_inside(path, top) and not is_inside(own, path):
        if any(os.path.lexists(os.path.join(path, name)) for name in ("SKILL.md", "skill.md")):
            return True
        path = os.path.dirname(path)
    return False


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each tier of each skill in the folders that were named."""
    folders = config.getoption("--metier")
    if folders:
        items += SkillCollector.from_parent(session, name="metier", folders=folders).collect()


class SkillFailed(Exception):
    """Raised with the report of a tier that failed."""


class SkillCollector(pytest.Collector):
    """The skills of some folders."""

    def __init__(self, *, folders: list[str], **options: Any) -> None:
        super().__init__(**options)
        self._folders = folders

    def collect(self) -> list[pytest.Item]:
        """Find the skills; raises a usage error where there are none."""
        from metier import Library, MetierError

        try:
            library = Library.from_folder(*self._folders)
        except MetierError as error:
            raise pytest.UsageError(f"--metier: {error.message} {error.hint}") from None
        return list(self._items(library))

    def _items(self, library: Library) -> Iterator[pytest.Item]:
        from metier.proof.report import TIERS

        for entry in library:
            for tier in self.config.getoption("--metier-tier") or TIERS:
                yield TierItem.from_parent(self, name=f"{entry.name}[{tier}]", library=library, entry=entry, tier=tier)


class TierItem(pytest.Item):
    """One tier of one skill."""

    def __init__(self, *, library: Library, entry: Entry, tier: Tier, **options: Any) -> None:
        super().__init__(**options)
        self._library = library
        self._entry = entry
        self._tier = tier

    def runtest(self) -> None:
        """Run the tier; one without a case is skipped, and says why."""
        from metier.proof.runner import TestSettings, test_skills

        (skill,) = test_skills(self._library, [self._entry], TestSettings(tiers=(self._tier,))).skills
        if skill.verdict == "failed":
            raise SkillFailed(_failure_text(skill))
        if skill.verdict == "skipped":
            pytest.skip(skill.tiers[0].reason or "Nothing to test.")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failed cases with their advice, and no traceback of ours."""
        if isinstance(excinfo.value, SkillFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, int | None, str]:
        """The place and the name in the summary of pytest."""
        return self._entry.location, None, self.name


def _failure_text(skill: SkillReport) -> str:
    from metier.skill import shown

    lines = [f"{shown(note.path)}: {shown(note.message, 500)}" for note in skill.notes if note.is_error]
    for tier in skill.tiers:
        for case in tier.cases:
            if case.verdict == "failed":
                lines += [f"{tier.tier} {shown(case.id)}: {shown(case.reason, 500)}", f"    {shown(case.hint, 500)}"]
    return "\n".join(line for line in lines if line.strip())
