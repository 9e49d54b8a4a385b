"""The story of a sandbox: twenty skills are mounted in it, and most were never loaded when a script is called."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from metier import Library, Place
from metier.dialect.pydantic_ai import Skills
from metier.source import ArchiveSource, FolderSource, MemorySource
from metier.testing import AuditProbe, skill

pytest.importorskip("bashkit", reason="the extra `shell` is not installed")

TOPICS = [f"topic-{number:02}" for number in range(1, 18)]
"""The names of seventeen skills; three more come from elsewhere."""


def mounted_skills(folder: Path) -> Library:
    """Twenty skills: seventeen in a folder, one with a name of its host's choice, one in an archive, one in memory."""
    for topic in TOPICS:
        (folder / "skills" / topic / "scripts").mkdir(parents=True)
        (folder / "skills" / topic / "references").mkdir()
        (folder / "skills" / topic / "SKILL.md").write_text(
            f"---\nname: {topic}\ndescription: Reports on {topic}.\n---\n"
            f"Run `sh ${{SKILL_DIR}}/scripts/report.sh SUBJECT`.\n"
        )
        (folder / "skills" / topic / "scripts" / "report.sh").write_text(f'echo "report on {topic}: $1"\n')
        (folder / "skills" / topic / "references" / "sources.md").write_text(f"Sources of {topic}.\n")
    (folder / "git-workflow").mkdir()
    (folder / "git-workflow" / "SKILL.md").write_text("---\nname: git-workflow\ndescription: Branches.\n---\nBranch.\n")
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("packed/SKILL.md", "---\nname: packed\ndescription: Comes packed.\n---\nUnpack.\n")
        archive.writestr("packed/scripts/report.sh", 'echo "report from an archive: $1"\n')
    in_memory = {**skill("in-memory", "Remember."), "scripts/report.sh": 'echo "report from memory: $1"\n'}
    sources = (
        FolderSource(folder / "skills"),
        FolderSource(folder / "git-workflow", skill_name="custom-name"),
        ArchiveSource(folder / "packed.zip"),
        MemorySource.of(in_memory),
    )
    return Library([Place(layer="project", source=source) for source in sources], cache=False)


class Reporter:
    """A model that wants a report of several skills: it calls their scripts, and does what it is told meanwhile."""

    def __init__(self, *skills: str) -> None:
        self._left = list(skills)
        self.seen: list[str] = []
        self.reports: list[str] = []
        self.loads = 0

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen += [str(tool.description) for tool in info.function_tools if str(tool.description) not in self.seen]
        last = messages[-1].parts[-1]
        said = last.model_response_str() if isinstance(last, ToolReturnPart) else ""
        self.seen.append(said)
        wanted = re.search(r"call (\w+) with '([\w-]+)'", said)
        if wanted:
            self.loads += 1
            return ModelResponse(parts=[ToolCallPart(wanted[1], {"skill_name": wanted[2]})])
        if "report " in said:
            self.reports.append(json.loads(said)["output"].strip())
            del self._left[0]
        if not self._left:
            return ModelResponse(parts=[TextPart("All reports are here.")])
        (at,) = re.findall(rf"<location>(\S*/{self._left[0]})</location>", self.seen[0])
        return ModelResponse(parts=[ToolCallPart("sandbox_execute", {"command": f"sh {at}/scripts/report.sh rain"})])


@pytest.mark.covers("ACC-2", "ACC-8")
def test_scripts_of_twenty_mounted_skills_are_called_before_most_of_them_were_loaded(tmp_path: Path) -> None:
    probe = AuditProbe()
    skills = Skills(
        mounted_skills(tmp_path),
        dialect="sandbox",
        workspace=tmp_path / "work",
        mount="/skills",
        audit=probe,
        budget=8_192,
    )
    # The catalog names twenty skills, by places in the sandbox. The model calls scripts by these, and loads nothing.
    names = [*TOPICS[:10], "packed", "in-memory"]
    reporter = Reporter(*names)
    agent: Agent[None, str] = Agent(FunctionModel(reporter), capabilities=[skills])

    async def talk(prompt: str) -> str:
        return (await agent.run(prompt, conversation_id="one")).output

    assert anyio.run(talk, "Report on everything.") == "All reports are here."
    # Each was told how to be loaded, was loaded by that, and its script then ran, also past the eight that may be
    # loaded at once.
    assert reporter.loads == len(names)
    assert reporter.reports == [
        *(f"report on {topic}: rain" for topic in TOPICS[:10]),
        "report from an archive: rain",
        "report from memory: rain",
    ]
    # A skill that had to make room is still there, and says again how to load it.
    again = Reporter("topic-01", "topic-17")
    agent = Agent(FunctionModel(again), capabilities=[skills])
    assert anyio.run(talk, "And again?") == "All reports are here."
    assert again.loads == 2

    # All twenty are there to be listed and read, under the names that the host gave them.
    class Looking:
        def __init__(self) -> None:
            self.output: Any = None

        def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            last = messages[-1].parts[-1]
            if isinstance(last, ToolReturnPart):
                self.output = json.loads(last.model_response_str())
                return ModelResponse(parts=[TextPart("Seen.")])
            command = "ls /skills; cat /skills/topic-15/references/sources.md"
            return ModelResponse(parts=[ToolCallPart("sandbox_execute", {"command": command})])

    looking = Looking()
    agent = Agent(FunctionModel(looking), capabilities=[skills])
    anyio.run(talk, "What is there?")
    assert looking.output["output"].split("\n") == [
        "custom-name", "in-memory", "packed", *TOPICS, "Sources of topic-15.", "",
    ]  # fmt: skip
    assert looking.output["error"] is None

    # No text that a model got has a place of the host in it; each load and each look left a record.
    assert not [text for text in (*reporter.seen, *again.seen) if str(tmp_path) in text or "skill-copy-" in text]
    assert {record.skill for record in probe.find(event="load")} == {*names, "topic-17"}
    assert "topic-15" in {record.skill for record in probe.find(event="read")}
