"""Skills that installed distributions have among their files, and which of two that have the same name wins."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from metier import Library
from metier.source import FolderSource, installed_sources

SKILL = "---\nname: {name}\ndescription: Does {name} for {who}.\n---\nDo {name} for {who}.\n"
HOUR = 3600 * 10**9


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("METIER_PLUGINS", "signal,telegram")
    return folder


def install(site: Path, name: str, *skills: str, hours_ago: int = 1, record: str | None = None) -> Path:
    """Install a distribution as pip does; returns the folder of its metadata."""
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    lines = []
    for skill in skills:
        file = site / f"{name}_pkg/.agents/skills/{skill}/SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SKILL.format(name=skill, who=name))
        lines.append(f"{file.relative_to(site).as_posix()},sha256=x,10\n")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("".join(lines) if record is None else record)
    touch(metadata, hours_ago)
    return metadata


def touch(folder: Path, hours_ago: int) -> None:
    then = os.stat("/").st_mtime_ns - hours_ago * HOUR
    os.utime(folder, ns=(then, then))


def names() -> list[str]:
    return [source.name for source in installed_sources()[0]]


@pytest.mark.covers("A-39")
def test_a_skill_among_the_files_of_a_distribution_is_in_the_plugin_layer(site: Path, tmp_path: Path) -> None:
    install(site, "signal", "send")
    library = Library.discover(tmp_path, cache=False)
    entry = library.get("send@signal")
    assert (entry.name, entry.layer, entry.source) == ("send", "plugin", "signal")
    assert library.document("send").body == "Do send for signal."


@pytest.mark.covers("A-39")
def test_a_script_of_a_distribution_wants_an_approval_as_that_of_any_plugin(site: Path, tmp_path: Path) -> None:
    install(site, "signal", "send")
    scripts = site / "signal_pkg/.agents/skills/send/scripts"
    scripts.mkdir()
    (scripts / "send.py").write_text("print('sent')\n")
    session = Library.discover(tmp_path, cache=False).session(workspace=tmp_path / "work")
    result = session.executor().execute_blocking("skills_load", {"skills": ["send@signal"]})
    assert (result.success, result.code) == (False, "approval-needed")


@pytest.mark.covers("A-8", "A-39")
def test_the_distribution_that_was_installed_last_wins_and_both_can_be_selected(site: Path, tmp_path: Path) -> None:
    for last, other in (("signal", "telegram"), ("telegram", "signal")):
        install(site, other, "configure", hours_ago=5)
        install(site, last, "configure", hours_ago=2)
        library = Library.discover(tmp_path, cache=False)
        assert library.get("configure").source == last
        for name in ("signal", "telegram"):
            assert library.document(f"configure@{name}").body == f"Do configure for {name}."
        (shadowed,) = [one for one in library.entries(all=True) if one.status == "shadowed"]
        told = shadowed.diagnostics[-1]
        assert (told.code, told.severity) == ("shadowed", "warning")
        assert f"{last}_pkg" in told.message
        assert f"configure@{other}" in told.hint


@pytest.mark.parametrize("below", ["", "src"])
def test_an_editable_distribution_has_the_skills_of_its_project(site: Path, tmp_path: Path, below: str) -> None:
    project = tmp_path / "my project"
    metadata = install(site, "signal", record="_signal.pth,,\n")
    direct = {"url": project.as_uri(), "dir_info": {"editable": True}}
    project.mkdir()
    (metadata / "direct_url.json").write_text(json.dumps(direct))
    touch(metadata, 3)
    assert names() == []
    for package, has_init in (("pkg", True), ("docs", False)):
        skill = project / below / package / f".agents/skills/{package}-skill/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(SKILL.format(name=f"{package}-skill", who="me"))
        if has_init:
            (project / below / package / "__init__.py").write_text("raise RuntimeError\n")
    assert [entry.reference for entry in Library.discover(tmp_path, cache=False)] == ["pkg-skill@signal"]


@pytest.mark.each(
    "record",
    [
        "../signal_pkg/.agents/skills/send/SKILL.md,,\n",
        "x/../../other/.agents/skills/send/SKILL.md,,\n",
        "/etc/.agents/skills/send/SKILL.md,,\n",
        "C:/x/.agents/skills/send/SKILL.md,,\n",
        ".agents/skills/send/SKILL.md,,\n",
        "signal_pkg/.agents/skills/send/readme.md,,\n",
        "missing/.agents/skills/send/SKILL.md,,\n",
        "\0\xff,,\n",
        "",
    ],
)
def test_a_list_of_files_that_names_others_leads_nowhere(site: Path, record: str) -> None:
    install(site, "signal", "send", record=record)
    assert names() == []


def test_the_list_of_a_distribution_is_read_again_only_when_it_was_installed_again(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = install(site, "signal", "send")
    assert names() == ["signal"]
    # Nothing but the time of its folder tells that a distribution is another one.
    (metadata / "RECORD").write_bytes(b"")
    touch(metadata, 1)
    assert names() == ["signal"]
    touch(metadata, 0)
    assert names() == []
    monkeypatch.setenv("METIER_CACHE", "off")
    install(site, "signal", "send")
    assert names() == ["signal"]


@pytest.mark.each("damage", [b"", b"{}", b"[7]", b'{"x": 1}', b'{"x": [[1]]}', b"[" * 9_999])
def test_a_damaged_cache_is_made_again(site: Path, own_home: Path, damage: bytes) -> None:
    install(site, "signal", "send")
    (cache,) = (own_home / "metier-cache",)
    cache.mkdir(exist_ok=True)
    (cache / "distributions.json").write_bytes(damage)
    assert names() == ["signal"]
    assert b"signal" in (cache / "distributions.json").read_bytes()


def test_a_distribution_that_is_first_on_the_path_hides_another_of_its_name(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "signal", "send")
    first = tmp_path / "first"
    first.mkdir()
    install(first, "Signal")
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    assert names() == []


@pytest.mark.each(("chosen", "expected"), [("", 2), ("off", 0), ("Signal", 1), ("signal, telegram", 2), ("other", 0)])
def test_a_user_chooses_the_distributions_whose_skills_are_used(
    site: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, expected: int
) -> None:
    install(site, "signal", "send")
    install(site, "telegram", "send")
    monkeypatch.setenv("METIER_PLUGINS", chosen)
    found = [source for source in installed_sources()[0] if isinstance(source, FolderSource)]
    assert len([source for source in found if str(source.root).startswith(str(site))]) == expected
