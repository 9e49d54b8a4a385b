"""The manifests of plugins and of marketplaces, read as if their author wished us harm.

Three formats: `.claude-plugin/marketplace.json` and `.claude-plugin/plugin.json` of Claude Code, and the `plugin.json`
of Agent Plugins 1.0. A part that is wrong leaves out one plugin, with a sentence that says why.
"""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING, Any

from metier._hosts import is_address, is_public_address, split_authority
from metier._json_object import parse_object
from metier._lazy import dataclass, pattern, replace
from metier.errors import MetierError
from metier.hub.sources.address import parse_address
from metier.hub.sources.fields import bounded_list, object_at, refused, required_text, text_at
from metier.skill import shown
from metier.skill.package import checked_path

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from metier.hub.sources.address import SourceAddress

MARKETPLACE = ".claude-plugin/marketplace.json"
CLAUDE_PLUGIN = ".claude-plugin/plugin.json"
AGENT_PLUGIN = "plugin.json"
AGENT_PLUGIN_SCHEMAS = "https://agent-plugins.org/schemas/"
AGENT_PLUGIN_SCHEMA = f"{AGENT_PLUGIN_SCHEMAS}1.0.0/plugin.schema.json"

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
MAX_PLUGINS = 5_000

PARTS = {
    **{name: name for name in ("agents", "commands", "hooks")},
    **dict.fromkeys((".lsp.json", "lspServers"), "language servers"),
    **dict.fromkeys((".mcp.json", "mcp.json", "mcpServers"), "MCP servers"),
    **dict.fromkeys(("output-styles", "outputStyles"), "output styles"),
}
"""Fields of the manifest of a plugin, and names in its folder, that are no skills."""
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_AGENT_PLUGIN_NAME = pattern(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_VERSION = pattern(r"[\w.+!-]{1,64}")
_REPOSITORY = pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*")
_COMMIT = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHA256 = pattern(r"[0-9a-fA-F]{64}")
_ANY = pattern(r"(?s).*")
_PLACE = pattern(r"[^ #\\]{1,2000}")
_SOURCES = ("github", "url", "git-subdir", "archive")
_NO_SOURCES = {
    "npm": "it is an npm package, which this version does not fetch",
    "command": "a program would have to be run to fetch it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin as its manifest, or the marketplace that lists it, describes it."""

    name: str = ""
    version: str = ""
    description: str = ""
    root: str = ""
    """The folder in the same tree that it is; empty for all of the tree."""
    source: SourceAddress | None = None
    """The source that it is fetched from, where that is not the tree of its marketplace."""
    skills: tuple[str, ...] | None = None
    """The folders in it that are skills or hold some, where they are listed."""
    parts: tuple[str, ...] = ()
    """The parts that its manifest names and that are no skills."""
    is_closed: bool = False
    """Whether nothing but the folders in its `skills` are skills, as Agent Plugins has it."""
    unknown: tuple[str, ...] = ()
    """Fields of its manifest that are ignored."""


def parse_marketplace(data: bytes, address: SourceAddress) -> tuple[list[Plugin], list[str]]:
    """The plugins that a marketplace lists, and sentences about those that are left out.

    Only one that lies on this machine may name files of it, and only one of a private network other hosts there.
    """
    with refused(MARKETPLACE):
        manifest = parse_object(data, most=MAX_MANIFEST_BYTES)
        listed = bounded_list(manifest, "plugins", MAX_PLUGINS)
    below = object_at(manifest, "metadata").get("pluginRoot")
    plugins: dict[str, Plugin] = {}
    warnings: list[str] = []
    for number, entry in enumerate(listed, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = f"The plugin {shown(name)!r}" if isinstance(name, str) else f"Plugin {number}"
        try:
            if not isinstance(entry, dict):
                raise ValueError("it is no object")
            plugin = _described(entry)
            if plugin.name in plugins:
                raise ValueError("it is listed twice")
            written = entry.get("source")
            if isinstance(written, dict):
                plugin = replace(plugin, source=_address(written, address))
            else:
                root = _folder(written, "source")
                # The folder of plugins stands for sources that are bare names; `./name` begins at the root.
                if isinstance(below, str) and not str(written).startswith("."):
                    root = "/".join(filter(None, (_folder(below, "pluginRoot"), root)))
                plugin = replace(plugin, root=root)
            plugins[plugin.name] = plugin
        except ValueError as error:
            warnings.append(f"{label} of the marketplace is left out: {error}.")
    return list(plugins.values()), warnings


def parse_plugin(claude: bytes | None, agent: bytes | None) -> Plugin | None:
    """The plugin that a `.claude-plugin/plugin.json` describes, else a `plugin.json`; None without any of them."""
    if claude is not None:
        with refused(CLAUDE_PLUGIN):
            return _described(parse_object(claude, most=MAX_MANIFEST_BYTES))
    with refused(AGENT_PLUGIN):
        return None if agent is None else _agent_plugin(agent)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_AGENT_PLUGIN_FIELDS: dict[str, Callable[[Any], bool]] = {
    "$schema": _is_text,
    "name": lambda name: _is_text(name) and bool(_AGENT_PLUGIN_NAME.fullmatch(name)),
    **dict.fromkeys(("version", "description", "homepage", "repository", "license"), _is_text),
    "author": lambda author: (
        isinstance(author, dict) and author.keys() <= {"name", "email", "url"} and all(map(_is_text, author.values()))
    ),
    "keywords": lambda words: isinstance(words, list) and all(map(_is_text, words)),
}
"""The fields of Agent Plugins 1.0 whose shape it demands."""


def _agent_plugin(data: bytes) -> Plugin | None:
    """The plugin that the `plugin.json` of Agent Plugins describes; None for a `plugin.json` of something else.

    Whatever breaks that specification refuses the whole plugin, as it demands, but for fields that it does not know.
    """
    try:
        manifest = parse_object(data, most=MAX_MANIFEST_BYTES)
    except ValueError:
        if AGENT_PLUGIN_SCHEMAS.encode() in data:
            raise
        return None
    schema = str(manifest.get("$schema"))
    if not schema.startswith(AGENT_PLUGIN_SCHEMAS):
        return None
    if schema != AGENT_PLUGIN_SCHEMA:
        raise ValueError(f"it is of a version of Agent Plugins that is not known here: {shown(schema)!r}")
    given = {"name": None, **manifest}
    wrong = [field for field, is_right in _AGENT_PLUGIN_FIELDS.items() if field in given and not is_right(given[field])]
    if wrong:
        raise ValueError(f"it breaks the specification of Agent Plugins 1.0.0 in {', '.join(wrong)}")
    extensions = {"extensions"} if isinstance(manifest.get("extensions"), dict) else set()
    unknown = sorted(shown(field, 40) for field in manifest.keys() - _AGENT_PLUGIN_FIELDS.keys() - extensions)
    return Plugin(name=manifest["name"], version=_version(manifest), is_closed=True, unknown=tuple(unknown))


def _described(manifest: dict[str, Any]) -> Plugin:
    """A plugin as Claude Code describes it, in its own manifest or in that of a marketplace."""
    name = required_text(manifest, "name", _NAME.fullmatch, "its name is not made of letters, digits, dots and hyphens")
    skills = manifest.get("skills")
    if skills is not None:
        written = {"skills": [skills] if isinstance(skills, str) else skills}
        skills = tuple(_folder(path, "skills") for path in bounded_list(written, "skills", MAX_PLUGINS))
    return Plugin(
        name=name,
        version=_version(manifest),
        description=text_at(manifest, "description", 300),
        skills=skills,
        parts=tuple(words for field, words in PARTS.items() if manifest.get(field)),
    )


def _address(written: dict[str, Any], market: SourceAddress) -> SourceAddress:
    """The address that a plugin which lies elsewhere is fetched from, pinned where the marketplace pins it."""
    kind = str(written.get("source"))
    if kind not in _SOURCES:
        raise ValueError(_NO_SOURCES.get(kind, f"the kind of its source is not known: {shown(kind, 40)!r}"))
    is_archive = kind == "archive"
    place = written.get("url")
    if kind == "github":
        place = required_text(written, "repo", _REPOSITORY.fullmatch, "its repository is not written as owner/repo")
    if isinstance(place, str) and kind in ("github", "git-subdir") and _REPOSITORY.fullmatch(place):
        place = f"https://github.com/{place}"
    is_local = "://" not in market.location or market.location.startswith("file://")
    schemes = ("https://", "http://", *(() if is_archive else ("ssh://", "git@")), *(("file://",) if is_local else ()))
    if not isinstance(place, str) or not place.startswith(schemes):
        raise ValueError(f"its address does not begin with {', '.join(schemes)}")
    if not _PLACE.fullmatch(place):
        raise ValueError("its address cannot be used")
    if is_archive:
        digest = _optional_text(written, "sha256", _SHA256, "its sha256 is none").lower()
        text, ref = f"archive:{place.removeprefix('file://')}", f"sha256:{digest}" if digest else ""
    else:
        commit = _optional_text(written, "sha", _COMMIT, "its sha is no commit")
        text, ref = f"git+{place}", commit or _optional_text(written, "ref", _ANY, "its ref is no text")
    try:
        found = parse_address(text, ref=ref)
    except MetierError as error:
        raise ValueError(error.message.rstrip(".")) from None
    if not is_local and _is_private(found.location) and not _is_private(market.location):
        raise ValueError("its address is one of a private network")
    return replace(found, path=_folder(written.get("path"), "path")) if kind == "git-subdir" else found


def _is_private(url: str) -> bool:
    """Whether the host of an address is written as one of this machine or of a private network."""
    authority = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    try:
        host, _ = split_authority(authority)
    except ValueError:
        return True
    return host == "localhost" or host.endswith(".localhost") or (is_address(host) and not is_public_address(host))


def _optional_text(manifest: dict[str, Any], field: str, shape: re.Pattern[str], problem: str) -> str:
    return "" if manifest.get(field) is None else required_text(manifest, field, shape.fullmatch, problem)


def _version(manifest: dict[str, Any]) -> str:
    version = text_at(manifest, "version")
    return version if _VERSION.fullmatch(version) else ""


def _folder(path: object, field: str) -> str:
    """A folder below another, without `.` and `..`; empty for that folder itself."""
    if not isinstance(path, str):
        raise ValueError(f"its {field} is no path")
    if "\\" not in path and normpath(path or "..") == ".":
        return ""
    try:
        return "/".join(checked_path(path))
    except MetierError:
        raise ValueError(f"its {field} leads out of it, or is no path: {shown(path)!r}") from None
