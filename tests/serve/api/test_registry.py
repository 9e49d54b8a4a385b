"""The registry as clients of others read it."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pytest
from starlette.testclient import TestClient
from tests.serve.api.conftest import Api
from tests.serve.api.registry_client import GZIP, publish, skill_files, upload

from metier.hub.publish.pack import pack
from metier.hub.sources.http import sha256_of
from metier.hub.sources.well_known import SCHEMA
from metier.serve.api.app import create_app
from metier.serve.api.settings import RegistrySettings, ServerSettings
from metier.skill.package import FileMode

INDEX = "/.well-known/agent-skills/index.json"


def test_a_published_skill_is_in_every_list(api: Api) -> None:
    assert publish(api.as_("admin"), skill_files()).status_code == 201
    reader = api.as_("viewer")
    found = reader.get(INDEX).json()
    assert found["$schema"] == SCHEMA
    (entry,) = found["skills"]
    archive = reader.get(f"/.well-known/agent-skills/{entry['url']}")
    assert sha256_of(archive.content) == entry["digest"]
    assert sorted(zipfile.ZipFile(io.BytesIO(archive.content)).namelist()) == ["SKILL.md", "scripts/fill.py"]
    (old,) = reader.get("/.well-known/skills/index.json").json()["skills"]
    assert old == {"name": "pdf-forms", "description": "Fills PDF forms.", "files": ["SKILL.md", "scripts/fill.py"]}
    assert reader.get("/.well-known/skills/pdf-forms/SKILL.md").content == skill_files()["SKILL.md"][1]
    assert reader.get("/.well-known/skills/pdf-forms/none.md").status_code == 404


def test_a_marketplace_has_each_skill_as_a_plugin(api: Api) -> None:
    publish(api.as_("admin"), skill_files())
    (plugin,) = api.as_("viewer").get("/marketplace.json").json()["plugins"]
    data = api.as_("viewer").get(plugin["source"]["url"].partition(":8400")[2]).content
    assert sha256_of(data) == f"sha256:{plugin['source']['sha256']}"
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert {".claude-plugin/plugin.json", "plugin.json", "skills/pdf-forms/SKILL.md"} <= set(names)


def test_who_has_a_list_does_not_get_it_again(api: Api) -> None:
    publish(api.as_("admin"), skill_files())
    reader = api.as_("viewer")
    plain = {"Accept-Encoding": "identity"}
    first = reader.get(INDEX, headers=plain)
    again = reader.get(INDEX, headers={**plain, "If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    publish(api.as_("admin"), skill_files(version="1.1.0"))
    changed = reader.get(INDEX, headers={**plain, "If-None-Match": first.headers["ETag"]})
    assert changed.json()["skills"][0]["extensions"]["dev.metier"]["version"] == "1.1.0"
    with api.as_("viewer").stream("GET", INDEX, headers={"Accept-Encoding": "gzip"}) as packed:
        assert json.loads(gzip.decompress(b"".join(packed.iter_raw()))) == changed.json()
        assert packed.headers["ETag"] != changed.headers["ETag"]


def test_a_yanked_release_gives_way_to_the_one_before_and_stays_for_locks(api: Api) -> None:
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        publish(api.as_("admin"), skill_files(version=version))
    reader, path = api.as_("viewer"), "/api/v1/packages/default/pdf-forms/1.10.0/yank"
    current = reader.get(INDEX).json()["skills"][0]
    assert current["url"] == "pdf-forms/pdf-forms-1.10.0.zip"
    assert api.as_("admin").post(path, json={"reason": "It leaks."}).status_code == 200
    found = reader.get(INDEX).json()
    assert found["skills"][0]["url"] == "pdf-forms/pdf-forms-1.9.0.zip"
    others = found["extensions"]["dev.metier"]["releases"]["pdf-forms"]
    assert [(one["version"], one.get("yanked")) for one in others] == [("1.10.0", "It leaks."), ("1.0.0", None)]
    assert sha256_of(reader.get(f"/.well-known/agent-skills/{current['url']}").content) == current["digest"]
    assert [one["version"] for one in reader.get("/v1/packages/default/pdf-forms/versions").json()["versions"]] == [
        "1.9.0",
        "1.0.0",
    ]
    assert api.as_("admin").post(path, json={"reason": "Again."}).status_code == 409
    assert api.as_("admin").delete(path).status_code == 200
    assert reader.get(INDEX).json()["skills"][0]["url"] == current["url"]


def test_an_index_of_one_skill_has_all_of_its_releases(api: Api) -> None:
    for name in ("pdf-forms", "csv"):
        for version in ("1.0.0", "2.0.0"):
            publish(api.as_("admin"), skill_files(name, version))
    found = api.as_("viewer").get(INDEX, params={"skill": "csv"}).json()
    assert [one["name"] for one in found["skills"]] == ["csv"]
    assert [one["version"] for one in found["extensions"]["dev.metier"]["releases"]["csv"]] == ["2.0.0", "1.0.0"]
    assert api.as_("viewer").get(INDEX, params={"skill": "none"}).json()["skills"] == []


def test_a_package_is_published_and_fetched_as_apm_does(api: Api) -> None:
    path, files = "/v1/packages/default/pdf-forms/versions", skill_files(version="1.2.0")
    package: dict[str, tuple[FileMode, bytes]] = {"apm.yml": ("file", b"name: pdf-forms\nversion: 1.2.0\n")}
    package |= {f".apm/skills/pdf-forms/{name}": one for name, one in files.items()}
    admin = api.as_("admin")
    done = admin.put(f"{path}/1.2.0", content=pack(package, "tar.gz"), headers=GZIP)
    assert (done.status_code, done.json()["package"]) == (201, "default/pdf-forms")
    listed = api.as_("viewer").get(path).json()
    assert listed == {
        "package": "default/pdf-forms",
        "versions": [{k: v for k, v in done.json().items() if k != "package"}],
    }
    data = api.as_("viewer").get(f"{path}/1.2.0/download")
    assert (data.headers["Content-Type"], sha256_of(data.content)) == ("application/zip", done.json()["digest"])
    for same in (files, skill_files(version="1.2.0", body="Other.")):
        again = admin.put(f"{path}/1.2.0", content=pack(same), headers={"Content-Type": "application/zip"})
        assert (again.status_code, again.json()["code"]) == (409, "skill-exists")


@pytest.mark.each(
    ("version", "content", "kind", "status"),
    [
        ("1.2.0", pack(skill_files(version="1.1.0")), "application/zip", 422),
        ("1.2.0", b"no archive", "application/zip", 422),
        ("1.2.0", pack({"README.md": ("file", b"Hello.")}), "application/zip", 422),
        ("1.2.0", pack(skill_files("other", "1.2.0")), "application/zip", 422),
        ("1.2.0", pack(skill_files(version="1.2.0")), "text/html", 415),
    ],
)
def test_a_package_that_is_not_what_its_address_says_is_refused(
    api: Api, version: str, content: bytes, kind: str, status: int
) -> None:
    path = f"/v1/packages/default/pdf-forms/versions/{version}"
    assert api.as_("admin").put(path, content=content, headers={"Content-Type": kind}).status_code == status


def test_the_registry_of_a_server_on_its_own_machine_is_open(api: Api) -> None:
    assert api.as_("nobody").get(INDEX).status_code == 200
    wrong = api.as_("nobody").get(INDEX, headers={"Authorization": "Bearer mtr_wrong"})
    assert wrong.status_code == 401


@pytest.mark.each(
    ("settings", "status"),
    [
        (ServerSettings(registry=RegistrySettings(anonymous=False)), 401),
        (ServerSettings(allowed_hosts=("skills.example.com",)), 401),
        (ServerSettings(allowed_hosts=("skills.example.com",), registry=RegistrySettings(anonymous=True)), 200),
    ],
)
def test_the_registry_of_a_server_that_others_reach_takes_a_credential(
    api: Api, settings: ServerSettings, status: int
) -> None:
    app = create_app(api.store, settings)
    assert TestClient(app).get(INDEX).status_code == status
    assert TestClient(app, headers=api.header("node")).get(INDEX).status_code == 200


def test_a_tenant_has_a_registry_of_its_own(api: Api) -> None:
    publish(api.as_("other"), skill_files())
    assert len(api.as_("other").get(INDEX).json()["skills"]) == 1
    assert api.as_("viewer").get(INDEX).json()["skills"] == []
    assert api.as_("viewer").get("/.well-known/agent-skills/pdf-forms/pdf-forms-1.0.0.zip").status_code == 404
    assert api.as_("viewer").get("/v1/packages/default/pdf-forms/versions").status_code == 404
    digest = upload(api.as_("other"), skill_files())
    assert api.as_("viewer").get(f"/api/v1/contents/{digest}").status_code == 404
