"""What is kept of each skill: always what a new index would hold, and written only where something changed."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import crossed

import metier.find.indexed_text
from metier import Library
from metier.find import index_maintenance
from metier.find.indexed_text import IndexedText
from metier.find.postings import Field
from metier.find.ranking import LEVELS
from metier.find.search_index import SearchIndex
from metier.skill import Diagnostic
from metier.source.source import SkillFileError

pytestmark = pytest.mark.usefixtures("quiet_files")

Write = Callable[..., Path]
Found = list[tuple[str, float, str]]


@pytest.fixture
def skills(tmp_path: Path, write_skill: Write) -> Path:
    folder = tmp_path / "skills"
    write_skill(folder / "apple", description="Peel fruit.", body="Use a knife.", more="tags: [kitchen]\n")
    write_skill(folder / "bread", description="Bake dough.", body="Heat the oven.", more="tags: [kitchen]\n")
    write_skill(folder / "chair", description="Saw wood.", body="Sand the legs.")
    return folder


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of what is put into an index or, with a minus sign, taken out."""
    keys: list[str] = []
    real = SearchIndex.update

    def watched(self: SearchIndex, texts: Iterable[IndexedText], gone: Iterable[str] = ()) -> None:
        texts, gone = list(texts), list(gone)
        keys.extend([*(text.key for text in texts), *(f"-{key}" for key in gone)])
        real(self, texts, gone)

    monkeypatch.setattr(SearchIndex, "update", watched)
    return keys


def opened(skills: Path, cache: Path | bool) -> Library:
    return Library.from_folder(skills, cache=cache)


def names(library: Library, query: str) -> list[str]:
    return [result.name for result in library.search(query)]


def found(library: Library, query: str) -> Found:
    return [(one.name, one.score, one.why) for one in library.search(query, 50, include_unlisted=True)]


# --- only what changed -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settled")
def test_the_first_search_indexes_everything_and_the_next_nothing(
    skills: Path, tmp_path: Path, written: list[str]
) -> None:
    library = opened(skills, tmp_path / "cache")
    library.search("fruit")
    assert sorted(written) == ["apple/SKILL.md", "bread/SKILL.md", "chair/SKILL.md"]
    written.clear()
    library.search("dough")
    library.refresh()
    library.search("wood")
    opened(skills, tmp_path / "cache").search("wood")
    assert written == []


@pytest.mark.usefixtures("settled")
@crossed(("restart", [False, True]), ("change", ["edit", "add", "remove", "rename"]), one_in=2)
def test_one_change_writes_one_skill(
    skills: Path,
    tmp_path: Path,
    write_skill: Write,
    written: list[str],
    next_tick: Callable[[Path], None],
    change: str,
    restart: bool,
) -> None:
    library = opened(skills, tmp_path / "cache")
    library.search("fruit")
    written.clear()
    next_tick(skills / "bread" / "SKILL.md")
    expected = ["bread/SKILL.md"]
    if change == "edit":
        write_skill(skills / "bread", description="Bake pizza.")
    elif change == "add":
        write_skill(skills / "door", description="Paint pizza.")
        expected = ["door/SKILL.md"]
    elif change == "remove":
        shutil.rmtree(skills / "bread")
        expected = ["-bread/SKILL.md"]
    else:
        write_skill(skills / "bread", name="pizza")
    if restart:
        library = opened(skills, tmp_path / "cache")
    else:
        library.refresh()
    assert bool(names(library, "pizza")) is (change != "remove")
    assert written == expected


def test_a_removed_skill_is_not_found_by_anything_it_had(skills: Path, tmp_path: Path) -> None:
    library = opened(skills, tmp_path / "cache")
    assert names(library, "oven") == ["bread"]
    shutil.rmtree(skills / "bread")
    library.refresh()
    for again in (library, opened(skills, tmp_path / "cache")):
        for query in ("oven", "bread", "/bread", "bred", "braed", '"bake dough"', "dough"):
            assert names(again, query) == []
        assert names(again, "tag:kitchen") == ["apple"]


def test_a_renamed_skill_is_found_by_its_new_name_only(skills: Path, tmp_path: Path, write_skill: Write) -> None:
    library = opened(skills, tmp_path / "cache")
    library.search("bread")
    write_skill(skills / "bread", name="pizza", description="Bake dough.", body="Heat the oven.")
    library.refresh()
    for again in (library, opened(skills, tmp_path / "cache")):
        assert names(again, "bread") == names(again, "/bread") == names(again, "braed") == []
        assert names(again, "/pizza") == names(again, "pizzza") == names(again, "oven") == ["pizza"]


def test_a_moved_folder_is_found_where_it_is(skills: Path, tmp_path: Path) -> None:
    library = opened(skills, tmp_path / "cache")
    library.search("bread")
    (skills / "group").mkdir()
    (skills / "bread").rename(skills / "group" / "bread")
    library.refresh()
    (result,) = library.search("oven")
    assert result.entry.location == str(skills / "group" / "bread" / "SKILL.md")


def test_a_skill_that_breaks_is_found_as_it_was_also_after_the_next_start(skills: Path, tmp_path: Path) -> None:
    library = opened(skills, tmp_path / "cache")
    library.search("bread")
    (skills / "bread" / "SKILL.md").write_bytes(b"")
    library.refresh()
    assert names(library, "oven") == names(library, "/bread") == ["bread"]
    again = opened(skills, tmp_path / "cache")
    assert names(again, "oven") == names(again, "/bread") == ["bread"]


def test_indexing_ahead_tells_how_far_it_is(
    skills: Path, tmp_path: Path, write_skill: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_maintenance, "BATCH", 200)
    for number in range(210):
        write_skill(skills / f"more-{number}")
    told: list[tuple[int, int]] = []
    library = opened(skills, tmp_path / "cache")
    assert library.update_index(lambda done, of: told.append((done, of)))
    assert told == [(0, 213), (200, 213)]
    assert library.update_index(lambda done, of: told.append((done, of)))
    assert len(told) == 2


@pytest.mark.usefixtures("settled")
def test_a_body_that_cannot_be_read_for_a_moment_is_indexed_later(
    skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many_open(*_: object) -> tuple[bytes, object]:
        raise SkillFileError(Diagnostic("file-unreadable", 1, ("SKILL.md", "Too many open files")), may_pass=True)

    with monkeypatch.context() as patch:
        patch.setattr(metier.find.indexed_text, "read_skill", too_many_open)
        assert names(opened(skills, tmp_path / "cache"), "fruit") == ["apple"]
    assert names(opened(skills, tmp_path / "cache"), "knife") == ["apple"]


def test_two_folders_whose_names_look_alike_in_the_index_are_two_skills(tmp_path: Path, write_skill: Write) -> None:
    raw = os.fsencode(tmp_path) + b"/skills/x\xff"
    try:
        os.makedirs(raw)
    except OSError:
        pytest.skip("this file system takes Unicode names only")
    with open(raw + b"/SKILL.md", "w") as file:
        file.write("---\nname: raw\ndescription: Raw zebra.\n---\nDo.\n")
    write_skill(tmp_path / "skills" / "x\\udcff", name="spelled", description="Spelled zebra.")
    assert sorted(names(opened(tmp_path / "skills", tmp_path / "cache"), "zebra")) == ["raw", "spelled"]


# --- as good as new --------------------------------------------------------------------------------------------------

WORDS = ("apple", "bread", "chair", "dough", "fruit", "knife", "oven", "wood")
FOLDERS = ("one", "two", "three", "four", "five")
QUERIES = (
    "apple",
    "bread knife",
    "dough fruit oven",
    "wood",
    '"apple bread"',
    "tag:kitchen",
    "/apple",
    "chair tag:kitchen",
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "remove", "break", "move", "refresh", "search", "restart"]),
        st.sampled_from(FOLDERS),
        st.sampled_from(WORDS),
        texts,
        texts,
        st.sampled_from(["", "tags: [kitchen]\n", "scope: {agents: [x]}\n", "disable-model-invocation: true\n"]),
    ),
    max_size=20,
)
Steps = list[tuple[str, str, str, str, str, str]]


def put(folder: Path, name: str, about: str, body: str, more: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {about}\n{more}---\n{body}\n")


@given(steps)
def test_an_index_that_was_kept_up_to_date_finds_what_a_new_one_finds(history: Steps) -> None:
    with tempfile.TemporaryDirectory() as name:
        root, cache = Path(name) / "skills", Path(name) / "cache"
        root.mkdir()
        library = opened(root, cache)
        for action, folder, skill, about, body, more in history:
            if action == "write":
                put(root / folder, skill, about, body, more)
            elif action == "remove":
                shutil.rmtree(root / folder, ignore_errors=True)
            elif action == "break" and (root / folder).exists():
                (root / folder / "SKILL.md").write_bytes(b"")
            elif action == "move" and (root / folder).exists() and not (root / skill).exists():
                (root / folder).rename(root / skill)
            elif action == "refresh":
                library.refresh()
            elif action == "search":
                library.search(about)
            elif action == "restart":
                library = opened(root, cache)
        for path in root.glob("*/SKILL.md"):
            if not path.stat().st_size:
                path.unlink()  # whether its last good version is still served depends on who saw it
        kept = opened(root, cache)
        for caller in ({}, {"agent": "x"}):
            expected = opened(root, False).as_caller(**caller)
            for query in QUERIES:
                assert found(kept.as_caller(**caller), query) == found(expected, query)


def test_every_order_of_putting_in_finds_the_same(tmp_path: Path) -> None:
    forth, back = tmp_path / "forth", tmp_path / "back"
    numbers = range(12)
    libraries = []
    for folder, order in ((forth, numbers), (back, reversed(numbers))):
        folder.mkdir()
        library = opened(folder, tmp_path / "cache")
        for number in order:
            put(folder / f"s{number}", f"s{number}", f"{WORDS[number % 8]} fruit", f"{WORDS[number % 3]} oven", "")
            library.refresh()
            library.search("x")
        libraries.append(library)
    for query in (*QUERIES, "fruit", "oven", "fruti"):
        assert found(libraries[0], query) == found(libraries[1], query)


def test_the_name_of_a_removed_skill_corrects_no_typo(skills: Path, tmp_path: Path, write_skill: Write) -> None:
    write_skill(skills / "zebra-words")
    write_skill(skills / "plain", body="A zebra runs.")
    library = opened(skills, tmp_path / "cache")
    library.search("zebra")
    shutil.rmtree(skills / "zebra-words")
    library.refresh()
    assert found(library, "zebar") == found(opened(skills, False), "zebar")


@pytest.mark.usefixtures("settled")
def test_of_many_skills_that_fit_alike_a_kept_index_finds_the_same_as_a_new_one(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    for number in range(120):
        put(root / f"s{number:03d}", f"s{number:03d}", "Peel common fruit.", "Do.", "")
    library = opened(root, tmp_path / "cache")
    for result in library.search("common fruit", 20):
        put(root / result.name, result.name, "Peel common fruit. ", "Do.", "")
    library.refresh()
    assert names(library, "common fruit") == names(opened(root, False), "common fruit")


@pytest.mark.usefixtures("settled")
def test_a_second_search_compares_nothing(skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = opened(skills, tmp_path / "cache")
    assert names(library, "fruit") == ["apple"]
    monkeypatch.setattr(SearchIndex, "stamps", None)
    assert names(library, "fruit") == ["apple"]


# --- the index itself ------------------------------------------------------------------------------------------------


def text(key: str, stamp: str = "1", **fields: str) -> IndexedText:
    return IndexedText(key=key, stamp=stamp, name=key, **fields)  # type: ignore[arg-type]


def everything(index: SearchIndex) -> tuple[object, ...]:
    scopes = set(index.scopes())
    return index.stamps(), index.totals(scopes), counts(index, ("fruit", "knife", "oven"), scopes)


def counts(index: SearchIndex, stems: Sequence[str], scopes: Collection[int]) -> dict[str, tuple[int, int]]:
    return index.postings(index.letters(stems), scopes).counts


def having(index: SearchIndex, field: Field, stem: str) -> list[int]:
    letters = index.letters([stem])
    postings = index.postings(letters, set(index.scopes()))
    return [id_ for stem in letters for level in range(len(LEVELS)) for id_ in postings.having(field, stem, level)]


@pytest.mark.parametrize("path", [None, "index.db"])
def test_what_is_put_in_and_taken_out_again_leaves_nothing(tmp_path: Path, path: str | None) -> None:
    index = SearchIndex(None if path is None else str(tmp_path / path))
    index.update([text("a", about="fruit", body="knife")])
    before = everything(index)
    index.update([text("b", about="fruit oven", body="knife knife"), text("c", body="oven", scope='[["x"],null,null]')])
    assert everything(index) != before
    index.update([text("b", "2", about="oven")], gone=["c"])
    index.update([], gone=["b", "b", "unheard-of"])
    assert everything(index) == before
    assert having(index, "about", "fruit") == having(index, "body", "knife") != []
    assert having(index, "about", "oven") == having(index, "body", "oven") == []


def test_a_skill_with_the_stamp_that_is_known_is_left_alone() -> None:
    index = SearchIndex()
    index.update([text("a", about="fruit")])
    index.update([text("a", about="knife")])
    assert counts(index, ("fruit", "knife"), set(index.scopes())) == {"fruit": (1, 0)}


def test_words_are_counted_apart_for_each_scope() -> None:
    index = SearchIndex()
    index.update([text("a", about="fruit"), text("b", about="fruit", scope='[["x"],null,null]')])
    for number in index.scopes():
        assert counts(index, ("fruit",), {number}) == {"fruit": (1, 0)}
        assert index.totals({number}).skills == 1
    assert counts(index, ("fruit",), ()) == {}
    assert index.totals(()).skills == 0


@pytest.mark.each(
    "body",
    ["", "\x00", "fruit\x00knife", "👩‍👩‍👧", "x" * 200_000, "a\u00b3 b\u00b2", '" OR "', "技能" * 50, "é e\u0301 ß ﬁ"],
)
def test_whatever_a_skill_says_can_be_put_in_and_taken_out(body: str) -> None:
    index = SearchIndex()
    before = everything(index)
    index.update([text("a", body=body, about=body)])
    index.update([text("a", "2", body="other")])
    index.update([], gone=["a"])
    assert everything(index)[0::2] == before[0::2]
    assert index.totals(set(index.scopes())) == (0, 0, 0)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_every_text_is_forgotten_as_it_was_learned(bodies: list[str]) -> None:
    index = SearchIndex()
    for number, body in enumerate(bodies):
        index.update([text("a", str(number), about=body, body=body)])
    index.update([], gone=["a"])
    assert index.totals(set(index.scopes())) == (0, 0, 0)
    assert index.stamps() == {}


@pytest.mark.parametrize("path", [None, "index.db"])
def test_what_is_hidden_is_in_no_list_once_somebody_wrote(tmp_path: Path, path: str | None) -> None:
    index = SearchIndex(None if path is None else str(tmp_path / path))
    writer = index if path is None else SearchIndex(str(tmp_path / path))
    scoped = '[["x"],null,null]'
    index.update([text("a", about="fruit"), text("b", about="fruit", scope=scoped)])
    (open_to_all,) = (number for number, value in index.scopes().items() if value == "")
    ids = {row.key: row.id for row in index.rows(range(10))}

    def seen(scopes: set[int]) -> set[int]:
        postings = index.postings(index.letters(["fruit"]), scopes)
        return {id_ for level in range(len(LEVELS)) for id_ in postings.having("about", "fruit", level)}

    assert seen({open_to_all}) == {ids["a"]}
    assert seen(set(index.scopes())) == set(ids.values())
    writer.update([text("a", "2", about="fruit", scope=scoped)])
    assert seen({open_to_all}) == set()
    assert seen(set(index.scopes()) - {open_to_all}) == set(ids.values())
    writer.update([text("a", "3", about="fruit")], gone=["b"])
    assert seen({open_to_all}) == seen(set(index.scopes())) == {ids["a"]}


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_afterwards_as_it_was_before(is_enabled: bool) -> None:
    index = SearchIndex()
    try:
        if not is_enabled:
            gc.disable()
        index.update([IndexedText(key="a", stamp="1", name="a", body="fruit")])
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_while_skills_are_written_collects_garbage() -> None:
    children = []

    def texts() -> Iterator[IndexedText]:
        assert not gc.isenabled()
        child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        children.append(child)
        yield IndexedText(key="a", stamp="1", name="a", body="fruit")

    SearchIndex().update(texts())
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0]
    assert gc.isenabled()
