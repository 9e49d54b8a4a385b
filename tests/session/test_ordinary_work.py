"""Ordinary work goes on in the cage, and what needs a grant says which."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.tables import thinned

from metier import Library, Policy
from metier.errors import InvalidArgument
from metier.run import NativeRunner, Outcome

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="cages are made by Linux"),
    pytest.mark.covers("SEC-15"),
]
Work = Callable[..., Outcome]
GIT = ("-c", "user.name=n", "-c", "user.email=n@example.com")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An ordinary repository with a commit and a change."""
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    (folder / "file").write_text("one\n")
    for words in (["init", "-q"], ["add", "file"], [*GIT, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "file").write_text("two\n")
    return folder


@pytest.fixture
def work(tmp_path: Path, workspace: Path) -> Work:
    """Runs a script of a skill in the workspace."""

    def go(script: str, *, asks: tuple[str, ...] = (), policy: Policy | None = None) -> Outcome:
        folder = tmp_path / "skills" / "work"
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        (folder / "scripts/work.sh").write_text(script)
        paths = "".join(f"    - {path}\n" for path in asks)
        execution = f"execution:\n  allowed-paths:\n{paths}" if asks else ""
        (folder / "SKILL.md").write_text(f"---\nname: work\ndescription: Works.\n{execution}---\nWork.\n")
        session = Library.from_folder(tmp_path / "skills", cache=False).session(
            skills=["work"], workspace=str(workspace), runner=NativeRunner(), policy=policy or Policy()
        )
        return session.run_blocking("scripts/work.sh")

    return go


def commits(workspace: Path) -> list[str]:
    done = subprocess.run(["git", "log", "--format=%s"], cwd=workspace, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_script_looks_at_the_repository_without_any_grant(work: Work) -> None:
    outcome = work(
        "set -e; git log --format=%s; git status --short; git diff | grep ^+two; git show --stat HEAD | tail -1"
    )
    assert (outcome.exit_code, outcome.stdout) == (0, "first\n M file\n+two\n 1 file changed, 1 insertion(+)\n")
    assert outcome.notes == ()


def test_a_script_commits_with_the_grant_that_it_asks_for(work: Work, workspace: Path) -> None:
    script = f"set -e; git {' '.join(GIT)} commit -qam second; git branch other; git switch -q other; git tag v1"
    outcome = work(script, asks=(".git:rw",), policy=Policy(paths=[".git:rw"]))
    assert (outcome.exit_code, outcome.stderr, commits(workspace)) == (0, "", ["second", "first"])
    done = subprocess.run(["git", "fsck"], cwd=workspace, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert not any((workspace / ".git" / name).exists() for name in ("commondir", "modules", "worktrees"))


def test_a_script_with_the_grant_leaves_nothing_beside_its_work_in_the_repository(work: Work, workspace: Path) -> None:
    before = sorted(os.listdir(workspace / ".git"))
    outcome = work("git log --format=%s", asks=(".git:rw",), policy=Policy(paths=[".git:rw"]))
    assert (outcome.stdout, outcome.notes) == ("first\n", ())
    assert sorted(os.listdir(workspace / ".git")) == before


@thinned(("asks", "grants"), [((), ()), ((".git:rw",), ()), ((), (".git:rw",)), ((".git:ro",), (".git:rw",))], one_in=2)
def test_a_script_that_does_not_ask_or_is_not_granted_commits_nothing_and_is_told_what_to_grant(
    work: Work, workspace: Path, asks: tuple[str, ...], grants: tuple[str, ...]
) -> None:
    outcome = work(f"git {' '.join(GIT)} commit -qam second", asks=asks, policy=Policy(paths=list(grants)))
    assert outcome.exit_code != 0 and commits(workspace) == ["first"]
    assert any(".git:rw" in note for note in outcome.notes)


def test_a_command_commits_with_the_grant_of_a_policy(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "skills").mkdir()
    for paths, expected in (([], ["first"]), ([".git:rw"], ["second", "first"])):
        session = Library.from_folder(tmp_path / "skills", cache=False).session(
            workspace=str(workspace), runner=NativeRunner(), policy=Policy(paths=paths)
        )
        executor = session.executor(builtin=["Bash"])
        executor.execute_blocking("Bash", {"command": f"git {' '.join(GIT)} commit -qam second"})
        assert commits(workspace) == expected


def test_tests_of_python_run(work: Work, workspace: Path) -> None:
    pytest_folder = os.path.dirname(os.path.dirname(pytest.__file__))
    (workspace / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    # Plugins that frameworks bring would take longer than all else.
    alone = f"PYTHONPATH={pytest_folder} PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
    outcome = work(f"{alone} python3 -m pytest -q test_it.py -p no:cacheprovider")
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    assert "1 passed" in outcome.stdout


def test_tests_of_node_run(work: Work, workspace: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("the packages of tests/npm are not installed")
    (workspace / "package.json").write_text('{"name": "a", "scripts": {"test": "node -e \\"console.log(6 * 7)\\""}}')
    outcome = work("npm test")
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    assert "42" in outcome.stdout


def test_make_builds_what_is_new(work: Work, workspace: Path) -> None:
    (workspace / "Makefile").write_text("out/app: file\n\tmkdir -p out && cp file $@.tmp && mv $@.tmp $@\n")
    outcome = work("set -e; make -s; make -s; cat out/app")
    assert (outcome.exit_code, outcome.stdout) == (0, "two\n")


def test_a_build_with_locks_and_links_works(work: Work, workspace: Path) -> None:
    script = """set -e
    mkdir -p target/debug/deps target/debug/.fingerprint target/debug/incremental
    exec 9> target/.lock; flock 9
    for n in 1 2 3; do echo $n > target/debug/deps/app-$n.tmp; mv target/debug/deps/app-$n.tmp target/debug/deps/app-$n
    ln -f target/debug/deps/app-$n target/debug/app; done
    printf '#!/bin/sh\\necho built\\n' > target/debug/run; chmod +x target/debug/run; target/debug/run
    cat target/debug/app; rm -rf target/debug/incremental"""
    outcome = work(script)
    assert (outcome.exit_code, outcome.stdout, outcome.notes) == (0, "built\n3\n", ())
    assert (workspace / "target/debug/app").stat().st_nlink == 2


def test_a_repository_in_a_folder_for_temporary_files_is_the_jobs_own(work: Work) -> None:
    script = (
        f"set -e; cd $(mktemp -d); git init -q; git {' '.join(GIT)} commit -q --allow-empty -m m; git log --format=%s"
    )
    outcome = work(script)
    assert (outcome.exit_code, outcome.stdout, outcome.notes) == (0, "m\n", ())


def test_git_shows_what_it_knows_of_a_work_tree_and_of_a_submodule(tmp_path: Path, workspace: Path) -> None:
    subprocess.run(["git", "worktree", "add", "-q", "-b", "topic", tmp_path / "tree"], cwd=workspace, check=True)
    allowed = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", *allowed, "submodule", "--quiet", "add", workspace, "module"], cwd=workspace, check=True)
    (tmp_path / "skills").mkdir()
    for folder in (tmp_path / "tree", workspace / "module"):
        (folder / "file").write_text("changed\n")
        session = Library.from_folder(tmp_path / "skills", cache=False).session(
            workspace=folder, runner=NativeRunner(tier="namespaces")
        )
        outcome = anyio.run(
            session.runs.command, "git log --format=%s; git status --short; git commit -qam evil; echo end"
        )
        assert outcome.stdout == "first\n M file\nend\n", outcome.stderr


def test_a_repository_that_does_not_name_the_workspace_is_not_shown(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".git").write_text(f"gitdir: {workspace}/.git\n")
    session = Library.from_folder(tmp_path / "skills", cache=False).session(
        workspace=tmp_path / "other", runner=NativeRunner(tier="namespaces")
    )
    assert "first" not in anyio.run(session.runs.command, f"git log --format=%s; ls {workspace}/.git").stdout


def test_what_git_could_not_change_is_told_although_it_goes_on(work: Work, workspace: Path) -> None:
    for words in (["switch", "-qc", "other"], ["add", "AGENTS.md"], [*GIT, "commit", "-qm", "rules"]):
        (workspace / "AGENTS.md").write_text("rules\n")
        subprocess.run(["git", *words], cwd=workspace, check=True)
    subprocess.run(["git", "stash", "-q"], cwd=workspace, check=False)
    outcome = work("git switch -q -; true", asks=(".git:rw",), policy=Policy(paths=[".git:rw"]))
    assert outcome.is_success
    assert [note for note in outcome.notes if note.startswith("AGENTS.md is a protected place")]


def test_what_no_grant_opens_is_said_to_be_so(work: Work) -> None:
    outcome = work("git config a.b c", asks=(".git:rw",), policy=Policy(paths=[".git:rw"]))
    (note,) = outcome.notes
    assert note.startswith(".git/config ")
    assert note.endswith("It stays closed whatever is granted: change it yourself, at a terminal.")


def test_a_script_that_would_make_a_repository_is_told_who_makes_it(work: Work, workspace: Path) -> None:
    shutil.rmtree(workspace / ".git")
    outcome = work("git init -q")
    assert outcome.exit_code != 0
    (note,) = [note for note in outcome.notes if ".git" in note]
    assert "git init" in note and ".git:rw" not in note


def test_what_is_set_aside_is_told_with_its_grant(work: Work, workspace: Path) -> None:
    outcome = work("mkdir -p deep/.husky && echo x > deep/.husky/pre-commit")
    (note,) = [note for note in outcome.notes if ".husky" in note]
    assert 'run: {paths: [".husky:rw"]}' in note


def test_a_script_that_may_commit_commits_in_the_name_of_the_user(work: Work, workspace: Path, own_home: Path) -> None:
    (own_home / ".gitconfig").write_text('[user]\n\tname = Ada L # not this\n\temail = "ada@example.com"\n')
    asks, policy = (".git:rw",), Policy(paths=[".git:rw"])
    script = "git commit -qam second && git log -1 --format='%an %ae %cn'"
    assert work(script, asks=asks, policy=policy).stdout == "Ada L ada@example.com Ada L\n"
    subprocess.run(["git", "config", "user.name", "Own"], cwd=workspace, check=True)
    (workspace / "file").write_text("three\n")
    assert work(script, asks=asks, policy=policy).stdout == "Own ada@example.com Own\n", "the repository's own counts"
    assert work("echo $GIT_AUTHOR_NAME").stdout == "\n", "who may not commit need not know"


def test_the_host_says_who_commits(tmp_path: Path, workspace: Path) -> None:
    folder = tmp_path / "skills" / "who"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts/x.sh").write_text("echo $GIT_AUTHOR_NAME $GIT_COMMITTER_EMAIL\n")
    (folder / "SKILL.md").write_text("---\nname: who\ndescription: Says who.\n---\nSay.\n")
    session = Library.from_folder(tmp_path / "skills", cache=False).session(
        skills=["who"], workspace=str(workspace), runner=NativeRunner()
    )
    env = {"GIT_AUTHOR_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com"}
    assert session.run_blocking("scripts/x.sh", env=env).stdout == "Ada ada@example.com\n"
    with pytest.raises(InvalidArgument, match="GIT_CONFIG_COUNT"):
        session.run_blocking("scripts/x.sh", env={"GIT_CONFIG_COUNT": "1"})
