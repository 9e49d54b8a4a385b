"""The index between processes: fast when it can be believed, and never believed otherwise."""

from __future__ import annotations

import errno
import io
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import crossed, thinned

import metier.library.index
import metier.library.refresh
from metier import Library
from metier._paths import default_cache_folder
from metier.skill import Diagnostic, Identity
from metier.source import Source
from metier.source.source import SkillFileError, read_skill

Write = Callable[..., Path]
State = list[tuple[str, str, str, str, str, tuple[str, ...]]]

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    folder = tmp_path / "skills"
    write_skill(folder / "a", description="Does a: and more.", body="Body of a.")
    write_skill(folder / "b", name="Named B", more="tags: [x, y]\npriority: 3\n")
    write_skill(folder / "c", more="scope:\n  agents: [x]\nmetadata:\n  deep: {er: [1, 2]}\n")
    write_skill(folder / "group" / "d", name="a", file="skill.md")
    (folder / "e").mkdir()
    (folder / "e" / "SKILL.md").write_text("No frontmatter, only words.\n")
    (folder / "f").mkdir()
    (folder / "f" / "SKILL.md").write_bytes(b"")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def state(library: Library) -> State:
    """Everything that can be seen of a library without reading bodies, then the bodies."""
    return [
        (
            entry.name,
            entry.key,
            entry.status,
            entry.description,
            repr(entry.skill),
            tuple(f"{note.code} {note.line} {note.message}" for note in entry.diagnostics),
        )
        for entry in library.as_caller(agent="x").entries(all=True)
    ]


def index_file(cache: Path) -> Path:
    (file,) = cache.iterdir()
    return file


def cached(skills: Path, cache: Path) -> Library:
    return Library.from_folder(skills, cache=cache)


def fresh(skills: Path) -> Library:
    return Library.from_folder(skills, cache=False)


def test_a_start_from_the_cache_equals_a_fresh_scan(skills: Path, cache: Path) -> None:
    expected = state(fresh(skills))
    assert state(cached(skills, cache)) == expected
    assert state(cached(skills, cache)) == expected


BROKEN_YAML = "---\nname: odd\ndescription: Does it.\nmetadata:\n  x:\n    tags:\n  - y\n    source: z\n---\nBody.\n"


def test_what_had_to_be_repaired_is_not_repaired_again(
    skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (skills / "odd").mkdir()
    (skills / "odd" / "SKILL.md").write_text(BROKEN_YAML)
    expected = state(cached(skills, cache))
    monkeypatch.setattr("metier.skill.yaml_block.parse_yaml", None)
    assert state(cached(skills, cache)) == expected


def test_a_file_that_goes_while_the_index_is_written_is_not_kept_as_broken(
    skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (skills / "odd").mkdir()
    (skills / "odd" / "SKILL.md").write_text(BROKEN_YAML)
    expected = state(fresh(skills))

    read: list[str] = []
    real = read_skill

    def fails_the_second_time(source: Source, key: str) -> tuple[bytes, Identity]:
        read.append(key)
        if read.count(key) > 1:
            raise SkillFileError(Diagnostic("file-unreadable", None, (key, "out of descriptors")))
        return real(source, key)

    with monkeypatch.context() as patch:
        patch.setattr(metier.library.refresh, "read_skill", fails_the_second_time)
        cached(skills, cache)
    assert read.count("odd/SKILL.md") == 2
    assert state(cached(skills, cache)) == expected


def test_a_start_from_the_cache_reads_no_skill_file(skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(skills, cache)
    opened: list[str] = []
    real = os.open

    def watching(path: str, *args: int, **options: int) -> int:
        opened.append(str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", watching)
    library = cached(skills, cache)
    assert [entry.name for entry in library.entries(all=True)]
    assert not [path for path in opened if path.lower().endswith("skill.md")]


def test_findings_about_the_place_are_the_same_from_the_cache(skills: Path, cache: Path) -> None:
    (skills / "gone").symlink_to("nowhere")
    assert cached(skills, cache).findings() == cached(skills, cache).findings() == fresh(skills).findings() != ()


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_what_changed_between_two_processes_is_seen(
    skills: Path, cache: Path, write_skill: Write, change: str, next_tick: Callable[[Path], None]
) -> None:
    cached(skills, cache)
    next_tick(skills / "a" / "SKILL.md")
    if change == "edit":
        write_skill(skills / "a", description="Edited.")
    elif change == "add":
        write_skill(skills / "new")
    elif change == "remove":
        (skills / "a" / "SKILL.md").unlink()
    else:
        (skills / "a").rename(skills / "renamed")
    assert state(cached(skills, cache)) == state(fresh(skills))
    assert state(cached(skills, cache)) == state(fresh(skills))


def test_an_index_of_another_version_is_not_used(skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached(skills, cache)
    before = index_file(cache).read_bytes()
    monkeypatch.setattr(metier.library.index, "__version__", "999.0")
    assert state(cached(skills, cache)) == state(fresh(skills))
    assert index_file(cache).read_bytes() != before


def test_the_index_of_one_folder_is_never_taken_for_anothers(
    skills: Path, cache: Path, tmp_path: Path, write_skill: Write
) -> None:
    cached(skills, cache)
    data = index_file(cache).read_bytes()
    index_file(cache).unlink()
    write_skill(tmp_path / "other" / "z")
    cached(tmp_path / "other", cache)
    index_file(cache).write_bytes(data)
    assert [entry.name for entry in cached(tmp_path / "other", cache)] == ["z"]


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.slow)])
def test_no_flipped_byte_anywhere_in_the_index_is_believed(skills: Path, cache: Path, step: int) -> None:
    expected = state(fresh(skills))
    cached(skills, cache)
    good = index_file(cache).read_bytes()
    for position, mask in zip(range(0, len(good), step), itertools.cycle((0x01, 0xFF)), strict=False):
        damaged = bytearray(good)
        damaged[position] ^= mask
        index_file(cache).write_bytes(damaged)
        assert state(cached(skills, cache)) == expected, (position, mask)


def test_no_truncated_index_is_believed(skills: Path, cache: Path) -> None:
    expected = state(fresh(skills))
    cached(skills, cache)
    good = index_file(cache).read_bytes()
    for size in {0, 1, 12, 13, 14, 200, *range(0, len(good), 41), len(good) - 1}:
        index_file(cache).write_bytes(good[:size])
        assert state(cached(skills, cache)) == expected, size


@thinned(
    "data",
    [
        b"\n",
        b"metier-index \n",
        b"metier-index {}\n",
        b"metier-index []\n",
        b"metier-index null\n",
        b"metier-index 1\n",
        b"metier-index " + b"[" * 8_000 + b"\n",
        b"metier-index " + b"9" * 8_000 + b"\n",
        b"\xff" * 10_000,
        b"something else entirely\n" * 100,
    ],
    ids=["blank", "no header", "object", "list", "null", "number", "deep", "huge number", "bytes", "text"],
    one_in=3,
)
def test_no_garbage_in_place_of_an_index_is_believed(skills: Path, cache: Path, data: bytes) -> None:
    cached(skills, cache)
    index_file(cache).write_bytes(data)
    assert state(cached(skills, cache)) == state(fresh(skills))


def test_a_damaged_row_of_a_skill_that_is_gone_meanwhile_is_no_crash(skills: Path, cache: Path) -> None:
    cached(skills, cache)
    data = index_file(cache).read_bytes()
    at = data.index(b"Does a")
    index_file(cache).write_bytes(data[:at] + b"X" + data[at + 1 :])
    library = cached(skills, cache)
    (skills / "a" / "SKILL.md").unlink()
    for entry in library.entries(all=True):
        assert isinstance(entry.description, str)
        assert isinstance(entry.diagnostics, tuple)


def test_an_index_is_for_its_owner_only(skills: Path, cache: Path) -> None:
    cached(skills, cache)
    assert index_file(cache).stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_an_index_of_another_user_is_not_used_and_replaced(skills: Path, cache: Path) -> None:
    cached(skills, cache)
    os.chown(index_file(cache), 12_345, 12_345)
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert [finding.diagnostic.code for finding in library.findings()] == ["cache-unusable"]
    assert index_file(cache).stat().st_uid == os.getuid()


def test_a_linked_index_is_neither_read_nor_written_through(skills: Path, cache: Path, tmp_path: Path) -> None:
    cached(skills, cache)
    elsewhere = tmp_path / "elsewhere"
    file = index_file(cache)
    file.rename(elsewhere)
    before = elsewhere.read_bytes()
    file.symlink_to(elsewhere)
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert elsewhere.read_bytes() == before
    assert not file.is_symlink()


def test_a_folder_in_place_of_an_index_costs_nothing_but_speed(skills: Path, cache: Path) -> None:
    cached(skills, cache)
    file = index_file(cache)
    file.unlink()
    file.mkdir()
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert "cache-unusable" in [finding.diagnostic.code for finding in library.findings()]
    assert list(cache.iterdir()) == [file]


def test_a_pipe_in_place_of_an_index_does_not_hold_anybody_up(skills: Path, cache: Path) -> None:
    cached(skills, cache)
    file = index_file(cache)
    file.unlink()
    os.mkfifo(file)
    script = "import sys; from metier import Library; print(len(Library.from_folder(sys.argv[1], cache=sys.argv[2])))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(skills), str(cache)], capture_output=True, text=True, timeout=5, check=True
    )
    assert int(done.stdout) == len(fresh(skills))


def test_a_cache_folder_that_is_a_file_costs_nothing_but_speed(skills: Path, cache: Path) -> None:
    cache.write_text("in the way")
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert "cache-unusable" in [finding.diagnostic.code for finding in library.findings()]


def test_a_read_only_cache_folder_costs_nothing_but_speed(skills: Path, cache: Path, unprivileged: None) -> None:
    cache.mkdir(mode=0o500)
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert "cache-unusable" in [finding.diagnostic.code for finding in library.findings()]


def test_a_read_only_file_system_costs_nothing_but_speed(
    skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert "Read-only file system" in library.findings()[-1].diagnostic.message


class _FullDisk(io.RawIOBase):
    """A file on a disk without room."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_costs_nothing_but_speed_and_leaves_nothing_behind(
    skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(skills, cache)
    file = index_file(cache)
    before = file.read_bytes()
    (skills / "a" / "SKILL.md").write_text("---\nname: a\ndescription: Quite another.\n---\nBody.")
    real = os.fdopen

    def full(descriptor: int, mode: str = "r") -> object:
        if "w" not in mode:
            return real(descriptor, mode)
        os.close(descriptor)
        return _FullDisk()

    monkeypatch.setattr(os, "fdopen", full)
    library = cached(skills, cache)
    assert state(library) == state(fresh(skills))
    assert "No space left" in library.findings()[-1].diagnostic.message
    assert [(path, path.read_bytes()) for path in cache.iterdir()] == [(file, before)]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on file sizes")
def test_a_write_that_the_system_cuts_short_leaves_no_half_an_index(skills: Path, cache: Path) -> None:
    script = (
        "import resource, sys; from metier import Library\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "library = Library.from_folder(sys.argv[1], cache=sys.argv[2])\n"
        "print(len(library), [finding.diagnostic.code for finding in library.findings()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(skills), str(cache)], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout.strip() == f"{len(fresh(skills))} ['cache-unusable']"
    assert list(cache.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [100])
def test_processes_that_write_at_once_leave_one_whole_index(skills: Path, cache: Path, rounds: int) -> None:
    script = (
        "import os, sys; from metier import Library\n"
        f"for _ in range({rounds}):\n"
        "    os.utime(sys.argv[1] + '/a/SKILL.md')\n"
        "    library = Library.from_folder(sys.argv[1], cache=sys.argv[2])\n"
        "    assert [e.name for e in library] == ['a', 'e', 'named-b'], library.entries()\n"
        "    assert not library.findings(), library.findings()\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(skills), str(cache)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    complaints = [process.communicate(timeout=60)[1] for process in running]
    assert complaints == [""] * 3
    assert len(list(cache.iterdir())) == 1
    assert state(cached(skills, cache)) == state(fresh(skills))


@crossed(
    ("name", [b"line\nfeed", b"undecodable \xff\xfe", b"tab\tand\rreturn", "ünï\u2028cödé".encode()]),
    ("named", [True, False]),
    one_in=2,
)
def test_odd_folder_names_are_the_same_from_the_cache(skills: Path, cache: Path, name: bytes, named: bool) -> None:
    folder = os.path.join(os.fsencode(skills), name)
    os.mkdir(folder)
    with open(os.path.join(folder, b"SKILL.md"), "w") as file:
        file.write("---\nname: odd\ndescription: Odd.\n---\nDo." if named else "---\ndescription: Odd.\n---\nDo.")
    assert state(cached(skills, cache)) == state(fresh(skills))
    assert state(cached(skills, cache)) == state(fresh(skills))


def test_the_index_holds_no_instructions(tmp_path: Path, cache: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "skills" / "a", body="# Title\n\nSECRET-OF-THE-BODY")
    cached(tmp_path / "skills", cache)
    assert b"SECRET-OF-THE-BODY" not in index_file(cache).read_bytes()


def test_files_written_this_moment_are_read_again_by_the_next_process(
    tmp_path: Path, cache: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    file = write_skill(tmp_path / "skills" / "a", description="Old.")
    cached(tmp_path / "skills", cache)
    status = file.stat()
    file.write_text(file.read_text().replace("Old.", "New."))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cached(tmp_path / "skills", cache).get("a").description == "New."


def test_no_cache_means_no_file(skills: Path, own_home: Path) -> None:
    fresh(skills)
    assert not (own_home / "metier-cache").exists()


def test_the_cache_is_where_the_environment_says(skills: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Library.from_folder(skills)
    assert len(list((own_home / "metier-cache").iterdir())) == 1
    assert Path(default_cache_folder() or "") == own_home / "metier-cache"
    if sys.platform.startswith("linux"):
        monkeypatch.delenv("METIER_CACHE")
        assert Path(default_cache_folder() or "") == own_home / "cache" / "metier"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert Path(default_cache_folder() or "") == own_home / ".cache" / "metier"


@pytest.mark.covers("O-32")
def test_a_thousand_skills_start_from_the_cache_with_well_under_a_second_of_work(
    tmp_path: Path, cache: Path, write_skill: Write
) -> None:
    for number in range(1_000):
        write_skill(tmp_path / "skills" / f"s{number:04d}")
    cached(tmp_path / "skills", cache)
    begin = time.process_time()
    assert len(cached(tmp_path / "skills", cache)) == 1_000
    assert time.process_time() - begin < 0.5
