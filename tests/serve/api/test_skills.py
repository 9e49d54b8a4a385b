"""The skills of the registry over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from tests.serve.api.conftest import OTHER, Api

from metier.hub.registry.deployment import deploy_release
from metier.hub.registry.publication import publish_release, yank_release
from metier.skill.package import Files

PATH = "/api/v1/skills"


def skill(name: str, version: str, description: str, body: str = "Do it.", **files: bytes) -> Files:
    text = f"---\nname: {name}\ndescription: {description}\nmetadata:\n  version: {version}\n---\n{body}\n"
    more: Files = {path.replace("__", "/").replace("_", "."): ("file", data) for path, data in files.items()}
    return {"SKILL.md": ("file", text.encode()), **more}


def publish(api: Api, *all_files: Files, who: str = "admin") -> None:
    scope = api.other if who == OTHER else api.scope
    for files in all_files:
        publish_release(scope, api.person(who), "default", files, guard=api.context.guard(scope.tenant))


@pytest.fixture
def filled(api: Api) -> Api:
    """A registry with three skills, of which one is deployed."""
    publish(
        api,
        skill("pdf-forms", "1.0.0", "Fill in forms of PDF files."),
        skill("pdf-forms", "1.1.0", "Fill in forms of PDF files.", "Do it well.", references__api_md=b"# API\n"),
        skill("notes", "1.0.0", "Write release notes.", logo_png=b"\x89PNG\0"),
        skill("plots", "2.0.0", "Plot a CSV file."),
    )
    deploy_release(api.scope, api.person("admin"), "default", "pdf-forms", "1.0.0", guard=api.context.guard(""))
    return api


def names(api: Api, who: str = "viewer", **query: Any) -> list[str]:
    answer = api.as_(who).get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["items"]]


def test_skills_are_listed_with_their_newest_release(filled: Api) -> None:
    assert names(filled) == ["notes", "pdf-forms", "plots"]
    assert names(filled, deployed=True) == ["pdf-forms"]
    assert names(filled, namespace="else") == []
    found = filled.as_("viewer").get(PATH, params={"deployed": True}).json()["items"][0]
    assert (found["version"], found["deployed"], found["by"]) == ("1.1.0", "1.0.0", "admin")


def test_a_search_finds_what_fits_the_best_first(filled: Api) -> None:
    assert names(filled, q="fill in a form")[0] == "pdf-forms"
    publish(filled, skill("form-maker", "1.0.0", "Make forms."))
    assert "form-maker" in names(filled, q="forms")
    page = filled.as_("viewer").get(PATH, params={"q": "forms", "limit": 1}).json()
    rest = filled.as_("viewer").get(PATH, params={"q": "forms", "limit": 1, "cursor": page["next"]}).json()
    assert {page["items"][0]["name"], rest["items"][0]["name"]} == {"pdf-forms", "form-maker"}


def test_a_skill_has_its_files_and_versions(filled: Api) -> None:
    found = filled.as_("viewer").get(f"{PATH}/default/pdf-forms").json()
    assert [file["path"] for file in found["files"]] == ["SKILL.md", "references/api.md"]
    assert found["frontmatter"]["name"] == "pdf-forms"
    assert (found["versions"], found["is_quarantined"]) == (2, False)
    filled.scope.blocks.add("name", "pdf-forms", reason="Look at it.", by="admin")
    assert filled.as_("viewer").get(f"{PATH}/default/pdf-forms").json()["is_quarantined"] is True
    versions = filled.as_("viewer").get(f"{PATH}/default/pdf-forms/versions").json()["items"]
    assert [(one["version"], one["is_deployed"]) for one in versions] == [("1.1.0", False), ("1.0.0", True)]


def test_a_file_is_plain_text_that_no_browser_shows_as_a_page(filled: Api) -> None:
    url = f"{PATH}/default/pdf-forms/versions/1.1.0/files"
    answer = filled.as_("viewer").get(f"{url}/references/api.md")
    assert answer.text == "# API\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    known = {"If-None-Match": answer.headers["etag"]}
    assert filled.as_("viewer").get(f"{url}/references/api.md", headers=known).status_code == 304
    logo = filled.as_("viewer").get(f"{PATH}/default/notes/versions/1.0.0/files/logo.png")
    assert (logo.content, logo.headers["content-type"]) == (b"\x89PNG\0", "application/octet-stream")
    assert [one["path"] for one in filled.as_("viewer").get(url).json()["items"]] == ["SKILL.md", "references/api.md"]


def test_two_versions_have_a_difference(filled: Api) -> None:
    text = filled.as_("viewer").get(f"{PATH}/default/pdf-forms/diff", params={"from": "1.0.0", "to": "1.1.0"}).text
    assert "-Do it.\n+Do it well.\n" in text
    assert "+++ b/references/api.md" in text


def test_a_yanked_version_is_listed_as_such_and_is_no_longer_the_newest(filled: Api) -> None:
    release = filled.scope.releases.get("default", "pdf-forms", "1.1.0")
    assert release is not None
    yank_release(filled.scope, filled.person("admin"), release, reason="It breaks.")
    assert filled.as_("viewer").get(f"{PATH}/default/pdf-forms").json()["version"] == "1.0.0"
    versions = filled.as_("viewer").get(f"{PATH}/default/pdf-forms/versions").json()["items"]
    assert (versions[0]["status"], versions[0]["reason"]) == ("yanked", "It breaks.")


MISSING = [
    "default/none",
    "else/pdf-forms",
    "default/none/versions",
    "default/pdf-forms/versions/9.0.0/files",
    "default/pdf-forms/versions/1.0.0/files/none.md",
    "default/pdf-forms/versions/1.0.0/files/../SKILL.md",
    "default/pdf-forms/diff?from=1.0.0&to=9.0.0",
]


def test_what_is_not_there_or_is_anothers_is_not_found(filled: Api) -> None:
    publish(filled, skill("secret", "1.0.0", "Ours alone."), who=OTHER)
    for path in MISSING:
        answer = filled.as_("viewer").get(f"{PATH}/{path}")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json"), path
    for path in ("", "/versions", "/versions/1.0.0/files", "/versions/1.0.0/files/SKILL.md"):
        assert filled.as_("viewer").get(f"{PATH}/default/secret{path}").status_code == 404
        assert filled.as_(OTHER).get(f"{PATH}/default/secret{path}").status_code == 200
    assert names(filled, OTHER) == names(filled, OTHER, q="alone") == ["secret"]
    assert "secret" not in names(filled, q="alone")
