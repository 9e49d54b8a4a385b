"""The tier of scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metier.proof.report import CaseResult, TierResult
from metier.proof.scripts import run_scripts
from metier.proof.subject import subject_of
from metier.proof.suite import Assertion, Environment, ScriptCase, Suite, TextMatch
from metier.run import PlainRunner
from metier.run.selection import AutoRunner
from metier.session import job_sandbox
from metier.testing import library, skill

sandboxed = pytest.mark.skipif(not AutoRunner().capabilities().isolates_files, reason="there is no sandbox here")

SUM = """
import csv, os, sys
rows = list(csv.reader(open(sys.argv[1])))
total = sum(int(row[1]) for row in rows[1:])
open("out.txt", "w").write(f"{total} {sys.stdin.read()} {os.environ.get('UNIT', '')}")
print('{"total": %d}' % total)
sys.exit(0 if total else 3)
"""


def tier_of(code: str, *cases: ScriptCase, name: str = "sum.py", **fields: Any) -> TierResult:
    """The tier of a skill with one script."""
    files = {f"scripts/{name}": code, "evals/in.csv": "secret"}
    entry = library(skill("sums", files=files, **fields)).get("sums")
    with subject_of(entry, Suite(scripts=cases), network=True) as subject:
        return run_scripts(subject)


def case_of(code: str, *expects: Assertion, name: str = "sum.py", **fields: Any) -> CaseResult:
    (found,) = tier_of(
        code, ScriptCase(id="1", script=f"scripts/{name}", assertions=expects, **fields), name=name
    ).cases
    return found


def write_policy(home: Path, text: str) -> None:
    (home / ".metier").mkdir(exist_ok=True)
    (home / ".metier" / "policy.yaml").write_text(text)


def printed(text: str) -> Assertion:
    return Assertion(kind="stdout", match=TextMatch(equals=text))


@sandboxed
def test_a_script_gets_files_arguments_input_and_variables_and_is_graded_by_what_it_did() -> None:
    expects = (
        Assertion(kind="exit", value=0),
        Assertion(kind="stdout", match=TextMatch(json={"total": 5})),
        Assertion(kind="file", target="out.txt", match=TextMatch(equals="5 in EUR")),
        Assertion(kind="unchanged", target="data/in.csv"),
        Assertion(kind="changed-only", paths=("out.txt",)),
        Assertion(kind="seconds", value=20),
    )
    environment = Environment(files={"data/in.csv": b"n,v\na,2\nb,3\n"}, env={"UNIT": "EUR"})
    found = case_of(SUM, *expects, args=("data/in.csv",), stdin="in", environment=environment)
    assert (found.verdict, found.reason) == ("passed", "")
    assert found.data["exit_code"] == 0
    assert [row["passed"] for row in found.data["grades"]] == [True] * 6


@sandboxed
def test_without_assertions_a_script_must_exit_with_0() -> None:
    environment = Environment(files={"in.csv": b"n,v\n"})
    found = case_of(SUM, args=("in.csv",), environment=environment)
    assert (found.verdict, found.reason) == ("failed", "exit: The exit code is 3 and not 0.")


@sandboxed
def test_each_case_has_a_workspace_of_its_own() -> None:
    code = "import os; print(os.path.exists('left.txt')); open('left.txt', 'w')"
    cases = [ScriptCase(id=str(n), script="scripts/sum.py", assertions=(printed("False"),)) for n in range(2)]
    assert [case.verdict for case in tier_of(code, *cases).cases] == ["passed", "passed"]


@sandboxed
@pytest.mark.each(
    ("code", "text"),
    [
        ("import time; print(int(time.time()), time.strftime('%F'), time.gmtime().tm_year)",
         "1925089445 2031-01-02 2031"),
        ("from datetime import datetime; print(datetime.now().isoformat())", "2031-01-02T03:04:05"),
        ("from datetime import UTC, datetime; print(datetime.now(UTC).isoformat())", "2031-01-02T03:04:05+00:00"),
        ("import datetime as d; print(d.date.today(), isinstance(d.datetime.fromtimestamp(5), d.date))",
         "2031-01-02 True"),
        ("import datetime as d; print((d.datetime.now() - d.timedelta(days=2)).date(), d.date(2020, 1, 1))",
         "2030-12-31 2020-01-01"),
        ("import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', "
         "'import time; print(time.ctime())']).decode())", "Thu Jan  2 03:04:05 2031"),
        ("import os; print(os.environ['METIER_NOW'], os.environ['SOURCE_DATE_EPOCH'])",
         "2031-01-02T03:04:05+00:00 1925089445"),
    ],
)  # fmt: skip
def test_python_is_told_the_moment_of_a_case(code: str, text: str) -> None:
    environment = Environment(now="2031-01-02T05:04:05+02:00", env={"TZ": "UTC"})
    found = case_of(code, printed(text), environment=environment)
    assert found.verdict == "passed", (found.reason, found.data)


def test_a_moment_that_is_none_fails_its_case_with_a_hint() -> None:
    found = case_of("", environment=Environment(now="yesterday"))
    assert (found.verdict, found.reason) == ("failed", "'yesterday' is no moment.")
    assert "2026-01-31" in found.hint


@sandboxed
def test_a_script_that_is_not_there_fails_and_the_next_case_is_run() -> None:
    gone, here = ScriptCase(id="gone", script="scripts/gone.py"), ScriptCase(id="here", script="scripts/sum.py")
    found = tier_of("", gone, here)
    assert [case.verdict for case in found.cases] == ["failed", "passed"]
    assert found.cases[0].reason == "Script not found: skill 'sums' has no scripts/gone.py."
    assert "scripts/sum.py" in found.cases[0].hint


def test_a_machine_without_a_sandbox_skips_with_the_way_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_sandbox, "_default_runner", PlainRunner)
    found = case_of("print(1)")
    assert (found.verdict, found.data["code"]) == ("skipped", "isolation-missing")
    assert "bubblewrap" in found.hint


def test_what_policy_denies_fails_with_its_reason(own_home: Path) -> None:
    write_policy(own_home, "run:\n  scripts: deny\n")
    found = case_of("print(1)")
    assert (found.verdict, found.data["code"]) == ("failed", "scripts-denied")
    assert "not allowed here" in found.reason


@sandboxed
def test_a_host_that_a_case_names_is_asked_of_policy(own_home: Path) -> None:
    write_policy(own_home, "run:\n  network: none\n")
    code = "import os; print('proxy' if 'HTTPS_PROXY' in os.environ else 'nothing')"
    found = case_of(code, printed("nothing"), environment=Environment(network=("example.com",)))
    assert found.verdict == "passed", found.data
    write_policy(own_home, "run:\n  network: restricted\n  hosts: [example.com]\n")
    assert case_of(code, printed("proxy"), environment=Environment(network=("example.com",))).verdict == "passed"


def test_a_case_that_names_a_host_is_left_out_and_said_unless_whoever_tests_wants_it() -> None:
    (entry,) = library(skill("adder", files={"scripts/sum.py": "print(1)"}))
    case = ScriptCase(id="1", script="scripts/sum.py", environment=Environment(network=("example.com",)))
    with subject_of(entry, Suite(scripts=(case,))) as subject:
        assert run_scripts(subject).verdict == "skipped"
        (note,) = subject.suite.notes
    assert "example.com" in note.message and not note.is_error


@sandboxed
def test_an_assertion_about_agents_is_no_pass_of_a_script() -> None:
    found = case_of("", Assertion(kind="exit"), Assertion(kind="not-called", target="Bash"))
    assert found.verdict == "skipped"
    assert "about an agent" in found.reason


def test_a_suite_without_scripts_says_so() -> None:
    assert tier_of("").reason == "The suite has no case of this tier."
