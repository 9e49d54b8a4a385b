"""`agents/openai.yaml`: what some skills say to one client beside their SKILL.md, where it concerns every client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from metier.errors import MetierError
from metier.skill.fast_yaml import read_block
from metier.skill.requirements import is_required_name

if TYPE_CHECKING:
    from metier.skill.package import Package

OPENAI_YAML = "agents/openai.yaml"
_MAX_BYTES = 64 * 1024
_MOST = 64


class OpenAIMetadata(NamedTuple):
    """The metadata that `agents/openai.yaml` adds to a skill."""

    is_for_people_only: bool = False
    """Whether models are not to load the skill by themselves."""
    short_description: str = ""
    mcp: tuple[str, ...] = ()
    """MCP servers that the skill depends on."""


NO_OPENAI_METADATA = OpenAIMetadata()


def read_openai_yaml(package: Package) -> OpenAIMetadata:
    """The metadata in a skill's `agents/openai.yaml`; a file that is missing or cannot be understood adds nothing."""
    try:
        data = package.read(OPENAI_YAML, limit=_MAX_BYTES)
        mapping = read_block(f"{data.decode()}\n", 1).mapping
    except (MetierError, OSError, UnicodeDecodeError):
        return NO_OPENAI_METADATA
    policy, interface = _map(mapping, "policy"), _map(mapping, "interface")
    short = interface.get("short_description")
    tools = _map(mapping, "dependencies").get("tools")
    servers = [
        tool["value"]
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and tool.get("type") == "mcp" and is_required_name(tool.get("value"))
    ]
    return OpenAIMetadata(
        str(policy.get("allow_implicit_invocation", "true")).strip().lower() in ("false", "no", "off", "0", "n"),
        short.strip() if isinstance(short, str) else "",
        tuple(dict.fromkeys(servers))[:_MOST],
    )


def _map(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    value = mapping.get(key)
    return value if isinstance(value, dict) else {}
