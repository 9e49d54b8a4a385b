"""`metier packages`, and what other commands say of packages that scripts import."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.hub.packages.package_index import PackageIndex, served, skill_files, write_files

from metier.library.lock_file import LockFile

Call = Callable[..., tuple[int, str, str]]
TINY = skill_files(requirements_txt="tiny\n")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "PIP_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    with served(PackageIndex(tmp_path / "index")) as index:
        index.add_wheel("tiny")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


def test_a_skill_that_was_added_runs_with_its_packages(
    metier: Call, index: PackageIndex, project: Path, tmp_path: Path, typed: None
) -> None:
    source = write_files(tmp_path / "source/peek", TINY)
    code, out, _ = metier("add", source, "--to", "project", "--yes")
    assert (code, "packages: tiny==1.0" in out) == (0, True)
    (locked,) = LockFile.read(project / "metier.lock").skills
    assert [line.split(" --hash")[0] for line in locked.packages] == ["tiny==1.0"]
    assert metier("run", "peek", "peek.py") == (0, "tiny 1.0\n", "")
    assert "built, approved" in metier("show", "peek")[1]
    # Another content of the same skill: nobody agreed to what it declares.
    write_files(source, skill_files(requirements_txt="tiny<2\n"))
    write_files(project / ".metier/skills/peek", skill_files(requirements_txt="tiny<2\n"))
    code, _, err = metier("run", "peek", "peek.py")
    assert code != 0
    assert "tiny" not in err


def test_packages_that_only_a_lock_names_run_once_a_person_agreed_to_them(
    metier: Call, index: PackageIndex, project: Path, tmp_path: Path, typed: None
) -> None:
    source = write_files(tmp_path / "source/peek", TINY)
    assert metier("add", source, "--to", "project", "--yes")[0] == 0
    index.add_wheel("tiny", "2.0")
    lock = project / "metier.lock"
    (locked,) = LockFile.read(lock).skills
    digest = sha256((index.root / "simple/tiny/tiny-2.0-py3-none-any.whl").read_bytes()).hexdigest()
    other = f"tiny==2.0 --hash=sha256:{digest}"
    lock.write_text(lock.read_text().replace(locked.packages[0], other))
    # They are built, as CI has nobody to ask, and no script gets them.
    assert metier("install", "--frozen")[0] == 0
    code, _, err = metier("run", "peek", "peek.py", given="")
    assert (code, "[approval-needed]" in err, "They are tiny==2.0." in err) == (4, True, True)
    assert "built, not approved" in metier("show", "peek")[1]
    assert metier("approve", "grant", "peek")[0] == 0
    assert metier("run", "peek", "peek.py") == (0, "tiny 2.0\n", "")


def test_packages_that_no_skill_uses_are_deleted(metier: Call, index: PackageIndex, tmp_path: Path) -> None:
    skills = write_files(tmp_path / "skills/peek", TINY).parent
    assert metier("--skills", skills, "packages", "peek")[0] == 0
    assert metier("--skills", skills, "packages", "--prune")[1].startswith("\u2713 0 environments deleted")
    write_files(skills / "peek", skill_files(requirements_txt="tiny<2\n"))
    found = json.loads(metier("--skills", skills, "packages", "--prune", "--json")[1])
    assert (found["removed"], found["bytes"] > 100) == (1, True)
    assert "have not been built" in metier("--skills", skills, "doctor")[1]


def test_what_is_not_built_is_said_and_built_by_name(
    metier: Call, index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills = write_files(tmp_path / "skills/peek", TINY).parent
    assert "not built, not approved" in metier("--skills", skills, "packages")[1]
    told = metier("--skills", skills, "doctor")[1]
    assert "packages of its scripts: not built, not approved. Scripts of skill 'peek' cannot run" in told
    assert "`metier packages peek` builds them" in " ".join(told.split())
    (state,) = json.loads(metier("--skills", skills, "packages", "--json")[1])
    assert (state["files"], state["built"], state["approved"]) == (["requirements.txt"], False, False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = metier("--skills", skills, "packages", "peek", "--json")
    steps = ("resolving the Python packages ...", "installing the Python packages ...")
    assert (code, [step for step in steps if step in err]) == (0, [*steps])
    assert json.loads(out)[0]["packages"][0].startswith("tiny==1.0 --hash=sha256:")
    assert json.loads(metier("--skills", skills, "show", "peek", "--json")[1])["packages"]["built"] is True
    code, _, err = metier("--skills", skills, "run", "peek", "peek.py")
    assert (code, "[approval-needed]" in err) == (4, True)


def test_packages_that_cannot_be_had_are_a_problem(metier: Call, index: PackageIndex, tmp_path: Path) -> None:
    skills = write_files(tmp_path / "skills/peek", skill_files(requirements_txt="tiny @ file:///x\n")).parent
    code, out, _ = metier("--skills", skills, "packages", "peek")
    assert (code, "names an address" in out) == (1, True)


def test_a_skill_whose_packages_cannot_be_had_can_be_added_for_its_instructions(
    metier: Call, index: PackageIndex, project: Path, tmp_path: Path, typed: None
) -> None:
    source = write_files(tmp_path / "source/peek", skill_files(requirements_txt="no-such-package\n"))
    code, out, _ = metier("add", source, "--to", "project", "--yes", "--json")
    (skill,) = json.loads(out)["skills"]
    assert (code, skill["packages"], "no-such-package" in skill["packages_problem"]) == (1, [], True)
    assert "Looks at it." in metier("show", "peek")[1]


def test_nothing_is_listed_where_nothing_is_declared(metier: Call, tmp_path: Path) -> None:
    skills = write_files(tmp_path / "skills/peek", skill_files()).parent
    assert metier("--skills", skills, "packages") == (0, "No script of any skill here declares packages.\n", "")
    assert "declares no packages" in metier("--skills", skills, "packages", "peek")[1]
