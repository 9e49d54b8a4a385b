"""Folders of this machine on their way into a shell and out of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.errors import ShellRefused
from metier.run.host_files import change, list_folder, load
from metier.run.virtual import ShellLimits, VirtualShell

posix = pytest.mark.skipif(os.name != "posix", reason="links and modes as POSIX has them")
LIMITS = ShellLimits()

names = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"], exclude_characters="/\\"), min_size=1, max_size=8
)
trees = st.dictionaries(
    st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map(tuple),
    st.binary(max_size=50),
    max_size=6,
)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@posix
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees)
def test_what_goes_in_comes_out_again(
    tree: dict[tuple[str, ...], bytes], shell: VirtualShell, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source, target = tmp_path_factory.mktemp("in"), tmp_path_factory.mktemp("out")
    wanted: dict[str, bytes] = {}
    for parts, data in tree.items():
        path = source.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError:
            continue  # one name is the folder of another
        wanted["/".join(parts)] = data
    shell.execute("rm -rf /given")
    shell.make_folder("/given")
    assert shell.import_folder(source, "/given") == len(content(source))
    assert shell.export_folder("/given", target) == []
    assert content(target) == content(source)


def test_modes_and_empty_folders_are_kept(shell: VirtualShell, tmp_path: Path) -> None:
    (tmp_path / "in/empty").mkdir(parents=True)
    script = tmp_path / "in/run.sh"
    script.write_text("echo hi\n")
    script.chmod(0o755)
    shell.import_folder(tmp_path / "in", "/given")
    assert shell.execute("/given/run.sh").stdout == "hi\n"
    shell.export_folder("/given", tmp_path / "out")
    assert (tmp_path / "out/empty").is_dir()
    assert os.name != "posix" or os.access(tmp_path / "out/run.sh", os.X_OK)


@posix
def test_links_stay_links_and_lead_nowhere(shell: VirtualShell, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    source = tmp_path / "in"
    (source / "d").mkdir(parents=True)
    (source / "f").write_text("mine")
    for name, target in {
        "out": secret, "up": Path("../secret"), "in": Path("f"), "loop": Path("loop"), "folder": tmp_path,
        "d/back": Path("../f"),
    }.items():  # fmt: skip
        (source / name).symlink_to(target)
    os.mkfifo(source / "pipe")
    shell.import_folder(source, "/given")
    outcome = shell.execute("cd /given; cat out up loop folder/secret; cat in d/back; ls")
    assert outcome.stdout == "minemined\nf\nfolder\nin\nloop\nout\nup\n"
    assert "canary" not in outcome.stdout + outcome.stderr
    target = tmp_path / "out"
    failed = shell.export_folder("/given", target)
    assert sorted(line.partition(":")[0] for line in failed) == ["/folder", "/out", "/up"]
    assert (target / "in").readlink() == Path("f")
    assert (target / "d/back").readlink() == Path("../f")


@posix
def test_a_link_in_the_way_is_replaced_and_never_followed(shell: VirtualShell, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("old")
    target = tmp_path / "out"
    target.mkdir()
    (target / "f").symlink_to(outside / "f")
    (target / "d").symlink_to(outside)
    shell.write("/given/f", b"new")
    shell.write("/given/d/f", b"new")
    failed = shell.export_folder("/given", target)
    assert (outside / "f").read_text() == "old"
    assert (target / "f").read_text() == "new"
    assert not (target / "f").is_symlink()
    assert [line.partition(":")[0] for line in failed] == ["/d", "/d/f"]


@posix
def test_a_folder_that_becomes_a_link_meanwhile_is_not_entered(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "in"
    outside.mkdir()
    (outside / "f").write_text("canary")
    (folder / "d").mkdir(parents=True)
    (folder / "d/f").write_text("mine")
    found = list_folder(str(folder), LIMITS)
    (folder / "d/f").unlink()
    (folder / "d").rmdir()
    (folder / "d").symlink_to(outside)
    kept = load(str(folder), found.records, LIMITS)
    assert b"canary" not in b"".join(content for *_, content in kept)
    assert [path for path, *_ in kept] == ["/d"]
    assert change(str(folder), [("/d/f", "f", 0o644, b"evil")], ["/d/f"]) != []
    assert (outside / "f").read_text() == "canary"


@posix
@pytest.mark.parametrize("path", ["/../x", "/a/../../x", "/..", "/.", "/", "//", "/a//b", "/a/./b"])
def test_records_that_lead_out_are_not_written(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    assert len(change(str(folder), [(path, "f", 0o644, b"evil")])) == 1
    assert [entry for entry in tmp_path.rglob("*") if entry.is_file()] == []


@posix
@given(target=st.text(st.sampled_from("./ab"), max_size=12))
def test_a_link_that_is_made_stays_in_its_folder(target: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("links")
    (folder / "a/b").mkdir(parents=True)
    if change(str(folder), [("/a/link", "l", 0, target.encode())]) == []:
        made = folder / "a/link"
        assert Path(os.path.normpath(made.parent / os.readlink(made))).is_relative_to(folder)


@posix
def test_modes_that_give_rights_are_not_taken_over(tmp_path: Path) -> None:
    change(str(tmp_path), [("/f", "f", 0o6777, b"x")])
    assert (tmp_path / "f").stat().st_mode & 0o7000 == 0


@posix
def test_what_was_not_begun_in_time_is_not_done_and_named(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    failed = change(str(tmp_path), [("/a", "f", 0o644, b"x")], ["/old"], until=time.monotonic() - 1)
    assert failed == ["/old: its time was over", "/a: its time was over"]
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("limits", "fill"),
    [
        (ShellLimits(file_bytes=10), lambda folder: (folder / "f").write_bytes(b"x" * 11)),
        (ShellLimits(total_bytes=10), lambda folder: [(folder / name).write_bytes(b"x" * 6) for name in "ab"]),
        (ShellLimits(files=3), lambda folder: [(folder / name).write_bytes(b"") for name in "abcd"]),
        (ShellLimits(depth=2), lambda folder: (folder / "a/b/c").mkdir(parents=True)),
    ],
)
def test_a_folder_that_is_too_much_is_refused(
    limits: ShellLimits, fill: Callable[[Path], object], tmp_path: Path
) -> None:
    fill(tmp_path)
    with pytest.raises(ShellRefused) as caught:
        list_folder(str(tmp_path), limits)
    assert "exceeds" in caught.value.message


def test_a_folder_that_is_not_there_is_named(shell: VirtualShell, tmp_path: Path) -> None:
    for act in (
        lambda: shell.import_folder(tmp_path / "missing", "/"),
        lambda: shell.mount("demo", tmp_path / "missing"),
    ):
        with pytest.raises(ShellRefused) as caught:
            act()
        assert "missing" in caught.value.message


def test_what_is_too_much_for_the_shell_is_not_imported_in_part(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}").write_bytes(b"x" * 30)
    with VirtualShell(limits=ShellLimits(total_bytes=130)) as small:
        small.write("/f", b"x" * 20)
        with pytest.raises(ShellRefused):
            small.import_folder(tmp_path, "/given")
        assert small.usage().total_bytes == 20


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="the file system takes only UTF-8")
def test_a_name_that_is_no_text_is_left_out(shell: VirtualShell, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("x")
    with open(os.fsencode(tmp_path) + b"/bad\xff", "wb") as file:
        file.write(b"x")
    (tmp_path / "bidi\u202e").write_text("x")
    assert shell.import_folder(tmp_path, "/given") == 1
    assert [entry.name for entry in shell.list("/given")] == ["good"]


@posix
def test_a_skill_is_mounted_from_its_folder(
    shell: VirtualShell, tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    folder = write_skill(tmp_path / "demo").parent
    (folder / "scripts").mkdir()
    (folder / "scripts/hello.sh").write_text('echo "Hello from skill"\n')
    shell.mount("demo", folder)
    assert shell.execute("/.sandbox/skills/demo/scripts/hello.sh").stdout == "Hello from skill\n"
    (folder / "scripts/hello.sh").write_text("echo changed\n")
    assert shell.execute("/.sandbox/skills/demo/scripts/hello.sh").stdout == "Hello from skill\n", "it is a copy"
