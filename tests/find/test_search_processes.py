"""Several processes and threads with one search index: all find the right skills, and nobody leaves it half done."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from metier import Library
from metier.find import index_maintenance
from metier.find.indexed_text import IndexedText
from metier.find.search_index import SearchIndex

Write = Callable[..., Path]
PATIENCE = 90.0
BATCH = 40
SKILLS = 90  # more than two batches
QUERIES = ("fruit", "knife oven", "/skill-007", "tag:even", '"heat the oven"', "skil-017", "word13", "unheard")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")

SCRIPT = """
import json, os, signal, sqlite3, sys, time
real = time.time_ns
time.time_ns = lambda: real() + 10_000_000_000  # files just written count as written long ago
folder, cache, queries, moment = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
from metier import Library
from metier.find import index_maintenance
from metier.find.search_index import SearchIndex
index_maintenance.BATCH = int(sys.argv[5])

def die():
    os.kill(os.getpid(), signal.SIGKILL)

if moment.startswith("before batch") or moment.startswith("after batch"):
    update, number, calls = SearchIndex.update, int(moment[-1]), []
    def dying(self, texts, gone=()):
        calls.append(None)
        if moment.startswith("before") and len(calls) == number:
            die()
        update(self, texts, gone)
        if moment.startswith("after") and len(calls) == number:
            die()
    SearchIndex.update = dying
elif moment.startswith("inside batch"):
    from metier.find.index_writer import IndexWriter
    count, at, written = IndexWriter._count, int(moment.split()[-1]), []
    def dying(*args, **options):
        count(*args, **options)
        written.append(None)
        if len(written) == at:
            die()
    IndexWriter._count = dying
elif moment == "before commit":
    from metier.find.index_writer import IndexWriter
    save = IndexWriter.save
    def dying(self):
        save(self)
        die()
    IndexWriter.save = dying
elif moment == "inside of a merge":
    from metier.find import postings
    postings._FAN, append, appended = 2, postings._append, []
    def dying(*args):
        append(*args)
        appended.append(None)
        if len(appended) == 3:
            die()
    postings._append = dying
elif moment == "while the tables are made":
    from metier.find import index_database
    index_database._SCHEMA = index_database._SCHEMA.replace("CREATE TABLE tag", "SELECT die();\\nCREATE TABLE tag")
    connect = sqlite3.connect
    def connected(*args, **options):
        connection = connect(*args, **options)
        connection.create_function("die", 0, die)
        return connection
    sqlite3.connect = connected

library = Library.from_folder(folder, cache=cache)
if moment == "at once":
    print("ready", flush=True)
    sys.stdin.readline()
found = [[(one.name, one.score, one.why) for one in library.search(query, 30)] for query in queries]
print(json.dumps(found), flush=True)
if moment == "after a search":
    die()
"""

pytestmark = pytest.mark.usefixtures("settled", "small_batches")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few skills fill several batches, which each process writes one after the other."""
    monkeypatch.setattr(index_maintenance, "BATCH", BATCH)


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory, write_skill: Write) -> Path:
    folder = tmp_path_factory.mktemp("skills")
    for number in range(SKILLS):
        write_skill(
            folder / f"skill-{number:03d}",
            description=f"Peel fruit with word{number % 50}.",
            body=f"Use a knife. {'Heat the oven.' if number % 9 == 0 else 'Wait.'} Then word{number % 7}.",
            more="" if number % 2 else "tags: [even]\n",
        )
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def found(library: Library) -> list[list[list[Any]]]:
    return [[[one.name, one.score, one.why] for one in library.search(query, 30)] for query in QUERIES]


@pytest.fixture(scope="module")
def expected(skills: Path) -> list[list[list[Any]]]:
    return found(Library.from_folder(skills, cache=False))


def started(skills: Path, cache: Path, moment: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(skills), str(cache), json.dumps(QUERIES), moment, str(BATCH)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def indexed(cache: Path) -> list[str]:
    (file,) = cache.glob("search-*.db")
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT sum(skills) FROM scope").fetchone() == (SKILLS,)
        return [row[0] for row in connection.execute("SELECT key FROM skill ORDER BY key")]
    finally:
        connection.close()


ALL_KEYS = [f"skill-{number:03d}/SKILL.md" for number in range(SKILLS)]


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_fresh_process_finds_the_same_whatever_its_hash_seed(
    skills: Path, cache: Path, expected: list[list[list[Any]]]
) -> None:
    assert found(Library.from_folder(skills, cache=cache)) == expected
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    told, complaints = started(skills, cache, "", PYTHONHASHSEED=seed).communicate(timeout=PATIENCE)
    assert complaints == ""
    assert json.loads(told) == expected


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 6])
def test_processes_that_index_a_new_folder_at_once_all_find_the_right_skills(
    skills: Path, cache: Path, expected: list[list[list[Any]]], count: int
) -> None:
    processes = [started(skills, cache, "at once") for _ in range(count)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        told, complaints = process.communicate(timeout=PATIENCE)
        assert (process.returncode, complaints) == (0, "")
        assert json.loads(told) == expected
    assert indexed(cache) == ALL_KEYS


@needs_kill
@pytest.mark.parametrize(
    "moment",
    [
        "before commit",
        "inside of a merge",
        *(
            pytest.param(moment, marks=pytest.mark.slow)
            for moment in (
                "while the tables are made",
                "inside batch: skill 41",
                "after batch 1",
                "before batch 1",
                "inside batch: skill 1",
                "inside batch: skill 30",
                "inside batch: skill 89",
                "before batch 3",
                "after batch 3",
                "after a search",
            )
        ),
    ],
)
def test_what_a_killed_process_left_is_completed_by_the_next(
    skills: Path, cache: Path, expected: list[list[list[Any]]], moment: str
) -> None:
    process = started(skills, cache, moment)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    library = Library.from_folder(skills, cache=cache)
    assert found(library) == expected
    assert indexed(cache) == ALL_KEYS


@needs_kill
def test_the_next_process_goes_on_where_a_killed_one_stopped(
    skills: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(skills, cache, "after batch 2")
    process.communicate(timeout=PATIENCE)
    written: list[str] = []
    real = SearchIndex.update

    def watched(self: SearchIndex, texts: list[IndexedText], gone: tuple[str, ...] = ()) -> None:
        written.extend(text.key for text in texts)
        real(self, texts, gone)

    monkeypatch.setattr(SearchIndex, "update", watched)
    Library.from_folder(skills, cache=cache).search("fruit")
    assert len(written) == len(set(written)) == SKILLS - 2 * BATCH


def test_what_one_process_indexed_another_that_runs_need_not(
    tmp_path: Path, cache: Path, write_skill: Write, next_tick: Callable[[Path], None]
) -> None:
    first = write_skill(tmp_path / "skills" / "first", description="Peel fruit.")
    mine, other = (Library.from_folder(tmp_path / "skills", cache=cache) for _ in range(2))
    assert [one.name for one in mine.search("fruit")] == [one.name for one in other.search("fruit")] == ["first"]
    next_tick(first)
    write_skill(tmp_path / "skills" / "first", description="Peel onions.")
    write_skill(tmp_path / "skills" / "second", description="Peel fruit.")
    other.refresh()
    assert [one.name for one in other.search("fruit")] == ["second"]
    # A library that was not refreshed knows no second skill, and must not stumble over it.
    assert {one.name for one in mine.search("fruit")} <= {"first"}
    mine.refresh()
    assert [one.name for one in mine.search("fruit")] == ["second"]


# --- fork ------------------------------------------------------------------------------------------------------------


def in_a_fork(work: Callable[[], object]) -> object:
    """What a function returns in a child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(int(PATIENCE))
            answer = json.dumps(work())
        except BaseException as error:
            answer = json.dumps(repr(error))
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)


@pytest.fixture
def few(tmp_path: Path, write_skill: Write) -> Path:
    for name in ("apple", "bread", "chair"):
        write_skill(tmp_path / "few" / name, description=f"Peel {name} fruit.")
    return tmp_path / "few"


def names(library: Library, query: str) -> list[str]:
    return sorted(result.name for result in library.search(query))


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_parent_and_child_of_a_fork_both_search_and_index(few: Path, cache: Path, write_skill: Write) -> None:
    library = Library.from_folder(few, cache=cache)
    assert names(library, "fruit") == ["apple", "bread", "chair"]

    def child() -> list[list[str]]:
        before = names(library, "fruit")
        write_skill(few / "door", description="Paint fruit.")
        library.refresh()
        return [before, names(library, "fruit")]

    told = in_a_fork(child)
    assert told == [["apple", "bread", "chair"], ["apple", "bread", "chair", "door"]]
    write_skill(few / "engine", description="Oil fruit.")
    library.refresh()
    assert names(library, "fruit") == ["apple", "bread", "chair", "door", "engine"]
    assert names(Library.from_folder(few, cache=cache), "fruit") == names(library, "fruit")


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_finds_what_is_indexed_in_memory(few: Path) -> None:
    library = Library.from_folder(few, cache=False)
    assert names(library, "fruit") == ["apple", "bread", "chair"]
    assert in_a_fork(lambda: names(library, "fruit")) == ["apple", "bread", "chair"]


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_finds_everything_also_when_the_cache_was_emptied(few: Path, cache: Path) -> None:
    library = Library.from_folder(few, cache=cache)
    assert names(library, "fruit") == ["apple", "bread", "chair"]
    for path in cache.iterdir():
        path.unlink()
    assert in_a_fork(lambda: names(library, "fruit")) == ["apple", "bread", "chair"]


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_child_of_a_fork_writes_through_a_connection_of_its_own(tmp_path: Path) -> None:
    index = SearchIndex(str(tmp_path / "index.db"))
    index.update([IndexedText("a", "1", "a")])
    with index.database.transaction() as connection:
        parents = id(connection)

    def child() -> bool:
        with index.database.transaction() as connection:
            return id(connection) == parents

    assert in_a_fork(child) is False


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_threads_that_search_first_all_wait_for_the_whole_index(
    skills: Path, cache: Path, kept: bool, count: int, expected: list[list[list[Any]]]
) -> None:
    library = Library.from_folder(skills, cache=cache if kept else False)
    gate = threading.Barrier(count)

    def search(_: int) -> list[list[list[Any]]]:
        gate.wait(PATIENCE)
        return found(library)

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(search, range(count), timeout=PATIENCE))
    assert answers == [expected] * count


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_threads_that_search_while_one_refreshes_see_a_state_that_was(
    few: Path, cache: Path, write_skill: Write, kept: bool, rounds: int
) -> None:
    library = Library.from_folder(few, cache=cache if kept else False)
    library.search("fruit")
    over = threading.Event()

    def search(_: int) -> list[str]:
        problems: list[str] = []
        while not over.is_set() and not problems:
            for query, always in (("fruit", {"apple", "bread", "chair"}), ("/bread", {"bread"}), ("tag:x", set())):
                results = library.search(query, 100)
                scores = [one.score for one in results]
                seen = {one.name for one in results}
                if not always <= seen or not seen <= always | {f"guest-{n}" for n in range(rounds)} | {"changing"}:
                    problems.append(f"{query} found {sorted(seen)}")
                if scores != sorted(scores, reverse=True) or not all(0 <= score <= 1 for score in scores):
                    problems.append(f"{query} scored {scores}")
        return problems

    with ThreadPoolExecutor(6) as pool:
        searches = [pool.submit(search, number) for number in range(6)]
        try:
            for number in range(rounds):
                write_skill(few / f"guest-{number}", description="Peel guest fruit.")
                write_skill(few / "changing", description=f"Change fruit {number} times.")
                library.refresh()
                library.update_index()
        finally:
            over.set()
        assert [one.result(PATIENCE) for one in searches] == [[]] * 6
    gc.collect()
    library.refresh()
    assert found(library) == found(Library.from_folder(few, cache=False))


def test_an_index_that_another_process_is_making_is_waited_for(
    skills: Path, cache: Path, expected: list[list[list[Any]]]
) -> None:
    assert found(Library.from_folder(skills, cache=cache)) == expected
    (made,) = cache.glob("search-*.db")
    new = cache.with_name("new")
    new.mkdir(mode=0o700)
    other = sqlite3.connect(new / made.name, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # as somebody has it who turns its log on
    release = threading.Timer(0.5, other.execute, ["COMMIT"])
    release.start()
    try:
        assert found(Library.from_folder(skills, cache=new)) == expected
    finally:
        release.join()
        other.close()
    assert indexed(new) == ALL_KEYS


def test_a_skill_that_goes_after_its_words_were_counted_takes_nothing_from_the_others(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library.from_folder(few, cache=False)
    before = {one.name for one in library.search("fruit")}
    totals = SearchIndex.totals

    def fewer(self: SearchIndex, scopes: Any) -> Any:
        now = totals(self, scopes)
        return now._replace(skills=now.skills - 1)  # as a thread leaves it that knows an older state of the folder

    monkeypatch.setattr(SearchIndex, "totals", fewer)
    assert {one.name for one in library.search("fruit")} == before
