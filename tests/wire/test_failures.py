"""A provider that fails in the middle: the error says what happened, and the session is as it was before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import anyio
import pytest
from pydantic_ai import capture_run_messages
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import ModelMessage
from tests.tables import crossed, thinned
from tests.wire import agents
from tests.wire.clients import WIRES, WireName
from tests.wire.clients import library as provider
from tests.wire.conversation import sent
from tests.wire.script import ANSWER, CUT, RULES, TASK
from tests.wire.server import Fault, Recorder

from metier import Library
from metier.dialect.pydantic_ai import Skills
from metier.guard import MemoryLog

FAULTS: tuple[Fault, ...] = get_args(Fault)
SAYS: dict[Fault, str] = {
    "ratelimit": "429",
    "drop": "500",
    "malformed": "JSON|without content",
    "disconnect": "Connection error|disconnected",
}


@dataclass
class Talk:
    """A conversation of an agent with a provider, which may break off and go on."""

    recorder: Recorder
    wire: WireName
    library: Library
    log: MemoryLog = field(default_factory=MemoryLog)
    messages: list[ModelMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.skills = Skills(self.library, audit=self.log)

    def run(self, task: str | None, *, streamed: bool = False) -> str:
        """Say something, or go on from where it broke off."""
        return anyio.run(self._run, task, streamed)

    async def _run(self, task: str | None, streamed: bool) -> str:
        async with provider(self.wire, self.recorder.url) as client:
            chosen = agents.model(self.wire, client)
            history = list(self.messages)
            with capture_run_messages() as self.messages:
                return await agents.converse(
                    chosen, self.skills, RULES, task, streamed=streamed, conversation="one", history=history
                )

    @property
    def active(self) -> list[str]:
        """What is loaded."""
        return [one.name for one in self.skills.seam.kit("one").session.active]

    @property
    def loads(self) -> list[str]:
        """What was loaded, as it was recorded."""
        return [record.skill for record in self.log.records if record.event == "load"]


@pytest.fixture
def talk(wire: WireName, recorder: Recorder, library: Library) -> Talk:
    """A conversation on a wire."""
    return Talk(recorder, wire, library)


@crossed(("wire", WIRES), ("fault", FAULTS), one_in=2)
def test_a_provider_that_fails_at_once_leaves_nothing_loaded(talk: Talk, fault: Fault) -> None:
    talk.recorder.begin({0: fault})
    with pytest.raises(AgentRunError, match=SAYS[fault]):
        talk.run(TASK, streamed=True)
    assert talk.active == []
    assert talk.log.records == []


@thinned(("wire", "fault"), list(zip(WIRES, FAULTS, strict=True)), one_in=2)
def test_a_conversation_goes_on_where_a_provider_failed(talk: Talk, fault: Fault) -> None:
    talk.recorder.begin({1: fault})
    with pytest.raises(AgentRunError, match=SAYS[fault]):
        talk.run(TASK)
    assert talk.active == ["forms"]
    assert talk.run(None) == ANSWER
    assert talk.active == []
    assert talk.loads == ["forms", "letters"]
    _, failed, repeated, *_ = sent(talk.recorder, talk.wire)
    assert repeated.body == failed.body


@pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic"])
def test_a_call_that_breaks_off_in_a_stream_is_not_made(talk: Talk) -> None:
    # Gemini sends a call in one piece, which cannot break off.
    with pytest.raises(AgentRunError, match="Connection error"):
        talk.run(CUT, streamed=True)
    assert len(talk.recorder.requests) == 1
    assert talk.active == []
    assert talk.log.records == []
