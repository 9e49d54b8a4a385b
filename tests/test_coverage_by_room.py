"""The table of `make coverage`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from coverage import CoverageData
from tests.coverage_by_room import by_room, main, table


def measured(lines: int, covered: int, branches: int = 0, taken: int = 0) -> dict[str, Any]:
    return {
        "summary": {
            "num_statements": lines,
            "covered_lines": covered,
            "num_branches": branches,
            "covered_branches": taken,
        }
    }


def test_modules_count_for_their_room_with_lines_and_branches() -> None:
    files = {
        "src/metier/run/job.py": measured(80, 80, 20, 20),
        "src/metier/run/native/runner.py": measured(80, 60, 20, 5),
        "src\\metier\\_paths.py": measured(10, 10),
    }
    lines, below = table(by_room(files), 85)
    assert below == ["run"]
    assert lines[1].split() == ["run", "160", "40", "82.5", "%", "below", "85", "%"]
    assert lines[2].split() == ["run/native/runner.py", "65.0", "%"]
    assert lines[4].split() == ["the", "package", "10", "0", "100.0", "%"]
    assert lines[-1] == "Below 85 %: run"
    lines, below = table(by_room(files), 82.5)
    assert (below, lines[-1]) == ([], "Every room is at 82.5 % or above.")


@pytest.mark.parametrize(("least", "code"), [("70", 1), ("60", 0)])
def test_a_room_below_the_least_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], least: str, code: int
) -> None:
    module = tmp_path / "src/metier/scan/rule.py"
    module.parent.mkdir(parents=True)
    module.write_text("one = 1\nif one:\n    two = 2\nelse:\n    two = 3\n")
    (tmp_path / ".coveragerc").write_text("[run]\nbranch = true\n")
    data = CoverageData(str(tmp_path / ".coverage"))
    data.add_arcs({str(module): [(-1, 1), (1, 2), (2, 3), (3, -1)]})  # three lines of four, one branch of two
    data.write()
    for variable in ("COVERAGE_FILE", "COVERAGE_RCFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["coverage_by_room", least])
    assert main() == code
    assert "66.7 %" in capsys.readouterr().out
