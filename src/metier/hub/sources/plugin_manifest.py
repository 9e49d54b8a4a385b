"""The manifests of plugins and of marketplaces, read as if their author wished us harm.

Three formats: `.claude-plugin/marketplace.json` and `.claude-plugin/plugin.json` of Claude Code, and the `plugin.json`
of Agent Plugins 1.0. A part that is wrong leaves out one plugin, with a sentence that says why.
"""

from __future__ import annotations

from posixpath import normpath
from typing import Any

from metier._hosts import is_address, is_public_address, split_authority
from metier._json_object import parse_object
from metier._lazy import dataclass, pattern
from metier.errors import MetierError, SourceUnavailable
from metier.hub.sources.address import SourceAddress, parse_address
from metier.skill import shown
from metier.skill.package import checked_path

MARKETPLACE = ".claude-plugin/marketplace.json"
CLAUDE_PLUGIN = ".claude-plugin/plugin.json"
AGENT_PLUGIN = "plugin.json"
AGENT_PLUGIN_SCHEMAS = "https://agent-plugins.org/schemas/"
AGENT_PLUGIN_SCHEMA = f"{AGENT_PLUGIN_SCHEMAS}1.0.0/plugin.schema.json"

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
MAX_PLUGINS = 5_000

_PARTS = {
    "hooks": "hooks",
    "mcpServers": "MCP servers",
    "commands": "commands",
    "agents": "agents",
    "lspServers": "language servers",
    "outputStyles": "output styles",
}
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_AGENT_PLUGIN_NAME = pattern(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_VERSION = pattern(r"[\w.+!-]{1,64}")
_REPOSITORY = pattern(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9_][\w.-]*")
_COMMIT = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHA256 = pattern(r"[0-9a-f]{64}")
_AGENT_PLUGIN_TEXTS = ("version", "description", "homepage", "repository", "license")
_AGENT_PLUGIN_FIELDS = {"$schema", "name", "author", "keywords", "extensions", *_AGENT_PLUGIN_TEXTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin as its manifest, or the marketplace that lists it, describes it."""

    name: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Marketplace:
    """A list of plugins, and sentences about those that are left out of it."""

    plugins: tuple[Plugin, ...]
    warnings: tuple[str, ...] = ()


class _Unusable(Exception):
    """A part of a manifest that cannot be used; says why, as the end of a sentence."""


def parse_marketplace(data: bytes, address: SourceAddress) -> Marketplace:
    """The plugins that a marketplace lists.

    Only one that lies on this machine may name files of it, and only one of a private network other hosts there.
    """
    manifest = _json_object(data, MARKETPLACE)
    listed = manifest.get("plugins")
    if not isinstance(listed, list):
        raise _refusal(MARKETPLACE, "lists no plugins")
    if len(listed) > MAX_PLUGINS:
        raise _refusal(MARKETPLACE, f"lists more than {MAX_PLUGINS:,} plugins")
    metadata = manifest.get("metadata")
    below = metadata.get("pluginRoot") if isinstance(metadata, dict) else None
    plugins: dict[str, Plugin] = {}
    warnings: list[str] = []
    for number, entry in enumerate(listed, 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        label = f"The plugin {shown(name)!r}" if isinstance(name, str) else f"Plugin {number}"
        try:
            plugin = _listed_plugin(entry, below, address)
            if plugin.name in plugins:
                raise _Unusable("it is listed twice")
            plugins[plugin.name] = plugin
        except _Unusable as error:
            warnings.append(f"{label} of the marketplace is left out: {error}.")
    return Marketplace(plugins=tuple(plugins.values()), warnings=tuple(warnings))


def _listed_plugin(entry: object, below: object, market: SourceAddress) -> Plugin:
    if not isinstance(entry, dict):
        raise _Unusable("it is no object")
    name = _plugin_name(entry)
    written = entry.get("source")
    source = _address(written, market) if isinstance(written, dict) else None
    root = ""
    if source is None:
        root = _folder(written, "source")
        # The folder of plugins stands for sources that are bare names; `./name` begins at the root.
        if isinstance(below, str) and isinstance(written, str) and not written.startswith("."):
            root = "/".join(filter(None, (_folder(below, "pluginRoot"), root)))
    return Plugin(
        name=name,
        version=_version(entry),
        description=_text(entry, "description"),
        root=root,
        source=source,
        skills=_skills(entry),
        parts=_parts(entry),
    )


def parse_claude_plugin(data: bytes, root: str) -> Plugin:
    """The plugin that a `.claude-plugin/plugin.json` describes."""
    manifest = _json_object(data, CLAUDE_PLUGIN)
    try:
        return Plugin(
            name=_plugin_name(manifest),
            version=_version(manifest),
            description=_text(manifest, "description"),
            root=root,
            skills=_skills(manifest),
            parts=_parts(manifest),
        )
    except _Unusable as error:
        raise _refusal(CLAUDE_PLUGIN, f"cannot be used: {error}") from None


def parse_agent_plugin(data: bytes, root: str) -> Plugin | None:
    """The plugin that the `plugin.json` of Agent Plugins describes; None for a `plugin.json` of something else.

    Whatever breaks that specification refuses the whole plugin, as it demands, but for fields that it does not know.
    """
    try:
        manifest = _json_object(data, AGENT_PLUGIN)
    except SourceUnavailable:
        if AGENT_PLUGIN_SCHEMAS.encode() in data:
            raise
        return None
    schema = manifest.get("$schema")
    if not isinstance(schema, str) or not schema.startswith(AGENT_PLUGIN_SCHEMAS):
        return None
    if schema != AGENT_PLUGIN_SCHEMA:
        raise _refusal(AGENT_PLUGIN, f"is of a version of Agent Plugins that is not known here: {shown(schema)!r}")
    wrong = [field for field in _AGENT_PLUGIN_TEXTS if not isinstance(manifest.get(field, ""), str)]
    name, author, keywords = manifest.get("name"), manifest.get("author", {}), manifest.get("keywords", [])
    if not isinstance(name, str) or not _AGENT_PLUGIN_NAME.fullmatch(name):
        wrong.append("name")
    if not isinstance(author, dict) or not all(
        field in ("name", "email", "url") and isinstance(value, str) for field, value in author.items()
    ):
        wrong.append("author")
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        wrong.append("keywords")
    if wrong:
        raise _refusal(AGENT_PLUGIN, f"breaks the specification of Agent Plugins 1.0.0 in {', '.join(wrong)}")
    return Plugin(name=str(name), version=_version(manifest), description=_text(manifest, "description"), root=root)


def unknown_fields(data: bytes) -> list[str]:
    """The fields of an Agent Plugins manifest that are reported and ignored."""
    manifest = _json_object(data, AGENT_PLUGIN)
    found = sorted(shown(field, 40) for field in manifest if field not in _AGENT_PLUGIN_FIELDS)
    return found if isinstance(manifest.get("extensions", {}), dict) else [*found, "extensions"]


def _address(written: dict[str, Any], market: SourceAddress) -> SourceAddress:
    """The address that a plugin which lies elsewhere is fetched from, pinned where the marketplace pins it."""
    kind = written.get("source")
    if kind == "npm":
        raise _Unusable("it is an npm package, which this version does not fetch")
    if kind == "command":
        raise _Unusable("a program would have to be run to fetch it")
    if kind not in ("github", "url", "git-subdir", "archive"):
        raise _Unusable(f"the kind of its source is not known: {shown(str(kind), 40)!r}")
    if kind == "archive":
        digest = written.get("sha256")
        if digest is not None and not (isinstance(digest, str) and _SHA256.fullmatch(digest.lower())):
            raise _Unusable("its sha256 is none")
        url = _url(written.get("url"), ("https://", "http://"), market)
        return SourceAddress(
            kind="archive", location=url.removeprefix("file://"), ref=f"sha256:{digest.lower()}" if digest else ""
        )
    repository = written.get("repo") if kind == "github" else written.get("url")
    if isinstance(repository, str) and kind != "url" and _REPOSITORY.fullmatch(repository):
        repository = f"https://github.com/{repository.removesuffix('.git')}"
    elif kind == "github":
        raise _Unusable("its repository is not written as owner/repo")
    repository = _url(repository, ("https://", "http://", "ssh://", "git@"), market)
    commit, ref = written.get("sha"), written.get("ref")
    if commit is not None and not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise _Unusable("its sha is no commit")
    if ref is not None and not isinstance(ref, str):
        raise _Unusable("its ref is no text")
    below = _folder(written.get("path"), "path") if kind == "git-subdir" else ""
    try:
        found = parse_address(f"git+{repository}", ref=commit or ref or "")
    except MetierError as error:
        raise _Unusable(error.message.rstrip(".")) from None
    return SourceAddress(kind="git", location=found.location, ref=found.ref, path=below)


def _url(written: object, schemes: tuple[str, ...], market: SourceAddress) -> str:
    is_local = "://" not in market.location or market.location.startswith("file://")
    allowed = (*schemes, "file://") if is_local else schemes
    if not isinstance(written, str) or not written.startswith(allowed):
        raise _Unusable(f"its address does not begin with {', '.join(allowed)}")
    if len(written) > 2_000 or not written.isprintable() or not set(written).isdisjoint(" #\\"):
        raise _Unusable("its address cannot be used")
    if not is_local and _is_private(written) and not _is_private(market.location):
        raise _Unusable("its address is one of a private network")
    return written


def _is_private(url: str) -> bool:
    """Whether the host of an address is written as one of this machine or of a private network."""
    authority = url.partition("://")[2].partition("/")[0] or url.partition(":")[0]
    try:
        host, _ = split_authority(authority.rpartition("@")[2])
    except ValueError:
        return True
    return host == "localhost" or host.endswith(".localhost") or (is_address(host) and not is_public_address(host))


def _plugin_name(manifest: dict[str, Any]) -> str:
    name = manifest.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _Unusable("its name is not made of letters, digits, dots and hyphens")
    return name


def _version(manifest: dict[str, Any]) -> str:
    version = manifest.get("version")
    return version if isinstance(version, str) and _VERSION.fullmatch(version) else ""


def _text(manifest: dict[str, Any], field: str) -> str:
    value = manifest.get(field)
    return shown(value, 300) if isinstance(value, str) else ""


def _parts(manifest: dict[str, Any]) -> tuple[str, ...]:
    return tuple(words for field, words in _PARTS.items() if manifest.get(field))


def _skills(manifest: dict[str, Any]) -> tuple[str, ...] | None:
    written = manifest.get("skills")
    if written is None:
        return None
    paths = [written] if isinstance(written, str) else written
    if not isinstance(paths, list) or len(paths) > MAX_PLUGINS:
        raise _Unusable("its skills are no list of folders")
    return tuple(dict.fromkeys(_folder(path, "skills") for path in paths))


def _folder(path: object, field: str) -> str:
    """A folder below another, without `.` and `..`; empty for that folder itself."""
    if not isinstance(path, str):
        raise _Unusable(f"its {field} is no path")
    if "\\" not in path and normpath(path or "..") == ".":
        return ""
    try:
        return "/".join(checked_path(path))
    except MetierError:
        raise _Unusable(f"its {field} leads out of it, or is no path: {shown(path)!r}") from None


def _json_object(data: bytes, name: str) -> dict[str, Any]:
    try:
        return parse_object(data, most=MAX_MANIFEST_BYTES)
    except ValueError as problem:
        raise _refusal(name, f"cannot be used: {problem}") from None


def _refusal(name: str, problem: str) -> SourceUnavailable:
    return SourceUnavailable(f"{name} {problem}.", hint="Ask the author of the source to correct it.")
