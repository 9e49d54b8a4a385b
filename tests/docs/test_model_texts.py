"""Every text that a model can get, in each dialect, from our own agents and over MCP: made for a model to read."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.dialect import CONTROL_TOOLS

ROOT = Path(__file__).parents[2]
DOCS = str(ROOT / "docs")
AMBIGUOUS = {"skill", "Read", "Write", "Edit", "Bash"}
"""Tools that are called by words of English, or that rules of policies name."""
COMMAND = re.compile(r"\bmetier [a-z]|pip install|\bMETIER_[A-Z]|\bchmod\b|\bexport [A-Z]|--[a-z]+[ =][A-Z]{2,}")
"""A command line that only people can use."""
PYTHON = re.compile(
    r"\b(?:session|library|guard|executor|agent|workspace)\.[a-z]+\(|\b(?:Policy|Guard|Library)\b\s*[(.]|"
    r"\b[a-z_]+='[a-z]+'|\b[a-z_]+=\[|\bawait |\blambda\b"
)
EXPECTED = {
    *("approval-denied", "approval-needed", "digest-mismatch", "file-missing", "file-refused", "hooks-denied"),
    *("invalid-argument", "invalid-arguments", "isolation-missing", "name-reserved", "not-for-models", "rule-denied"),
    *("policy-unreadable", "proposal-invalid", "protected-place", "script-read", "script-unsupported"),
    *("scripts-denied", "session-not-found", "skill-blocked", "skill-denied", "skill-invalid", "skill-not-active"),
    *("skill-not-found", "skill-quarantined", "skill-unreadable", "skill-untrusted", "store-unavailable"),
    *("tool-not-allowed", "tool-not-found", "activation-failed", "exit-code", "command-failed"),
}
"""The codes of errors and refusals that a model can meet, and that are provoked here."""

sys.path.insert(0, DOCS)
from model_texts import ModelText, model_texts  # noqa: E402


@pytest.fixture(scope="module", params=[4, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[ModelText]:
    """All of them, provoked where nothing of this machine counts; in `make test`, most scenes in one dialect."""
    return list(model_texts(tmp_path_factory.mktemp("texts"), every=request.param))


def found(texts: list[ModelText], pattern: re.Pattern[str]) -> list[str]:
    """The places that a pattern finds, each with the text that it stands in."""
    return [
        f"[{one.reader}] {one.occasion}: …{one.text[max(0, place.start() - 60) : place.end() + 60]}…"
        for one in texts
        for place in pattern.finditer(one.text)
    ]


def command_lines_for_people(texts: list[ModelText]) -> list[str]:
    return found(texts, COMMAND)


def python_code(texts: list[ModelText]) -> list[str]:
    return found(texts, PYTHON)


def tools_that_the_reader_has_not(texts: list[ModelText]) -> list[str]:
    known = {*CONTROL_TOOLS, *(name for one in texts for name in one.tools)} - AMBIGUOUS
    return [
        f"[{one.reader}] {one.occasion}: {name}"
        for one in texts
        for name in sorted(known - one.tools)
        if re.search(rf"(?<![\w.]){re.escape(name)}\b", one.text)
    ]


def paths_of_this_machine(texts: list[ModelText]) -> list[str]:
    home = Path.home()  # one of many in the folder of all tests
    places = {tempfile.gettempdir(), str(home), str(home.parents[1]), str(ROOT), sys.prefix}
    return found(texts, re.compile("|".join(f"{re.escape(place)}/[^<>\"' ]*" for place in sorted(places))))


def refusals_that_were_not_provoked(texts: list[ModelText]) -> list[str]:
    codes = {code for one in texts for code in re.findall(r"^Error \[([a-z-]+)\]", one.text, re.MULTILINE)}
    return sorted(EXPECTED - codes)


def refusals_that_do_not_say_what_to_do_next(texts: list[ModelText]) -> list[str]:
    errors = [one for one in texts if one.text.startswith("Error [")]
    return [one.text for one in errors if one.text.splitlines()[0].count(". ") + one.text.count("? ") < 1]


@pytest.mark.covers("ACC-13")
@pytest.mark.each(
    "forbidden",
    [
        command_lines_for_people,
        python_code,
        tools_that_the_reader_has_not,
        paths_of_this_machine,
        refusals_that_were_not_provoked,
        refusals_that_do_not_say_what_to_do_next,
    ],
)
def test_texts_for_models_have_no(forbidden: Callable[[list[ModelText]], list[str]], texts: list[ModelText]) -> None:
    """One test: all texts are made once, however many processes run tests."""
    assert forbidden(texts) == []
