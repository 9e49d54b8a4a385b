"""Protected places: one list of names, at any depth, with links and git's settings followed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metier.guard.files.file_access import closing_places
from metier.guard.files.protected_names import CLOSED_IN_REPOSITORY, PROTECTED, protected_name_in
from metier.guard.files.protected_places import find_protected_places

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

# What the findings name, written out: the list must never lose one of them.
NAMES_OF_FINDINGS = [
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".git/worktrees",
    ".gitconfig", ".gitmodules", ".config/git", ".husky", ".pre-commit-config.yaml", ".bashrc", ".bash_profile",
    ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zprofile", ".zshenv", ".zlogin",
    ".zlogout", ".config/fish", ".envrc", ".ripgreprc", ".ssh", ".vscode", ".idea", ".zed", ".devcontainer",
    ".devcontainer.json", ".vimrc", ".exrc", ".agents", ".claude", ".codex", ".cursor", ".gemini", ".metier",
    ".mcp.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".github/workflows", ".github/actions",
    ".gitlab-ci.yml", ".circleci", ".cargo/config.toml", ".hg/hgrc", ".gdbinit", ".lldbinit", ".nvim.lua", ".nvimrc",
    ".dir-locals.el", "lefthook.yml", ".overcommit.yml", ".mise.toml", ".forgejo/workflows", ".gitea/workflows",
    ".travis.yml", ".drone.yml", "Jenkinsfile", "azure-pipelines.yml", ".yarn/releases", ".mvn/jvm.config",
    ".bazelrc", ".pdbrc", ".tmux.conf", ".cshrc", ".kshrc", ".config/autostart", ".config/systemd/user",
    ".config/nvim", "usercustomize.py", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".windsurf",
    ".continue", "opencode.json",
]  # fmt: skip


def write(path: Path, text: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def closed(folder: Path, *grants: str) -> set[str]:
    return {os.path.relpath(path, folder.resolve()) for path in find_protected_places(str(folder), grants).closed}


@pytest.mark.covers("SEC-10")
@pytest.mark.each("name", NAMES_OF_FINDINGS)
def test_each_name_is_protected_at_any_depth_and_in_any_case(name: str) -> None:
    for path in (name, f"sub/deep/{name}", f"{name}/inside", name.upper(), f"{name}.", f"./{name}"):
        assert protected_name_in(path) is not None, path


@pytest.mark.covers("SEC-10")
@pytest.mark.each("name", PROTECTED, every=3)
def test_each_name_is_found_on_disk_and_nothing_beside_it(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("w")
    write(folder / name / "inside")
    write(folder / "sub" / name / "inside")
    write(folder / "ordinary.txt")
    found = find_protected_places(str(folder))
    paths = {str(folder.resolve() / name), str(folder.resolve() / "sub" / name)}
    assert set(found.closed) == set(found.names) == paths


ORDINARY = [
    "Makefile", "src/a.py", "hooks/x", "config", "github/workflows", ".gitignore", ".gitattributes",
    "docs/agents.txt", "objects", "refs", ".github/FUNDING.yml", "package.json",
]  # fmt: skip


@pytest.mark.each("path", ORDINARY)
def test_ordinary_work_is_not_protected(path: str) -> None:
    assert protected_name_in(path) is None


@pytest.mark.covers("SEC-10")
@pytest.mark.each(
    "path",
    [".GIT/config", ".Git/hooks/x", ".git /config", ".git./config", ".g\u200cit/config", "git~1/config",
     ".git::$INDEX_ALLOCATION/config", "a/../.git/config", ".git//config"],
)  # fmt: skip
def test_a_name_is_compared_as_any_file_system_would_find_it(path: str) -> None:
    assert protected_name_in(path) == ".git"


@pytest.mark.covers("SEC-15")
def test_a_granted_repository_is_open_but_for_what_git_starts_something_from(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    write(tmp_path / ".git/hooks/pre-commit")
    write(tmp_path / ".git/info/exclude")
    assert closed(tmp_path) == {".git"}
    assert closed(tmp_path, ".git") == {".git/hooks", ".git/config", ".git/info"}
    assert protected_name_in(".git/index", [".git"]) is None
    for name in CLOSED_IN_REPOSITORY:
        assert protected_name_in(f".git/{name}/x", [".git"]) == f".git/{name}"


@pytest.mark.covers("SEC-3")
def test_what_a_protected_link_leads_to_is_closed(tmp_path: Path) -> None:
    for name, target in {
        ".git/hooks": "../githooks",
        ".envrc": "env/envrc",
        "a/.vscode": "../vs",
        ".github": "gh",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).symlink_to(target)
    write(tmp_path / "githooks/pre-commit"), write(tmp_path / "env/envrc"), write(tmp_path / "vs/tasks.json")
    write(tmp_path / "gh/workflows/x.yml")
    assert closed(tmp_path, ".git") >= {"githooks", "env/envrc", "vs", "gh"}
    root = str(tmp_path.resolve())
    paths = [(f"{root}/env/envrc", False), (f"{root}/env/other", False)]
    assert list(closing_places(root, paths)) == ["env/envrc", None]


@pytest.mark.each("target", [".", "..", "/", "gone", "/etc/passwd", ".envrc"])
def test_a_link_that_leads_anywhere_else_closes_nothing_more(
    tmp_path_factory: pytest.TempPathFactory, target: str
) -> None:
    folder = tmp_path_factory.mktemp("w")
    (folder / ".envrc").symlink_to(target)
    found = find_protected_places(str(folder))
    assert (found.closed, dict(found.links)) == ((), {str(folder.resolve() / ".envrc"): target})


@pytest.mark.covers("SEC-4")
def test_a_repository_is_one_whatever_its_name(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "vendor/lib"], check=True)
    assert closed(tmp_path) == {"vendor/lib"}
    config = str(tmp_path.resolve() / "vendor/lib/config")
    assert list(closing_places(str(tmp_path.resolve()), [(config, False)])) == ["vendor/lib"]
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "top"], check=True)
    assert closed(tmp_path / "top") >= {"config", "hooks"}


@pytest.mark.covers("SEC-3")
@pytest.mark.each(
    ("setting", "value", "expected"),
    [
        ("core.hooksPath", "tools/hooks", "tools/hooks"),
        ("core.fsmonitor", "tools/watch.sh", "tools/watch.sh"),
        ("core.editor", "sh tools/edit.sh -w", "tools/edit.sh"),
        ("filter.x.clean", "./tools/clean.sh %f", "tools/clean.sh"),
        ("diff.x.textconv", "tools/show.sh", "tools/show.sh"),
        ("alias.st", "!tools/alias.sh", "tools/alias.sh"),
        ("include.path", "../tools/gitconfig", "tools/gitconfig"),
        ("gpg.program", "tools/gpg", "tools/gpg"),
        ("diff.external", "tools/diff.sh", "tools/diff.sh"),
        ("interactive.diffFilter", "tools/filter.sh", "tools/filter.sh"),
        ("uploadpack.packObjectsHook", "tools/pack.sh", "tools/pack.sh"),
        ("gpg.ssh.defaultKeyCommand", "tools/key.sh", "tools/key.sh"),
    ],
)
def test_what_git_is_set_to_start_is_closed(
    tmp_path_factory: pytest.TempPathFactory, setting: str, value: str, expected: str
) -> None:
    folder = tmp_path_factory.mktemp("w")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "config", setting, value], cwd=folder, check=True)
    write(folder / expected / "x") if expected.endswith("hooks") else write(folder / expected, "[a]\n\tb = c\n")
    assert closed(folder) == {".git", expected}


@pytest.mark.covers("SEC-3")
def test_what_links_in_a_protected_folder_lead_to_is_closed(tmp_path: Path) -> None:
    for name, target in {".git/hooks/pre-commit": "../../check.sh", ".claude/skills/a": "../../skills/a"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).symlink_to(target)
    write(tmp_path / "check.sh"), write(tmp_path / "skills/a/SKILL.md")
    assert closed(tmp_path) == {".git", ".claude", "check.sh", "skills/a"}


def test_what_is_included_includes_more(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "config", "include.path", "../one"], cwd=tmp_path, check=True)
    write(tmp_path / "one", "[include]\n\tpath = two\n[include]\n\tpath = one\n")
    write(tmp_path / "two", "[core]\n\thooksPath = h\n")
    write(tmp_path / "h/pre-commit")
    assert closed(tmp_path) == {".git", "one", "two", "h"}


def test_a_change_is_seen_although_its_time_was_set_back(tmp_path: Path) -> None:
    write(tmp_path / "sub/file")
    times = os.stat(tmp_path / "sub")
    assert closed(tmp_path) == set()
    write(tmp_path / "sub/.envrc")
    os.utime(tmp_path / "sub", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert closed(tmp_path) == {"sub/.envrc"}


def test_installed_packages_are_not_searched(tmp_path: Path) -> None:
    write(tmp_path / "node_modules/x/.npmrc")
    write(tmp_path / ".venv/lib/.vscode/x")
    assert closed(tmp_path) == set()


@pytest.mark.each("name", ["gone", "file", "with\0zero", "x" * 5000])
def test_a_folder_that_cannot_be_opened_has_nothing(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("w")
    (folder / "file").write_text("")
    if "\0" not in name:
        assert find_protected_places(f"{folder}/{name}").closed == ()


def test_pipes_and_sockets_are_found_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".profile")
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/config")
    assert closed(tmp_path) == {".profile", ".git"}


def test_the_list_has_no_name_twice_and_goes_two_parts_deep() -> None:
    assert len({name.casefold() for name in PROTECTED}) == len(PROTECTED)
    assert all(name.count("/") <= 1 and not os.path.isabs(name) and ".." not in name for name in PROTECTED)
