"""Every text that a model can get, in each dialect, from our own agents and over MCP: made for a model to read."""

from __future__ import annotations

import re
import sys
import tempfile
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


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> list[ModelText]:
    """All of them, provoked where nothing of this machine counts."""
    return list(model_texts(tmp_path_factory.mktemp("texts")))


def found(texts: list[ModelText], pattern: re.Pattern[str]) -> list[str]:
    """The places that a pattern finds, each with the text that it stands in."""
    return [
        f"[{one.reader}] {one.occasion}: …{one.text[max(0, place.start() - 60) : place.end() + 60]}…"
        for one in texts
        for place in pattern.finditer(one.text)
    ]


@pytest.mark.covers("ACC-13")
def test_no_text_for_a_model_has_a_command_line_for_people(texts: list[ModelText]) -> None:
    assert found(texts, COMMAND) == []


@pytest.mark.covers("ACC-13")
def test_no_text_for_a_model_has_python_code(texts: list[ModelText]) -> None:
    assert found(texts, PYTHON) == []


@pytest.mark.covers("ACC-13")
def test_no_text_for_a_model_names_a_tool_that_it_has_not(texts: list[ModelText]) -> None:
    known = {*CONTROL_TOOLS, *(name for one in texts for name in one.tools)} - AMBIGUOUS
    wrong = [
        f"[{one.reader}] {one.occasion}: {name}"
        for one in texts
        for name in sorted(known - one.tools)
        if re.search(rf"(?<![\w.]){re.escape(name)}\b", one.text)
    ]
    assert wrong == []


@pytest.mark.covers("ACC-13")
def test_no_text_for_a_model_has_a_path_of_this_machine(
    texts: list[ModelText], tmp_path_factory: pytest.TempPathFactory
) -> None:
    places = {tempfile.gettempdir(), str(tmp_path_factory.getbasetemp()), str(Path.home()), str(ROOT), sys.prefix}
    assert found(texts, re.compile("|".join(f"{re.escape(place)}/[^<>\"' ]*" for place in sorted(places)))) == []


@pytest.mark.covers("ACC-13")
def test_every_refusal_that_a_model_can_meet_is_among_them(texts: list[ModelText]) -> None:
    codes = {code for one in texts for code in re.findall(r"^Error \[([a-z-]+)\]", one.text, re.MULTILINE)}
    assert codes >= EXPECTED


@pytest.mark.covers("ACC-13")
def test_every_refusal_says_what_to_do_next(texts: list[ModelText]) -> None:
    errors = [one for one in texts if one.text.startswith("Error [")]
    short = [one.text for one in errors if one.text.splitlines()[0].count(". ") + one.text.count("? ") < 1]
    assert short == []
