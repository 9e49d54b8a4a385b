"""What closes a path in a workspace: names, links, repositories of any name, and what git's settings name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.guard.files.file_access import closing_places
from metier.guard.files.git_settings import committer_variables
from metier.guard.files.protected_places import find_protected_places


def repository(folder: Path, config: str = "") -> Path:
    """A repository as git makes it, without git."""
    for name in ("objects", "refs", "hooks"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(config)
    return folder


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return Path(os.path.realpath(tmp_path / "work"))


def closes(root: Path, path: str, *grants: str, is_link: bool = False) -> str | None:
    return next(closing_places(str(root), [(str(root / path), is_link)], grants))


@pytest.mark.covers("SEC-1", "SEC-3")
def test_what_a_protected_link_leads_to_is_closed_before_it_is_there(root: Path) -> None:
    (root / ".envrc").symlink_to("env/envrc")
    assert closes(root, "env/envrc") == "env/envrc"
    assert closes(root, "env/other") is None


@pytest.mark.covers("SEC-1", "SEC-3")
def test_a_link_on_the_way_from_a_protected_link_is_closed(root: Path) -> None:
    (root / "real").mkdir()
    (root / "middle").symlink_to("real")
    (root / ".husky").symlink_to("middle")
    assert closes(root, "middle", is_link=True) == "middle"
    assert closes(root, "real/pre-commit") == "real"


@pytest.mark.covers("SEC-1", "SEC-3")
def test_a_folder_on_the_way_is_closed_to_links_alone(root: Path) -> None:
    (root / ".envrc").symlink_to("env/envrc")
    assert closes(root, "env", is_link=True) == "env/envrc"
    assert closes(root, "env/readme") is None


@pytest.mark.covers("SEC-1", "SEC-3")
@pytest.mark.parametrize("name", [".git/hooks", ".vscode", ".claude/skills", ".github/workflows", "bare/hooks"])
def test_what_a_link_inside_a_protected_folder_leads_to_is_closed(root: Path, name: str) -> None:
    repository(root / "bare")
    (root / "bare" / "hooks").rmdir()
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(os.path.relpath(root / "elsewhere", (root / name).parent))
    assert closes(root, "elsewhere/x") == "elsewhere"
    (root / "elsewhere").mkdir()
    assert closes(root, "elsewhere/x") == "elsewhere"


@pytest.mark.covers("SEC-1", "SEC-4")
def test_hooks_that_settings_name_are_closed_before_they_are_there(root: Path) -> None:
    repository(root / ".git", "[core]\n\thooksPath = tools/hooks\n")
    assert closes(root, "tools/hooks/pre-commit") == "tools/hooks"
    assert closes(root, "tools/build.py") is None


@pytest.mark.covers("SEC-1", "SEC-4")
def test_settings_of_a_work_tree_whose_repository_is_elsewhere_count(root: Path) -> None:
    main = repository(root.parent / "main" / ".git", "[core]\n\thooksPath = team\n")
    tree = main / "worktrees" / "work"
    tree.mkdir(parents=True)
    (tree / "commondir").write_text("../..\n")
    (root / ".git").write_text(f"gitdir: {tree}\n")
    assert closes(root, "team/pre-commit") == "team"


@pytest.mark.covers("SEC-1", "SEC-4")
def test_hooks_that_the_users_settings_name_are_closed(root: Path) -> None:
    repository(root / ".git")
    (root.parent / "home" / ".gitconfig").write_text("[core]\n\thooksPath = team-hooks\n")
    assert closes(root, "team-hooks/pre-commit") == "team-hooks"


@pytest.mark.covers("SEC-1", "SEC-4")
def test_nobody_completes_a_repository_that_has_its_head(root: Path) -> None:
    (root / "fixture").mkdir()
    (root / "fixture" / "HEAD").write_text("ref: refs/heads/main\n")
    assert closes(root, "fixture/objects/x") == "fixture/HEAD"
    assert closes(root, "fixture/config") == "fixture/HEAD"
    assert closes(root, "fixture/commondir") == "fixture/HEAD"
    assert closes(root, "fixture/notes.md") is None


@pytest.mark.covers("SEC-1", "SEC-4")
def test_a_repository_among_installed_packages_is_closed(root: Path) -> None:
    repository(root / "node_modules" / "package" / "store")
    assert closes(root, "node_modules/package/store/config") == "node_modules/package/store"
    assert closes(root, "node_modules/package/index.js") is None


@pytest.mark.covers("SEC-1")
def test_another_name_of_a_protected_file_by_a_hard_link_is_closed(root: Path) -> None:
    git = repository(root / ".git")
    os.link(git / "config", root / "notes.txt")
    assert closes(root, "notes.txt") == ".git/config"


@pytest.mark.covers("SEC-1")
def test_a_word_of_an_alias_does_not_close_a_folder_of_that_name(root: Path) -> None:
    repository(root / ".git", "[alias]\n\tt = !npm test\n\tb = !sh build.sh\n")
    (root / "test").mkdir()
    (root / "build.sh").write_text("true\n")
    assert closes(root, "test/a.py") is None
    assert closes(root, "build.sh") == "build.sh"


@pytest.mark.covers("SEC-1")
def test_a_granted_repository_cannot_be_moved_elsewhere(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text("gitdir: ../elsewhere\n")
    assert closes(root, "sub/.git", ".git") == ".git"
    assert str(root / "sub" / ".git") in find_protected_places(str(root), [".git"]).closed


@pytest.mark.covers("SEC-1")
@pytest.mark.parametrize("name", ["hooks/x", "config", "config.worktree", "commondir", "gitdir", "info/x", "modules/x"])
def test_a_granted_repository_keeps_what_git_starts_something_from(root: Path, name: str) -> None:
    repository(root / ".git")
    assert closes(root, f".git/{name}", ".git") == f".git/{name.partition('/')[0]}"
    assert closes(root, ".git/index", ".git") is None
    assert closes(root, ".git/refs/heads/main", ".git") is None


# --- around the workspace -------------------------------------------------------------------------------------------


def inside(root: Path, below: str) -> Path:
    """A workspace below the folder of a project."""
    folder = root / below
    folder.mkdir(parents=True)
    return folder


@pytest.mark.covers("SEC-1", "SEC-9")
@pytest.mark.parametrize(
    ("below", "name"),
    [
        (".git/hooks", ".git"),
        (".ssh", ".ssh"),
        (".config/nvim", ".config/nvim"),
        (".config/nvim/lua", ".config/nvim"),
        (".github/workflows", ".github/workflows"),
        (".claude", ".claude"),
        (".claude/skills/a", ".claude"),
        ("sub/.husky/_", ".husky"),
    ],
)
def test_a_workspace_in_a_protected_place_is_closed_unless_that_is_granted(root: Path, below: str, name: str) -> None:
    folder = inside(root, below)
    assert closes(folder, "notes.md") == name
    assert find_protected_places(str(folder)).inside_of == name
    if name != ".git":
        assert closes(folder, "notes.md", name) is None


@pytest.mark.covers("SEC-1", "SEC-9")
def test_a_name_of_two_parts_is_known_in_a_workspace_that_is_the_first(root: Path) -> None:
    (root / ".config" / "fish").mkdir(parents=True)
    assert closes(root / ".config", "nvim/init.lua") == ".config/nvim"
    assert closes(root / ".config", "other/settings.toml") is None
    assert find_protected_places(str(root / ".config")).closed == (str(root / ".config" / "fish"),)


@pytest.mark.parametrize("below", [".claude/worktrees/fix", ".codex/worktrees/1/project", "a/.cursor/worktrees/x/y"])
def test_a_work_tree_that_an_agent_keeps_in_its_folder_is_open(root: Path, below: str) -> None:
    folder = inside(root, below)
    assert closes(folder, "src/main.py") is None
    assert closes(folder, ".claude/settings.json") == ".claude"


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize(
    "setting", ["[core]\n\thooksPath = {}\n", "[core] hooksPath = {}\n", '[core]\nhooksPath = "{}"\n']
)
def test_hooks_that_a_repository_above_names_are_closed(root: Path, setting: str) -> None:
    repository(root / ".git", setting.format("packages/a/git hooks" if '"' in setting else "packages/a/hooks"))
    folder = inside(root, "packages/a")
    hooks = "git hooks" if '"' in setting else "hooks"
    assert closes(folder, f"{hooks}/pre-commit") == hooks
    assert closes(folder, "src/main.py") is None


@pytest.mark.covers("SEC-4")
def test_a_setting_that_goes_on_in_the_next_line_counts(root: Path) -> None:
    repository(root / ".git", "[core]\n\thooksPath = too\\\nls\n")
    assert closes(root, "tools/pre-commit") == "tools"


@pytest.mark.covers("SEC-4")
def test_a_workspace_that_is_the_folder_of_hooks_is_closed(root: Path) -> None:
    repository(root / ".git", "[core]\n\thooksPath = tools/hooks\n")
    assert closes(inside(root, "tools/hooks"), "pre-commit") == "hooks"
    assert closes(inside(root, "tools/other"), "pre-commit") is None


@pytest.mark.covers("SEC-4")
def test_hooks_of_a_bare_repository_are_closed_as_workspace_and_its_work_trees_are_not(root: Path) -> None:
    repository(root / "store")
    assert closes(root / "store" / "hooks", "update") == "store"
    assert closes(inside(root, "store/main"), "src/main.py") is None


@pytest.mark.covers("SEC-3", "SEC-4")
def test_a_hook_above_that_is_a_link_into_the_workspace_closes_what_it_leads_to(root: Path) -> None:
    repository(root / ".git")
    (root / ".git" / "hooks" / "pre-commit").symlink_to("../../packages/a/check.sh")
    assert closes(inside(root, "packages/a"), "check.sh") == "check.sh"


@pytest.mark.covers("SEC-3", "SEC-9")
@pytest.mark.parametrize(
    ("link", "target", "path"),
    [
        (".bashrc", "bashrc", "bashrc"),
        (".config/nvim", "nvim", "nvim/init.lua"),
        (".claude/settings.json", "claude.json", "claude.json"),
        (".config", "config", "config/fish/config.fish"),
    ],
)
def test_what_names_in_the_home_folder_lead_to_is_closed(root: Path, link: str, target: str, path: str) -> None:
    place = root.parent / "home" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(root / target)
    assert closes(root, path) == target
    assert closes(root, "readme.md") is None


@pytest.mark.covers("SEC-9")
def test_a_workspace_that_a_name_in_the_home_folder_leads_to_is_closed(root: Path) -> None:
    home = root.parent / "home"
    (home / ".config").mkdir()
    (home / ".config" / "nvim").symlink_to(inside(root, "editor"))
    (home / ".local").symlink_to(inside(root, "disk"))
    assert closes(root / "editor", "init.lua") == ".config/nvim"
    assert closes(inside(root, "disk/bin"), "ls") == ".local/bin"
    assert closes(inside(root, "disk/share/project"), "main.py") is None


@pytest.mark.covers("SEC-3")
def test_other_names_of_protected_files_are_closed_to_jobs(root: Path) -> None:
    (root / "AGENTS.md").write_text("rules")
    (root.parent / "home" / ".bashrc").write_text("")
    (root / "docs").mkdir()
    os.link(root / "AGENTS.md", root / "docs" / "rules.md")
    os.link(root.parent / "home" / ".bashrc", root / "shell.sh")
    (root / "other.md").write_text("")
    os.link(root / "other.md", root / "more.md")
    assert find_protected_places(str(root), with_other_names=True).closed == (
        *find_protected_places(str(root)).closed,
        *(str(root / name) for name in ("shell.sh", "docs/rules.md")),
    )
    assert [closes(root, name) for name in ("shell.sh", "docs/rules.md", "more.md")] == [
        str(root.parent / "home" / ".bashrc"),
        "AGENTS.md",
        None,
    ]


SETTINGS = {
    "a comment after a value": "[core]\n\thooksPath = f;note\n",
    "another comment after a value": "[core]\n\thooksPath = f#note\n",
    "a comment that ends like a line that goes on": "[core]\n; C:\\tools\\\n\thooksPath = f\n",
    "two sections in a line": "[x][core]hooksPath=f\n",
    "a section with a bracket in its name": '[a "b]c"] textconv = ./f\n',
    "a value that goes on": "[core]\n\thooksPath = \\\n  f\n",
    "much before it": "; x\n" * 100_000 + "[core]\n\thooksPath = f\n",
    "a pager of one command": "[pager]\n\tlog = ./f\n",
    "any other program": "[sendemail]\n\tsmtpServer = ./f\n",
    "a template": "[init]\n\ttemplateDir = f\n",
    "an alias": '[alias]\n\tst = "!./f"\n',
    "an alias of several commands": '[alias]\n\tst = "!true; ./f;"\n',
    "an alias with a pipe": '[alias]\n\tst = "!a|./f"\n',
    "an alias with a command in it": '[alias]\n\tst = "!echo $(./f)"\n',
    "an alias with the folder": '[alias]\n\tst = "!$PWD/f"\n',
}


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize("of_user", [False, True])
@pytest.mark.each("settings", SETTINGS.values())
def test_settings_are_read_as_git_reads_them(root: Path, settings: str, of_user: bool) -> None:
    if not (root / ".git").exists():
        repository(root / ".git")
    file = root.parent / "home" / ".gitconfig" if of_user else root / ".git" / "config"
    file.write_text(settings)
    (root / "f").write_text("")
    assert closes(root, "f") == "f"


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize("name", ["url", "ignoreRevsFile", "excludesFile", "name"])
def test_a_setting_that_names_no_program_closes_nothing(root: Path, name: str) -> None:
    repository(root / ".git", f"[any]\n\t{name} = f\n")
    (root / "f").write_text("")
    assert closes(root, "f") is None


@pytest.mark.covers("SEC-4", "SEC-9")
def test_settings_that_variables_name_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GIT_CONFIG_GLOBAL": f"{root}/settings",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "hooks",
        "XDG_CONFIG_HOME": f"{root}/config",
    }.items():
        monkeypatch.setenv(name, value)
    (root / "settings").write_text(f"[core]\n\tpager = {root}/tools/pager\n")
    paths = ("settings", "tools/pager", "hooks/pre-commit", "config/git/config", "config/nvim/init.lua", "config/x")
    assert [closes(root, path) for path in paths] == [
        "settings", "tools/pager", "hooks", "config/git", "config/nvim", None,
    ]  # fmt: skip


@pytest.mark.covers("SEC-15")
def test_a_granted_repository_is_open_although_a_work_tree_of_it_is_beside_it(root: Path) -> None:
    repository(root / ".git")
    (root / ".git" / "worktrees" / "w").mkdir(parents=True)
    (root / ".git" / "worktrees" / "w" / "commondir").write_text("../..\n")
    (root / "w").mkdir()
    (root / "w" / ".git").write_text(f"gitdir: {root}/.git/worktrees/w\n")
    assert closes(root, ".git/index", ".git") is None
    assert closes(root, ".git/worktrees/w/index", ".git") == ".git/worktrees"
    assert str(root / ".git") not in find_protected_places(str(root), [".git"]).closed


@pytest.mark.covers("SEC-4", "SEC-15")
@pytest.mark.parametrize("folder", ["node_modules/x/.git", ".venv/.git", "__pycache__/bare"])
def test_repositories_among_packages_are_closed_to_jobs(root: Path, folder: str) -> None:
    repository(root / folder)
    (root / "node_modules" / ".github" / "workflows").mkdir(parents=True)
    assert find_protected_places(str(root), with_packages=True).closed == (str(root / folder),)
    assert find_protected_places(str(root)).closed == ()


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize("of_user", [False, True])
@pytest.mark.parametrize("path", ["{root}", "{root}/a/..", "link", "{root}/"])
def test_a_workspace_that_is_named_as_the_folder_of_hooks_has_no_new_hooks(
    root: Path, path: str, of_user: bool
) -> None:
    (root / "a").mkdir()
    (root / "link").symlink_to(".")
    settings = f"[core]\n\thooksPath = {path.format(root=root)}\n"
    repository(root / ".git", "" if of_user else settings)
    if of_user:
        (root.parent / "home" / ".gitconfig").write_text(settings)
    assert [closes(root, name) for name in ("pre-commit", "main.py")] == ["pre-commit", None]


@pytest.mark.covers("SEC-4")
def test_a_template_that_is_the_workspace_has_no_new_hooks(root: Path) -> None:
    (root / "hooks").mkdir()
    (root.parent / "home" / ".gitconfig").write_text(f"[init]\n\ttemplateDir = {root}\n")
    assert [closes(root, name) for name in ("hooks/pre-commit", "readme.md")] == ["hooks/pre-commit", None]
    assert closes(root / "hooks", "post-checkout") == "post-checkout"


@pytest.mark.covers("SEC-3", "SEC-4")
def test_hooks_and_settings_of_other_work_trees_count(root: Path) -> None:
    main = repository(root.parent / "main" / ".git")
    for name, settings in (("work", ""), ("other", f"[core]\n\thooksPath = {root}/hk\n")):
        (main / "worktrees" / name).mkdir(parents=True)
        (main / "worktrees" / name / "commondir").write_text("../..\n")
        (main / "worktrees" / name / "config.worktree").write_text(settings)
    (root / ".git").write_text(f"gitdir: {main}/worktrees/work\n")
    (main / "hooks" / "pre-commit").symlink_to(root / "check.sh")
    assert [closes(root, path) for path in ("check.sh", "hk/pre-commit", "x")] == ["check.sh", "hk", None]


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize("settings", ["[pager]\n\tlog = t/f\n", "[sendemail]\n\tsmtpserver = t/f\n"])
def test_a_program_that_is_absent_cannot_be_made(root: Path, settings: str) -> None:
    repository(root / ".git", settings)
    assert closes(root, "t/f") == "t/f"


@pytest.mark.covers("SEC-4")
@pytest.mark.parametrize("name", ["commondir", "config"])
def test_a_folder_in_the_place_of_a_file_of_a_repository_says_nothing(root: Path, name: str) -> None:
    main = repository(root / ".git")
    (main / name).unlink(missing_ok=True)
    (main / name).mkdir()
    (root.parent / "home" / ".gitconfig").mkdir()
    assert committer_variables(str(root)) == {}
    assert closes(root, "readme.md") is None
    assert closes(root, f".git/{name}/x") == ".git"
