"""What records say of the skills behind them: which one it was, and what people should know of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.governance.conftest import Begin, Put

from metier import Guard, Library
from metier.dialect import CONTROL_TOOLS
from metier.guard import MemoryLog
from metier.library import Place
from metier.skill.tool_rules import unknown_tools
from metier.source import FolderSource
from metier.tools import FunctionTool


@pytest.mark.covers("A-47")
def test_a_tool_call_names_the_active_skills_with_source_and_digest(put: Put, begin: Begin, log: MemoryLog) -> None:
    put("personal", "notes")
    session = begin()
    session.load("notes")

    def look() -> str:
        """Look."""
        return "seen"

    session.executor([FunctionTool(look)]).execute_blocking("look", {})
    record = log.records[-1]
    digest = session.loaded.one("notes").digest.removeprefix("sha256:")[:12]
    assert (record.type, record.active, record.skills) == ("tool.called", ("notes",), (f"notes@personal#{digest}",))
    assert record.as_dict()["skills"] == record.skills


@pytest.fixture
def two_packages(own_home: Path, log: MemoryLog) -> Library:
    """A library in which two packages define the same name."""
    for source in ("signal", "telegram"):
        folder = own_home / source / "configure"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: configure\ndescription: Configures {source}.\n---\nDo it.\n")
    places = [
        Place(layer="plugin", source=FolderSource(own_home / source, name=source, whole_root=False))
        for source in ("signal", "telegram")
    ]
    return Library(places, cache=False)


@pytest.mark.covers("A-8")
def test_a_bare_name_that_several_packages_define_is_noted(two_packages: Library, log: MemoryLog) -> None:
    guard = Guard(audit=log)
    two_packages.session(guard=guard).load("configure")
    assert log.records[-1].notes == (
        "Several packages define 'configure': this is configure@telegram, not configure@signal.",
    )
    two_packages.session(guard=guard).load("configure@signal")
    assert log.records[-1].source == "signal"
    assert not log.records[-1].notes


@pytest.mark.covers("A-20")
def test_a_load_warns_of_tools_that_nobody_has(
    put: Put, begin: Begin, log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    put("personal", "odd", more="allowed-tools: Read Frobnicate\n")
    begin().load("odd")
    assert log.records[-1].notes == ("Its allowed-tools name tools that are not known: Frobnicate.",)
    assert "Frobnicate" in caplog.text


def test_every_tool_that_controls_skills_is_known() -> None:
    assert unknown_tools(sorted(CONTROL_TOOLS)) == ()
