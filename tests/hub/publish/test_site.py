"""Registries as static sites."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.hub.conftest import records
from tests.hub.publish.conftest import HIGH, write_release

from metier._paths import SafePath
from metier.cli import main
from metier.errors import FileRefused, IntegrityFailed, InvalidArgument, MetierError, Refused, SourceUnavailable
from metier.guard import Actor
from metier.hub.publish import site_folder
from metier.hub.publish.registry_folder import RegistryFolder
from metier.hub.publish.site import build_site
from metier.hub.publish.site_folder import MARKER
from metier.hub.sources.plugin_manifest import AGENT_PLUGIN_SCHEMA
from metier.hub.sources.tree import archive_tree, candidates_of
from metier.hub.sources.well_known import EXTENSION, SCHEMA
from metier.library.skills_lock import computed_hash
from metier.skill import FolderPackage
from metier.skill.package import digest_of_files, files_of, sha256
from metier.store import TenantScope


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def index_of(site: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((site / ".well-known/agent-skills/index.json").read_text())
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A registry with a skill of two versions and one that has none."""
    folder = tmp_path / "acme"
    write_release(folder / "pdf/1.0.0", "1.0.0", name="pdf")
    write_release(folder / "pdf/1.10.0", "1.10.0", name="pdf", body="Do it better.")
    write_release(folder / "csv", "")
    return folder


@pytest.mark.covers("A-32")
def test_the_index_names_the_newest_release_and_its_archive(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    build_site(source, site)
    index = index_of(site)
    assert index["$schema"] == SCHEMA
    assert [(one["name"], one["type"]) for one in index["skills"]] == [("csv", "archive"), ("pdf", "archive")]
    csv, pdf = index["skills"]
    assert (csv["url"], pdf["url"]) == ("csv/csv.zip", "pdf/pdf-1.10.0.zip")
    data = (site / ".well-known/agent-skills" / pdf["url"]).read_bytes()
    assert pdf["digest"] == f"sha256:{sha256(data).hexdigest()}"
    files = files_of(FolderPackage(str(source / "pdf/1.10.0")))
    (candidate,) = candidates_of(archive_tree(data))
    assert digest_of_files(candidate.files()) == digest_of_files(files)
    more = pdf["extensions"][EXTENSION]
    assert (more["version"], more["content"], more["license"]) == ("1.10.0", digest_of_files(files), "MIT")
    assert more["permissions"]["capabilities"] == ["scripts"]
    assert more["computedHash"] == computed_hash(files)
    releases = index["extensions"][EXTENSION]["releases"]["pdf"]
    assert [one["version"] for one in releases] == ["1.10.0", "1.0.0"]
    for one in releases:
        data = (site / ".well-known/agent-skills" / one["url"]).read_bytes()
        assert one["digest"] == f"sha256:{sha256(data).hexdigest()}"


def test_the_index_of_before_lists_the_files_of_the_newest_release(source: Path, tmp_path: Path) -> None:
    build_site(source, tmp_path / "site")
    old = tmp_path / "site/.well-known/skills"
    csv, pdf = json.loads((old / "index.json").read_text())["skills"]
    assert (csv["name"], pdf["files"]) == ("csv", ["SKILL.md", "notes.md", "scripts/fill.py"])
    assert "Do it better." in (old / "pdf/SKILL.md").read_text()


def test_each_skill_is_a_plugin_of_a_marketplace_and_of_agent_plugins(source: Path, tmp_path: Path) -> None:
    (source / "registry.json").write_text(json.dumps({"name": "acme-skills", "owner": "Acme", "email": "a@acme.test"}))
    site = tmp_path / "site"
    build_site(source, site)
    marketplace = json.loads((site / ".claude-plugin/marketplace.json").read_text())
    assert (marketplace["name"], marketplace["owner"]) == ("acme-skills", {"name": "Acme", "email": "a@acme.test"})
    pdf = marketplace["plugins"][1]
    assert (pdf["name"], pdf["version"], pdf["source"]) == ("pdf", "1.10.0", "./plugins/pdf")
    plugin = json.loads((site / "plugins/pdf/plugin.json").read_text())
    assert plugin["$schema"] == AGENT_PLUGIN_SCHEMA
    closed = {"$schema", "name", "version", "description", "author", "license", "keywords", "extensions"}
    assert set(plugin) <= closed
    assert json.loads((site / "plugins/pdf/.claude-plugin/plugin.json").read_text())["name"] == "pdf"
    skill = FolderPackage(str(site / "plugins/pdf/skills/pdf"))
    assert skill.digest() == FolderPackage(str(source / "pdf/1.10.0")).digest()
    assert not (site / "marketplace.json").exists()


def test_a_marketplace_at_an_address_names_archives_with_their_hash(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    build_site(source, site, url="https://skills.acme.test/")
    pdf = json.loads((site / "marketplace.json").read_text())["plugins"][1]
    data = (site / "plugins/pdf-1.10.0.zip").read_bytes()
    assert pdf["source"] == {
        "source": "archive",
        "url": "https://skills.acme.test/plugins/pdf-1.10.0.zip",
        "sha256": sha256(data).hexdigest(),
    }
    assert sorted(archive_tree(data).modes)[:3] == [".claude-plugin/plugin.json", "plugin.json", "skills/pdf/SKILL.md"]


def test_a_site_that_is_built_again_is_the_same(source: Path, tmp_path: Path) -> None:
    build_site(source, tmp_path / "one")
    before = content_of(tmp_path / "one")
    for path in source.rglob("*"):
        os.utime(path, (1, 1))
    build_site(source, tmp_path / "one")
    build_site(source, tmp_path / "two")
    assert before == content_of(tmp_path / "one") == content_of(tmp_path / "two")


@pytest.mark.slow
def test_the_same_folder_gives_the_same_site_everywhere(source: Path, tmp_path: Path) -> None:
    build_site(source, tmp_path / "one")
    env = {**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    for path in source.rglob("*"):
        os.utime(path, (1, 1))
    command = ["-m", "metier", "registry", "build", str(source), "--to", str(tmp_path / "two")]
    subprocess.run([sys.executable, *command], env=env, check=True, capture_output=True)
    assert content_of(tmp_path / "one") == content_of(tmp_path / "two")
    build_site(source, tmp_path / "one")
    assert content_of(tmp_path / "one") == content_of(tmp_path / "two")
    assert sorted(os.listdir(tmp_path)) == ["acme", "one", "two"]


@pytest.mark.covers("A-37")
def test_a_yanked_version_is_not_listed_and_can_still_be_fetched(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    assert main(["registry", "yank", str(source), "pdf", "1.10.0", "--reason", "It loses data."]) == 0
    assert main(["registry", "deprecate", str(source), "pdf", "--successor", "csv", "--reason", "Old."]) == 0
    for _ in range(2):
        assert main(["registry", "build", str(source), "--to", str(site)]) == 0
        index = index_of(site)
        pdf = index["skills"][1]
        assert pdf["url"] == "pdf/pdf-1.0.0.zip"
        assert pdf["extensions"][EXTENSION]["deprecated"] == {"successor": "csv", "reason": "Old."}
        newest = index["extensions"][EXTENSION]["releases"]["pdf"][0]
        assert (newest["version"], newest["yanked"]) == ("1.10.0", "It loses data.")
        assert (site / ".well-known/agent-skills" / newest["url"]).is_file()
    assert main(["registry", "yank", str(source), "pdf", "1.0.0", "--reason", "That too."]) == 0
    assert main(["registry", "build", str(source), "--to", str(site)]) == 0
    assert [one["name"] for one in index_of(site)["skills"]] == ["csv"]
    assert "loses data" not in capsys.readouterr().err
    page = (site / "index.html").read_text()
    assert "every version was yanked" in page and "metier add ADDRESS csv" in page and "ADDRESS pdf" not in page
    assert not (site / "plugins/pdf").exists()


@pytest.mark.covers("A-37")
def test_what_was_withdrawn_can_be_taken_back(source: Path, tmp_path: Path) -> None:
    before = dict(RegistryFolder(source).record())
    main(["registry", "yank", str(source), "pdf", "1.10.0"])  # without a reason it is not done
    assert RegistryFolder(source).record() == before
    for undo in ([], ["--undo"]):
        for words in (["yank", str(source), "pdf", "1.10.0"], ["deprecate", str(source), "pdf"]):
            assert main(["registry", *words, "--reason", "It loses data.", *undo]) == 0
    assert RegistryFolder(source).record() == before
    for words in (["yank", str(source), "pdf", "1.10.0"], ["deprecate", str(source), "pdf"]):
        assert main(["registry", *words, "--undo"]) == 2  # there is nothing to undo
    build_site(source, tmp_path / "site")
    assert [one["url"] for one in index_of(tmp_path / "site")["skills"]] == ["csv/csv.zip", "pdf/pdf-1.10.0.zip"]


@pytest.mark.parametrize(
    "words", [("yank", "pdf", "2.0"), ("yank", "doc", "1.0.0"), ("deprecate", "doc"), ("yank", "pdf", "")]
)
def test_only_what_is_there_is_withdrawn(source: Path, words: tuple[str, ...]) -> None:
    verb, *rest = words
    assert main(["registry", verb, str(source), *rest, "--reason", "Why not."]) == 1
    assert not (source / "registry.json").exists()


def test_a_site_itself_is_not_changed_by_hand(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_site(source, tmp_path / "site")
    assert main(["registry", "yank", str(tmp_path / "site"), "pdf", "1.0.0", "--reason", "Why not."]) == 2
    assert "folder that it is built of" in capsys.readouterr().err


@pytest.mark.covers("A-37")
def test_a_version_never_changes_its_content(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    build_site(source, site)
    before = content_of(site)
    (source / "pdf/1.0.0/notes.md").write_text("Other notes.\n")
    with pytest.raises(IntegrityFailed, match=r"pdf-1\.0\.0"):
        build_site(source, site)
    assert content_of(site) == before
    (source / "csv/notes.md").write_text("It has no version, so it may change.\n")
    (source / "pdf/1.0.0/notes.md").write_text("Notes.\n")
    build_site(source, site)
    assert content_of(site) != before


def _foreign_file(site: Path) -> None:
    (site / "CNAME").write_text("skills.acme.test")


def _foreign_link(site: Path) -> None:
    (site / "plugins/more").symlink_to("/etc")


def _changed_page(site: Path) -> None:
    (site / "index.html").write_text("Mine.")


def _no_marker(site: Path) -> None:
    (site / MARKER).unlink()


def _broken_marker(site: Path) -> None:
    (site / MARKER).write_text("[" * 100_000)


def _lying_marker(site: Path) -> None:
    (site / MARKER).write_text('{"files": ["index.html"], "releases": 3}')


def _marker_is_a_link(site: Path) -> None:
    (site / MARKER).rename(site.parent / "marker")
    (site / MARKER).symlink_to(site.parent / "marker")


def _page_is_a_pipe(site: Path) -> None:
    (site / "index.html").unlink()
    os.mkfifo(site / "index.html")


@pytest.mark.parametrize(
    "change",
    [
        *(_foreign_file, _foreign_link, _changed_page, _no_marker, _broken_marker, _lying_marker),
        *(_marker_is_a_link, _page_is_a_pipe),
    ],
)
def test_a_folder_with_anything_that_is_not_ours_stays_as_it_is(source: Path, tmp_path: Path, change: Any) -> None:
    site = tmp_path / "site"
    build_site(source, site)
    change(site)
    before = sorted(os.listdir(site))
    with pytest.raises(FileRefused):
        build_site(source, site)
    assert sorted(os.listdir(site)) == before
    assert not (tmp_path / ".metier-staging").exists()


@pytest.mark.parametrize("kind", ["file", "link", "home"])
def test_what_is_no_folder_of_a_site_is_not_replaced(source: Path, tmp_path: Path, kind: str) -> None:
    site = tmp_path / "site"
    if kind == "file":
        site.write_text("Mine.")
    elif kind == "link":
        (tmp_path / "other").mkdir()
        site.symlink_to(tmp_path / "other")
    else:
        site = source
    with pytest.raises(FileRefused):
        build_site(source, site)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"---\nname: pdf\ndescription: Do it. Use it.\nversion: 2.0.0\n---\n{HIGH}", Refused),
        ("---\nname: pdf\ndescription: Do it. Use it.\nversion: 3.0.0\n---\nDo.\n", MetierError),
        ("---\nname: other\ndescription: Do it. Use it.\nversion: 2.0.0\n---\nDo.\n", InvalidArgument),
        ("no frontmatter", MetierError),
    ],
)
def test_one_bad_release_stops_a_build_and_the_old_site_stays(
    source: Path, tmp_path: Path, text: str, error: type[MetierError]
) -> None:
    site = tmp_path / "site"
    build_site(source, site)
    before = content_of(site)
    (source / "pdf/2.0.0").mkdir()
    (source / "pdf/2.0.0/SKILL.md").write_text(text)
    with pytest.raises(error):
        build_site(source, site)
    assert content_of(site) == before
    assert sorted(os.listdir(tmp_path)) == ["acme", "site"]


def test_links_in_the_folder_of_a_registry_are_not_followed(source: Path, tmp_path: Path) -> None:
    outside = write_release(tmp_path / "outside/secret")
    (source / "secret").symlink_to(outside)
    (source / "doc").mkdir()
    (source / "doc/1.0.0").symlink_to(outside)
    built = build_site(source, tmp_path / "site")
    assert [one["name"] for one in built.current] == ["csv", "pdf"]


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"yanked": []}', '{"name": 3}', '{"deprecated": {"pdf": "x"}}', "[" * 50_000]
)
def test_a_broken_record_is_left_to_people(source: Path, tmp_path: Path, text: str) -> None:
    (source / "registry.json").write_text(text)
    with pytest.raises(SourceUnavailable):
        build_site(source, tmp_path / "site")
    assert main(["registry", "yank", str(source), "pdf", "1.0.0", "--reason", "Why not."]) == 2
    assert (source / "registry.json").read_text() == text


TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "p",
    "pre",
    "article",
    "dl",
    "dt",
    "dd",
    "code",
    "a",
}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src") or name.startswith("on")]


@pytest.mark.covers("A-49")
def test_the_page_is_inert_whatever_skills_say(tmp_path: Path) -> None:
    source = tmp_path / "acme"
    write_release(source / "pdf/0.9", "0.9", name="pdf")
    write_release(source / "pdf/1.0.0", name="pdf", more='tags: ["<b>", "\'\\">"]\n')
    hostile = "Fills </p><script>alert(1)</script> forms & more. Use when \"asked' <svg onload=alert(1)>."
    text = (source / "pdf/1.0.0/SKILL.md").read_text()
    text = re.sub("description:.*", f"description: {json.dumps(hostile)}", text)
    text = text.replace("license: MIT", 'license: "<img src=x onerror=alert(1)>"')
    (source / "pdf/1.0.0/SKILL.md").write_text(text)
    said = {"description": "</title><script>", "owner": "<x>", "url": "https://a.test/'\"><script>"}
    (source / "registry.json").write_text(json.dumps(said))
    main(["registry", "yank", str(source), "pdf", "0.9", "--reason", "<script>x</script>"])
    main(["registry", "deprecate", str(source), "pdf", "--reason", "<iframe src=//x>"])
    build_site(source, tmp_path / "site")
    found = _Tags()
    page = (tmp_path / "site/index.html").read_text()
    found.feed(page)
    assert found.tags <= TAGS
    assert escape(hostile) in page
    assert all(address.startswith(".well-known/agent-skills/") for address in found.addresses)
    assert "default-src &#x27;none&#x27;" in page
    for name in (".claude-plugin/marketplace.json", ".well-known/agent-skills/index.json"):
        json.loads((tmp_path / "site" / name).read_text())


def test_policy_decides_what_a_site_may_have(source: Path, tmp_path: Path, guarded: Any, scope: TenantScope) -> None:
    guard = guarded(("enterprise", "version: 1\nrules:\n  - {id: no-pdf, point: publish, skill: pdf, effect: deny}\n"))
    with pytest.raises(Refused, match="no-pdf"):
        build_site(source, tmp_path / "site", by=(guard, Actor(user="eve")))
    assert not (tmp_path / "site").exists()
    (record,) = records(scope, "registry.refused")
    assert (record["user"], record["skill"], record["decision"]) == ("eve", "pdf", "deny")


def test_an_empty_folder_makes_no_site(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    with pytest.raises(InvalidArgument):
        build_site(tmp_path / "acme", tmp_path / "site")
    assert not (tmp_path / "site").exists()


def killed_at(step: int, build: Callable[[], object]) -> bool:
    """Whether a process that builds a site was killed right before one of its steps that change files."""
    child = os.fork()
    if child == 0:
        steps = itertools.count()

        def counted(function: Any) -> Any:
            def call(*words: Any, **more: Any) -> Any:
                if next(steps) == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*words, **more)

            return call

        for owner, name in (
            (SafePath, "create"),
            (SafePath, "rename"),
            (site_folder, "atomic_swap"),
            (site_folder, "safe_rmtree"),
        ):
            setattr(owner, name, counted(getattr(owner, name)))
        build()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.covers("A-35")
def test_a_build_that_is_killed_at_any_step_leaves_the_old_site_or_the_new_one(tmp_path: Path) -> None:
    source, site = tmp_path / "acme", tmp_path / "site"
    write_release(source / "csv", "")
    build_site(source, site)
    old = content_of(site)
    (source / "csv/notes.md").write_text("Other notes.\n")
    build_site(source, tmp_path / "other")
    new = content_of(tmp_path / "other")
    seen = []
    for step in itertools.count():
        was_killed = killed_at(step, lambda: build_site(source, site))
        found = content_of(site)
        assert found in (old, new), f"half a site after step {step}"
        seen.append(found == new)
        if not was_killed:
            break
    assert seen[0] is False and seen[-1] is True
    assert step > 10
    build_site(source, site)
    assert content_of(site) == new
    assert sorted(os.listdir(tmp_path)) == ["acme", "other", "site"]
