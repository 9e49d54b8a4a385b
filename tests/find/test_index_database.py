"""The file of a search index: whatever happened to it, a search works, and it is made anew when it must be."""

from __future__ import annotations

import gc
import logging
import os
import random
import sqlite3
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import metier.find.index_database
from metier import Library
from metier.find.index_database import IndexBusy, IndexDamaged, IndexDatabase
from metier.find.indexed_text import IndexedText
from metier.find.search_index import SearchIndex

Write = Callable[..., Path]
Found = list[tuple[str, float, str]]
SKILLS = 15
QUERIES = ("knife", "fruit oven", '"apple bread"', "tag:kitchen", "/s07", "s1", "unheard")
WORDS = ("apple", "bread", "chair", "dough", "fruit", "knife", "oven", "wood")

pytestmark = pytest.mark.usefixtures("settled")


def write_all(folder: Path, write_skill: Write) -> Path:
    chance = random.Random(7)
    for number in range(SKILLS):
        write_skill(
            folder / f"s{number:02d}",
            description=" ".join(chance.choices(WORDS, k=5)),
            body=" ".join(chance.choices(WORDS, k=80)),
            more="tags: [kitchen]\n" if number % 3 else "",
        )
    return folder


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    return write_all(tmp_path / "skills", write_skill)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def file(skills: Path, cache: Path) -> Path:
    """A complete index that nobody has open."""
    Library.from_folder(skills, cache=cache).search("fruit")
    gc.collect()
    (path,) = cache.glob("search-*")
    return path


def found(library: Library) -> list[Found]:
    return [[(one.name, one.score, one.why) for one in library.search(query, 50)] for query in QUERIES]


def opened(skills: Path, cache: Path) -> Library:
    return Library.from_folder(skills, cache=cache)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, write_skill: Write) -> list[Found]:
    """What is found in skills that say the same, wherever they are."""
    return found(Library.from_folder(write_all(tmp_path_factory.mktemp("same"), write_skill), cache=False))


def indexed_keys(file: Path) -> list[str]:
    connection = sqlite3.connect(file)
    try:
        return sorted(row[0] for row in connection.execute("SELECT key FROM skill"))
    finally:
        connection.close()


def alter(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.executescript(statement)
    connection.commit()
    connection.close()


def overwrite(file: Path, at: int, data: bytes) -> None:
    with open(file, "r+b") as opened_file:
        opened_file.seek(at)
        opened_file.write(data)


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", [0.001, 0.3, 0.99, *(pytest.param(part, marks=pytest.mark.slow) for part in (0.01, 0.1, 0.5, 0.9))]
)
def test_an_index_that_was_cut_off_is_rebuilt(
    skills: Path, cache: Path, file: Path, expected: list[Found], part: float, caplog: pytest.LogCaptureFixture
) -> None:
    size = file.stat().st_size
    os.truncate(file, min(int(size * part), size - 4_096))  # a page at least: SQLite takes the rest of one for zeros
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "is rebuilt" in caplog.text
    assert len(indexed_keys(file)) == SKILLS


@pytest.mark.parametrize(
    "data",
    [b"no database at all\n" * 500, b"SQLite format 3\x00" + b"\xff" * 8_192, random.Random(3).randbytes(20_000)],
)
def test_a_file_that_is_no_index_is_replaced(
    skills: Path, cache: Path, file: Path, expected: list[Found], data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "is rebuilt" in caplog.text
    assert len(indexed_keys(file)) == SKILLS


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_an_empty_file_is_filled(skills: Path, cache: Path, file: Path, expected: list[Found], data: bytes) -> None:
    file.write_bytes(data)
    assert found(opened(skills, cache)) == expected
    assert len(indexed_keys(file)) == SKILLS


@pytest.mark.parametrize("statement", ["UPDATE made_by SET kind = 'another'", "DELETE FROM made_by"])
def test_an_index_of_another_version_is_rebuilt(
    skills: Path, cache: Path, file: Path, expected: list[Found], statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    alter(file, statement, "DELETE FROM skill WHERE id % 2")
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "made by another version" in caplog.text
    caplog.clear()
    gc.collect()
    assert found(opened(skills, cache)) == expected
    assert caplog.text == ""


def test_an_index_of_another_release_is_rebuilt(
    skills: Path, cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metier.find.index_database, "__version__", "999.0")
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert opened(skills, cache).search("fruit")
    assert f"{file} is rebuilt: it was made by another version" in caplog.text


@pytest.mark.each(
    "statement",
    [
        "DROP TABLE made_by", "DROP TABLE skill", "DROP TABLE scope", "DROP TABLE stem", "DROP TABLE tag",
        "DROP TABLE spelling", "DROP TABLE segment", "DROP TABLE posting",
        "DELETE FROM posting", "DELETE FROM segment", "UPDATE posting SET keys = x'ff'", "UPDATE posting SET ids = 5",
        "UPDATE posting SET counts = substr(counts, 5)",
        "UPDATE posting SET id = id + 1", "UPDATE posting SET counts = zeroblob(length(counts))",
        "ALTER TABLE skill RENAME COLUMN stamp TO mark",
        "UPDATE skill SET body = x'ff'", "UPDATE skill SET body = 'text'", "UPDATE skill SET length = 'long'",
        "UPDATE skill SET length = -1", "UPDATE skill SET about_length = 9e999", "UPDATE scope SET skills = -4",
        "UPDATE scope SET body = 'many'", "UPDATE stem SET letter = '' WHERE stem = 'knife'",
        "UPDATE stem SET letter = '\"' WHERE stem = 'knife'",
        "UPDATE stem SET letter = CAST(letter AS BLOB)", "UPDATE segment SET scope = 'x'",
        "UPDATE segment SET number = number + 1",
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, 'posting', 'pasting')",
        "UPDATE skill SET name = x'ff00'", "UPDATE skill SET about = 5",
        "UPDATE scope SET value = '{'", "UPDATE scope SET value = '[1, 2]'",
        "UPDATE scope SET value = '[1, 2, 3]'",
    ],
    every=5,
)  # fmt: skip
def test_an_index_with_something_wrong_inside_is_rebuilt(
    skills: Path, cache: Path, file: Path, expected: list[Found], statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = file.read_bytes()
    alter(file, statement)
    caplog.clear()
    try:
        with caplog.at_level(logging.WARNING, "metier.find"):
            assert found(opened(skills, cache)) == expected
        assert "is rebuilt" in caplog.text
    finally:
        gc.collect()
        for left in cache.glob("search-*"):
            left.unlink()
        file.write_bytes(good)


def test_postings_that_hold_nothing_any_more_are_found_out(
    skills: Path, cache: Path, file: Path, expected: list[Found]
) -> None:
    alter(file, "UPDATE posting SET ids = x'ff'")
    assert found(opened(skills, cache)) == expected


def test_a_half_of_random_bytes_is_found_out(skills: Path, cache: Path, file: Path, expected: list[Found]) -> None:
    size = file.stat().st_size
    for seed in range(4):
        good = file.read_bytes()
        overwrite(file, (seed % 2) * size // 2, random.Random(seed).randbytes(size // 2))
        assert found(opened(skills, cache)) == expected
        gc.collect()
        file.write_bytes(good)


def test_zeros_over_any_page_are_found_out_or_do_no_harm(skills: Path, cache: Path, file: Path) -> None:
    good = file.read_bytes()
    for page in range(0, len(good) // 4_096, 5):
        overwrite(file, page * 4_096, bytes(4_096))
        library = opened(skills, cache)
        for query in QUERIES:
            assert all(0 <= one.score <= 1 for one in library.search(query))
        del library
        gc.collect()
        for left in cache.glob("search-*"):
            left.unlink()
        file.write_bytes(good)


def test_text_in_it_that_is_no_utf_8_is_found_out(skills: Path, cache: Path, file: Path, expected: list[Found]) -> None:
    alter(file, "UPDATE skill SET name = CAST(x'73300aff' AS TEXT)")
    assert found(opened(skills, cache)) == expected


def test_a_schema_that_is_no_utf_8_is_found_out(skills: Path, cache: Path, file: Path, expected: list[Found]) -> None:
    data = file.read_bytes()
    overwrite(file, data.index(b"tableskillskill") + 5, b"\xf0(\x8c(")
    overwrite(file, data.index(b"CREATE TABLE skill") + 7, b"X")
    assert found(opened(skills, cache)) == expected


def test_whatever_bytes_are_overwritten_a_search_works(skills: Path, cache: Path, file: Path) -> None:
    good = file.read_bytes()
    names = {entry.name for entry in opened(skills, cache)}
    places = [(good.index(b"s07/SKILL.md"), b"\xff\xfe")]
    for seed in range(8):
        chance = random.Random(seed)
        places.append((chance.randrange(len(good) - 256), chance.randbytes(chance.choice((1, 16, 256)))))
    for at, data in places:
        overwrite(file, at, data)
        library = opened(skills, cache)
        for query in QUERIES:
            results = library.search(query)
            assert {one.name for one in results} <= names
            assert all(0 <= one.score <= 1 for one in results)
        del library
        gc.collect()
        for left in cache.glob("search-*"):
            left.unlink()
        file.write_bytes(good)


def test_an_index_that_is_damaged_between_two_searches_is_rebuilt(
    skills: Path, cache: Path, expected: list[Found], caplog: pytest.LogCaptureFixture
) -> None:
    library = opened(skills, cache)
    library.search("fruit")
    (file,) = cache.glob("search-*.db")
    alter(file, "UPDATE skill SET body = x'ff'")
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(library) == expected
    assert "is rebuilt" in caplog.text


@pytest.mark.parametrize("what", ["file", "folder", "-wal and -shm"])
def test_an_index_that_is_deleted_between_two_searches_is_not_missed(
    skills: Path, cache: Path, expected: list[Found], write_skill: Write, what: str
) -> None:
    library = opened(skills, cache)
    library.search("fruit")
    for path in cache.iterdir():
        if what != "-wal and -shm" or path.name.endswith(("-wal", "-shm")):
            path.unlink()
    if what == "folder":
        cache.rmdir()
    assert found(library) == expected
    write_skill(skills / "zebra")
    library.refresh()
    assert [one.name for one in library.search("/zebra")] == ["zebra"]
    assert [one.name for one in opened(skills, cache).search("/zebra")] == ["zebra"]


def test_what_a_killed_process_leaves_behind_may_be_deleted(
    skills: Path, cache: Path, file: Path, expected: list[Found], write_skill: Write
) -> None:
    """A log that was never written back is gone with all that was in it."""
    before = file.read_bytes()
    write_skill(skills / "zebra")
    library = opened(skills, cache)
    library.search("zebra")
    assert (cache / f"{file.name}-wal").stat().st_size
    del library
    gc.collect()
    file.write_bytes(before)
    for left in cache.glob("search-*-*"):
        left.unlink()
    assert [one.name for one in opened(skills, cache).search("zebra")] == ["zebra"]


def test_a_log_of_random_bytes_beside_it_does_no_harm(
    skills: Path, cache: Path, file: Path, expected: list[Found]
) -> None:
    (cache / f"{file.name}-wal").write_bytes(random.Random(1).randbytes(50_000))
    (cache / f"{file.name}-shm").write_bytes(random.Random(2).randbytes(32_768))
    assert found(opened(skills, cache)) == expected


# --- where it cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", ["folder", "link", "dead link", "pipe"])
def test_something_else_in_the_place_of_the_file_is_left_alone(
    skills: Path, cache: Path, file: Path, expected: list[Found], thing: str, caplog: pytest.LogCaptureFixture
) -> None:
    aside = file.rename(cache / "aside")
    if thing == "folder":
        file.mkdir()
    elif thing == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(aside if thing == "link" else "nowhere")
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "is kept in memory only: it is not a regular file" in caplog.text
    assert not stat.S_ISREG(file.lstat().st_mode)


def test_a_file_in_the_place_of_the_folder_does_no_harm(
    skills: Path, tmp_path: Path, expected: list[Found], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("mine")
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, tmp_path / "cache")) == expected
    assert "is kept in memory only" in caplog.text
    assert (tmp_path / "cache").read_text() == "mine"


@pytest.mark.usefixtures("unprivileged")
def test_a_folder_that_may_not_be_written_does_no_harm(
    skills: Path, cache: Path, expected: list[Found], caplog: pytest.LogCaptureFixture
) -> None:
    cache.mkdir(mode=0o500)
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "is kept in memory only" in caplog.text


def test_a_disk_that_is_full_does_no_harm(
    skills: Path,
    cache: Path,
    expected: list[Found],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = SearchIndex.update

    def full(self: SearchIndex, texts: Iterable[IndexedText], gone: Iterable[str] = ()) -> None:
        if self.database.path is not None:
            self.database.reader()
            with self.database.transaction() as connection:
                connection.execute("PRAGMA max_page_count = 1")
                try:
                    connection.execute("CREATE TABLE filler AS SELECT randomblob(1000000) AS x")
                except sqlite3.Error as error:
                    raise metier.find.index_database.own_error(error) from None
        real(self, texts, gone)

    monkeypatch.setattr(SearchIndex, "update", full)
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(opened(skills, cache)) == expected
    assert "is kept in memory only: database or disk is full" in caplog.text


def test_without_a_cache_nothing_is_written(skills: Path, tmp_path: Path, expected: list[Found]) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert found(Library.from_folder(skills, cache=False)) == expected
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.name != "posix", reason="permissions are of POSIX")
def test_the_index_is_for_its_owner_alone_also_in_a_folder_that_is_open_to_all(skills: Path, cache: Path) -> None:
    cache.mkdir(mode=0o755)
    library = opened(skills, cache)
    library.search("fruit")
    assert [path.name for path in cache.iterdir() if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


# --- taking turns ----------------------------------------------------------------------------------------------------


def test_a_write_that_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    index = SearchIndex(str(tmp_path / "index.db"))
    index.update([IndexedText("a", "1", "a", "fruit")])
    with pytest.raises(KeyboardInterrupt), index.database.transaction() as connection:
        connection.execute("DELETE FROM skill")
        raise KeyboardInterrupt
    assert index.stamps() == {"a": "1"}
    index.update([IndexedText("b", "1", "b", "fruit")])
    assert index.stamps() == {"a": "1", "b": "1"}


def test_a_reader_sees_the_last_complete_state_while_somebody_writes(tmp_path: Path) -> None:
    mine, other = SearchIndex(str(tmp_path / "index.db")), SearchIndex(str(tmp_path / "index.db"))
    mine.update([IndexedText("a", "1", "a", "fruit")])
    with mine.database.transaction() as connection:
        connection.execute("DELETE FROM skill")
        assert mine.stamps() == other.stamps() == {"a": "1"}
    assert mine.stamps() == other.stamps() == {}


def test_whoever_waits_too_long_for_another_writer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metier.find.index_database, "_LOCK_SECONDS", 0.01)
    mine, other = SearchIndex(str(tmp_path / "index.db")), SearchIndex(str(tmp_path / "index.db"))
    mine.stamps()
    with mine.database.transaction(), pytest.raises(IndexBusy):
        other.update([IndexedText("a", "1", "a", "fruit")])


def test_a_search_goes_on_with_what_is_indexed_while_another_process_writes(
    skills: Path,
    cache: Path,
    file: Path,
    expected: list[Found],
    write_skill: Write,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(metier.find.index_database, "_LOCK_SECONDS", 0.01)
    write_skill(skills / "zebra")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    library = opened(skills, cache)
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert found(library) == expected
        assert not library.update_index()
    assert "busy; some skills may be missing" in caplog.text
    other.execute("ROLLBACK")
    other.close()
    assert [one.name for one in library.search("/zebra")] == ["zebra"]


def test_a_first_search_waits_as_long_as_another_process_gets_on_with_writing(
    skills: Path,
    cache: Path,
    file: Path,
    write_skill: Write,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(metier.find.index_database, "_LOCK_SECONDS", 0.01)
    write_skill(skills / "zebra")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    update, waits = SearchIndex.update, list[str]()

    def waiting(self: SearchIndex, texts: Iterable[IndexedText], gone: Iterable[str] = ()) -> None:
        try:
            update(self, texts, gone)
        except IndexBusy:
            waits.append("")
            other.execute("UPDATE made_by SET numbers = numbers + 1")
            other.execute("COMMIT")
            if len(waits) < 5:
                other.execute("BEGIN IMMEDIATE")
            raise

    monkeypatch.setattr(SearchIndex, "update", waiting)
    with caplog.at_level(logging.WARNING, "metier.find"):
        assert [one.name for one in opened(skills, cache).search("/zebra")] == ["zebra"]
    other.close()
    assert len(waits) == 5
    assert caplog.text == ""


def test_an_index_that_another_process_keeps_to_itself_ends_no_search(
    skills: Path, cache: Path, file: Path, expected: list[Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metier.find.index_database, "_LOCK_SECONDS", 0.01)
    file.unlink()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    other.execute("CREATE TABLE theirs (x)")
    try:
        assert found(opened(skills, cache)) == expected
    finally:
        other.close()


def test_a_database_says_what_is_wrong_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(b"no database " * 1_000)
    database = IndexDatabase(str(tmp_path / "index.db"))
    database.reader().execute("SELECT * FROM skill")
    database.close()
    assert isinstance(
        metier.find.index_database.own_error(sqlite3.DatabaseError("file is not a database")), IndexDamaged
    )
    assert isinstance(metier.find.index_database.own_error(sqlite3.OperationalError("disk I/O error")), OSError)
    assert isinstance(metier.find.index_database.own_error(sqlite3.OperationalError("database is locked")), IndexBusy)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE made_by SET numbers = 'x'", "UPDATE skill SET length = -1", "UPDATE segment SET size = 'x'",
        *(pytest.param(statement, marks=pytest.mark.slow) for statement in (
            "UPDATE made_by SET numbers = 1.5", "UPDATE made_by SET numbers = -3", "UPDATE skill SET body = 7",
            "UPDATE made_by SET gone = -99", "UPDATE stem SET letter = CAST(letter AS BLOB)",
        )),
    ],
)  # fmt: skip
def test_damage_that_is_met_while_writing_is_mended(
    skills: Path, cache: Path, file: Path, statement: str, caplog: pytest.LogCaptureFixture, write_skill: Write
) -> None:
    alter(file, statement)
    for number in range(SKILLS + 5):
        write_skill(skills / f"s{number:02d}", description="Zebras and fruit.", body="New words.")
    with caplog.at_level(logging.WARNING, "metier.find"):
        mended = found(opened(skills, cache))
    assert mended == found(Library.from_folder(skills, cache=False))
    assert "is rebuilt" in caplog.text


# --- what other processes do to it -----------------------------------------------------------------------------------


def in_another_process(skills: Path, cache: Path) -> None:
    """What one that is started, searches once and ends does to the index."""
    opened(skills, cache).search("fruit")
    gc.collect()


def test_a_folder_that_was_elsewhere_for_a_moment_is_found_again(
    skills: Path, cache: Path, expected: list[Found]
) -> None:
    library = opened(skills, cache)
    assert found(library) == expected
    for number in (1, 2, 3):
        (skills / f"s{number:02d}").rename(skills.parent / f"s{number:02d}")
    in_another_process(skills, cache)
    for number in (1, 2, 3):
        (skills.parent / f"s{number:02d}").rename(skills / f"s{number:02d}")
    library.refresh()
    assert found(library) == expected


def test_a_link_that_pointed_elsewhere_for_a_moment_does_no_harm(
    tmp_path: Path, cache: Path, write_skill: Write
) -> None:
    for version, words in (("v1", "peel fruit"), ("v2", "bake bread")):
        write_skill(tmp_path / version / "same", description=words)
        write_skill(tmp_path / version / f"only-{version}", description=words)
    link = tmp_path / "skills"
    link.symlink_to("v1")
    library = opened(link, cache)
    before = found(library)
    link.unlink()
    link.symlink_to("v2")
    in_another_process(link, cache)
    link.unlink()
    link.symlink_to("v1")
    library.refresh()
    assert found(library) == before != []


def test_a_stale_skill_is_found_whatever_others_make_of_its_file(
    skills: Path, cache: Path, write_skill: Write, next_tick: Callable[[Path], None]
) -> None:
    file = write_skill(skills / "zebra", description="Zebras.", body="Stripes.")
    library = opened(skills, cache)
    before = found(library), [one.name for one in library.search("stripes")]
    assert before[1] == ["zebra"]
    next_tick(file)
    file.write_bytes(b"\xff\xfe\0\0")
    library.refresh()
    in_another_process(skills, cache)
    library.refresh()
    assert (found(library), [one.name for one in library.search("stripes")]) == before


def test_two_processes_that_looked_at_different_moments_do_not_write_against_one_another(
    skills: Path, cache: Path, next_tick: Callable[[Path], None], write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = opened(skills, cache)
    old.search("fruit")
    next_tick(skills / "s07" / "SKILL.md")
    write_skill(skills / "s07", description="Zebras.")
    write_skill(skills / "new", description="Zebras.")
    new = opened(skills, cache)
    assert {one.name for one in new.search("zebras")} == {"s07", "new"}
    written: list[str] = []
    real = SearchIndex.update

    def watched(self: SearchIndex, texts: Iterable[IndexedText], gone: Iterable[str] = ()) -> None:
        texts = list(texts)
        written.extend(text.key for text in texts)
        real(self, texts, gone)

    monkeypatch.setattr(SearchIndex, "update", watched)
    for _ in range(3):
        old.search("fruit")
        assert {one.name for one in new.search("zebras")} == {"s07", "new"}
    assert written == []
