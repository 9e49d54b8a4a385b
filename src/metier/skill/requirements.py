"""Requirements of a skill on the machine and the agent, in the many ways that authors declare them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from metier._lazy import asdict, dataclass, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metier.skill.skill import Skill

_MOST = 64
_PLACES = frozenset({"openclaw", "clawdbot", "moltbot", "clawdis", "clawd", "hermes", "metier"})
"""Keys below `metadata` under which clients keep requirements of their own."""
_KINDS = {
    "bins": "bins", "bin": "bins", "binaries": "bins", "commands": "bins",
    "anybins": "any_bins",
    "env": "env", "envvars": "env", "requiredenvironmentvariables": "env",
    "os": "os", "platforms": "os",
    "tools": "tools", "requirestools": "tools",
    "mcp": "mcp", "mcpservers": "mcp",
}  # fmt: skip
_HOLDERS = frozenset({"requires", "prerequisites"})
_AT_THE_TOP = frozenset(_KINDS) - {"tools", "commands"}
"""Kinds that mean a requirement at the top of a file too, where `tools` and `commands` name what a skill brings."""
_COMMAND = pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_VARIABLE = pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_NAME = pattern(r"\S{1,128}")
_PATTERNS = {"bins": _COMMAND, "any_bins": _COMMAND, "env": _VARIABLE}
FIELDS_WITHOUT_REQUIREMENTS = frozenset(
    {"name", "description", "license", "allowed-tools", "version", "tags", "author", "compatibility"}
)
"""Fields that declare no requirement and hide from nobody; nearly all skills have no others."""
_SYSTEMS = {
    "darwin": "darwin", "macos": "darwin", "mac": "darwin", "osx": "darwin",
    "linux": "linux",
    "win32": "windows", "windows": "windows", "win": "windows",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The programs, variables, systems, tools and servers that a skill needs.

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
        """Requirements from the text that `as_text` wrote; raises ValueError for any other text."""
        if not text:
            return NO_REQUIREMENTS
        try:
            kinds = json.loads(text)
            if not all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in kinds.values()):
                raise ValueError("not lists of names")
            return cls(**{kind: tuple(names) for kind, names in kinds.items()})
        except (TypeError, AttributeError, RecursionError) as error:
            raise ValueError(str(error)) from None


NO_REQUIREMENTS = Requirements()


def may_require(mapping: Mapping[str, Any]) -> bool:
    """Whether a frontmatter could declare requirements; a cheap no for nearly all."""
    for key, value in mapping.items():
        if key in FIELDS_WITHOUT_REQUIREMENTS:
            continue
        plain = _fold_key(key)
        if plain in _HOLDERS or plain in _AT_THE_TOP:
            return True
        if plain == "metadata":
            if not isinstance(value, dict):
                return True  # it may be JSON
            inner = set(map(_fold_key, value))
            if inner & _AT_THE_TOP or inner & _HOLDERS or inner & _PLACES:
                return True
    return False


def requirements_of(skill: Skill) -> Requirements:
    """The requirements that a skill declares, wherever it does. What cannot be a requirement is passed over."""
    return requirements_in(skill.frontmatter, skill.metadata)


def requirements_in(frontmatter: Mapping[str, Any], metadata: Mapping[str, Any]) -> Requirements:
    """The requirements that a frontmatter declares, for whoever has not interpreted the rest of it."""
    if not may_require(frontmatter):
        return NO_REQUIREMENTS
    found: dict[str, dict[str, None]] = {}
    _collect_outermost(found, frontmatter)
    _collect_outermost(found, metadata)
    for key, value in metadata.items():
        if _fold_key(key) in _PLACES and isinstance(value, dict):
            _collect(found, value)
            for inner, item in value.items():
                if _fold_key(inner) in _HOLDERS:
                    _collect(found, item)
    return Requirements(**{kind: tuple(names)[:_MOST] for kind, names in found.items()})


def _collect_outermost(found: dict[str, dict[str, None]], mapping: Mapping[str, Any]) -> None:
    for key, value in mapping.items():
        plain = _fold_key(key)
        if plain in _HOLDERS:
            _collect(found, value)
        elif plain in _AT_THE_TOP:
            _collect(found, {key: value})


def _collect(found: dict[str, dict[str, None]], declared: object) -> None:
    if not isinstance(declared, dict):
        return  # a list here names other skills, or is prose
    for key, value in declared.items():
        kind = _KINDS.get(_fold_key(key))
        if kind is not None:
            for name in _names(kind, value):
                found.setdefault(kind, {})[name] = None


def _names(kind: str, value: object) -> Iterable[str]:
    for name in _listed(value):
        if kind == "os":
            if name.lower() in _SYSTEMS:
                yield _SYSTEMS[name.lower()]
        elif _PATTERNS[kind].fullmatch(name) if kind in _PATTERNS else is_required_name(name):
            yield name


def is_required_name(name: object) -> bool:
    """Whether it can be the name of a tool or a server."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name.isprintable()


def _fold_key(key: object) -> str:
    return str(key).replace("-", "").replace("_", "").replace(" ", "").lower()


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
