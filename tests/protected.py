"""A project with protected places of every kind, a snapshot of them by an oracle of its own, and what its owner does.

Names are written out here, and not taken from the product, which could lose one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from pathlib import Path

NAMES = (
    ".git", ".githooks", ".gitconfig", ".gitmodules", ".config/git", ".husky", ".pre-commit-config.yaml",
    "lefthook.yml", ".overcommit.yml", ".hg", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".cshrc",
    ".kshrc", ".envrc", ".mise.toml", ".tmux.conf", ".ssh", ".config/fish", ".config/autostart", ".config/systemd",
    ".config/nvim", ".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".vimrc", ".exrc",
    ".nvim.lua", ".nvimrc", ".dir-locals.el", ".gdbinit", ".lldbinit", ".pdbrc", ".agents", ".claude", ".codex",
    ".cursor", ".gemini", ".metier", ".mcp.json", ".windsurf", ".continue", "opencode.json", ".cursorrules",
    "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".pnpmfile.cjs",
    ".cargo/config.toml", ".mvn", ".bazelrc", "usercustomize.py", "sitecustomize.py", ".github/workflows",
    ".github/actions", ".forgejo", ".gitea", ".gitlab-ci.yml", ".circleci", ".travis.yml", ".drone.yml",
    "Jenkinsfile", "azure-pipelines.yml",
)  # fmt: skip
_FOLDED = frozenset(name.lower() for name in NAMES)


def repository(folder: Path, config: str = "[core]\n\trepositoryformatversion = 0\n") -> Path:
    """A repository as git makes it, without git."""
    for name in ("objects", "refs/heads", "hooks", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(config)
    return folder


def write(path: Path, text: str = "one\n") -> Path:
    """A file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def content(folder: Path) -> dict[str, str]:
    """Everything below a folder, by its path: what a file holds, and where a link leads."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            full = os.path.join(path, name)
            if os.path.islink(full):
                found[full] = f"-> {os.readlink(full)}"
            elif os.path.isfile(full):
                found[full] = _file(full)
            else:
                found[full] = "folder"
    return found


def snapshot(root: Path) -> dict[str, str]:
    """All that another program would start something from below a folder: names, what they lead to, repositories.

    What a name leads to is read through every link, so that whatever changes it changes this. Nobody looks for a name
    that was set aside, and nothing is started from an empty folder.
    """
    found: dict[str, str] = {}

    def add(path: str, above: tuple[str, ...], within: str) -> None:
        real = os.path.join(within, os.path.basename(path))
        if os.path.islink(path):
            found[path] = f"-> {os.readlink(path)}"
            real = os.path.realpath(path)
        if os.path.isfile(real):
            found[f"{path} at last"] = _file(real)
        elif os.path.isdir(real) and real not in above and not root.is_relative_to(real):
            for name in sorted(name for name in os.listdir(real) if ".set-aside-" not in name):
                found[f"{path} at last"] = "folder"
                add(os.path.join(path, name), (*above, real), real)
        elif os.path.lexists(real):
            found[f"{path} at last"] = "other"

    real_root = os.path.realpath(root)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if ".set-aside-" not in name]
        within = real_root + folder[len(str(root)) :]
        entries = {name for name in (*folders, *files) if ".set-aside-" not in name}
        is_repository = {"HEAD", "objects", "refs"} <= entries and folder != str(root)
        for name in entries:
            if name.lower() in _FOLDED or f"{os.path.basename(folder)}/{name}".lower() in _FOLDED or is_repository:
                add(os.path.join(folder, name), (), within)
    return found


def _file(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.sha256(file.read()).hexdigest() + oct(stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def project(folder: Path) -> Path:
    """A project that has something of every kind in it."""
    for name in ("docs/a.md", "a.txt", "AGENTS.md", "CLAUDE.md", ".mcp.json", ".github/workflows/ci.yml",
                 ".husky/pre-commit", ".claude/settings.json", "team-hooks/pre-commit", "vs/tasks.json"):  # fmt: skip
        write(folder / name)
    settings = "[core]\n\trepositoryformatversion = 0\n\thooksPath = team-hooks\n[include]\n\tpath = ../team.inc\n"
    git = repository(folder / ".git", settings)
    write(git / "hooks/pre-commit", "#!/bin/sh\n")
    write(folder / "team.inc", "[alias]\n\ts = status\n")
    repository(folder / "sub/.git")
    repository(folder / "bare")
    repository(git / "modules/mod")
    write(folder / "mod/.git", "gitdir: ../.git/modules/mod\n")
    write(git / "worktrees/wt/commondir", "../..\n")
    write(git / "worktrees/wt/HEAD", "ref: refs/heads/wt\n")
    write(git / "worktrees/wt/gitdir", f"{folder}/wt/.git\n")
    write(folder / "wt/.git", f"gitdir: {git}/worktrees/wt\n")
    write(folder / "half/HEAD", "ref: refs/heads/main\n")
    write(folder / ".metier/policy.yaml", 'version: 1\ntools:\n  deny: ["Bash(touch x)"]\n')
    (folder / "deep").mkdir()
    (folder.parent / "outside").mkdir(exist_ok=True)
    links = {".vscode": "vs", ".envrc": "env/envrc", "git-by-link": ".git", "hooks-by-link": ".git/hooks",
             "hooks-by-two": "hooks-by-link", "agents-by-link": "AGENTS.md", "vs-by-link": ".vscode",
             "out": "../outside"}  # fmt: skip
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


def act(folder: Path, script: str) -> None:
    """Do something in a folder as its owner does, at a terminal, with nothing of this machine's own settings."""
    import pty

    who = {f"GIT_{role}_{what}": "n@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "EDITOR": "true", "TERM": "dumb", **who,
           "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
           "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
    ours, theirs = pty.openpty()
    doing = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs,
                             stderr=subprocess.DEVNULL)  # fmt: skip
    os.close(theirs)
    with doing, open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        # Where nobody reads what they write, programs wait; an error says that the last of them has ended.
        while terminal.read(65_536):
            pass


WORK_ON = """
chmod 755 . sub
find . -name .git -prune -o -type d -print0 2>/dev/null |
    while read -r -d '' d; do (cd "$d" && git status >/dev/null); done
echo changed > file; git diff > ../diff; git commit -a; git checkout -b other; git log -1
find . -mindepth 2 -name .git -printf '%h\\0' -o -mindepth 2 -name HEAD -printf '%h\\0' 2>/dev/null |
    while read -r -d '' d; do (cd "$d" && git commit --allow-empty -m more >/dev/null); done
[ ! -e .gitmodules ] || git submodule update; [ ! -d .git/rebase-merge ] || git rebase --continue
HOME=$PWD bash -lic true; HOME=$PWD sh -lc true; [ ! -d sub ] || cd sub; HOME=$PWD bash -ic true
"""
"""What somebody does in a folder next: git in it and in each folder below, and shells that begin there."""


def payload(canary: Path) -> str:
    """What leaves a canary as the settings of a repository, as a hook, and as the start-up file of a shell."""
    return f'[core]\n\tfsmonitor = "touch {canary}; false"\n\ttouch = {canary}\n'
