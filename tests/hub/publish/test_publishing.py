"""Skills published to folders and repositories."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import ADA, BUILDER, EVE, records
from tests.hub.publish.conftest import HIGH, write_release
from tests.hub.publish.test_oci import registry
from tests.hub.sources.git_repositories import served_by_http
from tests.signing import new_key, sign_folder

from metier import Guard
from metier.cli import main
from metier.errors import (
    IntegrityFailed,
    InvalidArgument,
    NotPermitted,
    Refused,
    SkillExists,
    SkillInvalid,
    SourceUnavailable,
    StoreUnavailable,
)
from metier.guard import Actor
from metier.guard.approvals.quarantine import quarantine
from metier.hub.publish.publishing import publish
from metier.hub.publish.site import build_site
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import fetch, resolve
from metier.skill import FolderPackage
from metier.skill.package import digest_of_files
from metier.store import Person, Store, TenantScope, default_store

Guarded = Callable[..., Guard]


def git(*words: str, at: Path) -> str:
    done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A bare repository with one commit of somebody else."""
    bare, work = tmp_path / "skills.git", tmp_path / "work"
    git("init", "-q", "--bare", "-b", "main", str(bare), at=tmp_path)
    git("clone", "-q", str(bare), str(work), at=tmp_path)
    (work / "skills/csv").mkdir(parents=True)
    (work / "skills/csv/SKILL.md").write_text("---\nname: csv\ndescription: Read tables.\n---\nRead.\n")
    (work / "README.md").write_text("Skills of Acme.\n")
    git("add", "-A", at=work)
    git("-c", "user.name=x", "-c", "user.email=x@x.test", "commit", "-qm", "First", at=work)
    git("push", "-q", "origin", "HEAD:main", at=work)
    return bare


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    return write_release(tmp_path / "made/pdf")


@pytest.mark.covers("A-37")
def test_a_version_is_published_to_a_folder_once(pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard) -> None:
    done = publish(scope, EVE, pdf, f"dir:{tmp_path}/acme", reason="It is good.", guard=guard)
    folder = tmp_path / "acme/pdf/1.0.0"
    digest = FolderPackage(str(pdf)).digest()
    assert (done.location, done.release.digest) == (str(folder), digest)
    assert FolderPackage(str(folder)).digest() == digest
    said = json.loads((tmp_path / "acme/registry.json").read_text())["published"]["pdf"]["1.0.0"]
    assert (said["digest"], said["by"]) == (digest, "eve")
    (record,) = records(scope, "skill.published")
    assert (record["user"], record["skill"], record["source"]) == ("eve", "pdf", f"dir:{tmp_path}/acme")
    assert (record["new_digest"], record["reason"]) == (digest, "It is good.")
    for version in ("1.0.0", "1.0", "v1.0.0", "1.0.0+0"):
        write_release(tmp_path / f"again-{version}/pdf", version)
    for again in (pdf, tmp_path / "again-1.0/pdf"):
        with pytest.raises(SkillExists, match="published already"):
            publish(scope, EVE, again, f"dir:{tmp_path}/acme", guard=guard)
    publish(scope, EVE, write_release(tmp_path / "newer/pdf", "1.1"), f"dir:{tmp_path}/acme", guard=guard)
    built = build_site(tmp_path / "acme", tmp_path / "site")
    assert [(one["version"], one["provenance"]["by"]) for one in built.skills["pdf"]] == [
        ("1.1", "eve"),
        ("1.0.0", "eve"),
    ]


def test_a_removed_release_is_not_published_again_and_a_changed_one_is_not_served(
    pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard
) -> None:
    acme = tmp_path / "acme"
    publish(scope, EVE, pdf, str(acme), guard=guard)
    (acme / "pdf/1.0.0/notes.md").write_text("Changed.\n")
    with pytest.raises(IntegrityFailed):
        build_site(acme, tmp_path / "site")
    (acme / "pdf/1.0.0").rename(tmp_path / "gone")
    with pytest.raises(SkillExists):
        publish(scope, EVE, pdf, str(acme), guard=guard)


@pytest.mark.covers("A-37")
@pytest.mark.parametrize("address", ["git+file://{0}", "git+file://{0}@main", "git+file://{0}#tools/own"])
def test_a_version_is_a_commit_and_a_tag_of_a_repository(
    pdf: Path, repository: Path, tmp_path: Path, scope: TenantScope, guard: Guard, address: str
) -> None:
    before = git("rev-parse", "main", at=repository)
    to = address.format(repository)
    done = publish(scope, ADA, pdf, to, reason="It is good.", guard=guard)
    assert done.location == "pdf/v1.0.0"
    assert git("rev-parse", "main", at=repository) == git("rev-parse", "pdf/v1.0.0", at=repository) == done.revision
    assert git("rev-parse", "main^", at=repository) == before
    where = "tools/own" if "#" in to else "skills"
    listed = git("ls-tree", "-r", "--name-only", "main", at=repository).splitlines()
    assert {"README.md", "skills/csv/SKILL.md", f"{where}/pdf/SKILL.md"} <= set(listed)
    resolved = resolve(parse_address(f"git+file://{repository}@pdf/v1.0.0"))
    with fetch(resolved) as fetched:
        found = {one.folder: digest_of_files(one.files()) for one in fetched.candidates if one.folder == "pdf"}
    assert found == {"pdf": FolderPackage(str(pdf)).digest()}
    again = write_release(tmp_path / "again/pdf", "1.0", body="Another content.")
    with pytest.raises(SkillExists):
        publish(scope, ADA, again, to, guard=guard)
    newer = write_release(tmp_path / "newer/pdf", "1.1.0", body="More.")
    (newer / "notes.md").unlink()
    publish(scope, ADA, newer, to, guard=guard)
    listed = git("ls-tree", "-r", "--name-only", "main", at=repository).splitlines()
    assert f"{where}/pdf/notes.md" not in listed
    assert git("rev-list", "--count", "main", at=repository) == "3"


def test_a_version_is_an_artifact_of_an_oci_registry(
    pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard
) -> None:
    with registry() as (host, _):
        to = f"oci:{host}/acme/pdf"
        done = publish(scope, ADA, pdf, to, guard=guard)
        with fetch(resolve(parse_address(f"{to}:1.0.0"))) as fetched:
            assert [digest_of_files(one.files()) for one in fetched.candidates] == [done.release.digest]
        with pytest.raises(SkillExists):
            publish(scope, ADA, write_release(tmp_path / "again/pdf", body="Another."), to, guard=guard)
    (record,) = records(scope, "skill.published")
    assert (record["source"], done.revision in str(record["notes"])) == (f"oci:{host}/acme/pdf", True)


def test_the_first_release_makes_the_first_commit_of_a_repository(
    pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard
) -> None:
    git("init", "-q", "--bare", "-b", "main", "empty.git", at=tmp_path)
    publish(scope, ADA, pdf, f"git+file://{tmp_path}/empty.git", guard=guard)
    assert git("log", "--format=%s", "main", at=tmp_path / "empty.git") == "Publish pdf 1.0.0"


def test_nothing_is_published_where_the_server_refuses_a_part(
    pdf: Path, repository: Path, scope: TenantScope, guard: Guard
) -> None:
    hook = repository / "hooks/update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/tags/*) exit 1;; esac\n')
    hook.chmod(0o755)
    before = git("rev-parse", "main", at=repository)
    with pytest.raises(SourceUnavailable, match="Nothing was published"):
        publish(scope, ADA, pdf, f"git+file://{repository}", guard=guard)
    assert git("rev-parse", "main", at=repository) == before
    assert git("tag", at=repository) == ""
    assert records(scope, "skill.published") == []
    assert [one["decision"] for one in records(scope, "skill.publishing")] == ["allow", "deny"]


def test_nothing_leaves_that_cannot_be_put_on_record(
    pdf: Path, repository: Path, scope: TenantScope, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("The disk is full.", hint="Make room.")

    monkeypatch.setattr("metier.hub.publish.publishing.record_event", fail)
    with pytest.raises(StoreUnavailable):
        publish(scope, ADA, pdf, f"git+file://{repository}", guard=guard)
    assert git("tag", at=repository) == ""


def test_no_hook_and_no_file_name_of_anybody_runs_anything(
    tmp_path: Path, repository: Path, scope: TenantScope, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-push").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "pre-push").chmod(0o755)
    (tmp_path / "config").write_text(f"[core]\nhooksPath = {hooks}\n[user]\nname = Eve\nemail = eve@acme.test\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    folder = write_release(tmp_path / "made/pdf", body="Do.", more="")
    for name in ('say "hi".md', "-c.md", "ä ö.md", "a'b.md"):
        (folder / name).write_text(name)
    publish(scope, ADA, folder, f"git+file://{repository}", guard=guard)
    assert not (tmp_path / "ran").exists()
    shown = git("-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", "main", at=repository).split("\0")
    assert {'skills/pdf/say "hi".md', "skills/pdf/-c.md", "skills/pdf/ä ö.md"} <= set(shown)


@pytest.mark.parametrize(
    ("version", "body", "error"),
    [("", "Do it.", SkillInvalid), ("latest", "Do it.", SkillInvalid), ("1.0.0", HIGH, Refused)],
)
def test_what_is_not_sound_is_not_published(
    tmp_path: Path, repository: Path, scope: TenantScope, guard: Guard, version: str, body: str, error: Any
) -> None:
    folder = write_release(tmp_path / "made/pdf", version, body=body)
    for to in (f"dir:{tmp_path}/acme", f"git+file://{repository}"):
        with pytest.raises(error):
            publish(scope, ADA, folder, to, guard=guard)
    assert not (tmp_path / "acme").exists()
    assert git("tag", at=repository) == ""
    if error is Refused:
        assert len(records(scope, "skill.refused")) == 2
        publish(scope, ADA, folder, f"dir:{tmp_path}/acme", accept_findings="It teaches.", guard=guard)
        (record,) = records(scope, "skill.published")
        assert "Findings accepted: It teaches." in record["notes"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rule", "is_denied"),
    [
        ("{id: r, point: publish, effect: deny}", True),
        ("{id: r, point: publish, source: 'dir:*', effect: deny}", True),
        ("{id: r, point: publish, source: 'git+*', effect: deny}", False),
        ("{id: r, point: publish, when: {capability: scripts}, effect: ask}", True),
        ("{id: r, point: publish, when: {capability: hooks}, effect: deny}", False),
        ("{id: r, point: install, effect: deny}", False),
    ],
)
def test_policy_decides_what_is_published_where(
    pdf: Path, tmp_path: Path, scope: TenantScope, guarded: Guarded, rule: str, is_denied: bool
) -> None:
    guard = guarded(("enterprise", f"version: 1\nrules:\n  - {rule}\n"))
    if not is_denied:
        publish(scope, EVE, pdf, f"dir:{tmp_path}/acme", guard=guard)
        return
    with pytest.raises(Refused, match="rule r"):
        publish(scope, EVE, pdf, f"dir:{tmp_path}/acme", guard=guard)
    (record,) = records(scope, "skill.refused")
    assert (record["user"], record["source"]) == ("eve", f"dir:{tmp_path}/acme")
    assert not (tmp_path / "acme").exists()


def test_a_policy_that_cannot_be_read_lets_nothing_out(
    pdf: Path, tmp_path: Path, scope: TenantScope, guarded: Guarded
) -> None:
    with pytest.raises(Refused):
        publish(scope, EVE, pdf, f"dir:{tmp_path}/acme", guard=guarded(("enterprise", "rules: [")))


def test_what_is_in_quarantine_is_not_published(pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard) -> None:
    quarantine(scope, ADA, "digest", FolderPackage(str(pdf)).digest(), reason="It is bad.")
    with pytest.raises(Refused, match="quarantine"):
        publish(scope, ADA, pdf, f"dir:{tmp_path}/acme", guard=guard)


@pytest.mark.parametrize("person", [BUILDER, Person(name="vi", roles=frozenset({"viewer"}))], ids=lambda one: one.name)
def test_agents_and_viewers_publish_nothing(
    pdf: Path, tmp_path: Path, scope: TenantScope, guard: Guard, person: Person
) -> None:
    with pytest.raises(NotPermitted):
        publish(scope, person, pdf, f"dir:{tmp_path}/acme", guard=guard)
    (record,) = records(scope, "skill.refused")
    assert record["notes"] == ["tried skill.published"]


@pytest.mark.parametrize(
    "to", ["https://example.test", "pypi:skills", "archive:/x.zip", "git+file://{0}@no-such-branch", "git+ext://x y"]
)
def test_other_targets_are_refused(pdf: Path, repository: Path, scope: TenantScope, guard: Guard, to: str) -> None:
    with pytest.raises((InvalidArgument, SourceUnavailable)):
        publish(scope, ADA, pdf, to.format(repository), guard=guard)


def test_the_command_says_where_it_is(pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(pdf), "--to", f"dir:{tmp_path}/acme", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "name": "pdf",
        "version": "1.0.0",
        "digest": FolderPackage(str(pdf)).digest(),
        "target": f"dir:{tmp_path}/acme",
        "location": f"{tmp_path}/acme/pdf/1.0.0",
        "revision": None,
        "copied": [],
    }
    assert main(["publish", str(pdf), "--to", f"dir:{tmp_path}/acme"]) == 1
    assert "published already" in capsys.readouterr().err


def test_a_dry_run_says_what_would_be_published_and_writes_nothing(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf = write_release(tmp_path / "made/pdf")
    high = write_release(tmp_path / "high/pdf", body=HIGH)
    before = sorted(tmp_path.rglob("*"))
    for to, location in (
        (f"dir:{tmp_path}/acme", f"{tmp_path}/acme/pdf/1.0.0"),
        (f"git+file://{repository}", "pdf/v1.0.0"),
    ):
        assert main(["publish", str(pdf), "--to", to, "--dry-run", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["dry_run"], told["decision"], told["location"]) == (True, "allow", location)
        assert main(["publish", str(high), "--to", to, "--dry-run"]) == 1
        assert "would not be published" in (out := capsys.readouterr().out) and "the worst" in out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.covers("A-38")
@pytest.mark.parametrize("text", ["require: {signature: [oms]}", "signers: {'dir:*': ['%s']}"])
def test_policy_sees_the_signature_of_what_is_published(
    pdf: Path, tmp_path: Path, own_home: Path, scope: TenantScope, guarded: Guarded, text: str
) -> None:
    key, other = new_key(own_home / ".metier/keys"), new_key(tmp_path, "other")
    signer = sign_folder(pdf, key)
    guard = guarded(("enterprise", f"version: 1\nsources: {{{text.replace('%s', signer)}}}\n"))
    done = publish(scope, EVE, pdf, f"dir:{tmp_path}/acme", guard=guard)
    assert done.judged.signer == signer
    assert f"signed by {signer}" in str(records(scope, "skill.published")[0]["notes"])
    assert build_site(tmp_path / "acme", tmp_path / "site", by=(guard, Actor())).skills["pdf"][0]["signature"] == "oms"
    unsigned = write_release(tmp_path / "unsigned/pdf", "2.0")
    stranger = write_release(tmp_path / "stranger/pdf", "2.0")
    sign_folder(stranger, other)
    for folder in (unsigned, stranger):
        with pytest.raises(Refused):
            publish(scope, EVE, folder, f"dir:{tmp_path}/acme", guard=guard)
    assert len(records(scope, "skill.refused")) == 2


def test_whatever_is_made_of_releases_is_on_record_where_there_is_a_store(pdf: Path, tmp_path: Path) -> None:
    acme, site = f"{tmp_path}/acme", f"{tmp_path}/site"
    pack = ["pack", str(pdf), "--to", f"{tmp_path}/pdf.zip"]
    assert main(pack) == 0 and Store.peek(default_store()) is None  # it alone makes no store
    for words in (
        ["publish", str(pdf), "--to", acme],
        pack,
        ["registry", "build", acme, "--to", site],
        ["registry", "yank", acme, "pdf", "1.0.0", "--reason", "It loses data."],
        ["registry", "yank", acme, "pdf", "1.0.0", "--undo"],
        ["registry", "deprecate", acme, "pdf", "--successor", "csv"],
        ["registry", "deprecate", acme, "pdf", "--undo"],
    ):
        assert main(words) == 0
    assert main(["registry", "yank", acme, "pdf", "9.0", "--reason", "It is not there."]) == 1
    with Store.open(default_store()) as store:
        found = {str(one["type"]): one for one in store.of().audit.tail(100)}
    made = [
        "skill.packed",
        "registry.built",
        "skill.yanked",
        "skill.unyanked",
        "skill.deprecated",
        "skill.undeprecated",
    ]
    assert list(found) == ["skill.publishing", "skill.published", *made]
    assert (found["skill.packed"]["path"], found["registry.built"]["path"]) == (f"{tmp_path}/pdf.zip", site)
    assert (found["skill.yanked"]["reason"], found["skill.yanked"]["notes"]) == ("It loses data.", ["version 1.0.0"])
    assert all(one["user"] for one in found.values())


@pytest.mark.slow
@pytest.mark.covers("A-37")
def test_a_version_is_pushed_over_http_unless_the_server_refuses(
    pdf: Path, repository: Path, tmp_path: Path, scope: TenantScope, guard: Guard
) -> None:
    with served_by_http(tmp_path) as (url, _):
        to = f"git+{url}/skills.git"
        with pytest.raises(SourceUnavailable, match=r"(?s)Nothing was published.*403") as caught:
            publish(scope, ADA, pdf, to, guard=guard)  # a server of git takes nothing from strangers
        assert "may push" in (caught.value.hint or "")
        git("config", "http.receivepack", "true", at=repository)
        done = publish(scope, ADA, pdf, to, guard=guard)
        assert git("rev-parse", "pdf/v1.0.0", at=repository) == git("rev-parse", "main", at=repository) == done.revision
        with fetch(resolve(parse_address(f"{to}@pdf/v1.0.0"))) as fetched:
            found = {one.folder: digest_of_files(one.files()) for one in fetched.candidates}
        assert found["pdf"] == done.release.digest
        (repository / "hooks/pre-receive").write_text(
            "#!/bin/sh\necho 'Releases are frozen until Monday.' >&2\nexit 1\n"
        )
        (repository / "hooks/pre-receive").chmod(0o755)
        with pytest.raises(SourceUnavailable, match=r"Nothing was published.*frozen until Monday"):
            publish(scope, ADA, write_release(tmp_path / "newer/pdf", "1.1"), to, guard=guard)
    assert git("tag", at=repository) == "pdf/v1.0.0"
