"""Searching by meaning: found without a word in common, with the embedder that is there, or with one's own."""

from __future__ import annotations

import gc
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import pytest
from numpy.typing import NDArray

import metier.find.vectors
from metier import Library
from metier.errors import SearchUnavailable
from metier.find import Embedder, WordVectors

Write = Callable[..., Path]
Found = list[tuple[str, float, str]]
needs_extra = pytest.mark.skipif(
    metier.find.vectors.default_embedder() is None, reason="metier[vectors] is not installed"
)
PATIENCE = 60.0


class Colours:
    """An embedder of one's own: a text means the colours that it names, whatever it calls them."""

    name = "colours-1"
    weight = 0.3
    unrelated = 0.1

    SAME = ({"red", "crimson", "scarlet"}, {"blue", "azure", "navy"}, {"green", "emerald", "jade"})

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        self.asked.extend(texts)
        rows = numpy.zeros((len(texts), 3), dtype=numpy.float32)
        for row, text in enumerate(texts):
            words = set(text.lower().replace(".", " ").split())
            rows[row] = [len(words & same) for same in self.SAME]
            rows[row] /= max(1.0, float(numpy.linalg.norm(rows[row])))
        return rows


@pytest.fixture(autouse=True)
def not_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_VECTORS")


def skill(name: str, description: str = "Does it.", body: str = "Do it.", more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"}


PAINTS = (
    skill("paint-wall", "Paint it crimson."),
    skill("paint-door", "Paint it azure."),
    skill("paint-gate", "Paint it emerald."),
)


def painted(*more: dict[str, str], embedder: Embedder | None = None) -> Library:
    library = Library.from_files(*PAINTS, *more)
    library.embed_with(embedder or Colours())
    return library


def names(library: Library, query: str, k: int = 10) -> list[str]:
    return [result.name for result in library.search(query, k)]


def found(library: Library, query: str) -> Found:
    return [(one.name, one.score, one.why) for one in library.search(query, 50)]


# --- the embedder that comes with the extra --------------------------------------------------------------------------


@needs_extra
@pytest.mark.each(("query", "expected"), [("automobile", "drive"), ("dinner recipe", "cook"), ("rainstorm", "weather")])
def test_a_skill_is_found_that_shares_no_word_with_the_query(query: str, expected: str) -> None:
    library = Library.from_files(
        skill("drive", "Drive a car on the road."),
        skill("cook", "Prepare a meal in the kitchen."),
        skill("weather", "Forecast storms, rain and wind."),
        skill("sql", "Tune database queries."),
    )
    result = library.search(query)[0]
    assert (result.name, result.why) == (expected, "similar meaning")
    library.embed_with(None)
    assert library.search(query) == []


@needs_extra
@pytest.mark.parametrize("value", ["off", "OFF", "0", "no", "false"])
def test_vectors_can_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_VECTORS", value)
    library = Library.from_files(skill("drive", "Drive a car on the road."), skill("sql", "Tune queries."))
    assert names(library, "automobile") == []
    assert names(library, "car") == ["drive"]


def test_without_the_extra_words_alone_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    library = Library.from_files(skill("drive", "Drive a car on the road."))
    assert names(library, "car") == ["drive"]
    assert names(library, "automobile") == []
    library.embed_with(WordVectors())
    with pytest.raises(SearchUnavailable) as caught:
        library.search("car")
    assert "metier[vectors]" in caught.value.hint


@needs_extra
def test_word_vectors_have_length_1_and_do_not_depend_on_company() -> None:
    embedder = WordVectors()
    texts = ["fill a form", "", "the of and", "x" * 100_000, "技能 👩‍👩‍👧 \x00", "fill a form"]
    rows = embedder.embed(texts)
    lengths = numpy.linalg.norm(rows, axis=1)
    assert rows.dtype == numpy.float32
    assert numpy.isfinite(rows).all()
    assert all(abs(length - 1) < 1e-5 or length == 0 for length in lengths)
    assert (rows[0] == rows[5]).all()
    assert (rows[0] == embedder.embed(["fill a form"])[0]).all()


@needs_extra
def test_whatever_is_typed_gives_results() -> None:
    library = Library.from_files(skill("drive", "Drive a car on the road."), skill("sql", "Tune queries."))
    for query in ("", " ", "the of and", "!!!", "\x00", "👩‍👩‍👧", "x" * 100_000, "NOT (", '"to be"'):
        assert all(0 <= one.score <= 1 for one in library.search(query)), query


@needs_extra
@pytest.mark.each("query", ["\ud800", "drive \udcff car"])
def test_text_that_is_no_valid_unicode_can_be_searched_for(query: str) -> None:
    library = Library.from_files(skill("drive", "Drive a car on the road."))
    assert set(names(library, query)) <= {"drive"}


# --- an embedder of one's own ----------------------------------------------------------------------------------------


@pytest.mark.each(("query", "expected"), [("scarlet", "paint-wall"), ("navy", "paint-door"), ("jade", "paint-gate")])
def test_an_embedder_of_ones_own_is_used(query: str, expected: str) -> None:
    assert names(painted(), query) == [expected]


def test_without_an_embedder_words_alone_are_searched() -> None:
    library = painted()
    assert names(library, "scarlet") == ["paint-wall"]
    library.embed_with(None)
    assert names(library, "scarlet") == []
    assert names(library, "crimson") == ["paint-wall"]
    library.embed_with(Colours())
    assert names(library, "scarlet") == ["paint-wall"]


def test_the_name_and_the_description_are_embedded_but_not_the_body() -> None:
    embedder = Colours()
    library = painted(skill("jade-ring", "Wear it.", "All navy."), embedder=embedder)
    library.search("scarlet")
    assert "jade ring. Wear it." in embedder.asked
    assert not [text for text in embedder.asked if "navy" in text]


def test_the_first_by_words_stays_the_first() -> None:
    library = painted(skill("words", "About scarlet things, scarlet and only scarlet."))
    assert names(library, "scarlet things")[0] == "words"
    assert names(library, "/paint-door scarlet")[0] == "paint-door"


@pytest.mark.each("query", ["scarlet tag:none", '"scarlet"', "scarlet layer:plugin"])
def test_what_is_near_in_meaning_passes_no_filter(query: str) -> None:
    assert names(painted(), query) == []


def test_a_skill_for_people_is_not_found_by_its_meaning() -> None:
    library = painted(skill("ruby", "Red.", more="disable-model-invocation: true\n"))
    assert names(library, "scarlet") == ["paint-wall"]
    assert "ruby" in [one.name for one in library.search("scarlet", include_unlisted=True)]


def test_scores_lie_between_0_and_1_and_descend() -> None:
    library = painted(skill("two", "Red and blue."), skill("all", "Red, crimson, blue and green paint."))
    for query in ("scarlet", "scarlet navy", "paint scarlet", "red", "/all"):
        scores = [one.score for one in library.search(query)]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


SECRET = "scope: {agents: [secret-agent]}\n"


@pytest.mark.covers("O-100")
@pytest.mark.each("query", ["scarlet", "paint", "azure door"])
def test_a_skill_out_of_scope_is_not_found_by_its_meaning(query: str) -> None:
    library = painted(skill("hidden", "Red.", more=SECRET))
    assert "hidden" not in names(library, query)
    assert "hidden" in names(library.as_caller(agent="secret-agent"), "scarlet")


@pytest.mark.covers("O-100")
def test_a_skill_out_of_scope_changes_no_score_of_those_that_are_near() -> None:
    mixed = skill("mixed", "Red and blue.")
    gone = [files for files in PAINTS if "crimson" not in files["SKILL.md"]]
    without = Library.from_files(*gone, mixed)
    within = Library.from_files(*gone, mixed, skill("hidden", "Red.", more=SECRET))
    for library in (without, within):
        library.embed_with(Colours())
    assert found(within, "scarlet") == found(without, "scarlet")


@pytest.mark.covers("O-100")
def test_a_crowd_out_of_scope_does_not_hide_what_is_near() -> None:
    crowd = [skill(f"hidden-{number}", "Red.", more=SECRET) for number in range(150)]
    library = Library.from_files(*crowd, skill("mixed", "Red and blue."))
    library.embed_with(Colours())
    assert names(library, "scarlet") == ["mixed"]


def test_a_crowd_that_is_not_for_models_does_not_hide_what_is_near() -> None:
    crowd = [skill(f"unlisted-{number}", "Red.", more="disable-model-invocation: true\n") for number in range(150)]
    library = Library.from_files(*crowd, skill("mixed", "Red and blue."))
    library.embed_with(Colours())
    assert names(library, "scarlet") == ["mixed"]


# --- kept between processes ------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, write_skill: Write) -> Path:
    for name, colour in (("wall", "crimson"), ("door", "azure"), ("gate", "emerald")):
        write_skill(tmp_path / "skills" / name, description=f"Paint it {colour}.")
    return tmp_path / "skills"


def opened(folder: Path, cache: Path, embedder: Embedder | None) -> Library:
    library = Library.from_folder(folder, cache=cache)
    library.embed_with(embedder)
    return library


@pytest.mark.usefixtures("settled")
def test_vectors_are_made_only_for_what_is_new(
    folder: Path, tmp_path: Path, write_skill: Write, next_tick: Callable[[Path], None]
) -> None:
    first, second = Colours(), Colours()
    assert names(opened(folder, tmp_path / "cache", first), "scarlet") == ["wall"]
    assert len(first.asked) == 4  # three skills and the query
    library = opened(folder, tmp_path / "cache", second)
    assert names(library, "scarlet") == ["wall"]
    assert second.asked == ["scarlet"]
    next_tick(folder / "door" / "SKILL.md")
    write_skill(folder / "door", description="Paint it scarlet.")
    write_skill(folder / "roof", description="Paint it jade.")
    library.refresh()
    second.asked.clear()
    assert set(names(library, "red")) == {"wall", "door"}
    assert sorted(second.asked) == ["door. Paint it scarlet.", "red", "roof. Paint it jade."]


@pytest.mark.usefixtures("settled")
def test_vectors_of_another_model_are_made_again(folder: Path, tmp_path: Path) -> None:
    class Shifted(Colours):
        name = "colours-2"
        SAME = ({"red", "navy"}, {"crimson"}, {"azure", "emerald", "scarlet"})

    assert names(opened(folder, tmp_path / "cache", Colours()), "scarlet") == ["wall"]
    other = Shifted()
    assert set(names(opened(folder, tmp_path / "cache", other), "scarlet")) == {"door", "gate"}
    assert len(other.asked) == 4
    assert names(opened(folder, tmp_path / "cache", Colours()), "scarlet") == ["wall"]


@pytest.mark.usefixtures("settled")
def test_a_removed_skill_is_not_found_by_its_meaning(folder: Path, tmp_path: Path) -> None:
    library = opened(folder, tmp_path / "cache", Colours())
    library.search("scarlet")
    (folder / "wall" / "SKILL.md").unlink()
    library.refresh()
    assert names(library, "scarlet") == names(opened(folder, tmp_path / "cache", Colours()), "scarlet") == []


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param("x'0011'", id="of different sizes"),
        pytest.param("x'00'", id="odd"),
        pytest.param("zeroblob(0)", id="empty"),
        pytest.param(
            "x'ffffffffffff'",
            id="no numbers",
        ),
    ],
)
def test_damaged_vectors_are_made_again(
    folder: Path, tmp_path: Path, data: str, request: pytest.FixtureRequest
) -> None:
    opened(folder, tmp_path / "cache", Colours()).search("scarlet")
    gc.collect()
    (file,) = (tmp_path / "cache").glob("search-*")
    connection = sqlite3.connect(file)
    where = "WHERE id = 1" if "different" in request.node.callspec.id else ""
    connection.execute(f"UPDATE vector SET data = {data} {where}")
    connection.commit()
    connection.close()
    assert names(opened(folder, tmp_path / "cache", Colours()), "scarlet") == ["wall"]


@needs_extra
@pytest.mark.usefixtures("settled")
def test_vectors_made_in_one_process_are_used_in_the_next(folder: Path, tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "real = time.time_ns\n"
        "time.time_ns = lambda: real() + 10_000_000_000\n"
        "from metier import Library\n"
        "print([one.name for one in Library.from_folder(sys.argv[1], cache=sys.argv[2]).search('scarlet')])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    embedder = Watched()
    assert str(names(opened(folder, tmp_path / "cache", embedder), "scarlet")) == told.stdout.strip()
    assert embedder.asked == ["scarlet"]


class Watched(WordVectors):
    """The usual embedder, watched."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[numpy.float32]:
        self.asked.extend(texts)
        return super().embed(texts)
