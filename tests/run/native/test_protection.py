"""A job leaves nothing behind from which git, a shell, an editor, a build tool or another agent starts something."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import protected
from tests.protected import NAMES, WORK_ON, act, payload, snapshot, write
from tests.run.native.conftest import in_one_sandbox

from metier.run import Job, JobPath, NativeRunner, Outcome

Run = Callable[..., Outcome]
IS_ROOT = not hasattr(os, "geteuid") or os.geteuid() == 0
TIERS = ["namespaces", "landlock"] if IS_ROOT else ["namespaces", "landlock", "bubblewrap"]
TIERS_WITH_A_VIEW = [tier for tier in TIERS if tier != "landlock"]
has_view = pytest.mark.parametrize("tier", TIERS_WITH_A_VIEW, indirect=True)


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
    """The file that appears when something was started outside of the sandbox."""
    return tmp_path.resolve() / "canary"


def evil(canary: Path) -> str:
    """Commands that make a repository's settings, a hook and a start-up file, all of which leave the canary."""
    return f"""
    settings() {{ printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = "touch {canary}; false"\\n'; }}
    hook() {{ printf '#!/bin/sh\\ntouch {canary}\\n' > "$1"; chmod +x "$1"; }}
    repository() {{ mkdir -p "$1/objects" "$1/refs"; settings > "$1/config"; echo ref: refs/heads/x > "$1/HEAD"; }}
    shell() {{ echo 'touch {canary}' > "$1"; }}
    """


LINKS = {
    ".git/hooks": ("../githooks", "githooks/pre-commit"),
    ".envrc": ("env/envrc", "env/envrc"),
    ".vscode": ("vs", "vs/tasks.json"),
    ".husky": ("hk", "hk/pre-commit"),
    "sub/.claude": ("../shared", "shared/settings.json"),
    ".github": ("gh", "gh/workflows/x.yml"),
}


@pytest.mark.covers("SEC-3")
@pytest.mark.parametrize("how", ["through", "beside", "instead", "moved", "removed"])
def test_protected_links_and_what_they_lead_to_stay(sh: Run, repository: Path, how: str) -> None:
    shutil.rmtree(repository / ".git/hooks")
    attempts: list[str] = []
    for name, (target, behind) in LINKS.items():
        write(repository / behind, "mine")
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).symlink_to(target)
        within = behind.removeprefix(target.removeprefix("../")).lstrip("/")
        attempts.append({
            "through": f"echo evil > {name}/{within or '.'} || echo evil > {name}",
            "beside": f"echo evil > {behind}; rm -rf {behind}; mkdir -p $(dirname {behind}); echo evil > {behind}",
            "instead": f"rm {name}; mkdir {name}; echo evil > {name}/{within or 'x'}",
            "moved": f"mv {name} away-{len(attempts)}; echo evil > {name}",
            "removed": f"rm {name}",
        }[how])  # fmt: skip
    sh("\n".join(attempts))
    for name, (target, behind) in LINKS.items():
        assert os.readlink(repository / name) == target
        assert (repository / behind).read_text() == "mine"


@pytest.mark.covers("SEC-8", "SEC-10", "SEC-15")
def test_what_is_made_under_a_protected_name_is_not_there_afterwards(sh: Run, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    paths = [f"{below}{name}" for below in ("", "sub/", "new/") for name in NAMES]
    above = " ".join({os.path.dirname(path) for path in paths} - {""})
    making = f"for p in {above}; do mkdir -p $p; done; for p in {' '.join(paths)}; do echo evil > $p; done"
    outcome = sh(f"({making}) 2>/dev/null; echo fine > ok")
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
@in_one_sandbox
def test_a_job_elsewhere_cleans_up_as_well(runner: NativeRunner, workspace: Path, tier: str, tmp_path: Path) -> None:
    kill_a_host(workspace, tier)
    (tmp_path / "other").mkdir()
    assert runner.run_blocking(Job(argv=("true",), folder=str(tmp_path / "other"))).is_success
    assert what_is_left(workspace) == {"s"}


@in_one_sandbox
def test_what_the_owner_made_since_a_host_was_killed_stays(sh: Run, workspace: Path, tier: str) -> None:
    kill_a_host(workspace, tier)
    [journal] = [path for path in journals() if path.stat().st_size]
    entry = json.loads(journal.read_text())
    journal.write_text(json.dumps({**entry, "until": time.time()}) + "\n")  # by then the job would have ended
    shutil.rmtree(workspace / ".claude", ignore_errors=True)
    (workspace / ".claude").mkdir()
    for name in (".claude/settings.json", "CLAUDE.md"):
        (workspace / name).write_text("mine\n")
    assert sh("echo next").stdout == "next\n"
    assert what_is_left(workspace) >= {".claude", ".claude/settings.json", "CLAUDE.md"}


@in_one_sandbox
def test_a_folder_that_is_gone_is_not_made_again(runner: NativeRunner, workspace: Path, tier: str) -> None:
    (workspace / ".envrc").symlink_to("elsewhere")
    kill_a_host(workspace, tier)
    shutil.rmtree(workspace)
    (workspace.parent / "other").mkdir()
    assert runner.run_blocking(Job(argv=("true",), folder=str(workspace.parent / "other"))).is_success
    assert not workspace.exists()


# Until a fork runs, it shares the lock of its parent: the parent is killed when its child has come back from `fork`.
LIVES_ON = """
lives, says = os.pipe()
if os.fork() == 0:
    os.write(says, b"1")
    time.sleep(60)
    os._exit(0)
os.read(lives, 1)
os.kill(os.getpid(), 9)
"""
ENDS = {"at its end": "pass", "killed, with a child that lives on": LIVES_ON}


@in_one_sandbox
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_program_that_ends_with_a_job_leaves_it_to_the_next(sh: Run, workspace: Path, end: str) -> None:
    program = f"""
import os, time
from metier.run.protection import Protection
Protection({str(workspace)!r})
open({str(workspace / ".npmrc")!r}, "w").close()
{end}
"""
    subprocess.run([sys.executable, "-c", program], timeout=120, check=False)
    assert any("was not ended by its host" in note for note in sh("echo next").notes)
    assert what_is_left(workspace) == set()


@has_view
@pytest.mark.covers("SEC-15")
def test_a_workspace_that_is_moved_while_a_job_runs_is_cleaned_up_where_it_is(
    runner: NativeRunner, workspace: Path
) -> None:
    moved = workspace.with_name("moved")
    os.mkfifo(workspace / "pipe")
    (workspace / "pipe").chmod(0o666)

    def move(_: object) -> None:
        workspace.rename(moved)
        (moved / "pipe").write_text("go\n")  # which the job waits for

    script = "echo ready; read go < pipe; mkdir s; echo evil > s/.envrc; echo evil > .npmrc"
    outcome = runner.run_blocking(Job(argv=("bash", "-c", script), folder=str(workspace)), on_output=move)
    assert outcome.is_success, outcome.stderr
    assert what_is_left(moved) == {"pipe", "s"}
    assert not workspace.exists()


@has_view
def test_an_empty_folder_of_the_user_is_closed_and_stays(sh: Run, workspace: Path) -> None:
    (workspace / ".claude").mkdir()
    sh("echo evil > .claude/settings.json; rmdir .claude; mv .claude c")
    assert what_is_left(workspace) == {".claude"}


def test_folders_that_cannot_be_entered_end_no_run_without_a_word(sh: Run, workspace: Path) -> None:
    outcome = sh("mkdir .idea; chmod 0 .idea; p=.; for i in $(seq 20); do p=$p/d; mkdir $p; done; chmod -R 0 d; echo x")
    assert outcome.stdout == "x\n"
    assert not (workspace / ".idea").exists()
    assert outcome.is_success or "too much of it" in outcome.stderr
    subprocess.run(["chmod", "-R", "u+rwx", str(workspace)], check=False)


def journals() -> list[Path]:
    return list(Path(os.environ["METIER_CACHE"], "jobs").iterdir())


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
    hidden = (JobPath(str(workspace / "keys"), is_hidden=True), JobPath(str(workspace / "token"), is_hidden=True))
    outcome = sh("cat keys/private token; ls keys; mv keys k; cp token t; grep -r s3cret .; echo end",
                 places=(JobPath(str(workspace), is_writable=True), *hidden))  # fmt: skip
    assert outcome.stdout == "end\n"
    assert (workspace / "keys/private").read_text() == "s3cret"


@pytest.mark.parametrize("tier", ["landlock"], indirect=True)
@pytest.mark.covers("SEC-9")
def test_without_a_view_what_is_hidden_is_left_out_of_the_copy(sh: Run, workspace: Path) -> None:
    (workspace / "keys").mkdir()
    (workspace / "keys/private").write_text("s3cret")
    places = (JobPath(str(workspace), is_writable=True), JobPath(str(workspace / "keys"), is_hidden=True))
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


with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, example, given, settings
    from hypothesis import strategies as st

    Thing = tuple[str, str, str]
    Act = tuple[str, str, str, str]
    folders = st.sampled_from(["", "sub", "sub/deep", "other"])
    names = st.sampled_from(NAMES)
    sorts = ["file", "folder", "link", "link to nothing", "link by a link", "second name", "repository", "bare"]
    sorts += [
        "hooks elsewhere",
        "hooks to come",
        "settings elsewhere",
        "settings to come",
        "monitor",
        "monitor to come",
    ]
    things = st.tuples(st.sampled_from(sorts), folders, names)
    kinds = ["write", "append", "remove", "move", "replace by a link", "make a folder", "hook", "repository", "bare"]
    kinds += ["link", "hard link", "chmod", "through", "beneath", "on the way", "swap"]
    inner_names = st.sampled_from(["x", "hooks/pre-commit", "config", "commondir", "tasks.json", "target"])
    acts = st.tuples(st.sampled_from(kinds), folders, names, inner_names)

    def build(root: Path, wanted: list[Thing], first: int = 0) -> None:
        for number, (sort, below, name) in enumerate(wanted, first):
            path, target = root / below / name, root / "targets" / f"target{number}"
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                target.parent.mkdir(exist_ok=True)
                if os.path.lexists(path) and path.name != ".git":
                    continue
                if sort == "file":
                    path.write_text("mine")
                elif sort == "folder":
                    write(path / "x", "mine")
                elif sort == "second name":
                    os.link(write(path, "mine"), target)
                elif sort.startswith("link"):
                    if sort != "link to nothing":
                        target.write_text("mine") if number % 2 else target.mkdir()
                    if sort == "link by a link":
                        (target.parent / f"via{number}").symlink_to(target.name)
                        target = target.parent / f"via{number}"
                    path.symlink_to(os.path.relpath(target, path.parent))
                elif "to come" in sort and os.path.lexists(target):
                    continue  # a job was there before its owner: what it wrote was no protected place then
                else:
                    in_folder = root / below / ".git"
                    there = root / below / f"repository{number}" / ".git"
                    where = path if sort == "bare" else there if os.path.lexists(in_folder) else in_folder
                    key = {"hooks": "hooksPath", "monitor": "fsmonitor"}.get(sort.split()[0], "")
                    more = f"\t{key} = {target}\n" if key else f"[include]\n\tpath = {target}\n"
                    protected.repository(where, f"[core]\n\tx = y\n{more}")
                    if "by a link" in sort:
                        target.symlink_to(f"real{number}")
                    if "to come" not in sort:
                        real = Path(os.path.realpath(target))
                        write(real / "pre-commit" if key == "hooksPath" else real, "").chmod(0o755)

    def script(chosen: list[Act], text: str) -> str:
        evil = f'put() {{ printf %s \'{text}\' > "$1" && chmod +x "$1"; }}'
        lines = ["set +e", "exec 2>/dev/null", evil]
        for act, below, name, inner in chosen:
            here = below or "."
            path = f"{here}/{name}"
            lines.append(f"mkdir -p $(dirname {path})")
            lines.append({
                "write": f"put {path}; put {path}/{inner}",
                "append": f"echo evil >> {path}; echo evil >> {path}/{inner}",
                "remove": f"rm -rf {path}",
                "move": f"mv {path} moved-$RANDOM; put {path}",
                "replace by a link": f"rm -rf {path}; put evil; ln -sfn $PWD/evil {path}",
                "make a folder": f"rm -rf {path}; mkdir -p {path}; put {path}/x",
                "hook": f"mkdir -p {path}/hooks; put {path}/hooks/pre-commit",
                "repository": f"mkdir -p {here}/.git/objects {here}/.git/refs;"
                              f" echo ref: refs/heads/x > {here}/.git/HEAD; put {here}/.git/config",
                "bare": f"mkdir -p {here}/objects {here}/refs; echo ref: refs/heads/x > {here}/HEAD;"
                        f" put {here}/config",
                "link": f"ln -s {path} link-$RANDOM; echo evil > link-*/{inner}",
                "hard link": f"ln {path} hard; put hard; put other; ln -f other {path}",
                "chmod": f"chmod 777 {path}; chmod 555 {here}",
                "through": f"for t in targets/*; do put $t; put $t/{inner}; put $t/pre-commit; rm -rf $t; done",
                "beneath": "for n in 0 1 2 3 4 5 6 7; do t=targets/target$n; put $t || put $t/pre-commit;"
                           " rm -rf $t; mkdir $t; put $t/pre-commit; done; mv targets t; mkdir targets",
                "on the way": "mkdir -p t2; for n in 0 1 2 3 4 5 6 7; do mkdir t2/target$n; put t2/target$n/pre-commit;"
                              " put t2/via$n; rm targets/target$n; ln -s ../t2/target$n targets/; done;"
                              " mv targets t3; rmdir targets; ln -s t2 targets",
                "swap": f"put e; mv -T e {path}; cp -r {path} copy-$RANDOM; mv {here} old-$RANDOM",
            }[act])  # fmt: skip
        return "\n".join(lines)

    @pytest.mark.covers("SEC-3", "SEC-4", "SEC-8", "SEC-10", "SEC-15", "SEC-16")
    @settings(max_examples=int(os.environ.get("METIER_EXAMPLES", "1")),
              suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
    @example(wanted=[("link", "", ".envrc"), ("repository", "sub", ".git")], appearing=[],
             chosen=[("through", "", ".envrc", "x")])  # fmt: skip
    @example(wanted=[("hooks to come", "", ".git"), ("settings elsewhere", "sub", ".git")],
             appearing=[("monitor", "", ".git"), ("link", "", ".bashrc")],
             chosen=[("beneath", "", ".envrc", "x"), ("through", "", ".envrc", "x")])  # fmt: skip
    @example(wanted=[("hooks by a link", "", ".git")], appearing=[("settings to come", "sub", ".git")],
             chosen=[("on the way", "", ".envrc", "x"), ("on the way", "", ".envrc", "x")])  # fmt: skip
    @given(wanted=st.lists(things, max_size=8), appearing=st.lists(things, max_size=3),
           chosen=st.lists(acts, min_size=1, max_size=10))  # fmt: skip
    def test_no_script_changes_a_protected_place(
        runner: NativeRunner, tmp_path_factory: pytest.TempPathFactory, wanted: list[Thing], appearing: list[Thing],
        chosen: list[Act]
    ) -> None:  # fmt: skip
        """Half of a script runs, files appear, the rest runs; then their owner works on."""
        home = tmp_path_factory.mktemp("any").resolve()
        root, canary = home / "work", home / "canary"
        root.mkdir()
        half = len(chosen) // 2
        for first, things_made, part in ((0, wanted, chosen[:half]), (len(wanted), appearing, chosen[half:])):
            build(root, things_made, first)
            before = snapshot(root)
            job = Job(argv=("bash", "-c", script(part, payload(canary))), folder=str(root))
            outcome = runner.run_blocking(job)
            for at, _, _ in os.walk(root):
                with contextlib.suppress(OSError):
                    if ".set-aside-" not in at:
                        os.chmod(at, 0o755)
            assert snapshot(root) == before, (outcome.stderr, outcome.notes)
        act(root, WORK_ON)
        assert not canary.exists(), (outcome.stderr, outcome.notes)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A journal of jobs for each test."""
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "cache"))
    yield
    jobs = tmp_path / "cache" / "jobs"
    assert [path.read_text() for path in jobs.glob("*") if path.stat().st_size] == []
