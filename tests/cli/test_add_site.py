"""`metier add`, `outdated`, `update` and `install` with sites, archives and registries of APM."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.sources.loopback import Site, answer, as_json, digest, serving, skill_text, tarred, zipped

Metier = Callable[..., tuple[int, str, str]]


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def said(metier: Metier, *arguments: str, code: int = 0) -> Any:
    found, out, err = metier(*arguments, "--json")
    assert found == code, out + err
    return json.loads(out)


def add(metier: Metier, *arguments: str, code: int = 0) -> Any:
    return said(metier, "add", *arguments, "--to", "project", "--yes", code=code)


def locked(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((project / "metier.lock").read_text())["skill"]
    return found


def versions(site: Site, newest: str, *others: str, yanked: str = "", deprecated: object = None) -> None:
    """Announce `pdf` with versions, and `deploy` beside it."""
    archives = {one: zipped({"SKILL.md": skill_text(body=f"Version {one}.")}) for one in (newest, *others)}
    releases = [{"version": one, "url": f"pdf-{one}.zip", "digest": digest(data)} for one, data in archives.items()]
    for one, data in archives.items():
        site.answers[f"/.well-known/agent-skills/pdf-{one}.zip"] = answer(data, "application/zip")
    for release in releases[1:]:
        release |= {"yanked": yanked} if yanked else {}
    entry = {"name": "pdf", "type": "archive", "extensions": {"dev.metier": {"version": newest}}, **releases[0]}
    beside = site.entry("deploy", skill_text("deploy", f"Beside {newest}."), "skill-md")
    site.index(entry, beside, extensions={"dev.metier": {"releases": {"pdf": releases}, "deprecated": deprecated}})


def test_a_skill_of_a_site_is_installed_and_locked_to_its_artifact(metier: Metier, project: Path, site: Site) -> None:
    versions(site, "1.0")
    shape = add(metier, site.url, "pdf")
    assert [one["name"] for one in shape["skills"]] == ["pdf"]
    [entry] = locked(project)
    data = zipped({"SKILL.md": skill_text(body="Version 1.0.")})
    assert (entry["source"], entry["revision"]) == (f"well-known+{site.url}", digest(data))
    assert (project / ".metier/skills/pdf/SKILL.md").read_bytes() == skill_text(body="Version 1.0.")
    assert "/.well-known/agent-skills/deploy.md" not in site.paths(), "only what was named is downloaded"


def test_all_skills_of_a_site_are_compared_by_one_request(metier: Metier, project: Path, site: Site) -> None:
    versions(site, "1.0")
    add(metier, site.url, "--all")
    site.requests.clear()
    assert said(metier, "update", "--all", "--yes")["updated"] == []
    assert len(site.requests) == 1


def test_only_the_skill_of_a_site_that_changed_is_outdated(metier: Metier, project: Path, site: Site) -> None:
    pdf, deploy = site.entry("pdf", skill_text(), "skill-md"), site.entry("deploy", skill_text("deploy"), "skill-md")
    site.index(pdf, deploy)
    add(metier, site.url, "--all")
    site.index(pdf, site.entry("deploy", skill_text("deploy", "Newer."), "skill-md"))
    assert [one["name"] for one in said(metier, "outdated")["skills"]] == ["deploy"]


def test_a_locked_release_is_installed_although_there_is_a_newer_one(
    metier: Metier, project: Path, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(site, "1.0")
    add(metier, site.url, "pdf")
    versions(site, "2.0", "1.0")
    [newer] = said(metier, "outdated")["skills"]
    assert (newer["version"], newer["newest_version"]) == ("1.0", "2.0")
    assert metier("outdated")[1].splitlines()[1].split()[:3] == ["pdf", "1.0", "2.0"]
    fresh = tmp_path / "fresh"
    (fresh / ".git").mkdir(parents=True)
    shutil.copy(project / "metier.lock", fresh)
    monkeypatch.setenv("METIER_DATA", str(tmp_path / "other-data"))
    monkeypatch.chdir(fresh)
    assert metier("install", "--frozen")[0] == 0
    assert b"Version 1.0." in (fresh / ".metier/skills/pdf/SKILL.md").read_bytes()


@pytest.mark.covers("A-37")
def test_a_locked_release_that_was_withdrawn_is_installed_with_a_warning_and_chosen_by_nobody_else(
    metier: Metier, project: Path, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(site, "1.0")
    add(metier, site.url, "pdf")
    versions(site, "2.0", "1.0", yanked="It loses forms.")
    shutil.rmtree(project / ".metier")
    monkeypatch.setenv("METIER_DATA", str(tmp_path / "other-data"))
    shape = said(metier, "install", "--frozen")
    assert shape["installed"] == ["pdf"]
    assert shape["warnings"] == ["pdf was withdrawn by its author: It loses forms."]
    said(metier, "remove", "pdf", "--yes")
    assert add(metier, site.url, "pdf", "--ref", "1.0", code=2)["error"]


def test_deprecated_skills_and_withdrawn_versions_are_told_by_the_same_one_request(
    metier: Metier, project: Path, site: Site
) -> None:
    versions(site, "1.0")
    add(metier, site.url, "pdf")
    versions(site, "2.0", "1.0", yanked="It loses forms.", deprecated={"pdf": {"successor": "documents"}})
    site.requests.clear()
    told = [
        "pdf: Deprecated. Use documents instead.",
        "pdf: The installed version 1.0 was withdrawn by its author: It loses forms.",
    ]
    assert said(metier, "outdated")["notes"] == told
    assert len(site.requests) == 1
    assert said(metier, "update", "--all", "--dry-run")["notes"] == told


@pytest.mark.covers("A-33")
def test_a_wrong_digest_installs_nothing(metier: Metier, project: Path, site: Site) -> None:
    site.index(site.entry("pdf", skill_text(), "skill-md"))
    site.answers["/.well-known/agent-skills/pdf.md"] = answer(skill_text(body="Other."), "text/markdown")
    code, _, err = metier("add", site.url, "pdf", "--to", "project", "--yes")
    assert code != 0
    assert "SHA-256" in err
    assert not (project / ".metier").exists()
    assert not (project / "metier.lock").exists()


def test_an_archive_with_a_digest_is_installed(metier: Metier, project: Path, site: Site) -> None:
    data = tarred(("pdf-main/SKILL.md", skill_text()))
    site.answers["/pdf.tar.gz"] = answer(data, "application/gzip")
    add(metier, f"{site.url}/pdf.tar.gz#sha256={digest(data)[7:]}")
    [entry] = locked(project)
    assert (entry["source"], entry["ref"]) == (f"archive+{site.url}/pdf.tar.gz", digest(data))


def test_a_package_of_a_registry_of_apm_is_installed_and_updated(metier: Metier, project: Path, site: Site) -> None:
    def publish(*numbers: str) -> None:
        base = "/api/v1/packages/acme/skills/versions"
        archives = {one: tarred((".apm/skills/pdf/SKILL.md", skill_text(body=f"Version {one}."))) for one in numbers}
        listed = [{"version": one, "digest": digest(data)} for one, data in archives.items()]
        site.answers[base] = as_json({"package": "acme/skills", "versions": listed})
        for one, data in archives.items():
            site.answers[f"{base}/{one}/download"] = answer(data, "application/gzip")

    publish("1.0.0")
    add(metier, f"apm+{site.url}/api/acme/skills")
    assert locked(project)[0]["version"] == "1.0.0"
    publish("1.0.0", "1.1.0")
    assert said(metier, "update", "pdf", "--yes")["updated"]
    assert b"Version 1.1.0." in (project / ".metier/skills/pdf/SKILL.md").read_bytes()


def test_a_version_whose_content_changed_is_not_updated_to(metier: Metier, project: Path, site: Site) -> None:
    versions(site, "1.0")
    add(metier, site.url, "pdf")
    data = zipped({"SKILL.md": skill_text(body="Other instructions.")})
    site.index(site.entry("pdf", data, extensions={"dev.metier": {"version": "1.0"}}))
    shape = said(metier, "update", "--all", "--yes")
    assert shape["updated"] == []
    assert "a version never changes" in shape["notes"][0]
    assert b"Version 1.0." in (project / ".metier/skills/pdf/SKILL.md").read_bytes()


@pytest.mark.parametrize(
    "allow", ["", ", allow: ['archive+SITE/*', 'well-known+SITE']"], ids=["deny", "deny-and-allow"]
)
@pytest.mark.parametrize("kind", ["archive+http", "well-known+http", "*"])
def test_a_source_does_not_lead_to_a_host_that_policy_denies(
    metier: Metier, project: Path, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, allow: str
) -> None:
    with serving() as denied, serving() as other:
        policy = tmp_path / "policy.yaml"
        listed = allow.replace("SITE", site.url)
        pattern = f"{kind}://{denied.url.partition('://')[2]}*"
        policy.write_text(f"version: 1\nmode: enforce\nsources: {{deny: ['{pattern}']{listed}}}\n")
        monkeypatch.setenv("METIER_POLICY", str(policy))
        data = zipped({"SKILL.md": skill_text()})
        for place in (denied, other):
            place.answers["/pdf.zip"] = answer(data, "application/zip")
        for place, code in ((denied, 1), (other, 0)):
            site.answers["/pdf.zip"] = answer(status="302 Found", Location=f"{place.url}/pdf.zip")
            assert metier("add", f"{site.url}/pdf.zip", "--to", "project", "--yes")[0] == code
            entry = site.entry("pdf", data, url=f"{place.url}/pdf.zip")
            site.index(entry)
            shutil.rmtree(project / ".metier", ignore_errors=True)
            (project / "metier.lock").unlink(missing_ok=True)
            assert metier("add", site.url, "pdf", "--to", "project", "--yes")[0] == code
        assert denied.requests == []
