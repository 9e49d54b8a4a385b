"""No tool writes to a protected place, by any name that leads there, and keys, tokens and the store are hidden.

The tables of attempts are data that later work must pass unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Guard, Library, Policy, Session
from metier.errors import FileRefused, ProtectedPlace
from metier.guard import Action, Decision, MemoryLog
from metier.guard.protected_places import survey
from metier.tools import ToolResult, Workspace

SKILL = {"SKILL.md": "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n"}

PROTECTED = "protected-place"
REFUSED = "file-refused"

ATTEMPTS = [
    # what git starts
    (".git/hooks/pre-commit", PROTECTED),
    (".git/config", PROTECTED),
    (".git/config.worktree", PROTECTED),
    (".git/info/attributes", PROTECTED),
    (".git/commondir", PROTECTED),
    (".git/index", PROTECTED),
    (".git", PROTECTED),
    (".gitmodules", PROTECTED),
    ("sub/.git/config", PROTECTED),
    ("new/.git", PROTECTED),
    ("new/.git/config", PROTECTED),
    ("bare/config", PROTECTED),
    ("bare/hooks/post-checkout", PROTECTED),
    ("anything/HEAD", PROTECTED),
    ("half/config", PROTECTED),
    ("half/refs/heads/main", PROTECTED),
    (".husky/pre-commit", PROTECTED),
    ("lefthook.yml", PROTECTED),
    # shells and what they start
    (".envrc", PROTECTED),
    ("deep/down/.envrc", PROTECTED),
    (".bashrc", PROTECTED),
    (".config/fish/config.fish", PROTECTED),
    (".config/systemd/user/x.service", PROTECTED),
    (".ssh/authorized_keys", PROTECTED),
    (".mise.toml", PROTECTED),
    # editors and debuggers
    (".vscode/tasks.json", PROTECTED),
    (".idea/workspace.xml", PROTECTED),
    (".nvim.lua", PROTECTED),
    (".gdbinit", PROTECTED),
    # agents
    (".metier/policy.yaml", PROTECTED),
    (".metier/skills/x/SKILL.md", PROTECTED),
    (".claude/settings.json", PROTECTED),
    (".agents/skills/x/SKILL.md", PROTECTED),
    (".mcp.json", PROTECTED),
    ("AGENTS.md", PROTECTED),
    ("docs/CLAUDE.md", PROTECTED),
    # package managers and build machines
    (".npmrc", PROTECTED),
    (".cargo/config.toml", PROTECTED),
    ("sitecustomize.py", PROTECTED),
    (".github/workflows/ci.yml", PROTECTED),
    (".gitlab-ci.yml", PROTECTED),
    ("Jenkinsfile", PROTECTED),
    # other spellings
    (".GIT/config", PROTECTED),
    (".Git/hooks/x", PROTECTED),
    ("agents.MD", PROTECTED),
    (".git./config", PROTECTED),
    (".git /config", PROTECTED),
    (".git::$INDEX_ALLOCATION/config", PROTECTED),
    ("GIT~1/config", PROTECTED),
    (".g\u200cit/config", PROTECTED),
    ("docs/../.git/config", PROTECTED),
    (".git/../.git/hooks/x", PROTECTED),
    ("./././.git/./config", PROTECTED),
    (".git//hooks//x", PROTECTED),
    ("{root}/.git/config", PROTECTED),
    ("//{root}/.git/config", PROTECTED),
    # links and other names
    ("hooks-by-link/pre-commit", PROTECTED),
    ("git-by-link/config", PROTECTED),
    ("vs/tasks.json", PROTECTED),
    ("env/envrc", PROTECTED),
    ("team-hooks/pre-commit", PROTECTED),
    ("second-name.txt", PROTECTED),
    # beside the workspace
    ("../.bashrc", PROTECTED),
    ("{root}/../project/../.ssh/authorized_keys", PROTECTED),
    ("out/notes.md", REFUSED),
    ("../notes.md", REFUSED),
]  # fmt: skip
"""A path, and the code of the refusal."""

ALLOWED = [
    "docs/new.md", "src/git/config.py", "gitconfig", "hooks/pre-commit.md", "vscode/tasks.json", ".gitignore",
    ".gitattributes", ".editorconfig", "Makefile", "package.json", ".github/README.md", "docs/agents.md.txt", ".env",
    "half/notes.md", "objects/x", "refs.md", ".config/app.toml", ".cargo/notes", "heads/HEAD.md",
]  # fmt: skip
"""Ordinary work, which nothing keeps from."""


def repository(folder: Path, config: str = "[core]\n\tbare = false\n") -> None:
    for name in ("objects", "refs/heads", "hooks", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(config)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has something of every kind in it."""
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("one\n")
    repository(root / ".git", "[core]\n\thooksPath = team-hooks\n")
    repository(root / "sub" / ".git")
    repository(root / "bare")
    (root / "half").mkdir()
    (root / "half" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "vs").mkdir()
    (root / ".vscode").symlink_to("vs")
    (root / ".envrc").symlink_to("env/envrc")
    (root / "hooks-by-link").symlink_to(".git/hooks")
    (root / "git-by-link").symlink_to(".git")
    (root.parent / "outside").mkdir()
    (root / "out").symlink_to("../outside")
    (root / ".metier").mkdir()
    (root / ".metier" / "policy.yaml").write_text('version: 1\ntools:\n  deny: ["Bash(touch:*)"]\n')
    (root / ".github" / "workflows").mkdir(parents=True)
    (root / ".github" / "workflows" / "ci.yml").write_text("one\n")
    (root / "AGENTS.md").write_text("one\n")
    os.link(root / ".git" / "config", root / "second-name.txt")
    monkeypatch.chdir(root)
    return root


def content(folder: Path) -> dict[str, str]:
    """Everything below a folder, by its path: what a file holds, and where a link leads."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            full = os.path.join(path, name)
            if os.path.islink(full):
                found[full] = f"-> {os.readlink(full)}"
            elif os.path.isfile(full):
                found[full] = hashlib.sha256(Path(full).read_bytes()).hexdigest()
            else:
                found[full] = "folder"
    return found


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


def attempts(root: Path) -> Iterator[tuple[str, str]]:
    for path, code in ATTEMPTS:
        yield path.replace("{root}", str(root)), code


@pytest.mark.covers("SEC-1")
def test_a_policy_that_denies_a_command_cannot_be_written_away(root: Path) -> None:
    session = session_in(root)
    assert session.decide_call("Bash", {"command": "touch x"}).outcome == "deny"
    result = call(session, "Write", file_path=".metier/policy.yaml", content="version: 1\n")
    assert result.code == PROTECTED
    assert session.decide_call("Bash", {"command": "touch x"}).outcome == "deny"


@pytest.mark.covers("SEC-1")
def test_a_program_for_git_cannot_be_edited_in(root: Path) -> None:
    before = (root / ".git" / "config").read_text()
    result = call(
        session_in(root), "Edit", file_path=".git/config", old_string="[core]", new_string="[core]\n\tfsmonitor = evil"
    )
    assert result.code == PROTECTED
    assert (root / ".git" / "config").read_text() == before


@pytest.mark.covers("SEC-1", "SEC-10")
def test_write_reaches_no_protected_place(root: Path) -> None:
    session, before = session_in(root), content(root.parent)
    found = {path: call(session, "Write", file_path=path, content="evil").code for path, _ in attempts(root)}
    assert found == dict(attempts(root))
    assert content(root.parent) == before


@pytest.mark.covers("SEC-1")
def test_a_workspace_without_a_session_is_closed_as_well(root: Path) -> None:
    workspace, before = Workspace(root), content(root.parent)
    for path, _ in attempts(root):
        with pytest.raises(FileRefused):
            workspace.write(path, b"evil")
    assert content(root.parent) == before


@pytest.mark.covers("SEC-1", "SEC-10")
def test_edit_reaches_no_protected_place(root: Path) -> None:
    for path, code in attempts(root):
        target = Path(os.path.normpath(root / path))
        if code == PROTECTED and not target.exists() and target.is_relative_to(root) and target.name != ".git":
            Path(os.path.realpath(target)).parent.mkdir(parents=True, exist_ok=True)
            Path(os.path.realpath(target)).write_text("one\n")
    session, before = session_in(root), content(root.parent)
    arguments = {"old_string": "one", "new_string": "evil"}
    found = {path: call(session, "Edit", file_path=path, **arguments).code for path, _ in attempts(root)}
    patch = {"patch": "@@ -1 +1 @@\n-one\n+evil\n"}
    patched = {path: call(session, "Edit", file_path=path, **patch).code for path, _ in attempts(root)}
    assert found == patched == dict(attempts(root))
    assert content(root.parent) == before


def v4a(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "added": lambda path: v4a(f"*** Add File: {path}", "+evil"),
    "changed": lambda path: v4a(f"*** Update File: {path}", "@@", "-one", "+evil"),
    "deleted": lambda path: v4a(f"*** Delete File: {path}"),
    "moved there": lambda path: v4a("*** Update File: docs/a.md", f"*** Move to: {path}", "@@", "-one", "+evil"),
    "moved away": lambda path: v4a(f"*** Update File: {path}", "*** Move to: docs/b.md", "@@", "-one", "+evil"),
    "second of two": lambda path: v4a("*** Add File: docs/b.md", "+fine", f"*** Add File: {path}", "+evil"),
    "operation": lambda path: {"operation": {"type": "create_file", "path": path, "diff": "+evil"}},
    "operations": lambda path: {"operations": [{"type": "delete_file", "path": path}]},
    "operation that moves": lambda path: {
        "operation": {"type": "update_file", "path": "docs/a.md", "diff": "", "move_to": path}
    },
    "JSON": lambda path: {"input": json.dumps({"type": "delete_file", "path": path})},
    "unified": lambda path: {"input": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-one\n+evil\n"},
    "unified without folders": lambda path: {
        "patch": f"--- {path}\t2026-01-01\n+++ {path}\n@@ -1 +1 @@\n-one\n+evil\n"
    },
    "renamed by git": lambda path: {
        "patch": f"diff --git a/docs/a.md b/{path}\nsimilarity index 100%\nrename from docs/a.md\nrename to {path}\n"
    },
}


@pytest.mark.covers("SEC-1")
@pytest.mark.parametrize("form", FORMS)
def test_no_patch_reaches_a_protected_place(root: Path, form: str) -> None:
    session = session_in(root)
    missed = []
    for path, code in attempts(root):
        if code != PROTECTED:
            continue  # what leaves the workspace otherwise is for the tool to refuse
        refused, was_called = around(session, "apply_patch", FORMS[form](path))
        if was_called or refused is None or refused.code != PROTECTED:
            missed.append(path)
    assert missed == []


FOREIGN: list[tuple[str, dict[str, Any]]] = [
    *(
        (verb, {"path": ".git/hooks/pre-commit"})
        for verb in ("persist", "render", "sync", "checkout", "swap", "fix", "emit")
    ),
    *(("write_file", {name: ".git/hooks/x", "content": "x"}) for name in ("where", "key", "id", "p", "document", "at")),
    ("write_file", {"root": ".git", "path": "hooks/x"}),
    ("write_file", {"cwd": ".git", "path": "config"}),
    ("write_file", {"path": "%2egit/hooks/x"}),
    ("write_file", {"path": "'.git/hooks/x'"}),
    ("write_file", {"payload": '{"path": ".git/hooks/x"}'}),
    ("write_file", {"file": "a.txt", "new_name": "AGENTS.md"}),
    ("write_file", {"path": "a.txt", "options": {"backup": ".git/hooks/x"}}),
    ("write_file", {".git/hooks/x": "x"}),
    ("fetch_to_file", {"url": "https://example.com", "path": ".envrc"}),
    ("write_file", {"file_path": ".envrc", "text": "x"}),
    ("write_file", {"path": ".git/hooks/pre-commit", "content": "x"}),
    ("create_file", {"filename": ".mcp.json", "content": "x"}),
    ("file_delete", {"file_path": ".metier/policy.yaml"}),
    ("move_file", {"source_path": "docs/a.md", "destination_path": ".git/hooks/pre-commit"}),
    ("move_file", {"source_path": ".git/hooks", "destination_path": "docs/hooks"}),
    ("copy_file", {"source_path": "docs/a.md", "destination_path": ".vscode/tasks.json"}),
    ("edit_file", {"path": "AGENTS.md", "edits": [{"oldText": "one", "newText": "two"}]}),
    ("mcp__filesystem__write_file", {"path": "vs/tasks.json", "content": "x"}),
    ("mcp__filesystem__create_directory", {"path": "sub/.git/hooks/x"}),
    ("mcp__filesystem__move_file", {"source": "docs/a.md", "destination": ".bashrc"}),
    ("str_replace_based_edit_tool", {"command": "create", "path": ".claude/settings.json", "file_text": "{}"}),
    ("str_replace_based_edit_tool", {"command": "insert", "path": "AGENTS.md", "insert_line": 0, "insert_text": "x"}),
    ("MultiEdit", {"edits": [{"filePath": "docs/a.md"}, {"filePath": ".git/config"}]}),
    ("write_files", {"files": [{"path": "docs/b.md", "content": "x"}, {"path": ".envrc", "content": "x"}]}),
    ("write_files", {"files": {"docs/b.md": "x", ".envrc": "x"}}),
    ("NotebookEdit", {"notebook_path": ".vscode/x.ipynb", "new_source": "x"}),
    ("apply_diff", {"diff": "--- a/x\n+++ b/.git/config\n@@ -1 +1 @@\n-a\n+b\n"}),
    ("apply_patch", {"input": 'diff --git "a/\\056git/config" "b/\\056git/config"\nindex 1..2\n'}),
    ("apply_patch", {"input": ".git/config\n<<<<<<< SEARCH\none\n=======\nevil\n>>>>>>> REPLACE\n"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a\u2028*** Add File: .envrc\n+x\n*** End Patch"}),
    ("write_file", {"path": "file://{root}/.envrc", "text": "x"}),
    ("write_file", {"path": "~/.bashrc", "text": "x"}),
    ("write_file", {"path": ".envrc", "text": "x", "command": "view"}),
    ("write_file", {"name": ".envrc", "text": "x"}),
    ("saveFile", {"fileName": ".envrc", "text": "x\n"}),
    ("write_file", {"path": "hooks/x", "cwd": ".git", "text": "x"}),
    ("write_file", {"path": "workflows/ci.yml", "working_directory": ".github", "text": "x"}),
    ("apply_patch", {**v4a("*** Add File: hooks/x", "+x"), "workdir": ".git"}),
    ("write_file", {"uri": "file://{root}/%2egit/config", "text": "x"}),
]


@pytest.mark.covers("SEC-1")
@pytest.mark.each(("tool", "arguments"), FOREIGN)
def test_a_tool_of_somebody_else_is_not_called(root: Path, tool: str, arguments: dict[str, Any]) -> None:
    arguments = json.loads(json.dumps(arguments).replace("{root}", str(root)))
    refused, was_called = around(session_in(root), tool, arguments)
    assert not was_called
    assert refused is not None
    assert refused.code == PROTECTED


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
    assert 'run: {paths: [".idea:rw"]}' in (result.hint or "")
    [record] = [one for one in log.records if one.tool == "Write"]
    assert (record.decision, record.success, record.rule) == ("deny", False, "built in: protected place .idea")


@pytest.mark.covers("SEC-1")
def test_protected_files_can_be_read(root: Path) -> None:
    session = session_in(root)
    for path in (".git/config", ".github/workflows/ci.yml", "AGENTS.md", ".metier/policy.yaml"):
        assert call(session, "Read", file_path=path).success


@pytest.mark.covers("SEC-1")
def test_what_policy_grants_can_be_written_and_nothing_beside_it(root: Path) -> None:
    session = session_in(root, policy=Policy(paths=[".git:rw", "AGENTS.md:rw"]))
    open_paths = (".git/index", ".git/refs/heads/topic", ".git/HEAD", "AGENTS.md", "docs/AGENTS.md")
    closed_paths = (
        ".git/hooks/x", ".git/config", ".git/config.worktree", ".git/info/exclude", ".git/commondir", ".git/gitdir",
        ".git/modules/x/config", ".git/worktrees/x/gitdir", "new/.git", "CLAUDE.md", ".envrc", "team-hooks/pre-commit",
        "bare/config",
    )  # fmt: skip
    written = {path: call(session, "Write", file_path=path, content="x").code for path in (*open_paths, *closed_paths)}
    assert written == dict.fromkeys(open_paths) | dict.fromkeys(closed_paths, PROTECTED)


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


HIDDEN = [
    ".ssh/id_ed25519", ".gnupg/key", ".aws/credentials", ".kube/config", ".netrc", "configuration/keys/audit.ed25519",
    "data/metier.db", "data/metier.db-wal", "data/blobs", "data/audit", "secrets/id_ed25519", ".ssh/../.ssh/id_ed25519",
    "{home}/.ssh/id_ed25519",
]  # fmt: skip


@pytest.mark.covers("SEC-1")
def test_keys_tokens_and_the_store_are_not_there_for_tools(home: Path) -> None:
    (home / "secrets").symlink_to(".ssh")
    session = session_in(home)
    paths = [path.replace("{home}", str(home)) for path in HIDDEN]
    absent = call(session, "Read", file_path="notes/absent.md")
    for path in paths:
        for tool, arguments in (("Read", {"file_path": path}), ("Grep", {"pattern": "SECRET", "path": path})):
            result = call(session, tool, **arguments)
            assert (tool, path, result.code, result.hint) == (tool, path, "file-missing", absent.hint)
            assert "canary" not in str(result)
        refused, was_called = around(session, "read_file", {"path": path})
        assert (was_called, refused and refused.code) == (False, "file-missing")
    assert call(session, "Read", file_path="notes/a.md").success


@pytest.mark.covers("SEC-1")
def test_a_search_does_not_find_what_is_hidden(home: Path) -> None:
    session = session_in(home)
    listed = call(session, "Glob", pattern="**/*").data["paths"]
    assert "notes/a.md" in listed
    assert not [path for path in listed if path.startswith((".ssh", ".gnupg", ".aws", ".kube", ".netrc", "data/"))]
    assert "configuration/keys/audit.ed25519" not in listed
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

# Written out here, and not taken from the list that is tested.
NAMES = (
    ".git", ".githooks", ".husky", ".envrc", ".bashrc", ".profile", ".zshrc", ".vscode", ".idea", ".zed",
    ".devcontainer", ".claude", ".agents", ".metier", ".cursor", ".gemini", ".codex", ".mcp.json", "AGENTS.md",
    "CLAUDE.md", "GEMINI.md", ".npmrc", ".yarnrc.yml", ".gitlab-ci.yml", ".circleci", "Jenkinsfile", ".ssh",
    ".pre-commit-config.yaml", "sitecustomize.py", ".github/workflows", ".github/actions", ".cargo/config.toml",
    ".config/git", ".config/fish", "HEAD",
)  # fmt: skip
ORDINARY = ("a", "b", "docs", "src", "env", "hk", "x.md", "config", "hooks", "objects", "refs")


def protected_content(root: Path) -> dict[str, str]:
    """All that another program would start something from, by plain walking: names, what links lead to, repositories.

    What a name leads to is read through every link, so that whatever changes it changes this.
    """
    found: dict[str, str] = {}

    def add(path: str) -> None:
        if os.path.islink(path):
            found[path] = f"-> {os.readlink(path)}"
        real = os.path.realpath(path)
        if os.path.isfile(real):
            found[f"{path} at last"] = Path(real).read_text(errors="replace")
        elif os.path.isdir(real) and real != str(root):
            for name in sorted(os.listdir(real)):
                if len(path) < 1_000:
                    add(os.path.join(path, name))

    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root).split(os.sep)
        entries = {*folders, *files}
        is_repository = {"HEAD", "objects", "refs"} <= entries
        for name in entries:
            pair = f"{relative[-1]}/{name}".lower()
            is_inner = is_repository and folder != str(root)
            if name.lower() in {one.lower() for one in NAMES} or pair in NAMES or is_inner:
                add(os.path.join(folder, name))
    return found


segments = st.sampled_from((*NAMES, *ORDINARY, ".GIT", "..", ".git ", "hooks/pre-commit", "tasks.json"))
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
        before = protected_content(root)
        closed = {path: content(Path(path)) for path in survey(str(root)).closed if os.path.isdir(path)}
        attempt(session, root, kind, name, target)
        assert protected_content(root) == before, (kind, name, target)
        assert {path: content(Path(path)) for path in closed} == closed, (kind, name, target)
