"""Our own static registry as a source: what `metier registry build` writes is what we read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hub.sources.loopback import Site, answer, skill_text

from metier.errors import SourceUnavailable
from metier.hub.install_plan import choose
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.site import build_site
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import fetch, resolve

TYPES = {".json": "application/json", ".zip": "application/zip", ".html": "text/html"}


def build(site: Site, tmp_path: Path) -> None:
    """Build the site anew, and serve its files."""
    build_site(tmp_path / "registry", tmp_path / "site")
    site.answers.clear()
    for path in (tmp_path / "site").rglob("*"):
        if path.is_file():
            kind = TYPES.get(path.suffix, "text/plain")
            site.answers[f"/{path.relative_to(tmp_path / 'site').as_posix()}"] = answer(path.read_bytes(), kind)


@pytest.fixture
def registry(tmp_path: Path) -> RegistryFolder:
    for version in ("1.0", "1.1"):
        folder = tmp_path / "registry/pdf" / version
        (folder / "scripts").mkdir(parents=True)
        text = skill_text(body=f"Version {version}.").replace(
            b"name: pdf\n", f"name: pdf\nversion: {version!r}\n".encode()
        )
        (folder / "SKILL.md").write_bytes(text)
        (folder / "scripts/run.sh").write_text("#!/bin/sh\n")
        (folder / "scripts/run.sh").chmod(0o755)
    return RegistryFolder(tmp_path / "registry")


@pytest.mark.covers("A-32")
def test_a_site_that_we_built_is_read_with_versions_and_modes(
    site: Site, tmp_path: Path, registry: RegistryFolder
) -> None:
    build(site, tmp_path)
    with fetch(resolve(parse_address(site.url))) as found:
        (candidate,) = found.candidates
        files = candidate.files()
    assert (candidate.folder, candidate.version, found.warnings) == ("pdf", "1.1", ())
    assert b"Version 1.1." in files["SKILL.md"][1]
    assert files["scripts/run.sh"] == ("exec", b"#!/bin/sh\n")


@pytest.mark.covers("A-37")
def test_what_was_yanked_and_deprecated_there_is_known_here(
    site: Site, tmp_path: Path, registry: RegistryFolder
) -> None:
    build(site, tmp_path)
    locked = resolve(parse_address(f"{site.url}/.well-known/agent-skills/pdf")).revision
    registry.yank("pdf", "1.1", "It deletes files.")
    registry.deprecate("pdf", successor="documents", reason="It is old.")
    build(site, tmp_path)
    with fetch(resolve(parse_address(site.url))) as found:
        told = ("Deprecated. Use documents instead. It is old.",)
        assert [(one.version, one.notes) for one in found.candidates] == [("1.0", told)]
    with fetch(resolve(parse_address(site.url, ref=locked))) as found:
        assert [(one.version, one.yanked) for one in found.candidates] == [("1.1", "It deletes files.")]
        assert b"Version 1.1." in found.candidates[0].skill_file()


@pytest.mark.covers("A-37")
def test_a_skill_whose_every_version_was_withdrawn_is_refused_with_the_reason_and_stays_for_locks(
    site: Site, tmp_path: Path, registry: RegistryFolder
) -> None:
    build(site, tmp_path)
    locked = resolve(parse_address(f"{site.url}/.well-known/agent-skills/pdf")).revision
    for version in ("1.0", "1.1"):
        registry.yank("pdf", version, "It deletes files.")
    build(site, tmp_path)
    for names in ([], ["pdf"]):
        with (
            fetch(resolve(parse_address(site.url))) as found,
            pytest.raises(SourceUnavailable, match="'pdf' was withdrawn by its author: It deletes files"),
        ):
            choose(found, names)
    with fetch(resolve(parse_address(site.url, ref=locked))) as found:
        assert b"Version 1.1." in choose(found, ["pdf"])[0].skill_file()


def test_the_older_index_of_a_site_that_we_built_has_the_same_files(
    site: Site, tmp_path: Path, registry: RegistryFolder
) -> None:
    build(site, tmp_path)
    del site.answers["/.well-known/agent-skills/index.json"]
    with fetch(resolve(parse_address(site.url))) as found:
        files = found.candidates[0].files()
    assert sorted(files) == ["SKILL.md", "scripts/run.sh"]
