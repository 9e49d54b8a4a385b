"""Word vectors of short texts: without numpy and the packages of `metier[vectors]`, and the same as with them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import metier.find.vectors
import metier.find.word_vectors
from metier import Library
from metier.find import WordVectors
from metier.find.word_vectors import package_folder

pytestmark = pytest.mark.skipif(
    metier.find.vectors.default_embedder() is None, reason="metier[vectors] is not installed"
)
words = st.text("abeginorst 0x<>/-_=#.\"\\'éß▁漢", max_size=40)
any_text = st.one_of(st.text(max_size=60), words)

TEXTS = (
    "fill a form",
    "",
    "the of and",
    "Analyse CSV files: column types, missing values, and charts!",
    "技能 👩‍👩‍👧 \x00 naïve Übung",
    'say "yes" or \\no',
    "=================== ababababa ooooooooo",
    "<0x41> <0xE2>",
)
LEFT_TO_THE_PACKAGES = ("a <s> b", "</s>", "<unk>", "a\u2581b", "x" * 65, "word " * 2_000, "\ud800")


@pytest.fixture(scope="module")
def embedder() -> WordVectors:
    return WordVectors()


def difference(embedder: WordVectors, text: str) -> float | None:
    """The largest difference of two vectors of a text, made by either way; None if there is only one."""
    try:
        short = embedder.embed_short([text])
        return None if short is None else float(numpy.abs(numpy.array(short[0]) - embedder.embed([text])[0]).max())
    except UnicodeEncodeError:
        return None


def tokens(embedder: WordVectors, text: str) -> tuple[list[int], list[int]] | None:
    """The tokens of a text by either way."""
    embedder.embed_short([""])
    vocabulary = embedder._vocabulary
    assert vocabulary is not None
    try:
        return vocabulary.tokens(text), embedder._model()[0].encode(text, add_special_tokens=False).ids
    except ValueError:
        return None


@pytest.mark.parametrize("text", TEXTS)
def test_a_short_text_has_the_vector_that_the_packages_give(embedder: WordVectors, text: str) -> None:
    found = difference(embedder, text)
    assert found is not None
    assert found < 1e-6


@given(any_text)
@example('▁ "')
def test_any_text_has_the_vector_that_the_packages_give_or_is_left_to_them(text: str) -> None:
    found = difference(EMBEDDER, text)
    assert found is None or found < 1e-6


@given(any_text.map(lambda text: " ".join(text.split())))
def test_any_text_has_the_tokens_of_the_tokenizer(text: str) -> None:
    found = tokens(EMBEDDER, text)
    assert found is None or found[0] == found[1]


EMBEDDER = WordVectors()
"""One for all examples: reading the model takes longer than all of them."""


@pytest.mark.parametrize("text", LEFT_TO_THE_PACKAGES)
def test_what_is_no_short_text_of_words_is_left_to_the_packages(embedder: WordVectors, text: str) -> None:
    assert embedder.embed_short([text]) is None
    assert embedder.embed_short(["a form", text]) is None


@pytest.mark.slow
def test_the_rules_of_the_tokenizer_follow_from_its_vocabulary() -> None:
    path = Path(package_folder("wordllama", "", ""), metier.find.word_vectors._TOKENIZER)
    model = json.loads(path.read_bytes())["model"]
    numbers = model["vocab"]
    pairs = [tuple(pair.split(" ")) for pair in model["merges"]]
    # Runs of blanks have an order of their own, and no word has them.
    joined = [(numbers[a + b], numbers[a], numbers[b]) for a, b in pairs if (a + b).strip("\u2581")]
    assert joined == sorted(joined)
    halves = {(one[:at], one[at:]) for one in numbers for at in range(1, len(one))}
    assert set(pairs) == {(a, b) for a, b in halves if a in numbers and b in numbers}
    assert all("\u2581" not in one[1:] for one in numbers if one.strip("\u2581"))
    assert not any(mark in one for one in numbers for mark in "\n\t")


# --- the vocabulary in the cache -------------------------------------------------------------------------------------


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1_000])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[200_000] ^= 1
    file.write_bytes(data)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "damage", [cut, make_folder, *(pytest.param(damage, marks=pytest.mark.slow) for damage in (flip, empty))]
)
def test_a_damaged_vocabulary_is_made_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    first = WordVectors(str(tmp_path)).embed_short(["fill a form"])
    (file,) = tmp_path.glob("tokens-*")
    good = file.read_bytes()
    damage(file)
    assert WordVectors(str(tmp_path)).embed_short(["fill a form"]) == first
    assert file.is_dir() or file.read_bytes() == good


@pytest.mark.parametrize("number", [10**9, 10**30])
def test_a_number_of_no_token_leaves_a_text_to_the_packages(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    table_of = metier.find.word_vectors._table_of
    monkeypatch.setattr(
        "metier.find.word_vectors._table_of", lambda numbers: table_of({**numbers, "\u2581form": number})
    )
    assert WordVectors().embed_short(["fill a form"]) is None


def test_a_vocabulary_of_another_file_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = package_folder("wordllama", "", "")
    package = tmp_path / "wordllama"
    for name in ("tokenizers", "weights"):
        (package / name).mkdir(parents=True)
    for name in (metier.find.word_vectors._TOKENIZER, metier.find.word_vectors._WEIGHTS):
        shutil.copyfile(Path(real, name), package / name)
    monkeypatch.setattr("metier.find.word_vectors.package_folder", lambda *_: str(package))
    cache = str(tmp_path / "cache")
    first = WordVectors(cache).embed_short(["fill a form"])
    assert first is not None
    with open(package / metier.find.word_vectors._TOKENIZER, "a") as file:
        file.write("\n")
    assert WordVectors(cache).embed_short(["fill a form"]) is None
    # And weights of another kind are nothing to read numbers from.
    shutil.copyfile(Path(real, metier.find.word_vectors._TOKENIZER), package / metier.find.word_vectors._TOKENIZER)
    assert WordVectors(cache).embed_short(["fill a form"]) == first
    weights = package / metier.find.word_vectors._WEIGHTS
    weights.write_bytes(weights.read_bytes().replace(b'"F16"', b'"I16"', 1))
    assert WordVectors(cache).embed_short(["fill a form"]) is None


@pytest.mark.skipif(sys.platform == "win32", reason="permissions differ")
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert WordVectors(str(tmp_path / "file" / "cache")).embed_short(["fill a form"]) is not None


# --- the same results ------------------------------------------------------------------------------------------------

SUBJECTS = ("invoice", "photo", "database", "recipe", "holiday", "lesson", "garden", "rocket", "poem", "network")
DEEDS = ("Writes", "Checks", "Translates", "Repairs", "Draws", "Plans")
QUERIES = ("picture", "bill a customer", "cook dinner", "mend a flower bed", "space travel", "rhymes", "zzz", "école")


def test_both_ways_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METIER_VECTORS", raising=False)
    files = [
        {"SKILL.md": f"---\nname: {deed.lower()}-{subject}\ndescription: {deed} a {subject} for you.\n---\nDo it.\n"}
        for deed in DEEDS
        for subject in SUBJECTS
    ]

    def found() -> list[list[tuple[str, float, str]]]:
        library = Library.from_files(*files)
        return [[(one.name, one.score, one.why) for one in library.search(query, 30)] for query in QUERIES]

    short = found()
    monkeypatch.setattr(metier.find.vectors, "FEW", 0)
    monkeypatch.setattr(WordVectors, "embed_short", lambda *_: None)
    assert found() == short
    assert any(short)
