"""A skill's folder that is replaced as a whole."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.disk import hurry

from metier import Library
from metier.errors import FileMissing, FileRefused, MetierError, SkillChanged, SkillExists
from metier.hub import folder_replacement as module
from metier.hub.folder_replacement import digest_at, replacing
from metier.skill import FolderPackage
from metier.skill.package import STAGING, Files, digest_of_files, files_of

OLD: Files = {
    "SKILL.md": ("file", b"---\nname: deploy\ndescription: Deploys.\n---\nOld.\n"),
    "scripts/run.sh": ("exec", b"echo old\n"),
    "gone.md": ("file", b"gone\n"),
}
NEW: Files = {
    "SKILL.md": ("file", b"---\nname: deploy\ndescription: Deploys.\n---\nNew.\n"),
    "scripts/run.sh": ("exec", b"echo new\n"),
    "references/more.md": ("file", b"more\n"),
}
BEFORE, AFTER = digest_of_files(OLD), digest_of_files(NEW)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege here")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The folder of a skill that is to be replaced."""
    path = os.path.join(os.path.realpath(tmp_path), "skills", "deploy")
    with replacing(path, OLD, over=None) as put:
        put()
    return path


@pytest.fixture(params=["in one step", "in two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: with a system that can exchange two folders, and with one that cannot."""
    if request.param == "in two steps":
        monkeypatch.setattr(module, "atomic_swap", lambda *_: False)


def there(folder: str) -> Files:
    return files_of(FolderPackage(folder))


def alone(folder: str) -> bool:
    """Whether nothing is left beside a skill, nor on record."""
    journals = Path(os.environ["METIER_CONFIG"], "replacing")
    return os.listdir(os.path.dirname(folder)) == ["deploy"] and not list(journals.iterdir())


@pytest.mark.usefixtures("way")
def test_a_folder_becomes_what_it_is_to_be(folder: str) -> None:
    with replacing(folder, NEW, over=BEFORE) as put:
        assert there(folder) == OLD
        put()
        assert there(folder) == NEW
    assert there(folder) == NEW
    assert alone(folder)


@pytest.mark.usefixtures("way")
def test_what_fails_afterwards_brings_the_old_one_back(folder: str) -> None:
    with pytest.raises(RuntimeError), replacing(folder, NEW, over=BEFORE) as put:
        put()
        raise RuntimeError
    assert there(folder) == OLD
    assert alone(folder)


@pytest.mark.usefixtures("way")
def test_what_somebody_changed_meanwhile_stays(folder: str) -> None:
    with pytest.raises(SkillChanged), replacing(folder, NEW, over=BEFORE) as put:
        Path(folder, "mine.md").write_text("mine")
        put()
    assert there(folder) == {**OLD, "mine.md": ("file", b"mine")}
    assert alone(folder)


@pytest.mark.usefixtures("way")
def test_what_is_gone_meanwhile_does_not_come_back(folder: str) -> None:
    with pytest.raises(SkillChanged), replacing(folder, NEW, over=BEFORE) as put:
        os.rename(folder, f"{folder}-moved")
        put()
    assert sorted(os.listdir(os.path.dirname(folder))) == ["deploy-moved"]


def test_a_new_folder_never_takes_the_place_of_another(folder: str) -> None:
    with pytest.raises(SkillExists), replacing(folder, NEW, over=None) as put:
        put()
    assert there(folder) == OLD
    assert alone(folder)


def test_a_new_folder_that_came_to_nothing_is_gone(tmp_path: Path) -> None:
    folder = os.path.join(os.path.realpath(tmp_path), "skills", "deploy")
    with pytest.raises(RuntimeError), replacing(folder, NEW, over=None) as put:
        put()
        raise RuntimeError
    assert os.listdir(tmp_path / "skills") == []


def test_bytecode_beside_scripts_is_no_change(folder: str) -> None:
    Path(folder, "scripts/__pycache__").mkdir()
    with replacing(folder, NEW, over=BEFORE) as put:
        put()
    assert there(folder) == NEW


def test_version_control_in_a_skill_is_not_lost(folder: str) -> None:
    Path(folder, ".git").mkdir()
    with pytest.raises(FileRefused, match="version control"):
        digest_at(folder)
    with pytest.raises(SkillChanged), replacing(folder, NEW, over=BEFORE) as put:
        put()
    assert there(folder) == OLD
    assert Path(folder, ".git").is_dir()


@needs_links
def test_nothing_is_written_through_a_link(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(os.path.dirname(folder))
    with pytest.raises(FileRefused, match="link"), replacing(str(tmp_path / "link/deploy"), NEW, over=BEFORE) as put:
        put()
    os.rename(folder, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder)
    with pytest.raises(FileRefused):
        digest_at(folder)
    with pytest.raises(MetierError), replacing(folder, NEW, over=BEFORE) as put:
        put()
    assert os.path.islink(folder)
    assert there(str(tmp_path / "elsewhere")) == OLD


@needs_links
def test_a_link_inside_a_skill_stays_one(folder: str) -> None:
    files: Files = {**NEW, "again.md": ("link", b"references/more.md")}
    with replacing(folder, files, over=BEFORE) as put:
        put()
    assert os.readlink(os.path.join(folder, "again.md")) == "references/more.md"
    assert there(folder) == files


def test_no_library_looks_at_what_is_being_made(folder: str) -> None:
    root = os.path.dirname(folder)
    with replacing(folder, NEW, over=BEFORE):
        assert os.listdir(os.path.join(root, STAGING))
        library = Library.from_folder(root, cache=False)
        assert [entry.location for entry in library.entries(all=True)] == [os.path.join(folder, "SKILL.md")]


@pytest.mark.usefixtures("careful")
def test_several_at_once_take_turns(folder: str) -> None:
    kinds: list[Files] = [{**NEW, "turn.md": ("file", str(number).encode())} for number in range(4)]
    failures: list[BaseException] = []

    def turn(files: Files) -> None:
        for _ in range(5):
            try:
                with replacing(folder, files, over=digest_at(folder)) as put:
                    put()
            except SkillChanged:
                continue
            except BaseException as failure:
                failures.append(failure)

    threads = [threading.Thread(target=turn, args=[files]) for files in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert there(folder) in kinds
    assert alone(folder)


STEPS = ("open", "mkdir", "rename", "replace", "unlink", "rmdir", "fsync", "symlink", "write")


class Killing:
    """Does jobs in children that are killed; a small process forks them, as this one may be large."""

    def __init__(self, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])

    def at(self, step: int, job: Callable[[str], None], folder: str) -> bool:
        """Whether a job got as far as its n-th step on the file system, before which it is killed."""
        child = self._context.Process(target=_until, args=(step, job, folder, self._is_whole, dict(os.environ)))
        child.start()
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        return child.exitcode != 0


def _until(step: int, job: Callable[[str], None], folder: str, is_whole: bool, environ: dict[str, str]) -> None:
    os.environ.update(environ)
    hurry(setattr)
    if not is_whole:
        module.atomic_swap = lambda *_: False  # type: ignore[attr-defined]
    count = itertools.count()

    def before(function: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **options: object) -> object:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)

        return called

    for owner, name in [*((os, name) for name in STEPS), (module, "atomic_swap")]:
        setattr(owner, name, before(getattr(owner, name)))
    try:
        job(folder)
    finally:
        os._exit(0)


def replaced(folder: str) -> None:
    with replacing(folder, NEW, over=BEFORE) as put:
        put()


def replaced_while_somebody_writes(folder: str) -> None:
    with replacing(folder, NEW, over=BEFORE) as put:
        Path(folder, "mine.md").write_text("mine")
        put()


@pytest.fixture
def killing(request: pytest.FixtureRequest) -> Killing:
    return Killing("two steps" not in request.node.name)


@needs_fork
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.covers("A-42")
def test_whoever_is_killed_at_any_step_leaves_the_old_one_or_the_new_one(
    folder: str, killing: Killing, request: pytest.FixtureRequest, every: int
) -> None:
    seen: set[str | None] = set()
    for step in itertools.count(0, every):
        was_killed = killing.at(step, replaced, folder)
        found = digest_at(folder)
        seen.add(found)
        if found is None:
            # Only a system that cannot exchange two names has such a moment, and the next look ends it.
            assert "two steps" in request.node.name
            with replacing(folder, NEW, over=BEFORE):
                found = digest_at(folder)
        assert found in (BEFORE, AFTER)
        # The next one clears up whatever was left, and goes on from there.
        with replacing(folder, OLD, over=found) as put:
            put()
        assert there(folder) == OLD
        assert alone(folder)
        if not was_killed:
            break
    assert step > 20
    assert seen >= {BEFORE, AFTER}
    if every == 1:
        assert (None in seen) == ("two steps" in request.node.name)


@pytest.mark.slow
@needs_fork
@pytest.mark.usefixtures("way")
def test_what_somebody_changed_while_another_was_killed_is_not_thrown_away(
    folder: str, killing: Killing, caplog: pytest.LogCaptureFixture
) -> None:
    for step in itertools.count():
        was_killed = killing.at(step, replaced_while_somebody_writes, folder)
        with replacing(folder, NEW, over=digest_at(folder)):
            pass
        kept = [path for path in Path(folder).parent.rglob("mine.md") if path.read_text() == "mine"]
        if Path(folder, "mine.md").exists():
            os.unlink(Path(folder, "mine.md"))
        elif digest_at(folder) == AFTER:
            assert kept
            assert "Somebody changed" in caplog.text
            break
        if not was_killed:
            break


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, tries = FolderPackage.digest, list[str]()

    def torn(self: FolderPackage) -> str:
        tries.append("")
        if len(tries) == 1:
            raise FileMissing("'gone.md' is not among the skill's files.", hint="", path="gone.md")
        return digest(self)

    monkeypatch.setattr(FolderPackage, "digest", torn)
    assert digest_at(folder) == BEFORE


def test_a_folder_that_changes_faster_than_it_can_be_read_is_told_as_such(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(self: FolderPackage) -> str:
        raise FileMissing("'gone.md' is not among the skill's files.", hint="", path="gone.md")

    monkeypatch.setattr(FolderPackage, "digest", torn)
    with pytest.raises(SkillChanged) as caught:
        digest_at(folder)
    assert caught.value.hint
    os.rename(folder, f"{folder}-moved")
    assert digest_at(folder) is None
