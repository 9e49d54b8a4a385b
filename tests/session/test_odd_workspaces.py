"""Workspaces that lie in protected places, or have what decides about skills among their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import thinned

from metier import Library, Policy, Session
from metier.errors import FileRefused
from metier.guard.open_stores import open_store
from metier.run import NativeRunner
from metier.session.resource_grants import hidden_paths
from metier.tools import ToolResult

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="cages are made by Linux"),
    pytest.mark.covers("SEC-1", "SEC-15"),
]


@pytest.fixture(params=["namespaces", "landlock"])
def runner(request: pytest.FixtureRequest) -> NativeRunner:
    from metier.run.native.runner import why_not, works

    if not works(request.param):
        pytest.skip(why_not())
    return NativeRunner(tier=request.param)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def session_in(workspace: Path, runner: NativeRunner, *paths: str) -> Session:
    (workspace.parent / "no-skills").mkdir(exist_ok=True)
    library = Library.from_folder(workspace.parent / "no-skills")
    return library.session(workspace=workspace, runner=runner, policy=Policy(paths=paths))


def bash(session: Session, command: str) -> ToolResult:
    return session.executor(builtin=("Bash", "Read", "Write")).execute_blocking("Bash", {"command": command})


@thinned("below", [".git/hooks", ".github/workflows", ".claude", ".vscode"], one_in=2)
def test_a_workspace_in_a_protected_place_is_only_read(project: Path, runner: NativeRunner, below: str) -> None:
    (project / below).mkdir(parents=True, exist_ok=True)
    (project / below / "there").write_text("before\n")
    result = bash(session_in(project / below, runner), "cat there; echo evil > there; echo evil > pre-commit")
    assert "before" in str(result.result)
    assert "lies in a protected place" in str(result)
    assert (project / below / "there").read_text() == "before\n"
    assert not (project / below / "pre-commit").exists()


def test_a_grant_opens_a_workspace_in_a_protected_place(project: Path, runner: NativeRunner) -> None:
    (project / ".vscode").mkdir()
    assert bash(session_in(project / ".vscode", runner, ".vscode:rw"), "echo {} > tasks.json").success
    assert (project / ".vscode" / "tasks.json").read_text() == "{}\n"


def test_a_workspace_below_a_repository_cannot_write_its_hooks(project: Path, runner: NativeRunner) -> None:
    workspace = project / "packages" / "a"
    (workspace / "hooks").mkdir(parents=True)
    subprocess.run(["git", "-C", project, "config", "core.hooksPath", "packages/a/hooks"], check=True)
    bash(session_in(workspace, runner), "echo evil > hooks/pre-commit; echo good > main.py")
    assert not (workspace / "hooks" / "pre-commit").exists()
    assert (workspace / "main.py").read_text() == "good\n"


def test_a_protected_file_is_not_written_by_its_second_name(project: Path, runner: NativeRunner) -> None:
    (project / "AGENTS.md").write_text("before\n")
    os.link(project / "AGENTS.md", project / "rules.md")
    os.link(project / ".git" / "config", project / "settings")
    before = (project / ".git" / "config").read_text()
    bash(session_in(project, runner), "echo evil > rules.md; echo evil >> settings; echo good > main.py")
    assert (project / "AGENTS.md").read_text() == "before\n"
    assert (project / ".git" / "config").read_text() == before
    assert (project / "main.py").read_text() == "good\n"


def test_what_a_store_believes_cannot_be_made_beside_it(
    project: Path, runner: NativeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data").mkdir()
    store = project / "data" / "x.db"
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{store}")
    open_store(f"sqlite:///{store}").close()
    files = " ".join(f"data/x.db-{end}" for end in ("journal", "wal", "shm"))
    result = bash(session_in(project, runner), f"for f in {files} data/x.db; do echo evil > $f; done; echo good > a")
    assert (project / "a").read_text() == "good\n", result
    assert not [
        path for path in (project / "data").glob("x.db*") if path.is_file() and path.read_bytes()[:4] == b"evil"
    ]
    assert not (project / "data" / "x.db-journal").exists()


def test_nothing_runs_among_the_files_of_a_store(
    project: Path, runner: NativeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_STORE", f"sqlite:///{project}/x.db")
    result = bash(session_in(project, runner), "echo evil > a")
    assert (result.code, "METIER_STORE" in (result.hint or "")) == ("file-refused", True)
    assert not (project / "a").exists()


@pytest.mark.parametrize("variable", ["METIER_CONFIG", "METIER_CACHE"])
def test_what_we_would_believe_cannot_be_made(
    project: Path, runner: NativeRunner, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(project / "ours" / "deep"))
    bash(session_in(project, runner), "mkdir -p ours/deep; echo evil > ours/deep/policy.yaml; echo good > a")
    assert (project / "a").read_text() == "good\n"
    assert not (project / "ours" / "deep" / "policy.yaml").exists()


@thinned("below", [".ssh", ".gnupg/private", "metier-config", "metier-config/keys"], one_in=2)
def test_nothing_runs_or_reads_where_keys_are(own_home: Path, runner: NativeRunner, below: str) -> None:
    (own_home / below).mkdir(parents=True)
    (own_home / below / "key").write_text("secret")
    session = session_in(own_home / below, runner)
    assert not bash(session, "cat key; echo evil > other").success
    with pytest.raises(FileRefused):
        hidden_paths(session.guard, str(own_home / below))
    read = session.executor(builtin=("Read",)).execute_blocking("Read", {"file_path": "key"})
    assert (read.code, "secret" in str(read)) == ("file-missing", False)
