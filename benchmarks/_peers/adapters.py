"""How each peer discovers a folder of skills, through its public API and with nothing added.

Where a peer raises on a bad skill, so does its adapter. Peers are imported inside their adapters,
so that a process loads one of them, and by name, so that types do not depend on what is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A folder of skills as one peer discovered it. The callables may return awaitables."""

    count: int
    body: Callable[[str], Any]
    catalog: Callable[[], Any] | None = None
    rescan: Callable[[], Any] | None = None
    """The peer's own way to look again; without one, looking again is discovering again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One package and how it discovers a folder of skills."""

    package: str
    entry: str
    """What discovery imports, as `module:name`: a lazy package only loads on reaching the name."""
    discover: Callable[[Path], Any]
    """Takes the folder and returns a `Shelf`, or an awaitable of one."""
    resident: bool = False
    """Discovery keeps every body in memory, so loading one is a lookup."""


def discover_metier(root: Path) -> Shelf:
    library = import_module("metier").Library.from_folder(root, cache=False)
    catalog = getattr(library, "catalog", None)
    return Shelf(
        count=len(library),
        body=lambda name: library.document(name).body,
        catalog=catalog and (lambda: catalog() if callable(catalog) else catalog),
        rescan=library.refresh,
    )


def discover_skills_ref(root: Path) -> Shelf:
    skills_ref = import_module("skills_ref")
    parse = import_module("skills_ref.parser").parse_frontmatter

    # It has no call that takes a folder of skills: the caller lists the folders.
    folders = [folder for folder in sorted(root.iterdir()) if skills_ref.find_skill_md(folder)]
    properties = [skills_ref.read_properties(folder) for folder in folders]

    def body(name: str) -> Any:
        return parse(skills_ref.find_skill_md(root / name).read_text(encoding="utf-8"))[1]

    return Shelf(count=len(properties), body=body, catalog=lambda: skills_ref.to_prompt(folders))


async def discover_pydantic_ai_skills(root: Path) -> Shelf:
    ai = import_module("pydantic_ai")
    model = import_module("pydantic_ai.models.test").TestModel(call_tools=[])
    capability = import_module("pydantic_ai_skills").SkillsCapability(root)
    context = ai.RunContext(deps=None, model=model, usage=ai.RunUsage())

    async def read() -> dict[str, Any]:
        # Constructing only indexes files; SKILL.md files are read at the start of each run.
        leaves: list[Any] = []
        (await capability.for_run(context)).apply(leaves.append)
        return {leaf.id: leaf for leaf in leaves if leaf.defer_loading}

    async def catalog() -> Any:
        with ai.capture_run_messages() as messages:
            await ai.Agent(model, capabilities=[capability]).run("-")
        return messages[0].instructions

    def body(name: str) -> str:
        text = skills[name].get_instructions()
        return text if isinstance(text, str) else "\n\n".join(text)

    skills = await read()
    return Shelf(count=len(skills), body=body, catalog=catalog, rescan=read)


def discover_fastmcp(root: Path) -> Shelf:
    # No catalog: an MCP client renders one. `reload=True` would repeat this scan on every request.
    provider = import_module("fastmcp.server.providers.skills").SkillsDirectoryProvider(root)

    async def body(name: str) -> Any:
        return await (await provider.get_resource(f"skill://{name}/SKILL.md")).read()

    return Shelf(count=len(provider.providers), body=body)


async def discover_agent_framework(root: Path) -> Shelf:
    framework = import_module("agent_framework")

    # A file source finds the same skills whichever agent asks, and so needs none.
    context = framework.SkillsSourceContext(agent=None)
    found = await framework.FileSkillsSource(root).get_skills(context)
    skills = {skill.frontmatter.name: skill for skill in found}

    async def catalog() -> str:
        session, prompt = framework.AgentSession(), framework.SessionContext(input_messages=[])
        provider = framework.SkillsProvider.from_paths(root)
        await provider.before_run(agent=None, session=session, context=prompt, state={})
        return "\n".join(prompt.instructions)

    return Shelf(count=len(skills), body=lambda name: skills[name].get_content(), catalog=catalog)


def discover_strands(root: Path) -> Shelf:
    plugin = import_module("strands.vended_plugins.skills")
    found = plugin.Skill.from_directory(root)
    skills = {skill.name: skill for skill in found}

    async def catalog() -> Any:
        # The catalog is only rendered into an agent's prompt; no model is called for that.
        abstract = import_module("strands.models").Model
        methods: dict[str, Any] = dict.fromkeys(abstract.__abstractmethods__, lambda *_, **__: {})
        silent = type("Silent", (abstract,), methods)()
        agents = import_module("strands")
        agent = agents.Agent(model=silent, plugins=[plugin.AgentSkills(skills=list(found))])
        event = import_module("strands.hooks").BeforeInvocationEvent(agent=agent)
        await agent.hooks.invoke_callbacks_async(event)
        return agent.system_prompt

    return Shelf(count=len(skills), body=lambda name: skills[name].instructions, catalog=catalog)


def discover_google_adk(root: Path) -> Shelf:
    adk = import_module("google.adk.skills")
    found = adk.list_skills_in_dir(root)
    render = import_module("google.adk.skills.prompt").format_skills_as_xml
    return Shelf(
        count=len(found),
        body=lambda name: adk.load_skill_from_dir(root / name).instructions,
        catalog=lambda: render(list(found.values())),
    )


PEERS = (
    Peer(package="metier", entry="metier:Library", discover=discover_metier),
    Peer(
        package="skills-ref",
        entry="skills_ref:read_properties",
        discover=discover_skills_ref,
    ),
    Peer(
        package="pydantic-ai-skills",
        entry="pydantic_ai_skills:SkillsCapability",
        discover=discover_pydantic_ai_skills,
        resident=True,
    ),
    Peer(
        package="fastmcp",
        entry="fastmcp.server.providers.skills:SkillsDirectoryProvider",
        discover=discover_fastmcp,
    ),
    Peer(
        package="agent-framework-core",
        entry="agent_framework:FileSkillsSource",
        discover=discover_agent_framework,
        resident=True,
    ),
    Peer(
        package="strands-agents",
        entry="strands.vended_plugins.skills:Skill",
        discover=discover_strands,
        resident=True,
    ),
    Peer(
        package="google-adk",
        entry="google.adk.skills:list_skills_in_dir",
        discover=discover_google_adk,
    ),
)
