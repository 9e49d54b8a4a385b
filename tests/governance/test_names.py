"""No spelling of a name leads around a skill that administrators deployed: a table of attempts through every door.

The table only grows. What is in it was tried by somebody, and stays refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mcp
import pytest
from mcp.shared.exceptions import MCPError
from tests.serve.clients import talk
from tests.tables import thinned

from metier import Guard, Library, Session
from metier.cli import main
from metier.errors import MetierError
from metier.guard import MemoryLog
from metier.hub import sync_to
from metier.library import Place
from metier.library.places import TrustStore
from metier.serve.mcp import SkillServer
from metier.source import FolderSource
from metier.source.memory import MemorySource

Write = Callable[..., Path]

PLANTED = "PLANTED"
"""Stands in whatever must not be reached."""

ATTEMPTS = [
    # the name itself, and what stands for it
    "deploy", "Deploy", "DEPLOY", " deploy ", "deploy\t", "deploy\n", "\u00a0deploy", "Deploy!", "deploy.", "deploy...",
    "deploy-", "_deploy_", "/deploy", "$deploy",
    # characters that nobody sees
    "deploy\0", "\0deploy", "deploy\u200b", "de\u200bploy", "\ufeffdeploy", "\u202eyolped", "deploy\u202e",
    "\u2066deploy\u2069", "de\u00adploy", "deploy\u3164", "deploy\x1b[0m",
    # letters that look like others
    "d\u0435ploy", "depl\u03bfy", "depl\u043ey", "d\u0435pl\u043ey", "D\u0415PLOY", "de\u0440loy", "dep\u217coy",
    "de\u0301ploy", "d\u00e9ploy", "deplo\u1ef3", "\uff44\uff45\uff50\uff4c\uff4f\uff59", "\U0001d41deploy",
    "d\u0435ploy@project", "depl\u03bfy@project", "d\u0435ploy@{folder}", "d\u00e9ploy@project",
    # the name and where it comes from
    "deploy@project", "deploy@project-2", "deploy@personal", "deploy@personal-2", "deploy@plugin", "deploy@memory",
    "deploy@mine", "deploy@enterprise", "deploy@enterprise-2", "deploy@managed", "Deploy@project", "DEPLOY@PROJECT",
    "deploy@Project", " deploy@project ", "deploy @project", "deploy@ project", "deploy@project\n", "deploy@project\0",
    "deploy\t@project", "deploy@project\u200b", "deploy\u200b@project", "Deploy!@project", "deploy.@project",
    "_deploy_@project", "/deploy@project",
    # several of them, none of them, and what is not quite one
    "deploy@@project", "@project", "deploy@", "@", "deploy@project@enterprise", "deploy@enterprise@project",
    "@deploy@project", "deploy%40project", "deploy%2540project", "deploy\uff20project", "deploy\ufe6bproject",
    "deploy@project?x=1", "deploy@project#x", "deploy:project", "project:deploy", "project/deploy", "deploy/project",
    # paths
    "deploy@{folder}", "deploy@{folder}/", "deploy@{folder}/../{folder}", "{folder}", "{folder}/SKILL.md",
    "file://{folder}", "skill://deploy", "skill://deploy@project", "../deploy", "../../project/deploy", "./deploy",
    "deploy/", "deploy/SKILL.md", "deploy/../deploy", "~/deploy", "deploy@.", "deploy@..", "deploy@/",
    # digests
    "{digest}", "deploy@{digest}", "deploy#{digest}", "sha256:{digest}", "deploy@sha256:{digest}",
    # the folder of a deployed skill is its name too
    "rollout-tool", "Rollout-Tool", "rollout-tool@project", "rollout_tool@project", "rollout@project",
    # one that cannot be read just now, and one that nobody described
    "torn", "Torn", "torn@project", "torn@{torn}", "t\u043ern", "t\u043ern@project", "bare", "bare@project",
    # those that are not in the list of a model
    "hush", "hush@project", "hush@personal",
    # whatever names another skill that builds on it
    "helper", "helper@project",
]  # fmt: skip


class World:
    """Skills of administrators, and others that would be taken for them."""

    def __init__(self, root: Path, home: Path, write: Write) -> None:
        self.project = root / "project"
        self.near = self.project / ".metier" / "skills"
        folders = {
            "enterprise": root / "enterprise",
            "second": root / "second",
            "near": self.near,
            "far": self.project / ".agents" / "skills",
            "personal": home / ".metier" / "skills",
            "plugin": root / "plugin",
        }
        (self.project / ".git").mkdir(parents=True)
        (self.project / "work").mkdir()
        ours = folders["enterprise"]
        write(ours / "deploy", description="Deploys.", body="Official.")
        write(ours / "rollout-tool", name="rollout", description="Rolls out.", body="Official.")
        write(ours / "hush", description="Hushes.", body="Official.", more="disable-model-invocation: true\n")
        (ours / "torn").mkdir()
        (ours / "torn" / "SKILL.md").write_bytes(b"")
        (ours / "bare").mkdir()
        (ours / "bare" / "SKILL.md").write_text("---\nname: bare\n---\nOfficial.\n")
        names = ["deploy", "rollout", "rollout-tool", "torn", "bare", "hush", "d\u0435ploy", "depl\u03bfy", "t\u043ern"]
        for layer in ("second", "near", "far", "personal", "plugin"):
            for name in names if layer != "second" else ["deploy"]:
                self._plant(write, folders[layer] / name, name)
        self._plant(write, folders["near"] / "d\u00e9ploy", "d\u00e9ploy")
        # What is in a folder of the name of one that cannot be read is not that one.
        write(folders["near"] / "Torn", name="shipping", description="Ships.", body=PLANTED)
        write(self.near / "helper", body="Help.", more="requires: [deploy@project, torn]\n")
        write(self.near / "notes", body="Neutral.")
        self.folders = folders
        self.memory = MemorySource.of({"SKILL.md": f"---\nname: deploy\ndescription: {PLANTED}.\n---\n{PLANTED}"})

    @staticmethod
    def _plant(write: Write, folder: Path, name: str) -> None:
        write(folder, name=name, description=f"{PLANTED}.", body=f"{PLANTED}.")
        (folder / "scripts").mkdir()
        (folder / "scripts" / "planted.sh").write_text(f"echo {PLANTED}\n")

    @cached_property
    def library(self) -> Library:
        def place(layer: Any, folder: str, name: str) -> Place:
            return Place(layer=layer, source=FolderSource(self.folders[folder], name=name, whole_root=False))

        places = [
            place("enterprise", "enterprise", "enterprise"),
            place("enterprise", "second", "enterprise"),
            place("personal", "personal", "personal"),
            place("project", "near", "project"),
            place("project", "far", "project"),
            place("plugin", "plugin", "plugin"),
            Place(layer="project", source=self.memory, name="memory"),
        ]
        return Library(places, cache=False)

    def attempts(self) -> Iterator[str]:
        digest = self.library.digest("deploy@project").removeprefix("sha256:")
        words = {"{folder}": f"{self.near}/deploy", "{torn}": f"{self.near}/torn", "{digest}": digest}
        for attempt in ATTEMPTS:
            for word, text in words.items():
                attempt = attempt.replace(word, text)
            yield attempt


@pytest.fixture
def world(tmp_path: Path, own_home: Path, write_skill: Write, quiet_files: None) -> World:
    return World(tmp_path, own_home, write_skill)


@pytest.fixture
def begin(world: World) -> Callable[..., Session]:
    def session(**options: Any) -> Session:
        guard = Guard(audit=MemoryLog())
        return world.library.session(guard=guard, workspace=world.project / "work", **options)

    return session


@pytest.fixture(params=[11, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def attempts(request: pytest.FixtureRequest, world: World) -> list[str]:
    """The table for a door that takes long: every eleventh attempt, and all of them in `make test-slow`."""
    return list(world.attempts())[:: request.param]


def active(session: Session) -> list[str]:
    return [f"{one.name}@{one.entry.layer}" for one in session.active]


def is_ours(session: Session) -> bool:
    return PLANTED not in "".join(one.body for one in session.active)


def test_the_table_is_long() -> None:
    assert len(set(ATTEMPTS)) == len(ATTEMPTS) > 100


@pytest.mark.covers("SEC-7")
@pytest.mark.parametrize(
    ("by", "dependencies", "step"),
    [
        ("model", "hint", 1),
        *[(by, load, 7) for by, load in (("user", "hint"), ("host", "load"))],
        *[pytest.param(by, load, 1, marks=pytest.mark.slow) for by, load in (("user", "hint"), ("host", "load"))],
    ],
)
def test_no_attempt_loads_another_skill_than_the_one_that_was_deployed(
    world: World, begin: Callable[..., Session], by: Any, dependencies: str, step: int
) -> None:
    reached = {}
    named = ["deploy", "Deploy!", "deploy@enterprise", "torn", "deploy@project", "rollout-tool"]
    for attempt in dict.fromkeys([*list(world.attempts())[::step], *named]):
        with begin(dependencies=dependencies) as session:
            try:
                session.load(attempt, by=by)
            except MetierError:
                assert active(session) == []
            assert is_ours(session), attempt
            reached[attempt] = active(session)
    assert reached["deploy"] == reached["Deploy!"] == reached["deploy@enterprise"] == ["deploy@enterprise"]
    assert reached["torn"] == reached["deploy@project"] == reached["rollout-tool"] == []


@pytest.mark.covers("SEC-7")
def test_no_attempt_binds_forks_nests_or_pins_another_skill(attempts: list[str], begin: Callable[..., Session]) -> None:
    for attempt in attempts:
        for way in ("fork", "activate", "bind"):
            with begin(listing={attempt: "pinned"}) as session:
                try:
                    made = getattr(session if way == "fork" else session.parts.loader, way)(
                        [attempt] if way == "bind" else attempt
                    )
                except MetierError:
                    made = None
                assert is_ours(session), attempt
                assert PLANTED not in session.instructions(), attempt
                if isinstance(made, Session):
                    assert is_ours(made), attempt
                    made.close()


CALLS: dict[Any, tuple[str, str]] = {
    "registry": ("read_skill", "skill_id"),
    "tool": ("skill", "skill_name"),
    "runtime": ("skills_load", "skills"),
    "sandbox": ("get_skill", "skill_name"),
}


@pytest.mark.covers("SEC-7")
@thinned("dialect", CALLS, one_in=2)
def test_no_attempt_of_a_model_gets_another_skill(
    attempts: list[str], begin: Callable[..., Session], dialect: Any
) -> None:
    tool, key = CALLS[dialect]
    more = {"registry": ("read_skill_resource", "skill_id"), "runtime": ("skills_read", "skill")}
    for attempt in attempts:
        with begin() as session:
            executor = session.executor(dialect=dialect)
            answer = executor.execute_blocking(tool, {key: [attempt] if key == "skills" else attempt})
            assert PLANTED not in json.dumps([answer.result, answer.error, answer.hint]), attempt
            assert is_ours(session), attempt
            if dialect in more:
                name, skill = more[dialect]
                wanted = {"registry": "resource_path", "runtime": "path"}[dialect]
                answer = executor.execute_blocking(name, {skill: attempt, wanted: "scripts/planted.sh"})
                assert PLANTED not in json.dumps([answer.result, answer.error, answer.hint]), attempt


@pytest.mark.covers("SEC-7")
@pytest.mark.each("dialect", CALLS)
def test_nothing_that_a_model_is_shown_or_finds_is_another_skill(begin: Callable[..., Session], dialect: Any) -> None:
    with begin() as session:
        tools = session.executor(dialect=dialect).registry
        told = session.instructions(dialect=dialect) + "".join(tool.description for tool in tools)
        assert PLANTED not in told
        assert "notes" in told
        for query in ("deploy", "d\u0435ploy", PLANTED.lower(), "torn", "rollout-tool"):
            assert not [one for one in session.prompt.search(query) if PLANTED in one.description], query
        assert [one.name for one in session.prompt.matching()] == [
            "bare",
            "deploy",
            "helper",
            "notes",
            "rollout",
            "shipping",
        ]


@pytest.mark.covers("SEC-7")
def test_no_attempt_of_a_person_invokes_another_skill(world: World, begin: Callable[..., Session]) -> None:
    for attempt in world.attempts():
        with begin() as session:
            try:
                made = session.invoke(f"/{attempt} now")
            except MetierError:
                made = None
            assert made is None or PLANTED not in made.text, attempt
            assert is_ours(session), attempt


@pytest.mark.covers("SEC-7")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_no_attempt_of_a_client_gets_another_skill(world: World, attempts: list[str], mode: str) -> None:
    async def use(client: mcp.Client) -> None:
        for attempt in attempts:
            answer = await client.call_tool("skills_load", {"skills": [attempt], "mode": "replace"})
            assert PLANTED not in answer.model_dump_json(), attempt
            for request in (
                lambda name: client.get_prompt(name, {}),
                lambda name: client.read_resource(f"skill://{quote(name, safe='')}/SKILL.md"),
                lambda name: client.read_resource(f"skill://{name}/SKILL.md"),
                lambda name: client.read_resource(f"skill://{quote(name, safe='@')}/scripts/planted.sh"),
            ):
                try:
                    given = (await request(attempt)).model_dump_json()
                except (MCPError, ValueError):
                    continue
                assert PLANTED not in given, attempt
        for listed in (await client.list_resources(), await client.list_prompts()):
            assert PLANTED not in listed.model_dump_json()

    server = SkillServer(world.library, audit=MemoryLog(), workspace=world.project / "work")
    try:
        talk(server, use, mode)
    finally:
        server.close()


@pytest.mark.covers("SEC-7")
def test_no_attempt_writes_another_skill_for_other_clients(world: World, attempts: list[str], tmp_path: Path) -> None:
    for number, attempt in enumerate(attempts):
        target = tmp_path / "copies" / str(number)
        target.mkdir(parents=True)
        try:
            sync_to(world.library, target, only=[attempt], guard=Guard(audit=MemoryLog()))
        except (MetierError, ValueError):
            continue
        texts = [file.read_text() for file in target.rglob("SKILL.md")]
        assert not any(PLANTED in text for text in texts), attempt


@pytest.mark.covers("SEC-7")
def test_no_attempt_on_the_command_line_runs_another_skill(
    world: World, attempts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = (world.folders["enterprise"], world.folders["second"])
    monkeypatch.setenv("METIER_ENTERPRISE", os.pathsep.join(map(str, places)))
    monkeypatch.chdir(world.project)
    TrustStore().trust(world.project)
    for more in ([], ["--skills", str(world.near)]):
        for attempt in attempts:
            if "\0" in attempt:
                continue  # no argument of a command has one
            try:
                code = main([*more, "run", attempt, "planted.sh"])
            except SystemExit as leaving:
                code = int(leaving.code or 0)
            said = capsys.readouterr()
            assert code != 0, attempt
            assert "error [" in said.err, attempt
            assert PLANTED not in said.out, attempt


@pytest.mark.covers("SEC-7")
def test_a_person_may_look_at_what_cannot_be_used(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METIER_ENTERPRISE", str(world.folders["enterprise"]))
    monkeypatch.chdir(world.project)
    TrustStore().trust(world.project)
    assert main(["show", "deploy@project"]) == 0
    assert "denied: Skill 'deploy' cannot be used here." in capsys.readouterr().out
    assert main(["show", "deploy@project", "--instructions"]) == 0
    said = capsys.readouterr()
    assert PLANTED in said.out
    assert "a skill that administrators deployed" in said.err
