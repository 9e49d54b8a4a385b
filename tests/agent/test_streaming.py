"""What is told of a run as it goes: text, skills, tool calls and the answer, to those who may know, without secrets."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.from_thread import check_cancelled

from metier import Event, Policy
from metier.agent import Manifest
from metier.agent.streaming import MAX_WAITING
from metier.errors import AgentFailed, ModelMissing
from metier.guard.audit.redaction import Redactor, redact
from metier.testing import skill

Declare = Callable[..., Manifest]


def load(*names: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "skills_load", {"skills": list(names), **more}


def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


def told(agent: Any, task: str = "Go.", **options: Any) -> list[Event]:
    async def main() -> list[Event]:
        return [event async for event in agent.stream(task, **options)]

    return anyio.run(main)


def kinds(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.skill or event.tool) for event in events if event.kind != "text"]


@pytest.mark.covers("O-108")
def test_all_that_happens_is_told_in_order_and_the_answer_last(stage: Any, declare: Declare) -> None:
    steps = [load("strict"), ("note", {"text": "x"}), ("skills_read", {"path": "references/a.md"}), "All is done."]
    rules = skill("strict", allowed_tools="Read", files={"references/a.md": "Read me."})
    events = told(stage([rules], steps, declare(uses_tools=("note",)), tools=[note]).agent)
    assert kinds(events) == [
        ("iteration", ""),
        ("action", "skills_load"),
        ("loading", "strict"),
        ("loaded", "strict"),
        ("observation", "skills_load"),
        ("iteration", ""),
        ("action", "note"),
        ("refused", "note"),
        ("observation", "note"),
        ("iteration", ""),
        ("action", "skills_read"),
        ("read", "strict"),
        ("observation", "skills_read"),
        ("iteration", ""),
        ("unloaded", "strict"),
        ("answer", ""),
    ]
    assert events[-1].message == "All is done."
    assert events[-1].data["turns"] == 4
    assert len({event.session for event in events}) == 1
    refused = next(event for event in events if event.kind == "observation" and event.tool == "note")
    assert refused.data["success"] is False


def test_text_comes_in_pieces(stage: Any) -> None:
    events = told(stage([], ["One two three four."]).agent)
    pieces = [event.message for event in events if event.kind == "text"]
    assert len(pieces) > 1
    assert "".join(pieces) == "One two three four."


@pytest.mark.covers("O-85")
def test_a_summary_has_actions_and_the_answer_and_no_details(stage: Any) -> None:
    played = stage(["greet"], [load("greet"), "Hello."])
    events = told(played.agent, view="summary")
    assert {event.kind for event in events} == {"action", "loading", "loaded", "unloaded", "text", "answer"}


@pytest.mark.covers("O-85")
def test_everything_that_is_not_hidden_is_in_the_full_view(stage: Any) -> None:
    played = stage(["greet"], [load("greet"), "Hello."])
    assert {"iteration", "observation"} <= {event.kind for event in told(played.agent)}


@pytest.mark.covers("O-85")
def test_what_a_model_thought_is_a_detail(stage: Any) -> None:
    from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel

    async def thinking(messages: Any, info: Any) -> Any:
        yield {0: DeltaThinkingPart(content="Hm, the password: hunter2.")}
        yield "Yes."

    agent = stage(model=FunctionModel(stream_function=thinking)).agent
    thoughts = [event.message for event in told(agent) if event.kind == "thought"]
    assert thoughts == ["Hm, the password: [REDACTED]"]
    assert "thought" not in {event.kind for event in told(agent, view="summary")}


SECRETS = 'api_key="abc" PASSWORD: hunter2 Token=xyz'


@pytest.mark.covers("O-85")
def test_secrets_are_marked_in_text_arguments_results_and_the_answer(stage: Any, declare: Declare) -> None:
    steps = [("note", {"text": SECRETS, "password": "hunter2"}), f"It is {SECRETS} there."]

    def note(text: str, password: str) -> str:
        return text

    played = stage([], steps, declare(uses_tools=("note",)), tools=[note])
    events = told(played.agent)
    marked = redact(SECRETS)
    assert marked.count("[REDACTED]") == 3
    said = "".join(event.message for event in events if event.kind == "text")
    assert said == events[-1].message == f"It is {marked} there."
    action = next(event for event in events if event.kind == "action")
    assert (action.tool, action.data["arguments"]) == ("note", {"text": marked, "password": "[REDACTED]"})
    observed = next(event for event in events if event.kind == "observation")
    assert (observed.message, observed.data["result"]) == (marked, marked)
    assert played.requests[1].told == (SECRETS,), "the model works with what there is"


PIECES = [
    SECRETS,
    "plain text\nin lines\n\nand more",
    "authorization: bearer abcdefghijklm; more=1 end",
    "a https://me:hunter2@example.com/x b",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----\nafter",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\nnever ended",
    "the key point is\tthis: tokens pass\nghp_abcdefghijklmnopqrstuvwxyz0123 İ \u017fecret: x y",
]


@pytest.mark.covers("O-85")
@pytest.mark.each(("text", "size"), list(itertools.product(PIECES, [1, 2, 3, 7, 1000])))
def test_a_text_in_pieces_is_redacted_as_it_would_be_whole(text: str, size: int) -> None:
    redactor = Redactor()
    pieces = [redactor.feed(text[start : start + size]) for start in range(0, len(text), size)]
    assert "".join((*pieces, redactor.rest())) == redact(text)


def test_what_agents_inside_do_is_told_and_not_what_they_say(stage: Any, declare: Declare) -> None:
    steps = [load("dig", args="x"), load("greet", mode="add"), "Inside.", "Outside."]
    events = told(stage([skill("dig", context="fork"), "greet"], steps).agent)
    texts = "".join(event.message for event in events if event.kind == "text")
    assert texts == "Outside."
    assert [event.message for event in events if event.kind == "answer"] == ["Outside."]
    loaded = [(event.kind, event.skill) for event in events if event.kind in ("loaded", "unloaded")]
    assert loaded == [("loaded", "dig"), ("loaded", "greet"), ("unloaded", "dig"), ("unloaded", "greet")]
    assert len({event.session for event in events}) == 2


def test_a_run_that_fails_is_told_up_to_there_and_then_raised(stage: Any, declare: Declare) -> None:
    played = stage(["greet"], [load("greet"), "Never."], declare(max_turns=1))
    seen: list[Event] = []

    async def main() -> None:
        async for event in played.agent.stream("Go."):
            seen.append(event)

    with pytest.raises(AgentFailed):
        anyio.run(main)
    assert [event.kind for event in seen][-2:] == ["observation", "unloaded"]


def test_without_a_model_it_is_an_error_at_once(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_MODEL", raising=False)
    with pytest.raises(ModelMissing):
        told(stage(model=None).agent)


@pytest.mark.parametrize("closing", [True, False], ids=["closed", "left"])
def test_whoever_stops_listening_ends_the_run_and_everything_is_unloaded(stage: Any, closing: bool) -> None:
    played = stage(["greet"], [load("greet"), "Never."])

    async def main() -> None:
        events = played.agent.stream("Go.")
        async for event in events:
            if event.kind == "loaded":
                break
        if closing:
            await events.aclose()
        else:
            del events, event
            gc.collect()
            with anyio.fail_after(10):
                while not played.audit.find(event="unload"):
                    await anyio.sleep(0)

    anyio.run(main)
    assert played.audit.summary("load", "unload") == [("load", "greet", "ok"), ("unload", "greet", "ok")]
    assert played.model.left == 1


def test_whoever_is_cancelled_while_listening_ends_the_run(stage: Any, declare: Declare) -> None:
    async def wait() -> None:
        await anyio.sleep_forever()

    played = stage(["greet"], [load("greet"), ("wait", {})], declare(uses_tools=("wait",)), tools=[wait])

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with contextlib.aclosing(played.agent.stream("Go.")) as events:
                async for event in events:
                    if event.kind == "action" and event.tool == "wait":
                        scope.cancel()

    anyio.run(main)
    assert played.audit.summary()[-2:] == [("call", "wait", "cancelled"), ("unload", "greet", "ok")]


def test_a_run_is_never_far_ahead_of_whoever_listens(stage: Any) -> None:
    from pydantic_ai.models.function import FunctionModel

    said = 0

    async def chatter(messages: Any, info: Any) -> Any:
        nonlocal said
        for _ in range(1_000):
            said += 1
            yield "word\n"

    async def main() -> None:
        agent = stage(model=FunctionModel(stream_function=chatter)).agent
        async with contextlib.aclosing(agent.stream("Go.")) as events:
            async for event in events:
                if event.kind == "text":
                    break
            for _ in range(500):
                await anyio.sleep(0)
            assert said <= MAX_WAITING + 5

    anyio.run(main)


@pytest.mark.parametrize("way", ["left", "cancelled"])
def test_whoever_ends_a_run_ends_a_question_that_stands_in_a_thread(stage: Any, declare: Declare, way: str) -> None:
    asked, ended = threading.Event(), threading.Event()

    def approve(action: Any, decision: Any) -> bool:
        asked.set()
        try:
            while True:
                check_cancelled()
                time.sleep(0.005)
        finally:
            ended.set()

    steps = [("note", {"text": "x"}), "Never."]
    played = stage([], steps, declare(uses_tools=("note",)), tools=[note], policy=Policy(ask="note"), approve=approve)

    async def main() -> None:
        async with contextlib.aclosing(played.agent.stream("Go.")) as events:
            async for event in events:
                if event.kind == "action":
                    break
            while not asked.is_set():
                await anyio.sleep(0.005)

    async def cancelled() -> None:
        async def ended_once_asked() -> None:
            while not asked.is_set():
                await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ended_once_asked)
            async for _ in played.agent.stream("Go."):
                pass

    anyio.run(main if way == "left" else cancelled)
    assert ended.is_set(), "before the iterator was closed"
    assert played.audit.summary("call") == [("call", "note", "cancelled")]
