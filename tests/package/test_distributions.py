"""The wheel and the source distribution: what is in them, what they say of themselves, and the same bytes each time."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from tests.package.conftest import ROOT, build, program

from metier.scan.pack_store import core_digest

pytestmark = pytest.mark.slow

NO_PART_OF_IT = re.compile(r"__pycache__|\.py[co]$|(^|/)tests?/|(^|/)test_|\.venv|node_modules|\.log$|/\.ci/|~$")


def clone(target: Path) -> Path:
    """A copy of the files that git knows, and of new ones that it does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
            (target / name).chmod(0o700 if os.access(ROOT / name, os.X_OK) else 0o600)
    return target


def test_two_builds_in_other_folders_at_other_times_with_other_permissions_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = clone(tmp_path / "one"), clone(tmp_path / "in" / "another")
    for file in second.rglob("*"):
        if file.is_file():
            file.chmod(file.stat().st_mode | 0o066)
            os.utime(file, (1, 1))
    built = build(first, tmp_path / "a")
    assert [name.partition("-0")[0] for name in built] == ["metier", "metier"]
    assert build(second, tmp_path / "b") == built
    # And the wheel does not depend on which of the two it is built from.
    (sdist,) = (tmp_path / "a").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    (wheel,) = (name for name in built if name.endswith(".whl"))
    assert build(unpacked, tmp_path / "c", "-t", "wheel") == {wheel: built[wheel]}


def test_the_metadata_is_complete_and_the_readme_renders(dist: Path) -> None:
    done = subprocess.run([program("twine"), "check", "--strict", *map(str, dist.iterdir())], capture_output=True)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    assert metadata["License-Expression"] == "Apache-2.0" and metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11" and metadata["Author"] and metadata["Summary"]
    assert {"agent", "mcp", "all"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_wheel_has_the_package_with_types_licence_and_skills_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    done = subprocess.run([program("check-wheel-contents"), "--config", ROOT / "pyproject.toml", wheel], check=False)
    assert done.returncode == 0
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = next(iter(names - {name for name in names if name.startswith("metier/")})).partition("/")[0]
    assert {"metier/py.typed", "metier/bundled/csv-analyst/SKILL.md", f"{info}/licenses/LICENSE"} <= names
    assert {name.partition("/")[0] for name in names} == {"metier", info}
    assert [name for name in names if NO_PART_OF_IT.search(name)] == []
    # Each file of the package in the clone is there.
    files = subprocess.run(["git", "-C", str(ROOT), "ls-files", "src"], check=True, capture_output=True, text=True)
    assert {name.removeprefix("src/") for name in files.stdout.split()} <= names


def test_the_wheel_brings_the_rules_of_the_scanner_compiled(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("metier/scan/packs/compiled/")]
        packs = {json.loads(archive.read(name).partition(b"\n")[0])["pack"] for name in names}
    assert packs == {core_digest(), f"{core_digest()} signs"}


def test_the_source_distribution_has_all_that_its_tests_need_and_nothing_that_was_made(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(sdist.read_bytes())) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "requirements.lock", "requirements-core.lock", "tests/conftest.py", "CHANGELOG.md"} <= names
    made = re.compile(r"__pycache__|\.py[co]$|\.venv|node_modules|_cache/|\.log$|^\.ci/|^\.github/")
    assert [name for name in names if made.search(name)] == []
