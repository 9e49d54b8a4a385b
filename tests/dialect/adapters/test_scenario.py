"""The same play with every framework's real loop leaves the same trail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.dialect.adapters.conftest import ALL, STREAMING
from tests.dialect.adapters.stage import Call, Outside, Performer, Script, Step, load, trail

from metier.guard import MemoryLog

Perform = Callable[..., Performer]

PLAY: list[Step] = [
    load("report"),
    Call("skills_read", {"path": "references/style.md"}),
    Call("skills_run", {"script": "scripts/count.py", "args": ["a", "b"]}),
    Call("web_fetch", {"url": "https://example.com/1"}),
    Call("skills_unload", {"all": True}),
    Call("web_fetch", {"url": "https://example.com/2"}),
    "All done.",
]

TRAIL = [
    ("load", "", "report", "allow", "", True),
    ("call", "skills_load", "", "allow", "", True),
    ("read", "", "report", "allow", "", True),
    ("call", "skills_read", "", "allow", "", True),
    ("run", "", "report", "allow", "", True),
    ("call", "skills_run", "", "allow", "", True),
    ("call", "web_fetch", "", "deny", "tool-not-allowed", False),
    ("unload", "", "report", "allow", "", True),
    ("call", "skills_unload", "", "allow", "", True),
    ("call", "web_fetch", "", "allow", "", True),
]


def check(perform: Perform, log: MemoryLog, outside: Outside, **options: Any) -> None:
    script = Script(PLAY)
    agent = perform(script, **options)
    assert anyio.run(agent.say, "Write a report.").strip() == "All done."
    assert trail(log) == TRAIL
    assert outside.calls == ["https://example.com/2"]
    assert script.is_over
    first = script.requests[0]
    assert "<name>report</name>" in first.system, "the catalog is in the request"
    last = script.requests[-1].results
    assert "Write it." in last[0]
    assert "Be brief." in last[1]
    assert "counted 2" in last[2]
    assert "tool-not-allowed" in last[3]
    assert last[5] == "the page https://example.com/2"


@pytest.mark.parametrize("performer", ALL, indirect=True, ids=lambda performer: performer.name)
def test_the_play_leaves_the_same_trail_in_every_framework(perform: Perform, log: MemoryLog, outside: Outside) -> None:
    check(perform, log, outside)


@pytest.mark.parametrize("performer", STREAMING, indirect=True, ids=lambda performer: performer.name)
def test_it_leaves_the_same_trail_when_the_framework_streams(
    perform: Perform, log: MemoryLog, outside: Outside
) -> None:
    check(perform, log, outside, streamed=True)


def test_definitions_stay_the_same_whatever_is_loaded(perform: Perform) -> None:
    script = Script(PLAY)
    anyio.run(perform(script).say, "Write a report.")
    assert {"web_fetch", "skills_load", "skills_run"} <= script.requests[0].tools.keys()
    assert all(request.tools == script.requests[0].tools for request in script.requests)
