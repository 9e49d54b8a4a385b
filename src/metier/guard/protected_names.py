"""The names of files and folders from which other programs start something.

A script has no need to leave its cage if it can write what runs outside of it later: a hook of git, the start-up file
of a shell, a task that an editor starts with the folder, a workflow on a build machine, a skill or the instructions of
an agent. No tool and no job writes to a path that leads to or through one of these names, at any depth, unless a policy
grants that name. Files that are the work itself (a makefile, a test) are not among them, as somebody looks at those
before they run.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
)  # fmt: skip
_PACKAGE_MANAGERS = (
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".pnpmfile.cjs", ".pnpmfile.mjs",
    ".cargo/config", ".cargo/config.toml", ".mvn", ".bazelrc", ".bundle/config", ".gemrc", ".irbrc", ".pryrc",
    ".Rprofile", ".config/pip", ".condarc", ".cargo/bin", ".cargo/env", ".gradle/init.d", ".ipython",
    ".m2/settings.xml", ".pythonrc", ".rspec", "bunfig.toml", "sitecustomize.py", "usercustomize.py",
)  # fmt: skip
"""What package managers and interpreters take the programs from that they run."""
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
    # What is left of these says which commands `git rebase --continue` runs.
    "rebase-merge", "rebase-apply", "sequencer",
)  # fmt: skip
"""What stays closed in a repository that a policy grants to write in: git starts something from it."""
REPOSITORY_MARKS = ("HEAD", "objects", "refs")
"""What makes git take a folder for a repository, whatever its name."""

FOLDS_CASE = sys.platform in ("darwin", "win32")
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that the file systems of macOS take out of a name."""


def normal_name(part: str) -> str:
    """A part of a path as it is compared: by the name under which some file system would find it.

    >>> normal_name(".GIT"), normal_name(".git. "), normal_name(".g\u200cit"), normal_name("GIT~1")
    ('.git', '.git', '.git', '.git')
    """
    text = part.lower() if part.isascii() else unicodedata.normalize("NFC", _IGNORED.sub("", part)).casefold()
    text = text.partition(":")[0].rstrip(". ") or text
    return ".git" if text == "git~1" else text


_BY_FIRST: dict[str, list[tuple[tuple[str, ...], str]]] = {}
for _name in PROTECTED:
    _parts = tuple(normal_name(_part) for _part in _name.split("/"))
    _BY_FIRST.setdefault(_parts[0], []).append((_parts, _name))
_CLOSED = frozenset(CLOSED_IN_REPOSITORY)


def names_beginning(part: str) -> Sequence[tuple[tuple[str, ...], str]]:
    """The protected names whose first part this is, as it is compared: all parts of each, and the name."""
    return _BY_FIRST.get(part, ())


def protecting(path: str, grants: Collection[str] = ()) -> str | None:
    """The protected name that a relative path leads to or through; None if there is none, or it is granted.

    >>> protecting("docs/notes.md"), protecting("sub/.git/hooks/pre-commit"), protecting(".github/workflows/ci.yml")
    (None, '.git', '.github/workflows')
    >>> [protecting(path, grants=[".git"]) for path in (".git/index", ".git/config", ".git")]
    [None, '.git/config', '.git']
    """
    # A backslash separates too: a folder may be shared with a system where it does.
    parts = tuple(normal_name(part) for part in re.split(r"[/\\]", path))
    for at, part in enumerate(parts):
        for name_parts, name in _BY_FIRST.get(part, ()):
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
                return f"{name}/{inner}" if inner in _CLOSED else None
    return _repository_mark(path)


def protecting_above(folder: str, grants: Collection[str] = ()) -> str | None:
    """The same for a folder by its absolute path; work trees that agents keep in their own folders are open.

    >>> protecting_above("/home/me/.ssh/keys"), protecting_above("/home/me/.claude/worktrees/fix/src")
    ('.ssh', None)
    """
    parts = re.split(r"[/\\]", folder)
    for at in range(len(parts) - 3, -1, -1):
        if parts[at] in _AGENTS and parts[at + 1] == "worktrees":
            above, below = "/".join(parts[:at]), "/".join(parts[at + 3 :])
            return protecting_above(above, grants) or protecting(below, grants)
    return protecting(folder, grants)


def _repository_mark(path: str) -> str | None:
    """The file whose presence makes a folder of any name a repository."""
    last = re.split(r"[/\\]", path)[-1]
    return "HEAD" if last == "HEAD" or (FOLDS_CASE and last.upper() == "HEAD") else None
