"""`name@version` and `name@package` select one of several skills of a name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.errors import SkillNotFound
from metier.library.lock_file import LockedSkill, change_lock
from metier.library.places import TrustStore
from metier.skill import FolderPackage


@pytest.fixture
def library(tmp_path: Path, own_home: Path) -> Library:
    (tmp_path / ".git").mkdir()
    for root, version in ((tmp_path / ".metier", "1.2"), (own_home / ".metier", "2.0")):
        folder = root / "skills/pdf"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: pdf\ndescription: Fills.\nversion: '{version}'\n---\nDo.\n")
    TrustStore().trust(tmp_path)
    skill = LockedSkill(
        name="pdf",
        folder=".metier/skills/pdf",
        source="git+https://github.com/acme/skills",
        package="forms-plugin",
        digest=FolderPackage(tmp_path / ".metier/skills/pdf").digest(),
    )
    change_lock(str(tmp_path / "metier.lock"), lambda lock: lock.with_skill(skill))
    return Library.discover(tmp_path, cache=False)


@pytest.mark.parametrize(
    ("reference", "layer"),
    [
        ("pdf@1.2", "project"),
        ("pdf@1.2.0", "project"),
        ("pdf@v1.2", "project"),
        ("pdf@2", "personal"),
        ("pdf@acme/skills", "project"),
        ("pdf@forms-plugin", "project"),
        ("pdf@personal", "personal"),
    ],
)
def test_a_version_and_a_package_select(reference: str, layer: str, library: Library) -> None:
    assert library.get(reference).layer == layer


def test_a_version_that_is_not_there_says_which_are(library: Library) -> None:
    with pytest.raises(SkillNotFound) as missing:
        library.get("pdf@3")
    assert "1.2" in str(missing.value.hint)
    assert "2.0" in str(missing.value.hint)


def test_a_skill_that_requires_another_version_is_not_loaded_with_it(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    from metier.errors import ActivationFailed

    for name, fields in (("pdf", "version: '1.2'"), ("report", "requires: [pdf>=2]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does it.\n{fields}\n---\nDo.\n")
    library = Library.from_folder(tmp_path, cache=False)
    with pytest.raises(ActivationFailed, match=r"needs pdf>=2, and 1\.2 is here"):
        library.session(dependencies="load").load("report")
