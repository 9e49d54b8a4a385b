"""Every text that a model can receive, by provoking it: in each dialect, from our own agents and over MCP.

`make docs` prints them as one page, and the tests look at each of them. Nothing here asks a network or a model.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from metier import Library, Session
from metier.agent import Agent, Agents, building_tools
from metier.agent.agents import SHIPPED
from metier.dialect import as_text
from metier.guard import Guard, MemoryLog, Policy
from metier.guard.governance import Governance
from metier.guard.policy.files import Policies
from metier.library import Place
from metier.run import PlainRunner
from metier.source import FolderSource
from metier.testing import ScriptedModel, skill
from metier.tools import ToolRegistry

DIALECTS = ("runtime", "tool", "registry", "sandbox")
BUILTIN = ("Read", "Write", "Edit", "Glob", "Grep", "Bash")

Step = tuple[Any, ...]
"""What a model does: the name of an action of a dialect and its values, or `call`, a tool and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """A text, who gets it and on what occasion."""

    reader: str
    """The dialect, or the way by which it comes: `mcp`, `agent`."""
    occasion: str
    text: str
    tools: frozenset[str] = frozenset()
    """The tools that the reader has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A situation, and what a model does in it."""

    title: str
    steps: Sequence[Step]
    policy: Policy = field(default_factory=lambda: Policy(unsandboxed="allow"))
    file: str = ""
    """The text of a policy file of the user's."""
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Session, Path], None] | None = None
    """What happens before the last step."""
    is_trusted: bool = True
    store: bool = False
    builtin: Sequence[str] = BUILTIN


ACTIONS: Mapping[str, Mapping[str, Callable[..., tuple[str, dict[str, Any]]]]] = {
    "runtime": {
        "load": lambda name: ("skills_load", {"skills": [name], "mode": "add"}),
        "unload": lambda name: ("skills_unload", {"skills": [name]}),
        "read": lambda name, path: ("skills_read", {"skill": name, "path": path}),
        "run": lambda name, script: ("skills_run", {"skill": name, "script": script}),
        "find": lambda words: ("skills_search", {"query": words}),
    },
    "tool": {
        "load": lambda name: ("skill", {"skill_name": name}),
        "unload": lambda name: ("skill", {"skill_name": name, "action": "unload"}),
        "read": lambda name, path: ("skill", {"skill_name": name, "action": "read", "args": path}),
        "run": lambda name, script: ("skill", {"skill_name": name, "action": "run", "args": script}),
        "find": lambda words: ("skill", {"skill_name": words, "action": "search"}),
    },
    "registry": {
        "load": lambda name: ("read_skill", {"skill_id": name}),
        "read": lambda name, path: ("read_skill_resource", {"skill_id": name, "path": path}),
        "find": lambda words: ("list_skills", {"query": words}),
    },
    "sandbox": {
        "load": lambda name: ("get_skill", {"skill_name": name}),
        "find": lambda words: ("get_skill", {"skill_name": words}),
    },
}
"""How a model does something in each dialect; what is not there cannot be done."""

LOAD = ("load", "reports")
RUN = ("run", "reports", "scripts/total.py")
BASH = ("call", "Bash", {"command": "ls"})


def _calls(tool: str, *arguments: Mapping[str, Any]) -> tuple[Step, ...]:
    return tuple(("call", tool, one) for one in arguments)


def _block(session: Session, _: Path) -> None:
    session.guard.block("reports")


def _break(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").write_text("---\nname: [\n")


def _remove(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").unlink()


def _rename(_: Session, skills: Path) -> None:
    (skills / "reports" / "SKILL.md").write_text("---\nname: other\ndescription: Is another.\n---\nOther.\n")


SCENES: Sequence[Scene] = (
    Scene(title="A skill is loaded", steps=[LOAD, ("load", "reports"), ("load", "needs"), ("unload", "reports")]),
    Scene(title="A skill is looked for", steps=[("find", "totals of a month"), ("find", "zzz")]),
    Scene(title="A name that nothing answers to", steps=[("load", name) for name in ("raports", "zzz", " ", "../x")]),
    Scene(
        title="An agent that may know of one skill", steps=[("load", "needs")], options={"names": frozenset({"narrow"})}
    ),
    Scene(title="A skill for people", steps=[("load", "release")]),
    Scene(title="A skill that is broken", steps=[("load", "broken")]),
    Scene(title="A skill with a check that may not run", steps=[("load", "checked")]),
    Scene(
        title="A skill with a check that fails",
        steps=[("load", "checked")],
        policy=Policy(hooks="allow", unsandboxed="allow"),
    ),
    Scene(title="A skill of its own agent, where there is none", steps=[("load", "forked")]),
    Scene(title="More skills than may be active", steps=[LOAD, ("load", "needs")], options={"max_active": 1}),
    Scene(title="A skill that nobody vouches for", steps=[LOAD], is_trusted=False, policy=Policy(untrusted="deny")),
    Scene(title="A skill that nobody vouches for, to be asked about", steps=[LOAD], is_trusted=False),
    Scene(title="A skill that the program blocks", steps=[LOAD, LOAD], prepare=_block),
    Scene(title="A skill that policy denies", steps=[LOAD], file="skills: {deny: [reports]}"),
    Scene(title="A skill that policy does not list", steps=[LOAD], file="skills: {allow: [narrow]}"),
    Scene(title="A skill that policy turned off", steps=[LOAD], file="skills: {visibility: {reports: off}}"),
    Scene(title="A name that is reserved", steps=[LOAD], file="skills: {reserved: [reports]}"),
    Scene(title="A content that policy does not pin", steps=[LOAD], file=f"skills: {{pins: {{reports: {'a' * 64}}}}}"),
    Scene(
        title="A rule against a skill",
        steps=[LOAD],
        file="rules: [{id: R1, point: activate, effect: deny, reason: Not here.}]",
    ),
    Scene(
        title="A rule that asks about a skill",
        steps=[LOAD],
        file="rules: [{id: R1, point: activate, effect: ask, reason: It is new.}]",
        store=True,
    ),
    Scene(
        title="An approval of the content is needed",
        steps=[LOAD],
        file="skills: {require-approval-for: [scripts]}",
        store=True,
    ),
    Scene(title="A policy file that cannot be read", steps=[LOAD], file="nonsense: [\n"),
    Scene(
        title="A scanner of policy's has not looked",
        steps=[LOAD],
        file="scan: {commands: {other: 'other {dir}'}}",
        store=True,
    ),
    Scene(
        title="Files of a skill",
        steps=[
            ("read", "reports", "references/fields.md"),
            LOAD,
            *(("read", "reports", path) for path in ("references/fields.md", "references/none.md", "../x", "assets")),
            ("read", "reports", "assets/logo.bin"),
            ("read", "reports", "scripts/total.py"),
            ("read", "zzz", "a.md"),
        ],
    ),
    Scene(
        title="Scripts of a skill",
        steps=[
            RUN,
            LOAD,
            *(("run", "reports", f"scripts/{name}") for name in ("total.py", "fail.py", "none.py", "odd.xyz")),
            ("run", "reports", "../x.py"),
            ("run", "reports", "references/fields.md"),
            ("run", "reports", "scripts/total.py 'a"),
        ],
    ),
    Scene(title="Scripts that the program denies", steps=[LOAD, RUN], policy=Policy(scripts="deny")),
    Scene(title="Scripts that the program asks about", steps=[LOAD, RUN], policy=Policy(scripts="ask")),
    Scene(title="Scripts that a policy file denies", steps=[LOAD, RUN, BASH], file="run: {scripts: deny}"),
    Scene(title="Scripts that a policy file asks about", steps=[LOAD, RUN, BASH], file="run: {scripts: ask}"),
    Scene(title="Nothing isolates", steps=[LOAD, RUN, BASH], policy=Policy()),
    Scene(
        title="Something is required that nothing enforces",
        steps=[LOAD, RUN, BASH],
        policy=Policy(unsandboxed="allow", require=["calls"]),
    ),
    Scene(
        title="Tools that a skill does not allow",
        steps=[
            ("load", "narrow"),
            *_calls("Write", {"file_path": "a.txt", "content": "a"}),
            *_calls("Bash", {"command": "curl example.com"}, {"command": "git status && rm a"}),
        ],
    ),
    Scene(
        title="Tools that policy denies or asks about",
        steps=[BASH, *_calls("Write", {"file_path": "a.txt", "content": "a"})],
        policy=Policy(deny="Bash(ls:*)", ask="Write"),
    ),
    Scene(
        title="Tools that a policy file denies or asks about",
        steps=[BASH, *_calls("Write", {"file_path": "a.txt", "content": "a"})],
        file="tools: {deny: ['Bash(ls:*)'], ask: [Write]}",
    ),
    Scene(
        title="Tools that do not exist, and arguments that do not fit",
        steps=[("call", "Raed", {}), ("call", "nothing", {}), ("call", "Read", {}), ("call", "Read", "{no json")],
    ),
    Scene(
        title="Commands by which people decide",
        steps=_calls("Bash", {"command": "metier approve grant 12"}, {"command": "metier trust ."}),
    ),
    Scene(
        title="Files of the workspace",
        steps=[
            *_calls("Read", {"file_path": "none.md"}, {"file_path": "/etc/shadow"}, {"file_path": "."}),
            *_calls("Write", *({"file_path": path, "content": "x"} for path in (".git/hooks/x", "../x", "folder"))),
            *_calls("Edit", {"file_path": "a.md", "old_string": "zzz", "new_string": "y"}),
            *_calls("Edit", {"file_path": "a.md", "old_string": "", "new_string": "y"}),
            *_calls("Grep", {"pattern": "("}),
            *_calls("Glob", {"pattern": "../*"}, {"pattern": "*", "path": "none"}),
            *_calls("Bash", {"command": "exit 3"}, {"command": " "}, {"command": "ls", "cwd": "none"}),
        ],
    ),
    Scene(
        title="Files of the workspace, where Read and Edit are all there is",
        steps=[
            *_calls("Read", {"file_path": "none.md"}),
            *_calls("Edit", {"file_path": "a.md", "old_string": "", "new_string": "y"}),
        ],
        builtin=("Read", "Edit"),
    ),
    Scene(
        title="Proposals",
        steps=[
            *_calls("propose_skill_update", {"skill": "zzz", "diff": "", "justification": "It is wrong."}),
            *_calls("propose_skill_update", {"skill": "reports", "diff": "no diff", "justification": "It is wrong."}),
            *_calls("propose_skill", {"name": "Bad Name", "files": {"a": "b"}, "justification": "It is needed."}),
            *_calls("propose_skill", {"name": "fine", "files": {"SKILL.md": ""}, "justification": "It is needed."}),
        ],
        options={"proposals": True},
        store=True,
    ),
    Scene(
        title="Drafts",
        steps=[
            *_calls("write_skill", {"name": "Bad Name", "description": "", "body": ""}),
            *_calls("write_skill", {"name": "fine", "description": "Does it.", "body": "Do it."}),
            *_calls("validate_skill", {"folder": "none"}, {"folder": "fine"}),
            *_calls("propose_draft", {"folder": "none", "justification": "It is needed."}),
        ],
        store=True,
    ),
    # Last, as these change the files.
    Scene(title="A skill that is broken while it is used", steps=[LOAD, LOAD], prepare=_break),
    Scene(title="A skill that becomes another", steps=[LOAD, LOAD], prepare=_rename),
    Scene(title="A skill that is removed", steps=[LOAD, LOAD], prepare=_remove),
)


def write_skills(folder: Path) -> None:
    """The skills that all scenes have."""
    listed = {
        "reports": skill(
            "reports",
            "Read references/fields.md, then run scripts/total.py.",
            description="Adds up the totals of a month.",
            files={
                "references/fields.md": "Name and amount.\n",
                "scripts/total.py": "print(42)\n",
                "scripts/fail.py": "raise SystemExit(3)\n",
                "scripts/odd.xyz": "?\n",
                "assets/logo.bin": b"\0\1\xff",
            },
        ),
        "needs": skill("needs", description="Builds on reports.", requires=["reports"]),
        "narrow": skill("narrow", description="Looks at history.", allowed_tools="Read, Bash(git:*)"),
        "release": skill("release", description="Releases.", disable_model_invocation=True),
        "checked": skill("checked", description="Is checked first.", hooks={"pre": "false"}),
        "forked": skill("forked", description="Works by itself.", context="fork"),
        "broken": {"SKILL.md": "---\nname: broken\ndescription: [\n---\nDo it.\n\0"},
    }
    for name, files in listed.items():
        for path, content in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "none").mkdir(exist_ok=True)
    (folder / "none" / "SKILL.md").write_bytes(b"")


def model_texts(folder: Path) -> Iterator[ModelText]:
    """All texts, with what happens in a folder that is made for them."""
    for dialect in DIALECTS:
        yield from _offered(dialect, folder / dialect)
        for number, scene in enumerate(SCENES):
            yield from _played(scene, dialect, folder / dialect / str(number))
    yield from _of_agents(folder / "agent")
    yield from _over_mcp(folder / "mcp")


def _begin(scene: Scene, folder: Path) -> tuple[Session, Path]:
    skills, work = folder / "skills", folder / "work"
    write_skills(skills)
    (work / "folder").mkdir(parents=True, exist_ok=True)
    (work / ".git").mkdir(exist_ok=True)
    (work / "a.md").write_text("One line.\n")
    source = FolderSource(skills, name="mine")
    library = Library([Place(layer="project", source=source, trusted=scene.is_trusted)], cache=False)
    texts = [("personal", f"version: 1\n{scene.file}\n")] if scene.file else []
    governance = Governance(Policies(texts=texts), store=f"sqlite:///{folder}/store.db" if scene.store else None)
    guard = Guard(scene.policy, governance=governance, audit=MemoryLog())
    return library.session(guard=guard, runner=PlainRunner(), workspace=work, **scene.options), skills


def _offered(dialect: str, folder: Path) -> Iterator[ModelText]:
    """Tools, their parameters and instructions, before anything happens and while skills are loaded."""
    for title, options in {
        "At the beginning": {},
        "With a catalog that is too small for all": {"budget": 256},
        "With instructions at the top level": {"delivery": "instructions", "skills": ["reports", "narrow"]},
        "With a skill that is bound": {"bound": ["narrow"]},
    }.items():
        session, _ = _begin(Scene(title=title, steps=(), options=options), folder / "offered")
        with session:
            executor = session.executor(
                building_tools(session.workspace, session=session), dialect=dialect, builtin=BUILTIN
            )
            words = _Words(session, executor.registry, dialect)
            yield words.text(f"{title}: instructions", session.instructions("Add up", dialect=dialect))
            for tool in executor.registry:
                yield words.text(f"{title}: tool {tool.name}", tool.description)
                if title == "At the beginning":
                    shown = json.dumps(tool.parameters["properties"], indent=1, ensure_ascii=False)
                    yield words.text(f"{title}: arguments of {tool.name}", shown)


def _played(scene: Scene, dialect: str, folder: Path) -> Iterator[ModelText]:
    session, skills = _begin(scene, folder)
    with session:
        own = building_tools(session.workspace, session=session) if scene.title == "Drafts" else ()
        executor = session.executor(own, dialect=dialect, builtin=scene.builtin)
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
            yield words.text(f"{scene.title}: {tool} {shown}", as_text(result))


class _Words:
    """Makes texts of what a model gets in one session."""

    def __init__(self, session: Session, registry: ToolRegistry, reader: str) -> None:
        self._session = session
        self._registry = registry
        self._reader = reader

    def text(self, occasion: str, text: str) -> ModelText:
        for one in self._session.active:
            # Where its verified copy is, which a model has to know.
            text = text.replace(one.root, f"<root of {one.name}>")
        return ModelText(reader=self._reader, occasion=occasion, text=text, tools=frozenset(self._registry.names()))


def _of_agents(folder: Path) -> Iterator[ModelText]:
    """The instructions that our own agents have, and how much of what fails they are told."""
    write_skills(folder / "skills")
    library = Library.from_folder(folder / "skills", cache=False)
    agents = Agents.from_folder(SHIPPED, library=library)
    for manifest in agents:
        model = ScriptedModel([("skills_load", {"skills": ["zzz"]}), "Done."])
        guard = Guard(governance=Governance(Policies(texts=[]), store=None), audit=MemoryLog())
        (folder / "work").mkdir(exist_ok=True)
        agent = Agent(manifest, agents, model=model, guard=guard, workspace=folder / "work", runner=PlainRunner())
        anyio.run(agent.run, "Add up the totals.")
        for number, request in enumerate(model.requests, start=1):
            text = request.instructions if number == 1 else "\n".join(request.told)
            occasion = f"{manifest.id}: {'instructions' if number == 1 else 'a name that nothing answers to'}"
            yield ModelText(reader="agent", occasion=occasion, text=text, tools=frozenset(request.tools))


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
            found.append((f"tool {tool.name}", tool.description or ""))
            found.append((f"arguments of {tool.name}", json.dumps(tool.input_schema["properties"], indent=1)))
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
    return re.sub(r'(?<=root=")[^"]*|(?<=base_path": ")[^"]*', "<root>", text)


_VOLATILE = (
    (re.compile(r"\b(request|Request|proposal|Proposal) [0-9a-z]{6,}\b"), r"\1 ID"),
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
    return kept | {"HOME": home, "METIER_STORE": f"sqlite:///{folder}/store.db", "METIER_CONFIG": f"{home}/config"}
