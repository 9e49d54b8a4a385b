"""Agents as they are declared: a folder with an `agent.yaml`, and beside it perhaps a prompt.

```yaml
# agents/clerk/agent.yaml
name: Clerk
description: Answers questions about invoices.
model: openai:gpt-5
uses_skills: [invoices, tone]
uses_tools: [Read, Grep]
limits:
  max_turns: 12
instructions: Be brief.
```
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from metier._aliases import AGENT_BLOCK, AGENT_FILE, AGENT_TOOLS, ALWAYS_THERE
from metier._lazy import dataclass, replace
from metier._suggest import suggestion
from metier.errors import AgentInvalid, FileMissing, FileRefused, FileTooLarge, MetierError
from metier.skill import FolderPackage, is_valid_name, shown, slug
from metier.skill.yaml_block import BlockError, parse_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from metier.library.places import Layer

CatalogScope: TypeAlias = Literal["own", "all"]
IntegrationMode: TypeAlias = Literal["none", "tool"]

MANIFEST_FILE = "agent.yaml"
MANIFEST_FILES = (MANIFEST_FILE, AGENT_FILE)
"""The files that may declare an agent, the first that is there."""
PROMPT_FILE = "prompt.jinja2"
ALL_AGENTS = "agents"
"""In `uses_tools`: every agent with `integration_mode: tool`."""
BUILT_IN = ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "WebFetch")
"""The tools of Métier that an agent may name in `uses_tools`."""
BUILDING = ("write_skill", "validate_skill", "propose_draft", "propose_skill", "propose_skill_update")
"""The tools by which an agent writes skills."""
MAX_BYTES = 64 * 1024
"""The limit for the size of each file of an agent."""
MAX_TURNS = 20
"""The default limit of turns in a run."""
_MOST_TURNS = 1_000
_MOST_ITEMS = 64
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ABSENT = ("", "~", "null")
_FIELDS = (
    *("id", "name", "description", "model", "instructions", "uses_tools", "uses_skills", "catalog", "depends_on"),
    *("limits", "integration_mode", "project_instructions"),
)
_LIMITS = ("max_turns",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The declaration of an agent: its text, its model, and what it may use.

    >>> manifest = parse_manifest("description: Answers.\\nuses_skills: [invoices]", folder="agents/clerk")
    >>> manifest.id, manifest.uses_skills, manifest.catalog, manifest.max_turns
    ('clerk', ('invoices',), 'own', 20)
    """

    id: str
    """The name by which people and other agents call it."""
    name: str
    description: str = ""
    model: str | None = None
    """The model it runs on, such as `openai:gpt-5`; None for the one that the host has."""
    instructions: str = ""
    prompt: str = ""
    """The text of its `prompt.jinja2`; empty without one."""
    uses_tools: tuple[str, ...] = ()
    """Built-in tools, tools that the host has, ids of other agents, and `agents` for all that are offered as tools."""
    uses_skills: tuple[str, ...] = ()
    """Skills whose instructions are part of its own."""
    catalog: CatalogScope = "all"
    """Whether it sees the whole library, or only the skills that it uses."""
    depends_on: tuple[str, ...] = ()
    """Agents that must be there before it."""
    max_turns: int = MAX_TURNS
    integration_mode: IntegrationMode = "none"
    """`tool`: offered as a tool to agents that delegate."""
    project_instructions: Literal["on", "off"] = "on"
    """Whether it reads AGENTS.md and CLAUDE.md of a trusted project."""
    folder: str = ""
    """The folder that declares it."""
    layer: Layer = "project"
    """The layer of that folder."""


def read_manifest(folder: Path | str, *, layer: Layer = "project") -> Manifest | None:
    """The agent that a folder declares; None when it declares none. Raises `AgentInvalid`.

    No link in the folder leads out of it.
    """
    path = os.fspath(folder)
    package = FolderPackage(path)
    for name in MANIFEST_FILES:
        text = _read(package, name)
        if text is not None:
            break
    else:
        return None
    if name == AGENT_FILE and AGENT_BLOCK not in _Fields(text, os.path.join(path, name)).mapping:
        return None  # it declares something else
    prompt = _read(package, PROMPT_FILE) or ""
    return parse_manifest(text, prompt=prompt, folder=path, layer=layer, file=name)


def parse_manifest(
    text: str, *, folder: str, prompt: str = "", layer: Layer = "project", file: str = MANIFEST_FILE
) -> Manifest:
    """The agent that the text of an `agent.yaml` declares; raises `AgentInvalid` with what to write instead.

    The fields may stand in a block `agent:`, beside `id`, `name` and `depends_on`.
    """
    fields = _Fields(text, os.path.join(folder, file))
    fields.open_block()
    fields.refuse_unknown(fields.mapping, _FIELDS)
    uses_skills = fields.names("uses_skills", is_a=_is_skill, such_as="pdf-forms")
    mode = cast("IntegrationMode", fields.choice("integration_mode", ("none", "tool"), "none"))
    known_as = fields.id(os.path.basename(os.path.abspath(folder)))
    catalog: CatalogScope = "own" if uses_skills else "all"
    manifest = Manifest(
        id=known_as,
        name=fields.line("name", most=100) or known_as,
        description=fields.line("description", most=1_024),
        model=fields.line("model", most=200) or None,
        instructions=fields.text("instructions").strip(),
        prompt=prompt,
        uses_tools=_spread(fields.names("uses_tools", is_a=_is_tool, such_as="Read")),
        uses_skills=uses_skills,
        catalog=cast("CatalogScope", fields.choice("catalog", ("own", "all"), catalog)),
        depends_on=tuple(
            name for name in fields.names("depends_on", is_a=_is_id, such_as="orchestrator") if name not in ALWAYS_THERE
        ),
        max_turns=fields.max_turns(),
        integration_mode=mode,
        project_instructions=cast('Literal["on", "off"]', fields.choice("project_instructions", ("on", "off"), "on")),
        folder=folder,
        layer=layer,
    )
    if mode == "tool" and not manifest.description:
        if manifest.name != known_as:
            return replace(manifest, description=manifest.name)
        raise fields.invalid(
            "integration_mode",
            "An agent that is offered as a tool needs a description",
            "Add `description:` and say what it does and when to ask it.",
        )
    return manifest


class _Fields:
    """The fields of an `agent.yaml`, taken one by one."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        try:
            parsed = parse_yaml(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
        except BlockError as error:
            raise self._refused(
                error.line + 1,
                f"The YAML cannot be read: {shown(error.problem)}",
                "Write plain `key: value` lines and indent with spaces.",
            ) from None
        if parsed.duplicates:
            key, line = parsed.duplicates[0]
            raise self._refused(line + 1, f"{shown(key)!r} is given twice", "Keep one.")
        if parsed.value is not None and not isinstance(parsed.value, dict):
            raise self._refused(
                1, "It is not a list of `key: value` fields", "Begin with `name: ` and `description: `."
            )
        self.mapping: dict[str, Any] = parsed.value or {}
        self._lines = {key: line + 1 for key, line in zip(self.mapping, parsed.lines, strict=True)}

    def open_block(self) -> None:
        """Take the fields in a block for those of the agent; raises for one that is there and beside it as well."""
        block = self.mapping.get(AGENT_BLOCK)
        if block is None:
            return
        if not isinstance(block, dict):
            raise self.invalid(
                AGENT_BLOCK,
                f"`{AGENT_BLOCK}` is {_kind(block)} where a block of fields is expected",
                f"Write the fields below `{AGENT_BLOCK}:`, indented; or write them without it.",
            )
        line = self._lines[AGENT_BLOCK]
        for key, value in block.items():
            if key == AGENT_BLOCK:
                raise self.invalid(key, f"There is no field '{key}.{key}'", "Write its fields one level higher.")
            if key in self.mapping and self.mapping[key] != value:
                raise self.invalid(
                    AGENT_BLOCK, f"{shown(key)!r} is given twice, beside `{AGENT_BLOCK}:` and below it", "Keep one."
                )
            self._lines.setdefault(key, line)
        self.mapping = {key: value for key, value in self.mapping.items() if key != AGENT_BLOCK} | block

    def refuse_unknown(self, mapping: dict[str, Any], known: tuple[str, ...], below: str = "") -> None:
        """Raise for a key that means nothing: most likely a typing error, and what it says would be ignored."""
        for key in mapping:
            if key in known:
                continue
            meant = suggestion(key.lower().replace("-", "_"), known)
            raise self.invalid(
                below or key,
                f"There is no field {shown(f'{below}.{key}' if below else key)!r}",
                f"Did you mean `{meant}`?" if meant else f"Fields are {', '.join(known)}.",
            )

    def id(self, folder: str) -> str:
        """The field `id`, or the name of its folder."""
        written = self.text("id")
        name = written or folder
        if not _is_id(name):
            better = slug(name)
            what = f"{shown(name)!r} is no id" if written else f"The folder's name {shown(name)!r} is no id"
            example = better if is_valid_name(better) else "my-agent"
            raise self.invalid(
                "id", what, f"Write `id: {example}`: a-z, 0-9 and single hyphens or underscores, at most 64."
            )
        if name == ALL_AGENTS:
            raise self.invalid("id", f"{name!r} stands for all agents and is no id", "Write another `id:`.")
        return name

    def text(self, key: str) -> str:
        """Text, empty when it is not given."""
        value = self.mapping.get(key, "")
        if not isinstance(value, str):
            raise self.invalid(key, f"`{key}` is {_kind(value)} where text is expected", f"Write `{key}: some text`.")
        return "" if value.strip() in _ABSENT else value

    def line(self, key: str, *, most: int) -> str:
        """Text of one line; that it was folded over several does not matter."""
        text = " ".join(self.text(key).split())
        if len(text) > most:
            raise self.invalid(key, f"`{key}` has {len(text):,} characters", f"Use at most {most:,}.")
        if not text.isprintable():
            raise self.invalid(key, f"`{key}` has control characters", "Remove them.")
        return text

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of a few words."""
        value = self.text(key) or default
        if value not in choices:
            raise self.invalid(key, f"`{key}` cannot be {shown(value)!r}", f"Write {' or '.join(choices)}.")
        return value

    def names(self, key: str, *, is_a: Any, such_as: str) -> tuple[str, ...]:
        """A list of names, each given once."""
        value = self.mapping.get(key, [])
        if isinstance(value, str) and value.strip() in _ABSENT:
            return ()
        if not isinstance(value, list):
            example = shown(value) if isinstance(value, str) else such_as
            raise self.invalid(
                key, f"`{key}` is {_kind(value)} where a list is expected", f"Write `{key}: [{example}]`."
            )
        if len(value) > _MOST_ITEMS:
            raise self.invalid(key, f"`{key}` has {len(value):,} items", f"Use at most {_MOST_ITEMS}.")
        seen: set[str] = set()
        for item in value:
            if not isinstance(item, str) or not is_a(item):
                what = repr(shown(item)) if isinstance(item, str) else _kind(item)
                raise self.invalid(key, f"`{key}` has {what}, which is no name here", f"Write names such as {such_as}.")
            if item in seen:
                raise self.invalid(key, f"`{key}` has {shown(item)!r} twice", "Keep one.")
            seen.add(item)
        return tuple(value)

    def max_turns(self) -> int:
        """The limit of turns in a run."""
        limits = self.mapping.get("limits", "")
        if isinstance(limits, str) and limits.strip() in _ABSENT:
            return MAX_TURNS
        if not isinstance(limits, dict):
            raise self.invalid("limits", f"`limits` is {_kind(limits)}", f"Write `limits: {{max_turns: {MAX_TURNS}}}`.")
        self.refuse_unknown(limits, _LIMITS, below="limits")
        written = limits.get("max_turns", "")
        if isinstance(written, str) and written.strip() in _ABSENT:
            return MAX_TURNS
        if (
            not isinstance(written, str)
            or not re.fullmatch(r"[0-9]{1,6}", written)
            or not 1 <= int(written) <= _MOST_TURNS
        ):
            what = shown(written) if isinstance(written, str) else _kind(written)
            raise self.invalid(
                "limits", f"`limits.max_turns` cannot be {what}", f"Write a whole number from 1 to {_MOST_TURNS:,}."
            )
        return int(written)

    def invalid(self, key: str, what: str, hint: str) -> AgentInvalid:
        """The error for a field."""
        return self._refused(self._lines.get(key, 1), what, hint)

    def _refused(self, line: int, what: str, hint: str) -> AgentInvalid:
        return AgentInvalid(f"{shown(self.path, 300)}, line {line}: {what}.", hint=hint, path=self.path, line=line)


def _read(package: FolderPackage, name: str) -> str | None:
    """The text of one of an agent's files; None when there is none."""
    path = os.path.join(package.root, name)
    try:
        return package.read(name, limit=MAX_BYTES).decode()
    except FileMissing:
        return None
    except UnicodeDecodeError as error:
        what, hint = f"byte {error.start:,} is not UTF-8", "Save it as UTF-8."
    except FileTooLarge:
        what, hint = f"it has more than {MAX_BYTES:,} bytes", "Move detail into skills."
    except FileRefused:
        what, hint = "it is no plain file inside its folder", "Replace it by a copy of the file."
    except MetierError as error:
        what, hint = error.message.rstrip("."), "Check its permissions."
    raise AgentInvalid(f"{shown(path, 300)} cannot be used: {what}.", hint=hint, path=path) from None


def _is_id(name: str) -> bool:
    return is_valid_name(name.replace("_", "-"))


def _spread(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of tools, with the tools of a set in its place."""
    return tuple(dict.fromkeys(tool for name in names for tool in AGENT_TOOLS.get(name, (name,))))


def _is_skill(name: str) -> bool:
    return 0 < len(name) <= 200 and name == name.strip() and name.isprintable()


def _is_tool(name: str) -> bool:
    return _TOOL.fullmatch(name) is not None


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else "text"
