"""Files that a job may not change, although it may write in the folder that they are in.

A script has no need to leave the cage if it can write what runs outside of it later: a hook of git, the start-up file
of a shell, a task that an editor starts with the folder, a workflow on a build machine, a skill of an agent. Files that
are the work itself (a makefile, a test) are not among them, as somebody looks at those before they run.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass

PROTECTED = (
    # Git runs hooks, and programs that its configuration names; `commondir` says where both are.
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".git/worktrees",
    ".gitconfig", ".gitmodules", ".config/git", ".husky", ".pre-commit-config.yaml",
    # Shells, and what they start others with.
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zprofile",
    ".zshenv", ".zlogin", ".zlogout", ".config/fish", ".envrc", ".ripgreprc", ".ssh",
    # Editors.
    ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".vimrc", ".exrc",
    # Agents.
    ".agents", ".claude", ".codex", ".cursor", ".gemini", ".metier", ".mcp.json",
    # Package managers that take the programs they run from these.
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs",
    # Build machines.
    ".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci",
)  # fmt: skip
"""Paths inside a folder, as far as a fixed list can name them. A runner that can also keeps them from being made."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Something in a writable folder that stays as it is."""

    path: str
    is_link: bool = False
    """It leads elsewhere, so that nothing is known about what it leads to."""


def protected_in(folder: str) -> tuple[Protected, ...]:
    """What there is in a folder that a job must not change; nothing in a folder that cannot be opened.

    Only fixed names are looked for, directly in the folder or one below, and no link is followed: one on the way is
    itself what is protected.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(os.path.join(folder, ".git", "hooks"))
    ...     [os.path.relpath(found.path, folder) for found in protected_in(folder)]
    ['.git/hooks']
    """
    found: dict[str, Protected] = {}
    with contextlib.ExitStack() as opened:
        try:
            top = _opened(folder, None, opened)
        except (OSError, ValueError):
            return ()
        parents: dict[str, int | None] = {"": top}
        for name in PROTECTED:
            parent, _, last = name.rpartition("/")
            if parent not in parents:
                parents[parent] = _parent(folder, parent, top, opened, found)
            within = parents[parent]
            if within is not None and (mode := _mode(last, within)) is not None:
                path = os.path.join(folder, name)
                found[path] = Protected(path, is_link=stat.S_ISLNK(mode))
    return tuple(found.values())


def _parent(folder: str, name: str, top: int, opened: contextlib.ExitStack, found: dict[str, Protected]) -> int | None:
    """The descriptor of a folder that holds names to look for; if it is something else, that is what is protected."""
    mode = _mode(name, top)
    if mode is None:
        return None
    if stat.S_ISDIR(mode):
        with contextlib.suppress(OSError):
            return _opened(name, top, opened)
    # In a worktree `.git` is a file, which says where hooks and configuration are.
    path = os.path.join(folder, name)
    found[path] = Protected(path, is_link=stat.S_ISLNK(mode))
    return None


def _opened(path: str, within: int | None, opened: contextlib.ExitStack) -> int:
    # Only the folder itself may be reached by a link: whoever gives it to a job has chosen it.
    no_links = 0 if within is None else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_links, dir_fd=within)
    opened.callback(os.close, descriptor)
    return descriptor


def _mode(name: str, within: int) -> int | None:
    try:
        return os.stat(name, dir_fd=within, follow_symlinks=False).st_mode
    except OSError:
        return None


def set_aside(folder: str, path: str) -> str | None:
    """Give something that was made in a folder, directly or one below, a name that nobody looks for; that name.

    None if it is not there any more, or has become something else than it was named for.
    """
    *above, name = os.path.relpath(path, folder).split(os.sep)
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        at = _opened(folder, None, opened)
        for step in above:
            at = _opened(step, at, opened)
        for number in range(100):
            aside = f"{name}.set-aside{f'-{number}' if number else ''}"
            try:
                os.stat(aside, dir_fd=at, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, aside, src_dir_fd=at, dst_dir_fd=at)
                return os.path.join(*above, aside)
    return None
