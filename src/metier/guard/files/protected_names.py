"""Protected names: files and folders from which other programs start something, and listings of folders by them.

A script has no need to leave its sandbox if it can write a file that runs outside of it later: a hook of git, the
start-up file of a shell, a task that an editor starts with the folder, a workflow on a build machine, a skill or the
instructions of an agent. No tool and no job writes to a path that leads to or through one of these names, at any
depth, unless a policy grants that name. Files that are the work itself (a makefile, a test) are not among them, as
somebody looks at those before they run.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from metier._cache import BoundedCache
from metier._lazy import dataclass, field, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_VERSION_CONTROL = (
    ".git", ".githooks", ".gitmodules", ".gitconfig", ".config/git", ".husky", ".pre-commit-config.yaml",
    "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".overcommit.yml", ".hg", ".hgrc", ".jj",
    ".svn", "lefthook-local.yml",
)  # fmt: skip
_SHELLS = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zprofile",
    ".zshenv", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".kshrc", ".mkshrc", ".inputrc", ".xinitrc", ".xprofile",
    ".xsession", ".pam_environment", ".config/fish", ".config/nushell", ".config/autostart", ".config/systemd",
    ".config/environment.d", ".config/direnv", ".config/mise", ".envrc", ".mise.toml", ".mise.local.toml", "mise.toml",
    ".direnv", ".bashrc.d", ".xsessionrc", ".ripgreprc", ".curlrc", ".wgetrc", ".psqlrc", ".sqliterc", ".tmux.conf",
    ".config/tmux", ".screenrc", ".ssh", ".local/bin", "Library/LaunchAgents", ".bash_completion", ".oh-my-zsh",
    ".config/zsh", ".nvm", ".asdf",
)  # fmt: skip
_EDITORS = (
    ".vscode", ".idea", ".zed", ".config/zed", ".devcontainer", ".devcontainer.json", ".vim", ".vimrc", ".gvimrc",
    ".exrc", ".nvim.lua", ".nvimrc", ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el", ".dir-locals-2.el",
    ".helix", ".config/helix", ".config/Code", ".fleet", ".lvimrc", ".gdbinit", ".lldbinit", ".pdbrc", ".config/emacs",
    ".run", ".vs", ".theia",
)  # fmt: skip
_AGENTS = (
    ".agents", ".claude", ".codex", ".cursor", ".gemini", ".metier", ".windsurf", ".continue", ".opencode", ".roo",
    ".cline", ".clinerules", ".kiro", ".amazonq", ".junie", ".goose", ".qwen", ".mcp.json", "opencode.json",
    "opencode.jsonc", ".aider.conf.yml", ".cursorrules", ".windsurfrules", ".goosehints", "AGENTS.md", "AGENT.md",
    "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".github/copilot-instructions.md", ".github/instructions",
    ".github/prompts", ".github/hooks", ".config/opencode", ".config/goose", ".config/metier",
    ".cache/metier", "AGENTS.override.md", "crush.json", ".crush.json", ".rules", ".trae", ".factory", ".augment",
    ".agent", ".copilot", ".codeium", ".github/skills", ".github/mcp.json", ".config/agents",
    "metier.lock",
)  # fmt: skip
_PACKAGE_MANAGERS = (
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".pnpmfile.cjs", ".pnpmfile.mjs",
    ".cargo/config", ".cargo/config.toml", ".mvn", ".bazelrc", ".bundle/config", ".gemrc", ".irbrc", ".pryrc",
    ".Rprofile", ".config/pip", ".condarc", ".cargo/bin", ".cargo/env", ".gradle/init.d", ".ipython",
    ".m2/settings.xml", ".pythonrc", ".rspec", "bunfig.toml", "sitecustomize.py", "usercustomize.py",
)  # fmt: skip
"""Files from which package managers and interpreters take the programs that they run."""
_BUILD_MACHINES = (
    ".github/workflows", ".github/actions", ".forgejo", ".gitea", ".gitlab-ci.yml", ".circleci", ".travis.yml",
    ".drone.yml", ".woodpecker", ".woodpecker.yml", ".buildkite", ".cirrus.yml", ".teamcity", ".semaphore",
    "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml",
    "cloudbuild.yaml", "buildspec.yml",
)  # fmt: skip
PROTECTED = (*_VERSION_CONTROL, *_SHELLS, *_EDITORS, *_AGENTS, *_PACKAGE_MANAGERS, *_BUILD_MACHINES)
"""Paths below any folder, of at most two parts."""

REPOSITORY = (".git",)
CLOSED_IN_REPOSITORY = (
    "hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules", "worktrees",
    # These say which commands `git rebase --continue` runs.
    "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""Names that stay closed in a repository which a policy grants: git starts something from them."""
REPOSITORY_MARKS = ("HEAD", "objects", "refs")
"""Names that make git take a folder for a repository, whatever its name."""

MOST_FOLDERS = 20_000
"""Folders of a workspace that are searched."""
OF_REPOSITORIES = frozenset((*REPOSITORY_MARKS, *CLOSED_IN_REPOSITORY))

_MOST_CACHED = 2 * MOST_FOLDERS
_FRESH_NS = 50_000_000
"""Nanoseconds in which something may change again without the kernel's clock showing it."""

FOLDS_CASE = sys.platform in ("darwin", "win32")
_IGNORED = pattern("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that the file systems of macOS take out of a name."""


def normal_name(part: str) -> str:
    """A part of a path as it is compared: by the name under which some file system would find it.

    >>> normal_name(".GIT"), normal_name(".git. "), normal_name(".g\u200cit"), normal_name("GIT~1")
    ('.git', '.git', '.git', '.git')
    """
    text = part.lower() if part.isascii() else unicodedata.normalize("NFC", _IGNORED.sub("", part)).casefold()
    text = text.partition(":")[0].rstrip(". ") or text
    return ".git" if text == "git~1" else text


@functools.cache
def names_by_first_part() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """The protected names by their first part, as it is compared: all parts of each, and the name."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for name in PROTECTED:
        parts = tuple(normal_name(part) for part in name.split("/"))
        found.setdefault(parts[0], []).append((parts, name))
    return found


def protected_name_in(path: str, grants: Collection[str] = ()) -> str | None:
    """The protected name that a relative path leads to or through; None if there is none, or it is granted.

    >>> [protected_name_in(path) for path in ("docs/notes.md", "sub/.git/hooks/x", ".github/workflows/ci.yml")]
    [None, '.git', '.github/workflows']
    >>> [protected_name_in(path, grants=[".git"]) for path in (".git/index", ".git/config", ".git")]
    [None, '.git/config', '.git']
    """
    # A backslash separates too: a folder may be shared with a system where it does.
    parts = tuple(normal_name(part) for part in re.split(r"[/\\]", path))
    names = names_by_first_part()
    for at, part in enumerate(parts):
        for name_parts, name in names.get(part, ()):
            if parts[at : at + len(name_parts)] != name_parts:
                continue
            if name not in grants:
                return name
            if name in REPOSITORY:
                inner = next(iter(parts[at + 1 :]), None)
                # As a file it would say that the repository is elsewhere, where nothing is closed.
                if inner is None:
                    return name
                # A submodule's repository lies in that of the whole, under a name of its own.
                return f"{name}/{inner}" if inner in CLOSED_IN_REPOSITORY else None
    return _repository_mark(path)


def protected_name_above(folder: str, grants: Collection[str] = ()) -> str | None:
    """The same for a folder by its absolute path; work trees that agents keep in their own folders are open.

    >>> protected_name_above("/home/me/.ssh/keys"), protected_name_above("/home/me/.claude/worktrees/fix/src")
    ('.ssh', None)
    """
    parts = re.split(r"[/\\]", folder)
    for at in range(len(parts) - 3, -1, -1):
        if parts[at] in _AGENTS and parts[at + 1] == "worktrees":
            above, below = "/".join(parts[:at]), "/".join(parts[at + 3 :])
            return protected_name_above(above, grants) or protected_name_in(below, grants)
    return protected_name_in(folder, grants)


def _repository_mark(path: str) -> str | None:
    """The file whose presence makes a folder of any name a repository."""
    last = re.split(r"[/\\]", path)[-1]
    return "HEAD" if last == "HEAD" or (FOLDS_CASE and last.upper() == "HEAD") else None


_T = TypeVar("_T")


@dataclass(slots=True)
class FileCache(Generic[_T]):
    """A cache of values read from files and folders until they change: most of a workspace stays the same."""

    read: Callable[[str], _T]
    absent: _T
    """The value of a path that cannot be read."""
    follows_links: bool = False
    _values: BoundedCache[str, tuple[tuple[int, int, int], _T]] = field(
        default_factory=lambda: BoundedCache(_MOST_CACHED), init=False, repr=False
    )

    def get(self, path: str) -> _T:
        """The value read from a path."""
        try:
            status = os.stat(path, follow_symlinks=self.follows_links)
            # Not the time of its last change, which anybody can set.
            key = (status.st_dev, status.st_ino, status.st_ctime_ns)
            cached = self._values.get(path)
            if cached is not None and cached[0] == key:
                return cached[1]
            found = self.read(path)
        except (OSError, ValueError):
            return self.absent
        if time.time_ns() - status.st_ctime_ns > _FRESH_NS:
            self._values[path] = (key, found)
        return found


class ProtectedEntry(NamedTuple):
    """An entry of a folder whose name is a protected name, or a part of one."""

    path: str
    name: str
    kind: str
    """`folder`, `link`, or `file` for all else."""
    protected: tuple[str, ...]
    """The protected names that it is or, as a link, leads into; none if it is a folder and the first part of one."""

    def protected_by(self, grants: Collection[str]) -> str | None:
        """Its protected name, of several one that is not granted."""
        return next((name for name in self.protected if name not in grants), next(iter(self.protected), None))


class FolderListing(NamedTuple):
    """The entries of a folder that protection needs."""

    folders: tuple[tuple[str, str], ...] = ()
    """The folders in it: path and name."""
    entries: tuple[ProtectedEntry, ...] = ()
    links: tuple[str, ...] = ()
    """The paths of all links."""
    is_repository: bool = False
    has_head: bool = False
    is_readable: bool = True


def _read_listing(path: str) -> FolderListing:
    folders: list[tuple[str, str]] = []
    entries: list[ProtectedEntry] = []
    links: list[str] = []
    names = names_by_first_part()
    same_first_part = names.get(normal_name(os.path.basename(path)), ())
    by_second_part = {parts[1]: name for parts, name in same_first_part if len(parts) == 2}
    marks = set()
    with os.scandir(path) as listing:
        for entry in listing:
            is_folder = entry.is_dir(follow_symlinks=False)
            normal = normal_name(entry.name)
            if entry.is_symlink():
                links.append(entry.path)
            if is_folder:
                folders.append((entry.path, entry.name))
            if entry.name in OF_REPOSITORIES:
                marks.add(entry.name)
            if normal in names or normal in by_second_part:
                kind = "link" if entry.is_symlink() else "folder" if is_folder else "file"
                protected = [name for parts, name in names.get(normal, ()) if len(parts) == 1 or kind == "link"]
                protected += [by_second_part[normal]] if normal in by_second_part else []
                entries.append(ProtectedEntry(entry.path, entry.name, kind, tuple(protected)))
    # The rest of a repository may be where `commondir` says.
    is_repository = marks.issuperset(REPOSITORY_MARKS) or marks.issuperset(("HEAD", "commondir"))
    return FolderListing(tuple(folders), tuple(entries), tuple(links), is_repository, "HEAD" in marks)


folder_listings = FileCache(_read_listing, FolderListing(is_readable=False))
