"""The layout of the files of a source: plain skills, a plugin, or a marketplace that names its plugins."""

from __future__ import annotations

import functools
from posixpath import basename, dirname
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from metier._lazy import replace
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Candidate, Fetched
from metier.hub.sources.fields import few
from metier.hub.sources.plugin_manifest import (
    AGENT_PLUGIN,
    CLAUDE_PLUGIN,
    MARKETPLACE,
    Plugin,
    parse_agent_plugin,
    parse_claude_plugin,
    parse_marketplace,
    unknown_fields,
)
from metier.hub.sources.tree import candidates_of, skill_folders
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Resolved
    from metier.hub.sources.tree import Tree

_FOLDERS_OF_PARTS = {"hooks": "hooks", "commands": "commands", "agents": "agents", "output-styles": "output styles"}
_FILES_OF_PARTS = {".mcp.json": "MCP servers", "mcp.json": "MCP servers", ".lsp.json": "language servers"}


def candidates_by_layout(tree: Tree, resolved: Resolved) -> Fetched:
    """The skills of a tree: those that its plugins name, each with its package, and then all others that lie in it."""
    below = resolved.address.path
    layout = _Layout(tree, resolved.address)
    root = below
    while not layout.read_manifests(root) and root:
        root = dirname(root)
    if not root and not layout.has_manifests and (wrapper := _wrapper(tree.modes)):
        layout.read_manifests(wrapper)
    plain = [folder for folder in skill_folders(tree.modes, below) if not layout.is_closed(folder)]
    prefix = f"{below}/" if below else ""
    named = [folder for folder in layout.plugin_of if not below or folder == below or folder.startswith(prefix)]
    folders = list(dict.fromkeys((*named, *plain)))
    found = [
        layout.annotated(candidate) for candidate in (candidates_of(tree, below, folders=folders) if folders else ())
    ]
    elsewhere = [plugin for plugin in layout.elsewhere if not below or root == below]
    return Fetched(
        resolved=resolved,
        candidates=[*found, *map(unopened, elsewhere)],
        warnings=few(layout.warnings),
    )


def unopened(plugin: Plugin) -> Candidate:
    """A plugin that lies in another source than the marketplace which lists it, before anybody fetches it."""

    def refuse() -> NoReturn:
        raise InvalidArgument(
            f"{shown(plugin.name)!r} is a plugin of a marketplace, and not a skill.", hint="Choose it by its name."
        )

    return Candidate(
        folder=plugin.name,
        path=f"@{plugin.name}",
        skill_file=refuse,
        files=refuse,
        package=plugin.name,
        version=plugin.version,
        source=plugin.source,
        is_plugin=True,
        about=plugin.description,
        folders=plugin.skills or (),
    )


class _Owner(NamedTuple):
    plugin: Plugin
    notes: tuple[str, ...]


class _Layout:
    """The plugins of a tree, as the manifests in it describe them."""

    def __init__(self, tree: Tree, address: SourceAddress) -> None:
        self.warnings: list[str] = []
        self.plugin_of: dict[str, _Owner] = {}
        """The folders of skills that plugins name."""
        self.elsewhere: list[Plugin] = []
        self.has_manifests = False
        self._closed: set[str] = set()
        """Folders of plugins in which nothing else is a skill."""
        self._tree = tree
        self._address = address

    @functools.cached_property
    def _folders(self) -> dict[str, set[str]]:
        """Every folder of the tree, and the names in it."""
        found: dict[str, set[str]] = {}
        for path in self._tree.modes:
            while path:
                folder, _, name = path.rpartition("/")
                names = found.setdefault(folder, set())
                if name in names:
                    break
                names.add(name)
                path = folder
        return found

    def _has_skill(self, folder: str) -> bool:
        return any(name.lower() == "skill.md" for name in self._folders.get(folder, ()))

    def _read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those of the files that are there and no links, read at once."""
        wanted = [path for path in dict.fromkeys(paths) if self._tree.modes.get(path) in ("file", "exec")]
        return dict(zip(wanted, self._tree.read(wanted), strict=True)) if wanted else {}

    def read_manifests(self, root: str) -> bool:
        """Read the manifests of a folder; False where it has none that tells anything."""
        found = self._read(_join(root, name) for name in (MARKETPLACE, CLAUDE_PLUGIN, AGENT_PLUGIN))
        marketplace = found.get(_join(root, MARKETPLACE))
        plugins: list[Plugin] = []
        if marketplace is not None:
            self.has_manifests = True
            try:
                listed = parse_marketplace(marketplace, self._address)
            except SourceUnavailable as error:
                self.warnings.append(error.message)
            else:
                self.warnings += listed.warnings
                self.elsewhere += [plugin for plugin in listed.plugins if plugin.source is not None]
                here = [plugin for plugin in listed.plugins if plugin.source is None]
                plugins = [replace(plugin, root=_join(root, plugin.root)) for plugin in here]
        if not any(plugin.root == root for plugin in plugins):
            plugins.append(Plugin(name="", root=root))
        manifests = found | self._read(
            _join(plugin.root, name) for plugin in plugins for name in (CLAUDE_PLUGIN, AGENT_PLUGIN)
        )
        for plugin in plugins:
            self._add(plugin, manifests)
        return self.has_manifests

    def _add(self, listed: Plugin, manifests: dict[str, bytes]) -> None:
        """Find the skills of a plugin, described by the marketplace, by its own manifest, or by both."""
        root = listed.root
        claude, agent = (manifests.get(_join(root, name)) for name in (CLAUDE_PLUGIN, AGENT_PLUGIN))
        own: Plugin | None = None
        try:
            if claude is not None:
                own = parse_claude_plugin(claude, root)
            elif agent is not None and (own := parse_agent_plugin(agent, root)) is not None:
                self._closed.add(root)
                if ignored := unknown_fields(agent):
                    self.warnings.append(f"plugin.json of {own.name!r} has unknown fields: {', '.join(ignored)}.")
        except SourceUnavailable as error:
            self.has_manifests = True
            self._closed.add(root)
            self.warnings.append(f"{f'{listed.name!r}: ' if listed.name else ''}{error.message}")
            return
        if own is None and not listed.name:
            return  # a `plugin.json` of some other program
        self.has_manifests = True
        plugin = replace(
            listed,
            name=listed.name or (own.name if own else ""),
            version=(own.version if own else "") or listed.version,
            parts=(*listed.parts, *(own.parts if own else ())),
        )
        if root and root not in self._folders:
            self.warnings.append(f"The plugin {plugin.name!r} of the marketplace is left out: it has no files.")
            return
        owner = _Owner(plugin, self._notes(plugin))
        is_open = own is None or claude is not None
        for folder in self._skills(listed, own, is_open=is_open):
            other = self.plugin_of.setdefault(folder, owner)
            if other.plugin.name != plugin.name:
                name = shown(basename(folder) or "the root")
                self.warnings.append(f"{name!r} belongs to two plugins, {other.plugin.name!r} and {plugin.name!r}.")

    def _skills(self, listed: Plugin, own: Plugin | None, *, is_open: bool) -> list[str]:
        """The folders of the skills of a plugin, which lie where they are listed, and in its `skills`."""
        root = listed.root
        if listed.skills is not None:
            holders = list(listed.skills)
        else:
            holders = ["skills", *((own.skills if own else None) or ())]
            if is_open and "skills" not in self._folders.get(root, ()) and self._has_skill(root):
                return [root]
        found: list[str] = []
        for holder in (_join(root, holder) for holder in holders):
            if is_open and self._has_skill(holder):
                found.append(holder)
            else:
                found += sorted(
                    inner for name in self._folders.get(holder, ()) if self._has_skill(inner := _join(holder, name))
                )
        return found

    def _notes(self, plugin: Plugin) -> tuple[str, ...]:
        names = self._folders.get(plugin.root, set())
        parts = [words for name, words in (_FOLDERS_OF_PARTS | _FILES_OF_PARTS).items() if name in names]
        found = sorted({*plugin.parts, *parts})
        if not found:
            return ()
        return (f"The plugin {plugin.name!r} also has {' and '.join(found)}, which are not installed.",)

    def is_closed(self, folder: str) -> bool:
        """Whether a folder lies in a plugin that has no other skills than those that it names."""
        if folder in self.plugin_of or not self._closed:
            return False
        while folder and folder not in self._closed:
            folder = dirname(folder)
        return folder in self._closed

    def annotated(self, candidate: Candidate) -> Candidate:
        """A skill with the plugin that it belongs to."""
        owner = self.plugin_of.get(candidate.path)
        if owner is None:
            return candidate
        return replace(candidate, package=owner.plugin.name, version=owner.plugin.version, notes=owner.notes)


def _wrapper(paths: Iterable[str]) -> str:
    """The one folder that everything lies in, as in archives that git servers make; empty where there is none."""
    tops = {path.partition("/")[0] if "/" in path else "" for path in paths}
    return tops.pop() if len(tops) == 1 else ""


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if root and name else root or name
