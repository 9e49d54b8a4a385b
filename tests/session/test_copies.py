"""What runs is what was loaded, whatever has become of the skill's files since."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.tables import thinned

from metier import Library, Policy, Session
from metier.errors import FileRefused, MetierError, SkillChanged, SkillUnreadable
from metier.guard import MemoryLog
from metier.session.copies import Copies

Begin = Callable[..., Session]
Files = Callable[..., dict[str, str]]
Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and shells as POSIX has them")

FREE = Policy(unsandboxed="allow", hooks="allow")
HERE = 'printf %s "$SKILL_DIR"'


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path, write_skill: Write) -> Path:
    """A skill on disk that says what it is, and where."""
    folder = write_skill(tmp_path / "s" / "a").parent
    (folder / "scripts").mkdir()
    (folder / "scripts" / "x.sh").write_text("echo original\n")
    (folder / "scripts" / "here.sh").write_text(HERE)
    return folder


@pytest.fixture
def session(begin_in: Begin, folder: Path, scratch: Path) -> Session:
    """A session that has loaded it."""
    return begin_in(folder.parent, skills=["a"], policy=FREE)


def put_a_link(folder: Path, outside: Path) -> None:
    (folder / "scripts" / "x.sh").unlink()
    (folder / "scripts" / "x.sh").symlink_to(outside / "x.sh")


def link_the_folder(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder / "scripts")
    (folder / "scripts").symlink_to(outside)


def link_the_skill(folder: Path, outside: Path) -> None:
    shutil.copytree(folder, outside / "skill")
    shutil.copy(outside / "x.sh", outside / "skill" / "scripts" / "x.sh")
    shutil.rmtree(folder)
    folder.symlink_to(outside / "skill")


def write_something_else(folder: Path, outside: Path) -> None:
    shutil.copy(outside / "x.sh", folder / "scripts" / "x.sh")


def write_as_much(folder: Path, outside: Path) -> None:
    (folder / "scripts" / "x.sh").write_text("echo impostor\n")


def change_what_it_uses(folder: Path, outside: Path) -> None:
    (folder / "SKILL.md").write_text("other")


def remove(folder: Path, outside: Path) -> None:
    (folder / "scripts" / "x.sh").unlink()


CHANGES = [
    put_a_link, link_the_folder, link_the_skill, write_something_else, write_as_much, change_what_it_uses, remove,
]  # fmt: skip


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a script that is no part of the skill."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "x.sh").write_text("echo from outside\n")
    return folder


def roots_in(scratch: Path) -> list[Path]:
    """The folders of copies that are in use."""
    return [path for path in scratch.iterdir() if path.name.startswith("skill-copy-")]


@thinned("change", CHANGES, one_in=2)
def test_what_has_changed_does_not_run_where_its_copy_is_gone(
    session: Session, log: MemoryLog, folder: Path, outside: Path, scratch: Path, change: Callable[[Path, Path], None]
) -> None:
    shutil.rmtree(session.loaded.one().root)
    change(folder, outside)
    with pytest.raises(SkillChanged, match="have changed since it was loaded") as caught:
        session.run_blocking("scripts/x.sh", by="model")
    assert caught.value.hint == "Load it again."
    record = log.records[-1]
    assert (record.event, record.success, record.code) == ("run", False, "skill-changed")
    assert roots_in(scratch) == [], "nothing is left behind"


@pytest.mark.covers("SEC-5")
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_loaded_runs_as_it_was_whatever_becomes_of_its_files(
    session: Session, log: MemoryLog, folder: Path, outside: Path, change: Callable[[Path, Path], None]
) -> None:
    digest = session.loaded.one().digest
    change(folder, outside)
    outcome = anyio.run(lambda: session.run("scripts/x.sh", by="model"))
    assert outcome.stdout == "original\n"
    assert log.records[-1].digest == digest


def test_a_skill_that_is_loaded_again_runs_what_it_is_now(session: Session, folder: Path, scratch: Path) -> None:
    session.run_blocking("scripts/x.sh")
    (folder / "scripts" / "x.sh").write_text("echo changed\n")
    session.load("a")
    assert session.run_blocking("scripts/x.sh").stdout == "changed\n"
    assert len(roots_in(scratch)) == 1, "the copy of what it was is gone"


def test_a_file_that_was_put_beside_it_is_no_part_of_what_runs(session: Session, folder: Path) -> None:
    (folder / "scripts" / "here.py").write_text("print('added')")
    (folder / "scripts" / "__pycache__").mkdir()
    found = Path(session.run_blocking("scripts/here.sh").stdout)
    assert sorted(path.name for path in found.rglob("*")) == ["SKILL.md", "here.sh", "scripts", "x.sh"]


def test_a_second_run_uses_the_same_copy(session: Session, scratch: Path) -> None:
    first, second = (session.run_blocking("scripts/here.sh").stdout for _ in range(2))
    assert first == second
    assert Path(first).parent.parent == scratch.resolve()
    assert Path(first).name == "a"


def test_a_copy_is_private_and_its_files_are_read_only(begin_in: Begin, folder: Path, scratch: Path) -> None:
    (folder / "scripts" / "x.sh").chmod(0o755)
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    root = Path(session.run_blocking("scripts/here.sh").stdout)
    assert root.parent.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_file()}
    assert modes == {"SKILL.md": 0o444, "here.sh": 0o444, "x.sh": 0o555}


@thinned(
    "script",
    [
        'chmod u+w "$SKILL_DIR/scripts/x.sh"; echo "echo mine" > "$SKILL_DIR/scripts/x.sh"',
        'rm -f "$SKILL_DIR/scripts/x.sh"; ln -s /bin/true "$SKILL_DIR/scripts/x.sh"',
        'echo "echo added" > "$SKILL_DIR/scripts/added.sh"',
        'mkdir "$SKILL_DIR/scripts/__pycache__"; echo "echo added" > "$SKILL_DIR/scripts/__pycache__/x.sh"',
        'ln -s /bin "$SKILL_DIR/node_modules"; chmod a+x "$SKILL_DIR/scripts/x.sh"',
        'rm -rf "$SKILL_DIR"',
        'chmod 0 "$SKILL_DIR/scripts"',
    ],
    one_in=3,
)
def test_whatever_a_script_does_to_its_copy_the_next_run_begins_afresh(
    begin_in: Begin, folder: Path, scratch: Path, script: str
) -> None:
    (folder / "scripts" / "bad.sh").write_text(script)
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    session.run_blocking("scripts/bad.sh")
    assert not session.loaded.one().is_stale, "the skill itself is as it was"
    assert session.run_blocking("scripts/x.sh").stdout == "original\n"
    root = Path(session.run_blocking("scripts/here.sh").stdout)
    assert str(root) == session.loaded.one().root, "where the model was told that it is"
    assert sorted(path.name for path in (root / "scripts").iterdir()) == ["bad.sh", "here.sh", "x.sh"]
    session.close()
    assert roots_in(scratch) == []


def test_links_inside_a_skill_work_and_links_that_leave_are_left_out(
    begin_in: Begin, folder: Path, outside: Path, scratch: Path
) -> None:
    (folder / "lib").mkdir()
    (folder / "lib" / "words").write_text("inside\n")
    (folder / "scripts" / "lib").symlink_to("../lib")
    (folder / "out").symlink_to(outside)
    (folder / "up").symlink_to("../../../outside")
    (folder / "back").symlink_to(folder / "lib")
    (folder / "scripts" / "y.sh").write_text('cd "$SKILL_DIR"; cat scripts/lib/words; ls -d out up back')
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    for _ in range(2):
        assert session.run_blocking("scripts/y.sh").stdout == "inside\n"


def test_a_link_that_leads_elsewhere_by_now_is_a_change(begin_in: Begin, folder: Path, scratch: Path) -> None:
    (folder / "link").symlink_to("SKILL.md")
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    shutil.rmtree(session.loaded.one().root)
    (folder / "link").unlink()
    (folder / "link").symlink_to("scripts/x.sh")
    with pytest.raises(SkillChanged):
        session.run_blocking("scripts/x.sh")


def test_a_skill_in_memory_runs_from_a_copy_too(begin: Begin, skill: Files, scratch: Path) -> None:
    session = begin(skill("a", **{"scripts/here.sh": HERE}), skills=["a"], policy=FREE)
    assert Path(session.run_blocking("scripts/here.sh").stdout).is_dir()
    session.close()
    assert roots_in(scratch) == []


@pytest.mark.parametrize("how", ["unload", "replace", "close", "block", "forget it"])
def test_copies_go_when_the_skill_or_the_session_does(
    begin_in: Begin, folder: Path, scratch: Path, write_skill: Write, how: str
) -> None:
    write_skill(folder.parent / "b")
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    root = Path(session.loaded.one().root)
    assert root.parent in roots_in(scratch)
    match how:
        case "unload":
            session.unload("a")
        case "replace":
            session.load("b")
        case "close":
            session.close()
        case "block":
            session.guard.block("a")
            assert session.active == ()
        case _:
            del session
            gc.collect()
    assert root.parent not in roots_in(scratch)


def test_a_copy_stays_for_as_long_as_something_runs_from_it(session: Session, scratch: Path) -> None:
    one = session.loaded.one()
    with session.parts.copies.of(one) as root:
        session.close()
        assert Path(root, "scripts", "x.sh").read_text() == "echo original\n"
        with session.parts.copies.of(one) as other:
            assert other == root
    assert roots_in(scratch) == [], "nothing is kept once it is closed"


def test_several_at_once_share_one_copy(session: Session, scratch: Path) -> None:
    one, roots = session.loaded.one(), set()
    together = threading.Barrier(8)

    def use() -> None:
        together.wait()
        with session.parts.copies.of(one) as root:
            roots.add(root)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(roots) == 1
    session.unload("a")
    assert roots_in(scratch) == []


@pytest.mark.covers("SEC-5")
def test_sessions_with_the_same_skill_share_one_copy_until_the_last_one_ends(
    begin_in: Begin, folder: Path, scratch: Path
) -> None:
    first, second = (begin_in(folder.parent, skills=["a"], policy=FREE) for _ in range(2))
    child = first.fork("a")
    root = first.loaded.one().root
    assert {second.loaded.one().root, child.loaded.one().root} == {root}
    (folder / "scripts" / "x.sh").write_text("echo changed\n")
    first.close()
    child.close()
    assert second.run_blocking("scripts/x.sh").stdout == "original\n"
    second.load("a")
    assert second.loaded.one().root != root, "other content has another root"
    assert second.run_blocking("scripts/x.sh").stdout == "changed\n"
    assert roots_in(scratch) == [Path(second.loaded.one().root).parent]


@pytest.mark.covers("SEC-5")
def test_a_skill_that_is_loaded_again_is_where_it_was_and_as_it_was(session: Session, scratch: Path) -> None:
    root = session.loaded.one().root
    session.unload("a")
    idle = [path for path in scratch.iterdir() if path.name.startswith("skill-idle-")]
    assert len(idle) == 1
    script = idle[0] / "a" / "scripts" / "x.sh"
    script.chmod(0o644)
    script.write_text("echo changed\n")
    session.load("a")
    assert session.loaded.one().root == root
    assert session.run_blocking("scripts/x.sh").stdout == "original\n"


@pytest.mark.covers("SEC-5")
def test_a_session_that_is_resumed_finds_its_skill_where_it_was_told(
    begin_in: Begin, session: Session, folder: Path, scratch: Path
) -> None:
    state, root = session.save(), session.loaded.one().root
    session.close()
    resumed = Session.resume(begin_in(folder.parent).library, state, policy=FREE, workspace=folder.parent.parent)
    assert resumed.loaded.one().root == root
    assert resumed.run_blocking("scripts/x.sh").stdout == "original\n"


@pytest.mark.covers("SEC-5")
def test_a_root_that_somebody_else_has_taken_is_not_used(begin_in: Begin, folder: Path, scratch: Path) -> None:
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    root = Path(session.loaded.one().root)
    session.close()
    (root / "scripts").mkdir(parents=True)
    (root / "scripts" / "x.sh").write_text("echo planted\n")
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    assert session.loaded.one().root != str(root)
    assert session.run_blocking("scripts/x.sh").stdout == "original\n"
    assert (root / "scripts" / "x.sh").exists(), "what is not ours is left alone"


@pytest.mark.covers("SEC-5")
def test_the_same_content_from_elsewhere_keeps_its_root(begin_in: Begin, folder: Path, scratch: Path) -> None:
    other = folder.parent.parent / "t" / "a"
    shutil.copytree(folder, other)
    library = Library.from_folder(folder.parent, other.parent)
    session = library.session(skills=["a@s"], policy=FREE, workspace=folder.parent.parent)
    session.load("a@t")
    assert session.run_blocking("scripts/x.sh").stdout == "original\n"
    assert Path(session.loaded.one().root).is_dir()


def test_a_swap_at_any_moment_never_runs_something_else(
    begin_in: Begin, folder: Path, outside: Path, scratch: Path
) -> None:
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    one = session.loaded.one()
    done = threading.Event()

    def swap() -> None:
        at = 0
        while not done.is_set():
            at += 1
            new = folder.parent / "new"
            if at % 2:
                new.symlink_to(outside / "x.sh")
            else:
                new.write_text("echo original\n")
            os.replace(new, folder / "scripts" / "x.sh")

    thread = threading.Thread(target=swap)
    thread.start()
    seen = set()
    try:
        for _ in range(200):
            copies = Copies()
            try:
                with copies.of(one) as root:
                    seen.add(Path(root, "scripts", "x.sh").read_text())
            except SkillChanged:
                seen.add("")
            copies.close()
    finally:
        done.set()
        thread.join()
    assert seen <= {"", "echo original\n"}


def test_a_skill_with_more_files_than_are_listed_is_copied_whole(
    begin_in: Begin, folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metier.skill.folder.MAX_FILES", 200)
    (folder / "many").mkdir()
    for at in range(201):
        (folder / "many" / f"{at}").touch()
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    assert session.loaded.one().listing.stopped_at
    assert len(list(Path(session.loaded.one().root, "many").iterdir())) == 201
    assert session.run_blocking("scripts/x.sh").stdout == "original\n"


def test_a_file_whose_name_cannot_be_asked_for_is_named(begin_in: Begin, folder: Path, scratch: Path) -> None:
    (folder / "Icon\r").touch()
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    with pytest.raises(FileRefused, match="control characters"):
        session.run_blocking("scripts/x.sh")


def test_no_room_for_a_copy_is_an_error_with_a_hint_for_what_needs_it(
    begin_in: Begin, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    session = begin_in(folder.parent, skills=["a"], policy=FREE)
    assert session.prompt.content("a"), "its instructions can be followed"
    with pytest.raises(SkillUnreadable, match="cannot be copied: No such file") as caught:
        session.run_blocking("scripts/x.sh")
    assert isinstance(caught.value, MetierError)
    assert "make room" in caught.value.hint
