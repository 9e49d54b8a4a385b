"""Approval by the person at the client, in the way of each generation of the protocol."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    InputResponseRequestParams,
)
from tests.serve.clients import MODES, NO, YES, answering, ask, talk, text_of

from metier import Library, Place
from metier.guard import MemoryLog, Policy
from metier.guard.question import Question
from metier.serve.mcp import SkillServer
from metier.serve.mcp.elicitation import SECONDS, Questions
from metier.source import FolderSource

ASKING = Policy(unsandboxed="allow", scripts="ask")
RUN = {"script": "scripts/echo.py", "args": ["1"]}


async def run(client: mcp.Client) -> CallToolResult:
    await client.call_tool("skills_load", {"skills": ["forms"]})
    return await client.call_tool("skills_run", RUN)


@pytest.mark.parametrize("mode", MODES)
def test_what_is_asked_about_happens_after_a_yes(serve: Callable[..., SkillServer], log: MemoryLog, mode: str) -> None:
    asked, answer = answering(YES)
    result = talk(serve(ASKING), run, mode, elicitation_callback=answer)
    assert not result.is_error
    assert "arguments: 1" in text_of(result)
    (question,) = asked
    assert "run scripts/echo.py of skill 'forms'" in question
    assert '{"args": ["1"]}' in question
    decided = [(record.decision, record.code) for record in log.records if record.event == "run"]
    assert decided == [("ask", "approval-pending"), ("allow", "")]


NOES = [
    NO,
    ElicitResult(action="cancel"),
    ElicitResult(action="accept"),
    ElicitResult(action="accept", content={"approve": False}),
    ElicitResult(action="accept", content={"approve": "true"}),
    ElicitResult(action="decline", content={"approve": True}),
]


@pytest.mark.parametrize("mode", MODES)
def test_whatever_is_not_a_plain_yes_is_a_no(serve: Callable[..., SkillServer], mode: str) -> None:
    asked, answer = answering(*NOES)

    async def use(client: mcp.Client) -> list[str]:
        return [text_of(await run(client)) for _ in NOES]

    results = talk(serve(ASKING), use, mode, elicitation_callback=answer)
    assert all(text.startswith("Error [approval-denied]") for text in results)
    assert len(asked) == len(NOES)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_cannot_ask_is_told_the_refusal(serve: Callable[..., SkillServer], mode: str) -> None:
    result = talk(serve(ASKING), run, mode)
    assert result.is_error
    assert text_of(result).startswith("Error [approval-needed]")


@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_asked_about_anew(serve: Callable[..., SkillServer], mode: str) -> None:
    asked, answer = answering(YES, NO)

    async def use(client: mcp.Client) -> list[bool]:
        return [(await run(client)).is_error, (await run(client)).is_error]

    assert talk(serve(ASKING), use, mode, elicitation_callback=answer) == [False, True]
    assert len(asked) == 2


def test_the_host_of_the_server_is_asked_first(serve: Callable[..., SkillServer]) -> None:
    asked, answer = answering()
    server = serve(ASKING, approve=lambda action, decision: True)
    assert not talk(server, run, elicitation_callback=answer).is_error
    assert asked == []


class TestAnswersThatComeWithAnotherRequest:
    """A client of 2026-07-28 sends its answers itself, and may send whatever it likes."""

    @staticmethod
    async def asked(client: mcp.Client, arguments: dict[str, Any]) -> InputRequiredResult:
        result = await client.session.call_tool("skills_run", arguments, allow_input_required=True)
        assert isinstance(result, InputRequiredResult)
        assert result.request_state
        return result

    @staticmethod
    async def again(client: mcp.Client, arguments: dict[str, Any], state: str | None, **answers: ElicitResult) -> Any:
        return await client.session.call_tool(
            "skills_run",
            arguments,
            allow_input_required=True,
            request_state=state,
            input_responses={name.replace("_", "-"): answer for name, answer in answers.items()},
        )

    def talk(self, server: SkillServer, use: Callable[[mcp.Client], Any]) -> Any:
        async def loaded(client: mcp.Client) -> Any:
            await client.call_tool("skills_load", {"skills": ["forms"]})
            return await use(client)

        _, answer = answering()
        return talk(server, loaded, elicitation_callback=answer)

    def test_a_yes_lets_the_call_that_was_asked_about_happen(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            (request,) = (first.input_requests or {}).values()
            assert isinstance(request, ElicitRequest)
            return await self.again(client, RUN, first.request_state, approve_1=YES)

        assert not self.talk(serve(ASKING), use).is_error

    def test_a_yes_for_one_call_is_none_for_another(self, serve: Callable[..., SkillServer], log: MemoryLog) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            return await self.again(client, RUN | {"args": ["2"]}, first.request_state, approve_1=YES)

        assert isinstance(self.talk(serve(ASKING), use), InputRequiredResult)
        assert not [record for record in log.records if record.event == "run" and record.decision == "allow"]

    def test_a_yes_counts_once(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            assert not (await self.again(client, RUN, first.request_state, approve_1=YES)).is_error
            return await self.again(client, RUN, first.request_state, approve_1=YES)

        assert isinstance(self.talk(serve(ASKING), use), InputRequiredResult)

    def test_a_yes_to_a_question_that_nobody_asked_is_none(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> None:
            for state in (None, "", "x", "A" * 32):
                result = await self.again(client, RUN, state, approve_1=YES)
                assert isinstance(result, InputRequiredResult)

        self.talk(serve(ASKING), use)

    def test_a_yes_by_another_name_is_none(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            return await self.again(client, RUN, first.request_state, approve_2=YES)

        assert isinstance(self.talk(serve(ASKING), use), InputRequiredResult)

    def test_a_yes_on_one_connection_is_none_on_another(self, serve: Callable[..., SkillServer]) -> None:
        server = serve(ASKING)

        async def use(client: mcp.Client) -> str | None:
            return (await self.asked(client, RUN)).request_state

        state = self.talk(server, use)

        async def other(client: mcp.Client) -> Any:
            return await self.again(client, RUN, state, approve_1=YES)

        assert isinstance(self.talk(server, other), InputRequiredResult)

    def test_a_question_stays_open_however_many_others_are_asked(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            for number in range(50):
                await self.asked(client, RUN | {"args": [str(number)]})
            return await self.again(client, RUN, first.request_state, approve_1=YES)

        assert not self.talk(serve(ASKING), use).is_error

    def test_a_question_that_a_client_made_up_or_changed_is_none(self, serve: Callable[..., SkillServer]) -> None:
        async def use(client: mcp.Client) -> None:
            state = (await self.asked(client, RUN)).request_state or ""
            body, _, mark = state.rpartition(".")
            other = base64.urlsafe_b64encode(base64.urlsafe_b64decode(body).replace(b"approve-1", b"approve-2"))
            for wrong in (f"{other.decode()}.{mark}", f"{body}.{'0' * 64}", body, f".{mark}", "ü.ü", "." * 100_000):
                result = await self.again(client, RUN, wrong, approve_1=YES, approve_2=YES)
                assert isinstance(result, InputRequiredResult)

        self.talk(serve(ASKING), use)

    def test_an_answer_that_comes_late_or_beside_too_many_others_is_none(self) -> None:
        now = 0.0
        questions = Questions(clock=lambda: now)
        state = questions._later("x", [Question(id="q", text="?")], {}).request_state
        request = InputResponseRequestParams(request_state=state, input_responses={"approve-1": YES})
        now = SECONDS + 1
        assert questions._answers(request, "x") == {}
        now = 0.0
        assert questions._answers(request, "x") == {"q": True}
        assert questions._answers(request, "x") == {}

    def test_a_skill_that_was_changed_after_the_question_is_asked_about_again(
        self, serve: Callable[..., SkillServer], skills: Path
    ) -> None:
        async def use(client: mcp.Client) -> Any:
            first = await self.asked(client, RUN)
            (skills / "forms" / "scripts" / "echo.py").write_text("print('other')")
            await client.call_tool("skills_load", {"skills": ["forms"]})
            return await self.again(client, RUN, first.request_state, approve_1=YES)

        assert isinstance(self.talk(serve(ASKING), use), InputRequiredResult)


@pytest.fixture
def untrusted(skills: Path) -> Library:
    """The same skills, from a place that nobody vouches for."""
    return Library([Place(layer="project", source=FolderSource(skills), trusted=False)], cache=False)


@pytest.mark.parametrize("mode", MODES)
def test_a_question_about_content_says_which_that_a_yes_counts_once_and_how_an_approval_is_made(
    serve: Callable[..., SkillServer], skills: Path, mode: str
) -> None:
    forms: list[Any] = []

    async def answer(_: Any, params: Any) -> ElicitResult:
        forms.append(params)
        return NO

    async def use(client: mcp.Client) -> Any:
        return await client.call_tool("skills_load", {"skills": ["forms"]})

    library = Library([Place(layer="plugin", source=FolderSource(skills))], cache=False)
    talk(serve(library=library), use, mode, elicitation_callback=answer)
    (form,) = forms
    digest = library.digest(library.get("forms"))
    assert f"A yes counts this one time; `metier approve grant {digest}` at a terminal" in form.message
    assert "scripts" in form.message and "all of it new here" in form.message
    assert "this one time" in form.requested_schema["properties"]["approve"]["description"]


def test_a_rule_about_rivals_counts_for_what_is_read_as_a_resource(
    serve: Callable[..., SkillServer],
    skills: Path,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_skill(tmp_path / "plugin" / "quiet")
    rule = "{id: C, point: activate, when: {name-collides-with: plugin}, effect: deny}"
    (tmp_path / "policy.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "policy.yaml"))
    places = [
        Place(layer="personal", source=FolderSource(skills)),
        Place(layer="plugin", source=FolderSource(tmp_path / "plugin")),
    ]

    async def use(client: mcp.Client) -> None:
        assert (await client.read_resource("skill://forms/SKILL.md")).contents
        with pytest.raises(MCPError, match="falls under rule C"):
            await client.read_resource("skill://quiet/SKILL.md")

    talk(serve(library=Library(places, cache=False)), use)


@pytest.mark.parametrize("mode", MODES)
def test_a_skill_that_nobody_vouches_for_is_asked_about_before_it_is_read_as_a_resource(
    serve: Callable[..., SkillServer], untrusted: Library, mode: str
) -> None:
    asked, answer = answering(YES, NO, NO)

    async def use(client: mcp.Client) -> None:
        for path in ("SKILL.md", "references/fields.md", "SKILL.md"):
            assert (await client.read_resource(f"skill://forms/{path}")).contents
        for path in ("SKILL.md", "SKILL.md"):
            with pytest.raises(MCPError, match="did not agree"):
                await client.read_resource(f"skill://quiet/{path}")

    talk(serve(library=untrusted), use, mode, elicitation_callback=answer)
    assert len(asked) == 3


def test_a_skill_that_nobody_vouches_for_is_not_read_where_nobody_can_be_asked(
    serve: Callable[..., SkillServer], untrusted: Library
) -> None:
    async def use(client: mcp.Client) -> None:
        for path in ("SKILL.md", "references/fields.md"):
            with pytest.raises(MCPError, match="nobody vouches for"):
                await client.read_resource(f"skill://forms/{path}")

    talk(serve(library=untrusted), use)


@pytest.mark.parametrize("mode", MODES)
def test_a_skill_that_nobody_vouches_for_is_loaded_after_a_yes(
    serve: Callable[..., SkillServer], untrusted: Library, mode: str
) -> None:
    asked, answer = answering(YES)

    async def use(client: mcp.Client) -> Any:
        assert len((await ask(client, "skills/list"))["skills"]) == 3
        return await client.call_tool("skills_load", {"skills": ["quiet"]})

    assert not talk(serve(library=untrusted), use, mode, elicitation_callback=answer).is_error
    assert "nobody vouches for" in asked[0]
