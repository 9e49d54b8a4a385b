"""The layout of the files of a source: plain skills, a plugin, or a marketplace that names its plugins."""

from __future__ import annotations

import functools
from posixpath import basename, dirname
from typing import TYPE_CHECKING, NoReturn

from metier._lazy import replace
from metier.errors import InvalidArgument, SourceUnavailable
from metier.hub.sources.fetch import Candidate, Fetched
from metier.hub.sources.fields import few
from metier.hub.sources.plugin_manifest import (
    AGENT_PLUGIN,
    CLAUDE_PLUGIN,
    MARKETPLACE,
    PARTS,
    Plugin,
    parse_marketplace,
    parse_plugin,
)
from metier.hub.sources.tree import candidates_of, skill_folders
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Resolved
    from metier.hub.sources.tree import Tree


def candidates_by_layout(tree: Tree, resolved: Resolved) -> Fetched:
    """The skills of a tree: those that its plugins name, each with its package, and then all others that lie in it."""
    below = resolved.address.path
    layout = _Layout(tree, resolved.address)
    root = below
    while not layout.read_manifests(root) and root:
        root = dirname(root)
    if not root and not layout.has_manifests and (wrapper := _wrapper(tree.modes)):
        layout.read_manifests(wrapper)
    prefix = f"{below}/" if below else ""
    named = [folder for folder in layout.plugin_of if not below or folder == below or folder.startswith(prefix)]
    plain = [folder for folder in skill_folders(tree.modes, below) if not layout.is_closed(folder)]
    found = candidates_of(tree, dict.fromkeys((*named, *plain)))
    for folder in sorted({*resolved.known}.difference(one.path for one in found)):
        if folder in skill_folders(tree.modes, folder):
            found += candidates_of(tree, [folder])
    elsewhere = [plugin for plugin in layout.elsewhere if not below or root == below]
    return Fetched(
        resolved=resolved,
        candidates=[*map(layout.with_plugin, found), *map(unopened, elsewhere)],
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


class _Layout:
    """The plugins of a tree, as the manifests in it describe them."""

    def __init__(self, tree: Tree, address: SourceAddress) -> None:
        self.warnings: list[str] = []
        self.plugin_of: dict[str, Plugin] = {}
        """The folders of skills that plugins name."""
        self.elsewhere: list[Plugin] = []
        self.has_manifests = False
        self._closed: set[str] = set()
        """Folders of plugins in which nothing else is a skill."""
        self._tree = tree
        self._address = address

    @functools.cached_property
    def _names(self) -> dict[str, set[str]]:
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
        return any(name.lower() == "skill.md" for name in self._names.get(folder, ()))

    def _read(self, folders: Iterable[str], *names: str) -> dict[str, bytes]:
        """The files of these names in folders, as far as they are there and no links, read at once."""
        paths = dict.fromkeys(_join(folder, name) for folder in folders for name in names)
        wanted = [path for path in paths if self._tree.modes.get(path) in ("file", "exec")]
        return dict(zip(wanted, self._tree.read(wanted), strict=True)) if wanted else {}

    def read_manifests(self, root: str) -> bool:
        """Read the manifests of a folder; False where it has none that tells anything."""
        plugins: list[Plugin] = []
        for data in self._read([root], MARKETPLACE).values():
            self.has_manifests = True
            try:
                listed, warnings = parse_marketplace(data, self._address)
            except SourceUnavailable as error:
                self.warnings.append(error.message)
                continue
            self.warnings += warnings
            self.elsewhere += [plugin for plugin in listed if plugin.source is not None]
            plugins += [replace(one, root=_join(root, one.root)) for one in listed if one.source is None]
        if not any(plugin.root == root for plugin in plugins):
            plugins.append(Plugin(root=root))
        manifests = self._read([plugin.root for plugin in plugins], CLAUDE_PLUGIN, AGENT_PLUGIN)
        for plugin in plugins:
            self._add(plugin, *(manifests.get(_join(plugin.root, name)) for name in (CLAUDE_PLUGIN, AGENT_PLUGIN)))
        return self.has_manifests

    def _add(self, listed: Plugin, claude: bytes | None, agent: bytes | None) -> None:
        """Find the skills of a plugin, described by the marketplace, by its own manifest, or by both."""
        root, name = listed.root, listed.name
        try:
            own = parse_plugin(claude, agent) or Plugin()
        except SourceUnavailable as error:
            self.has_manifests = True
            self._closed.add(root)
            self.warnings.append(f"{name!r}: {error.message}" if name else error.message)
            return
        name = name or own.name
        if not name:
            return  # a `plugin.json` of some other program
        self.has_manifests = True
        if own.is_closed:
            self._closed.add(root)
        if own.unknown:
            self.warnings.append(f"plugin.json of {own.name!r} has unknown fields: {', '.join(own.unknown)}.")
        if root and root not in self._names:
            self.warnings.append(f"The plugin {name!r} of the marketplace is left out: it has no files.")
            return
        parts = (words for entry, words in PARTS.items() if entry in self._names.get(root, ()))
        plugin = replace(
            listed, name=name, version=own.version or listed.version, parts=(*listed.parts, *own.parts, *parts)
        )
        for folder in self._skills(listed, own):
            other = self.plugin_of.setdefault(folder, plugin)
            if other.name != name:
                skill = shown(basename(folder) or "the root")
                self.warnings.append(f"{skill!r} belongs to two plugins, {other.name!r} and {name!r}.")

    def _skills(self, listed: Plugin, own: Plugin) -> list[str]:
        """The folders of the skills of a plugin, which lie where they are listed, and in its `skills`."""
        root, is_open = listed.root, not own.is_closed
        holders = listed.skills if listed.skills is not None else ("skills", *(own.skills or ()))
        if listed.skills is None and is_open and "skills" not in self._names.get(root, ()) and self._has_skill(root):
            return [root]
        found: list[str] = []
        for holder in (_join(root, holder) for holder in holders):
            if is_open and self._has_skill(holder):
                found.append(holder)
            else:
                below = (_join(holder, name) for name in self._names.get(holder, ()))
                found += sorted(filter(self._has_skill, below))
        return found

    def is_closed(self, folder: str) -> bool:
        """Whether a folder lies in a plugin that has no other skills than those that it names."""
        if folder in self.plugin_of or not self._closed:
            return False
        while folder and folder not in self._closed:
            folder = dirname(folder)
        return folder in self._closed

    def with_plugin(self, candidate: Candidate) -> Candidate:
        """A skill with the plugin that it belongs to."""
        plugin = self.plugin_of.get(candidate.path)
        if plugin is None:
            return candidate
        parts = " and ".join(sorted(set(plugin.parts)))
        notes = (f"The plugin {plugin.name!r} also has {parts}, which are not installed.",) if parts else ()
        return replace(candidate, package=plugin.name, version=plugin.version, notes=notes)


def _wrapper(paths: Iterable[str]) -> str:
    """The one folder that everything lies in, as in archives that git servers make; empty where there is none."""
    tops = {path.partition("/")[0] if "/" in path else "" for path in paths}
    return tops.pop() if len(tops) == 1 else ""


def _join(root: str, name: str) -> str:
    return f"{root}/{name}" if root and name else root or name
