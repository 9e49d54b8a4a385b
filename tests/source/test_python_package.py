"""Skills inside Python packages, found without running any of their code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from metier import Library
from metier.errors import InvalidArgument, SourceUnavailable
from metier.library import Place
from metier.source import FolderSource, Source, installed_sources, package_source
from metier.source.distribution import _distributions

BOOM = "raise RuntimeError('a package with skills must not be imported')\n"
SKILL = "---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n"
PACKAGE = "acme_skills_for_tests"


def package_files(entry_point: str = f"{PACKAGE}:skills") -> dict[str, str]:
    return {
        f"{PACKAGE}/__init__.py": BOOM,
        f"{PACKAGE}/inner/__init__.py": BOOM,
        f"{PACKAGE}/inner/skills/deep/SKILL.md": SKILL.format(name="deep"),
        f"{PACKAGE}/skills/hello/SKILL.md": SKILL.format(name="hello"),
        f"{PACKAGE}/skills/hello/scripts/run.py": BOOM,
        f"{PACKAGE}/skills/category/nested/SKILL.md": SKILL.format(name="nested"),
        "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
        "acme-1.0.dist-info/entry_points.txt": f"[metier.skills]\nacme-tools = {entry_point}\n",
    }


def write_files(where: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (where / path).parent.mkdir(parents=True, exist_ok=True)
        (where / path).write_text(content)


def put_on_path(monkeypatch: pytest.MonkeyPatch, where: Path) -> None:
    monkeypatch.syspath_prepend(str(where))
    monkeypatch.delenv("METIER_PLUGINS")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package on the path; it must never be imported."""
    write_files(tmp_path / "site", package_files())
    put_on_path(monkeypatch, tmp_path / "site")
    yield
    assert not [name for name in sys.modules if name.startswith(PACKAGE)], "the package was imported"


def library_of(source: Source) -> Library:
    return Library([Place(layer="plugin", source=source)], cache=False)


def test_the_skills_of_a_package_are_found(package: None) -> None:
    library = library_of(package_source(PACKAGE))
    assert "hello" in library
    assert library.document("hello").body == "Do hello."
    assert library.read("hello", "scripts/run.py") == BOOM.encode()


def test_a_skill_in_a_category_of_a_package_is_found(package: None) -> None:
    library = library_of(package_source(PACKAGE))
    assert library.document("nested").body == "Do nested."


def test_a_package_inside_a_package_may_hold_skills(package: None) -> None:
    assert [entry.name for entry in library_of(package_source(f"{PACKAGE}.inner"))] == ["deep"]


def test_an_entry_point_announces_skills(package: None) -> None:
    sources, findings = installed_sources()
    assert "acme-tools" in [source.name for source in sources]
    assert not [finding for finding in findings if "acme" in finding.where]


def test_a_path_with_anything_on_it_leads_to_the_entry_points_that_python_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = "[other]\nx = y\n[metier.skills]\n# none\n{name} = pkg:skills [extra]\n"
    for name in ("a.b-1.dist-info", "A__b-2.dist-info", "c.egg-info", "d-1.dist-info"):
        write_files(tmp_path / name[0], {f"{name}/entry_points.txt": announced.format(name=name)})
    (tmp_path / "d" / "e-1.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "d" / "f.egg-info").write_text("a file, as distutils wrote it")
    # Some programs put a `Path` there.
    more = [str(tmp_path / "a"), *(tmp_path / one for one in ("A", "c", "d", "missing"))]
    monkeypatch.setattr(sys, "path", [*more, *sys.path])
    found = {(point.name, point.value) for point in entry_points(group="metier.skills")}
    assert len(found) > 3
    assert {point for one in _distributions() for point in one.points.items()} == found


@pytest.mark.covers("O-99")
def test_a_skill_of_a_package_is_selected_by_its_entry_point(package: None, tmp_path: Path) -> None:
    library = Library.discover(tmp_path, cache=False)
    entry = library.get("hello@acme-tools")
    assert (entry.name, entry.layer, entry.source) == ("hello", "plugin", "acme-tools")


@pytest.mark.each(
    ("package_name", "folder"),
    [
        ("no_such_package_anywhere", "skills"),
        ("sys", "skills"),
        ("metier", "no-such-folder"),
        ("metier", "../metier/bundled"),
        ("metier", "bundled/../.."),
        ("metier", "/etc"),
        ("../metier", "bundled"),
        ("metier/bundled", "x"),
        ("", "skills"),
        ("metier..skill", "bundled"),
    ],
)
def test_what_does_not_name_a_folder_of_a_package_is_refused(package_name: str, folder: str) -> None:
    with pytest.raises(SourceUnavailable):
        package_source(package_name, folder)


@pytest.mark.parametrize("value", ["no_such_package_anywhere:skills", "metier:no-such-folder", "metier:../.."])
def test_an_entry_point_that_leads_nowhere_is_a_finding_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    write_files(tmp_path, package_files(value))
    put_on_path(monkeypatch, tmp_path)
    sources, findings = installed_sources()
    assert [finding.where for finding in findings] == ["entry point acme-tools"]
    assert "metier" in [source.name for source in sources]


def test_an_entry_point_without_a_folder_means_the_folder_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, package_files(PACKAGE))
    put_on_path(monkeypatch, tmp_path)
    source = next(source for source in installed_sources()[0] if source.name == "acme-tools")
    assert isinstance(source, FolderSource)
    assert source.root == str(tmp_path / PACKAGE / "skills")


def test_our_own_skills_come_by_the_same_way() -> None:
    library = library_of(package_source("metier", "bundled"))
    assert "skill-writer" in library
    assert not [entry for entry in library.entries(all=True) if entry.is_broken]


@pytest.mark.parametrize("value", [f"{PACKAGE}:skills", PACKAGE, f"{PACKAGE}.skills", f"{PACKAGE}.inner"])
def test_an_entry_point_may_name_its_folder_in_several_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    write_files(tmp_path, package_files(value))
    put_on_path(monkeypatch, tmp_path)
    sources, findings = installed_sources()
    assert "acme-tools" in [source.name for source in sources]
    assert findings == []


@pytest.mark.parametrize("value", ["gone", "gone:skills", f"{PACKAGE}:gone", f"{PACKAGE}.gone", "..:x", ":", "a b"])
def test_an_entry_point_that_names_nothing_is_a_finding_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    files = package_files(value)
    del files[f"{PACKAGE}/skills/hello/SKILL.md"]
    write_files(tmp_path, files)
    put_on_path(monkeypatch, tmp_path)
    sources, findings = installed_sources()
    assert "metier" in [source.name for source in sources]
    assert [finding.diagnostic.code for finding in findings] == ["entry-point-unusable"]


@pytest.mark.covers("S-04", "ACC-8")
def test_a_skill_of_a_package_can_have_another_name(package: None) -> None:
    source = package_source(PACKAGE, "skills/hello", skill_name="custom-name")
    library = Library([Place(layer="plugin", source=source)], cache=False)
    assert [(entry.name, library.document(entry.name).body) for entry in library] == [("custom-name", "Do hello.")]
    with pytest.raises(SourceUnavailable, match="has 2 skills"):
        package_source(PACKAGE, "skills", skill_name="custom-name").find_skills()
    with pytest.raises(InvalidArgument, match="not a valid skill name"):
        package_source(PACKAGE, "skills/hello", skill_name="No name!")
