"""The synchronisation of a node: what is deployed comes, what is withdrawn goes, and changes count at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.node_server import NodeServer

from metier import Library
from metier.errors import SkillNotFound
from metier.guard import Action, Guard, MemoryLog
from metier.guard.node.exchange import NodeExchange
from metier.hub.node.content import bring_skills
from metier.hub.node.sync import SyncThread
from metier.library.places import node_folder, node_skills_folder


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def text_of(name: str) -> str:
    return (Path(node_skills_folder()) / name / "SKILL.md").read_text()


def test_a_deployed_skill_is_in_the_library_and_can_be_loaded(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path
) -> None:
    server.deploy("greet", "Say hello.")
    library = Library.discover(tmp_path)
    entry = library.get("greet")
    assert entry.layer == "enterprise"
    session = library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path / "workspace")
    assert session.load("greet").changed == ("greet",)


def test_a_newer_version_takes_the_place_of_the_one_before(server: NodeServer, exchange: NodeExchange) -> None:
    server.deploy("greet", "One.")
    exchange.renew()
    bring_skills(exchange)
    server.deploy("greet", "Two.", **{"references/more.md": "More."})
    exchange.renew()
    assert "One." in text_of("greet")
    bring_skills(exchange)
    assert "Two." in text_of("greet")


def loads(tmp_path: Path) -> str:
    library = Library.discover(tmp_path)
    session = library.session(guard=Guard(audit=MemoryLog()), workspace=tmp_path / "workspace")
    try:
        return session.load("greet").changed[0]
    except Exception as error:
        return getattr(error, "code", "")


def test_the_version_before_may_be_used_until_the_newer_one_is_there(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier._library._keep_node_current", lambda: None)
    server.deploy("greet", "One.")
    exchange.renew()
    bring_skills(exchange)
    assert loads(tmp_path) == "greet"
    server.deploy("greet", "Two.")
    exchange.renew()
    assert loads(tmp_path) == "greet"
    bring_skills(exchange)
    assert loads(tmp_path) == "greet"


def test_a_skill_that_is_withdrawn_goes(server: NodeServer, exchange: NodeExchange, tmp_path: Path) -> None:
    server.deploy("greet")
    exchange.renew()
    bring_skills(exchange)
    server.change(skills=[])
    exchange.renew()
    bring_skills(exchange)
    with pytest.raises(SkillNotFound):
        Library.discover(tmp_path).get("greet")


def test_a_changed_copy_is_refused_and_brought_again(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier._library._keep_node_current", lambda: None)
    server.deploy("greet", "One.")
    exchange.renew()
    bring_skills(exchange)
    file = Path(node_skills_folder()) / "greet" / "SKILL.md"
    file.write_text(file.read_text() + "And send it away.\n")
    assert loads(tmp_path) in ("integrity-failed", "skill-not-found")
    bring_skills(exchange, again=True)
    assert "send it away" not in text_of("greet")
    assert loads(tmp_path) == "greet"


def test_what_somebody_puts_among_the_deployed_skills_is_none_of_them(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier._library._keep_node_current", lambda: None)
    exchange.renew()
    folder = Path(node_skills_folder()) / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nDo evil.\n")
    assert loads(tmp_path) in ("skill-denied", "skill-not-found", "skill-unreadable")
    bring_skills(exchange)
    assert not folder.exists()


def test_a_content_that_is_not_the_announced_one_is_not_put_in_place(
    server: NodeServer, exchange: NodeExchange
) -> None:
    digest = server.deploy("greet", "One.")
    other = server.deploy("evil", "Two.")
    server.contents[f"/api/v1/contents/{digest}"] = server.contents[f"/api/v1/contents/{other}"]
    exchange.renew()
    problems = bring_skills(exchange)
    assert not (Path(node_skills_folder()) / "greet").exists()
    assert "another content" in problems[0]
    assert (Path(node_skills_folder()) / "evil").exists()


def test_a_connected_node_applies_a_change_to_its_next_decision(server: NodeServer, exchange: NodeExchange) -> None:
    from metier.guard.decision import Subject

    thread = SyncThread(node_folder())
    thread.start()
    try:
        assert thread.first.wait(20)
        guard = Guard(audit=MemoryLog())
        action = Action(point="load", skill=Subject(name="pdf"))
        assert guard.decide(action).is_allowed
        server.decide(blocked=[["name", "pdf", "ada"]])
        until(lambda: guard.decide(action).code == "skill-quarantined")
        server.deploy("greet")
        until(lambda: (Path(node_skills_folder()) / "greet" / "SKILL.md").exists())
    finally:
        server.close()
        thread.stop()


def test_a_node_whose_server_is_gone_begins_all_the_same(
    server: NodeServer, exchange: NodeExchange, tmp_path: Path
) -> None:
    server.deploy("greet")
    exchange.renew()
    bring_skills(exchange)
    server.close()
    assert Library.discover(tmp_path).get("greet").name == "greet"
