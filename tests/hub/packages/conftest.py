"""A package index on loopback, and a cache of its own for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub.packages.package_index import PackageIndex, served, skill_files

from metier.hub.packages.build import provide, resolve_packages
from metier.hub.packages.plan import PackagePlan
from metier.skill.script_packages import environments_folder

TINY = skill_files(requirements_txt="tiny\n")
_OTHERS = ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL", "PIP_CONFIG_FILE")


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PackagePlan]:
    """A cache with the environment of a skill that needs `tiny`: most tests look at what becomes of one."""
    folder = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as patch, served(PackageIndex(folder / "index")) as index:
        for name in _OTHERS:
            patch.delenv(name, raising=False)
        patch.setenv("METIER_CACHE", str(folder / "cache"))
        patch.setenv("UV_DEFAULT_INDEX", index.url)
        index.add_wheel("tiny")
        plan = resolve_packages(TINY)
        provide(TINY, plan)
    return folder / "cache", plan


@pytest.fixture
def tiny(built_once: tuple[Path, PackagePlan]) -> PackagePlan:
    """The packages of a skill that needs `tiny`, which are in the cache."""
    cache, plan = built_once
    shutil.copytree(cache / "environments", environments_folder())
    return plan


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with the package `tiny`, which is the one that this user has configured."""
    for name in _OTHERS:
        monkeypatch.delenv(name, raising=False)
    with served(PackageIndex(tmp_path / "index")) as index:
        index.add_wheel("tiny")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index
