"""A job leaves nothing behind from which git, a shell, an editor, a build tool or another agent starts something."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.run import Job, NativeRunner, Outcome, Place

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS = ["namespaces", "landlock"] if IS_ROOT else ["namespaces", "landlock", "bubblewrap"]
TIERS_WITH_A_VIEW = [tier for tier in TIERS if tier != "landlock"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)

# Written out here, and not taken from the product, which could lose one.
NAMES = [
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
]  # fmt: skip


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Git as the owner of a folder uses it, with nothing of this machine's own settings."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": "true"}
    who = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "safe.directory=*")
    return subprocess.run(["git", *who, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A workspace that is an ordinary repository with one commit."""
    git(workspace, "init", "-q")
    (workspace / "file").write_text("x\n")
    (workspace / ".git/hooks").mkdir(exist_ok=True)
    git(workspace, "add", "file")
    assert git(workspace, "commit", "-qm", "one").returncode == 0
    return workspace


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """The file that appears when something was started outside of the cage."""
    return tmp_path.resolve() / "canary"


def start_everything(folder: Path) -> None:
    """Do what somebody does next in the folder: git in it and in each folder below, and a login shell."""
    folders = (folder, *(path for path in folder.rglob("*") if path.is_dir() and ".git" not in path.parts))
    names = ("s", "s/t", "s/u/v", "s.set-aside-0123456789ab", *(str(path.relative_to(folder)) for path in folders))
    for below in dict.fromkeys(names):
        with contextlib.suppress(PermissionError, FileNotFoundError, NotADirectoryError):
            git(folder / below, "status")
    (folder / "file").write_text("changed\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "mine")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    subprocess.run(["bash", "-lic", "true"], cwd=folder, env=env, capture_output=True, check=False)


def evil(canary: Path) -> str:
    """Commands that make a repository's settings, a hook and a start-up file, all of which leave the canary."""
    return f"""
    settings() {{ printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = "touch {canary}; false"\\n'; }}
    hook() {{ printf '#!/bin/sh\\ntouch {canary}\\n' > "$1"; chmod +x "$1"; }}
    repository() {{ mkdir -p "$1/objects" "$1/refs"; settings > "$1/config"; echo ref: refs/heads/x > "$1/HEAD"; }}
    shell() {{ echo 'touch {canary}' > "$1"; }}
    """


ATTACKS = {
    "settings are overwritten": "settings > .git/config",
    "settings are appended to": "settings >> .git/config",
    "settings by git": "git config core.fsmonitor 'touch CANARY; false'",
    "settings of a worktree": "git config extensions.worktreeConfig true; settings > .git/config.worktree",
    "a hook": "hook .git/hooks/pre-commit",
    "a hook of a new folder": "rm -rf .git/hooks; mkdir .git/hooks; hook .git/hooks/pre-commit",
    "hooks are moved": "mv .git/hooks .git/h; mkdir .git/hooks; hook .git/hooks/pre-commit",
    "the repository is moved": "mv .git old; repository .git",
    "the repository is removed": "rm -rf .git; repository .git",
    "the repository is a file": "mv .git old; repository evil; echo 'gitdir: evil' > .git",
    "the repository is a link": "mv .git old; repository evil; ln -s evil .git",
    "commondir": "repository evil; printf %s \"$PWD/evil\" > .git/commondir",
    "commondir with names taken": "for n in '' $(seq -f -%g 1 99); do : > .git/commondir.set-aside$n; done;"
    " repository evil; printf ../evil > .git/commondir",
    "commondir in a folder that is closed": "repository evil; printf ../evil > .git/commondir; chmod 555 .git .",
    "names in a folder that is closed": "mkdir s; repository s/.git; chmod 555 s/.git s .",
    "a folder that cannot be listed": "mkdir s; repository s/.git; chmod 300 s",
    "a folder that looks set aside": "mkdir s.set-aside-0123456789ab; repository s.set-aside-0123456789ab/.git;"
    " chmod 300 s.set-aside-0123456789ab",
    "a repository in a bare one": "mkdir s; repository s; repository s/t; repository s/t/.git; repository s/u/v/.git",
    "a bare repository": "mv .git old; repository .",
    "a bare repository beside one": "repository .",
    "a bare repository below": "mkdir s; repository s",
    "a repository below": "mkdir s; repository s/.git",
    "a repository deep below": "mkdir -p a/b/c/d; repository a/b/c/d/.git",
    "a repository in a folder that was there": "repository sub/.git",
    "a submodule": "printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ./s\\n' > .gitmodules;"
    " repository .git/modules/s",
    "a worktree": "repository .git/worktrees/w",
    "attributes": "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; settings >> .git/config",
    "a message that is a link": "ln -sf ../../outside .git/COMMIT_EDITMSG; echo evil > .git/SQUASH_MSG",
    "a log that is a link": "rm -f .git/logs/HEAD; ln -s ../../../outside .git/logs/HEAD",
    "a start-up file of bash": "shell .bashrc; shell .bash_profile; shell .profile",
    "a start-up file by a link": "shell evil; ln -s evil .bashrc; ln -s evil .bash_profile",
    "a hard link": "shell evil; ln evil .bashrc; ln evil .bash_profile; ln evil .profile",
    "an exchange of names": "shell evil; mv evil .bashrc; mv file .envrc; cp .bashrc .bash_profile",
    "a folder in place of a file": "rm -rf file; mkdir -p .vscode/x .envrc/y .claude/skills/evil; shell .envrc/y/z",
    "late": "(sleep 0.2; hook .git/hooks/pre-commit; shell .bashrc) & disown; wait",
    "many times": "for i in $(seq 40); do hook .git/hooks/pre-commit; repository n/.git; rm -rf n; done;"
    " repository n/.git",
    "by a descriptor": "exec 9< .; cd /proc/self/fd/9; hook .git/hooks/pre-commit; settings > .git/config",
    "by the path of the root": "hook /proc/self/root$PWD/.git/hooks/pre-commit",
    "by a link to the repository": "ln -s .git g; settings > g/config; hook g/hooks/pre-commit",
    "by a link above": "ln -s . l; settings > l/.git/config; hook l/.git/hooks/pre-commit",
    "by Python": "python3 -c \"import os; os.rename('.git', 'g')\";"
    " python3 -c \"open('.git/config', 'a').write('[core]\\n fsmonitor = touch CANARY')\"",
    "by git": "git init -q --template=/nonexistent n; git -C n config core.fsmonitor 'touch CANARY; false'",
    "by a clone": "git clone -q . n 2>/dev/null; git -C n config core.fsmonitor 'touch CANARY; false'",
    "by tar": "mkdir x; (cd x; repository .git); tar cf x.tar -C x .; tar xf x.tar; tar xf x.tar -C sub",
    "by patch": "printf -- '--- /dev/null\\n+++ b/.bashrc\\n@@ -0,0 +1 @@\\n+touch CANARY\\n' | patch -p1; true",
}  # fmt: skip


# All of them where cages are made by ourselves, and a share of them in each other way.
PLAYS = [("namespaces", attack) for attack in ATTACKS]
PLAYS += [(tier, attack) for tier in TIERS[1:] for attack in list(ATTACKS)[:: 1 if tier == "bubblewrap" else 3]]


@pytest.mark.covers("SEC-3", "SEC-4", "SEC-15", "SEC-16")
@pytest.mark.parametrize(("tier", "attack"), PLAYS, indirect=["tier"])
def test_nothing_is_started_by_what_somebody_does_next(sh: Run, repository: Path, canary: Path, attack: str) -> None:
    outside = repository.parent / "outside"
    outside.write_text("mine")
    (repository / "sub").mkdir()
    (repository / "sub/file").write_text("")
    sh(evil(canary) + ATTACKS[attack].replace("CANARY", str(canary)))
    for folder in (repository, repository / "sub"):
        folder.chmod(0o755)
    start_everything(repository)
    assert not canary.exists()
    assert outside.read_text() == "mine"


LINKS = {
    ".git/hooks": ("../githooks", "githooks/pre-commit"),
    ".envrc": ("env/envrc", "env/envrc"),
    ".vscode": ("vs", "vs/tasks.json"),
    ".husky": ("hk", "hk/pre-commit"),
    "sub/.claude": ("../shared", "shared/settings.json"),
    ".github": ("gh", "gh/workflows/x.yml"),
}


@pytest.mark.covers("SEC-3")
@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("how", ["through", "beside", "instead", "moved", "removed"])
def test_a_protected_link_and_what_it_leads_to_stay(sh: Run, repository: Path, name: str, how: str) -> None:
    target, behind = LINKS[name]
    if name == ".git/hooks":
        shutil.rmtree(repository / name)
    (repository / behind).parent.mkdir(parents=True)
    (repository / behind).write_text("mine")
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).symlink_to(target)
    within = behind.removeprefix(target.removeprefix("../")).lstrip("/")
    sh({
        "through": f"echo evil > {name}/{within or '.'} || echo evil > {name}",
        "beside": f"echo evil > {behind}; rm -rf {behind}; mkdir -p $(dirname {behind}); echo evil > {behind}",
        "instead": f"rm {name}; mkdir {name}; echo evil > {name}/{within or 'x'}",
        "moved": f"mv {name} away; echo evil > {name}",
        "removed": f"rm {name}",
    }[how])  # fmt: skip
    assert os.readlink(repository / name) == target
    assert (repository / behind).read_text() == "mine"


@pytest.mark.covers("SEC-8", "SEC-10", "SEC-15")
def test_what_is_made_under_a_protected_name_is_not_there_afterwards(sh: Run, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    paths = [f"{below}{name}" for below in ("", "sub/", "new/") for name in NAMES]
    making = "mkdir -p $(dirname $p) && echo evil > $p"
    outcome = sh(f"for p in {' '.join(paths)}; do {making}; done 2>/dev/null; echo fine > ok")
    assert outcome.exit_code == 0 and (workspace / "ok").read_text() == "fine\n"
    assert [path for path in paths if os.path.lexists(workspace / path)] == []
    # Nothing that the job wrote is lost.
    kept = [path for path in workspace.rglob("*.set-aside-*") if path.is_file() and path.read_text() == "evil\n"]
    assert len(kept) == len(outcome.notes) >= 2 * len(NAMES)


@pytest.mark.covers("SEC-8")
@has_view
@pytest.mark.parametrize("attempt", ["echo evil > .envrc", "mkdir -p .vscode && echo evil > .vscode/tasks.json",
                                     "rmdir .vscode; mv .vscode x; echo evil > .vscode/tasks.json",
                                     "repository evil; printf evil > .git/commondir", "git init -q",
                                     "mkdir -p .claude/skills/x; echo evil > .claude/skills/x/SKILL.md"])  # fmt: skip
def test_what_running_programs_look_for_cannot_even_be_made_while_a_job_runs(
    sh: Run, workspace: Path, canary: Path, attempt: str
) -> None:
    before = [".envrc", ".git", ".vscode", ".claude"]
    outcome = sh(f"{evil(canary)}\n({attempt}) 2>/dev/null; find {' '.join(before)} -mindepth 1; echo end")
    assert outcome.stdout == "end\n"
    assert [name for name in before if (workspace / name).exists()] == []


@pytest.mark.covers("SEC-15")
def test_a_run_that_cannot_be_cleaned_up_fails_and_names_the_file(
    sh: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("metier.run.protection.os.rename", refused)
    outcome = sh("mkdir sub; echo evil > sub/.envrc")
    assert not outcome.is_success
    assert "sub/.envrc" in outcome.stderr and any("sub/.envrc" in note for note in outcome.notes)


HOST = """
import os, sys, threading
from metier.run import Job, NativeRunner
tier, folder = sys.argv[1:]
def on_output(line):
    print(line.text, end="", flush=True)
script = "mkdir -p s; echo evil > s/.envrc; echo evil > .npmrc; echo ready; sleep 60"
NativeRunner(tier=tier).run_blocking(Job(argv=("bash", "-c", script), folder=folder), on_output=on_output)
"""


def kill_a_host(workspace: Path, tier: str) -> None:
    """Begin a job that has made what it must not make, and kill the program that began it."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, tier, str(workspace)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
    finally:
        host.send_signal(signal.SIGKILL)
        host.communicate(timeout=60)


@pytest.mark.covers("SEC-8")
def test_the_next_job_cleans_up_after_one_whose_host_was_killed(sh: Run, workspace: Path, tier: str) -> None:
    kill_a_host(workspace, tier)
    outcome = sh("echo next")
    assert outcome.stdout == "next\n"
    assert what_is_left(workspace) == {"s"}
    assert any("was not ended by its host" in note for note in outcome.notes)


def what_is_left(workspace: Path) -> set[str]:
    return {str(path.relative_to(workspace)) for path in workspace.rglob("*") if ".set-aside-" not in path.name}


@pytest.mark.covers("SEC-8")
def test_a_job_elsewhere_cleans_up_as_well(workspace: Path, tier: str, tmp_path: Path) -> None:
    kill_a_host(workspace, tier)
    (tmp_path / "other").mkdir()
    other = f"""
from metier.run import NativeRunner
from metier.run.job import Job
NativeRunner(tier={tier!r}).run_blocking(Job(argv=("true",), folder={str(tmp_path / "other")!r}))
"""
    subprocess.run([sys.executable, "-c", other], check=True, timeout=120)
    assert what_is_left(workspace) == {"s"}


def test_jobs_side_by_side_keep_the_stand_ins_until_the_last_has_ended(runner: NativeRunner, workspace: Path) -> None:
    import threading

    (workspace / "pipe").unlink(missing_ok=True)
    os.mkfifo(workspace / "pipe")
    (workspace / "pipe").chmod(0o666)
    outcomes: list[Outcome] = []
    first = threading.Thread(
        target=lambda: outcomes.append(
            runner.run_blocking(Job(argv=("bash", "-c", "cat pipe; echo evil > .envrc/x"), folder=str(workspace)))
        )
    )
    first.start()
    with open(workspace / "pipe", "w") as pipe:
        second = runner.run_blocking(Job(argv=("true",), folder=str(workspace)))
        assert second.is_success
        pipe.write("go\n")
    first.join(60)
    assert outcomes[0].stdout == "go\n"
    assert os.listdir(workspace) == ["pipe"]


@has_view
@pytest.mark.covers("SEC-9")
def test_what_is_hidden_is_not_there_for_a_job(sh: Run, workspace: Path) -> None:
    (workspace / "keys").mkdir()
    (workspace / "keys/private").write_text("s3cret")
    (workspace / "token").write_text("s3cret")
    hidden = (Place(str(workspace / "keys"), is_hidden=True), Place(str(workspace / "token"), is_hidden=True))
    outcome = sh("cat keys/private token; ls keys; mv keys k; cp token t; grep -r s3cret .; echo end",
                 places=(Place(str(workspace), is_writable=True), *hidden))  # fmt: skip
    assert outcome.stdout == "end\n"
    assert (workspace / "keys/private").read_text() == "s3cret"


@pytest.mark.parametrize("tier", ["landlock"], indirect=True)
@pytest.mark.covers("SEC-9")
def test_without_a_view_what_is_hidden_is_left_out_of_the_copy(sh: Run, workspace: Path) -> None:
    (workspace / "keys").mkdir()
    (workspace / "keys/private").write_text("s3cret")
    places = (Place(str(workspace), is_writable=True), Place(str(workspace / "keys"), is_hidden=True))
    outcome = sh(f"cat keys/private {workspace}/keys/private; echo out > made; echo end", places=places)
    assert outcome.stdout == "end\n"
    assert (workspace / "made").read_text() == "out\n"


@has_view
@pytest.mark.covers("SEC-15")
def test_a_job_with_the_grant_rebases_and_leaves_no_commands_for_the_next_to_run(
    sh: Run, repository: Path, canary: Path
) -> None:
    rebase = "git -c user.name=n -c user.email=n@example.com rebase -q --exec 'echo ran' --root"
    plant = f"mkdir .git/rebase-merge; echo 'exec touch {canary}' > .git/rebase-merge/git-rebase-todo"
    outcome = sh(f"{rebase} && {plant}", grants=(".git",))
    assert "ran" in outcome.stdout + outcome.stderr
    assert not (repository / ".git/rebase-merge").exists()
    git(repository, "rebase", "--continue")
    assert not canary.exists()


@pytest.mark.parametrize("tier", ["landlock"], indirect=True)
def test_without_a_view_what_a_job_changed_in_its_copy_is_brought_back(sh: Run, repository: Path) -> None:
    (repository / "gone").write_text("x")
    (repository / "folder").mkdir()
    (repository / "folder/kept").write_text("kept")
    outcome = sh(
        f"rm gone; echo new > {repository}/made; mkdir -p a/b; echo deep > a/b/c; echo more >> file; chmod +x file;"
        " ln -s file link; git log --format=%s; git diff --stat | tail -1; rm -rf folder"
    )
    assert (outcome.exit_code, outcome.stdout) == (0, "one\n 1 file changed, 1 insertion(+)\n")
    assert sorted(os.listdir(repository)) == [".git", "a", "file", "link", "made"]
    assert (repository / "a/b/c").read_text() == "deep\n"
    assert (repository / "file").read_text() == "x\nmore\n"
    assert os.access(repository / "file", os.X_OK) and os.readlink(repository / "link") == "file"


def snapshot(folder: Path) -> dict[str, str]:
    """All protected places of a folder, resolved, by an oracle of this test's own."""
    found: dict[str, str] = {}

    def take(path: Path) -> None:
        key = str(path)
        if path.is_symlink():
            found[key] = f"link {os.readlink(path)}"
            real = Path(os.path.realpath(path))
            if real.exists() and folder in real.parents:
                take(real)
        elif path.is_dir():
            found[key] = "folder"
            for below in sorted(path.iterdir()):
                take(below)
        elif path.is_file():
            found[key] = hashlib.sha256(path.read_bytes()).hexdigest() + oct(stat.S_IMODE(path.stat().st_mode))
        elif os.path.lexists(path):
            found[key] = "other"

    for at, folders, files in os.walk(folder):
        place = Path(at)
        if ".set-aside-" in at:
            continue
        if {"HEAD", "objects", "refs"} <= {*folders, *files} and place.name != ".git":
            take(place)
        for name in NAMES:
            if os.path.lexists(place / name):
                take(place / name)
    return found


with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, example, given, settings
    from hypothesis import strategies as st

    folders = st.sampled_from(["", "sub", "sub/deep", "other"])
    names = st.sampled_from(NAMES)
    things = st.tuples(st.sampled_from(["file", "folder", "link", "repository", "bare"]), folders, names)
    kinds = ["write", "append", "remove", "move", "replace by a link", "make a folder", "hook", "repository", "bare"]
    kinds += ["link", "chmod", "through", "swap"]
    inner_names = st.sampled_from(["x", "hooks/pre-commit", "config", "commondir", "tasks.json", "target"])
    acts = st.tuples(st.sampled_from(kinds), folders, names, inner_names)

    def build(root: Path, wanted: list[tuple[str, str, str]]) -> None:
        for number, (kind, below, name) in enumerate(wanted):
            path = root / below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(path) or not path.parent.is_dir():
                continue
            if kind == "file":
                path.write_text("mine")
            elif kind == "folder":
                path.mkdir()
                (path / "x").write_text("mine")
            elif kind == "link":
                target = root / "targets" / f"target{number}"
                target.parent.mkdir(exist_ok=True)
                target.write_text("mine") if number % 2 else target.mkdir()
                path.symlink_to(os.path.relpath(target, path.parent))
            else:
                where = path if kind == "bare" else root / below / f"repository{number}" / ".git"
                for part in ("objects", "refs", "hooks"):
                    (where / part).mkdir(parents=True)
                (where / "HEAD").write_text("ref: refs/heads/x\n")
                (where / "config").write_text("[core]\n")

    def script(chosen: list[tuple[str, str, str, str]]) -> str:
        lines = ["set +e", "exec 2>/dev/null"]
        for act, below, name, inner in chosen:
            here = below or "."
            path = f"{here}/{name}"
            lines.append(f"mkdir -p $(dirname {path})")
            lines.append({
                "write": f"echo evil > {path}; echo evil > {path}/{inner}",
                "append": f"echo evil >> {path}; echo evil >> {path}/{inner}",
                "remove": f"rm -rf {path}",
                "move": f"mv {path} moved-$RANDOM; echo evil > {path}",
                "replace by a link": f"rm -rf {path}; echo evil > evil; ln -sfn $PWD/evil {path}",
                "make a folder": f"rm -rf {path}; mkdir -p {path}; echo evil > {path}/x",
                "hook": f"mkdir -p {path}/hooks; echo evil > {path}/hooks/pre-commit",
                "repository": f"mkdir -p {here}/.git/objects {here}/.git/refs;"
                f" echo ref: refs/heads/x > {here}/.git/HEAD; echo evil > {here}/.git/config",
                "bare": f"mkdir -p {here}/objects {here}/refs; echo ref: x > {here}/HEAD;"
                        f" echo evil > {here}/config",
                "link": f"ln -s {path} link-$RANDOM; echo evil > link-*/{inner}",
                "chmod": f"chmod 777 {path}; chmod 555 {here}",
                "through": f"for t in targets/*; do echo evil > $t; echo evil > $t/{inner}; rm -rf $t; done",
                "swap": f"echo evil > e; mv -T e {path}; cp -r {path} copy-$RANDOM; mv {here} old-$RANDOM",
            }[act])  # fmt: skip
        return "\n".join(lines)

    @pytest.mark.covers("SEC-3", "SEC-4", "SEC-8", "SEC-10", "SEC-15", "SEC-16")
    @settings(max_examples=int(os.environ.get("METIER_EXAMPLES", "12")),
              suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
    @example(wanted=[("link", "", ".envrc"), ("repository", "sub", ".git")], chosen=[("through", "", ".envrc", "x")])
    @given(wanted=st.lists(things, max_size=8), chosen=st.lists(acts, min_size=1, max_size=10))
    def test_no_script_changes_a_protected_place(
        runner: NativeRunner, tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[str, str, str]],
        chosen: list[tuple[str, str, str, str]]
    ) -> None:  # fmt: skip
        root = tmp_path_factory.mktemp("any").resolve()
        build(root, wanted)
        before = snapshot(root)
        outcome = runner.run_blocking(Job(argv=("bash", "-c", script(chosen)), folder=str(root)))
        for at, _, _ in os.walk(root):
            with contextlib.suppress(OSError):
                if ".set-aside-" not in at:
                    os.chmod(at, 0o755)
        after = snapshot(root)
        assert {path: after.get(path) for path in before} == before, (outcome.stderr, outcome.notes)
        assert {path for path in after if path not in before} == set(), outcome.notes
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A journal of jobs for each test."""
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "cache"))
    yield
    jobs = tmp_path / "cache" / "jobs"
    assert [path.read_text() for path in jobs.glob("*") if path.stat().st_size] == []
