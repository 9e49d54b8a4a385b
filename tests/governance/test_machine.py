"""The environment of a machine is what administrators say it is, and not what a caller does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Library, Session
from metier.agent import Agents, Manifest
from metier.cli import main
from metier.errors import Refused
from metier.guard import Action, Actor, MemoryLog, Subject
from metier.hub import sync_to
from metier.library import SkillIndex

Begin = Callable[..., Session]
Put = Callable[..., Path]
Write = Callable[[str], Path]

pytestmark = pytest.mark.covers("SEC-13")

PRODUCTION = "version: 1\nmachine: {environment: production}\n"


@pytest.fixture(autouse=True)
def skills(put: Put) -> None:
    """A skill for production, and another of its name in the project."""
    put("enterprise", "deploy", "Official.", more="scope: {environments: [production]}\n")
    put("project", "deploy", "Mine.")


def test_who_names_no_environment_is_in_that_of_the_machine(begin: Begin, enterprise: Write) -> None:
    begin().load("deploy")  # without a word of administrators, it is the caller's
    enterprise(PRODUCTION)
    session = begin()
    session.load("deploy")
    assert session.loaded.one().body.strip() == "Official."
    assert session.context.actor.environment == "production"
    with pytest.raises(Refused, match="administrators deployed"):
        session.load("deploy@project")


@pytest.mark.parametrize("other", ["staging", "Production", "production ", "prod", ""])
def test_who_names_another_one_is_refused(library: Callable[..., Library], enterprise: Write, other: str) -> None:
    enterprise(PRODUCTION)
    found = library()
    with pytest.raises(Refused, match="This machine is in the environment 'production'") as caught:
        found.as_caller(environment=other)
    assert caught.value.code == "environment-denied"
    assert found.as_caller(agent="clerk").caller.environment == "production"
    assert found.as_caller(environment="production").get("deploy").layer == "enterprise"


@pytest.mark.parametrize("mode", ["off", "audit", "enforce"])
def test_every_decision_refuses_another_environment_in_every_mode(enterprise: Write, mode: str) -> None:
    # A list that only watches must not stand before what holds in every mode.
    enterprise(f"{PRODUCTION}mode: {mode}\nskills: {{deny: [deploy]}}\n")
    guard = Guard(audit=MemoryLog())
    points: list[Any] = ["discover", "load", "read", "call", "run", "install", "propose", "apply", "deploy"]
    for point in points:
        action = Action(point=point, skill=Subject(name="deploy"), by="host", tool="Read")
        assert guard.decide(action, Actor(environment="staging")).code == "environment-denied", point
        assert guard.decide(action, Actor(environment="production")).code != "environment-denied", point
        assert guard.decide(action, Actor()).code != "environment-denied", point


def test_rules_about_the_environment_hold_for_who_names_none(enterprise: Write) -> None:
    enterprise(f"{PRODUCTION}rules: [{{id: R1, point: tool-call, environment: production, effect: deny}}]\n")
    action = Action(point="call", tool="Write")
    assert Guard(audit=MemoryLog()).decide(action).code == "rule-denied"


def test_neither_a_user_nor_a_project_says_it(
    begin: Begin, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (own_home, tmp_path / "workspace"):
        (folder / ".metier").mkdir(parents=True)
        (folder / ".metier" / "policy.yaml").write_text(PRODUCTION)
    monkeypatch.chdir(tmp_path / "workspace")
    assert begin().context.actor.environment is None


def test_what_was_begun_before_it_was_said_does_nothing_more(begin: Begin, enterprise: Write) -> None:
    enterprise("version: 1\n")
    session = begin(skills=["deploy"])
    enterprise(PRODUCTION)
    with pytest.raises(Refused, match="begun in none") as caught:
        session.load("deploy")
    assert caught.value.code == "environment-denied"
    assert not session.may_call("Read", {"file_path": "x"})


def test_a_library_of_a_lower_room_is_no_way_around(library: Callable[..., Library], enterprise: Write) -> None:
    enterprise(PRODUCTION)
    with pytest.raises(Refused, match="begun in none"):
        lower = library()
        lower.index = SkillIndex(lower.places, cache=False)
        Session(lower, guard=Guard(audit=MemoryLog()), skills=["deploy"])


def test_agents_searches_and_copies_are_in_it_too(
    library: Callable[..., Library], enterprise: Write, tmp_path: Path
) -> None:
    enterprise(PRODUCTION)
    manifest = Manifest(id="clerk", name="clerk", description="Works.")
    found = library()
    assert found.search("deploy")[0].layer == found.search("deploy", agent="clerk")[0].layer == "enterprise"
    assert Agents([manifest], found).library.caller.environment == "production"
    (tmp_path / "copies").mkdir()
    sync_to(found, tmp_path / "copies", guard=Guard(audit=MemoryLog()))
    assert "Official." in (tmp_path / "copies" / "deploy" / "SKILL.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["show", "deploy"], ["search", "deploy"], ["catalog"], ["run", "deploy", "x.sh"], ["mcp"],
        ["ask", "hello", "--model", "test"], ["sync", "--to", "copies"],
    ],
)  # fmt: skip
def test_commands_refuse_another_environment(
    words: list[str], enterprise: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    enterprise(PRODUCTION)
    monkeypatch.chdir(tmp_path)
    try:
        code = main([*words, "--environment", "staging"])
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    said = capsys.readouterr().err
    assert code != 0
    assert "environment-denied" in said


def test_a_skill_is_not_deployed_for_another_environment(
    enterprise: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    enterprise(PRODUCTION)
    monkeypatch.setenv("METIER_ENTERPRISE", str(tmp_path))
    monkeypatch.setattr("metier.cli.identity.is_at_terminal", lambda: True)
    folder = tmp_path / "new" / "fresh"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: fresh\ndescription: Is new.\n---\nDo.\n")
    assert main(["deploy", str(folder), "--environment", "staging"]) != 0
    assert "This machine is in the environment 'production'" in capsys.readouterr().err
    assert not (tmp_path / "fresh").exists()
