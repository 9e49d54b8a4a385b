"""The tools by which a model proposes changes to skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier import Guard, Library, ToolResult
from metier.dialect.dialects import PROPOSAL_TOOLS
from metier.dialect.skill_proposals import proposal_tools
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.hub.proposal_page import page_of
from metier.skill import FolderPackage
from metier.store import Store, TenantScope

DIFF = "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -5 +5 @@\n-Do it.\n+Do it well.\n"
TIDY = "---\nname: tidy\ndescription: Tidies a table. Use when a table is a mess.\n---\n# Tidy\n\nSort it.\n"
Call = Callable[..., ToolResult]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/data/metier.db") as store:
        yield store


@pytest.fixture
def scope(store: Store) -> TenantScope:
    return store.of()


@pytest.fixture
def skill(tmp_path: Path, write_skill: Callable[..., Path]) -> Path:
    write_skill(tmp_path / "skills/deploy")
    write_skill(tmp_path / "skills/strict", more="allowed-tools: Read\n")
    write_skill(tmp_path / "skills/secret", more="scope:\n  agents: [other]\n")
    return tmp_path / "skills/deploy"


@pytest.fixture
def calling(skill: Path, store: Store, tmp_path: Path) -> Callable[..., Call]:
    """Makes a session of an agent, and calls its tools as a model does."""

    def calling(policy: str = "", loaded: tuple[str, ...] = ()) -> Call:
        texts: Any = [("enterprise", policy)] if policy else []
        guard = Guard(governance=Governance(Policies(texts=texts), store=store.url))
        library = Library.from_folder(skill.parent, cache=False).as_caller(agent="builder")
        session = library.session(guard=guard, skills=loaded, user="ada", workspace=tmp_path)
        executor = session.executor(proposal_tools(session))

        def call(tool: str, **arguments: Any) -> ToolResult:
            return anyio.run(executor.execute, tool, arguments)

        return call

    return calling


@pytest.mark.covers("A-41", "Y-33")
def test_a_model_proposes_a_change_and_the_skill_stays_as_it_is(
    calling: Callable[..., Call], scope: TenantScope, skill: Path
) -> None:
    before = FolderPackage(skill).digest()
    result = calling()(
        "propose_skill_update", skill="deploy", diff=DIFF, justification="It was done badly.", evidence=["Twice."]
    )
    assert result.success, result.error
    assert FolderPackage(skill).digest() == before
    (proposal,) = scope.proposals.all("open")
    assert result.result["proposal"] == proposal.id
    assert result.result["status"] == "open"
    assert "waits for a person" in result.result["next"]
    assert (proposal.author_kind, proposal.author, proposal.evidence) == ("agent", "builder", ["Twice."])
    assert "+Do it well." in page_of(scope, proposal).read_text()
    record = next(one for one in scope.audit.tail(10) if one["type"] == "proposal.created")
    assert (record["agent"], record["user"], record["proposal"]) == ("builder", "ada", proposal.id)
    assert record["session"]


@pytest.mark.covers("Y-36")
def test_a_model_proposes_a_new_skill(calling: Callable[..., Call], scope: TenantScope, own_home: Path) -> None:
    files = {"SKILL.md": TIDY, "scripts/sort.py": "print('sorted')\n"}
    result = calling()("propose_skill", name="tidy", files=files, justification="Tables are a mess.")
    assert result.success, result.error
    assert result.result["new_capabilities"] == ["scripts"]
    (proposal,) = scope.proposals.all("open")
    assert proposal.location == str(own_home / ".metier/skills/tidy")
    assert not os.path.exists(proposal.location)


@pytest.mark.covers("Y-36")
def test_policy_can_let_an_agent_make_a_skill_directly(calling: Callable[..., Call], own_home: Path) -> None:
    call = calling("rules: [{id: R1, point: install, agent: builder, effect: allow}]")
    result = call("propose_skill", name="tidy", files={"SKILL.md": TIDY}, justification="Tables are a mess.")
    assert (result.success, result.result["status"]) == (True, "applied")
    assert (own_home / ".metier/skills/tidy/SKILL.md").read_text() == TIDY


@pytest.mark.covers("Y-35")
@pytest.mark.each(
    ("tool", "arguments", "code"),
    [
        ("propose_skill_update", {"skill": "deplyo", "diff": DIFF, "justification": "x"}, "skill-not-found"),
        ("propose_skill_update", {"skill": "secret", "diff": DIFF, "justification": "x"}, "skill-not-found"),
        ("propose_skill_update", {"skill": "deploy", "diff": "x", "justification": "x"}, "proposal-invalid"),
        ("propose_skill_update", {"skill": "deploy", "diff": DIFF, "justification": ""}, "proposal-invalid"),
        ("propose_skill_update", {"skill": "deploy", "diff": 7, "justification": "x"}, "invalid-arguments"),
        ("propose_skill_update", {"skill": "deploy", "diff": DIFF}, "invalid-arguments"),
        ("propose_skill", {"name": "tidy", "files": {}, "justification": "x"}, "skill-invalid"),
        ("propose_skill", {"name": "tidy", "files": {"SKILL.md": 1}, "justification": "x"}, "invalid-arguments"),
        ("propose_skill", {"name": "../x", "files": {"SKILL.md": TIDY}, "justification": "x"}, "invalid-argument"),
        ("propose_skill", {"name": "tidy", "files": {"../SKILL.md": TIDY}, "justification": "x"}, "file-refused"),
    ],
)
def test_what_does_not_work_is_a_result_and_changes_nothing(
    calling: Callable[..., Call], scope: TenantScope, tool: str, arguments: dict[str, Any], code: str
) -> None:
    result = calling()(tool, **arguments)
    assert (result.success, result.code) == (False, code)
    assert scope.proposals.all() == []


def test_no_skill_can_forbid_to_propose(calling: Callable[..., Call]) -> None:
    call = calling(loaded=("strict",))
    assert call("propose_skill_update", skill="deploy", diff=DIFF, justification="x").success


def test_policy_can_forbid_to_propose(calling: Callable[..., Call], scope: TenantScope) -> None:
    call = calling("rules: [{id: R1, point: propose, effect: deny, reason: no self-improvement}]")
    result = call("propose_skill_update", skill="deploy", diff=DIFF, justification="x")
    assert not result.success
    assert "R1" in str(result.error)
    assert scope.proposals.all() == []


def test_what_a_model_is_told_is_not_of_this_machine(calling: Callable[..., Call], skill: Path) -> None:
    result = calling()("propose_skill_update", skill="deploy", diff=DIFF, justification="x")
    assert str(skill.parent) not in str(result.result)


def test_the_tools_have_schemas_that_every_provider_takes(skill: Path) -> None:
    session = Library.from_folder(skill.parent, cache=False).session()
    tools = proposal_tools(session)
    assert {tool.name for tool in tools} == PROPOSAL_TOOLS
    for tool in tools:
        assert tool.is_control
        assert tool.parameters["additionalProperties"] is False
        assert "person has looked at it" in tool.description
