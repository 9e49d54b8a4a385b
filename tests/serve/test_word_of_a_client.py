"""An elicited yes is the word of the client's program: it counts once, and is never a person's approval."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, Implementation
from tests.serve.clients import MODES, YES, answering, talk, text_of

from metier import Library, Place
from metier.cli.main import main
from metier.guard import MemoryLog
from metier.guard.guard import current_user
from metier.serve.mcp import SkillServer
from metier.source import FolderSource
from metier.store import Person, Store, TenantScope

Serve = Callable[..., SkillServer]
LOAD = ("skills_load", {"skills": ["forms"]})
GOVERNED = ("people", "enterprise")


@pytest.fixture
def scope() -> Iterator[TenantScope]:
    """What the store keeps."""
    with Store.open() as store:
        yield store.of()


@pytest.fixture
def govern(scope: TenantScope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Settles who decides: people were added, of whom the server's user is an admin, or there is a policy in force."""

    def settle(how: str) -> None:
        if how == "people":
            scope.people.add(Person(name=current_user() or "", roles=frozenset({"admin"})))
        else:
            policy = tmp_path / "policy.yaml"
            policy.write_text("version: 1\nskill-policy:\n  approval: {approvers: ['role:admin']}\n")
            monkeypatch.setenv("METIER_POLICY", str(policy))

    return settle


@pytest.fixture
def plugin(skills: Path) -> Library:
    """The skills as those of an installed package, whose content needs an approval."""
    return Library([Place(layer="plugin", source=FolderSource(skills))], cache=False)


@pytest.fixture
def untrusted(skills: Path) -> Library:
    """The skills of a place that nobody vouches for."""
    return Library([Place(layer="project", source=FolderSource(skills), trusted=False)], cache=False)


async def twice(client: mcp.Client) -> list[Any]:
    return [await client.call_tool(*LOAD) for _ in range(2)]


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("mode", MODES)
def test_a_yes_counts_for_its_call_and_is_asked_for_again_at_the_next(
    serve: Serve, plugin: Library, scope: TenantScope, log: MemoryLog, mode: str
) -> None:
    asked, answer = answering(YES, YES)
    name = "bad\x1b[2J\nclient"
    results = talk(
        serve(library=plugin, user=current_user()),
        twice,
        mode,
        elicitation_callback=answer,
        client_info=Implementation(name=name, version="1"),
    )
    assert [result.is_error for result in results] == [False, False]
    assert len(asked) == 2
    assert scope.approvals.all() == []
    activated = [record for record in log.records if record.type == "skill.activated"]
    assert {record.answered_by for record in activated} == {r"client:bad\x1b[2J\nclient over elicitation"}
    assert all(record.answered_by in record.reason.replace("\\\\", "\\") for record in activated)


@pytest.mark.covers("SEC-17")
def test_the_command_that_the_question_names_makes_an_approval_that_lasts(
    serve: Serve, plugin: Library, scope: TenantScope, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, answer = answering(YES, YES)
    talk(serve(library=plugin, user=current_user()), twice, elicitation_callback=answer)
    command = asked[0].partition("`metier ")[2].partition("`")[0]
    assert main(command.split()) == 0
    results = talk(serve(library=plugin, user=current_user()), twice, elicitation_callback=answer)
    assert [result.is_error for result in results] == [False, False]
    assert len(asked) == 2


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", GOVERNED)
def test_where_it_is_settled_who_decides_a_client_is_not_asked_and_leaves_a_request(
    serve: Serve, plugin: Library, scope: TenantScope, govern: Callable[[str], None], how: str, mode: str
) -> None:
    govern(how)
    asked, answer = answering()
    results = talk(serve(library=plugin, user=current_user()), twice, mode, elicitation_callback=answer)
    (request,) = scope.approvals.requests("pending")
    assert all(result.is_error and request.id in text_of(result) for result in results)
    assert all("a person has to, at a terminal" in text_of(result) for result in results)
    assert asked == []
    assert scope.approvals.all() == []


@pytest.mark.covers("SEC-17")
def test_over_http_a_client_is_no_person_either(
    serve: Serve, http: Callable[..., str], plugin: Library, scope: TenantScope, govern: Callable[[str], None]
) -> None:
    govern("people")
    _, answer = answering()
    url = http(serve(library=plugin, user=current_user()))
    for mode in MODES:
        assert all(result.is_error for result in talk(url, twice, mode, elicitation_callback=answer))
    assert scope.approvals.all() == []


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("how", ("nobody", *(pytest.param(how, marks=pytest.mark.slow) for how in GOVERNED)))
def test_a_program_that_starts_the_server_gets_no_approval_by_answering_for_a_person(
    programs: Path,
    tmp_path: Path,
    write_skill: Callable[..., Path],
    scope: TenantScope,
    govern: Callable[[str], None],
    how: str,
) -> None:
    if how != "nobody":
        govern(how)
    home = tmp_path / "work"
    write_skill(home / ".metier" / "skills" / "forms")
    (home / ".metier" / "skills" / "forms" / "x.py").write_text("print('it ran')\n")
    (home / ".metier" / "policy.yaml").write_text("version: 1\nskill-policy: {require-approval-for: [scripts]}\n")
    started = mcp.StdioServerParameters(command=str(programs / "metier"), args=["mcp"], cwd=home, env=dict(os.environ))
    asked, answer = answering(*[YES] * 4)
    talk(started, twice, elicitation_callback=answer)
    assert scope.approvals.all() == []
    assert not [one for one in scope.audit.tail(100) if one["type"] == "approval.granted"]
    assert bool(asked) is (how == "nobody")


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_that_a_client_picks_vouches_for_nothing(
    serve: Serve, untrusted: Library, log: MemoryLog, mode: str
) -> None:
    asked, answer = answering(YES, ElicitResult(action="decline"))

    async def use(client: mcp.Client) -> None:
        assert (await client.get_prompt("forms", {"args": "x"})).messages
        with pytest.raises(MCPError, match="did not agree"):
            await client.get_prompt("forms", {"args": "x"})

    talk(serve(library=untrusted), use, mode, elicitation_callback=answer)
    assert all("nobody vouches for" in question for question in asked)
    assert [record.by for record in log.records if record.type == "skill.activated"] == ["client"]


@pytest.mark.covers("SEC-17")
@pytest.mark.parametrize("how", GOVERNED)
def test_where_it_is_settled_who_decides_no_prompt_loads_what_nobody_vouches_for(
    serve: Serve, untrusted: Library, govern: Callable[[str], None], how: str
) -> None:
    govern(how)
    asked, answer = answering()

    async def use(client: mcp.Client) -> None:
        with pytest.raises(MCPError, match="nobody vouches for"):
            await client.get_prompt("forms", {"args": "x"})
        with pytest.raises(MCPError, match="nobody vouches for"):
            await client.read_resource("skill://forms/SKILL.md")

    talk(serve(library=untrusted), use, elicitation_callback=answer)
    assert asked == []
