"""No tool writes to a protected place, by any name that leads there, and keys, tokens and the store are hidden.

The tables of attempts are in tests/attacks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protected import NAMES, content, project, repository, snapshot

from metier import Guard, Library, Policy, Session
from metier.errors import ProtectedPlace
from metier.guard import Action, Decision, MemoryLog
from metier.guard.files.protected_places import find_protected_places
from metier.tools import ToolResult, Workspace

SKILL = {"SKILL.md": "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n"}

PROTECTED = "protected-place"

ALLOWED = [
    "docs/new.md", "src/git/config.py", "gitconfig", "hooks/pre-commit.md", "vscode/tasks.json", ".gitignore",
    ".gitattributes", ".editorconfig", "Makefile", "package.json", ".github/README.md", "docs/agents.md.txt", ".env",
    "half/notes.md", "objects/x", "refs.md", ".config/app.toml", ".cargo/notes", "heads/HEAD.md",
]  # fmt: skip
"""Ordinary work, which nothing keeps from."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has something of every kind in it."""
    root = project(Path(os.path.realpath(tmp_path)) / "project")
    monkeypatch.chdir(root)
    return root


def session_in(root: Path, **options: Any) -> Session:
    return Library.from_files(SKILL).session(workspace=root, **options)


def call(session: Session, tool: str, **arguments: Any) -> ToolResult:
    return session.executor(builtin=["Read", "Write", "Edit", "Glob", "Grep"]).execute_blocking(tool, arguments)


def around(session: Session, tool: str, arguments: dict[str, Any]) -> tuple[ToolResult | None, bool]:
    """The refusal of a call of somebody else's tool, and whether that was called."""
    calls = []

    async def called() -> str:
        calls.append(tool)
        return "done"

    result = anyio.run(session.executor().around, tool, arguments, called)
    return (result if isinstance(result, ToolResult) else None), bool(calls)


@pytest.mark.covers("SEC-1")
def test_a_policy_that_denies_a_command_cannot_be_written_away(root: Path) -> None:
    session = session_in(root)
    assert session.calls.decide("Bash", {"command": "touch x"}).outcome == "deny"
    result = call(session, "Write", file_path=".metier/policy.yaml", content="version: 1\n")
    assert result.code == PROTECTED
    assert session.calls.decide("Bash", {"command": "touch x"}).outcome == "deny"


@pytest.mark.covers("SEC-1")
def test_a_program_for_git_cannot_be_edited_in(root: Path) -> None:
    before = (root / ".git" / "config").read_text()
    result = call(
        session_in(root), "Edit", file_path=".git/config", old_string="[core]", new_string="[core]\n\tfsmonitor = evil"
    )
    assert result.code == PROTECTED
    assert (root / ".git" / "config").read_text() == before


def v4a(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


@pytest.mark.each(
    ("tool", "arguments"),
    [
        ("str_replace_based_edit_tool", {"command": "view", "path": ".github/workflows/ci.yml"}),
        ("read_file", {"file_path": ".git/config"}),
        ("Edit", {"file_path": "docs/a.md", "old_string": "one", "new_string": "see .git/hooks and AGENTS.md"}),
        ("create_issue", {"title": "HEAD", "body": "look at .git/hooks"}),
        ("apply_patch", v4a("*** Update File: docs/a.md", "@@", "-one", "+see .git/hooks/pre-commit")),
        ("apply_patch", {"input": "--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1 +1 @@\n-one\n+.git/hooks\n"}),
        ("web_search", {"query": ".git/config"}),
        ("write_file", {"path": "docs/b.md", "content": "../.git/config"}),
    ],
)
def test_a_call_that_only_speaks_of_protected_places_is_made(root: Path, tool: str, arguments: dict[str, Any]) -> None:
    refused, was_called = around(session_in(root), tool, arguments)
    assert (refused, was_called) == (None, True)


def test_ordinary_files_are_written(root: Path) -> None:
    session = session_in(root)
    found = {path: call(session, "Write", file_path=path, content="x").code for path in ALLOWED}
    assert found == dict.fromkeys(ALLOWED)


@pytest.mark.covers("SEC-1")
def test_a_refusal_names_what_protects_and_what_to_grant_and_is_recorded(root: Path) -> None:
    log = MemoryLog()
    session = session_in(root, guard=Guard(audit=log))
    result = call(session, "Write", file_path=".idea/x.xml", content="x")
    assert result.code == PROTECTED
    assert ".idea is protected" in (result.error or "")
    assert 'ask the user, whose policy can grant .idea: `run: {paths: [".idea:rw"]}`.' in (result.hint or "")
    [record] = [one for one in log.records if one.tool == "Write"]
    assert (record.decision, record.success, record.rule) == ("deny", False, "built in: protected place .idea")


@pytest.mark.covers("SEC-1")
def test_protected_files_can_be_read(root: Path) -> None:
    session = session_in(root)
    for path in (".git/config", ".github/workflows/ci.yml", "AGENTS.md", ".metier/policy.yaml"):
        assert call(session, "Read", file_path=path).success


@pytest.mark.covers("SEC-1")
def test_the_users_policy_file_grants_a_name_and_that_of_a_project_does_not(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = 'version: 1\nrun:\n  paths: ["AGENTS.md:rw"]\n'
    (root / ".metier" / "policy.yaml").write_text(grant)
    assert call(session_in(root), "Write", file_path="AGENTS.md", content="x").code == PROTECTED
    monkeypatch.setenv("HOME", str(root.parent))
    (root.parent / ".metier").mkdir()
    (root.parent / ".metier" / "policy.yaml").write_text(grant)
    session = session_in(root)
    assert call(session, "Write", file_path="AGENTS.md", content="x").success
    assert call(session, "Write", file_path="CLAUDE.md", content="x").code == PROTECTED


@pytest.mark.covers("SEC-1")
def test_nothing_is_made_on_the_way_to_what_is_refused(root: Path) -> None:
    before = content(root)
    with pytest.raises(ProtectedPlace):
        Workspace(root).write("fresh/folder/.vscode/tasks.json", b"{}")
    assert content(root) == before


@pytest.mark.covers("SEC-1")
@pytest.mark.parametrize("target", [".git/hooks", "../outside", "vs"])
def test_a_link_that_appears_after_the_decision_leads_nowhere_protected(root: Path, target: str) -> None:
    def agree(action: Action, decision: Decision) -> bool:
        (root / "late").rmdir()
        (root / "late").symlink_to(target)
        return True

    (root / "late").mkdir()
    session = session_in(root, guard=Guard(Policy(ask="Write"), approve=agree))
    before = {path: state for path, state in content(root.parent).items() if "/late" not in path}
    result = call(session, "Write", file_path="late/pre-commit", content="evil")
    assert not result.success
    assert {path: state for path, state in content(root.parent).items() if "/late" not in path} == before


# --- what decides about skills, and secrets -------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which everything of ours lies, as workspace."""
    home = Path(os.path.realpath(tmp_path)) / "home"
    for name in (".ssh", ".gnupg", ".aws", ".kube", "notes", "skills/greet", "work"):
        (home / name).mkdir(parents=True)
    for name in (".ssh/id_ed25519", ".gnupg/key", ".aws/credentials", ".kube/config", ".netrc", "notes/a.md"):
        (home / name).write_text("SECRET-canary\n" if name != "notes/a.md" else "plain\n")
    (home / "skills" / "greet" / "SKILL.md").write_text(SKILL["SKILL.md"])
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (("CONFIG", "configuration"), ("DATA", "data"), ("CACHE", "cache")):
        monkeypatch.setenv(f"METIER_{name}", str(home / folder))
        (home / folder).mkdir()
    monkeypatch.delenv("METIER_STORE", raising=False)
    (home / "configuration" / "keys").mkdir()
    (home / "configuration" / "trusted").mkdir()
    for name in ("configuration/keys/audit.ed25519", "data/metier.db-wal", "data/blobs", "data/audit"):
        (home / name).write_text("SECRET-canary\n")
    monkeypatch.chdir(home / "work")
    return home


KEPT = [
    "configuration/trusted/x", "configuration/policy.yaml", "configuration/keys/audit.ed25519", "data/metier.db",
    "data/metier.db-wal", "data/audit/checkpoints.jsonl", "data/blobs/x", "cache/index", "skills/greet/SKILL.md",
    "skills/other/SKILL.md", ".metier/policy.yaml", ".bashrc", ".ssh/authorized_keys", ".aws/credentials",
    ".config/metier/policy.yaml", ".netrc", ".kube/config", "link/trusted/x",
]  # fmt: skip


@pytest.mark.covers("SEC-1")
def test_what_decides_about_skills_is_not_written_in_a_home_folder(home: Path) -> None:
    (home / "link").symlink_to("configuration")
    session = Library.from_folder(home / "skills").session(workspace=home)
    before = content(home / "skills") | content(home / "configuration") | content(home / ".ssh")
    written = {path: call(session, "Write", file_path=path, content="evil").code for path in KEPT}
    assert written == dict.fromkeys(KEPT, PROTECTED)
    deleted = {path: around(session, "apply_patch", v4a(f"*** Delete File: {path}"))[1] for path in KEPT}
    assert not any(deleted.values())
    assert content(home / "skills") | content(home / "configuration") | content(home / ".ssh") == before
    assert call(session, "Write", file_path="notes/b.md", content="x").success


@pytest.mark.covers("SEC-1")
def test_what_is_hidden_is_answered_as_what_is_not_there(home: Path) -> None:
    session = session_in(home)
    absent = call(session, "Read", file_path="notes/absent.md")
    result = call(session, "Read", file_path=".ssh/id_ed25519")
    assert (result.code, result.hint) == (absent.code, absent.hint) == ("file-missing", absent.hint)
    listed = call(session, "Glob", pattern="**/*").data["paths"]
    assert "notes/a.md" in listed
    assert not [path for path in listed if path.startswith((".ssh", ".gnupg", ".aws", ".kube", ".netrc", "data/"))]
    assert call(session, "Grep", pattern="SECRET-canary").data["count"] == 0
    assert call(session, "Grep", pattern="plain").data["count"] == 1


@pytest.mark.covers("SEC-1")
def test_a_project_in_the_folder_of_the_store_can_be_worked_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_DATA", str(home / "work"))
    session = session_in(home / "work")
    assert call(session, "Write", file_path="a.md", content="x").success
    assert call(session, "Read", file_path="a.md").success
    assert call(session, "Write", file_path="metier.db", content="x").code == PROTECTED


# --- random workspaces ----------------------------------------------------------------------------------------------

ORDINARY = ("a", "b", "docs", "src", "env", "hk", "x.md", "config", "hooks", "objects", "refs")


segments = st.sampled_from((*NAMES, "HEAD", *ORDINARY, ".GIT", "..", ".git ", "hooks/pre-commit", "tasks.json"))
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)
steps = st.one_of(
    st.tuples(st.just("file"), paths, st.none()),
    st.tuples(st.just("folder"), paths, st.none()),
    st.tuples(st.just("link"), paths, paths),
    st.tuples(st.just("repository"), paths, st.none()),
)
calls = st.one_of(
    st.tuples(st.just("Write"), paths, st.none()),
    st.tuples(st.just("Edit"), paths, st.none()),
    st.tuples(st.sampled_from(["Add", "Update", "Delete"]), paths, st.none()),
    st.tuples(st.just("Move"), paths, paths),
)


def build(root: Path, step: tuple[str, str, str | None]) -> None:
    kind, name, target = step
    path = Path(os.path.normpath(root / name))
    if not path.is_relative_to(root) or path == root:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            path.write_text("one\n")
        elif kind == "folder":
            path.mkdir(exist_ok=True)
        elif kind == "link":
            path.symlink_to(os.path.relpath(root / str(target), path.parent))
        else:
            repository(path, "[core]\n\thooksPath = hk\n")
    except OSError:
        pass


def patched_by_somebody(root: Path, kind: str, name: str, target: str | None) -> Callable[[], Any]:
    """What a plain tool for patches does, which knows nothing of protected places."""

    async def apply() -> str:
        path = root / name
        try:
            if kind == "Delete":
                path.unlink()
            elif kind == "Move":
                (root / str(target)).parent.mkdir(parents=True, exist_ok=True)
                path.rename(root / str(target))
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("evil\n")
        except (OSError, ValueError):
            pass
        return "done"

    return apply


def attempt(session: Session, root: Path, kind: str, name: str, target: str | None) -> None:
    if kind == "Write":
        call(session, "Write", file_path=name, content="evil\n")
        return
    if kind == "Edit":
        call(session, "Edit", file_path=name, old_string="one", new_string="evil")
        return
    lines = {
        "Add": (f"*** Add File: {name}", "+evil"),
        "Update": (f"*** Update File: {name}", "@@", "-one", "+evil"),
        "Delete": (f"*** Delete File: {name}",),
        "Move": (f"*** Update File: {name}", f"*** Move to: {target}", "@@", "-one", "+evil"),
    }[kind]
    apply = patched_by_somebody(root, kind, name, target)
    anyio.run(session.executor().around, "apply_patch", v4a(*lines), apply)


@pytest.mark.covers("SEC-1")
@given(made=st.lists(steps, max_size=14), appearing=st.lists(steps, max_size=3), wanted=st.lists(calls, max_size=12))
def test_random_calls_change_nothing_protected_in_random_workspaces(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[str, str, str | None]],
    appearing: list[tuple[str, str, str | None]],
    wanted: list[tuple[str, str, str | None]],
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("random"))) / "work"
    root.mkdir()
    for step in made:
        build(root, step)
    session = session_in(root)
    for at, (kind, name, target) in enumerate(wanted):
        if at % 4 == 3 and appearing:
            build(root, appearing[at // 4 % len(appearing)])
        before = snapshot(root)
        closed = {path: content(Path(path)) for path in find_protected_places(str(root)).closed if os.path.isdir(path)}
        attempt(session, root, kind, name, target)
        assert snapshot(root) == before, (kind, name, target)
        assert {path: content(Path(path)) for path in closed} == closed, (kind, name, target)
