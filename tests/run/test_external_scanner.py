"""Starting another scanner: none of our environment, and an end when it must."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from metier.run.external_scanner import reports_of, start_scanner
from metier.skill import MemoryPackage


def test_a_scanner_gets_none_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "hunter2")
    ended = start_scanner((sys.executable, "-c", "import os; print(sorted(os.environ), os.getcwd())"), str(tmp_path))
    assert "SOME_SECRET" not in ended.stdout
    assert str(tmp_path) in ended.stdout
    assert (ended.exit_code, ended.why_not) == (0, "")


def test_a_scanner_that_takes_too_long_says_why_there_is_no_result(tmp_path: Path) -> None:
    ended = start_scanner((sys.executable, "-c", "import time; time.sleep(60)"), str(tmp_path), seconds=0.2)
    assert "longer than 0.2 s" in ended.why_not


def test_a_scanner_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert start_scanner(("no-such-scanner",), str(tmp_path)).why_not


def test_a_scanner_that_found_something_may_end_with_any_code(tmp_path: Path) -> None:
    ended = start_scanner((sys.executable, "-c", "print('{}'); raise SystemExit(3)"), str(tmp_path))
    assert (ended.exit_code, ended.stdout.strip(), ended.why_not) == (3, "{}", "")


# --- the scanners of a policy -----------------------------------------------------------------------------------------

PACKAGE = MemoryPackage({"SKILL.md": "Say hello."})
SCANNER = """\
print('{"version": "2.1.0", "runs": [{"results": [{"ruleId": "X", "level": "error", "message": {"text": "bad"}}]}]}')
"""


def test_each_scanner_of_a_policy_has_a_report_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "scanner.py").write_text(SCANNER)
    command = shlex.join([sys.executable, "-IS", str(tmp_path / "scanner.py"), "{dir}"])
    commands = {"one": command, "two": "no-such-scanner {dir}", "three": "no folder"}
    reports = reports_of(commands, PACKAGE, name="greet", digest=PACKAGE.digest())
    assert {name: (report.status, report.max_severity) for name, report in reports.items()} == {
        "one": ("ok", "high"),
        "two": ("error", "high"),
        "three": ("error", "high"),
    }
    assert all({found.engine for found in report.findings} == {name} for name, report in reports.items())
    assert {(report.name, report.digest) for report in reports.values()} == {("greet", PACKAGE.digest())}


@pytest.mark.covers("A-30")
def test_a_content_that_is_not_the_one_of_the_digest_is_not_scanned(tmp_path: Path) -> None:
    (tmp_path / "scanner.py").write_text(SCANNER)
    command = shlex.join([sys.executable, "-IS", str(tmp_path / "scanner.py"), "{dir}"])
    (report,) = reports_of({"one": command}, PACKAGE, name="greet", digest=f"sha256:{'0' * 64}").values()
    assert (report.status, [found.rule for found in report.findings]) == ("error", ["SCAN_FAILED"])
    assert "changed" in report.error


def test_no_scanner_means_no_report() -> None:
    assert reports_of({}, PACKAGE, name="greet", digest=PACKAGE.digest()) == {}
