"""Attacks by what a job leaves behind: what docs/explanation/sandbox.md promises of protected places, tried from outside.

- A job leaves nothing from which git, a shell, an editor, a build tool or another agent starts something.
- Neither does a file that a tool writes.

Somebody works on in the folder afterwards: git in it and in each folder below, shells that begin there. A case is lost
if anything of the attack runs, which leaves a canary, or if a snapshot of all protected places is another one.
"""

# ruff: noqa: E501  (an attempt is a line)

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from tests.protected import WORK_ON, act, snapshot

from metier.run import Job, NativeRunner, Outcome
from metier.run.native.runner import why_not, works

if TYPE_CHECKING:
    from metier.tools import Executor

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="cages are made by Linux"),
    pytest.mark.covers("SEC-3", "SEC-4", "SEC-8", "SEC-15", "SEC-16"),
]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS = ("namespaces", "landlock") if IS_ROOT else ("namespaces", "landlock", "bubblewrap")

# What attacks are made of; all of it leaves the canary where it is started.
WEAPONS = """
settings() { printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = "touch CANARY; false"\\n\\tworktree = ..\\n'; }
program() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\\ntouch CANARY\\n' > "$1"; chmod +x "$1"; }
repository() { mkdir -p "$1/objects" "$1/refs"; settings > "$1/config"; echo ref: refs/heads/x > "$1/HEAD"; }
startup() { echo 'touch CANARY' > "$1"; }
"""
# What the owner of the folder had set up before.
MINE = """
mine() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\\ncat\\n' > "$1"; chmod +x "$1"; }
"""

# In an ordinary repository with a folder `sub`: what a job does.
ATTACKS = {
    # in the repository
    "settings are overwritten": "settings > .git/config",
    "settings are appended to": "settings >> .git/config",
    "settings by git": "git config core.fsmonitor 'touch CANARY; false'",
    "settings of a worktree": "git config extensions.worktreeConfig true; settings > .git/config.worktree",
    "settings behind a lock": "settings > .git/config.lock; mv .git/config.lock .git/config",
    "a hook": "program .git/hooks/pre-commit; program .git/hooks/post-checkout; program .git/hooks/post-index-change",
    "a hook of a new folder": "rm -rf .git/hooks; program .git/hooks/pre-commit",
    "hooks are moved": "mv .git/hooks .git/h; program .git/hooks/pre-commit",
    "the repository is moved": "mv .git old; repository .git",
    "the repository is removed": "rm -rf .git; repository .git",
    "the repository is a file": "mv .git old; repository evil; echo 'gitdir: evil' > .git",
    "the repository is a link": "mv .git old; repository evil; ln -s evil .git",
    "commondir": "repository evil; printf %s \"$PWD/evil\" > .git/commondir",
    "commondir with names taken": "for n in '' $(seq -f -%g 1 99); do : > .git/commondir.set-aside$n; done; repository evil; printf ../evil > .git/commondir",
    "commondir in a folder that is closed": "repository evil; printf ../evil > .git/commondir; chmod 555 .git .",
    "a submodule": "printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ./s\\n\\tupdate = !touch CANARY\\n' > .gitmodules; repository .git/modules/s",
    "a submodule by an address": "printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ext::sh -c \"touch CANARY\"\\n' > .gitmodules",
    "a worktree": "repository .git/worktrees/w; git worktree add -q w; settings > w/.git",
    "attributes": "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo '* filter=x' > .gitattributes; settings >> .git/config",
    "a message that is a link": "ln -sf ../../outside .git/COMMIT_EDITMSG; echo evil > .git/SQUASH_MSG",
    "a log that is a link": "rm -f .git/logs/HEAD; ln -s ../../../outside .git/logs/HEAD",
    "an index that is a link": "rm -f .git/index; ln -s ../../outside .git/index",
    "a rebase that goes on": "mkdir .git/rebase-merge; echo 'exec touch CANARY' > .git/rebase-merge/git-rebase-todo",
    "a sequence that goes on": "mkdir .git/sequencer; echo 'exec touch CANARY' > .git/sequencer/todo",
    "remotes of old": "mkdir .git/remotes; printf 'URL: ext::sh -c \"touch CANARY\"\\n' > .git/remotes/origin",
    "locks": "touch .git/index.lock .git/HEAD.lock; ln -s ../../outside .git/config.lock",
    # another repository
    "names in a folder that is closed": "mkdir s; repository s/.git; chmod 555 s/.git s .",
    "a folder that cannot be listed": "mkdir s; repository s/.git; chmod 300 s",
    "a folder without any permission": "mkdir s; repository s/.git; chmod 000 s",
    "a folder that looks set aside": "mkdir s.set-aside-0123456789ab; repository s.set-aside-0123456789ab/.git; chmod 300 s.set-aside-0123456789ab",
    "a repository in a bare one": "mkdir s; repository s; repository s/t; repository s/t/.git; repository s/u/v/.git",
    "a bare repository instead": "mv .git old; repository .",
    "a bare repository below": "mkdir s; repository s",
    "a bare repository in a folder that was there": "repository sub",
    "a bare repository whose head is a link": "repository sub; rm sub/HEAD; ln -s refs/heads/x sub/HEAD",
    "a bare repository with a commit as head": "repository sub; git rev-parse HEAD > sub/HEAD",
    "a bare repository of links": "repository s; mkdir t; ln -s ../s/objects ../s/refs t/; cp s/HEAD s/config t/",
    "a bare repository elsewhere": "repository s; mkdir t; cp s/HEAD t/; echo ../s > t/commondir",
    "a bare repository by git": "git init -q --bare s; git -C s config core.fsmonitor 'touch CANARY; false'; git -C s config core.worktree ..",
    "a repository below": "mkdir s; repository s/.git",
    "a repository deep below": "d=$(printf 'd/%.0s' $(seq 60)); mkdir -p $d; repository ${d}.git",
    "a repository among many files": "mkdir m; (cd m; seq 3000 | xargs touch); repository m/.git",
    "a repository in a folder that was there": "repository sub/.git",
    "a repository by a file": "repository sub/data; echo 'gitdir: data' > sub/.git",
    "a repository by a file far away": "repository data; git -C data config core.worktree ../sub; echo 'gitdir: ../data' > sub/.git",
    "a repository by a link": "repository data; ln -s ../data sub/.git",
    "a repository in other letters": "repository sub/.GIT; ln -s .GIT sub/.Git",
    "a folder that is a link": "repository evil/.git; mv sub gone; ln -s evil sub",
    "a repository with odd names": "mkdir $'s\\n' $'t\\xff'; repository $'s\\n/.git'; repository $'t\\xff/.git'",
    "a repository made of other things": "mkdir s; mkfifo s/.git; mkdir t; mkdir t/.git; mkfifo t/.git/config",
    "the name set aside twice": "mkdir s; repository s/.git; repository s/.git.set-aside-000000000000/.git",
    "a repository that is renamed": "mkdir s; repository s/git; mv s/git s/.git; mv s t",
    "by git": "git init -q --template=/nonexistent n; git -C n config core.fsmonitor 'touch CANARY; false'",
    "by a clone": "git clone -q . n 2>/dev/null; git -C n config core.fsmonitor 'touch CANARY; false'",
    "by tar": "mkdir x; (cd x; repository .git); tar cf x.tar -C x .; tar xf x.tar; tar xf x.tar -C sub",
    # shells, editors, agents, build tools
    "start-up files of shells": "startup .bashrc; startup .bash_profile; startup .profile; startup .bash_login; startup .zshrc; startup .kshrc",
    "start-up files by a link": "startup evil; for n in .bashrc .bash_profile .profile .inputrc; do ln -s evil $n; done",
    "start-up files by a hard link": "startup evil; for n in .bashrc .bash_profile .profile; do ln evil $n; done",
    "an exchange of names": "startup evil; mv evil .bashrc; mv file .envrc; cp .bashrc .bash_profile",
    "a folder in place of a file": "rm -rf file; mkdir -p .vscode/x .envrc/y .claude/skills/evil; startup .envrc/y/z",
    "settings of the user": "settings > .gitconfig; mkdir -p .config/git; settings > .config/git/config; program .local/bin/git",
    "tasks of editors": "mkdir -p .vscode .idea .zed sub/.vscode; echo {} > .vscode/tasks.json; echo x > .idea/workspace.xml; echo {} > sub/.vscode/settings.json; startup .exrc; startup .nvim.lua; startup sub/.dir-locals.el",
    "what agents read": "mkdir -p .claude/skills/x .cursor sub/.agents; echo evil > .claude/skills/x/SKILL.md; echo {} > .mcp.json; echo evil > AGENTS.md; echo evil > sub/CLAUDE.md; echo {} > .cursor/mcp.json; echo x > sub/.agents/x",
    "what build tools read": "mkdir -p .cargo .mvn .yarn/releases .github/workflows; echo x > .cargo/config.toml; echo x > .mvn/jvm.config; program .yarn/releases/yarn.cjs; echo x > .npmrc; echo x > .github/workflows/x.yml; echo x > sitecustomize.py; echo x > .bazelrc",
    "what enters with a folder": "startup .envrc; startup sub/.envrc; echo x > .mise.toml; startup .gdbinit; startup .tmux.conf",
    "by patch": "printf -- '--- /dev/null\\n+++ b/.bashrc\\n@@ -0,0 +1 @@\\n+touch CANARY\\n' | patch -p1; true",
    # when and how
    "late": "(sleep 0.1; program .git/hooks/pre-commit; startup .bashrc; repository sub/.git) & disown; wait",
    "many times": "for i in $(seq 20); do repository n/.git; rm -rf n; done; repository n/.git",
    "against the clean-up": "(for i in $(seq 9999); do repository n/.git; mv n/.git* m; rm -rf m; done) & disown; sleep 0.1",
    "it kills itself": "repository sub/.git; startup .bashrc; kill -9 $$",
    "by a descriptor": "exec 9< .; cd /proc/self/fd/9; program .git/hooks/pre-commit; settings > .git/config; repository sub/.git",
    "by the path of the root": "program /proc/self/root$PWD/.git/hooks/pre-commit; repository /proc/self/root$PWD/sub/.git",
    "by a link to the repository": "ln -s .git g; settings > g/config; program g/hooks/pre-commit",
    "by a link above": "ln -s . l; settings > l/.git/config; program l/.git/hooks/pre-commit; repository l/l/sub/.git",
    "by Python": "python3 -c \"import os; os.rename('.git', 'g')\"; python3 -c \"open('.git/config', 'a').write('[core]\\n fsmonitor = touch CANARY')\"",
}  # fmt: skip

# What the owner has set up, what a job does to it, and what the owner does next besides.
SET_UP: dict[str, tuple[str, ...]] = {
    "hooks elsewhere": ("git config core.hooksPath tools/h; mine tools/h/x", "program tools/h/pre-commit"),
    "hooks elsewhere, absent": ("git config core.hooksPath tools/h", "program tools/h/pre-commit"),
    "hooks elsewhere, by an absolute path": ("git config core.hooksPath $PWD/tools/h", "program tools/h/pre-commit"),
    "hooks elsewhere, with dots": ("git config core.hooksPath ./sub/../tools/h", "program tools/h/pre-commit"),
    "hooks through a link": ("mine real/x; ln -s real h; git config core.hooksPath h", "program real/pre-commit; program h/pre-commit"),
    "hooks whose parent is moved": ("mine a/b/h/x; git config core.hooksPath a/b/h", "mv a a2; program a/b/h/pre-commit"),
    "hooks of all repositories": ("git config --global core.hooksPath $PWD/gh", "program gh/pre-commit"),
    "hooks of all, by a relative path": ("git config --global core.hooksPath gh", "program gh/pre-commit"),
    "hooks in an include of all": ("printf '[core]\\nhooksPath=gh\\n' > ../more; git config --global include.path more", "program gh/pre-commit"),
    "hooks by a condition": ("printf '[core]\\nhooksPath=gh\\n' > ../more; git config --global includeIf.gitdir:$PWD/.path more", "program gh/pre-commit"),
    "a folder of hooks that is a link": ("rm -rf .git/hooks; mine scripts/x; ln -s ../scripts .git/hooks", "program scripts/pre-commit"),
    "a folder of hooks that leads to nothing": ("rm -rf .git/hooks; ln -s ../scripts .git/hooks", "program scripts/pre-commit"),
    "a hook that is a link": ("mine check.sh; ln -s ../../check.sh .git/hooks/pre-commit", "program check.sh; rm check.sh; program check.sh"),
    "a hook that leads to nothing": ("ln -s ../../check.sh .git/hooks/pre-commit", "program check.sh"),
    "a hook by two links": ("mine c/check.sh; ln -s c/check.sh l; ln -s ../../l .git/hooks/pre-commit", "rm l; program l; program c/check.sh"),
    "an include": ("echo > team.inc; git config include.path ../team.inc", "settings > team.inc"),
    "an include that is absent": ("git config include.path ../team.inc", "settings > team.inc"),
    "an include of an include": ("printf '[include]\\npath=two\\n' > one; git config include.path ../one", "settings > two; settings > one"),
    "an include by a branch": ("git config includeIf.onbranch:**.path ../b.inc", "settings > b.inc"),
    "an include by an address": ("git config 'includeIf.hasconfig:remote.*.url:**.path' ../b.inc; git remote add o .", "settings > b.inc"),
    "an include of all": ("git config --global include.path $PWD/g.inc", "settings > g.inc"),
    "an include of a worktree": ("git config extensions.worktreeConfig true; git config --worktree include.path ../w.inc", "settings > w.inc"),
    "a monitor": ("mine tools/m; git config core.fsmonitor tools/m", "program tools/m; rm tools/m; program tools/m"),
    "a monitor that is absent": ("git config core.fsmonitor tools/m", "program tools/m"),
    "a pager": ("mine tools/p; git config core.pager tools/p", "program tools/p"),
    "a pager that is absent": ("git config core.pager ./tools/p", "program tools/p"),
    "an editor": ("mine tools/e; git config core.editor tools/e", "program tools/e; mv tools t; program tools/e"),
    "a program for differences": ("mine tools/d; git config diff.external tools/d", "program tools/d"),
    "a program for differences, absent": ("git config diff.external ./tools/d", "program tools/d"),
    "a text of files": ("mine tools/t; git config diff.x.textconv tools/t; echo 'file diff=x' > .gitattributes", "program tools/t"),
    "a filter": ("mine tools/f; git config filter.x.clean 'tools/f %f'; echo 'file filter=x' > .gitattributes", "program tools/f"),
    "a filter by a shell": ("mine tools/f; git config filter.x.clean 'sh tools/f'; echo 'file filter=x' > .gitattributes", "program tools/f"),
    "a filter whose attribute the job makes": ("mine tools/f; git config filter.x.clean tools/f", "echo '* filter=x' > .gitattributes; program tools/f"),
    "a driver of merges": ("mine tools/m; git config merge.x.driver 'tools/m %A'; echo '* merge=x' > .gitattributes; git checkout -qb a; echo a > file; git commit -qam a; git checkout -q -; echo b > file; git commit -qam b", "program tools/m", "git merge a"),
    "an alias": ("mine tools/a; git config alias.st '!tools/a'", "program tools/a", "git st"),
    "an alias that is absent": ("git config alias.st '!./tools/a'", "program tools/a", "git st"),
    "a repository of another name": ("mv .git meta; echo 'gitdir: meta' > .git", "settings > meta/config; program meta/hooks/pre-commit; mv meta m2; repository meta"),
    "a repository by a link": ("mv .git meta; ln -s meta .git", "settings > meta/config; program meta/hooks/pre-commit; rm .git; repository .git"),
    "a submodule's repository": ("git init -q s; mkdir -p .git/modules; mv s/.git .git/modules/s; echo 'gitdir: ../.git/modules/s' > s/.git", "settings > .git/modules/s/config; repository e; echo 'gitdir: ../e' > s/.git; mv s t; repository s/.git"),
    "a remote in the workspace": ("git init -q --bare remote; git remote add r ./remote", "program remote/hooks/pre-receive; program remote/hooks/update", "git push r HEAD; git fetch r"),
    "a repository that is ignored": ("git init -q vendor/x; echo vendor > .gitignore", "settings > vendor/x/.git/config; program vendor/x/.git/hooks/pre-commit"),
    "a repository in a folder with a dot": ("git init -q .cache/x", "settings > .cache/x/.git/config"),
    "a worktree": ("git worktree add -q wt", "settings > .git/worktrees/wt/config.worktree; repository e; echo 'gitdir: ../e' > wt/.git"),
    "start-up files by links": ("mkdir dot; for n in bashrc profile; do : > dot/$n; ln -s dot/$n .$n; done", "startup dot/bashrc; startup dot/profile; rm -rf dot; mkdir dot; startup dot/bashrc; startup dot/profile"),
    "half of a repository": ("mkdir half; echo ref: refs/heads/x > half/HEAD", "repository half"),
    "a name that was set aside": ("mkdir -p n.set-aside-0123456789ab; chmod 000 n.set-aside-0123456789ab", "chmod 700 n.set-aside-0123456789ab; repository n.set-aside-0123456789ab; mv n.set-aside-0123456789ab sub/.git"),
    "a link on the way to absent hooks": ("git config core.hooksPath tools/h", "program t2/h/pre-commit; ln -s t2 tools"),
    "a link on the way to an absent monitor": ("git config core.fsmonitor tools/m", "program t2/m; ln -s t2 tools"),
    "a link on the way to an absent include": ("git config include.path ../tools/i", "mkdir t2; settings > t2/i; ln -s t2 tools"),
    "a link on the way of a link": ("ln -s tools/rc .bashrc; ln -s tools/rc .profile", "mkdir t2; startup t2/rc; ln -s t2 tools"),
    "a link to hooks is replaced": ("mine real/x; ln -s real h; git config core.hooksPath h", "rm h; program h/pre-commit"),
    "a link above hooks is replaced": ("mine real/h/x; ln -s real l; git config core.hooksPath l/h", "rm l; program l/h/pre-commit"),
    "a link to a monitor is replaced": ("mine real; ln -s real m; git config core.fsmonitor ./m", "rm m; program m"),
    "a link to an include is replaced": (": > real; ln -s real i; git config include.path ../i", "rm i; settings > i"),
    "one that cannot be set aside, before others": ("git config core.hooksPath a/h", "mkdir -p t2/h; ln -s t2 a; mkdir s; repository s/.git; startup .bashrc"),
    "a link on the way to a repository": ("git init -q real; ln -s . l; git init -q s; rm -rf s/.git; echo 'gitdir: ../l/real/.git' > s/.git", "rm l; mkdir l; repository l/real/.git"),
    "a repository among packages": ("git init -q node_modules/x", "settings > node_modules/x/.git/config"),
    "a new repository among packages": ("mkdir node_modules", "repository node_modules/x/.git"),
    "a new repository in an environment": ("mkdir .venv", "repository .venv/.git"),
    "a repository in a folder of bytecode": ("", "repository __pycache__/p/.git"),
    "a name that is too long to be set aside": ("", "mkdir -p sub b/.git$(python3 -c 'print(chr(0x200c) * 80)')/x; repository sub/.git"),
}  # fmt: skip

SAID = pytest.mark.xfail(strict=True, reason="docs/explanation/sandbox.md says so")


@functools.cache
def runner(tier: str) -> NativeRunner:
    if not works(tier):  # type: ignore[arg-type]
        pytest.skip(why_not())
    return NativeRunner(tier=tier)  # type: ignore[arg-type]


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """The file that appears when something was started outside of the cage."""
    return Path(os.path.realpath(tmp_path)) / "canary"


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary repository with one commit, of somebody whose home is beside it."""
    monkeypatch.setenv("HOME", os.path.realpath(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = Path(os.path.realpath(tmp_path)) / "template"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/file").write_text("")
    (folder / "file").write_text("x\n")
    act(folder, "git init -q --template=; mkdir -p .git/hooks; git add file; git commit -qm one")
    return folder


@pytest.fixture
def repository(template: Path) -> Path:
    """The repository in which a job runs; `anew` makes it again."""
    return anew(template)


def anew(template: Path) -> Path:
    home = template.parent / "home"
    if home.exists():
        # To remove it would take longer than everything else.
        home.rename(template.parent / f"home-{len(os.listdir(template.parent))}")
    shutil.copytree(template, home / "work", symlinks=True)
    (home / "outside").write_text("mine")
    return home / "work"


def run(tier: str, folder: Path, attack: str, canary: Path, **more: object) -> Outcome:
    script = (WEAPONS + attack).replace("CANARY", str(canary))
    return runner(tier).run_blocking(Job(argv=("bash", "-c", script), folder=str(folder), **more))  # type: ignore[arg-type]


def attacked(
    tier: str,
    template: Path,
    canary: Path,
    set_up: str,
    attack: str,
    work: str = "",
    *,
    works_on: bool = True,
    **more: object,
) -> None:
    canary.unlink(missing_ok=True)
    folder = anew(template)
    if set_up:
        act(folder, MINE + set_up)
    before = snapshot(folder)
    run(tier, folder, attack, canary, **more)
    folder.chmod(0o755)
    assert more or snapshot(folder) == before
    if works_on:
        act(folder, f"{work}\n{WORK_ON}")
    assert not canary.exists()
    assert (folder.parent / "outside").read_text() == "mine"


CASES = {**{name: ("", attack) for name, attack in ATTACKS.items()}, **SET_UP}


# Some are judged by the snapshot, and a few by git and shells too, which take most of the time; all are slow below.
@pytest.mark.each(("name", "works_on"), [(name, at % 5 == 0) for at, name in enumerate(list(CASES)[::7])])
def test_nothing_is_left_from_which_something_is_started(
    template: Path, canary: Path, name: str, works_on: bool
) -> None:
    attacked("namespaces", template, canary, *CASES[name], works_on=works_on)


# Where jobs take rights away from their own folders, in each way to make a cage.
@pytest.mark.each(("tier", "name"), [(tier, name) for tier in TIERS for name in CASES if "closed" in name])
def test_nothing_is_started_from_a_folder_that_is_closed(template: Path, canary: Path, tier: str, name: str) -> None:
    attacked(tier, template, canary, *CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.each("name", CASES)
def test_nothing_is_started_by_what_somebody_does_next(template: Path, canary: Path, tier: str, name: str) -> None:
    attacked(tier, template, canary, *CASES[name])


GRANTED = [name for name in CASES if "folder that is closed" not in name]


@pytest.mark.each("name", GRANTED[::32])
def test_nothing_is_started_although_the_repository_is_granted(template: Path, canary: Path, name: str) -> None:
    attacked("namespaces", template, canary, *CASES[name], grants=(".git",))


@pytest.mark.slow
@pytest.mark.each("name", GRANTED)
def test_nothing_of_any_attack_is_started_although_the_repository_is_granted(
    template: Path, canary: Path, name: str
) -> None:
    attacked("namespaces", template, canary, *CASES[name], grants=(".git",))


# While a job runs, its owner works on in the same folder.
MEANWHILE = {
    "hooks and settings": ("", "program .git/hooks/pre-commit; settings >> .git/config; settings > .git/config.worktree; echo ../sub > .git/commondir"),
    "a repository that was there": ("git init -q s", "settings > s/.git/config; program s/.git/hooks/pre-commit"),
    "a submodule": ("git init -q s; mkdir -p .git/modules; mv s/.git .git/modules/s; echo 'gitdir: ../.git/modules/s' > s/.git", "echo 'gitdir: ../sub' > s/.git; settings > .git/modules/s/config; rm s/.git; mv s t"),
    "hooks elsewhere": ("git config core.hooksPath tools/h; mine tools/h/x", "program tools/h/pre-commit"),
    "a folder without a repository": ("rm -rf .git", "repository .git; startup .envrc"),
}  # fmt: skip
MEANWHILE_OPEN = {
    "a new repository": ("", "repository sub/.git"),
    "hooks that are absent": ("git config core.hooksPath tools/h", "program tools/h/pre-commit"),
    "an include that is absent": ("git config include.path ../team.inc", "settings > team.inc"),
    "a hook that leads to nothing": ("ln -s ../../check.sh .git/hooks/pre-commit", "program check.sh"),
}


@pytest.mark.parametrize("name", [
    *list(MEANWHILE)[::2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(MEANWHILE)[1::2]),
    *(pytest.param(name, marks=[SAID, pytest.mark.slow]) for name in MEANWHILE_OPEN)
])  # fmt: skip
def test_nothing_is_started_while_a_job_runs(template: Path, canary: Path, name: str) -> None:
    folder = anew(template)
    set_up, attack = (MEANWHILE | MEANWHILE_OPEN)[name]
    act(folder, f"{MINE}{set_up}\nmkfifo -m 666 pipe")
    job = functools.partial(run, "namespaces", folder, f"{attack}; cat pipe", canary)
    with at_the_same_time(job), open(folder / "pipe", "w"):  # which the job opens when it is done
        act(folder, WORK_ON)
    assert not canary.exists()


@contextlib.contextmanager
def at_the_same_time(job: Callable[[], Outcome]) -> Iterator[None]:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(job()), daemon=True)
    thread.start()
    yield
    thread.join(60)
    assert outcomes


HOOK = "#!/bin/sh\ntouch CANARY\n"
SETTINGS = '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch CANARY; false"\n\tworktree = ..\n'
# What the owner has set up, and files that a tool writes.
WRITTEN: dict[str, tuple[str, dict[str, str]]] = {
    "settings": ("", {".git/config": SETTINGS, ".git/config.worktree": SETTINGS}),
    "a hook": ("mine .git/hooks/pre-commit", {".git/hooks/pre-commit": HOOK}),
    "a hook by a link": ("mine .git/hooks/pre-commit; ln -s .git/hooks h", {"h/pre-commit": HOOK}),
    "a hook by another name": ("mine .git/hooks/pre-commit; ln .git/hooks/pre-commit n", {"n": HOOK}),
    "hooks elsewhere": ("git config core.hooksPath tools/h; mine tools/h/pre-commit", {"tools/h/pre-commit": HOOK}),
    "hooks of all": ("git config --global core.hooksPath gh; mine gh/pre-commit", {"gh/pre-commit": HOOK}),
    "what a hook leads to": ("mine c.sh; ln -s ../../c.sh .git/hooks/pre-commit", {"c.sh": HOOK}),
    "an include": (": > i; git config include.path ../i", {"i": SETTINGS}),
    "an include that is absent": ("git config include.path ../i", {"i": SETTINGS}),
    "an include of all": ("git config --global include.path $PWD/i", {"i": SETTINGS}),
    "a monitor": ("mine tools/m; git config core.fsmonitor tools/m", {"tools/m": HOOK}),
    "a filter by a shell": ("git config filter.x.clean 'sh tools/f'; echo 'file filter=x' > .gitattributes", {"tools/f": HOOK}),
    "an editor": ("mine tools/e; git config core.editor tools/e", {"tools/e": HOOK}),
    "a repository": ("", {"sub/.git/HEAD": "ref: refs/heads/x\n", "sub/.git/config": SETTINGS, "sub/.git/objects/x": "", "sub/.git/refs/x": ""}),
    "a bare repository": ("", {"sub/HEAD": "ref: refs/heads/x\n", "sub/config": SETTINGS, "sub/objects/x": "", "sub/refs/x": ""}),
    "the rest of a repository": ("echo ref: refs/heads/x > sub/HEAD", {"sub/config": SETTINGS, "sub/objects/x": "", "sub/refs/x": ""}),
    "a repository elsewhere": ("", {"e/HEAD": "ref: refs/heads/x\n", "e/config": SETTINGS, "e/objects/x": "", "e/refs/x": "", "sub/.git": "gitdir: ../e\n"}),
    "a submodule": ("git init -q --template= s; mkdir -p .git/modules; mv s/.git .git/modules/s; echo 'gitdir: ../.git/modules/s' > s/.git", {".git/modules/s/config": SETTINGS, "s/.git": "gitdir: ../e\n"}),
    "start-up files": ("", {".bashrc": "touch CANARY\n", ".profile": "touch CANARY\n", "sub/.bashrc": "touch CANARY\n"}),
    "what start-up files lead to": ("mkdir d; : > d/rc; ln -s d/rc .bashrc; ln -s d/rc .profile", {"d/rc": "touch CANARY\n"}),
    "editors, agents and build tools": ("", {".vscode/tasks.json": "{}", ".envrc": "x", ".claude/settings.json": "{}", "sub/AGENTS.md": "x", ".mcp.json": "{}", ".cargo/config.toml": "x", ".npmrc": "x", ".github/workflows/x.yml": "x"}),
}  # fmt: skip


@pytest.mark.covers("SEC-1")
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", ["Write", "Edit", "patch"])
def test_nothing_is_started_by_what_a_tool_has_written(template: Path, canary: Path, way: str, every: int) -> None:
    from metier import Library

    first = ["Write", "Edit", "patch"].index(way) % every
    for at, (name, (set_up, files)) in enumerate(list(WRITTEN.items())[first::every]):
        folder = anew(template)
        act(folder, MINE + set_up)
        before = snapshot(folder)
        session = Library.from_files({"SKILL.md": "---\nname: a\ndescription: Does.\n---\nDo."}).session(
            workspace=folder
        )
        executor = session.executor(builtin=["Write", "Edit"])
        for path, text in files.items():
            text = text.replace("CANARY", str(canary))
            if way == "Write":
                executor.execute_blocking("Write", {"file_path": path, "content": text})
            elif way == "Edit" and (folder / path).is_file():
                old = (folder / path).read_text()
                executor.execute_blocking("Edit", {"file_path": path, "old_string": old, "new_string": text})
            elif way == "patch":
                patch_by_somebody(executor, folder / path, path, text)
        assert snapshot(folder) == before, name
        if way == "Write" and at % every == 0:
            act(folder, WORK_ON)
        assert not canary.exists(), name


def patch_by_somebody(executor: Executor, target: Path, path: str, text: str) -> None:
    """A plain tool for patches, which knows nothing of protected places."""

    async def apply() -> str:
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return "done"

    lines = ["*** Begin Patch", f"*** Add File: {path}", *(f"+{line}" for line in text.splitlines()), "*** End Patch"]
    anyio.run(executor.around, "apply_patch", {"input": "\n".join(lines)}, apply)
