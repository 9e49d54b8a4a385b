"""Skills that a site announces below /.well-known/."""

from __future__ import annotations

import pytest
from tests.hub.sources.loopback import Site, answer, as_json, digest, serving, skill_text, tarred, zipped

from metier.errors import IntegrityFailed, SkillInvalid, SkillNotFound, SourceUnavailable
from metier.hub.sources import well_known
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Fetched, Resolved, fetch, resolve
from metier.hub.sources.http import joined
from metier.hub.sources.well_known import SCHEMA

OLD = "/.well-known/skills"


def resolved(site: Site, below: str = "") -> Resolved:
    return resolve(parse_address(site.url + below))


def fetched(site: Site, below: str = "") -> Fetched:
    with fetch(resolved(site, below)) as found:
        return found


@pytest.mark.covers("A-32")
def test_skills_of_an_index_are_downloaded_when_they_are_read(site: Site) -> None:
    archive = tarred(("SKILL.md", skill_text("pdf")), ("scripts/run.py", b"print()"))
    site.index(site.entry("pdf", archive), site.entry("deploy", skill_text("deploy"), "skill-md"))
    with fetch(resolved(site)) as found:
        assert site.paths() == ["/.well-known/agent-skills/index.json"]
        pdf, deploy = found.candidates
        assert pdf.about == "Reads."
        assert len(site.requests) == 1, "it is chosen by what the index says"
        assert [pdf.folder, deploy.folder] == ["pdf", "deploy"]
        assert pdf.files() == {"SKILL.md": ("file", skill_text("pdf")), "scripts/run.py": ("file", b"print()")}
        assert deploy.files() == {"SKILL.md": ("file", deploy.skill_file())}
    assert not found.warnings
    assert len(site.paths()) == 3, "each is downloaded once"


def test_the_state_changes_with_what_is_announced_and_with_nothing_else(site: Site) -> None:
    pdf, deploy = site.entry("pdf", skill_text(), "skill-md"), site.entry("deploy", skill_text("deploy"), "skill-md")
    site.index(pdf, deploy)
    first = resolved(site)
    site.index(deploy, pdf | {"description": "Another."}, more=1)
    assert resolved(site).revision == first.revision
    site.index(deploy, pdf | {"digest": digest(b"other")})
    assert resolved(site).revision != first.revision
    assert first.revision.startswith("sha256:")


def test_one_request_tells_the_state(site: Site) -> None:
    site.index(*[site.entry(f"skill-{n}", skill_text(f"skill-{n}"), "skill-md") for n in range(20)])
    resolved(site)
    assert len(site.requests) == 1


def test_the_address_of_one_skill_is_that_skill_alone(site: Site) -> None:
    pdf, deploy = site.entry("pdf", skill_text(), "skill-md"), site.entry("deploy", skill_text("deploy"), "skill-md")
    site.index(pdf, deploy)
    assert [one.folder for one in fetched(site, "/.well-known/agent-skills/pdf").candidates] == ["pdf"]
    before = resolved(site, "/.well-known/agent-skills/pdf").revision
    site.index(pdf, deploy | {"digest": digest(b"other")})
    assert resolved(site, "/.well-known/agent-skills/pdf").revision == before
    with pytest.raises(SkillNotFound):
        resolved(site, "/.well-known/agent-skills/pfd")


def test_a_server_is_asked_for_one_skill_and_a_site_without_a_word_for_that_works_too(site: Site) -> None:
    pdf = site.entry("pdf", skill_text(), "skill-md")
    site.index(pdf, pdf | {"name": "deploy", "digest": digest(b"other")})
    before = resolved(site, "/.well-known/agent-skills/pdf").revision
    assert site.paths() == ["/.well-known/agent-skills/index.json?skill=pdf"]
    site.answers["/.well-known/agent-skills/index.json?skill=pdf"] = as_json({"$schema": SCHEMA, "skills": [pdf]})
    site.index()
    assert resolved(site, "/.well-known/agent-skills/pdf").revision == before


def test_an_index_may_lie_below_a_path(site: Site) -> None:
    site.answers["/team/.well-known/agent-skills/index.json"] = as_json({"skills": []})
    assert not fetched(site, "/team").candidates


def test_the_older_index_is_read_where_there_is_no_newer_one(site: Site) -> None:
    site.answers[f"{OLD}/index.json"] = as_json(
        {"skills": [{"name": "pdf", "description": "Reads.", "files": ["SKILL.md", "references/a b.md"]}]}
    )
    site.answers[f"{OLD}/pdf/SKILL.md"] = answer(skill_text(), "text/markdown")
    site.answers[f"{OLD}/pdf/references/a%20b.md"] = answer(b"More.", "text/html")
    found = fetched(site)
    assert found.candidates[0].files() == {"SKILL.md": ("file", skill_text()), "references/a b.md": ("file", b"More.")}
    assert "no digests" in found.warnings[0]
    assert not found.resolved.revision, "only the files tell whether anything changed"


@pytest.mark.covers("A-33")
def test_a_byte_that_changed_is_refused_before_anything_is_unpacked(site: Site) -> None:
    site.index(site.entry("pdf", zipped({"SKILL.md": skill_text()})))
    site.answers["/.well-known/agent-skills/pdf.zip"] = answer(b"no archive at all", "application/zip")
    with pytest.raises(IntegrityFailed, match="SHA-256") as error:
        fetched(site).candidates[0].files()
    assert error.value.context["actual"] == digest(b"no archive at all")


@pytest.mark.covers("A-33")
def test_an_index_of_another_form_is_not_read_and_that_is_told(site: Site) -> None:
    site.answers["/.well-known/agent-skills/index.json"] = as_json(
        {"$schema": "https://schemas.agentskills.io/discovery/9.0.0/schema.json", "skills": [{"name": "pdf"}]}
    )
    found = fetched(site)
    assert not found.candidates
    assert "9.0.0" in found.warnings[0]


@pytest.mark.covers("A-33")
@pytest.mark.each(
    ("changed", "why"),
    [
        ({"type": "wasm"}, "type 'wasm' is not known"),
        ({"digest": None}, "no digest"),
        ({"digest": "md5:abc"}, "no digest"),
        ({"digest": "sha256:" + "A" * 64}, "no digest"),
        ({"url": ""}, "no address"),
        ({"url": 7}, "no address"),
        ({"url": "file:///etc/passwd"}, "not followed"),
        ({"url": "ftp://127.0.0.1/x"}, "not followed"),
        ({"url": "data:text/plain,hello"}, "not followed"),
        ({"url": "http://[::1"}, "not followed"),
        ({"name": "../pdf"}, "no name of a skill"),
        ({"name": "--help"}, "no name of a skill"),
        ({"name": "PDF"}, "no name of a skill"),
        ({"name": ["pdf"]}, "no name of a skill"),
        ({"name": "p" * 65}, "no name of a skill"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_and_that_is_told(
    site: Site, changed: dict[str, object], why: str
) -> None:
    good = site.entry("good", skill_text("good"), "skill-md")
    site.index(site.entry("pdf", skill_text(), "skill-md") | changed, good)
    found = fetched(site)
    assert [one.folder for one in found.candidates] == ["good"]
    assert why in found.warnings[0]


def test_a_name_with_two_contents_is_left_out(site: Site) -> None:
    one = site.entry("pdf", skill_text(), "skill-md")
    site.index(one, one | {"digest": digest(b"other")})
    found = fetched(site)
    assert not found.candidates
    assert "two contents" in found.warnings[0]


def test_an_index_of_nonsense_tells_a_bounded_number_of_problems(site: Site) -> None:
    site.index(*[{"name": f"x{n}\x1b[2J"} for n in range(5_000)])
    found = fetched(site)
    assert len(found.warnings) == 21
    assert "4,980 more" in found.warnings[-1]
    assert "\x1b" not in "".join(found.warnings)


@pytest.mark.each(
    ("files", "error"),
    [
        ({"SKILL.md": skill_text("deploy")}, "has the skill 'deploy'"),
        ({"pdf/SKILL.md": skill_text()}, "no SKILL.md at its root"),
        ({"README.md": b"x"}, "no SKILL.md at its root"),
    ],
)
def test_an_archive_with_another_skill_than_announced_is_refused(
    site: Site, files: dict[str, bytes], error: str
) -> None:
    site.index(site.entry("pdf", zipped(files)))
    with pytest.raises(SkillInvalid, match=error):
        fetched(site).candidates[0].files()


@pytest.mark.each(
    "listed",
    [
        ["SKILL.md", "../../x"],
        ["SKILL.md", "/etc/passwd"],
        ["SKILL.md", "C:\\x"],
        ["SKILL.md", "skill.md"],
        ["SKILL.md", "a", "a/b"],
        ["SKILL.md", "con.txt"],
        ["SKILL.md", "a\u202eb"],
        ["SKILL.md", 5],
        ["SKILL.md", {"path": "x"}],
        ["README.md"],
        [],
        "SKILL.md",
        ["SKILL.md", *[f"f{n}" for n in range(2_000)]],
    ],
)
def test_files_that_no_skill_may_have_leave_out_the_entry(site: Site, listed: object) -> None:
    site.answers[f"{OLD}/index.json"] = as_json({"skills": [{"name": "pdf", "files": listed}]})
    found = fetched(site)
    assert not found.candidates
    assert "left out" in found.warnings[0]
    assert set(site.paths()) == {"/.well-known/agent-skills/index.json", f"{OLD}/index.json"}


def test_an_artifact_on_another_host_is_taken_by_its_digest_and_that_is_told(site: Site) -> None:
    with serving("127.0.0.2") as other:
        entry = other.entry("pdf", skill_text(), "skill-md")
        site.index(entry | {"url": f"{other.url}/.well-known/agent-skills/pdf.md"})
        candidate = fetched(site).candidates[0]
        assert candidate.skill_file() == skill_text()
    assert "127.0.0.2" in candidate.notes[0]


def test_a_site_without_an_index_says_so(site: Site) -> None:
    with pytest.raises(SourceUnavailable, match="answered 404"):
        resolved(site)
    assert site.paths() == ["/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"]


def test_a_page_in_place_of_an_index_is_no_index(site: Site) -> None:
    site.answers["/.well-known/agent-skills/index.json"] = answer(b"<html>", "text/html")
    with pytest.raises(SourceUnavailable, match="text/html"):
        resolved(site)


RELEASES = ("2.0", "1.1", "1.0")


def archive_of(version: str) -> bytes:
    return zipped({"SKILL.md": skill_text(body=f"Version {version}.")})


def released(site: Site, *, yanked: str = "", content: str = "", **more: object) -> None:
    """Announce a skill with three versions, the way our own registries do."""
    for version in RELEASES:
        site.answers[f"/.well-known/agent-skills/pdf-{version}.zip"] = answer(archive_of(version))
    releases = [
        {"version": one, "url": f"pdf-{one}.zip", "digest": digest(archive_of(one))}
        | ({"yanked": "It deletes files."} if one == yanked else {})
        for one in RELEASES
    ]
    own = {"version": "2.0", **({"content": content} if content else {})}
    entry = {"name": "pdf", "type": "archive", "url": "pdf-2.0.zip", "digest": digest(archive_of("2.0"))}
    extensions = {"dev.metier": {"releases": {"pdf": releases}, **more}}
    site.index(entry | {"extensions": {"dev.metier": own}}, extensions=extensions)


@pytest.mark.each(
    ("ref", "version"),
    [
        ("", "2.0"),
        ("2.0", "2.0"),
        ("1.1", "1.1"),
        (digest(archive_of("1.0")), "1.0"),
        (digest(archive_of("2.0")), "2.0"),
    ],
)
def test_an_earlier_version_is_chosen_by_its_number_or_digest(site: Site, ref: str, version: str) -> None:
    released(site)
    with fetch(resolve(parse_address(f"{site.url}/.well-known/agent-skills/pdf", ref=ref))) as found:
        (candidate,) = found.candidates
        assert candidate.version == version
        assert candidate.skill_file() == skill_text(body=f"Version {version}.")
    assert found.resolved.revision == digest(archive_of(version))


@pytest.mark.covers("A-37")
def test_a_version_that_was_withdrawn_is_not_resolved_but_stays_for_locks(site: Site) -> None:
    released(site, yanked="1.1")
    with pytest.raises(SourceUnavailable, match="withdrawn"):
        resolve(parse_address(site.url, ref="1.1"))
    with fetch(resolve(parse_address(site.url, ref=digest(archive_of("1.1"))))) as found:
        assert found.candidates[0].yanked == "It deletes files."


def test_a_successor_is_told(site: Site) -> None:
    released(site, deprecated={"pdf": {"successor": "documents", "reason": "It is old."}})
    found = fetched(site)
    told = "Deprecated. Use documents instead. It is old."
    assert (found.candidates[0].notes, found.resolved.deprecated) == ((told,), {"pdf": told})


def test_two_contents_for_one_version_leave_out_the_entry(site: Site) -> None:
    released(site)
    entry = site.entry("pdf", archive_of("other")) | {"extensions": {"dev.metier": {"version": "1.0"}}}
    releases = {"pdf": [{"version": "1.0", "url": "pdf-1.0.zip", "digest": digest(archive_of("1.0"))}]}
    site.index(entry, extensions={"dev.metier": {"releases": releases}})
    found = fetched(site)
    assert not found.candidates
    assert "two contents" in found.warnings[0]


def test_the_releases_of_a_name_are_read_once_however_often_it_is_announced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def record(base: str, url: str) -> str:
        read.append(url)
        return joined(base, url)

    monkeypatch.setattr(well_known, "joined", record)
    entry = {"name": "pdf", "type": "archive", "url": "pdf.zip", "digest": digest(b"")}
    releases = [{"version": f"1.{n}", "url": "old.zip", "digest": digest(b"")} for n in range(20)]
    for last in ([], [{"version": "1.0"}]):  # also where they cannot be used
        site.index(*[entry] * 20, extensions={"dev.metier": {"releases": {"pdf": releases + last}}})
        assert len(fetched(site).candidates) == (not last)
        assert read.count("old.zip") == 20
        read.clear()


def test_an_archive_that_differs_from_its_listing_is_refused(site: Site) -> None:
    released(site, content=digest(b"other"))
    with pytest.raises(IntegrityFailed, match="not those that the index announces"):
        fetched(site).candidates[0].files()


@pytest.mark.each(
    "more", [[], "x", {"dev.metier": 5}, {"dev.metier": {"releases": 5}}, {"dev.metier": {"deprecated": {"pdf": 5}}}]
)
def test_an_extension_of_another_shape_is_passed_over(site: Site, more: object) -> None:
    site.index(site.entry("pdf", skill_text(), "skill-md", extensions=more), extensions=more)
    assert fetched(site).candidates[0].files()


def test_a_skill_keeps_its_state_when_another_one_changes(site: Site) -> None:
    pdf, deploy = site.entry("pdf", skill_text(), "skill-md"), site.entry("deploy", skill_text("deploy"), "skill-md")
    site.index(pdf, deploy)
    before = resolved(site)
    site.index(pdf, deploy | {"digest": digest(b"other")})
    after = resolved(site)
    assert before.revision_of("pdf") == after.revision_of("pdf") == digest(skill_text())
    assert before.revision_of("deploy") != after.revision_of("deploy")
