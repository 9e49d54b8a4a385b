"""What a skill requires of the machine and the agent, in the many ways that authors declare it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.skill.skill import Skill

_MOST = 64
_PLACES = ("openclaw", "clawdbot", "moltbot", "clawdis", "clawd", "hermes", "metier")
"""Keys below `metadata` under which clients keep requirements of their own."""
_KINDS = {
    "bins": "bins", "bin": "bins", "binaries": "bins", "commands": "bins",
    "anybins": "any_bins",
    "env": "env", "envvars": "env", "requiredenvironmentvariables": "env",
    "os": "os", "platforms": "os",
    "tools": "tools", "requirestools": "tools",
    "mcp": "mcp", "mcpservers": "mcp",
}  # fmt: skip
_HOLDERS = ("requires", "prerequisites")
_DECLARING = frozenset(
    {*_HOLDERS, "bins", "env", "os", "platforms", "required_environment_variables", "mcp", "anyBins"}
)
_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}").fullmatch
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}").fullmatch
_NAME = re.compile(r"[^\s\x00-\x1f]{1,128}").fullmatch
_SYSTEMS = {
    "darwin": "darwin", "macos": "darwin", "mac": "darwin", "osx": "darwin",
    "linux": "linux",
    "win32": "windows", "windows": "windows", "win": "windows",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What must be there for a skill to work.

    >>> from metier.skill import parse, requirements_of
    >>> skill = parse(b"---\\nname: a\\ndescription: A.\\nrequires: {bins: [ffmpeg], os: macos}\\n---\\nDo.").skill
    >>> requirements_of(skill)
    Requirements(bins=('ffmpeg',), any_bins=(), env=(), os=('darwin',), tools=(), mcp=())
    """

    bins: tuple[str, ...] = ()
    """Programs, all of them."""
    any_bins: tuple[str, ...] = ()
    """Programs, one of which is enough."""
    env: tuple[str, ...] = ()
    """Environment variables that must have a value."""
    os: tuple[str, ...] = ()
    """Operating systems, one of which it must be: darwin, linux, windows."""
    tools: tuple[str, ...] = ()
    """Tools that the agent must have."""
    mcp: tuple[str, ...] = ()
    """MCP servers that the agent must be connected to."""

    def __bool__(self) -> bool:
        return any((self.bins, self.any_bins, self.env, self.os, self.tools, self.mcp))

    def as_text(self) -> str:
        """The requirements as text for a cache; "" when there are none."""
        return json.dumps({kind: names for kind, names in asdict(self).items() if names}) if self else ""

    @classmethod
    def from_text(cls, text: str) -> Requirements:
        """What `as_text` wrote; raises ValueError for anything else."""
        if not text:
            return NO_REQUIREMENTS
        try:
            return cls(**{kind: tuple(names) for kind, names in json.loads(text).items()})
        except (TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None


NO_REQUIREMENTS = Requirements()


def may_require(mapping: Mapping[str, Any]) -> bool:
    """Whether a frontmatter could declare requirements; a cheap no for nearly all."""
    if not _DECLARING.isdisjoint(mapping):
        return True
    metadata = mapping.get("metadata")
    if isinstance(metadata, str):
        return True  # it may be JSON
    return isinstance(metadata, dict) and not _DECLARING.union(_PLACES).isdisjoint(metadata)


def requirements_of(skill: Skill) -> Requirements:
    """The requirements that a skill declares, wherever it does. What cannot be a requirement is passed over."""
    if not may_require(skill.frontmatter):
        return NO_REQUIREMENTS
    found: dict[str, dict[str, None]] = {}
    metadata = skill.metadata
    for place in (skill.frontmatter, metadata, *(metadata.get(place) for place in _PLACES)):
        if not isinstance(place, dict):
            continue
        for holder in _HOLDERS:
            _collect(found, place.get(holder))
        # `tools` at the top of a file or of `metadata` names tools that the skill may use, not ones it needs.
        outermost = place is skill.frontmatter or place is metadata
        _collect(found, {key: item for key, item in place.items() if not (outermost and key == "tools")})
    return Requirements(**{kind: tuple(names)[:_MOST] for kind, names in found.items()})


def _collect(found: dict[str, dict[str, None]], declared: object) -> None:
    if not isinstance(declared, dict):
        return  # a list here names other skills, or is prose
    for key, value in declared.items():
        kind = _KINDS.get(re.sub("[-_ ]", "", str(key)).lower())
        if kind is not None:
            for name in _names(kind, value):
                found.setdefault(kind, {})[name] = None


def _names(kind: str, value: object) -> Iterable[str]:
    for name in _listed(value):
        if kind in ("bins", "any_bins"):
            if _COMMAND(name):
                yield name
        elif kind == "env":
            if _VARIABLE(name):
                yield name
        elif kind == "os":
            if name.lower() in _SYSTEMS:
                yield _SYSTEMS[name.lower()]
        elif _NAME(name):
            yield name


def _listed(value: object) -> Iterable[str]:
    """The names in a list, in text with commas, or in a map of names to what is said about them."""
    if isinstance(value, str):
        yield from (part.strip() for part in value.split(",")[: 2 * _MOST])
    elif isinstance(value, dict):
        yield from (str(name) for name, about in list(value.items())[: 2 * _MOST] if not _is_optional(about))
    elif isinstance(value, list):
        for item in value[: 2 * _MOST]:
            if isinstance(item, str):
                yield item.strip()
            elif isinstance(item, dict) and isinstance(item.get("name"), str) and not _is_optional(item):
                yield item["name"].strip()


def _is_optional(about: object) -> bool:
    if not isinstance(about, dict):
        return False
    return "default" in about or str(about.get("required", "true")).lower() in ("false", "no", "0") or (
        str(about.get("optional", "false")).lower() in ("true", "yes", "1")
    )  # fmt: skip
