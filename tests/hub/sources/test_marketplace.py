"""Marketplaces whose plugins lie in sources of their own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub.sources.git_repositories import commit, make_repository
from tests.hub.sources.loopback import Site, answer, as_json, digest, skill_text, zipped

from metier.errors import IntegrityFailed, InvalidArgument, SourceUnavailable
from metier.hub.install_plan import choose
from metier.hub.sources.address import parse_address
from metier.hub.sources.fetch import Candidate, fetch, resolve
from metier.hub.sources.marketplace import opened

ADDRESS = "{}/.claude-plugin/marketplace.json"


def market(site: Site, *plugins: Any) -> str:
    """Serve a marketplace; returns its address."""
    address = ADDRESS.format(site.url)
    site.answers["/.claude-plugin/marketplace.json"] = as_json({"name": "m", "owner": {}, "plugins": plugins})
    return address


def archive(site: Site, name: str, files: dict[str, bytes], **more: Any) -> dict[str, Any]:
    """Serve a plugin as an archive; returns its entry in a marketplace."""
    data = zipped(files)
    site.answers[f"/{name}.zip"] = answer(data, "application/zip")
    source = {"source": "archive", "url": f"{site.url}/{name}.zip", "sha256": digest(data).removeprefix("sha256:")}
    return {"name": name, "source": source | more}


def plugin(name: str = "tools", *skills: str, version: str = "1.2") -> dict[str, bytes]:
    manifest = json.dumps({"name": name, "version": version}).encode()
    return {".claude-plugin/plugin.json": manifest} | {
        f"skills/{skill}/SKILL.md": skill_text(skill) for skill in skills
    }


def test_a_plugin_is_fetched_only_when_it_is_chosen(site: Site) -> None:
    entries = [archive(site, name, plugin(name, f"{name}-a", f"{name}-b")) for name in ("one", "two")]
    resolved = resolve(parse_address(market(site, *entries)))
    assert resolved.revision.startswith("sha256:")
    with fetch(resolved) as listed:
        assert [(one.folder, one.is_plugin) for one in listed.candidates] == [("one", True), ("two", True)]
        assert site.paths() == ["/.claude-plugin/marketplace.json"]
        with opened(listed, ["two"]) as found:
            chosen = choose(found, ["two"])
            assert [(one.folder, one.package, one.version) for one in chosen] == [
                ("two-a", "two", "1.2"),
                ("two-b", "two", "1.2"),
            ]
            assert chosen[0].files() == {"SKILL.md": ("file", skill_text("two-a"))}
            assert chosen[0].source is not None
            assert chosen[0].source.name == f"archive+{site.url}/two.zip"
            assert chosen[0].resolved is not None
            assert chosen[0].resolved.revision == chosen[0].source.ref
    assert site.paths() == ["/.claude-plugin/marketplace.json", "/two.zip"]


@pytest.mark.each("name", ["b@one", "b", "@one"])
def test_a_skill_of_a_plugin_is_named_with_it(site: Site, name: str) -> None:
    address = market(site, archive(site, "one", plugin("one", "a", "b")), archive(site, "b", plugin("b", "c")))
    with fetch(resolve(parse_address(address))) as listed, opened(listed, [name]) as found:
        chosen = {"b@one": ["b"], "b": ["c"], "@one": ["a", "b"]}[name]
        assert [one.folder for one in choose(found, [name])] == chosen


def test_an_archive_that_is_not_what_the_marketplace_pins_is_refused(site: Site) -> None:
    entry = archive(site, "one", plugin("one", "a"), sha256="0" * 64)
    with (
        fetch(resolve(parse_address(market(site, entry)))) as listed,
        pytest.raises(IntegrityFailed),
        opened(listed, ["one"]),
    ):
        pass


def test_a_plugin_that_is_itself_a_marketplace_leads_no_further(site: Site) -> None:
    inner = json.dumps({"plugins": [archive(site, "one", {}, sha256="0" * 64)]}).encode()
    outer = archive(site, "one", {".claude-plugin/marketplace.json": inner, "skills/a/SKILL.md": skill_text("a")})
    with fetch(resolve(parse_address(market(site, outer)))) as listed, opened(listed, ["one"]) as found:
        assert [(one.folder, one.is_plugin) for one in found.candidates] == [("a", False)]


def test_plugins_beside_a_marketplace_that_was_fetched_alone_are_told(site: Site) -> None:
    address = market(site, {"name": "near", "source": "./near"})
    with fetch(resolve(parse_address(address))) as listed:
        assert listed.candidates == []
        assert "near" in listed.warnings[0]


def test_a_marketplace_in_a_file_has_the_plugins_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "market/.claude-plugin/marketplace.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"plugins": [{"name": "near", "source": "./near"}]}))
    skill = tmp_path / "market/near/skills/a/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(skill_text("a"))
    with fetch(resolve(parse_address(f"marketplace:{file}"))) as listed:
        assert [(one.folder, one.package) for one in listed.candidates] == [("a", "near")]


@pytest.mark.each("body", [b"", b"[]", b"{}", b"[" * 100_000, b'{"plugins": 7}'])
def test_a_marketplace_that_cannot_be_used_is_refused(site: Site, body: bytes) -> None:
    site.answers["/.claude-plugin/marketplace.json"] = answer(body, "application/json")
    with pytest.raises(SourceUnavailable), fetch(resolve(parse_address(ADDRESS.format(site.url)))):
        pass


def test_a_marketplace_of_many_plugins_asks_for_a_choice(site: Site) -> None:
    entries = [archive(site, name, plugin(name, "a")) for name in ("one", "two")]
    with fetch(resolve(parse_address(market(site, *entries)))) as listed:
        with pytest.raises(InvalidArgument, match="one, two"):
            choose(listed, [])
        with pytest.raises(InvalidArgument, match="is a plugin"):
            choose(listed, ["one"])[0].files()


@contextlib.contextmanager
def plugins_of(folder: Path, *plugins: dict[str, Any]) -> Iterator[list[Candidate]]:
    """The skills of all plugins of a marketplace in a folder."""
    file = folder / ".claude-plugin/marketplace.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"name": "m", "owner": {"name": "Acme"}, "plugins": plugins}))
    with (
        fetch(resolve(parse_address(str(folder)))) as listed,
        opened(listed, [str(one["name"]) for one in plugins]) as found,
    ):
        yield list(found.candidates)


@pytest.fixture
def repository(tmp_path: Path) -> tuple[str, str]:
    """The address of a repository with skills in several places, and its first commit, which has no other `b`."""
    bare = make_repository(tmp_path / "far.git")
    names = ("skills/a", "sub/skills/b", "more/c")
    first = commit(bare, {f"{name}/SKILL.md": skill_text(name[-1], "First.") for name in names})
    commit(bare, {f"{name}/SKILL.md": skill_text(name[-1], "Second.") for name in names})
    return f"file://{bare}", first


@pytest.mark.each(
    ("source", "more", "expected"),
    [
        ({"source": "url"}, {}, [("skills/a", "Second.")]),
        ({"source": "url", "sha": "FIRST"}, {}, [("skills/a", "First.")]),
        ({"source": "url", "ref": "main"}, {"strict": False, "skills": ["./more/c"]}, [("more/c", "Second.")]),
        ({"source": "git-subdir", "path": "./sub"}, {}, [("sub/skills/b", "Second.")]),
        ({"source": "git-subdir", "path": "sub", "ref": "main", "sha": "FIRST"}, {}, [("sub/skills/b", "First.")]),
    ],
)
def test_a_plugin_of_a_repository_has_its_own_skills_at_the_commit_that_is_pinned(
    tmp_path: Path, repository: tuple[str, str], source: dict[str, str], more: dict[str, Any], expected: list[Any]
) -> None:
    url, first = repository
    source = {key: value.replace("FIRST", first) for key, value in source.items()} | {"url": url}
    with plugins_of(tmp_path / "market", {"name": "far", "source": source, **more}) as found:
        bodies = [(one.path, one.skill_file().decode().split("---\n")[-1].strip()) for one in found]
        assert bodies == expected
        assert {one.package for one in found} == {"far"}


def test_a_commit_that_is_not_in_the_repository_is_refused(tmp_path: Path, repository: tuple[str, str]) -> None:
    source = {"source": "url", "url": repository[0], "sha": "0" * 40}
    with pytest.raises(SourceUnavailable), plugins_of(tmp_path / "market", {"name": "far", "source": source}):
        pass
