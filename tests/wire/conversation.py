"""The scripted conversation on one wire, one way, and everything that is known of it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tests.wire import agents
from tests.wire.clients import WireName, library, raw_client, web_lookup
from tests.wire.reading import READINGS, Declared, Result
from tests.wire.script import RULES, TASK
from tests.wire.server import Recorder

from metier import Library
from metier.dialect import raw
from metier.dialect.pydantic_ai import Skills as Capability
from metier.guard import AuditRecord, MemoryLog

Way = Literal["raw", "pydantic-ai"]
Delivery = Literal["result", "instructions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request, read."""

    path: str
    body: Any
    typed: Any
    system: str
    history: list[Any]
    tools: list[Declared]
    results: list[Result]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What was sent, what was recorded, and what came of it."""

    wire: WireName
    way: Way
    streamed: bool
    delivery: Delivery
    sent: tuple[Sent, ...]
    records: tuple[AuditRecord, ...]
    answer: str


def sent(recorder: Recorder, wire: WireName) -> tuple[Sent, ...]:
    """What was sent since the recorder began."""
    reading = READINGS[wire]
    bodies = [(request.path, request.json) for request in recorder.requests]
    return tuple(
        Sent(
            path=path,
            body=body,
            typed=reading.typed(body),
            system=reading.system(body),
            history=reading.history(body),
            tools=reading.tools(body),
            results=reading.results(body),
        )
        for path, body in bodies
    )


async def converse(
    recorder: Recorder, skills: Library, wire: WireName, way: Way, streamed: bool, delivery: Delivery
) -> Conversation:
    """Have the conversation."""
    log = MemoryLog()
    recorder.begin()
    async with library(wire, recorder.url) as client:
        if way == "raw":
            chat = raw.Skills(skills, provider=wire, tools=[web_lookup], audit=log, delivery=delivery).conversation()
            answer = await raw_client(wire, client).converse(chat, RULES, TASK, streamed=streamed)
        else:
            capability = Capability(skills, audit=log, delivery=delivery)
            answer = await agents.converse(agents.model(wire, client), capability, RULES, TASK, streamed=streamed)
    return Conversation(
        wire=wire,
        way=way,
        streamed=streamed,
        delivery=delivery,
        sent=sent(recorder, wire),
        records=tuple(log.records),
        answer=answer,
    )
