"""The skills extension: entries that a host can verify, and files by URI."""

from __future__ import annotations

import base64
import hashlib
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
import yaml
from mcp.shared.exceptions import MCPError
from tests.serve.clients import MODES, NO, YES, answering, ask, in_one_mode, talk

from metier import Change, Library
from metier.guard import MemoryLog, Policy
from metier.library.watch import Watch
from metier.serve.mcp import SkillServer
from metier.serve.mcp.manifests import SkillManifests
from metier.serve.mcp.pages import PAGE, cursor_after
from metier.skill import FolderPackage

BAD_URIS = [
    "skill://../../etc/passwd",
    "skill://forms/../deploy/SKILL.md",
    "skill://forms/%2e%2e/deploy/SKILL.md",
    "skill://forms/references%2ffields.md",
    "skill://forms/..%2f..%2fetc%2fpasswd",
    "skill://forms/references/./fields.md",
    "skill://forms//SKILL.md",
    "skill://forms/SKILL.md?x=1",
    "skill://forms/SKILL.md#x",
    "skill://forms/%00",
    "skill://forms/\0",
    "skill://forms/%ff",
    "skill://forms/references",
    "skill://forms/no-such.md",
    "skill://forms@project/SKILL.md",
    "skill://Forms/SKILL.md",
    "skill://deploy/SKILL.md",
    "skill://no-such/SKILL.md",
    "skill://",
    "skill:///SKILL.md",
    "file:///etc/passwd",
    "",
    "x" * 100_000,
]


async def content(client: mcp.Client, uri: str) -> bytes:
    (found,) = (await client.read_resource(uri)).contents
    text = getattr(found, "text", None)
    return text.encode() if text is not None else base64.b64decode(getattr(found, "blob"))  # noqa: B009


@pytest.mark.parametrize("mode", MODES)
def test_every_file_of_every_listed_skill_has_the_digest_and_size_it_is_served_with(
    serve: Callable[..., SkillServer], mode: str
) -> None:
    async def use(client: mcp.Client) -> list[str]:
        listed = await ask(client, "skills/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")
        for entry in listed["skills"]:
            assert entry["uri"] in [resource["uri"] for resource in entry["resources"]]
            for resource in entry["resources"]:
                data = await content(client, resource["uri"])
                assert resource["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
                assert resource["size"] == len(data)
            text = (await content(client, entry["uri"])).decode()
            assert entry["frontmatter"] == yaml.safe_load(text.split("---")[1])
            assert (await ask(client, "skills/get", uri=entry["uri"]))["skill"] == entry
        return [resource["uri"] for entry in listed["skills"] for resource in entry["resources"]]

    assert talk(serve(Policy(script_reads="allow")), use, mode) == [
        "skill://forms/SKILL.md",
        "skill://forms/assets/logo.bin",
        "skill://forms/references/deep/two%20words.md",
        "skill://forms/references/fields.md",
        "skill://forms/scripts/echo.py",
        "skill://forms/scripts/wait.py",
        "skill://letters/SKILL.md",
        "skill://quiet/SKILL.md",
    ]


def test_the_extension_is_announced(serve: Callable[..., SkillServer]) -> None:
    async def use(client: mcp.Client) -> Any:
        return client.server_capabilities.extensions

    assert talk(serve(), use) == {"io.modelcontextprotocol/skills": {"directoryRead": True}}


@in_one_mode
def test_a_read_by_a_host_is_recorded_as_such(serve: Callable[..., SkillServer], log: MemoryLog, mode: str) -> None:
    async def use(client: mcp.Client) -> None:
        await client.read_resource("skill://forms/references/fields.md")

    talk(serve(), use, mode)
    (record,) = log.records
    assert (record.event, record.by, record.skill, record.path, record.success) == (
        "read",
        "host",
        "forms",
        "references/fields.md",
        True,
    )


@pytest.mark.covers("SEC-22")
@in_one_mode
@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_script_is_refused_as_by_the_tool_that_reads(
    serve: Callable[..., SkillServer], mode: str, is_loaded: bool
) -> None:
    async def use(client: mcp.Client) -> None:
        if is_loaded:
            await client.call_tool("skills_load", {"skills": ["forms"]})
        with pytest.raises(MCPError, match="run it instead of reading it"):
            await client.read_resource("skill://forms/scripts/echo.py")
        listed = await ask(client, "skills/list")
        assert not [one["uri"] for skill in listed["skills"] for one in skill["resources"] if "/scripts/" in one["uri"]]

    talk(serve(), use, mode)


@pytest.mark.covers("SEC-5")
@in_one_mode
def test_of_a_skill_that_was_loaded_resources_are_what_was_loaded(
    serve: Callable[..., SkillServer], skills: Path, mode: str
) -> None:
    async def use(client: mcp.Client) -> None:
        uri, folder = "skill://forms/references/fields.md", "skill://forms/references"
        await client.call_tool("skills_load", {"skills": ["forms"]})
        before = await content(client, uri)
        (skills / "forms" / "references" / "fields.md").write_text("changed")
        (skills / "forms" / "references" / "added.md").write_text("changed")
        assert await content(client, uri) == before
        listed = (await ask(client, "resources/directory/read", uri=folder))["resources"]
        assert "added.md" not in [one["name"] for one in listed]
        await client.call_tool("skills_unload", {"all": True})
        assert await content(client, uri) == b"changed"

    talk(serve(), use, mode)


@in_one_mode
def test_addresses_that_lead_nowhere_or_out_are_refused(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> None:
        for uri in BAD_URIS:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.error.code == -32602, uri
            assert refused.value.error.data["hint"], uri
            with pytest.raises(MCPError) as refused:
                await ask(client, "skills/get", uri=uri)
            assert refused.value.error.code == -32602, uri

    talk(serve(), use, mode)


def test_a_link_out_of_a_skill_is_not_followed(serve: Callable[..., SkillServer], skills: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (skills / "quiet" / "link.md").symlink_to(tmp_path / "secret")

    async def use(client: mcp.Client) -> Any:
        with pytest.raises(MCPError, match="outside"):
            await client.read_resource("skill://quiet/link.md")
        return (await ask(client, "skills/get", uri="skill://quiet/SKILL.md"))["skill"]["resources"]

    assert [resource["uri"] for resource in talk(serve(), use)] == ["skill://quiet/SKILL.md"]


UNSERVABLE = {
    "a list of tools": "---\nname: odd\ndescription: Is odd.\nallowed-tools: [Read, Grep]\n---\nDo.",
    "another name than its own": "---\nname: Odd One\ndescription: Is odd.\n---\nDo.",
    "no description": "---\nname: odd\n---\nDo.",
    "a field twice": "---\nname: odd\ndescription: Is odd.\ndescription: Is even.\n---\nDo.",
    "what JSON cannot hold": "---\nname: odd\ndescription: Is odd.\nmetadata: {x: .inf}\n---\nDo.",
    "no closing line of its own": "---\nname: odd\ndescription: Is odd.\n...\nDo.",
    "a rule where it should be closed": "---\nname: odd\ndescription: Is odd.\n...\nDo.\n---\nDo more.",
    "a byte order mark": "\ufeff---\nname: odd\ndescription: Is odd.\n---\nDo.",
}


@pytest.mark.parametrize("text", UNSERVABLE.values(), ids=UNSERVABLE.keys())
def test_a_skill_that_no_host_could_verify_is_left_out_and_said_in_the_log(
    serve: Callable[..., SkillServer], skills: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (skills / "odd").mkdir()
    (skills / "odd" / "SKILL.md").write_text(text, encoding="utf-8")

    async def use(client: mcp.Client) -> list[str]:
        return [entry["frontmatter"]["name"] for entry in (await ask(client, "skills/list"))["skills"]]

    with caplog.at_level(logging.WARNING, "metier.serve"):
        assert talk(serve(), use) == ["forms", "letters", "quiet"]
    assert "is not served as a skill" in caplog.text


@pytest.mark.each(
    "text",
    [
        "---\r\nname: odd\r\ndescription: Is odd.\r\n---\r\nDo.\r\n---\r\n",
        "--- \nname: odd\ndescription: Is odd.\n---\t\nDo.",
        "---\nname: odd\ndescription: |-\n  Is odd.\n---",
    ],
)
def test_frontmatter_ends_with_the_first_line_that_closes_it(text: str) -> None:
    entry = Library.from_files({"SKILL.md": text}).get("odd")
    assert SkillManifests().of(entry).frontmatter == {"name": "odd", "description": "Is odd."}


@pytest.mark.parametrize(("files", "size"), [(513, 0), (1, 16 * 1024 * 1024)])
def test_a_skill_over_the_limits_of_the_extension_is_left_out(
    serve: Callable[..., SkillServer], files: int, size: int
) -> None:
    big = {f"assets/{number}": bytes(size) for number in range(files)}
    library = Library.from_files({"SKILL.md": "---\nname: big\ndescription: Is big.\n---\nDo.", **big})

    async def use(client: mcp.Client) -> Any:
        with pytest.raises(MCPError):
            await ask(client, "skills/get", uri="skill://big/SKILL.md")
        return (await ask(client, "skills/list"))["skills"]

    assert talk(serve(library=library), use) == []


@in_one_mode
def test_long_lists_come_in_pages(serve: Callable[..., SkillServer], mode: str) -> None:
    names = [f"skill-{number:03}" for number in range(PAGE + 5)]
    library = Library.from_files(
        *({"SKILL.md": f"---\nname: {name}\ndescription: Does it.\n---\nDo."} for name in names)
    )

    async def use(client: mcp.Client) -> list[list[str]]:
        first = await ask(client, "skills/list")
        rest = await ask(client, "skills/list", cursor=first["nextCursor"])
        assert "nextCursor" not in rest
        resources = await client.list_resources()
        more = await client.list_resources(cursor=resources.next_cursor)
        prompts = await client.list_prompts()
        return [
            [entry["frontmatter"]["name"] for entry in (*first["skills"], *rest["skills"])],
            [resource.name for resource in (*resources.resources, *more.resources)],
            [
                prompt.name
                for prompt in (*prompts.prompts, *(await client.list_prompts(cursor=prompts.next_cursor)).prompts)
            ],
        ]

    assert talk(serve(library=library), use, mode) == [names, names, names]


def test_skills_with_many_files_come_in_shorter_pages(serve: Callable[..., SkillServer]) -> None:
    files = {f"assets/{number}": "" for number in range(500)}
    library = Library.from_files(
        *({"SKILL.md": f"---\nname: skill-{at}\ndescription: Does it.\n---\nDo.", **files} for at in range(5))
    )

    async def use(client: mcp.Client) -> list[int]:
        first = await ask(client, "skills/list")
        return [len(first["skills"]), len((await ask(client, "skills/list", cursor=first["nextCursor"]))["skills"])]

    assert talk(serve(library=library), use) == [3, 2]


def test_a_cursor_that_was_not_given_out_is_refused(serve: Callable[..., SkillServer]) -> None:
    async def use(client: mcp.Client) -> None:
        for cursor in ("", "x", "nöx", "AAAA", cursor_after("x") + "!", "x" * 100_000):
            for listed in (client.list_resources, client.list_prompts, client.list_resource_templates):
                with pytest.raises(MCPError, match="no cursor"):
                    await listed(cursor=cursor)
            with pytest.raises(MCPError, match="no cursor"):
                await ask(client, "skills/list", cursor=cursor)

    talk(serve(), use)


@in_one_mode
def test_a_folder_of_a_skill_can_be_looked_into(serve: Callable[..., SkillServer], mode: str) -> None:
    async def use(client: mcp.Client) -> Any:
        for uri in ("skill://forms/SKILL.md", "skill://forms/no-such", "skill://no-such", "skill://forms/.."):
            with pytest.raises(MCPError) as refused:
                await ask(client, "resources/directory/read", uri=uri)
            assert refused.value.error.code == -32602
        root = await ask(client, "resources/directory/read", uri="skill://forms")
        inside = await ask(client, "resources/directory/read", uri="skill://forms/references")
        return root["resources"], inside["resources"]

    root, inside = talk(serve(), use, mode)
    assert [(one["name"], one["mimeType"]) for one in root] == [
        ("SKILL.md", "text/markdown"),
        ("assets", "inode/directory"),
        ("references", "inode/directory"),
        ("scripts", "inode/directory"),
    ]
    assert [one["uri"] for one in inside] == ["skill://forms/references/deep", "skill://forms/references/fields.md"]


def test_a_skill_in_a_file_of_another_case_is_a_resource(serve: Callable[..., SkillServer], skills: Path) -> None:
    (skills / "quiet" / "SKILL.md").rename(skills / "quiet" / "skill.md")

    async def use(client: mcp.Client) -> list[str]:
        (uri,) = [one.uri for one in (await client.list_resources()).resources if one.name == "quiet"]
        assert b"Hush." in await content(client, uri)
        return [entry["frontmatter"]["name"] for entry in (await ask(client, "skills/list"))["skills"]]

    assert talk(serve(), use) == ["forms", "letters"]


def test_a_skill_that_its_file_hides_is_not_read_before_the_library_was_looked_at_again(
    serve: Callable[..., SkillServer], skills: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    library = server.library
    write_skill(skills / "quiet", description="Is quiet.", body="Hush.", more="scope:\n  agents: [other]\n")
    monkeypatch.setattr(library, "refresh", Change)
    monkeypatch.setattr(library, "watch", lambda told: Watch(library, told, interval=None, events=False))

    async def use(client: mcp.Client) -> None:
        with pytest.raises(MCPError, match="was not found"):
            await client.read_resource("skill://quiet/SKILL.md")

    talk(server, use)


def test_an_edited_file_has_its_new_digest_at_the_next_look(serve: Callable[..., SkillServer], skills: Path) -> None:
    async def use(client: mcp.Client) -> list[Any]:
        found = []
        for text in ("one", "two"):
            (skills / "quiet" / "note.md").write_text(text)
            entry = (await ask(client, "skills/get", uri="skill://quiet/SKILL.md"))["skill"]
            found.append(entry["resources"][1]["digest"])
        return found

    expected = [f"sha256:{hashlib.sha256(text).hexdigest()}" for text in (b"one", b"two")]
    assert talk(serve(), use) == expected


@pytest.fixture
def flipped(skills: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has a file be another one for each of its next reads, and no other time."""
    file, read = skills / "forms/references/fields.md", FolderPackage.read
    good, left = file.read_bytes(), 0

    def flipping(package: FolderPackage, path: str, **options: Any) -> bytes:
        nonlocal left
        if path != "references/fields.md" or left <= 0:
            return read(package, path, **options)
        left -= 1
        file.write_bytes(b"EVIL")
        try:
            return read(package, path, **options)
        finally:
            file.write_bytes(good)

    def flip(times: int) -> None:
        nonlocal left
        left = times

    monkeypatch.setattr(FolderPackage, "read", flipping)
    return flip


def test_what_is_served_is_what_was_decided_about(
    serve: Callable[..., SkillServer], flipped: Callable[[int], None], log: MemoryLog
) -> None:
    server = serve()
    uri = "skill://forms/references/fields.md"

    async def use(client: mcp.Client) -> None:
        for times in (0, 1, 2, 3):
            flipped(times)
            assert await content(client, uri) == b"Name and date.\r\n"
        flipped(1_000)
        with pytest.raises(MCPError) as refused:
            await content(client, uri)
        assert refused.value.error.data["code"] == "skill-changed"

    talk(server, use)
    assert {record.digest for record in log.records if record.event == "read"} == {server.library.digest("forms")}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")
def test_files_that_links_lead_to_are_served(serve: Callable[..., SkillServer], skills: Path) -> None:
    (skills / "forms/alias.md").symlink_to("again.md")
    (skills / "forms/again.md").symlink_to("references/fields.md")
    (skills / "forms/texts").symlink_to("references")
    (skills / "forms/loop").symlink_to("loop")

    async def use(client: mcp.Client) -> None:
        for path in ("alias.md", "texts/fields.md"):
            assert await content(client, f"skill://forms/{path}") == b"Name and date.\r\n"
        with pytest.raises(MCPError):
            await content(client, "skill://forms/loop")

    talk(serve(), use)


@pytest.mark.parametrize(
    ("denied", "refused"),
    [
        ("skills_load", ["SKILL.md"]),
        ("skills_read", ["references/fields.md"]),
        ("skills_load, skills_read", ["SKILL.md", "references/fields.md"]),
        ("Bash", []),
    ],
)
def test_what_the_policy_says_of_reading_tools_holds_for_resources(
    serve: Callable[..., SkillServer], denied: str, refused: list[str]
) -> None:
    async def use(client: mcp.Client) -> list[str]:
        found = []
        for path in ("SKILL.md", "references/fields.md"):
            try:
                await content(client, f"skill://forms/{path}")
            except MCPError as error:
                assert error.error.data["code"] == "tool-not-allowed"
                found.append(path)
        return found

    assert talk(serve(Policy(deny=denied)), use) == refused


def test_where_reading_is_asked_about_a_resource_is_too(serve: Callable[..., SkillServer]) -> None:
    asked, answer = answering(YES, NO)

    async def use(client: mcp.Client) -> None:
        uri = "skill://forms/references/fields.md"
        assert await content(client, uri)
        with pytest.raises(MCPError, match="did not agree"):
            await content(client, uri)

    talk(serve(Policy(ask="skills_read")), use, elicitation_callback=answer)
    assert len(asked) == 2


def test_what_a_host_is_told_of_a_skill_is_recorded(serve: Callable[..., SkillServer], log: MemoryLog) -> None:
    async def use(client: mcp.Client) -> None:
        await ask(client, "skills/get", uri="skill://forms/SKILL.md")

    talk(serve(), use)
    assert [(one.event, one.skill, one.by) for one in log.records if one.skill] == [("read", "forms", "host")]


@in_one_mode
def test_of_a_skill_that_policy_shows_by_its_name_nothing_else_is_told(
    serve: Callable[..., SkillServer], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yaml").write_text("version: 1\nskills: {listing: {forms: name-only}}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))

    async def use(client: mcp.Client) -> None:
        listed = {entry["uri"]: entry for entry in (await ask(client, "skills/list"))["skills"]}
        bare = listed["skill://forms/SKILL.md"]
        assert bare["frontmatter"] == {"name": "forms"}
        assert (await ask(client, "skills/get", uri=bare["uri"]))["skill"] == bare
        for resource in bare["resources"]:
            assert resource["digest"] == f"sha256:{hashlib.sha256(await content(client, resource['uri'])).hexdigest()}"
        assert all("description" in entry["frontmatter"] for uri, entry in listed.items() if uri != bare["uri"])
        prompts = {one.name: one for one in (await client.list_prompts()).prompts}
        assert prompts["forms"].description is None
        assert prompts["letters"].description
        assert (await client.get_prompt("forms", {"args": "7"})).description is None
        resources = {one.name: one.description for one in (await client.list_resources()).resources}
        assert not resources["forms"]

    talk(serve(Policy(script_reads="allow")), use, mode)
