"""The marker `each`: a table of cases is one test, and a case that fails can be run again alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.each(("number", "is_odd"), [(1, True), (2, True), (3, True), (4, True)])
def test_numbers(number: int, is_odd: bool) -> None:
    assert (number % 2 == 1) is is_odd

@pytest.mark.parametrize("more", ["[a]", "each"])
@pytest.mark.each("word", ["x", "it's y"])
def test_words(more: str, word: str) -> None:
    assert (more, word) != ("[a]", "it's y")
"""


def run(tmp_path: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    command += ["-p", "tests.conftest", "--basetemp", str(tmp_path / "temporary"), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout


def test_a_case_that_fails_is_run_again_alone_by_its_id(tmp_path: Path) -> None:
    (tmp_path / "test_table.py").write_text(TESTS)
    all_of_them = run(tmp_path, str(tmp_path / "test_table.py"))
    assert "2 failed, 1 passed" in all_of_them
    alone = {shlex.split(words)[0] for words in re.findall(r"alone: pytest (.*)", all_of_them)}
    ids = {"test_numbers[each1]", "test_numbers[each3]", "test_words[each1-[a]]"}
    assert {name.rpartition("::")[2] for name in alone} == ids
    assert "with number, is_odd = (4, True)" in all_of_them
    again = run(tmp_path, *(f"{tmp_path}/{name.rpartition('/')[2]}" for name in sorted(alone)))
    assert "3 failed" in again and "passed" not in again and "error" not in again
    assert "1 passed" in run(tmp_path, f"{tmp_path}/test_table.py::test_numbers[each0]")


def test_a_case_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_table.py").write_text(TESTS)
    assert "no tests ran" in run(tmp_path, f"{tmp_path}/test_table.py::test_numbers[each9]")
