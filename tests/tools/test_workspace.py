"""Files inside a folder, and nothing outside it."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import FileMissing, FileRefused, FileTooLarge, InvalidArgument, MetierError
from metier.tools import Workspace

many_rounds = pytest.mark.parametrize("rounds", [60, pytest.param(3_000, marks=pytest.mark.slow)], ids=["few", "many"])
posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a file, beside a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "work"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text("hello")
    return folder


@pytest.mark.parametrize("path", ["docs/a.md", "./docs//a.md", "docs/../docs/a.md", "docs/x/../a.md", "docs/a.md/"])
def test_a_path_inside_is_read(root: Path, path: str) -> None:
    content = Workspace(root).read(path)
    assert content.data == b"hello"
    assert content.path == str((root / "docs" / "a.md").resolve())


def test_an_absolute_path_inside_is_read(root: Path) -> None:
    for path in (f"{root}/docs/a.md", f"{root}/docs/../docs/a.md", f"{root}/../work/docs/a.md"):
        assert Workspace(root).read(path).data == b"hello"


@posix
def test_a_workspace_that_is_named_by_a_link_answers_to_both_names(root: Path, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to(root)
    workspace = Workspace(tmp_path / "name")
    assert workspace.read(f"{tmp_path}/name/docs/a.md").data == b"hello"
    assert workspace.read(f"{root}/docs/a.md").data == b"hello"


OUTSIDE = [
    "..",
    "../secret.txt",
    "docs/../../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "~/x",
    "~",
    "/",
    "x/../../work/x",
]


@pytest.mark.each("path", OUTSIDE)
def test_a_path_that_leaves_is_refused(root: Path, path: str) -> None:
    workspace = Workspace(root)
    for use in (workspace.read, workspace.folder, workspace.walk, lambda path: workspace.write(path, b"x")):
        with pytest.raises(FileRefused, match=r"leaves the workspace \(path traversal\)") as caught:
            use(path)
        assert caught.value.hint


def test_a_folder_whose_name_begins_like_the_workspace_is_outside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "work-too").mkdir()
    (tmp_path / "work-too" / "x").write_text("x")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        Workspace(root).read(f"{tmp_path}/work-too/x")


@pytest.mark.each("path", ["", "  ", "a\0b", "a\nb", "\ud800", "\u202eab", "x" * 5_000, None, 3, ["a"]])
def test_a_path_that_is_none_is_refused(root: Path, path: str) -> None:
    with pytest.raises(FileRefused, match=r"cannot be empty|control characters"):
        Workspace(root).read(path)


@pytest.mark.parametrize("path", ["nothing", "docs/nothing", "docs/a.md/x", "x" * 300])
def test_what_is_not_there_is_missing(root: Path, path: str) -> None:
    with pytest.raises((FileMissing, FileRefused)) as caught:
        Workspace(root).read(path)
    assert "not found" in str(caught.value) or "cannot be read" in str(caught.value)


def test_a_folder_is_not_a_file(root: Path) -> None:
    for path in ("docs", "."):
        with pytest.raises(FileRefused, match="not a file"):
            Workspace(root).read(path)


def test_the_limit_is_the_last_size_that_is_read(root: Path) -> None:
    assert Workspace(root).read("docs/a.md", limit=5).data == b"hello"
    with pytest.raises(FileTooLarge, match="5 bytes, which exceeds maximum size 4"):
        Workspace(root).read("docs/a.md", limit=4)


@posix
@pytest.mark.parametrize("target", ["docs/a.md", "docs/../docs/a.md", "docs/b", "{root}/docs/a.md"])
def test_a_link_that_stays_inside_is_followed(root: Path, target: str) -> None:
    (root / "docs" / "b").symlink_to("a.md")
    (root / "link").symlink_to(target.format(root=root.resolve()))
    content = Workspace(root).read("link")
    assert content.data == b"hello"
    assert content.path == str(root.resolve() / "docs" / "a.md")


@posix
@pytest.mark.parametrize("target", ["../secret.txt", "{outside}/secret.txt", "/etc/passwd", "docs/../../secret.txt"])
def test_a_link_that_leads_out_is_refused(root: Path, tmp_path: Path, target: str) -> None:
    (root / "link").symlink_to(target.format(outside=tmp_path.resolve()))
    workspace = Workspace(root)
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.read("link")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.write("link", b"changed")
    assert (tmp_path / "secret.txt").read_text() == "secret"


@posix
def test_a_folder_that_is_a_link_out_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path)
    workspace = Workspace(root)
    for use in (workspace.read, lambda path: workspace.write(path, b"x")):
        with pytest.raises(FileRefused, match="leaves the workspace"):
            use("out/secret.txt")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.folder("out")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.write("out/new.txt", b"x")
    assert sorted(os.listdir(tmp_path)) == ["secret.txt", "work"]


@posix
def test_links_in_a_circle_are_refused(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(FileRefused, match="Too many links"):
        Workspace(root).read("a")


@posix
def test_special_files_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    try:
        here = os.getcwd()
        os.chdir(root)
        server.bind("socket")
        os.chdir(here)
        workspace = Workspace(root)
        for name in ("pipe", "socket"):
            with pytest.raises(FileRefused, match="not a file"):
                workspace.read(name)
            with pytest.raises(FileRefused, match="not a plain file"):
                workspace.write(name, b"x")
        assert workspace.walk().files == ("docs/a.md",)
    finally:
        server.close()


@posix
@many_rounds
def test_a_folder_that_is_swapped_for_a_link_never_leads_out(root: Path, tmp_path: Path, rounds: int) -> None:
    (tmp_path / "a.md").write_text("secret")
    (root / "other").symlink_to(tmp_path)
    workspace = Workspace(root)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(root / "docs", root / "kept")
            os.rename(root / "other", root / "docs")
            os.rename(root / "docs", root / "other")
            os.rename(root / "kept", root / "docs")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = set()
        for _ in range(rounds):
            try:
                seen.add(workspace.read("docs/a.md").data)
            except MetierError as error:
                seen.add(error.code.encode())
    finally:
        done.set()
        thread.join()
    assert seen <= {b"hello", b"file-missing", b"file-refused"}
    assert workspace.read("docs/a.md").data == b"hello"


@posix
def test_a_folder_that_becomes_a_link_while_it_is_listed_does_not_lead_out(root: Path, tmp_path: Path) -> None:
    (root / "inner").mkdir()
    (root / "inner" / "b.md").touch()
    for target in (tmp_path, root / "inner"):
        (root / "way").mkdir()

        def swap(target: Path = target) -> list[str]:
            # Asked for in the midst of it, after the folder was looked at.
            (root / "way").rmdir()
            (root / "way").symlink_to(target)
            return []

        assert Workspace(root, readable=swap).walk("way").files == ()
        (root / "way").unlink()


@posix
@pytest.mark.parametrize("tool", ["Read", "Grep"])
def test_where_a_link_leads_is_asked_about_before_it_is_read(root: Path, tool: str) -> None:
    (root / "secret").mkdir()
    (root / "secret" / "key").write_text("s3cret")
    (root / "docs" / "x").symlink_to("../secret/key")
    (root / "docs" / "same").symlink_to("a.md")
    asked: list[tuple[str, str]] = []

    def allows(tool: str, path: str) -> bool:
        asked.append((tool, path))
        return "/secret/" not in path

    workspace = Workspace(root, allows=allows)
    with pytest.raises(FileRefused, match=f"'docs/x' leads through a link to what {tool} may not be used on") as caught:
        workspace.read("docs/x", tool=tool)
    assert caught.value.hint
    assert workspace.read("docs/same", tool=tool).data == b"hello"
    real = root.resolve()
    assert asked == [(tool, str(real / "secret" / "key")), (tool, str(real / "docs" / "a.md"))]


@posix
def test_where_a_link_leads_is_asked_about_before_it_is_written(root: Path) -> None:
    secret = root / "secret"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    (root / "docs" / "x").symlink_to("../secret/key")
    (root / "docs" / "in").symlink_to("../secret")
    asked: list[str] = []

    def allows(tool: str, path: str) -> bool:
        asked.append(tool)
        return False

    workspace = Workspace(root, allows=allows)
    for path in ("docs/x", "docs/in/key", "docs/in/new"):
        with pytest.raises(FileRefused, match="what Write may not be used on"):
            workspace.write(path, b"y")
    with pytest.raises(FileRefused, match="what Edit may not be used on"):
        workspace.update("docs/x", lambda _: b"y")
    with pytest.raises(FileRefused, match="what Glob may not be used on"):
        workspace.walk("docs/in")
    assert asked == ["Write", "Write", "Write", "Edit", "Glob"]
    assert [(file.name, file.read_text()) for file in secret.iterdir()] == [("key", "s3cret")]


@posix
def test_a_link_that_is_put_there_between_reading_and_writing_changes_nothing(root: Path) -> None:
    (root / "key").write_text("s3cret")

    def change(_: bytes) -> bytes:
        (root / "docs" / "a.md").unlink()
        (root / "docs" / "a.md").symlink_to("../key")
        return b"y"

    with pytest.raises(FileRefused, match="what Edit may not be used on"):
        Workspace(root, allows=lambda _, path: "docs" in path).update("docs/a.md", change)
    assert (root / "key").read_text() == "s3cret"


def test_a_path_without_links_was_decided_about_and_is_not_asked_about_again(root: Path, tmp_path: Path) -> None:
    workspace = Workspace(root, readable=[tmp_path], allows=lambda *_: False)
    assert workspace.read("docs/../docs/a.md").data == b"hello"
    assert workspace.read(str(root / "docs" / "a.md")).data == b"hello"
    assert workspace.read(str(tmp_path / "secret.txt")).data == b"secret"
    assert workspace.write("new/b.md", b"x") == workspace.update("new/b.md", lambda data: data)
    assert workspace.walk().files == ("docs/a.md", "new/b.md")


@posix
@many_rounds
def test_a_link_that_is_swapped_never_leads_to_what_is_not_allowed(root: Path, rounds: int) -> None:
    (root / "secret").mkdir()
    (root / "secret" / "key").write_text("s3cret")
    workspace = Workspace(root, allows=lambda _, path: "/docs/" in path)
    done = threading.Event()

    def swap() -> None:
        at = 0
        while not done.is_set():
            at += 1
            os.symlink(("a.md", "../secret/key")[at % 2], root / "docs" / "new")
            os.replace(root / "docs" / "new", root / "docs" / "x")

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(rounds):
            try:
                seen.add(workspace.read("docs/x").data)
            except MetierError as error:
                seen.add(error.code.encode())
    finally:
        done.set()
        thread.join()
    assert b"s3cret" not in seen


def test_what_is_written_is_read(root: Path) -> None:
    workspace = Workspace(root)
    path = workspace.write("new/deep/file.txt", b"one\r\ntwo")
    assert path == str(root.resolve() / "new" / "deep" / "file.txt")
    assert Path(path).read_bytes() == b"one\r\ntwo"
    workspace.write("new/deep/file.txt", b"")
    assert Path(path).read_bytes() == b""
    assert os.listdir(root / "new" / "deep") == ["file.txt"]


@posix
def test_a_file_keeps_its_permissions(root: Path) -> None:
    (root / "run.sh").write_text("x")
    (root / "run.sh").chmod(0o750)
    Workspace(root).write("run.sh", b"y")
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750


@posix
def test_a_read_only_file_stays_as_it_is(root: Path) -> None:
    (root / "docs" / "a.md").chmod(0o444)
    with pytest.raises(FileRefused, match="read-only"):
        Workspace(root).write("docs/a.md", b"x")
    assert (root / "docs" / "a.md").read_text() == "hello"


@posix
def test_writing_through_a_link_inside_changes_what_it_leads_to(root: Path) -> None:
    (root / "link").symlink_to("docs/a.md")
    (root / "new").symlink_to("docs/new.md")
    workspace = Workspace(root)
    workspace.write("link", b"changed")
    workspace.write("new", b"made")
    assert (root / "link").is_symlink()
    assert (root / "docs" / "a.md").read_text() == "changed"
    assert (root / "docs" / "new.md").read_text() == "made"


def test_a_folder_is_not_written_over(root: Path) -> None:
    for path in ("docs", "."):
        with pytest.raises(FileRefused, match="is a folder"):
            Workspace(root).write(path, b"x")


def test_a_failed_write_leaves_nothing_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FileRefused, match="cannot be written: No space left"):
        Workspace(root).write("docs/a.md", b"x")
    assert os.listdir(root / "docs") == ["a.md"]
    assert (root / "docs" / "a.md").read_text() == "hello"


def test_changes_at_the_same_time_are_all_kept(root: Path) -> None:
    workspace = Workspace(root)
    workspace.write("count", b"")
    threads = [
        threading.Thread(target=lambda: [workspace.update("count", lambda data: data + b"x") for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert workspace.read("count").data == b"x" * 80


def test_more_folders_can_be_read_and_not_written(root: Path, tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("Do it.")
    active: list[Path] = []
    workspace = Workspace(root, readable=lambda: active)
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.read(f"{skill}/SKILL.md")
    active.append(skill)
    assert workspace.read(f"{skill}/SKILL.md").data == b"Do it."
    assert workspace.walk(str(skill)).files == ("SKILL.md",)
    with pytest.raises(FileRefused, match="can be read, not written"):
        workspace.write(f"{skill}/SKILL.md", b"x")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.read(f"{skill}/../secret.txt")
    active.clear()
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.read(f"{skill}/SKILL.md")


@posix
def test_a_link_in_a_folder_that_can_be_read_does_not_lead_out_of_it(root: Path, tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "link").symlink_to("../secret.txt")
    with pytest.raises(FileRefused, match="leaves the workspace"):
        Workspace(root, readable=[skill]).read(f"{skill}/link")


def test_a_walk_lists_plain_files_in_order(root: Path) -> None:
    for name in ("b/c.txt", "b/a/x.txt", "z.txt", ".hidden", ".git/config", "node_modules/m.js"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    tree = Workspace(root).walk()
    assert tree.files == (".hidden", "z.txt", "b/c.txt", "b/a/x.txt", "docs/a.md")
    assert tree.stopped_at is None
    assert Workspace(root).walk("b").files == ("c.txt", "a/x.txt")


def test_a_walk_is_bounded(root: Path) -> None:
    for number in range(5):
        (root / f"{number}.txt").write_text("x")
    tree = Workspace(root).walk(limit=3)
    assert len(tree.files) == 3
    assert tree.stopped_at == "3 files"
    deep = root
    for _ in range(70):
        deep /= "d"
    deep.mkdir(parents=True)
    assert Workspace(root).walk().stopped_at == "a depth of 64 folders"


@posix
def test_a_walk_follows_no_links(root: Path, tmp_path: Path) -> None:
    (root / "up").symlink_to("..")
    (root / "file").symlink_to("docs/a.md")
    assert Workspace(root).walk().files == ("docs/a.md",)


def test_a_path_may_only_be_so_deep(root: Path) -> None:
    with pytest.raises(FileRefused, match="more than 100 folders deep"):
        Workspace(root).write("d/" * 101 + "x", b"x")


def test_where_folders_cannot_be_opened_by_descriptor_the_same_holds(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier._paths.HAS_DIR_FD", False)
    workspace = Workspace(root)
    assert workspace.read("docs/a.md").data == b"hello"
    assert workspace.write("new/b.md", b"x") == str(root.resolve() / "new" / "b.md")
    assert workspace.walk().files == ("docs/a.md", "new/b.md")
    assert workspace.folder() == str(root.resolve())
    with pytest.raises(FileRefused, match="leaves the workspace"):
        workspace.read("../secret.txt")
    with pytest.raises(FileMissing):
        workspace.read("none")
    if os.name == "posix":
        (root / "out").symlink_to(tmp_path)
        for use in (workspace.read, lambda path: workspace.write(path, b"x")):
            with pytest.raises(FileRefused, match="leaves the workspace"):
                use("out/secret.txt")


def test_a_workspace_is_a_folder(root: Path) -> None:
    for path in (root / "nothing", root / "docs" / "a.md"):
        with pytest.raises(InvalidArgument, match="is no folder"):
            Workspace(path)


PARTS = st.sampled_from(["..", ".", "", "docs", "a.md", "link", "out", "/", "~", "work", "secret.txt", "..."])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace full of ways out."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    root = outside / "work"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("hello")
    if os.name == "posix":
        (root / "link").symlink_to("..")
        (root / "docs" / "out").symlink_to("../../secret.txt")
        (root / "docs" / "link").symlink_to(root)
    return root


@given(st.lists(PARTS, min_size=1, max_size=8))
def test_no_path_leads_out(place: Path, parts: list[str]) -> None:
    try:
        content = Workspace(place).read("/".join(parts))
    except MetierError as error:
        assert error.code in ("file-refused", "file-missing")
        assert error.hint
    else:
        assert content.data == b"hello"
