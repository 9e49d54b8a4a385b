"""The marker `each`: a table of cases is one test, and a case that fails can be run again alone."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.each(("number", "is_odd"), [(1, True), (2, True), (3, True), (4, True)])
def test_numbers(number: int, is_odd: bool) -> None:
    assert (number % 2 == 1) is is_odd

@pytest.mark.each("number", range(5), every=2)
def test_parts(number: int) -> None:
    assert number == 2

@pytest.mark.parametrize("more", ["[a]", "each"])
@pytest.mark.each("word", ["x", "it's y"])
def test_words(more: str, word: str) -> None:
    assert (more, word) != ("[a]", "it's y")
"""
SKIPPING = """
import pytest

@pytest.mark.each("number", [1, 2, 3])
def test_some(number: int) -> None:
    if number == 2:
        pytest.skip("not the second")
    assert number != 3

@pytest.mark.each("number", [1, 2])
def test_none(number: int) -> None:
    pytest.skip("none of them")
"""
STRANGE = """
import pytest

@pytest.mark.each("number", [1, pytest.param(2)])
def test_numbers(number: int) -> None:
    pass
"""
ONCE = """
import pytest

@pytest.mark.each("number", iter([1]))
def test_numbers(number: int) -> None:
    pass
"""
RUNS = """
import contextlib, io, json, sys
import pytest

outputs = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        pytest.main(words)
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""
"""One interpreter for all command lines: to start it takes far longer than these tests."""
FAILING = {"test_numbers[each1]", "test_numbers[each3]", "test_words[each1-[a]]"}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What is said of all cases, those that fail, a good one, an absent one, parts, no tables, and those that skip."""
    folder = tmp_path_factory.mktemp("table")
    table = folder / "test_table.py"
    table.write_text(TESTS)
    (folder / "test_strange.py").write_text(STRANGE)
    (folder / "test_once.py").write_text(ONCE)
    skipping = folder / "test_skipping.py"
    skipping.write_text(SKIPPING)
    common = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.conftest"]
    # Without `--confcutdir`, all folders beside those above are looked at as well.
    common += ["--confcutdir", str(folder), "--basetemp", str(folder / "temporary")]
    numbers, parts = f"{table}::test_numbers", f"{table}::test_parts"
    asked = [
        [str(table), "-k", "not test_parts"],
        [f"{table}::{name}" for name in sorted(FAILING)],
        [f"{numbers}[each0]"],
        [f"{numbers}[each9]"],
        [parts, "-m", "not slow"],
        [parts, "-m", "slow"],
        [str(folder / "test_strange.py")],
        [str(folder / "test_once.py")],
        [str(skipping)],
        [f"{skipping}::test_some[each1]"],
        [str(skipping), "--workers", "2"],
    ]
    words = json.dumps([[*common, *which] for which in asked])
    command = [sys.executable, "-c", RUNS, words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return list(json.loads(done.stdout))


def test_a_case_that_fails_is_run_again_alone_by_its_id(outputs: list[str]) -> None:
    all_of_them, again, one, *_ = outputs
    assert "2 failed, 1 passed" in all_of_them
    alone = {shlex.split(words)[0] for words in re.findall(r"alone: pytest (.*)", all_of_them)}
    assert {name.rpartition("::")[2] for name in alone} == FAILING
    assert "with number, is_odd = (4, True)" in all_of_them
    assert "3 failed" in again and "passed" not in again and "error" not in again
    assert "1 passed" in one


def test_a_case_that_is_not_there_is_an_error(outputs: list[str]) -> None:
    assert "no tests ran" in outputs[3]


def test_only_some_cases_of_a_table_are_quick(outputs: list[str]) -> None:
    quick, slow = (sorted(re.findall(r"alone: pytest \S*::test_parts\[each(\d)\]", text)) for text in outputs[4:6])
    assert (quick, slow) == (["0", "4"], ["1", "3"])
    assert all("1 failed, 1 deselected" in text for text in outputs[4:6])


def test_what_would_not_be_tried_as_it_is_written_is_an_error(outputs: list[str]) -> None:
    assert "`pytest.param` is for `parametrize`" in outputs[6] and "1 passed" not in outputs[6]
    assert "can be gone through only once" in outputs[7] and "1 passed" not in outputs[7]


def test_a_case_is_skipped_alone_for_its_own_reason(outputs: list[str]) -> None:
    tables, alone, by_workers = outputs[8:]
    for text in (tables, by_workers):
        assert "1 failed, 2 skipped" in text and "alone: pytest" in text
        assert re.search(r"^SKIPPED \[1\] \S*test_skipping.py:4: not the second$", text, re.M)
        assert re.search(r"^SKIPPED \[1\] \S*test_skipping.py:10: none of them$", text, re.M)
    assert "1 skipped" in alone and "not the second" in alone
