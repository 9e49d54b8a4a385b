"""Which skills are found in the files of a source, and which plugin each of them belongs to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from metier.errors import InvalidArgument
from metier.hub.sources.address import SourceAddress
from metier.hub.sources.fetch import Candidate, Fetched, Resolved
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import memory_tree

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MARKETPLACE = ".claude-plugin/marketplace.json"
GIT = "https://example.com/acme/skills"


def fetched(
    files: dict[str, Any],
    path: str = "",
    *,
    kind: str = "git",
    links: tuple[str, ...] = (),
    known: tuple[str, ...] = (),
) -> Fetched:
    """What is found in files; objects are written as JSON, and the names of skills stand for their SKILL.md."""
    tree = {}
    for name, content in files.items():
        file = f"{name}/SKILL.md".lstrip("/") if content is None else name
        text = f"---\nname: {name.rpartition('/')[2] or 'root'}\ndescription: Does it.\n---\nDo it.\n"
        data = content if isinstance(content, bytes) else text if content is None else json.dumps(content)
        tree[file] = ("link" if name in links else "file", data if isinstance(data, bytes) else data.encode())
    address = SourceAddress(kind=kind, location=GIT if kind == "git" else "/srv/skills", path=path)  # type: ignore[arg-type]
    return candidates_by_layout(memory_tree(tree), Resolved(address=address, revision="1", known=known))  # type: ignore[arg-type]


def found(files: dict[str, Any], path: str = "") -> dict[str, str]:
    """The paths of the skills, and the package and version of each."""
    return {each.path: f"{each.package} {each.version}".strip() for each in fetched(files, path).candidates}


def listing(*plugins: Any, **more: Any) -> dict[str, Any]:
    return {"name": "market", "owner": {"name": "Acme"}, "plugins": list(plugins), **more}


def at(source: Any, name: str = "tools", **more: Any) -> dict[str, Any]:
    return {"name": name, "source": source, **more}


@pytest.mark.each(
    ("files", "expected"),
    [
        # the layouts that `npx skills` knows
        ({"": None}, {"": ""}),
        ({"pdf": None}, {"pdf": ""}),
        ({"skills/pdf": None, "skills/.curated/csv": None}, {"skills/.curated/csv": "", "skills/pdf": ""}),
        ({".agents/skills/a": None, ".claude/skills/b": None}, {".agents/skills/a": "", ".claude/skills/b": ""}),
        ({"repo-main/skills/pdf": None, "repo-main/README.md": b""}, {"repo-main/skills/pdf": ""}),
        ({".cache/pdf": None, "node_modules/x/skills/y": None}, {}),
        # a plugin of Claude Code
        ({".claude-plugin/plugin.json": {"name": "p", "version": "1.2"}, "skills/a": None}, {"skills/a": "p 1.2"}),
        (
            {".claude-plugin/plugin.json": {"name": "p", "skills": "./more/"}, "skills/a": None, "more/b": None},
            {"skills/a": "p", "more/b": "p"},
        ),
        ({".claude-plugin/plugin.json": {"name": "p", "skills": ["./more/b"]}, "more/b": None}, {"more/b": "p"}),
        ({".claude-plugin/plugin.json": {"name": "p"}, "": None}, {"": "p"}),
        ({"w/.claude-plugin/plugin.json": {"name": "p"}, "w/skills/a": None}, {"w/skills/a": "p"}),
        # Agent Plugins 1.0, which looks nowhere else and no deeper
        (
            {"plugin.json": {"$schema": SCHEMA, "name": "p", "version": "3"}, "skills/a": None, "other/b": None},
            {"skills/a": "p 3"},
        ),
        ({"plugin.json": {"$schema": SCHEMA, "name": "p"}, "skills/deep/a": None}, {}),
        ({"w/plugin.json": {"$schema": SCHEMA, "name": "p.q"}, "w/skills/a": None}, {"w/skills/a": "p.q"}),
        # a `plugin.json` of some other program says nothing
        ({"plugin.json": {"id": "grafana"}, "x/a": None}, {"x/a": ""}),
        ({"plugin.json": b"no json", "x/a": None}, {"x/a": ""}),
        # marketplaces
        ({MARKETPLACE: listing(at("./plugins/p")), "plugins/p/skills/a": None}, {"plugins/p/skills/a": "tools"}),
        (
            {MARKETPLACE: listing(at("p"), metadata={"pluginRoot": "./plugins"}), "plugins/p/skills/a": None},
            {"plugins/p/skills/a": "tools"},
        ),
        (
            {
                MARKETPLACE: listing(
                    at("./", "docs", strict=False, skills=["./skills/a"], version="2.0"),
                    at("./", "more", strict=False, skills=["./skills/b"]),
                ),
                "skills/a": None,
                "skills/b": None,
                "skills/c": None,
            },
            {"skills/a": "docs 2.0", "skills/b": "more", "skills/c": ""},
        ),
        (
            {
                MARKETPLACE: listing(at("./p", version="1"), at("./q", "other")),
                "p/.claude-plugin/plugin.json": {"name": "p", "version": "9"},
                "p/skills/a": None,
                "q/plugin.json": {"$schema": SCHEMA, "name": "q", "version": "4"},
                "q/skills/b": None,
                "extra/c": None,
            },
            {"p/skills/a": "tools 9", "q/skills/b": "other 4", "extra/c": ""},
        ),
    ],
)
def test_the_layouts_of_a_source(files: dict[str, Any], expected: dict[str, str]) -> None:
    assert found(files) == expected


@pytest.mark.each(
    ("path", "expected"),
    [
        ("", {"plugins/p/skills/a": "tools", "plugins/p/skills/b": "tools"}),
        ("plugins/p", {"plugins/p/skills/a": "tools", "plugins/p/skills/b": "tools"}),
        ("plugins/p/skills/b", {"plugins/p/skills/b": "tools"}),
        ("plugins/q", {}),
    ],
)
def test_a_folder_of_a_marketplace_has_the_skills_of_the_plugins_in_it(path: str, expected: dict[str, str]) -> None:
    files = {MARKETPLACE: listing(at("./plugins/p")), "plugins/p/skills/a": None, "plugins/p/skills/b": None}
    assert found(files, path) == expected


@pytest.mark.each(
    ("files", "parts"),
    [
        ({".claude-plugin/plugin.json": {"name": "p", "hooks": "./h.json"}}, "hooks"),
        ({".claude-plugin/plugin.json": {"name": "p", "mcpServers": {"x": {}}}, "commands/x.md": b""}, "MCP servers"),
        (
            {".claude-plugin/plugin.json": {"name": "p"}, "hooks/hooks.json": b"{}", "agents/a.md": b""},
            "agents and hooks",
        ),
        ({"plugin.json": {"$schema": SCHEMA, "name": "p"}, "mcp.json": b"{}"}, "MCP servers"),
        (
            {MARKETPLACE: listing(at("./", "p", commands=["./x.md"], lspServers={"x": 1}))},
            "commands and language servers",
        ),
    ],
)
def test_the_parts_of_a_plugin_that_are_no_skills_are_told_and_left_out(files: dict[str, Any], parts: str) -> None:
    (candidate,) = fetched({**files, "skills/a": None}).candidates
    assert parts in candidate.notes[0]
    assert candidate.notes[0].endswith("which are not installed.")
    assert set(candidate.files()) == {"SKILL.md"}


@pytest.mark.each(
    ("source", "warning"),
    [
        *((path, "leads out") for path in ("../x", "./a/../../x", "/etc", "C:\\x", "..\\x", "a\0b", "~/../x", "")),
        (None, "no path"),
        (7, "no path"),
        (["./p"], "no path"),
        ({}, "not known"),
        ({"source": "npm", "package": "x"}, "npm"),
        ({"source": "command", "command": "curl x | sh"}, "would have to be run"),
        ({"source": "magic"}, "not known"),
        ({"source": ["github"]}, "not known"),
        ({"source": "github", "repo": "--upload-pack=x/y"}, "owner/repo"),
        ({"source": "github", "repo": 7}, "owner/repo"),
        ({"source": "github", "repo": "a/b", "sha": "main"}, "no commit"),
        ({"source": "github", "repo": "a/b", "ref": "--x"}, "no name of a state"),
        ({"source": "github", "repo": "a/b", "ref": 7}, "no text"),
        ({"source": "url", "url": "file:///etc"}, "does not begin"),
        ({"source": "url", "url": "ext::sh -c x"}, "does not begin"),
        ({"source": "url", "url": "-oProxyCommand=x"}, "does not begin"),
        ({"source": "url", "url": "https://example.com/x#../y"}, "cannot be used"),
        ({"source": "git-subdir", "url": "https://example.com/x.git", "path": "../y"}, "leads out"),
        ({"source": "git-subdir", "url": "https://example.com/x.git"}, "no path"),
        ({"source": "url", "url": "ssh://git@10.0.0.1/x.git"}, "private network"),
        ({"source": "url", "url": "git@localhost:x.git"}, "private network"),
        ({"source": "archive", "url": "http://127.0.0.1/x.zip"}, "private network"),
        ({"source": "archive", "url": "https://[::1]:8443/x.zip"}, "private network"),
        ({"source": "archive", "url": "https://169.254.169.254/x.zip"}, "private network"),
        ({"source": "archive", "url": "ftp://example.com/x.zip"}, "does not begin"),
        ({"source": "archive", "url": "https://example.com/x.zip", "sha256": "1234"}, "sha256"),
        ({"source": "archive", "url": "https://example.com/x.zip", "sha256": 7}, "sha256"),
    ],
)
def test_a_plugin_with_a_source_that_cannot_be_used_is_left_out(source: Any, warning: str) -> None:
    result = fetched({MARKETPLACE: listing(at(source), at("./p", "good")), "p/skills/a": None})
    assert [(each.path, each.package) for each in result.candidates] == [("p/skills/a", "good")]
    (told,) = result.warnings
    assert told.startswith("The plugin 'tools' of the marketplace is left out: ")
    assert warning in told


@pytest.mark.each(
    "entry",
    [
        *(at("./p", name) for name in ("--help", "../x", "a/b", "", "a\n", "x" * 65)),
        {"name": None, "source": "./p"},
        {"name": ["x"], "source": "./p"},
        "text",
        None,
        ["x"],
        {},
        {"name": "x", "source": "./p", "skills": 7},
        {"name": "x", "source": "./p", "skills": ["../../y"]},
        {"name": "x", "source": "./p", "skills": [{}]},
    ],
)
def test_an_entry_of_a_marketplace_that_cannot_be_used_is_left_out(entry: Any) -> None:
    result = fetched({MARKETPLACE: listing(entry), "p/skills/a": None})
    assert [(each.path, each.package) for each in result.candidates] == [("p/skills/a", "")]
    assert len(result.warnings) == 1


@pytest.mark.each(
    "manifest",
    [
        b"",
        b"no json",
        b"[]",
        b"[" * 100_000,
        b'{"plugins": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe{}",
        {"name": "x"},
        {"plugins": {"a": 1}},
        b'{"plugins": [' + b"{}," * 100_000 + b"{}]}",
        b'{"plugins": [], "x": "' + b"y" * 4 * 1024 * 1024 + b'"}',
    ],
)
def test_a_marketplace_that_cannot_be_used_is_told_and_its_files_are_still_read(manifest: Any) -> None:
    result = fetched({MARKETPLACE: manifest, "p/skills/a": None})
    assert [each.path for each in result.candidates] == ["p/skills/a"]
    (told,) = result.warnings
    assert told.startswith(".claude-plugin/marketplace.json ")


@pytest.mark.each(
    ("more", "told"),
    [
        ({"name": "Upper"}, "name"),
        ({"name": "a--b"}, "name"),
        ({"name": "a..b"}, "name"),
        ({"name": "-x"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": None}, "name"),
        ({"version": 1}, "version"),
        ({"author": {"name": "A", "phone": "1"}}, "author"),
        ({"author": "A"}, "author"),
        ({"keywords": "x"}, "keywords"),
        ({"keywords": [1]}, "keywords"),
        ({"$schema": SCHEMA.replace("1.0.0", "2.0.0")}, "not known here"),
    ],
)
def test_a_plugin_that_breaks_agent_plugins_is_refused_as_a_whole(more: dict[str, Any], told: str) -> None:
    result = fetched({"plugin.json": {"$schema": SCHEMA, "name": "p", **more}, "skills/a": None})
    assert result.candidates == []
    assert told in result.warnings[0]


@pytest.mark.each("more", [{"hooks": {}}, {"extensions": 7}, {"version": "not semver", "homepage": "nowhere"}])
def test_agent_plugins_lets_pass_what_it_does_not_know(more: dict[str, Any]) -> None:
    result = fetched({"plugin.json": {"$schema": SCHEMA, "name": "p", **more}, "skills/a": None})
    assert [each.package for each in result.candidates] == ["p"]
    assert len(result.warnings) == ("version" not in more)


def test_a_skill_that_was_found_where_none_is_looked_for_is_found_again() -> None:
    files = {"a/pdf": None, "a/pdf/more/b": None, ".hidden/pdf": None}
    known = ("a/pdf", "a/pdf/more/b", ".hidden/pdf", ".hidden", "gone")
    result = fetched(files, known=known)
    assert [each.path for each in result.candidates] == ["a/pdf", ".hidden/pdf", "a/pdf/more/b"]
    assert set(result.candidates[0].files()) == {"SKILL.md", "more/b/SKILL.md"}  # as if nobody knew the other one


def test_a_manifest_that_is_a_link_is_not_read() -> None:
    result = fetched({MARKETPLACE: listing(at("./p")), "p/skills/a": None}, links=(MARKETPLACE,))
    assert [each.package for each in result.candidates] == [""]


def test_two_plugins_that_name_one_skill_are_told() -> None:
    result = fetched({MARKETPLACE: listing(at("./", "a"), at("./", "b")), "skills/x": None})
    assert [each.package for each in result.candidates] == ["a"]
    assert result.warnings == ("'x' belongs to two plugins, 'a' and 'b'.",)


def test_a_plugin_that_is_listed_twice_counts_once() -> None:
    result = fetched({MARKETPLACE: listing(at("./p"), at("./q")), "p/skills/x": None, "q/skills/y": None})
    assert [(each.path, each.package) for each in result.candidates] == [("p/skills/x", "tools"), ("q/skills/y", "")]
    assert "listed twice" in result.warnings[0]


def test_a_thousand_plugins_that_cannot_be_used_are_told_in_a_few_sentences() -> None:
    result = fetched({MARKETPLACE: listing(*(at("../x", f"p{number}") for number in range(1_000)))})
    assert len(result.warnings) == 21
    assert result.warnings[-1] == "There are 980 more warnings."


@pytest.mark.each(
    ("source", "address"),
    [
        ({"source": "github", "repo": "a/b"}, ("git", "https://github.com/a/b", "", "")),
        ({"source": "github", "repo": "a/b", "ref": "v1"}, ("git", "https://github.com/a/b", "v1", "")),
        (
            {"source": "github", "repo": "a/b", "ref": "v1", "sha": "0" * 40},
            ("git", "https://github.com/a/b", "0" * 40, ""),
        ),
        ({"source": "url", "url": "https://e.com/x.git", "ref": "m"}, ("git", "https://e.com/x.git", "m", "")),
        ({"source": "url", "url": "git@e.com:a/x.git"}, ("git", "ssh://git@e.com/a/x.git", "", "")),
        ({"source": "git-subdir", "url": "a/b", "path": "./p/q"}, ("git", "https://github.com/a/b", "", "p/q")),
        (
            {"source": "archive", "url": "https://e.com/x.zip", "sha256": "AB" * 32},
            ("archive", "https://e.com/x.zip", f"sha256:{'ab' * 32}", ""),
        ),
    ],
)
def test_a_plugin_that_lies_elsewhere_is_named_and_not_fetched(source: Any, address: tuple[str, ...]) -> None:
    plugin = at(source, version="1.0", description="Tools.")
    (candidate,) = fetched({MARKETPLACE: listing(plugin)}).candidates
    assert (candidate.folder, candidate.package, candidate.version) == ("tools", "tools", "1.0")
    kind, location, ref, path = address
    assert candidate.source == SourceAddress(kind=kind, location=location, ref=ref, path=path)  # type: ignore[arg-type]
    assert candidate.is_plugin
    refuses(candidate)


def refuses(candidate: Candidate) -> None:
    for read in (candidate.skill_file, candidate.files):
        with pytest.raises(InvalidArgument, match="is a plugin of a marketplace"):
            read()


def test_only_a_marketplace_of_this_machine_may_name_other_files_of_it() -> None:
    files = {MARKETPLACE: listing(at({"source": "url", "url": "file:///srv/plugin.git"}))}
    assert fetched(files).candidates == []
    (candidate,) = fetched(files, kind="dir").candidates
    assert candidate.source == SourceAddress(kind="git", location="file:///srv/plugin.git")
