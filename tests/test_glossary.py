"""The words of the code: each concept has the one term that the glossary in ARCHITECTURE.md gives it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.syntax import PACKAGE as SOURCE
from tests.syntax import modules_outside, nodes

ARCHITECTURE = SOURCE.parent.parent / "ARCHITECTURE.md"
NOT_CHECKED = ("bundled", "scan")
"""Skills are data. The rules of the scanner speak of the texts of skills, in the words of these."""


class Text(NamedTuple):
    """A name or a text of the code, and where it stands."""

    place: str
    text: str


def glossary() -> list[tuple[str, list[str]]]:
    """The terms, each with the words that it replaces."""
    table = ARCHITECTURE.read_text().partition("| term | meaning | retired |\n")[2].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    return [(row[0], [word for word in re.split(r",\s*", row[2]) if word]) for row in rows]


def texts_of(path: Path) -> Iterator[Text]:
    """The module's own name, all identifiers, docstrings and messages."""
    where = str(path.relative_to(SOURCE))
    yield Text(where, path.stem)
    for node in nodes(path):
        place = f"{where}:{getattr(node, 'lineno', 1)}"
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Text(place, node.name)
        elif isinstance(node, ast.Name):
            yield Text(place, node.id)
        elif isinstance(node, ast.Attribute):
            yield Text(place, node.attr)
        elif isinstance(node, ast.arg):
            yield Text(place, node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(place, node.value)


def may_have(path: Path, retired: Iterable[str]) -> bool:
    """Whether one of these words may be in a module: most modules have none, and need not be parsed."""
    code = re.sub(r"\\[a-z]", " ", path.read_text("utf-8"))
    in_one_piece = re.sub(r"""["']\s+[a-z]*["']""", "", code)
    return not {*words(code), *words(in_one_piece), *words(path.stem)}.isdisjoint(retired)


def names() -> Iterator[Text]:
    """The names of all modules, classes and functions."""
    for path in modules_outside(*NOT_CHECKED):
        where = str(path.relative_to(SOURCE))
        yield Text(where, path.stem)
        yield from (Text(where, name) for name in re.findall(r"\b(?:def|class)\s+(\w+)", path.read_text("utf-8")))


def words(text: str) -> list[str]:
    """The words of an identifier or a sentence, in small letters.

    >>> words("_shelfOf the_cage")
    ['shelf', 'of', 'the', 'cage']
    """
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def plain(name: str) -> str:
    """A name without case and underscores, as `ChainLog` and `chain_log` are one."""
    return name.strip("`").replace("_", "").lower()


def test_no_retired_word_is_left_in_names_docstrings_and_messages() -> None:
    retired = {word: term for term, gone in glossary() for word in gone if not word.startswith("`")}
    assert "cage" in retired
    wrong = [
        f"{text.place}: {word} ({retired[word]}): {text.text[:80]!r}"
        for path in modules_outside(*NOT_CHECKED)
        if may_have(path, retired)
        for text in texts_of(path)
        for word in retired.keys() & words(text.text)
    ]
    assert wrong == []


def test_no_retired_name_is_a_module_class_or_function() -> None:
    retired = {plain(word): term for term, gone in glossary() for word in gone if word.startswith("`")}
    assert "chainlog" in retired
    wrong = [
        f"{name.place}: {name.text} ({retired[plain(name.text)]})" for name in names() if plain(name.text) in retired
    ]
    assert wrong == []


def test_a_term_of_the_glossary_is_retired_nowhere_in_it() -> None:
    terms = {term for term, _ in glossary()}
    assert not [word for _, gone in glossary() for word in gone if word.strip("`").lower() in terms]


QUESTIONS = [
    "What",
    "Who",
    "Whoever",
    "Whose",
    "Where",
    "Wherever",
    "Which",
    "How",
    "Why",
    "When",
    "Somebody",
    "Someone",
]


def test_docstrings_have_a_noun_or_a_verb_as_their_subject() -> None:
    wrong = []
    begins = re.compile(rf"[\"'](?:\\\\n|\s)*(?:{'|'.join(QUESTIONS)})\b")
    for path in modules_outside(*NOT_CHECKED):
        for node in nodes(path) if begins.search(path.read_text("utf-8")) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or "x").split()[0]
                if first in QUESTIONS:
                    wrong.append(f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 1)}: {ast.get_docstring(node)}")
    assert wrong == []


EMPTY_NAMES = {"_told", "_said", "_made", "_named", "_plain", "_found", "_given", "_kept", "_meant"}


def test_helpers_are_named_for_what_they_return() -> None:
    assert [name for name in names() if name.text in EMPTY_NAMES] == []


def test_architecture_names_only_files_that_are_there() -> None:
    text = ARCHITECTURE.read_text()
    paths = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|md))`", text))
    assert len(paths) > 30
    root = ARCHITECTURE.parent
    assert [path for path in sorted(paths) if not any((base / path).exists() for base in (SOURCE, root))] == []


def test_architecture_names_only_classes_and_tables_that_are_there() -> None:
    guide = ARCHITECTURE.read_text().partition("## Glossary")[0].replace("`SKILL.md`", "")
    named = {part for name in re.findall(r"`([A-Za-z_.]+)`", guide) for part in name.split(".") if part[:1].isupper()}
    code = "\n".join(path.read_text() for path in (*SOURCE.rglob("*.py"), ARCHITECTURE.parent / "docs/generate.py"))
    assert len(named) > 30
    assert sorted(named - set(re.findall(r"\b[A-Z]\w*", code))) == []
