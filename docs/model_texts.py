"""Every text that a model can receive, by provoking it: in each dialect, from our own agents and over MCP.

`make texts` prints them as one page, and the tests look at each of them. Nothing here asks a network or a model.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import anyio
from model_scenes import ACTIONS, BUILTIN, SCENES, Scene, write_skills

from metier import Library
from metier.agent import Agent, Agents, skill_authoring_tools
from metier.agent.agents import SHIPPED
from metier.dialect import DialectName, as_text
from metier.errors import SessionNotFound
from metier.guard import Guard, MemoryLog, Policy
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.library import Place
from metier.run import PlainRunner
from metier.source import FolderSource
from metier.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier import Session
    from metier.library import Layer
    from metier.testing import ModelRequest
    from metier.tools import Tool, ToolRegistry

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """A text, who gets it and on what occasion."""

    reader: str
    """The dialect, or the way by which it comes: `mcp`, `agent`."""
    occasion: str
    text: str
    tools: frozenset[str] = frozenset()
    """The tools that the reader has."""


def model_texts(folder: Path, *, every: int = 1) -> Iterator[ModelText]:
    """All texts, each once for a reader, with what happens in a folder that is made for them.

    With `every=3`, dialects other than `runtime`, which has a tool for all there is to do, have each third scene only.
    """
    seen: set[tuple[str, str]] = set()
    for one in _all_texts(folder, every):
        if (one.reader, one.text) not in seen:
            seen.add((one.reader, one.text))
            yield one


def _all_texts(folder: Path, every: int) -> Iterator[ModelText]:
    for dialect in DIALECTS:
        yield from _offered(dialect, folder / dialect)
        for number, scene in enumerate(SCENES):
            # Tools of ours answer alike, however skills are used beside them.
            is_alike = all(step[0] == "call" for step in scene.steps)
            if dialect == DIALECTS[0] if is_alike else (dialect == "runtime" or number % every == 0):
                yield from _played(scene, dialect, folder / dialect / str(number))
    yield from _of_agents(folder / "agent")
    yield from _over_mcp(folder / "mcp")


def _begin(scene: Scene, folder: Path) -> tuple[Session, Path]:
    skills, work = folder / "skills", folder / "work"
    write_skills(skills)
    (work / "folder").mkdir(parents=True, exist_ok=True)
    (work / ".git").mkdir(exist_ok=True)
    (work / "a.md").write_text("One line.\n")
    if scene.title == "A large file":
        (work / "large.txt").write_text("A line of a large file.\n" * 100_000)
    source = FolderSource(skills, name="mine")
    library = Library([Place(layer="project", source=source, trusted=scene.is_trusted)], cache=False)
    texts: list[tuple[Layer, str]] = [("personal", f"version: 1\n{scene.file}\n")] if scene.file else []
    governance = Governance(Policies(texts=texts), store=f"sqlite:///{folder}/store.db" if scene.store else None)
    guard = Guard(scene.policy, governance=governance, audit=MemoryLog(), approve=scene.approve)
    return library.session(guard=guard, runner=PlainRunner(), workspace=work, **scene.options), skills


def _offered(dialect: DialectName, folder: Path) -> Iterator[ModelText]:
    """Tools, their parameters and instructions, before anything happens and while skills are loaded."""
    situations: Mapping[str, Mapping[str, Any]] = {
        "At the beginning": {},
        "With a catalog that is too small for all": {"budget": 512},
        "With instructions at the top level": {"delivery": "instructions", "skills": ["reports", "narrow"]},
        "With a skill that is bound": {"bound": ["narrow"]},
    }
    for title, options in situations.items():
        session, _ = _begin(Scene(title=title, steps=(), options=options), folder / "offered")
        with session:
            own = skill_authoring_tools(session.context.workspace, session=session) if dialect == DIALECTS[0] else ()
            builtin = BUILTIN if dialect == DIALECTS[0] else ()
            registry = session.executor(own, dialect=dialect, builtin=builtin).registry
            words = _Words(session, registry, dialect)
            yield words.text(f"{title}: instructions", session.instructions("Add up", dialect=dialect))
            for tool in registry:
                yield words.text(f"{title}: tool {tool.name}", _described(tool))


def _described(tool: Tool) -> str:
    """The text of a tool for a model: what it does, and what each of its arguments is."""
    arguments = tool.parameters.get("properties", {})
    listed = [f"  {name}: {one.get('description', '')}" for name, one in arguments.items()]
    return "\n".join((tool.description, *listed))


def _played(scene: Scene, dialect: DialectName, folder: Path) -> Iterator[ModelText]:
    session, skills = _begin(scene, folder)
    with session:
        own = skill_authoring_tools(session.context.workspace, session=session) if scene.title == "Drafts" else ()
        wanted = {values[0] for action, *values in scene.steps if action == "call"} & {*BUILTIN}
        builtin = [name for name in scene.builtin if wanted] if dialect == DIALECTS[0] else sorted(wanted)
        executor = session.executor(own, dialect=dialect, builtin=builtin)
        words = _Words(session, executor.registry, dialect)
        for number, (action, *values) in enumerate(scene.steps, start=1):
            if action == "call":
                tool, arguments = values
            elif action in ACTIONS[dialect]:
                tool, arguments = ACTIONS[dialect][action](*values)
            else:
                continue
            if number == len(scene.steps) and scene.prepare is not None:
                scene.prepare(session, skills)
                session.library.refresh()
            result = executor.execute_blocking(tool, arguments)
            shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield words.text(f"{scene.title}: {tool} {shown[:200]}", as_text(result)[:20_000])


class _Words:
    """Makes texts of what a model gets in one session."""

    def __init__(self, session: Session, registry: ToolRegistry, reader: str) -> None:
        self._session = session
        self._registry = registry
        self._reader = reader
        self._roots: dict[str, str] = {}
        """The folders of verified copies of skills, which a model has to know."""

    def text(self, occasion: str, text: str) -> ModelText:
        with contextlib.suppress(SessionNotFound):
            self._roots |= {one.root: one.name for one in self._session.active}
        for root, name in self._roots.items():
            text = text.replace(root, f"<root of {name}>")
        return ModelText(reader=self._reader, occasion=occasion, text=text, tools=frozenset(self._registry.names()))


def _of_agents(folder: Path) -> Iterator[ModelText]:
    """The instructions that our own agents have, and how much of what fails they are told."""
    write_skills(folder / "skills")
    library = Library.from_folder(folder / "skills", cache=False)
    agents = Agents.from_folder(SHIPPED, library=library)
    for manifest in agents:
        model = ScriptedModel([_load_unknown, "Done."])
        guard = Guard(governance=Governance(Policies(texts=[]), store=None), audit=MemoryLog())
        (folder / "work").mkdir(exist_ok=True)
        agent = Agent(manifest, agents, model=model, guard=guard, workspace=folder / "work", runner=PlainRunner())
        anyio.run(agent.run, "Add up the totals.")
        for number, request in enumerate(model.requests, start=1):
            text = request.instructions if number == 1 else "\n".join(request.told)
            occasion = f"{manifest.id}: {'instructions' if number == 1 else 'a name that nothing answers to'}"
            text = text.replace(str(folder / "work"), "<workspace>")
            yield ModelText(reader="agent", occasion=occasion, text=text, tools=frozenset(request.tools))


def _load_unknown(request: ModelRequest) -> Any:
    """Load a skill that is not there, where there is a tool for it."""
    return ("skills_load", {"skills": ["zzz"]}) if "skills_load" in request.tools else "Done."


def _over_mcp(folder: Path) -> Iterator[ModelText]:
    """Tools, instructions, prompts and resources of the MCP server, and its errors."""
    import mcp

    from metier.serve.mcp import SkillServer

    write_skills(folder / "skills")
    (folder / "work").mkdir(exist_ok=True)
    library = Library.from_folder(folder / "skills", cache=False)
    guard = Guard(Policy(unsandboxed="allow"), governance=Governance(Policies(texts=[]), store=None), audit=MemoryLog())
    server = SkillServer(library, guard=guard, workspace=folder / "work", runner=PlainRunner())
    found: list[tuple[str, str]] = []
    names: set[str] = set()

    async def use(client: mcp.Client) -> None:
        found.append(("instructions", client.instructions or ""))
        tools = (await client.list_tools()).tools
        names.update(tool.name for tool in tools)
        for tool in tools:
            listed = [f"  {name}: {one['description']}" for name, one in tool.input_schema["properties"].items()]
            found.append((f"tool {tool.name}", "\n".join((tool.description or "", *listed))))
        for name, arguments in (
            ("skills_load", {"skills": ["zzz"]}),
            ("skills_load", {"skills": ["release"]}),
            ("skills_load", {"skills": ["reports"]}),
            ("skills_read", {"path": "scripts/total.py", "skill": "reports", "conversation": "none"}),
            ("skills_read", {"path": "scripts/total.py", "skill": "reports"}),
            ("skills_run", {"script": "scripts/none.py", "skill": "needs"}),
            ("nothing", {}),
        ):
            result = await client.call_tool(name, arguments)
            text = "\n".join(getattr(one, "text", "") for one in result.content)
            found.append((f"{name} {json.dumps(arguments)}", text))
        for uri in ("skill://zzz/SKILL.md", "skill://reports/scripts/total.py", "skill://reports/none.md", "file:///x"):
            try:
                shown: Any = await client.read_resource(uri)
            except mcp.MCPError as error:
                shown = error
            found.append((f"resources/read {uri}", str(shown)))
        for prompt in ("zzz", "reports"):
            try:
                shown = (await client.get_prompt(prompt, {})).messages[0].content
            except mcp.MCPError as error:
                shown = error
            found.append((f"prompts/get {prompt}", getattr(shown, "text", str(shown))))

    async def main() -> None:
        with anyio.fail_after(60):
            async with mcp.Client(server.protocol, mode="auto") as client:
                await use(client)

    try:
        anyio.run(main)
    finally:
        server.close()
    for occasion, text in found:
        yield ModelText(reader="mcp", occasion=occasion, text=_unrooted(text), tools=frozenset(names))


def _unrooted(text: str) -> str:
    """The text without the folder of a verified copy, which clients are told too."""
    for root in set(re.findall(r'root="([^"]+)"', text)):
        text = text.replace(root, "<root>")
    return text


_VOLATILE = (
    (re.compile(r"\b([rp])-[0-9a-z]{8}\b"), r"\1-ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r'"duration_ms": [0-9.]+'), '"duration_ms": 1.0'),
    (re.compile(r"sha256:[0-9a-f]{8,64}"), "sha256:…"),
    (re.compile(r'conversation="[^"]+"'), 'conversation="ID"'),
    (re.compile(r"20\d\d-\d\d-\d\d"), "2026-01-01"),
)


def settled(one: ModelText) -> ModelText:
    """The text without what differs each time."""
    text = one.text
    for pattern, instead in _VOLATILE:
        text = pattern.sub(instead, text)
    return replace(one, text=text)


def isolated_environment(folder: Path) -> dict[str, str]:
    """Variables under which nothing of the machine and its user counts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("METIER_")}
    home = str(folder / "home")
    own = {"HOME": home, "METIER_STORE": f"sqlite:///{folder}/store.db", "METIER_CONFIG": f"{home}/config"}
    return kept | own | {"METIER_VECTORS": "off", "METIER_PLUGINS": "metier"}


def page(folder: Path) -> Iterator[str]:
    """The parts of a page that has all texts."""
    yield "# Texts for models\n"
    reader = ""
    for one in map(settled, model_texts(folder)):
        if one.reader != reader:
            reader = one.reader
            yield f"## {TITLES[reader]}\n"
        text = one.text.strip("\n")
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
        yield f"{one.occasion}\n\n{fence}text\n{text or '(nothing)'}\n{fence}\n"


TITLES: Mapping[str, str] = {
    **{dialect: f"The dialect `{dialect}`" for dialect in DIALECTS},
    "agent": "Our own agents",
    "mcp": "Over MCP",
}


def main() -> None:
    """Print the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(isolated_environment(folder))
        os.chdir(folder)
        for part in page(folder):
            print(part)
        os.chdir("/")


if __name__ == "__main__":
    main()
