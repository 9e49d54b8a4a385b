"""What is specific to programs that talk to a provider themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.dialect.adapters.stage import trail

from metier.dialect.raw import Skills
from metier.errors import InvalidArgument
from metier.guard import MemoryLog
from metier.tools import FunctionTool

OPENAI_CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "skills_load", "arguments": '{"skills": ["letters"]}'},
}
USE = {"type": "tool_use", "id": "1", "name": "skills_load", "input": {"skills": ["letters"]}}
ITEM = {"type": "function_call", "call_id": "1", "name": "skills_load", "arguments": '{"skills": ["letters"]}'}
MCP_CALL = {"type": "mcp_call", "id": "1", "server_label": "web", "name": "fetch", "arguments": "{}"}
PART = {"name": "skills_load", "args": {"skills": ["letters"]}}

FORMS: list[tuple[Any, Any]] = [
    ("openai", {"choices": [{"message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}}]}),
    ("openai", {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}),
    ("openai-responses", {"output": [{"type": "reasoning"}, ITEM]}),
    ("openai-responses", [ITEM]),
    ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": "I load it."}, USE]}),
    ("anthropic", [USE]),
    ("gemini", {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}, {"function_call": PART}]}}]}),
    ("gemini", {"role": "model", "parts": [{"functionCall": PART}]}),
]


@pytest.mark.each(("provider", "response"), FORMS)
def test_a_response_is_read_in_each_of_its_forms(folder: Path, provider: Any, response: Any) -> None:
    with Skills(folder, provider=provider).conversation() as chat:
        [answer] = chat.answer_blocking(response)
        assert "Dear reader." in str(answer)
        assert [one.name for one in chat.session.active] == ["letters"]


@pytest.mark.each(
    ("provider", "response"),
    [
        ("openai", {"role": "assistant", "content": "Hello."}),
        ("openai-responses", {"output": [{"type": "message", "content": []}]}),
        ("anthropic", {"role": "assistant", "content": "Hello."}),
        ("gemini", {"role": "model", "parts": None}),
        # What was withheld, as Gemini says it.
        ("gemini", {"candidates": None, "prompt_feedback": {"block_reason": "SAFETY"}}),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}),
        ("gemini", {"candidates": [{"content": None, "finish_reason": "SAFETY"}]}),
        ("openai", {"choices": [{"message": {"content": "Hello."}}], "usage": [1], "model": 7}),
        (
            "openai",
            {"choices": [{"message": {"content": "Hello."}}], "usage": {"input_tokens": "3", "output_tokens": 4}},
        ),
    ],
)
def test_a_response_without_calls_has_no_answer(folder: Path, provider: Any, response: Any) -> None:
    assert Skills(folder, provider=provider).conversation().answer_blocking(response) == []


@pytest.mark.each(
    ("provider", "response"),
    [
        ("openai", {"choices": [{"message": {"tool_calls": [OPENAI_CALL]}}], "usage": {"completion_tokens": 3}}),
        ("openai-responses", {"output": [ITEM], "usage": {"input_tokens": 7, "output_tokens": 3}}),
        ("anthropic", {"content": [USE], "usage": {"output_tokens": 3}}),
        (
            "gemini",
            {
                "parts": [{"function_call": PART}],
                "usage_metadata": {"candidates_token_count": 2, "thoughts_token_count": 1},
            },
        ),
    ],
)
def test_the_record_of_a_call_tells_of_the_tokens_of_the_answer(folder: Path, provider: Any, response: Any) -> None:
    log = MemoryLog()
    usage = "usage_metadata" if provider == "gemini" else "usage"
    total = "total_token_count" if provider == "gemini" else "total_tokens"
    response = {**response, "model": "m", usage: {**response[usage], total: 10}}
    Skills(folder, provider=provider, audit=log).conversation().answer_blocking(response)
    (told,) = [record for record in log.records if record.tokens_out is not None]
    assert (told.event, told.model, told.tokens_in, told.tokens_out) == ("call", "m", 7, 3)


@pytest.mark.each(
    ("provider", "response", "name"),
    [
        ("anthropic", {"content": [USE | {"type": "server_tool_use", "name": "web_fetch"}]}, "web_fetch"),
        ("anthropic", {"content": [USE | {"type": "mcp_tool_use", "name": "web_fetch"}]}, "web_fetch"),
        ("openai-responses", [{"type": "web_search_call", "id": "1", "action": {"query": "skills"}}], "web_search"),
        ("openai-responses", [MCP_CALL], "mcp__web__fetch"),
        ("gemini", {"parts": [{"executable_code": {"code": "1 + 1", "language": "PYTHON"}}]}, "code_execution"),
    ],
)
def test_what_the_provider_did_itself_is_recorded_and_not_answered(
    folder: Path, provider: Any, response: Any, name: str
) -> None:
    log = MemoryLog()
    chat = Skills(folder, provider=provider, audit=log).conversation()
    assert chat.answer_blocking(response) == []
    assert [(record.tool, record.decision) for record in log.records] == [(name, "allow")]


@pytest.mark.each("provider", ["openai", "openai-responses", "anthropic", "gemini"])
@pytest.mark.each("response", [None, 7, "text", [7], {"choices": []}, {"content": [{}]}, {"output": 7}, object()])
def test_what_is_no_response_is_an_error_with_a_hint(folder: Path, provider: Any, response: Any) -> None:
    chat = Skills(folder, provider=provider).conversation()
    try:
        assert chat.answer_blocking(response) == []
    except InvalidArgument as error:
        assert error.hint


def test_calls_of_the_programs_own_tools_pass_the_same_gate(folder: Path, log: MemoryLog) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    skills = Skills(folder, provider="anthropic", tools=[FunctionTool(pay)], audit=log)
    chat = skills.conversation()
    use = {"type": "tool_use", "id": "2", "name": "pay", "input": {"amount": 3}}
    [paid] = chat.answer_blocking([use])
    assert paid["content"][0] == {"type": "tool_result", "tool_use_id": "2", "content": "paid 3", "is_error": False}
    chat.session.load("report")
    [refused] = chat.answer_blocking([use])
    assert refused["content"][0]["is_error"] is True
    [unknown] = chat.answer_blocking([use | {"name": "steal"}])
    assert "tool-not-found" in unknown["content"][0]["content"]
    assert [(tool, decision) for event, tool, _, decision, _, _ in trail(log) if event == "call"] == [
        ("pay", "allow"),
        ("pay", "deny"),
        ("steal", "deny"),
    ]


def test_a_conversation_is_found_again_by_its_id_until_it_is_closed(folder: Path) -> None:
    skills = Skills(folder)
    chat = skills.conversation("one")
    chat.session.load("report")
    assert skills.conversation("one").session is chat.session
    assert skills.conversation("two").session is not chat.session
    chat.close()
    assert skills.conversation("one").session.active == ()


def test_a_free_text_call_of_openai_is_answered(folder: Path) -> None:
    call = {"id": "1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}

    def sql(input: str) -> str:  # noqa: A002
        """Run SQL."""
        return f"ran {input}"

    [answer] = Skills(folder, tools=[sql]).conversation().answer_blocking({"tool_calls": [call]})
    assert answer == {"role": "tool", "tool_call_id": "1", "content": "ran select 1"}


def test_a_blocking_answer_inside_an_event_loop_says_what_to_use(folder: Path) -> None:
    chat = Skills(folder).conversation()

    async def main() -> None:
        with pytest.raises(InvalidArgument, match="event loop") as caught:
            chat.answer_blocking({"tool_calls": []})
        assert "await" in caught.value.hint

    anyio.run(main)


def test_without_a_loop_a_forked_skill_is_loaded_like_any_other(folder: Path) -> None:
    chat = Skills(folder, provider="anthropic").conversation()
    chat.answer_blocking([USE | {"input": {"skills": ["research"]}}])
    assert [one.name for one in chat.session.active] == ["research"]


def test_a_blocking_loop_runs_a_forked_skill(folder: Path) -> None:
    def loop(chat: Any, task: str) -> str:
        assert "Research the moon." in chat.instructions(task)
        return f"{task} is far away"

    chat = Skills(folder, provider="anthropic", loop=loop).conversation()
    [answer] = chat.answer_blocking([USE | {"input": {"skills": ["research"], "args": "the moon"}}])
    assert "the moon is far away" in answer["content"][0]["content"]


def test_an_unknown_provider_is_named_with_those_that_there_are(folder: Path) -> None:
    with pytest.raises(InvalidArgument, match="no provider 'mistral'"):
        Skills(folder, provider="mistral")  # type: ignore[arg-type]
