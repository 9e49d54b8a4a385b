"""The registry: thirty skills in a folder, an agent that binds some of them, and people who edit while it works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from metier import Library
from metier.agent import Agent, Agents, Conversation
from metier.testing import AuditProbe, ModelRequest, ScriptedModel

Metier = Callable[..., tuple[int, str, str]]

TOPICS = (
    *("api-design", "code-review", "extension-development", "task-decomposition", "changelog", "alarm-triage"),
    *("schema-migration", "incident-report", "cost-report", "onboarding", "style-guide", "threat-model"),
)
SPECIAL = {
    "extension-development": ("How our extensions are built.", "Every extension has a manifest and a contract test."),
    "api-design": ("How our interfaces are named.", "Name resources in the plural."),
    "cluster-care": ("Repairs pods that restart. Use for kubernetes trouble.", "Look at the events of the pod first."),
}
MANIFEST = """\
name: Extension Builder
description: Builds extensions and reviews them.
uses_skills: [extension-development, api-design]
catalog: all
uses_tools: [Read]
instructions: Build what the user asks for.
"""


def write(folder: Path, name: str, description: str, body: str) -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return file


def ask(conversation: Conversation, text: str) -> str:
    async def last() -> str:
        events = [event async for event in conversation.send(text)]
        return events[-1].message

    return anyio.run(last)


def test_a_registry_of_thirty_skills_with_an_agent_that_binds_some(
    tmp_path: Path, metier: Metier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    skills = tmp_path / ".metier" / "skills"
    for name, (description, body) in SPECIAL.items():
        write(skills, name, description, body)
    for name in [*(one for one in TOPICS if one not in SPECIAL), *(f"report-{number:02}" for number in range(17))]:
        write(skills, name, f"Guidance on {name.replace('-', ' ')}.", f"The rules of {name}.")
    (tmp_path / "agents" / "builder").mkdir(parents=True)
    (tmp_path / "agents" / "builder" / "agent.yaml").write_text(MANIFEST)
    assert metier("trust")[0] == 0
    code, out, err = metier("list", "--json")
    assert (code, err) == (0, "")
    assert sum(one["layer"] == "project" and one["status"] == "active" for one in json.loads(out)) == 30
    code, out, _ = metier("search", "kubernetes")
    assert code == 0 and "cluster-care" in out, "a word that only a description has"

    def saves_files(request: ModelRequest) -> tuple[str, dict[str, object]]:
        """Somebody saves files while the model thinks."""
        write(skills, "cluster-care", SPECIAL["cluster-care"][0], "Look at the memory of the pod first.")
        write(skills, "pod-budget", "Plans the memory of pods.", "Start with 256 MiB.")
        (skills / "onboarding" / "SKILL.md").unlink()
        return ("skills_load", {"skills": ["cluster-care"], "mode": "add"})

    model = ScriptedModel(
        [
            ("skills_search", {"query": "kubernetes"}),
            ("skills_load", {"skills": ["cluster-care"], "mode": "add"}),
            "The events say: out of memory.",
            saves_files,
            "It has too little memory.",
            ("skills_load", {"skills": ["pod-budget"], "mode": "add"}),
            "256 MiB.",
        ]
    )
    library = Library.discover()
    agents = Agents.discover(library)
    audit = AuditProbe()
    agent = Agent(agents.get("builder"), agents, model=model, audit=audit, workspace=tmp_path / "work")
    with agent.conversation() as conversation:
        assert ask(conversation, "A pod restarts again and again.") == "The events say: out of memory."
        first, found, loaded = model.requests[:3]
        assert "contract test" in first.instructions and "plural" in first.instructions, "bound: whole, from the start"
        assert "report-16" in first.instructions and "The rules of report-16" not in first.text, "others: by catalog"
        assert len(first.instructions.encode()) < 8_000
        assert "cluster-care" in found.told[0] and "kubernetes" in found.told[0]
        assert "Look at the events" in loaded.told[0]

        assert ask(conversation, "What is wrong with it?") == "It has too little memory."
        assert "memory of the pod first" in model.requests[4].told[0], "what was saved meanwhile counts at once"

        assert ask(conversation, "How much does it need?") == "256 MiB."
        begun, fresh = model.requests[5:7]
        assert "pod-budget" in begun.instructions, "a skill that was not there when the conversation began"
        assert "Guidance on onboarding" not in begun.instructions, "and one that is gone"
        assert "contract test" in begun.instructions, "what it binds stays"
        assert "Start with 256 MiB." in fresh.told[0]

    # A host with the three tools of a registry finds it by the same word.
    registry = library.session(workspace=tmp_path / "work").executor(dialect="registry")
    listed = registry.execute_blocking("list_skills", {"query": "kubernetes"}).result
    assert listed["skills"][0]["id"] == "cluster-care"
    read = registry.execute_blocking("read_skill", {"skill_id": "cluster-care"}).result
    assert "memory of the pod first" in read["content"] and read["approximate_tokens"] > 0

    assert [one.skill for one in audit.records if one.event == "load" and one.success].count("cluster-care") == 2
    assert "extension-development, api-design" in metier("agents")[1]
