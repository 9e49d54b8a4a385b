"""What administrators deploy is not for anybody to walk around: a name that the enterprise layer has is reserved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import crossed

from metier import Guard, Library, Policy, Session
from metier.agent import Agent, Agents, Manifest
from metier.errors import MetierError, Refused
from metier.guard import Action, Actor, MemoryLog
from metier.guard.explanation import explain
from metier.hub import sync_to
from metier.library import Place
from metier.session.active_skills import subject_of
from metier.source import FolderSource
from metier.store import TenantScope
from metier.testing import ScriptedModel

Begin = Callable[..., Session]
Put = Callable[..., Path]
Write = Callable[[str], Path]

pytestmark = pytest.mark.covers("SEC-7")


def refused(session: Session, name: str) -> str:
    with pytest.raises(Refused) as caught:
        session.load(name)
    assert session.active == ()
    return caught.value.code


@crossed(("layer", ["personal", "project", "plugin"]), ("name", ["deploy", "d\u0435ploy"]), one_in=2)
def test_without_any_policy_file_the_name_is_reserved(
    put: Put, begin: Begin, log: MemoryLog, layer: str, name: str
) -> None:
    put("enterprise", "deploy", "Official.")
    put(layer, name, "Mine.", **{"scripts/x.sh": "echo hi\n"})
    assert refused(begin(), f"{name}@{layer}") == "name-reserved"
    assert log.records[-1].rule == "skills.enterprise-names: reserve"
    assert log.records[-1].reason.endswith("is that of a skill that administrators deployed.")


def test_every_point_at_which_a_skill_is_used_refuses_it(put: Put, library: Callable[..., Library]) -> None:
    put("enterprise", "deploy")
    put("project", "deploy")
    found = library()
    entry = found.get("deploy@project")
    guard = Guard(Policy(hooks="allow", injection="allow"), audit=MemoryLog())
    points = ("discover", "load", "read", "run", "hook", "inject", "install", "update", "apply", "deploy")
    for point in points:
        action = Action(point=point, skill=subject_of(entry, found.digest(entry)), by="host")  # type: ignore[arg-type]
        assert guard.decide(action).code == "name-reserved", point
        assert explain(guard, action, Actor()).considered[0].code == "name-reserved", point
    assert guard.is_excluded(subject_of(entry))
    assert guard.decide(Action(point="unload", skill=subject_of(entry))).is_allowed


@pytest.mark.parametrize("mode", ["off", "audit", "enforce"])
def test_it_holds_in_every_mode(put: Put, begin: Begin, enterprise: Write, mode: str) -> None:
    enterprise(f"version: 1\nmode: {mode}\n")
    put("enterprise", "deploy")
    put("project", "deploy")
    assert refused(begin(), "deploy@project") == "name-reserved"


def test_a_user_cannot_give_the_names_up(put: Put, begin: Begin, own_home: Path) -> None:
    theirs = own_home / ".metier" / "policy.yaml"
    theirs.parent.mkdir()
    theirs.write_text("version: 1\nmode: off\nskills: {enterprise-names: allow}\n")
    put("enterprise", "deploy")
    put("project", "deploy")
    assert refused(begin(), "deploy@project") == "name-reserved"


def test_administrators_can_give_them_up_and_take_them_back(put: Put, begin: Begin, enterprise: Write) -> None:
    enterprise("version: 1\nskills: {enterprise-names: allow}\n")
    put("enterprise", "deploy")
    put("project", "deploy", "Mine.")
    session = begin()
    session.load("deploy@project")
    assert session.active[0].body.strip() == "Mine."
    enterprise("version: 1\n")
    assert session.active == ()


# --- the skill whose name it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"", b"---\nname: [deploy\n"])
def test_one_that_cannot_be_read_keeps_its_name(put: Put, begin: Begin, text: bytes) -> None:
    (put("enterprise", "deploy") / "SKILL.md").write_bytes(text)
    put("project", "deploy", "Mine.")
    session = begin()
    assert "deploy" not in session.instructions()
    with pytest.raises(MetierError):
        session.load("deploy")
    with pytest.raises(MetierError):
        session.load("deploy@project")
    assert session.active == ()


def test_the_folder_of_another_skill_does_not_stand_in_for_one_that_cannot_be_read(put: Put, begin: Begin) -> None:
    (put("enterprise", "deploy") / "SKILL.md").write_bytes(b"")
    folder = put("project", "deploy", "Mine.")
    (folder / "SKILL.md").write_text("---\nname: shipping\ndescription: Ships.\n---\nMine.\n")
    session = begin()
    with pytest.raises(MetierError, match="'deploy' cannot be loaded"):
        session.load("deploy")
    session.load("shipping")


def test_one_in_quarantine_keeps_its_name(put: Put, begin: Begin, scope: TenantScope) -> None:
    put("enterprise", "deploy", "Official.")
    put("project", "deploy", "Mine.")
    session = begin()
    scope.blocks.add("digest", session.library.digest("deploy"), reason="It was taken over.", by="ada")
    assert "deploy" not in session.instructions()
    assert refused(session, "deploy") == "skill-quarantined"
    assert refused(session, "deploy@project") == "name-reserved"


def test_one_that_is_out_of_scope_is_absent_and_so_is_its_claim(put: Put, begin: Begin) -> None:
    put("enterprise", "deploy", "Official.", more="scope: {agents: [clerk]}\n")
    put("project", "deploy", "Mine.")
    session = begin()
    session.load("deploy")
    assert session.active[0].body.strip() == "Mine."


def test_of_one_name_in_two_places_of_administrators_the_stronger_counts(tmp_path: Path, put: Put) -> None:
    places = [
        Place(layer="enterprise", source=FolderSource(put(one, "deploy", one).parent, name="enterprise"))
        for one in ("first", "second")
    ]
    session = Library(places, cache=False).session(guard=Guard(audit=MemoryLog()), workspace=tmp_path)
    assert refused(session, "deploy@enterprise-2") == "name-reserved"
    session.load("deploy@enterprise")
    assert session.active[0].body.strip() == "first"


# --- time passes -----------------------------------------------------------------------------------------------------


def test_what_is_active_ends_once_administrators_deploy_its_name(put: Put, begin: Begin) -> None:
    put("project", "deploy", "Mine.")
    session = begin(skills=["deploy"])
    state = session.save()
    put("enterprise", "deploy", "Official.")
    session.library.refresh()
    assert not list(session.active)
    assert not list(Session.resume(session.library, state, guard=session.guard).active)
    session.load("deploy")
    assert session.loaded.one().body.strip() == "Official."


def test_a_skill_that_is_deployed_while_another_is_loaded_counts(put: Put, begin: Begin) -> None:
    put("project", "deploy", "Mine.")
    session = begin()

    def deploy(event: object) -> None:
        put("enterprise", "deploy", "Official.")
        session.library.refresh()

    session.listen(deploy)
    with pytest.raises(MetierError):
        session.load("deploy")
    assert session.active == ()


# --- other doors -----------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(put: Put, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A skill that administrators deployed on this machine."""
    folder = put("enterprise", "deploy", "Official.")
    monkeypatch.setenv("METIER_ENTERPRISE", str(folder.parent))
    return folder


def test_a_library_without_the_enterprise_layer_is_no_way_around(machine: Path, put: Put, tmp_path: Path) -> None:
    mine = put("elsewhere", "deploy", "Mine.")
    other = put("elsewhere", "report", "Fine.")
    for library in (
        Library.from_folder(mine.parent, cache=False),
        Library.from_folder(mine, other, cache=False),
        Library.from_files(*({"SKILL.md": (one / "SKILL.md").read_text()} for one in (mine, other))),
    ):
        session = library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path)
        assert "deploy" not in session.instructions()
        assert refused(session, "deploy") == "name-reserved"
        session.load("report")


def test_the_folder_of_a_deployed_skill_may_be_named(machine: Path, tmp_path: Path) -> None:
    for folder in (machine, machine.parent):
        library = Library.from_folder(folder, cache=False)
        with library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path) as session:
            session.load("deploy")


def test_a_skill_that_is_deployed_later_counts_in_any_library(machine: Path, put: Put, tmp_path: Path) -> None:
    library = Library.from_folder(put("elsewhere", "report").parent, cache=False)
    session = library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path, skills=["report"])
    put("enterprise", "report", "Official.")
    library.refresh()
    assert session.active == ()


def test_an_agent_is_not_made_of_it(put: Put, library: Callable[..., Library], tmp_path: Path) -> None:
    put("enterprise", "deploy", "Official.")
    put("project", "deploy", "Mine.")
    found = library()
    manifest = Manifest(id="clerk", name="clerk", description="Works.", uses_skills=("deploy@project",), catalog="own")
    agent = Agent(manifest, Agents([manifest], found), model=ScriptedModel([]), audit=MemoryLog(), workspace=tmp_path)
    with pytest.raises(MetierError, match="administrators deployed"):
        agent.session()


def test_it_is_not_written_for_other_clients(put: Put, library: Callable[..., Library], tmp_path: Path) -> None:
    put("enterprise", "deploy", "Official.")
    put("project", "deploy", "Mine.")
    put("project", "d\u0435ploy", "Mine.")
    (tmp_path / "copies").mkdir()
    done = sync_to(library(), tmp_path / "copies", guard=Guard(audit=MemoryLog()))
    assert {step.skill: step.done for step in done.steps} == {"deploy": "added", "d\u0435ploy": "left out"}
    assert "Official." in (tmp_path / "copies" / "deploy" / "SKILL.md").read_text()
