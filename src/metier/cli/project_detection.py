"""Frameworks and clients of a project, recognised by files and programs; nothing of the project is run or imported."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from metier._json_object import parse_object, read_plain, value_at
from metier._lazy import dataclass, pattern
from metier.cli.output import short_path
from metier.library.clients import CLIENTS, in_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.library.clients import Client

_MAX_BYTES = 1_000_000
_MAX_FILES, _MAX_FOLDERS = 2_000, 5_000
_SHARED_TOPS = {".agents", ".github"}
"""Folders that many projects have which no client works in."""
_NO_SOURCES = {"node_modules", "venv", "env", "site-packages", "__pycache__", "build", "dist"}
_REQUIREMENT = pattern(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_IMPORT = pattern(r"^[ \t]*(?:from|import)[ \t]+([a-z_][a-z0-9_.]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A library that agents are made with, and the lines that give such an agent skills."""

    name: str
    title: str
    packages: tuple[str, ...]
    """Its names in lists of requirements."""
    module: str = ""
    """The name by which Python imports it; empty for one of JavaScript."""
    extra: str = ""
    """The extra that brings what it needs; empty where nothing more is needed."""
    lines: tuple[str, ...] = ()
    is_client: bool = False
    """Whether it is the bare client of a provider, which frameworks use too."""


def _client(name: str, title: str, module: str, provider: str) -> Framework:
    lines = (
        "from metier.dialect.raw import Skills",
        f'chat = Skills(provider="{provider}").conversation()',
        "# send chat.instructions(task) and chat.tools, and answer calls with chat.answer_blocking(response)",
    )
    return Framework(name=name, title=title, packages=(name,), module=module, lines=lines, is_client=True)


_PYDANTIC_AI = 'agent = Agent("test", capabilities=[Skills()])'
_LANGCHAIN = "create_agent(model, tools, middleware=[Skills()])"
_OPENAI_AGENTS = 'agent = Skills().equip(Agent(name="assistant"), conversation="thread-1")'
_AGENT_FRAMEWORK = "Agent(client, tools=tools, context_providers=[Skills()])"
FRAMEWORKS = (
    Framework(
        name="pydantic-ai",
        title="pydantic-ai",
        packages=("pydantic-ai", "pydantic-ai-slim"),
        module="pydantic_ai",
        extra="agent",
        lines=("from pydantic_ai import Agent", "from metier.dialect.pydantic_ai import Skills", _PYDANTIC_AI),
    ),
    Framework(
        name="langchain",
        title="LangChain and LangGraph",
        packages=("langchain", "langgraph"),
        module="langchain",
        extra="langchain",
        lines=("from langchain.agents import create_agent", "from metier.dialect.langchain import Skills", _LANGCHAIN),
    ),
    Framework(
        name="openai-agents",
        title="OpenAI Agents SDK",
        packages=("openai-agents",),
        module="agents",
        extra="openai-agents",
        lines=("from agents import Agent", "from metier.dialect.openai_agents import Skills", _OPENAI_AGENTS),
    ),
    Framework(
        name="agent-framework",
        title="Microsoft Agent Framework",
        packages=("agent-framework", "agent-framework-core"),
        module="agent_framework",
        extra="agent-framework",
        lines=(
            "from agent_framework import Agent",
            "from metier.dialect.agent_framework import Skills",
            _AGENT_FRAMEWORK,
        ),
    ),
    _client("anthropic", "Anthropic's client", "anthropic", "anthropic"),
    _client("openai", "OpenAI's client", "openai", "openai"),
    _client("google-genai", "Google's client", "google.genai", "gemini"),
    Framework(
        name="javascript",
        title="an agent in JavaScript",
        packages=(
            "@anthropic-ai/sdk",
            "@google/genai",
            "@langchain/core",
            "@openai/agents",
            "ai",
            "langchain",
            "openai",
        ),
        extra="mcp",
        lines=("// have it start `metier mcp`, a server of MCP over standard input and output",),
    ),
)
_AMBIGUOUS_MODULES = {"agents"}
"""Names that projects have for modules of their own."""


FoundFramework: TypeAlias = "tuple[Framework, list[str]]"
FoundClient: TypeAlias = "tuple[Client, list[str]]"
"""A client, and the files and programs by which it was recognised."""


def found_frameworks(root: str) -> tuple[list[FoundFramework], list[str]]:
    """The frameworks of a project, and sentences about files that could not be read."""
    problems: list[str] = []
    named: dict[str, set[str]] = {}  # the packages that each file names
    for name in sorted(os.listdir(root)):
        try:
            packages = _packages_in(root, name)
        except (ValueError, RecursionError) as error:
            problems.append(f"{name} was not read: {error}")
        else:
            named |= {name: packages} if packages else {}
    imported = dict(_imports(root))
    found = []
    for one in FRAMEWORKS:
        files = [file for file in named if (file == "package.json") == (not one.module)]
        by = [file for file in files if not named[file].isdisjoint(one.packages)]
        if one.module in imported and (by or one.module not in _AMBIGUOUS_MODULES):
            by.append(imported[one.module])
        if by:
            found.append((one, by))
    return [(one, by) for one, by in found if not one.is_client] or found, problems


def _packages_in(root: str, name: str) -> set[str]:
    """The names of packages that a file of a project asks for; raises `ValueError` for one that cannot be read."""
    is_list = name.startswith("requirements") and name.endswith(".txt")
    if not is_list and name not in ("pyproject.toml", "package.json"):
        return set()
    data = read_plain(os.path.join(root, name), most=_MAX_BYTES) or b""
    if name == "package.json":
        parts = parse_object(data, most=_MAX_BYTES)
        return {*_texts([parts.get("dependencies"), parts.get("devDependencies")])}
    text = data.decode("utf-8", "replace")
    lines = text.splitlines() if is_list else _texts(_requirements_of(tomllib.loads(text)))
    matches = (_REQUIREMENT.match(line) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match}


def _requirements_of(project: dict[str, Any]) -> Iterator[object]:
    yield value_at(project, "project", "dependencies")
    yield value_at(project, "project", "optional-dependencies")
    yield value_at(project, "dependency-groups")
    yield value_at(project, "tool", "poetry")


def _texts(value: object) -> Iterator[str]:
    """Every text in lists and tables, keys too, as requirements are written in either way."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _texts(value.values())
    elif isinstance(value, Iterable):
        for one in value:
            yield from _texts(one)


def _imports(root: str) -> Iterator[tuple[str, str]]:
    """The modules of frameworks that code of a project imports, each with a file that does."""
    wanted = {one.module for one in FRAMEWORKS} - {""}
    for file in itertools.islice(_sources(root), _MAX_FILES):
        try:
            data = read_plain(file, most=_MAX_BYTES) or b""
        except ValueError:
            continue  # a link, or larger than what people write
        text = data.decode("utf-8", "replace").replace("from google import genai", "import google.genai")
        for match in _IMPORT.finditer(text):
            first, _, rest = match[1].partition(".")
            name = f"{first}.{rest.partition('.')[0]}" if first == "google" else first
            if name in wanted:
                wanted.remove(name)
                yield name, os.path.relpath(file, root)


def _sources(root: str) -> Iterator[str]:
    for folder, folders, files in itertools.islice(os.walk(root), _MAX_FOLDERS):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _NO_SOURCES)
        yield from (os.path.join(folder, name) for name in sorted(files) if name.endswith(".py"))


def found_clients(root: str, home: str) -> list[FoundClient]:
    """The clients that a project or a user has, or whose program is on the path."""
    places = {name: [*_project_signs(client, root), *_home_signs(client, home)] for name, client in CLIENTS.items()}
    shared = Counter(path for paths in places.values() for path in {*paths})
    found = []
    for name, paths in places.items():
        by = [short_path(path) for path in dict.fromkeys(paths) if shared[path] == 1 and os.path.lexists(path)]
        by += [f"the program {program}" for program in CLIENTS[name].programs if shutil.which(program)]
        if by:
            found.append((CLIENTS[name], by))
    return found


def _project_signs(client: Client, root: str) -> Iterator[str]:
    servers = client.servers
    for path in (*client.project, *((servers.project, *servers.also) if servers and servers.project else ())):
        top = path.partition("/")[0]
        yield os.path.join(root, *path.split("/")) if top in _SHARED_TOPS else os.path.join(root, top)


def _home_signs(client: Client, home: str) -> Iterator[str]:
    for path in client.personal:
        if not path.startswith(".agents/"):
            yield os.path.dirname(in_home(path, home))
    if client.servers is not None:
        file = in_home(client.servers.user, home)
        yield file
        if os.path.dirname(file) != home:
            yield os.path.dirname(file)
