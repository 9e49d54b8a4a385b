"""Installs that are killed at any step, and installs at the same time."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.disk import hurry
from tests.hub.conftest import call

import metier.cli.add
import metier.hub.installation  # noqa: F401  imported once, before processes are forked
from metier import Library, Session
from metier.errors import SkillChanged, SkillNotActive
from metier.hub import folder_replacement
from metier.run.atomic_swap import atomic_swap
from metier.store import sqlite

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

CHANGES = frozenset(
    f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "symlink", "link", "chmod", "truncate", "utime")
)
"""The events of the file system, other than the opening of a file, before each of which a process can be killed."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


def _in_child(arguments: tuple[str, ...], step: int | None, environ: dict[str, str], folder: str) -> None:
    os.environ.update(environ)
    os.chdir(folder)
    hurry(setattr)
    sys.stdin = open(os.devnull)  # noqa: SIM115  until the end of the process
    if step is not None:
        _kill_before(step)
    os._exit(call(*arguments)[0])


def _kill_before(step: int) -> None:
    """Kill this process before the n-th change of a file or of the store."""
    count = itertools.count()

    def take_step() -> None:
        if next(count) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(event: str, given: tuple[object, ...]) -> None:
        if event in CHANGES or (event == "open" and isinstance(given[2], int) and given[2] & WRITING):
            take_step()

    class Connection(sqlite._Connection):
        def execute(self, sql: str, *parameters: Any) -> Any:
            if not sql.lstrip().upper().startswith(("SELECT", "PRAGMA")):
                take_step()
            return super().execute(sql, *parameters)

    def swap(folder: int | None, one: str, other: str) -> bool:
        take_step()
        return atomic_swap(folder, one, other)

    sqlite._Connection = Connection  # type: ignore[misc]
    folder_replacement.atomic_swap = swap  # type: ignore[attr-defined]
    sys.addaudithook(hear)


class Children:
    """Processes that give a command; a small process forks them, as this one may be large."""

    def __init__(self, folder: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._folder = folder

    def start(self, *arguments: object, step: int | None = None) -> multiprocessing.process.BaseProcess:
        given = (tuple(map(str, arguments)), step, dict(os.environ), str(self._folder))
        child = self._context.Process(target=_in_child, args=given)
        child.start()
        return child

    def is_killed(self, step: int, *arguments: object) -> bool:
        """Whether a command got as far as its n-th step, before which it is killed."""
        child = self.start(*arguments, step=step)
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        return child.exitcode != 0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet_files: None) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def children(project: Path) -> Children:
    return Children(project)


def publish(folder: Path, word: str) -> Path:
    """A source with one skill, whose script says a word."""
    skill = folder / "hello"
    (skill / "scripts").mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text("---\nname: hello\ndescription: Says hello. Use when greeting.\n---\nRun it.\n")
    (skill / "scripts/hi.py").write_text(f"print({word!r})\n")
    (skill / f"{word}.md").write_text(f"{word}\n")
    return folder


class Disk:
    """All files of a test, which can be put back as they were."""

    def __init__(self, folders: list[Path], kept: Path) -> None:
        self._folders, self._kept = folders, kept
        for number, folder in enumerate(folders):
            shutil.copytree(folder, kept / str(number), symlinks=True)

    def put_back(self) -> None:
        for number, folder in enumerate(self._folders):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            shutil.copytree(self._kept / str(number), folder, symlinks=True, dirs_exist_ok=True)


def listed() -> dict[str, str]:
    """The digests of the skills that are to be seen, by their names; none of them is broken."""
    code, out, err = call("list", "--json")
    assert code == 0, err
    return {one["name"]: one["digest"] for one in json.loads(out) if one["layer"] != "plugin"}


def said() -> str:
    """What the script of the skill says."""
    code, out, err = call("run", "hello", "hi.py")
    assert code == 0, err
    return out.strip()


def add(source: Path) -> dict[str, Any]:
    code, out, err = call("add", source, "--to", "project", "--yes", "--json")
    assert code == 0, err
    skill: dict[str, Any] = json.loads(out)["skills"][0]
    return skill


def files_below(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*")}


def leftovers(project: Path) -> list[str]:
    """The files of an installation that was cut short which are still there, but for caches of ours."""
    journals = Path(os.environ["METIER_CONFIG"], "replacing")
    beside = [path for path in sorted(project.rglob("*")) if ".metier-staging" in str(path) or path.suffix == ".tmp"]
    return [str(path) for path in (*beside, *journals.rglob("*"))]


PARTS = 4
SOME = [
    pytest.param(0, 131, id="some"),
    *(
        pytest.param(part, PARTS, id=f"all, {part + 1} of {PARTS}", marks=(pytest.mark.slow, pytest.mark.long))
        for part in range(PARTS)
    ),
]
"""The first step before which a process is killed, and how many there are to the next one."""


@pytest.mark.parametrize(("first", "every"), SOME)
@pytest.mark.covers("A-35")
def test_an_update_that_is_killed_at_any_step_leaves_the_old_version_or_the_new_one(
    project: Path, tmp_path: Path, own_home: Path, children: Children, first: int, every: int
) -> None:
    source = publish(tmp_path / "source", "old")
    old = add(source)["digest"]
    assert said() == "old"
    (source / "hello/old.md").unlink()
    publish(source, "new")
    disk = Disk([tmp_path / "project", own_home.parent], tmp_path / "kept")
    around = files_below(tmp_path)
    seen: set[str] = set()
    for step in itertools.count(first, every):
        was_killed = children.is_killed(step, "add", source, "--to", "project", "--yes")
        found = listed()
        assert set(found) == {"hello"}, step
        word = said()
        seen.add(word)
        assert (word == "old") == (found["hello"] == old), step
        outside = files_below(tmp_path) - around - files_below(project / ".metier")
        assert {path for path in outside if not path.endswith(".tmp")} <= set(), step
        new = add(source)["digest"]
        assert listed() == {"hello": new}
        assert said() == "new", step
        assert f'digest = "{new}"' in (project / "metier.lock").read_text()
        assert "replaces" not in (project / "metier.lock").read_text()
        assert leftovers(project) == [], step
        if not was_killed:
            break
        disk.put_back()
    assert step > 60, step
    assert seen == {"old", "new"}


@pytest.mark.parametrize(("first", "every"), SOME)
@pytest.mark.covers("A-35")
def test_a_first_install_that_is_killed_at_any_step_leaves_nothing_or_all_of_it(
    project: Path, tmp_path: Path, own_home: Path, children: Children, first: int, every: int
) -> None:
    source = publish(tmp_path / "source", "new")
    disk = Disk([project, own_home], tmp_path / "kept")
    around = files_below(tmp_path)
    seen: set[int] = set()
    for step in itertools.count(first, every):
        was_killed = children.is_killed(step, "add", source, "--to", "project", "--yes")
        found = listed()
        seen.add(len(found))
        if found:
            assert set(found) == {"hello"}
            code, out, err = call("run", "hello", "hi.py")
            # In place, and not yet on record as approved: nobody vouches for it.
            assert (code, out) == (0, "new\n") or "[skill-untrusted]" in err, step
        outside = files_below(tmp_path) - around - files_below(project / ".metier") - {str(project / ".metier")}
        assert {os.path.basename(path) for path in outside} <= {
            *("metier.lock", "skills-lock.json", ".metier.lock.tmp", ".skills-lock.json.tmp")
        }
        add(source)
        assert set(listed()) == {"hello"}
        assert said() == "new", step
        assert json.loads((project / "skills-lock.json").read_text())["skills"].keys() == {"hello"}
        assert leftovers(project) == [], step
        assert call("lock", "--check")[0] == 0
        if not was_killed:
            break
        disk.put_back()
    assert step > 60
    assert seen == {0, 1}


def lock_of(project: Path) -> dict[str, Any]:
    return {one["name"]: one for one in tomllib.loads((project / "metier.lock").read_text()).get("skill", [])}


@pytest.mark.slow
def test_many_adds_at_once_lose_no_entry_of_the_lock(project: Path, tmp_path: Path, children: Children) -> None:
    source = tmp_path / "source"
    names = [f"skill-{number}" for number in range(6)]
    for name in names:
        (source / name).mkdir(parents=True)
        (source / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n")
    adding = [children.start("add", source, name, "--to", "project", "--yes") for name in names]
    for child in adding:
        child.join()
    assert [child.exitcode for child in adding] == [0] * len(names)
    assert set(lock_of(project)) == set(names) == set(listed())
    assert json.loads((project / "skills-lock.json").read_text())["skills"].keys() == set(names)
    assert leftovers(project) == []
    assert call("lock", "--check")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("has_old", [False, True], ids=["new", "over an old one"])
def test_two_adds_of_one_skill_at_once_leave_one_of_them_whole(
    project: Path, tmp_path: Path, children: Children, has_old: bool
) -> None:
    source = publish(tmp_path / "source", "old")
    if has_old:
        add(source)
    words = ("one", "two", "three")
    # The same source has another content whenever somebody looks.
    archives = [tmp_path / word / "hello.zip" for word in words]
    for archive, word in zip(archives, words, strict=True):
        archive.parent.mkdir()
        shutil.make_archive(str(archive.with_suffix("")), "zip", publish(tmp_path / f"source-{word}", word) / "hello")
    adding = []
    for archive in archives:
        given = [archive] if not has_old else [source]
        if has_old:
            shutil.rmtree(source)
            shutil.copytree(tmp_path / f"source-{archive.parent.name}", source)
        adding.append(children.start("add", *given, "--to", "project", "--yes"))
    for child in adding:
        child.join()
    assert {child.exitcode for child in adding} <= {0, 1}
    assert 0 in {child.exitcode for child in adding}
    [digest] = listed().values()
    assert lock_of(project)["hello"]["digest"] == digest
    assert "replaces" not in lock_of(project)["hello"]
    assert said() in words
    assert leftovers(project) == []
    assert call("lock", "--check")[0] == 0


def test_a_session_that_has_the_old_version_never_runs_a_mixture(project: Path, tmp_path: Path) -> None:
    source = publish(tmp_path / "source", "old")
    add(source)
    with Session(Library.discover()) as session:
        session.load("hello")
        assert session.run_blocking("scripts/hi.py", skill="hello").stdout == "old\n"
        publish(source, "new")
        add(source)
        try:
            assert session.run_blocking("scripts/hi.py", skill="hello").stdout in ("old\n", "new\n")
        except (SkillChanged, SkillNotActive) as error:
            assert error.hint
        session.load("hello")
        assert session.run_blocking("scripts/hi.py", skill="hello").stdout == "new\n"
